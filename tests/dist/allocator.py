"""How torch's allocator of device memory lays out blocks: c10/cuda/CUDACachingAllocator.cpp, without its exceptions."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import numpy as np
import torch

from dist.streams import CpuStreams

MB = 1 << 20


@dataclass
class Block:
    """A part of a segment."""

    size: int
    free: bool = True


@dataclass
class Allocator:
    """Takes the smallest block that is large enough, splits what it does not need, joins what is freed."""

    segments: list[list[Block]] = field(default_factory=list)  # blocks in order
    allocated: int = 0
    most_allocated: int = 0

    @property
    def reserved(self) -> int:
        return sum(block.size for segment in self.segments for block in segment)

    def malloc(self, n_bytes: int) -> Block:
        fitting = [
            (block.size, i, j)
            for i, segment in enumerate(self.segments)
            for j, block in enumerate(segment)
            if block.free and block.size >= n_bytes
        ]
        if not fitting:
            size = 20 * MB if n_bytes < 10 * MB else -(-n_bytes // (2 * MB)) * 2 * MB
            self.segments.append([Block(size)])
            fitting = [(size, len(self.segments) - 1, 0)]
        size, i, j = min(fitting)
        block = self.segments[i][j]
        if size - n_bytes > MB:
            block.size = n_bytes
            self.segments[i].insert(j + 1, Block(size - n_bytes))
        block.free = False
        self.allocated += block.size
        self.most_allocated = max(self.most_allocated, self.allocated)
        return block

    def free(self, block: Block) -> None:
        self.allocated -= block.size
        block.free = True
        for i, segment in enumerate(self.segments):
            joined: list[Block] = []
            for each in segment:
                if joined and joined[-1].free and each.free:
                    joined[-1].size += each.size
                else:
                    joined.append(each)
            self.segments[i] = joined


class Modelled(CpuStreams):
    """A device whose memory is laid out so. Nobody writes to it."""

    def __init__(self) -> None:
        self.memory = Allocator()

    def empty(self, n_bytes: int) -> torch.Tensor:
        held = np.empty(n_bytes, dtype=np.uint8)
        if n_bytes:
            weakref.finalize(held, self.memory.free, self.memory.malloc(n_bytes)).atexit = False
        return torch.from_numpy(held)
