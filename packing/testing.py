"""The property kit: strategies for samples and limits, named checks, and `check_packer` for packers of your own.

from packing.testing import check_packer
check_packer(MyPacker())          # raises CheckFailed: which property, on which samples and limits
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

from . import PACKERS
from .base import Packer
from .bounds import fewest_packs
from .errors import CannotCut, CannotServe, Oversized
from .lazy import missing_extra
from .policies import Pieces, Reason
from .samples import Oversize
from .targets import soft_amounts

try:
    from hypothesis import assume

    from .checking import CheckFailed, named, on_drawn, random_states, refusal_asked, repr_parses, same_in_any_process
    from .drawn import FAMILIES, Case, cases, large_cases
except ModuleNotFoundError as error:
    raise missing_extra("packing.testing", error) from error

__all__ = ["FAMILIES", "Case", "CheckFailed", "cases", "check_packer", "checks", "large_cases"]

Check: TypeAlias = Callable[[Packer, Case], None]


# Checks: each is a property as a sentence, and raises AssertionError with what was seen.


def packs_numbered(packer: Packer, case: Case) -> None:
    """The answer gives each piece one pack, numbered 0, 1, 2, ... without gaps."""
    pieces = _pieces(packer, case)
    answer: object = packer.group(pieces)
    assert isinstance(answer, np.ndarray), f"group must return an array, not {type(answer).__name__}"
    assert answer.shape == (len(pieces.sizes),), (
        f"there must be a pack for each of {len(pieces.sizes)} pieces; got shape {answer.shape}"
    )
    assert answer.dtype.kind in "iu", f"packs must be integers; got dtype {answer.dtype}"
    used = sorted(set(answer.tolist()))
    assert used == list(range(len(used))), f"packs must be numbered from 0 without gaps; got {answer.tolist()}"


def limits_kept(packer: Packer, case: Case) -> None:
    """No pack exceeds the capacity, a budget, or the number of samples."""
    pieces = _pieces(packer, case)
    held: dict[int, list[int]] = defaultdict(lambda: [0] * len(pieces.caps))
    for pack, size in zip(packer.group(pieces).tolist(), pieces.sizes.tolist(), strict=True):
        held[pack] = [a + b for a, b in zip(held[pack], size, strict=True)]
    for pack, sums in held.items():
        assert all(a <= b for a, b in zip(sums, pieces.caps.tolist(), strict=True)), (
            f"pack {pack} holds {sums}, limits are {pieces.caps.tolist()}"
        )


def every_token_once(packer: Packer, case: Case) -> None:
    """Each token is in one pack or listed as left over; samples that fit are whole, unless the packer cuts."""
    packing = packer.pack(case.samples, case.limits)
    starts = np.zeros_like(packing.sample) if packing.start is None else packing.start
    parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for sample, start, n in zip(packing.sample.tolist(), starts.tolist(), packing.piece_tokens.tolist(), strict=True):
        assert n > 0, f"sample {sample} has an empty piece"
        parts[sample].append((start, start + n))
    lost = {row.sample: row for row in packing.left_over}
    for sample, tokens in enumerate(case.samples.tokens.tolist()):
        place, seen = 0, sorted(parts[sample])
        for start, stop in seen:
            assert start == place, f"sample {sample} has the pieces {seen}"
            place = stop
        gone = lost[sample].tokens if sample in lost else 0
        assert place + gone == tokens, f"sample {sample} of {tokens} tokens: {place} packed, {gone} listed as lost"
        assert tokens or lost[sample].reason is Reason.EMPTY, f"sample {sample} is empty, and not listed so"
        may_cut = packer.cuts or case.limits.oversize in (Oversize.TRUNCATE, Oversize.SPLIT)
        assert may_cut or len(seen) <= 1, f"sample {sample} was cut into {seen}"


def slots_hold_tokens(packer: Packer, case: Case) -> None:
    """A pack pays for at least the tokens that it holds, alignment included."""
    packing = packer.pack(case.samples, case.limits)
    aligned = -(-packing.piece_tokens // case.limits.align) * case.limits.align
    held = [int(aligned[a:b].sum()) for a, b in zip(packing.offsets[:-1], packing.offsets[1:], strict=True)]
    slots = packing.slots.tolist()
    assert packing.slots.dtype == np.int64, f"slots have dtype {packing.slots.dtype}"
    assert all(a <= b for a, b in zip(held, slots, strict=True)), f"slots are {slots} for {held} tokens"


def urgency_ranks_packs(packer: Packer, case: Case) -> None:
    """The urgency is one integer per pack, and the same when asked again."""
    packing = packer.pack(case.samples, case.limits)
    first, second = (packer.urgency(packing) for _ in range(2))
    assert first.shape == (len(packing),), f"{len(packing)} packs have urgencies of shape {first.shape}"
    assert first.dtype.kind in "iu", f"urgencies have dtype {first.dtype}"
    assert np.array_equal(first, second), "two calls gave two urgencies"


def not_below_bound(packer: Packer, case: Case) -> None:
    """No packing has fewer packs than the bound on them."""
    pieces = _pieces(packer, case)
    n_packs, bound = len(set(packer.group(pieces).tolist())), fewest_packs(pieces.sizes, pieces.caps)
    assert n_packs >= bound, f"{n_packs} packs are below the bound {bound}"


def same_again(packer: Packer, case: Case) -> None:
    """Packing twice gives the same packs for the same call, and leaves the global random states alone."""
    random.random()  # hypothesis has seeded both, so that a packer that does it too would go unseen
    np.random.random()
    before = random_states()
    for call in (0, 1):
        first, second = (packer.pack(case.samples, case.limits, call).digest() for _ in range(2))
        assert first == second, f"packing twice with call={call} gave two packings"
    assert random_states() == before, "a global random state was drawn from or seeded"


def input_untouched(packer: Packer, case: Case) -> None:
    """Packing changes neither samples nor pieces."""
    pieces = _pieces(packer, case)
    arrays = [case.samples.tokens, *case.samples.columns.values(), pieces.sizes, pieces.caps, pieces.soft]
    before = [array.copy() for array in arrays]
    packer.group(pieces)
    packer.pack(case.samples, case.limits)
    for old, new in zip(before, arrays, strict=True):
        assert np.array_equal(old, new), f"{old.tolist()} became {new.tolist()}"


def refusal_tells(packer: Packer, case: Case) -> None:
    """A refusal is a sentence, or None, the same when asked again, and asking changes nothing."""
    refusal_asked(lambda: packer.refusal(case.samples, case.limits), case)


def refuses_before_work(packer: Packer, case: Case) -> None:
    """What is refused is refused by an error, and nothing is packed."""
    if packer.reason_against(case.samples, case.limits) is None:
        return
    with patch.object(type(packer), "group", side_effect=AssertionError("group was called")):
        try:
            packer.pack(case.samples, case.limits)
        except CannotServe:
            return
    raise AssertionError("refusal gives a reason, but pack gave packs")


OF_ALL: tuple[Check, ...] = (
    packs_numbered,
    limits_kept,
    every_token_once,
    slots_hold_tokens,
    urgency_ranks_packs,
    not_below_bound,
    same_again,
    input_untouched,
)


def checks(packer: Packer, max_examples: int = 50) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield (name, check) for every property that ``packer`` must have; call a check to run it.

    Made for ``pytest.mark.parametrize``; `check_packer` runs them all.
    """
    yield "repr_parses", lambda: repr_parses(PACKERS, packer)
    yield "refusal_tells", _on_drawn_cases(refusal_tells, packer, max_examples, refused=True)
    for check in OF_ALL:
        yield check.__name__, _on_drawn_cases(check, packer, max_examples, refused=False)
    yield "refuses_before_work", _on_drawn_cases(refuses_before_work, packer, max_examples, refused=True)
    yield "same_in_any_process", lambda: same_in_any_process(packer, partial(_digest, packer), large_cases(packer))


