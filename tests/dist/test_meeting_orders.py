"""Every order in which requests of ranks can reach the store, and every moment at which a rank can die or tire.

A rank is replayed: it runs anew with the answers that it has had so far, until it asks for one more. So a state is what
the store holds and what each rank was answered, and states that were seen are not seen to again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from threading import Event
from typing import NamedTuple, cast

import pytest

import dist.meeting
from dist import ExchangeError
from dist.meeting import Meeting, Patience
from dist.roll import numbered
from dist.store import Store, StoreHolder

Answers = tuple[tuple[str, object], ...]  # (what was asked, answer)
Does = Callable[[Meeting, Event], None]
Became = tuple[str, ...] | None  # of each meeting of a rank: "go", or the error; None: nothing yet
FOREVER = float("inf")


class Pending(BaseException):
    """What a rank asks next."""

    def __init__(self, *request: object) -> None:
        self.request = request


class Replay(Patience):
    """The world of one rank: the store, which ranks are dead, and how long it has waited.

    The last two are only asked where they can change.
    """

    def __init__(self, answers: Answers, mortal: bool, tiring: bool) -> None:
        super().__init__(1.0)
        self._answers, self._mortal, self._tiring = iter(answers), mortal, tiring

    def ask(self, *request: object) -> object:
        for _, answer in self._answers:
            return answer
        raise Pending(*request)

    @property
    def waited(self) -> float:
        return cast("float", self.ask("waited")) if self._tiring else 0.0

    def set(self, key: str, value: str) -> None:
        self.ask("set", key, value)

    def append(self, key: str, value: str) -> None:
        self.ask("append", key, value)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        assert expected == desired == "?"
        return cast("bytes", self.ask("read", key))

    def add(self, key: str, amount: int) -> int:
        return cast("int", self.ask("add", key, amount) if amount else self.ask("count", key))

    def ended(self) -> list[int]:
        return list(cast("tuple[int, ...]", self.ask("ended"))) if self._mortal else []


class State(NamedTuple):
    store: tuple[tuple[str, str], ...]
    had: tuple[Answers, ...]  # answers, by rank
    dead: tuple[int, ...] = ()
    tired: bool = False


class Ranks:
    """What each rank does, and which one may die or lose patience, at any moment."""

    def __init__(self, does: list[Does], mortal: int | None = None, tiring: int | None = None) -> None:
        self.does, self.mortal, self.tiring = does, mortal, tiring
        self.next = cache(self._next)

    def _next(self, rank: int, had: Answers) -> tuple[tuple[object, ...] | None, Became]:
        """Return what a rank asks next, or what became of its meetings."""
        world = Replay(had, self.mortal not in (None, rank), rank == self.tiring)
        stop, became = Event(), list[str]()
        n_ranks = len(self.does)
        meeting = Meeting(cast("Store", world), StoreHolder(None), rank, n_ranks, world, stop, ended=world.ended)
        meet = meeting.meet

        def noted(word: str = "") -> None:
            meet(word)
            became.append("go")

        meeting.meet = noted  # type: ignore[method-assign, assignment]
        try:
            self.does[rank](meeting, stop)
        except ExchangeError as error:
            became.append(f"{type(error).__name__}: {error}")
        except Pending as pending:
            return pending.request, None
        return None, tuple(became)

    def after(self, state: State) -> Iterator[State]:
        """Yield each state that can follow."""
        for rank in range(len(self.does)):
            request, _ = self.next(rank, state.had[rank])
            if rank not in state.dead and request is not None:
                yield self._answered(state, rank, request)
        if self.mortal is not None and not state.dead:
            yield state._replace(dead=(self.mortal,))
        if self.tiring is not None and not state.tired:
            yield state._replace(tired=True)

    def _answered(self, state: State, rank: int, request: tuple[object, ...]) -> State:
        store, answer = dict(state.store), cast("object", None)
        match request:
            case ("set", str(key), str(value)):
                store[key] = value
            case ("append", str(key), str(value)):
                store[key] = store.get(key, "") + value
            case ("read", str(key)):
                answer = store.get(key, "?").encode()
            case ("add", str(key), int(amount)):
                store[key] = str(int(store.get(key, "0")) + amount)
            case ("count", str(key)):  # only whole meetings are told apart
                answer = int(store.get(key, "0")) // len(self.does) * len(self.does)
            case ("ended",):
                answer = state.dead
            case ("waited",):
                answer = FOREVER if state.tired else 0.0
        had = state.had[rank]
        looks = request[0] == "count" or (request[0] == "read" and not _has_reason_to_read(had))
        while looks and had and had[-1][0] in ("read", "count", "ended", "waited"):
            had = had[:-1]  # what is seen is all that was seen before, and more: as if it had not looked before
        had = (*had, (str(request[0]), answer))
        return state._replace(store=tuple(sorted(store.items())), had=(*state.had[:rank], had, *state.had[rank + 1 :]))

    def ends(self) -> set[tuple[Became, ...]]:
        """Return, for each way in which all can end, what became of each rank's meetings."""
        first = State((), ((),) * len(self.does))
        before: dict[State, list[State]] = {first: []}  # of every state, those it can follow
        found, ends, ended = [first], set[tuple[Became, ...]](), list[State]()
        while found:
            state = found.pop()
            assert {key for key, _ in state.store} <= {"roll/0", "roll/1", "roll/2", "came"}
            became = tuple(
                None if rank in state.dead else self.next(rank, had)[1] for rank, had in enumerate(state.had)
            )
            if all(each is not None or rank in state.dead for rank, each in enumerate(became)):
                ends.add(became)
                ended.append(state)
            for each in self.after(state):
                if each not in before:
                    before[each] = []
                    found.append(each)
                before[each].append(state)
        can_end = set[State]()
        while ended:
            state = ended.pop()
            if state not in can_end:
                can_end.add(state)
                ended += before[state]
        assert can_end == set(before), "some rank waits for ever"
        return ends


