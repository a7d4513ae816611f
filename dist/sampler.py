"""Balance before anything is loaded: samplers for datasets whose lengths are known. Nothing moves between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic, Literal, TypeVar

import numpy as np
import torch.distributed as td
from numpy.typing import ArrayLike
from torch.utils.data import Sampler

from balancers import Balancer, Grid, Linear, Plan, Problem
from balancers.grid import GridLike
from packing import BestFitDecreasing, Limits, Oversize, Packer, Packing, Samples
from packing.arrays import Int64, as_int, as_int64, exact_sum, read_only
from packing.samples import LimitsLike, SamplesLike

from .errors import InvalidLoader
from .sampler_iterator import SamplerIterator
from .settings import is_portable, require_balancer

__all__ = ["BalancedBatchSampler", "BalancedSampler"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Epoch:
    """What an epoch is made of: the units of each full window of steps, shuffled, and those left over behind them.

    A unit is a pack, or a sample. An iterator needs no more of its epoch than this: the sampler may be set to another.
    """

    windows: list[Int64]  # (n_cells x units per cell,) each
    left_over: Int64
    loads: Int64  # (n_units,)
    packing: Packing | None = None  # None: a unit is a sample
    order: Int64 | None = None  # (n_samples,) number in the dataset of each sample of ``packing``

    def samples_of(self, unit: int) -> Int64:
        """Return the numbers in the dataset of the samples of a unit."""
        if self.packing is None or self.order is None:
            return np.array([unit])
        found: Int64 = self.order[self.packing[unit]]
        return found


class _Planned(Sampler[T], Generic[T]):
    """What both samplers share: full windows of steps and their plans. Every rank plans all and takes its own part."""

    _per_micro_step = 1  # items that an iterator yields for a micro-step

    def __init__(
        self, balancer: Balancer, grid: GridLike, per_cell: int, seed: int, at_end: str, rank: int | None
    ) -> None:
        self._balancer, self._grid = balancer, Grid.of(grid)
        require_balancer(balancer)
        if self._grid.n_ranks > 1 and not is_portable(balancer):
            raise InvalidLoader(
                f"every rank plans for itself, and {balancer!r} may plan otherwise on another machine. Use Auto() or "
                f"Prove(Auto()); or BalancedLoader, where one rank plans for all."
            )
        if len(self._grid.stages) > 1:
            raise InvalidLoader(
                f"samplers know one load of each pack or sample; the grid has the stages {self._grid.stages}. Use "
                f"BalancedLoader, whose loads(pack) returns one per stage."
            )
        self._per_cell = per_cell
        self._seed = as_int("seed", seed, InvalidLoader, least=0)
        if not (isinstance(at_end, str) and at_end in ("drop", "repeat")):
            raise InvalidLoader(f'at_end of a sampler must be "drop" or "repeat"; got {at_end!r}.')
        self._repeat = at_end == "repeat"
        self._rank = _rank_in(self._grid, rank)
        self._number = self._done = 0
        self._cached: tuple[int, _Epoch] | None = None

    def __iter__(self) -> SamplerIterator[T]:
        """Begin the epoch that was set last."""
        return SamplerIterator(self._items, self._settings(), self._number, self._done * self._per_micro_step)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings()}, rank={self._rank})"

    def set_epoch(self, epoch: int, *, done: int = 0) -> None:
        """Shuffle by ``epoch`` from the next ``iter`` on. All ranks give the same.

        ``done``: to resume inside an epoch, how many micro-steps of it were trained on; the next ``iter``, and no later
        one, begins behind them. Count what was trained on, not what the sampler gave: a DataLoader runs ahead. With
        torchdata's StatefulDataLoader there is nothing to count: see `SamplerIterator`.
        """
        self._number = as_int("epoch", epoch, InvalidLoader, least=0)
        self._done = as_int("done", done, InvalidLoader, least=0)

    @property
    def left_over(self) -> Int64:
        """Samples that this epoch does not use ("drop"), or uses twice ("repeat"): the same on every rank."""
        epoch = self._epoch
        if epoch.packing is None:
            return epoch.left_over
        samples = [epoch.samples_of(int(unit)) for unit in epoch.left_over]
        return np.concatenate([*samples, np.zeros(0, dtype=np.int64)])

    @property
    def n_steps(self) -> int:
        """Steps of this epoch, the same on every rank."""
        return len(self._epoch.windows) * self._grid.n_steps

    @property
    def _epoch(self) -> _Epoch:
        return self._epoch_of(self._number)

    def _epoch_of(self, number: int) -> _Epoch:
        if self._cached is None or self._cached[0] != number:
            self._cached = number, self._planned_epoch(number, np.random.default_rng((self._seed, number)))
        return self._cached[1]

    def _planned_epoch(self, number: int, rng: np.random.Generator) -> _Epoch:
        raise NotImplementedError

    def _items(self, number: int, yielded: int) -> Iterator[T]:
        """Yield what epoch ``number`` yields, from item ``yielded`` on."""
        raise NotImplementedError

    def _settings(self) -> str:
        """What an epoch follows from, but for the values of the samples: the same on every rank."""
        at_end = "repeat" if self._repeat else "drop"
        return f"grid={self._grid!r}, balancer={self._balancer!r}, seed={self._seed}, at_end={at_end!r}"

    def _cut(self, units: Int64, loads: Int64, packing: Packing | None = None, order: Int64 | None = None) -> _Epoch:
        """Cut shuffled units into full windows. What is left over is dropped, or a window is made of it and of the
        first units once more: equal numbers of micro-batches on every rank either way."""
        size = self._grid.n_cells * self._per_cell
        full = len(units) // size
        rest = units[full * size :]
        windows = list(units[: full * size].reshape(full, size))
        if self._repeat and len(rest):
            again = np.resize(units, size - len(rest))
            return _Epoch([*windows, np.concatenate([rest, again])], again, loads, packing, order)
        return _Epoch(windows, rest, loads, packing, order)

    def _cells(self, number: int, done: int) -> Iterator[list[int]]:
        """Yield the samples of this rank in epoch ``number``, micro-step by micro-step, without the first ``done``.

        Windows before ``done`` are not planned. From the first item on, ``set_epoch(done=...)`` has been served: not
        from ``iter`` on, since a DataLoader with workers asks for two iterators, and uses one.
        """
        self._done = 0
        epoch, n_micro_steps = self._epoch_of(number), self._grid.total_micro_steps
        for window, units in enumerate(epoch.windows):
            if done >= (window + 1) * n_micro_steps:
                continue
            step = window * self._grid.n_steps
            plan: Plan = self._balancer.plan(Problem(epoch.loads[units], self._grid, step=step))
            for micro_step in range(max(done - window * n_micro_steps, 0), n_micro_steps):
                own = units[plan.packs(self._rank, micro_step)]
                yield [int(sample) for unit in own for sample in epoch.samples_of(int(unit))]


class BalancedBatchSampler(_Planned[list[int]]):
    """Packs samples anew in every epoch and yields the samples of this rank's packs, one list per micro-step.

    For ``DataLoader(dataset, batch_sampler=...)``. In each epoch samples are shuffled by (seed, epoch) and packed by
    ``packer`` within ``limits``. Packs are shuffled; ``grid.n_cells x packs_per_cell`` of them at a time are planned by
    ``balancer`` under ``cost``: a step, or a window of ``grid.n_steps``, within which packs may change their step.

    * ``samples``: of the whole dataset, the same on every rank. Nothing is communicated.
    * ``at_end``: packs behind the last full window are not used ("drop"), or the first packs fill that window up
      ("repeat"). ``left_over`` lists the samples that are not used, or used twice.
    * ``rank``: of this process in the grid; None: its rank in torch.distributed.

    To resume inside an epoch, save and load the state of torchdata's StatefulDataLoader, which asks the iterator for
    its own (`SamplerIterator`). With a plain DataLoader, count micro-steps: `set_epoch`.

    Samples are whole: policies and packers that cut them are refused, and a sample too long for any pack raises here.
    Samples that a policy leaves out are in ``packing.left_over``, whose sample i is ``order[i]`` of the dataset. A grid
    that may leave cells empty, as `Counts.FREE` does, is refused.
    """

    def __init__(
        self,
        samples: SamplesLike,
        *,
        grid: GridLike,
        limits: LimitsLike,
        cost: Linear,
        balancer: Balancer,
        packer: Packer | None = None,
        packs_per_cell: int = 1,
        seed: int = 0,
        at_end: Literal["drop", "repeat"] = "drop",
        rank: int | None = None,
    ) -> None:
        per_cell = as_int("packs_per_cell", packs_per_cell, InvalidLoader, least=1)
        super().__init__(balancer, grid, per_cell, seed, at_end, rank)
        self._samples, self._limits, self._cost = Samples.of(samples), Limits.of(limits), cost
        self._packer = BestFitDecreasing() if packer is None else packer
        if not isinstance(self._packer, Packer):
            raise InvalidLoader(f"packer must be a Packer; got {packer!r}. PACKERS.parse makes one of a text.")
        if not isinstance(cost, Linear):
            raise InvalidLoader(f"cost must be a Linear; got {cost!r}.")
        policy = self._limits.oversize
        if self._packer.cuts or policy in (Oversize.TRUNCATE, Oversize.SPLIT):
            cutting = repr(self._packer) if self._packer.cuts else str(policy)
            raise InvalidLoader(
                f"a sampler yields whole samples, which {cutting} cuts. Use Oversize.DROP or Oversize.ISOLATE and a "
                "packer of whole samples; or pack pieces, and balance them with BalancedLoader."
            )
        n, cells = self._grid.n_cells * self._per_cell, self._grid.n_cells
        fewest, most = self._grid.counts_for(n)
        if not fewest and most * (cells - 1) >= n:
            raise InvalidLoader(
                f"{self._grid!r} lets a micro-step have no pack, and no DataLoader makes a batch of nothing. Use "
                f"Counts.EQUAL, or counts=(1, {n - cells + 1})."
            )
        self._packer.cut(self._samples, self._limits)  # names what is too long by its number in the dataset

    def __len__(self) -> int:
        return self.n_steps * self._grid.n_micro_steps

    @property
    def packing(self) -> Packing:
        """The packs of this epoch, over its shuffled samples."""
        packing = self._epoch.packing
        assert packing is not None
        return packing

    @property
    def order(self) -> Int64:
        """The number in the dataset of each of the shuffled samples of this epoch, (n_samples,)."""
        order = self._epoch.order
        assert order is not None
        return read_only(order)

    def _items(self, number: int, yielded: int) -> Iterator[list[int]]:
        return self._cells(number, yielded)

    def _settings(self) -> str:
        packs = f"limits={self._limits!r}, cost={self._cost!r}, packer={self._packer!r}"
        return f"{self._samples!r}, {packs}, packs_per_cell={self._per_cell}, {super()._settings()}"

    def _planned_epoch(self, number: int, rng: np.random.Generator) -> _Epoch:
        order = rng.permutation(len(self._samples))
        columns = {name: values[order] for name, values in self._samples.columns.items()}
        packing = self._packer.pack(Samples(self._samples.tokens[order], columns), self._limits, number)
        return self._cut(rng.permutation(len(packing)), self._cost.loads(packing.sums()), packing, order)


class BalancedSampler(_Planned[int]):
    """Yields the samples of this rank one by one, ``batch_size`` per micro-step: fixed batches of even load.

    For ``DataLoader(dataset, batch_size=..., sampler=...)``, of the same batch size. ``loads``: (n_samples,) what each
    sample costs, integers >= 0. The grid must give every cell the same number: `Counts.EQUAL`. ``at_end`` and ``rank``
    are those of `BalancedBatchSampler`, of samples instead of packs. It resumes as that does.
    """

    def __init__(
        self,
        loads: ArrayLike,
        *,
        grid: GridLike,
        balancer: Balancer,
        batch_size: int,
        seed: int = 0,
        at_end: Literal["drop", "repeat"] = "drop",
        rank: int | None = None,
    ) -> None:
        self._per_micro_step = as_int("batch_size", batch_size, InvalidLoader, least=1)
        super().__init__(balancer, grid, self._per_micro_step, seed, at_end, rank)
        remedy = "Loads are whole numbers >= 0."
        self._all_loads = as_int64("loads", loads, InvalidLoader, remedy=remedy)
        fewest, most = self._grid.counts_for(self._grid.n_cells * self._per_cell)
        if fewest < most:
            raise InvalidLoader(f"batches of one size need Grid(counts=Counts.EQUAL); got {self._grid!r}.")

    def __len__(self) -> int:
        return self.n_steps * self._grid.n_micro_steps * self._per_cell

    def _items(self, number: int, yielded: int) -> Iterator[int]:
        done, first = divmod(yielded, self._per_micro_step)
        return islice(chain.from_iterable(self._cells(number, done)), first, None)

    def _settings(self) -> str:
        total = exact_sum(self._all_loads)
        return f"{len(self._all_loads)} loads of {total} in all, batch_size={self._per_cell}, {super()._settings()}"

    def _planned_epoch(self, number: int, rng: np.random.Generator) -> _Epoch:
        return self._cut(rng.permutation(len(self._all_loads)), self._all_loads)


def _rank_in(grid: Grid, rank: int | None) -> int:
    if rank is None:
        there = td.is_available() and td.is_initialized()
        rank, size = (td.get_rank(), td.get_world_size()) if there else (0, 1)
        if size != grid.n_ranks:
            raise InvalidLoader(f"the grid has {grid.n_ranks} ranks, the job {size}. Say which rank this is: rank=...")
    return as_int("rank", rank, InvalidLoader, least=0, most=grid.n_ranks - 1)
