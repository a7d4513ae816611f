"""The path to a device, piece by piece: refusals, buffers that go round, and what is left when it breaks."""

from __future__ import annotations

import re
import weakref
from collections import deque
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest
import torch
import torch.distributed as td
from hypothesis import given
from hypothesis import strategies as st

import dist.transport
import dist.upload
import dist.watchdog
from dist import ExchangeTimeout, InvalidLoader
from dist.ring import Ring
from dist.streams import CpuStreams, CudaStreams, Event, Streams, _SideStream, streams_of
from dist.transport import ONE_QUEUE, DeviceTransport, TransportKind
from dist.upload import LaunchedUpload, Upload, abandon
from tests.ranks import Ranks

from .devices import MODES, Left, broken_off, delivered_trees, device_fails, in_mode, sent_to_itself
from .lazy import Mark, broken
from .test_bits import check_bits

TRANSPORT = pytest.mark.parametrize("transport", ["host", "device"])
EAGER = pytest.mark.parametrize("eager", [True, False], ids=["early", "late"])


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("mps", 'device must be "cpu" or "cuda"; got \'mps\'. Move packs there after delivery.'),
        ("meta", 'device must be "cpu" or "cuda"; got \'meta\'. Move packs there after delivery.'),
        ("gpu", 'device must be "cpu" or "cuda"; got \'gpu\'. Move packs there after delivery.'),
        ("cuda:-1", 'device must be "cpu" or "cuda"; got \'cuda:-1\'. Move packs there after delivery.'),
        ("cuda:2", "device is 'cuda:2', but torch finds 2 GPUs here: the last is \"cuda:1\"."),
    ],
)
def test_unknown_devices_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, device: str, text: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InvalidLoader, match=f"^{re.escape(text)}$"):
        streams_of(device)


def test_a_gpu_that_torch_does_not_see_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    text = "device is 'cuda:0', but torch finds no GPU here. Leave device out, or repair CUDA."
    with pytest.raises(InvalidLoader, match=f"^{re.escape(text)}$"):
        streams_of(torch.device("cuda", 0))


def test_known_devices_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert streams_of(None) is None
    assert isinstance(streams_of("cpu"), CpuStreams)
    for device, index in (("cuda", 1), ("cuda:0", 0), (torch.device("cuda"), 1)):
        streams = streams_of(device)
        assert isinstance(streams, CudaStreams)
        assert streams.device == torch.device("cuda", index)


def test_a_thread_that_waits_for_a_side_stream_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    event = mock.create_autospec(torch.cuda.Event, instance=True)
    made: mock.Mock = mock.create_autospec(torch.cuda.Event, return_value=event)
    monkeypatch.setattr(torch.cuda, "Event", made)
    side = cast("_SideStream", object())
    assert _SideStream.record_event(side) is event
    made.assert_called_once_with(blocking=True)
    cast("mock.Mock", event.record).assert_called_once_with(side)


NO_NCCL = "transport='device' needs NCCL, which this torch lacks. Use transport=\"host\"."
QUEUE = (
    "CUDA_DEVICE_MAX_CONNECTIONS is 1: an exchange that waits for a late rank would hold up all that this rank "
    "enqueues behind it. Set it to 8 or more, use transport=\"host\", or accept that: transport='device-one-queue'."
)


@pytest.mark.parametrize(
    ("transport", "device", "nccl", "queues", "text"),
    [
        ("nccl", None, True, "", "transport must be one of 'host', 'device', 'device-one-queue'; got 'nccl'."),
        ("device", None, True, "", "transport='device' needs the device that packs are delivered on: device=\"cuda\"."),
        ("device", "cuda:0", False, "", NO_NCCL),
        ("device-one-queue", "cuda:0", False, "1", NO_NCCL.replace("'device'", "'device-one-queue'")),
        ("device", "cuda:0", True, "1", QUEUE),
        ("host", None, False, "1", None),
        ("host", "cuda:0", False, "1", None),
        ("device", "cpu", False, "1", None),
        ("device", "cuda:0", True, "8", None),
        ("device-one-queue", "cuda:0", True, "1", None),
    ],
)
def test_transports_that_cannot_work_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, transport: str, device: str | None, nccl: bool, queues: str, text: str | None
) -> None:
    monkeypatch.setattr(td, "is_nccl_available", lambda: nccl)
    monkeypatch.setenv(ONE_QUEUE, queues)
    streams = None if device is None else cast("Streams", SimpleNamespace(device=torch.device(device)))
    if text is None:
        assert TransportKind.checked(transport, streams).value == transport
    else:
        with pytest.raises(InvalidLoader, match=f"^{re.escape(text)}$"):
            TransportKind.checked(transport, streams)


