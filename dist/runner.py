"""Who runs the steps: a thread beside the training loop, or the training loop itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread
from typing import NamedTuple, Protocol, TypeAlias

from .errors import ExchangeError
from .executor import Delivery, Executor
from .meeting import Patience
from .source import WeighedPack
from .streams import Event as DeviceEvent

__all__ = ["Answer", "Background", "Inline", "Runner", "ended"]

log = logging.getLogger(__name__)

JOIN_S = 4.5  # longer than a collective may take; a thread that is still busy then is left behind
LOOK_S = 1.0  # how often the training loop looks whether the thread is alive


class Order(NamedTuple):
    """What the training loop asks for."""

    step: int
    packs: Sequence[WeighedPack]
    error: Exception | None  # what the source raised
    ready: DeviceEvent | None  # when the device has made the packs


Answer: TypeAlias = "Delivery | BaseException | None"  # None: the pass has ended


class Runner(Protocol):
    """Steps are ordered one after the other, and taken in the same order."""

    @property
    def thread(self) -> Thread | None:
        """What runs them beside the training loop, if anything does."""
        ...

    def order(self, order: Order) -> None: ...
    def take(self) -> Answer: ...
    def close(self) -> bool:
        """End; again is harmless. Return whether nothing runs any more."""
        ...

    @property
    def ready(self) -> int:
        """Steps that can be taken without waiting."""
        ...


class Inline:
    """No thread: a step runs when it is taken, and the training loop waits for all of it."""

    def __init__(self, executor: Executor, patience: Patience) -> None:
        self._executor, self._patience = executor, patience
        self._orders: list[Order] = []
        self._over = False

    @property
    def thread(self) -> None:
        return None

    @property
    def ready(self) -> int:
        return 0

    def order(self, order: Order) -> None:
        self._orders.append(order)

    def take(self) -> Answer:
        with self._patience.waiting():
            answer = _run(self._executor, self._orders.pop(0))
        self._over = not isinstance(answer, Delivery)
        return answer

    def close(self) -> bool:
        if not self._over:
            _withdraw(self._executor)
        self._over = True
        return True


class Background:
    """One daemon thread, which knows neither the loader nor its iterator: dropping these ends it.

    Its queues have no limit of their own: `Pass` orders no more than ``depth`` + 1 steps ahead.
    """

    def __init__(self, executor: Executor, patience: Patience, stop: Event) -> None:
        self._patience, self._stop = patience, stop
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._thread = Thread(
            target=_serve, args=(executor, self._orders, self._answers, stop), name="evenstep-exchange", daemon=True
        )
        self._thread.start()

    @property
    def thread(self) -> Thread:
        return self._thread

    @property
    def ready(self) -> int:
        return self._answers.qsize()

    def order(self, order: Order) -> None:
        self._orders.put(order)

    def take(self) -> Answer:
        with self._patience.waiting():
            while True:
                try:
                    return self._answers.get(timeout=LOOK_S)
                except Empty:
                    if not self._thread.is_alive() and self._answers.empty():
                        return RuntimeError("the exchange thread has ended without an answer.")

    def close(self) -> bool:
        self._stop.set()
        self._orders.put(None)
        return ended(self._thread)


def ended(thread: Thread) -> bool:
    """Wait for a thread that was told to end. Return whether it did, or will by itself.

    The garbage collector may drop a pass in its own thread, in the midst of a step.
    """
    if thread is current_thread():
        return True
    thread.join(JOIN_S)
    if thread.is_alive():
        log.warning("the exchange thread is still busy after %g s, and is left behind", JOIN_S)
    return not thread.is_alive()


def _serve(executor: Executor, orders: SimpleQueue[Order | None], answers: SimpleQueue[Answer], stop: Event) -> None:
    """Run steps until the pass is over. Locals are deleted after each: else its packs would stay alive meanwhile."""
    over = False
    try:
        executor.begin_thread()
        while not over and not stop.is_set():
            order = orders.get()
            if order is None:
                break
            answer = _run(executor, order)
            over = not isinstance(answer, Delivery)
            answers.put(answer)
            del order, answer
    except BaseException as error:  # a balancer's sys.exit() ends the training loop, as it does without a thread
        answers.put(error)
    finally:
        if not over:
            _withdraw(executor)


def _run(executor: Executor, order: Order) -> Answer:
    try:
        return executor.step(order.step, order.packs, order.error, order.ready)
    except Exception as error:
        del order  # it may hold the error, which holds this frame
        return error


def _withdraw(executor: Executor) -> None:
    """Tell the others that this rank will not come again, if the store still lives."""
    try:
        executor.meeting.close()
    except (ExchangeError, RuntimeError) as error:
        log.debug("closing without telling the others: %s", error)
