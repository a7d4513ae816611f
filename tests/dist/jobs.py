"""What rank processes run in the tests of the loader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as td

from balancers import LPT, Balancer, Barrier, Counts, Grid
from dist import BalancedLoader, ExchangeError, InvalidLoader, MicroBatch, StepRecord


@dataclass
class Pack:
    """A pack that says what it is: its content follows from its seed."""

    seed: int
    load: int
    tensor: torch.Tensor

    @classmethod
    def of(cls, seed: int) -> Pack:
        rng = np.random.default_rng(seed)
        load = int(rng.integers(1, 100))
        return cls(seed, load, torch.from_numpy(rng.integers(0, 256, load * 7)))

    def check(self) -> None:
        again = Pack.of(self.seed)
        assert self.load == again.load
        assert torch.equal(self.tensor, again.tensor)


def load_of(pack: object) -> int:
    assert isinstance(pack, Pack)
    return pack.load


def counted(pack: object) -> dict[str, int]:
    assert isinstance(pack, Pack)
    return {"load": pack.load, "tokens": 10 * pack.load, "samples": 1}


def own_packs(counts: list[int]) -> list[Pack]:
    """The packs of this rank: seeds are numbered through over all ranks."""
    rank = td.get_rank()
    return [Pack.of(1000 * rank + i) for i in range(counts[rank])]


def loader(
    packs: object, n_micro_steps: int = 1, balancer: Balancer | None = None, **options: object
) -> BalancedLoader[Any]:
    counts = options.pop("counts", Counts.EQUAL)
    barrier = options.pop("barrier", Barrier.STEP)
    assert isinstance(counts, Counts | tuple)
    assert isinstance(barrier, Barrier)
    grid = Grid(td.get_world_size(), n_micro_steps, barrier, counts)
    given = {"loads": load_of, "timeout": 20.0, "balancer": balancer or LPT(), "grid": grid, **options}
    return BalancedLoader(packs, **given)  # type: ignore[arg-type]


def alone(packs: object, **options: object) -> BalancedLoader[Any]:
    """A loader of one rank, without a job."""
    given: dict[str, object] = {"balancer": LPT(), "grid": Grid(1), "loads": lambda pack: 1, **options}
    return BalancedLoader(packs, **given)  # type: ignore[arg-type]


def seeds(batch: MicroBatch[Any]) -> list[int]:
    """Seeds of the packs of a micro-batch, after a look at each pack's content; -1 for dummies."""
    found = []
    for pack, pack_id in zip(batch.packs, batch.ids, strict=True):
        assert isinstance(pack, Pack)
        pack.check()
        if pack_id is not None:
            assert pack.seed == 1000 * pack_id.rank + pack_id.number
        found.append(pack.seed if pack_id is not None else -1)
    return found


def left_over(counts: list[int], at_end: str) -> tuple[int, int]:
    """Run one pass to its end; return the packs that it dropped, and those that lead the next."""
    balanced = loader(own_packs(counts), at_end=at_end)
    for _ in balanced:
        assert balanced.dropped == 0
    balanced.close()
    return balanced.dropped, balanced.carried


def carried_on(counts: list[int]) -> list[int]:
    """Run a pass that loads far ahead, then one that loads less; return how many packs lead the next after each."""
    state, carried = None, []
    for depth in (4, 1):
        balanced = loader(own_packs(counts), at_end="carry", depth=depth)
        if state is not None:
            balanced.load_state_dict(state)
        assert list(balanced) == []
        state = balanced.state_dict()
        carried.append(balanced.carried)
        balanced.close()
    return carried


def broken_off_after_a_resume(counts: list[int]) -> list[int]:
    """End a pass, resume behind it with other packs, break off the pass and begin one more; return how many packs of
    the first pass are trained on in the next ones, and how many packs lead the last."""
    first = loader(own_packs(counts), at_end="carry")
    assert list(first)
    resumed = loader([Pack.of(5000 + i) for i in range(9)], at_end="carry")
    resumed.load_state_dict(first.state_dict())
    assert resumed.carried == first.carried
    found = []
    for _ in range(2):
        packs: list[object] = []
        for batch in resumed:
            packs += batch.packs
            if batch.step == 4:
                break
        found.append(sum(isinstance(each, Pack) and each.seed < 5000 for each in packs))
    carried = resumed.carried
    first.close()
    resumed.close()
    return [*found, carried]


class Returning:
    """A source with a state, which is at its beginning again once it has ended, as that of a StatefulDataLoader."""

    def __init__(self, packs: list[Pack]) -> None:
        self._packs, self._next = packs, 0

    def __iter__(self) -> Iterator[Pack]:
        while self._next < len(self._packs):
            self._next += 1
            yield self._packs[self._next - 1]
        self._next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._next = state["next"]


def resumed_behind_the_end(counts: list[int], stop: int) -> tuple[list[int], list[int]]:
    """Train ``stop`` steps, resume; return the seeds that came up to the end of the pass, and in one more pass."""
    first, second = (loader(Returning(own_packs(counts))) for _ in range(2))
    found = [seed for _, batch in zip(range(stop), first, strict=False) for seed in seeds(batch)]
    second.load_state_dict(first.state_dict())
    first.close()
    found += [seed for batch in second for seed in seeds(batch)]
    again = [seed for batch in second for seed in seeds(batch)]
    second.close()
    return found, again


def resumed_where_each_was(stops: list[int]) -> str:
    """Save after another number of micro-steps on every rank, and resume; return what this rank hears."""
    first, second = (loader(own_packs([8, 8]), n_micro_steps=4) for _ in range(2))
    for _ in zip(range(stops[td.get_rank()]), first, strict=False):
        pass
    second.load_state_dict(first.state_dict())
    try:
        next(iter(second))
    except ExchangeError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        first.close()
        second.close()
    return "nothing"


def fails_to_begin() -> str:
    """A source that raises when it is asked for packs, on rank 1; return what this rank hears."""

    class Closed:
        def __iter__(self) -> Iterator[Pack]:
            raise OSError("not yet")

    balanced = loader(Closed() if td.get_rank() else own_packs([5, 0]))
    try:
        list(balanced)
    except (OSError, ExchangeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        balanced.close()
    return "nothing"


def recorded(counts: list[int]) -> list[StepRecord]:
    """Run one pass; return its records."""
    records: list[StepRecord] = []
    balanced = loader(own_packs(counts), packs_per_cell=3, on_step=records.append)
    for _ in balanced:
        pass
    balanced.close()
    return records


def everything(counts: list[int], options: dict[str, object]) -> list[tuple[int, int, list[int], dict[str, int]]]:
    """Iterate one pass; return step, micro-step, seeds and totals of every micro-batch."""
    balanced = loader(own_packs(counts), **options)  # type: ignore[arg-type]
    batches = [(batch.step, batch.micro_step, seeds(batch), dict(batch.totals)) for batch in balanced]
    balanced.close()
    balanced.close()
    return batches


def told_of_groups(groups: list[object]) -> list[str]:
    """Return what a loader says of each of these as its group."""
    told = []
    for group in groups:
        try:
            loader([], group=group).close()
        except InvalidLoader as error:
            told.append(str(error))
    return told
