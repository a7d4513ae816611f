"""Ranks are alike, so a plan's ranks can be renamed: to keep bytes where they are."""

from __future__ import annotations

import numpy as np

from packing.arrays import Int32, Int64, descending_order
from packing.jit import kernel

from .plan import Plan
from .problem import Problem

__all__ = ["ACROSS", "home_and_bytes", "renamed_ranks"]

EXACT_UP_TO = 512  # ranks that are renamed by an exact assignment; more of them greedily
ACROSS = 8  # what a byte between nodes costs, if one inside a node costs 1


def renamed_ranks(plan: Plan) -> Plan:
    """Return ``plan`` with its ranks renamed so that many bytes stay in their rank, or at least in their node."""
    if not plan.problem.ranks_alike:
        return plan
    n_ranks = plan.problem.grid.n_ranks
    match = _assigned if n_ranks <= EXACT_UP_TO else _matched
    name = match(*_kept(plan), n_ranks)
    return Plan(plan.problem, plan.cell - plan.rank + name.astype(np.int32)[plan.rank])


def _kept(plan: Plan) -> tuple[Int64, Int64, Int64]:
    """Return triples (rank of the plan, a name for it, what that keeps from moving), each pair of ranks once."""
    n_ranks, per_node = plan.problem.grid.n_ranks, plan.problem.grid.ranks_per_node
    home_rank, n_bytes = home_and_bytes(plan.problem)
    rank, home, kept = _summed(plan.rank.astype(np.int64), home_rank.astype(np.int64), n_bytes, n_ranks)
    if per_node is None:
        return rank, home, kept
    per_node = min(per_node, n_ranks)
    names = home[:, None] // per_node * per_node + np.arange(per_node)  # all ranks of the node at home
    value = np.where(names == home[:, None], ACROSS, ACROSS - 1) * kept[:, None]
    exists = names < n_ranks
    return _summed(np.broadcast_to(rank[:, None], names.shape)[exists], names[exists], value[exists], n_ranks)


def _summed(rank: Int64, home: Int64, amounts: Int64, n_ranks: int) -> tuple[Int64, Int64, Int64]:
    """Sum ``amounts`` over equal pairs of ranks."""
    pairs, which = np.unique(rank * n_ranks + home, return_inverse=True)
    sums = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(sums, which, amounts)
    return *np.divmod(pairs, n_ranks), sums


def _assigned(rank: Int64, home: Int64, kept: Int64, n_ranks: int) -> Int64:
    """Return the new name of each rank, (n_ranks,): the assignment that keeps the most bytes."""
    from scipy.optimize import linear_sum_assignment

    weights = np.zeros((n_ranks, n_ranks))  # floats are exact up to 2**53 bytes; beyond, near enough to choose by
    weights[rank, home] = kept
    return np.asarray(linear_sum_assignment(weights, maximize=True)[1], dtype=np.int64)


def _matched(rank: Int64, home: Int64, kept: Int64, n_ranks: int) -> Int64:
    """Return the new name of each rank, (n_ranks,), by falling bytes kept; the rest in order."""
    order = descending_order(kept)
    return _match(rank[order], home[order], n_ranks)


@kernel
def _match(rank: Int64, home: Int64, n_ranks: int) -> Int64:
    name = np.full(n_ranks, -1, dtype=np.int64)
    taken = np.zeros(n_ranks, dtype=np.bool_)
    for edge in range(len(rank)):
        if name[rank[edge]] < 0 and not taken[home[edge]]:
            name[rank[edge]] = home[edge]
            taken[home[edge]] = True
    spare = 0
    for each in range(n_ranks):
        if name[each] < 0:
            while taken[spare]:
                spare += 1
            name[each] = spare
            taken[spare] = True
    return name


def home_and_bytes(problem: Problem) -> tuple[Int32, Int64]:
    """Return the home rank and the bytes of each pack, (n_packs,) each."""
    assert problem.home is not None, "refused without home"
    assert problem.n_bytes is not None, "sized"
    return problem.home % np.int32(problem.grid.n_ranks), problem.n_bytes