def test_devices_that_do_not_connect_are_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    monkeypatch.setattr(
        dist.transport, "_group", lambda ranks, name, backend, timeout: limits.append(timeout.total_seconds())
    )
    monkeypatch.setattr(td, "get_default_backend_for_device", lambda device: "nccl")
    monkeypatch.setattr(td, "get_rank", lambda group: 1)
    monkeypatch.setattr(td, "all_to_all_single", lambda *arguments, group: None)
    streams = CpuStreams()
    monkeypatch.setattr(streams, "current", lambda: SimpleNamespace(record_event=Mark), raising=False)
    text = "connecting the devices of ranks [0, 1] took more than 0.05 s; raise timeout."
    with pytest.raises(ExchangeTimeout, match=f"^{re.escape(text)}$"):
        DeviceTransport([0, 1], "late", streams, 0.05)
    assert limits == [3600.05]  # NCCL's own watchdog, which ends the process, comes long after


@pytest.mark.parametrize(("event", "patience_s", "freed"), [(Mark(), 0.0, 0), (Mark(), 0.05, 0), (Mark(3), 3.0, 1)])
def test_a_group_is_freed_only_at_rest(
    monkeypatch: pytest.MonkeyPatch, event: Mark, patience_s: float, freed: int
) -> None:
    """Closing takes no longer than its patience: none is left where a thread was waited for in vain."""
    gone: list[object] = []
    transport = object.__new__(DeviceTransport)
    transport._group, transport._last = cast("td.ProcessGroup", "group"), cast("Event", event)
    monkeypatch.setattr(dist.transport, "_freed", gone.append)
    begin = monotonic()
    transport.close(patience_s)
    transport.close(patience_s)
    assert [each for each in gone if each is not None] == ["group"] * freed
    assert monotonic() - begin < 1


def test_a_group_is_left_alone_where_the_device_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[object] = []
    transport = object.__new__(DeviceTransport)
    transport._group, transport._last = cast("td.ProcessGroup", "group"), cast("Event", SimpleNamespace(query=broken))
    monkeypatch.setattr(dist.transport, "_freed", gone.append)
    transport.close()
    transport.close()
    assert gone == []


