"""Ranks that meet in the store: threads of one process stand for ranks."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import torch.distributed as td

import dist.meeting
from dist import ExchangeError, ExchangeTimeout, RankClosed, RankDisagreement, RankFailed, RankLost
from dist.meeting import Meeting, Patience
from dist.store import Store, StoreHolder


class Party:
    """Meetings of ``n`` ranks, and what becomes of each rank that runs a function of its meeting."""

    def __init__(self, n: int, timeout_s: float = 30, *, trying: bool = True) -> None:
        self.store = td.HashStore()  # type: ignore[attr-defined]
        store = cast("Store", self.store)
        self.stops = [threading.Event() for _ in range(n)]
        self.trying, self.timeout_s, self.n = trying, timeout_s, n
        self.patience = [Patience(timeout_s) for _ in range(n)]
        self.meetings = [
            Meeting(store, StoreHolder(None), rank, n, self.patience[rank], self.stops[rank]) for rank in range(n)
        ]

    def run(self, *actions: Callable[[Meeting], object]) -> list[object]:
        def each(rank: int) -> object:
            try:
                if not self.trying:
                    return actions[rank](self.meetings[rank])
                with self.patience[rank].waiting():
                    return actions[rank](self.meetings[rank])
            except ExchangeError as error:
                return error

        with ThreadPoolExecutor(self.n) as pool:
            return list(pool.map(each, range(self.n)))


@pytest.fixture(autouse=True, params=["few", "many"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ranks meet as few do, and as many."""
    way: str = request.param
    if way == "many":
        monkeypatch.setattr(dist.meeting, "FEW", 0)
    return way


def arrive(word: str, step: int = 7) -> Callable[[Meeting], None]:
    def action(meeting: Meeting) -> None:
        meeting.enter(step, "plan")
        meeting.meet(word)

    return action


def all_alike(outcomes: list[object], kind: type[ExchangeError], text: str) -> ExchangeError:
    """Return the error that every rank must have raised, with the same text."""
    assert len({(type(each), str(each)) for each in outcomes}) == 1, outcomes
    (first, *_) = outcomes
    assert type(first) is kind
    assert isinstance(first, ExchangeError)
    assert re.search(text, str(first)), str(first)
    assert (first.step, first.phase) == (7, "plan")
    return first


def test_many_meetings_leave_a_few_keys(ways: str) -> None:
    party = Party(3)

    def action(meeting: Meeting) -> None:
        for step in range(200):
            meeting.enter(step, "agree")
            meeting.meet(f"word {step}")

    assert party.run(action, action, action) == [None] * 3
    assert party.store.num_keys() == {"few": 3, "many": 4}[ways]
    for meeting in party.meetings:
        meeting.forget()
    assert party.store.num_keys() == 0


def test_each_of_many_ranks_reads_the_roll_once_however_long_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    read, whole = list[int](), Meeting._read

    def counted(meeting: Meeting) -> None:
        read.append(meeting._rank)
        whole(meeting)

    monkeypatch.setattr(Meeting, "_read", counted)

    def late(meeting: Meeting) -> None:
        time.sleep(0.2)
        arrive("ready")(meeting)

    n = 20
    assert Party(n).run(*[arrive("ready")] * (n - 1), late) == [None] * n
    assert sorted(read) == [*range(n)]


def test_different_words_are_a_disagreement_that_names_the_odd_rank() -> None:
    outcomes = Party(3).run(arrive("9f3a"), arrive("1c07"), arrive("9f3a"))
    error = all_alike(outcomes, RankDisagreement, r"step 7, plan: ranks 0, 2: 9f3a, rank 1: 1c07. Nothing was moved")
    assert error.ranks == (1,)


def test_a_rank_that_raises_is_named_to_all_others() -> None:
    def raises(meeting: Meeting) -> None:
        meeting.enter(7, "plan")
        meeting.fail(KeyError("item 5"), "Traceback ...")
        meeting.meet("never seen")

    outcomes = Party(2).run(arrive("ready"), raises)
    error = all_alike(outcomes, RankFailed, "step 7, plan: rank 1 raised KeyError: 'item 5'")
    assert isinstance(error, RankFailed)
    assert error.details == "Traceback ..."


def test_a_late_rank_is_named_with_where_it_was_last() -> None:
    def elsewhere(meeting: Meeting) -> None:
        meeting.enter(6, "exchange")

    begin = time.monotonic()
    outcomes = Party(3, timeout_s=0.5).run(arrive("ready"), elsewhere, arrive("ready"))
    text = r"step 7, plan: waited in vain for rank 1 \(last at step 6, exchange\), after 0.5 s. It is dead, stopped"
    all_alike([outcomes[0], outcomes[2]], ExchangeTimeout, text)
    assert 0.5 <= time.monotonic() - begin < 3


