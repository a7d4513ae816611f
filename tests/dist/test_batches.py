"""What a training loop is given, by one rank without a job: packs, dummies, totals, records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
import torch

from balancers import Counts, Grid
from dist import StepRecord, parcel, write_parquet, write_trace

from .jobs import alone


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
            pack["loss"] * weight / batch.totals["tokens"]
            for batch in loader
            for pack, weight in zip(batch.packs, batch.weights, strict=True)
        )
        assert mean == 1.5


def test_totals_are_exact_beyond_64_bits() -> None:
    loads = {"load": 1, "operations": 2**61}
    loader = alone([1] * 8, packs_per_cell=8, amounts=["operations"], loads=lambda pack: loads)
    assert [batch.totals["operations"] for batch in loader] == [2**64]


def test_records_tell_what_happened(tmp_path: Path) -> None:
    records: list[StepRecord] = []
    batches = list(alone(list(range(5)), on_step=records.append))
    assert [record.step for record in records] == [batch.step for batch in batches] == [0, 1, 2, 3, 4]
    assert all(record.packs == 1 and record.moved_bytes == 0 and record.imbalance_before == 1.0 for record in records)
    trace = tmp_path / "trace.json"
    write_trace(trace, records)
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["name"] for event in events].count("wait") == 5
    assert {event["tid"] for event in events if event["name"] in ("wait", "compute", "source")} == {"training loop"}
    assert {event["tid"] for event in events if event["name"] in ("pack", "agree", "plan")} == {"exchange"}
    assert all(event["ph"] == "X" and event["pid"] == 0 and event["dur"] >= 0 for event in events)
    assert {event["args"]["step"] for event in events} == {0, 1, 2, 3, 4}
    path = tmp_path / "steps.parquet"
    write_parquet(path, records)
    table = pyarrow.parquet.read_table(path)
    assert table.column("step").to_pylist() == [0, 1, 2, 3, 4]
    assert "spans" not in table.column_names


def test_the_only_pack_of_several_is_refused() -> None:
    (batch,) = alone([1, 2, 3], packs_per_cell=3)
    with pytest.raises(ValueError, match=r"^micro-step 0 of step 0 holds 3 packs on this rank, not one: use packs\.$"):
        batch.pack  # noqa: B018


def test_what_is_printed_is_short() -> None:
    """Packs hold megabytes, and a record holds a dozen spans: neither is printed."""
    records: list[StepRecord] = []
    (batch,) = alone([torch.zeros(100_000)], on_step=records.append)
    assert repr(batch) == "MicroBatch(ids=(PackId(rank=0, number=0),), step=0, micro_step=0, totals={'packs': 1})"
    assert records[0].spans
    assert "Span(" not in repr(records[0])
    assert repr(parcel(batch.packs)).startswith("Parcel(n_bytes=")


def test_what_a_callback_raises_costs_no_pack() -> None:
    def refuse(record: StepRecord) -> None:
        if record.step == 0:
            raise ValueError("no more")

    loader = alone(range(6), grid=Grid(1, n_micro_steps=2), on_step=refuse)
    batches = iter(loader)
    with pytest.raises(ValueError, match="no more"):
        next(batches)
    assert [batch.pack for batch in batches] == list(range(6))


class Endless:
    """A source that says, as samplers do, that it has no length."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))

    def __len__(self) -> int:
        raise NotImplementedError


def test_a_source_may_refuse_to_tell_its_length() -> None:
    loader = alone(Endless())
    assert [batch.pack for batch in loader] == list(range(5))
    with pytest.raises(TypeError, match="this loader has no length: a source has none"):
        len(loader)


def test_dummies_are_whole_whatever_the_training_loop_does_to_packs() -> None:
    packs = [{"number": i, "labels": torch.ones(3)} for i in range(5)]
    loader = alone(packs, grid=Grid(1, 2, counts=Counts.EQUAL), packs_per_cell=4)
    weights: list[int] = []
    for batch in loader:
        for pack in batch.packs:
            assert isinstance(pack, dict)
            assert torch.equal(pack.pop("labels"), torch.ones(3))
        weights += batch.weights
    assert sorted(weights) == [0, 0, 0, 1, 1, 1, 1, 1]
