"""Rank processes that build and free a group of NCCL, where torch has a stand-in for it that needs no GPU."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import ClassVar, NamedTuple
from unittest import mock

import torch
import torch.distributed as td
from torch.distributed.distributed_c10d import ProcessGroupGloo, Store

from dist.streams import CpuStreams
from dist.transport import DeviceTransport


class Said:
    """What torch says to NCCL of a new group."""

    def __init__(self) -> None:
        self.split_from: object = None
        self.is_high_priority_stream = True
        self._timeout = timedelta()


class StandIn(ProcessGroupGloo):
    """Takes the arguments of ProcessGroupNCCL, and notes what was said."""

    Options = Said  # type: ignore[assignment]
    said: ClassVar[list[Said]] = []

    def __init__(self, store: Store, rank: int, size: int, options: Said) -> None:
        super().__init__(store, rank, size, options._timeout)
        self.said.append(options)


class Asked(NamedTuple):
    """What NCCL was asked for."""

    split: bool  # to make the new communicator of another
    timeout_s: float


def built_beside_others(ranks: list[int], bound: str | None) -> list[Asked]:
    """Build and free a group of ``ranks``, while the other ranks of the job do nothing. ``bound``: the device that the
    whole job's group was given."""
    c10d = td.distributed_c10d
    whole, before = c10d._get_default_group(), len(c10d._world.pg_map)
    device = torch.device(bound) if bound else None
    whole.bound_device_id = device
    if td.get_rank() not in ranks:
        return []
    with ExitStack() as stack:
        for target, name, value in (
            (c10d, "ProcessGroupNCCL", StandIn),
            (c10d, "is_nccl_available", lambda: True),
            (td, "get_default_backend_for_device", lambda device: "nccl"),
            (td, "all_to_all_single", lambda *arguments, group: None),
        ):
            stack.enter_context(mock.patch.object(target, name, value, create=True))
        transport = DeviceTransport(ranks, "some", CpuStreams(), 20)
        group = transport._group
        assert group is not None
        assert (td.get_rank(group), td.get_process_group_ranks(group)) == (ranks.index(td.get_rank()), ranks)
        assert td.get_backend(group) == "nccl"
        transport.close()
    tables = (c10d._world.pg_map, c10d._world.pg_names, c10d._world.pg_group_ranks, c10d._world.pg_backend_config)
    assert {len(each) for each in (*tables, c10d._world.pg_to_tag)} == {before}
    assert whole.bound_device_id == device
    said = [Asked(each.split_from is not None, each._timeout.total_seconds()) for each in StandIn.said]
    StandIn.said.clear()
    return said