def test_of_many_late_ranks_the_text_names_some_and_the_error_knows_all() -> None:
    outcomes = Party(11, timeout_s=0.3).run(arrive("ready"), *[lambda meeting: None] * 10)
    text = r"vain for rank 1 \(not seen yet\), .*, rank 8 \(not seen yet\) and 2 more, after"
    error = all_alike(outcomes[:1], ExchangeTimeout, text)
    assert error.ranks == tuple(range(1, 11))


def test_a_rank_that_never_said_where_it_was_is_known_from_the_last_meeting() -> None:
    """Who is not waited for tells nobody: that costs a request. But all were in the last meeting."""
    party = Party(2, timeout_s=0.5)

    def meets(meeting: Meeting) -> None:
        meeting.at(6, "plan")
        meeting.meet()

    def stays(meeting: Meeting) -> None:
        meets(meeting)
        arrive("ready")(meeting)

    outcomes = party.run(stays, meets)
    assert outcomes[1] is None
    all_alike(outcomes[:1], ExchangeTimeout, r"step 7, plan: waited in vain for rank 1 \(last at step 6, plan\), after")


def test_who_sees_a_rank_end_tells_all_even_if_nobody_waits_for_them() -> None:
    party = Party(3, trying=False)
    stop, patience = party.stops[0], party.patience[0]
    party.meetings[0] = Meeting(cast("Store", party.store), StoreHolder(None), 0, 3, patience, stop, ended=lambda: [1])
    party.meetings[1].enter(6, "exchange")
    outcomes = party.run(arrive("ready"), lambda meeting: None, arrive("ready"))
    text = r"^step 7, plan: lost rank 1 \(last at step 6, exchange\), whose process has ended$"
    assert all_alike([outcomes[0], outcomes[2]], RankLost, text).ranks == (1,)


def test_a_rank_that_ends_just_after_a_meeting_was_at_it() -> None:
    party = Party(2)

    def comes_and_ends() -> list[int]:
        arrive("ready")(party.meetings[1])
        return [1]

    stop, patience = party.stops[0], party.patience[0]
    party.meetings[0] = Meeting(
        cast("Store", party.store), StoreHolder(None), 0, 2, patience, stop, ended=comes_and_ends
    )
    assert party.run(arrive("ready"), lambda meeting: None) == [None, None]


def test_nobody_who_is_not_waited_for_is_late() -> None:
    def slow(meeting: Meeting) -> None:
        time.sleep(1)
        arrive("ready")(meeting)

    assert Party(2, timeout_s=0.2, trying=False).run(arrive("ready"), slow) == [None, None]


def test_a_rank_that_closes_withdraws_at_once() -> None:
    party = Party(2)

    def closes(meeting: Meeting) -> None:
        party.stops[1].set()
        arrive("ready")(meeting)

    def comes_later(meeting: Meeting) -> None:
        time.sleep(0.3)
        arrive("ready")(meeting)

    outcomes = party.run(comes_later, closes)
    all_alike(outcomes, RankClosed, "step 7, plan: rank 1 closed its loader")


@pytest.mark.parametrize("last", [0, 1])
def test_closing_and_arriving_last_at_once_has_one_outcome(last: int) -> None:
    for _ in range(100):
        party = Party(2)

        def closes(meeting: Meeting, party: Party = party) -> None:
            threading.Thread(target=party.stops[last].set).start()
            arrive("ready")(meeting)

        actions = [arrive("ready"), arrive("ready")]
        actions[last] = closes
        outcomes = party.run(*actions)
        assert len({str(each) for each in outcomes}) == 1


def test_a_rank_that_dies_on_the_threshold_is_named() -> None:
    """It has said that it comes, and is killed before it is counted."""

    def dies(meeting: Meeting) -> None:
        meeting.enter(7, "plan")

    outcomes = Party(3, timeout_s=0.5).run(arrive("ready"), dies, arrive("ready"))
    all_alike([outcomes[0], outcomes[2]], ExchangeTimeout, r"waited in vain for rank 1 \(last at step 7, plan\)")


def again(action: Callable[[Meeting], object], meeting: Meeting) -> None:
    for _ in range(3):  # who only writes finds out later
        action(meeting)


@pytest.mark.parametrize(("holder", "who"), [(2, "rank 2"), (None, "a process outside of these ranks")])
def test_whatever_is_asked_of_a_store_that_is_gone_says_so(holder: int | None, who: str) -> None:
    actions: list[Callable[[Meeting], object]] = [
        lambda meeting: meeting.enter(7, "plan"),
        lambda meeting: meeting.meet("word"),
        lambda meeting: (meeting.tell("text"), meeting.told()),
        lambda meeting: meeting.fail(KeyError(5), ""),
        lambda meeting: meeting.close(),
        lambda meeting: meeting.lose(RuntimeError("Connection closed by peer")),
    ]
    for action in actions:
        store = td.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        client = store.clone()  # type: ignore[attr-defined]
        meeting = Meeting(client, StoreHolder(holder), 0, 2, Patience(30), threading.Event())
        meeting.at(7, "plan")
        del store
        with pytest.raises(RankLost, match=f"^step 7, plan: the rendezvous store is gone, which {who} usually holds. "):
            again(action, meeting)
