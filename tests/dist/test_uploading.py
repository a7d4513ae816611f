"""Tensors on their way to a device: right bytes on the laziest device there can be, and only because of each rule."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch

import dist.upload
from dist.exchange import route_of
from dist.manifest import Manifest
from dist.ring import Ring
from dist.streams import CpuStreams, Event
from dist.upload import HostUploader, LaunchedUpload, Upload
from tests.ranks import Ranks

from .lazy import Mark
from .uploading import Run, connections, left_at_different_places, recorded, train


@pytest.mark.parametrize("eager", [True, False], ids=["early", "late"])
@pytest.mark.parametrize("overlap", [True, False], ids=["beside", "inline"])
@pytest.mark.parametrize("resident", [True, False], ids=["resident", "on-host"])
@pytest.mark.parametrize("mode", ["balance", "off"])
@pytest.mark.parametrize("transport", ["host", "device"])
def test_what_is_uploaded_has_the_bytes_that_left(
    ranks: Ranks, transport: str, mode: str, resident: bool, overlap: bool, eager: bool
) -> None:
    run = Run(transport, resident, mode, overlap, eager, counts=(40, 33))
    results = ranks.run(train, run)
    assert sorted(each for came, _, _ in results for each in came) == [
        (r, i) for r in (0, 1) for i in range((40, 33)[r])
    ]
    assert [wrong for _, wrong, _ in results] == [[], []]


@pytest.mark.parametrize(
    "run",
    [
        Run("host", broken="the training loop waits for the upload"),
        Run("host", resident=False, mode="off", eager=True, broken="what is launched waits for the training loop"),
        Run("device", broken="what is launched waits for the training loop"),
        Run("host", broken="packs are read once they are made"),
        Run("host", resident=False, mode="off", broken="a buffer is written once it was read"),
        Run("host", broken="what is under way is referred to"),
        Run("device", broken="what is under way is referred to"),
    ],
    ids=lambda run: f"{run.transport}: {run.broken}",
)
def test_without_one_rule_bytes_are_wrong(ranks: Ranks, run: Run) -> None:
    assert any(wrong for _, wrong, _ in ranks.run(train, run))


@pytest.mark.parametrize("transport", ["host", "device"])
def test_each_group_has_one_thread_and_one_order_on_all_ranks(ranks: Ranks, transport: str) -> None:
    """And what the training loop's thread issues, on all groups together, has one order too."""
    first, *others = ranks.run(recorded, transport, 30, n=3)
    threads = {group: {thread for thread, of, _ in first if of == group} for _, group, _ in first}
    assert all(len(each) == 1 for each in threads.values()), threads
    for calls in (first, *others):
        for group in threads:
            assert [call for call in calls if call[1] == group] == [call for call in first if call[1] == group]
        assert [call for call in calls if call[0] == "training"] == [call for call in first if call[0] == "training"]
    enqueued = [name for thread, _, name in first if thread == "training"]
    assert enqueued.count("all_reduce") == 30
    assert (enqueued.count("all_to_all_single") > 10) == (transport == "device")


def test_an_exchange_that_one_rank_launched_alone_does_not_take_the_bytes_of_the_next(ranks: Ranks) -> None:
    assert ranks.run(left_at_different_places, "host") == ["", ""]
    for told in ranks.run(left_at_different_places, "device"):
        assert "rank 0: begins at micro-step 0 of step 0, after 1 exchanges between devices" in told
        assert "rank 1: begins at micro-step 0 of step 0, after 2 exchanges between devices" in told


def test_passes_share_a_connection_to_the_store(ranks: Ranks) -> None:
    """Where peers' addresses have no names, one may take seconds."""
    assert ranks.run(connections, 4) == [1, 1]


class Waiting:
    """A stream that notes what it waits for."""

    def __init__(self) -> None:
        self.waits: list[Event] = []

    def record_event(self) -> Event:
        return Mark()

    def wait_event(self, event: Event, /) -> None:
        self.waits.append(event)


@pytest.mark.parametrize(("device", "waits"), [("cpu", True), ("cuda:0", False)], ids=["resident", "on-host"])
def test_packs_of_the_host_are_sent_without_waiting_for_the_device(device: str, waits: bool) -> None:
    """The exchange thread would wait for all that the training loop has enqueued, and the next step for that thread."""
    streams = CpuStreams()
    streams.device = torch.device(device)
    own, ready, sent = Waiting(), Mark(), list[torch.Tensor]()
    packs = np.zeros(1, dtype=np.int64)
    manifest = Manifest(streams.device, 0, route_of(packs, packs, packs + 1, packs + 64, 2), [torch.arange(8)])
    uploader = HostUploader(streams, streams.new(), own, 1)
    uploader.prepare(0, manifest, ready, lambda content, arrived, route: sent.append(content.clone()))
    assert own.waits == [ready] * waits
    assert torch.equal(sent[0].view(torch.int64), torch.arange(8))


def test_a_launch_that_fails_keeps_its_memory_and_lets_the_training_loop_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it on the side stream there may be an exchange that waits for a lost rank, for ever."""
    left = deque[LaunchedUpload]()
    monkeypatch.setattr(dist.upload, "_abandoned", left)
    streams, consumer, side = CpuStreams(), Waiting(), Waiting()
    monkeypatch.setattr(streams, "current", lambda: consumer, raising=False)

    def fill(buffer: torch.Tensor) -> None:
        raise RuntimeError("the store is gone")

    with pytest.raises(RuntimeError, match="the store is gone"):
        Upload(0, streams, side, 64, fill, Ring(streams, 1).take(0), None).launch()
    assert consumer.waits == []
    assert [len(each.buffer) for each in left] == [64]