def _has_reason_to_read(had: Answers) -> bool:
    """Whether its last look showed a rank a number, a dead rank or the end of its patience, on which it reads."""
    found = [answer not in ((), 0.0) for name, answer in had[-2:] if name in ("ended", "waited")]
    return had[-1:] != () and (had[-1][0] == "count" or any(found))


def meets(*words: str) -> Does:
    def does(meeting: Meeting, stop: Event) -> None:
        for step, word in enumerate(words):
            meeting.at(step, "plan")
            meeting.meet(word)

    return does


def meets_then(n: int, deviates: Does) -> Does:
    def does(meeting: Meeting, stop: Event) -> None:
        meets(*["word"] * n)(meeting, stop)
        meeting.at(n, "plan")
        deviates(meeting, stop)

    return does


def fails(meeting: Meeting, stop: Event) -> None:
    meeting.fail(KeyError(5), "")
    meeting.meet("word")  # to see what the others see


def closes(meeting: Meeting, stop: Event) -> None:
    stop.set()
    meeting.meet("word")
    meeting.at(meeting._step + 1, "plan")
    meeting.close()
    meeting.meet("word")


def differs(meeting: Meeting, stop: Event) -> None:
    meeting.meet("other")


@pytest.fixture
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks meet as "few" do, or as "many"; of these, three take a minute where they can do most."""
    monkeypatch.setattr(dist.meeting, "FEW", {"few": 16, "many": 0}[request.param])
    monkeypatch.setattr(dist.meeting, "sleep", lambda seconds: None)


def cases(names: str, few: list[tuple[int, ...]], many: list[tuple[int, ...]]) -> pytest.MarkDecorator:
    rows = [(way, *row) for way, those in (("few", few), ("many", many)) for row in those]
    return pytest.mark.parametrize(("ways", *names.split()), rows, indirect=["ways"])


def alike(ends: set[tuple[Became, ...]]) -> set[tuple[str, ...]]:
    """Return what became of the meetings, which must be the same on all ranks that live."""
    for each in ends:
        assert len({became for became in each if became is not None}) == 1, each
    return {next(became for became in each if became is not None) for each in ends}


def went(n: int, then: str = "") -> tuple[str, ...]:
    return ("go",) * n + ((then,) if then else ())


@cases("n_ranks n_meetings", few=[(2, 7), (3, 4)], many=[(2, 7), (3, 3)])
def test_all_go_on_through_many_meetings_on_three_keys(ways: None, n_ranks: int, n_meetings: int) -> None:
    words = [f"word {i}" for i in range(n_meetings)]
    assert alike(Ranks([meets(*words)] * n_ranks).ends()) == {went(n_meetings)}


PAIRS: list[tuple[int, ...]] = [(2, 0, 0), (2, 0, 4), (2, 1, 0), (2, 1, 4)]  # ranks, who goes another way, and where
WHAT: dict[Does, str] = {
    fails: "RankFailed: step {at}, plan: rank {odd} raised KeyError: 5",
    differs: "RankDisagreement: step {at}, plan: {listed}. Nothing was moved.",
    closes: "RankClosed: step {at}, plan: rank {odd} closed its loader. End all ranks at the same step, or use at_end.",
}


@pytest.mark.parametrize("deviates", WHAT, ids=lambda does: does.__name__)
@cases("n_ranks odd at", few=[*PAIRS, (3, 0, 0), (3, 2, 0)], many=PAIRS)
def test_who_goes_another_way_ends_all_alike(ways: None, deviates: Does, n_ranks: int, odd: int, at: int) -> None:
    does = [meets(*["word"] * (at + 2))] * n_ranks
    does[odd] = meets_then(at, deviates)
    others = [rank for rank in range(n_ranks) if rank != odd]
    texts = {others[0]: f"{numbered(others)}: word", odd: f"rank {odd}: other"}
    listed = ", ".join(texts[rank] for rank in sorted(texts))
    raised = {went(then, WHAT[deviates].format(at=then, odd=odd, listed=listed)) for then in (at, at + 1)}
    if deviates is not closes:  # who is about to close goes on once more where all are there when it comes
        raised = {went(at, WHAT[deviates].format(at=at, odd=odd, listed=listed))}
    assert alike(Ranks(does).ends()) == raised


@cases("n_ranks odd at", few=[(2, 0, 4), (2, 1, 4), (3, 0, 0), (3, 2, 0)], many=[(2, 0, 4), (2, 1, 4)])
def test_who_fails_after_it_has_come_is_heard_here_or_at_the_next_meeting(
    ways: None, n_ranks: int, odd: int, at: int
) -> None:
    def comes_and_fails(meeting: Meeting, stop: Event) -> None:
        meeting.come("word")
        fails(meeting, stop)

    does = [meets(*["word"] * (at + 2))] * n_ranks
    does[odd] = meets_then(at, comes_and_fails)
    ends = Ranks(does).ends()
    text = WHAT[fails].format(at=at, odd=odd)
    assert {each[odd] for each in ends} == {went(at, text)}
    assert alike({(*each[:odd], *each[odd + 1 :]) for each in ends}) == {went(at, text), went(at + 1, text)}


@cases(
    "n_ranks mortal n_meetings",
    few=[(2, 0, 5), (2, 1, 5), (3, 0, 2), (3, 1, 2)],
    many=[(2, 0, 5), (2, 1, 5), (3, 1, 1)],
)
def test_whenever_a_rank_dies_the_others_end_all_alike(ways: None, n_ranks: int, mortal: int, n_meetings: int) -> None:
    ends = alike(Ranks([meets(*["word"] * n_meetings)] * n_ranks, mortal=mortal).ends())

    def lost(at: int, last: str) -> tuple[str, ...]:
        return went(at, f"RankLost: step {at}, plan: lost rank {mortal} ({last}), whose process has ended")

    came = {lost(at, f"last at step {at}, plan") for at in range(n_meetings)}
    did_not_come = {lost(at, f"last at step {at - 1}, plan") for at in range(1, n_meetings)}
    never = {lost(0, "not seen yet")}
    # of two, the one that waits knows of the other that it has not come
    assert ends == {went(n_meetings)} | did_not_come | never | (came if n_ranks > 2 else set())


@cases("n_ranks tiring", few=[(2, 0), (2, 1), (3, 0), (3, 2)], many=[(2, 0), (2, 1)])
def test_whenever_a_rank_loses_patience_all_end_alike(ways: None, n_ranks: int, tiring: int) -> None:
    ends = alike(Ranks([meets("a", "b")] * n_ranks, tiring=tiring).ends())
    assert went(2) in ends
    for became in ends - {went(2)}:
        assert re.fullmatch(
            rf"ExchangeTimeout: step {len(became) - 1}, plan: waited in vain for "
            r"(rank \d \([^()]*\)(, )?)+, after 1 s. "
            r"It is dead, stopped, or its training loop asks for no packs; raise timeout if it was only slow.",
            became[-1],
        )


@cases("", few=[()], many=[()])
def test_a_verdict_and_a_death_at_once_have_one_outcome(ways: None) -> None:
    """One rank raises, another dies, the third loses patience."""
    does = [meets("word"), meets_then(0, fails), meets("word")]
    ends = alike(Ranks(does, mortal=2, tiring=0).ends())
    assert {became[-1].partition(":")[0] for became in ends} == {"RankFailed", "RankLost", "ExchangeTimeout"}