def check_packer(packer: Packer, max_examples: int = 50) -> None:
    """Run all checks; raise `CheckFailed` with the first property that fails and the smallest case found for it.

    ``max_examples`` cases are drawn per property, always the same ones. The last check packs in three other processes:
    different hash seeds, thread counts, CPU features, clocks, used random states, and load.
    """
    for _, check in checks(packer, max_examples):
        check()


def _on_drawn_cases(check: Check, packer: Packer, max_examples: int, *, refused: bool) -> Callable[[], None]:
    def run(case: Case) -> None:
        assume(refused or packer.reason_against(case.samples, case.limits) is None)
        try:
            named(check.__name__, packer, case, partial(check, packer, case), (Oversized, CannotCut))
        except (Oversized, CannotCut):  # what the policy does not admit is an answer too
            assume(False)

    return on_drawn(check.__name__, packer, run, cases(packer.targets), max_examples)


def _pieces(packer: Packer, case: Case) -> Pieces:
    """Return what `Packer.pack` hands to ``packer``."""
    parts = packer.cut(case.samples, case.limits)
    soft = soft_amounts(case.samples, parts, packer.targets)
    return Pieces(np.delete(parts.sizes, parts.alone, axis=0), parts.caps, np.delete(soft, parts.alone, axis=0))


def _digest(packer: Packer, case: Case) -> str:
    return packer.pack(case.samples, case.limits).digest()
