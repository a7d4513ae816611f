"""Loaders that are dropped, closed twice, closed too early or not at all: one rank, no job."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from balancers import Grid
from dist import (
    CannotResume,
    CannotWrap,
    InvalidLoader,
    MicroBatch,
    StepRecord,
    trace_bytes,
    write_parquet,
)
from packing import NextFit

from .jobs import alone


def exchange_threads() -> int:
    return sum(thread.name == "evenstep-exchange" for thread in threading.enumerate())


def test_untouched_loaders_start_nothing_and_dropped_ones_leave_nothing() -> None:
    loaders = [alone([torch.zeros(10)] * 100) for _ in range(50)]
    assert exchange_threads() == 0
    iterators = [iter(each) for each in loaders]
    batches = [next(each) for each in iterators]
    assert exchange_threads() == 50
    dropped = [weakref.ref(each) for each in (*loaders, *iterators)]
    last = weakref.ref(batches[0])
    del loaders, iterators, batches
    gc.collect()
    assert [each() for each in dropped] == [None] * 100
    assert last() is None
    assert exchange_threads() == 0


def test_the_iterator_keeps_working_without_the_loader() -> None:
    batches = iter(alone(list(range(5))))
    gc.collect()
    assert [batch.pack for batch in batches] == [0, 1, 2, 3, 4]


def test_closing_twice_and_asking_again_is_harmless() -> None:
    loader = alone(list(range(5)))
    batches = iter(loader)
    next(batches)
    begin = time.monotonic()
    loader.close()
    loader.close()
    assert time.monotonic() - begin < 1
    assert list(batches) == []


def test_the_thread_ends_with_the_pass_and_later_passes_are_whole() -> None:
    loader = alone(list(range(5)), depth=3)
    for _ in range(3):
        assert [batch.pack for batch in loader] == [0, 1, 2, 3, 4]
        assert exchange_threads() == 0
    assert len(loader) == 5


def test_a_source_is_pulled_only_so_far_ahead() -> None:
    pulled = []

    def source() -> Iterator[int]:
        for i in range(100):
            pulled.append(i)
            yield i

    batches = iter(alone(source(), depth=2, grid=Grid(1, n_micro_steps=3)))
    next(batches)
    assert len(pulled) == 2 * 3 + 1
    next(batches)
    assert len(pulled) == 2 * 3 + 2


@pytest.mark.parametrize(("overlap", "dropped"), [(True, [6, 6, 6, 6]), (False, [2, 1, 0, 2])])
def test_packs_lost_to_a_break_are_counted(overlap: bool, dropped: list[int]) -> None:
    """Three micro-steps per step, two steps ahead; or, inside ``next``, the step that is needed and nothing ahead."""
    loader = alone(range(100), overlap=overlap, grid=Grid(1, n_micro_steps=3))
    assert loader.dropped == 0
    for stop, expected in enumerate(dropped):
        for i, _ in enumerate(loader):
            assert loader.dropped == 0
            if i == stop:
                break
        assert loader.dropped == expected


def test_packs_lost_to_an_error_are_counted() -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise KeyError("item 5")

    loader = alone(source(), packs_per_cell=2, depth=1)
    with pytest.raises(KeyError, match="item 5"):
        list(loader)
    assert loader.dropped == 1  # two steps of two came before


def test_a_generator_that_ends_in_the_middle_of_a_step_is_filled_with_dummies() -> None:
    batches = list(alone((i for i in range(5)), grid=Grid(1, n_micro_steps=2), packs_per_cell=2))
    assert [batch.ids[0] and batch.ids[0].number for batch in batches] == [0, 2, 4, None]
    assert [batch.totals["packs"] for batch in batches] == [4, 4, 1, 1]


def test_mean_loss_by_totals_does_not_depend_on_the_grouping() -> None:
    """Loss sums 8, 1, 3 over 4, 1, 3 tokens: 12 / 8, and not the mean of means."""
    packs = [{"loss": 8, "tokens": 4}, {"loss": 1, "tokens": 1}, {"loss": 3, "tokens": 3}]

    def loads(pack: object) -> dict[str, int]:
        assert isinstance(pack, dict)
        return {"load": 1, "tokens": pack["tokens"]}

    for packs_per_cell in (1, 2, 3):
        grid = Grid(1, n_micro_steps=-(-3 // packs_per_cell))
        loader = alone(packs, loads=loads, amounts=("tokens",), grid=grid, packs_per_cell=packs_per_cell)
        mean = sum(
            pack["loss"] * weight / batch.totals["tokens"]  # type: ignore[index]
            for batch in loader
            for pack, weight in zip(batch.packs, batch.weights, strict=True)
        )
        assert mean == 1.5


def test_totals_are_exact_beyond_64_bits() -> None:
    loads = {"load": 1, "operations": 2**61}
    loader = alone([1] * 8, packs_per_cell=8, amounts=["operations"], loads=lambda pack: loads)
    assert [batch.totals["operations"] for batch in loader] == [2**64]


def test_a_state_survives_a_checkpoint_of_plain_values(tmp_path: Path) -> None:
    loader = alone([1, 2, 3])
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state")
    resumed = alone([1, 2, 3])
    resumed.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert [batch.pack for batch in resumed] == [2, 3]
    with pytest.raises(CannotResume, match=r"it has \['step'\]"):
        resumed.load_state_dict({"step": 3})


class Packed(IterableDataset[list[int]]):
    """Twelve samples in packs of 3, 2, 4 and 3; each worker has its share of them."""

    def __iter__(self) -> Iterator[list[int]]:
        packing = NextFit().pack([4, 4, 4, 6, 6, 3, 3, 3, 3, 4, 4, 4], 12)
        worker = get_worker_info()
        for pack in range(
            0 if worker is None else worker.id, len(packing), 1 if worker is None else worker.num_workers
        ):
            yield packing[pack].tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_packs_of_samples_resume_behind_those_that_were_seen(workers: int) -> None:
    def packs() -> DataLoader[list[int]]:
        context = "fork" if workers else None
        return DataLoader(Packed(), batch_size=None, num_workers=workers, multiprocessing_context=context)

    first, second = alone(packs()), alone(packs())
    seen = [sample for batch in islice(first, 2) for sample in batch.pack]  # type: ignore[attr-defined]
    assert seen == [0, 1, 2, 3, 4]
    second.load_state_dict(first.state_dict())
    seen += [sample for batch in second for sample in batch.pack]  # type: ignore[attr-defined]
    assert seen == list(range(12))


@pytest.mark.parametrize("seeded", [False, True])
def test_skipping_in_a_new_order_is_warned_of(seeded: bool, caplog: pytest.LogCaptureFixture) -> None:
    def packs() -> DataLoader[int]:
        generator = torch.Generator().manual_seed(7) if seeded else None
        return DataLoader(range(8), batch_size=None, shuffle=True, generator=generator)  # type: ignore[arg-type]

    first, second = alone(packs()), alone(packs())
    seen = [batch.pack for batch in islice(first, 3)]
    second.load_state_dict(first.state_dict())
    seen += [batch.pack for batch in second]
    assert len(seen) == 8
    assert ("shuffles anew" in caplog.text) is not seeded
    assert not seeded or sorted(seen) == list(range(8))  # type: ignore[type-var]


def test_a_source_that_communicates_is_refused() -> None:
    class DataLoaderShard:
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    with pytest.raises(CannotWrap, match="a DataLoaderShard was prepared by accelerate"):
        alone(DataLoaderShard())
    with pytest.raises(CannotWrap, match="packs must be iterable; got int"):
        alone(3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"grid": Grid(2)}, "the grid has 2 ranks, but torch.distributed is not initialised"),
        ({"mode": "on"}, "mode must be one of 'off', 'shadow', 'balance'; got 'on'"),
        ({"at_end": "drop"}, "at_end must be one of 'pad', 'min', 'carry'; got 'drop'"),
        ({"mode": ["on"]}, r"mode must be one of 'off', 'shadow', 'balance'; got \['on'\]"),
        ({"caps": [("load", 3)]}, "caps must be a mapping from amounts to the most in a cell; got"),
        ({"depth": 0}, "depth must be in .*; got 0"),
        ({"balancer": "lpt"}, "balancer must be a Balancer; got 'lpt'"),
        ({"grid": Grid(1, n_steps=2)}, "a loader acts on one step at a time"),
        ({"timeout": 0}, "timeout must be above 0 s"),
        ({"timeout": timedelta(minutes=5)}, r"timeout must be above 0 s, as a number; got datetime.timedelta"),
        ({"loads": {"load": 3}}, "loads and on_step must be functions; got {'load': 3} and None"),
        ({"amounts": "tokens"}, r"amounts must be several names; got 'tokens'. Of one, they are \['tokens'\]"),
        ({"device": 1.5}, 'device must be "cpu" or "cuda"; got \'1.5\''),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidLoader, match=text):
        alone([1], **options)


def test_wrong_loads_are_named() -> None:
    for loads, text in (
        (lambda pack: -1, r"loads\(pack 0\)\['load'\] must be in .*; got -1"),
        (lambda pack: 1.5, r"loads\(pack 0\)\['load'\] must be an integer; got 1.5"),
        (lambda pack: {"cost": 1}, r"loads\(pack 0\) must hold \['load'\]; it has \['cost'\]"),
        (lambda pack: (1, 2), r"must give one value per stage \('load',\); got \(1, 2\)"),
        (lambda pack: next(iter(())), r"loads\(pack 0\) raised StopIteration; it must return a value for every pack"),
    ):
        with pytest.raises(InvalidLoader, match=text):
            list(alone([1], loads=loads))


def test_records_tell_what_happened(tmp_path: Path) -> None:
    records: list[StepRecord] = []
    batches: list[MicroBatch] = list(alone(list(range(5)), on_step=records.append))
    assert [record.step for record in records] == [batch.step for batch in batches] == [0, 1, 2, 3, 4]
    assert all(record.packs == 1 and record.moved_bytes == 0 and record.imbalance_before == 1.0 for record in records)
    trace = trace_bytes(records)
    assert trace.startswith(b'{"traceEvents": [{"name": "pack", "ph": "X", "ts": ')
    assert b'"tid": "training loop"' in trace
    path = tmp_path / "steps.parquet"
    write_parquet(path, records)
    table = pyarrow.parquet.read_table(path)
    assert table.column("step").to_pylist() == [0, 1, 2, 3, 4]
    assert "spans" not in table.column_names


LEAVE = """
import sys, time, threading
from balancers import LPT, Grid
from dist import BalancedLoader
packs = iter(lambda: [1, 2], None)
loader = BalancedLoader(packs, balancer=LPT(), grid=Grid(1), loads=lambda pack: 1)
batches = iter(loader)
next(batches)
{how}
"""


@pytest.mark.parametrize(("how", "code"), [("", 0), ("sys.exit(3)", 3), ("raise KeyError(5)", 1)])
def test_a_process_that_just_ends_does_so_at_once(how: str, code: int) -> None:
    script = LEAVE.format(how=f"begin = time.monotonic(); {how}")
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "thread" not in done.stderr.lower()
    assert (done.stderr == "") == (code != 1)
    assert time.monotonic() - begin < 30  # importing torch included