class Pinned(CpuStreams):
    """Notes the memory that is asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.alive: list[weakref.ref[torch.Tensor]] = []

    def pinned(self, n_bytes: int) -> torch.Tensor:
        buffer = torch.empty(n_bytes, dtype=torch.uint8)
        self.sizes.append(n_bytes)
        self.alive.append(weakref.ref(buffer))
        return buffer


@given(st.integers(1, 4), st.lists(st.integers(0, 5_000), max_size=20))
def test_a_buffer_is_written_again_only_after_its_own_event(n: int, sizes: list[int]) -> None:
    streams = Pinned()
    ring = Ring(streams, n)
    assert streams.sizes == [0] * n
    marks: list[Mark] = []
    for turn, size in enumerate(sizes):
        slot = ring.take(size)
        assert (len(slot.buffer), slot.buffer.dtype) == (size, torch.uint8)
        assert [mark.waits for mark in marks] == [1] * max(turn + 1 - n, 0) + [0] * min(turn, n - 1)
        marks.append(Mark())
        slot.read_until(marks[-1])
        del slot
    largest = [max(sizes[turn::n], default=0) for turn in range(n)]
    assert sum(each() is not None for each in streams.alive) == n  # what grows replaces what was there
    assert all(size & (size - 1) == 0 for size in streams.sizes)
    lengths = [len(buffer) for buffer in ring._buffers]
    assert all(size <= length < max(2 * size, 1) for size, length in zip(largest, lengths, strict=True))


def test_many_sizes_pin_few_times() -> None:
    streams = Pinned()
    ring = Ring(streams, 3)
    for size in range(1, 3_000):
        ring.take(size).read_until(Mark())
    assert sorted(set(streams.sizes)) == [0] + [1 << i for i in range(13)]
    assert len(streams.sizes) == 3 + 12 + 11 + 11  # sizes 1, 4, 7, ..; 2, 5, 8, ..; 3, 6, 9, .. in powers of two


def test_a_buffer_that_comes_round_too_early_is_our_own_bug() -> None:
    ring = Ring(Pinned(), 1)
    ring.take(5)
    with pytest.raises(AssertionError, match="a buffer came round before its step was launched"):
        ring.take(5)


def launch(done: Event) -> LaunchedUpload:
    streams = CpuStreams()
    slot = Ring(streams, 1).take(0)
    upload = Upload(0, streams, streams.new(), 0, lambda buffer: None, slot, None)
    return replace(upload.launch(), done=done)


@pytest.fixture
def abandoned(monkeypatch: pytest.MonkeyPatch) -> deque[LaunchedUpload]:
    some: deque[LaunchedUpload] = deque()
    monkeypatch.setattr(dist.upload, "_abandoned", some)
    return some


def test_what_nobody_finishes_is_kept_until_its_event_and_never_waited_for(abandoned: deque[LaunchedUpload]) -> None:
    never, soon, now = Mark(), Mark(2), Mark(1)
    launched = [launch(each) for each in (never, soon, now)]
    kept = [weakref.ref(each.buffer) for each in launched]
    abandon(iter(launched))
    del launched
    assert [each() is None for each in kept] == [False, False, True]
    abandon(())
    assert [each() is None for each in kept] == [False, True, True]
    assert [len(abandoned), never.looks, never.waits] == [1, 2, 0]


def test_what_nobody_finishes_is_looked_at_whenever_there_is_more(abandoned: deque[LaunchedUpload]) -> None:
    abandon([launch(Mark(3))])
    launch(Mark())
    assert len(abandoned) == 1
    launch(Mark())
    assert len(abandoned) == 0


def test_what_is_under_way_is_forgotten_where_the_device_is_broken(abandoned: deque[LaunchedUpload]) -> None:
    dead, soon = cast("Event", SimpleNamespace(query=broken)), Mark(2)
    abandon([launch(dead), launch(soon)])
    assert [each.done for each in abandoned] == [soon]


@TRANSPORT
def test_a_device_that_fails_ends_the_pass_on_all_ranks(ranks: Ranks, transport: str) -> None:
    (other, of_other), (own, of_own) = ranks.run(device_fails, transport)
    assert own == "RuntimeError: CUDA error: device-side assert triggered"
    assert other.split(":")[0] in ("RankClosed", "RankFailed")
    assert (of_other, of_own) == (0, 0)


def test_a_training_loop_that_changes_its_stream_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = launch(Mark(1))
    monkeypatch.setattr(CpuStreams, "current", lambda self: object())
    text = (
        "step 0 was launched while the training loop was on another stream than now: its memory belongs to that one. "
        "Ask for all packs on one stream."
    )
    with pytest.raises(InvalidLoader, match=f"^{re.escape(text)}$"):
        launched.finish()


@TRANSPORT
@EAGER
@pytest.mark.parametrize("how", ["break", "close", "error"])
def test_a_pass_that_is_broken_off_leaves_nothing(ranks: Ranks, how: str, transport: str, eager: bool) -> None:
    for left in ranks.run(broken_off, how, transport, eager, 8):
        assert left == Left(launched=0, abandoned=0, threads=0, grown=0, whole=True, slow=False)


@TRANSPORT
@pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])
@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_training_thread_stay_there(ranks: Ranks, mode: str, overlap: bool, transport: str) -> None:
    for seen in ranks.run(in_mode, mode, overlap, transport):
        assert seen.wrong == []
        assert seen.packs > 0
        assert seen.changed == []
        assert {(each.inference, each.grad) for each in seen.inside} == {(False, False)}
        if overlap:
            assert {(each.device, each.autocast) for each in seen.inside} == {("cpu", False)}


@TRANSPORT
@EAGER
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_random_trees_arrive_bit_by_bit(ranks: Ranks, device: str, transport: str, eager: bool) -> None:
    """On a lazy device that is called ``device``: "cpu", where all tensors lie there already, "cuda:0", where none."""
    check_bits(2, lambda shares: ranks.run(delivered_trees, shares, device, transport, eager))


def test_a_rank_can_send_to_itself_from_device_to_device(ranks: Ranks) -> None:
    """What test_cuda.py runs over NCCL, over gloo."""
    assert ranks.run(sent_to_itself, "cpu", 5, 20, 1 << 16, n=1) == [(0, [0] * 20)]
