"""What ranks write down where they meet, and what follows from it: pure, so that every order can be tried.

Each meeting has a *roll*: lines in the store, which appends one at a time. All ranks read the same lines in the same
order, though some read fewer. The meeting ends with the first line that ends it: that of the last rank to come, or one
that says why not all go on. What is appended later changes nothing. So a rank that knows how a meeting ended knows what
every other rank knows or will find. A line is there or it is not: no rank can die half-way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from .errors import ExchangeError, ExchangeTimeout, RankClosed, RankDisagreement, RankFailed, RankLost

__all__ = ["Roll", "Verdict", "line", "listed", "numbered"]

SHOWN = 8  # ranks that a text names; the error knows all


def listed(those: Sequence[object]) -> str:
    """Return a list as text, the first ones if they are many."""
    shown = ", ".join(map(str, those[:SHOWN]))
    return f"{shown} and {len(those) - SHOWN} more" if len(those) > SHOWN else shown


def numbered(ranks: Sequence[int]) -> str:
    """Return "rank 3", or "ranks 1, 2, ..."."""
    return f"rank{'s' * (len(ranks) > 1)} {listed(ranks)}"


class Verdict(NamedTuple):
    """Why ranks do not go on: ``kind`` is what went wrong, on which ranks, and where the one was who wrote it."""

    kind: str
    ranks: list[int]
    text: str
    details: str
    step: int
    phase: str

    def error(self) -> ExchangeError:
        """Return what every rank raises."""
        who = numbered(self.ranks)
        where = f"step {self.step}, {self.phase}"
        cls: type[ExchangeError]
        match self.kind:
            case "disagreed":
                message, cls = f"{where}: {self.text}. Nothing was moved.", RankDisagreement
            case "failed":
                message, cls = f"{where}: {who} raised {self.text}", RankFailed
            case "closed":
                message = f"{where}: {who} closed its loader. End all ranks at the same step, or use at_end."
                cls = RankClosed
            case "late":
                message = (
                    f"{where}: waited in vain for {self.text}. It is dead, stopped, or its training loop asks for no "
                    f"packs; raise timeout if it was only slow."
                )
                cls = ExchangeTimeout
            case _:
                message, cls = f"{where}: lost {self.text}", RankLost
        error = cls(message, tuple(self.ranks), self.step, self.phase)
        if isinstance(error, RankFailed):
            error.details = self.details
        return error


def line(rank: int, kind: str, content: str | Sequence[object] = "") -> str:
    """Return what ``rank`` appends.

    ``kind``: "here" (content: its word) and "verdict" (its fields) may end a meeting; "at" (where it is), "answers" (to
    a roll call) and "told" (a text for all) do not.
    """
    return json.dumps([rank, kind, content]) + "\n"


class Roll:
    """The roll of one meeting, as far as it was read."""

    def __init__(self, n_ranks: int) -> None:
        self._n_ranks, self._n_read = n_ranks, 0
        self.words: dict[int, str] = {}  # of the ranks that are here
        self.at: dict[int, str] = {}  # where ranks said that they were
        self.answering: set[int] = set()
        self.told = ""
        self.over = False
        self.verdict: Verdict | None = None  # None when it is over: all were here before there was one

    def read(self, text: str) -> None:
        """Take in what was appended since the last time."""
        for each in text[self._n_read :].splitlines():
            rank, kind, content = json.loads(each)
            if kind == "here":
                self.words[rank] = content
            elif kind == "at":
                self.at[rank] = content
            elif kind == "answers":
                self.answering.add(rank)
            elif kind == "told":
                self.told = content
            elif not self.over:
                self.verdict = Verdict(*content)
            self.over = self.over or self.verdict is not None or len(self.words) == self._n_ranks
        self._n_read = len(text)

    def missing(self) -> list[int]:
        """Ranks that have not come."""
        return [rank for rank in range(self._n_ranks) if rank not in self.words]

    def silent(self) -> list[int]:
        """Ranks that have neither come nor answered."""
        return [rank for rank in self.missing() if rank not in self.answering]

    def differ(self) -> dict[str, list[int]]:
        """Return the ranks by word, where all are here and not all have the same; else nothing."""
        ranks: dict[str, list[int]] = {}
        for rank, word in sorted(self.words.items()):
            ranks.setdefault(word, []).append(rank)
        return ranks if len(ranks) > 1 else {}
