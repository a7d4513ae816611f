"""Memory that comes back once nobody refers to it, and never before."""

from __future__ import annotations

import random
import threading

import pytest
import torch

from dist.memory import MOST_IDLE, BufferPool, power_of_two, size_class
from dist.ring import Ring
from dist.upload import LaunchedUpload, Upload

from .allocator import MB, Modelled


def test_a_buffer_comes_back_when_its_last_view_is_dropped() -> None:
    memory = BufferPool()
    first = memory.take(10_000)
    place = first.data_ptr()
    view = first[4096:8192].view(torch.float32)
    del first
    other = memory.take(10_000)
    assert other.data_ptr() != place  # the view keeps it
    del view
    again = memory.take(9_000)
    assert again.data_ptr() == place
    assert (len(again), again.dtype) == (9_000, torch.uint8)
    assert other.data_ptr() != again.data_ptr()


def test_a_buffer_comes_back_from_a_graph_and_from_another_thread() -> None:
    memory = BufferPool()
    kept = [memory.take(4096).view(torch.float32)]
    place = kept[0].data_ptr()
    leaf = torch.ones(1024, requires_grad=True)
    loss = (leaf * kept.pop()).sum()  # saved for backward
    assert memory.take(4096).data_ptr() != place
    loss.backward()  # type: ignore[no-untyped-call]
    assert memory.take(4096).data_ptr() == place
    kept = [memory.take(4096)]
    place = kept[0].data_ptr()
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert memory.take(4096).data_ptr() == place


def test_few_are_kept_and_small_ones_give_way() -> None:
    memory = BufferPool()
    many = [memory.take(1 << 20) for _ in range(10)]
    del many
    assert len(memory._idle) == MOST_IDLE
    large = memory.take(1 << 22)
    assert len(memory._idle) == 0
    assert len(large) == 1 << 22
    outlives = memory.take(5)
    del memory
    outlives.fill_(3)
    assert outlives.tolist() == [3] * 5


@pytest.mark.parametrize(
    ("n", "size"), [(0, 0), (1, 512), (513, 1024), (5_000, 5_120), (1 << 20, 1 << 20), (10**8, 100_663_296)]
)
def test_sizes_are_rounded_up_by_a_quarter_at_most(n: int, size: int) -> None:
    assert size_class(n) == size
    assert n <= size <= max(512, n * 5 / 4 + 512)


@pytest.mark.parametrize(("n", "size"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (10**8, 1 << 27)])
def test_sizes_are_rounded_up_to_powers_of_two(n: int, size: int) -> None:
    assert power_of_two(n) == size


@pytest.mark.parametrize("seed", range(5))
def test_memory_of_the_device_is_flat_over_uploads_of_random_sizes(seed: int) -> None:
    """One upload is in use while the next is under way. What is cut from a free block must be of use again."""
    streams, rng = Modelled(), random.Random(seed)
    ring = Ring(streams, 2)
    reserved, under_way = list[int](), list[LaunchedUpload]()
    for step in range(400):
        n_bytes = rng.randint(MB, 128 * MB)
        upload = Upload(step, streams, streams.new(), n_bytes, lambda buffer: None, ring.take(0), None)
        under_way = [*under_way[-1:], upload.launch()]
        reserved.append(streams.memory.reserved)
    assert len(under_way[-1].buffer) == n_bytes
    assert reserved[-1] <= 1.1 * reserved[50]
    assert reserved[-1] <= 1.5 * streams.memory.most_allocated
