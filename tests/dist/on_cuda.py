"""Rank processes that train on GPUs: rank r on GPU r, or all on the only one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as td

from dist import PackId

from .jobs import loader

SLEEP_CYCLES = 2_000_000  # about a millisecond: what the training loop and the source leave undone on the device


class Held(NamedTuple):
    """What the device's allocator holds, in bytes."""

    reserved: int
    most_allocated: int


def own_device() -> torch.device:
    device = torch.device("cuda", td.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def numbers(rank: int, number: int) -> np.ndarray:
    rng = np.random.default_rng((rank, number))
    return rng.integers(-(2**31), 2**31, int(rng.integers(1, 100_000)))


def packs(n: int, device: torch.device, resident: bool) -> Iterator[object]:
    """Packs of many kinds of tensors. Those of the device are written by work that is still queued when they come."""
    rank = td.get_rank()
    for number in range(n):
        values = torch.from_numpy(numbers(rank, number))
        if resident:
            there = values.to(device)
            torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
            values = there.clone()  # behind the sleep; a copy from memory that is not pinned would wait for it here
        yield {
            "load": 1 + int(numbers(rank, number)[0]) % 97,
            "values": values,
            "half": (values[:7].to(torch.bfloat16), values[:0]),
            "flag": values[0] > 0,
            "note": f"{rank} {number}",
        }


def bit_exact(transport: str, mode: str, overlap: bool, resident: bool, n: int) -> list[tuple[int, int]]:
    """Train; return the packs that came, each after a look at its bytes, which the queue of the device delays."""
    device = own_device()
    balanced = loader(
        packs(n, device, resident),
        loads=lambda pack: pack["load"],
        packs_per_cell=3,
        n_micro_steps=2,
        mode=mode,
        overlap=overlap,
        device=device,
        transport=transport,
    )
    came: list[PackId] = []
    differences = torch.zeros((), dtype=torch.int64, device=device)
    for batch in balanced:
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
        for pack, pack_id in zip(batch.packs, batch.ids, strict=True):
            assert isinstance(pack, dict)
            if pack_id is None:
                continue
            assert pack["note"] == f"{pack_id.rank} {pack_id.number}"
            assert all(each.device == device for each in (pack["values"], *pack["half"], pack["flag"]))
            right = torch.from_numpy(numbers(*pack_id)).pin_memory().to(device, non_blocking=True)
            differences += (pack["values"] != right).sum() + (pack["flag"] != (right[0] > 0))
            differences += (pack["half"][0] != right[:7].to(torch.bfloat16)).sum() + pack["half"][1].numel()
            came.append(pack_id)
        del batch, pack
    balanced.close()
    assert int(differences) == 0
    return sorted((each.rank, each.number) for each in came)


def allocation(transport: str, warm_up: int, steps: int) -> tuple[Held, Held]:
    """Exchange random sizes of 1 to 64 MB; return what is held after the warm-up, and at the end."""
    device = own_device()
    torch.cuda.empty_cache()  # of jobs before this one
    torch.cuda.reset_peak_memory_stats(device)
    rng = np.random.default_rng(td.get_rank())
    memory = torch.ones(64 << 20, dtype=torch.uint8, device=device)

    def endless() -> Iterator[object]:
        while True:
            n_bytes = int(rng.integers(1 << 20, 64 << 20))
            yield {"load": n_bytes, "bytes": memory[:n_bytes]}

    balanced = loader(endless(), loads=lambda pack: pack["load"], packs_per_cell=2, device=device, transport=transport)
    held = []
    for batch in balanced:
        if batch.step in (warm_up, warm_up + steps):
            held.append(Held(torch.cuda.memory_reserved(device), torch.cuda.max_memory_allocated(device)))
            td.barrier()
        if batch.step == warm_up + steps:
            break
        sum(pack["bytes"].sum() for pack in batch.packs)
        del batch
    balanced.close()
    return held[0], held[1]


def contexts_elsewhere(transport: str) -> list[int]:
    """Train; return the bytes that this process holds on each GPU that is not its own."""
    device = own_device()
    bit_exact(transport, "balance", True, True, 12)
    return [torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count()) if i != device.index]
