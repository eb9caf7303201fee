"""How do several actors take turns, one step at a time, in an order that can be said and said again?

Every actor is a thread that runs the real functions and stands still at every stop. Only the actor whose turn it is
runs, so an order of turns is a run of the whole, and the same order gives the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

PATIENCE_S = 60.0
"""An actor that takes longer from one stop to the next is stuck: it waits for something that another one holds."""


class Order(Enum):
    """What an actor does after a stop."""

    GO = "goes on"
    DIE = "dies"
    FAIL = "fails"


class Killed(BaseException):
    """The actor's process is no more. No `except Exception` may see it, as none sees SIGKILL."""


class Stuck(Exception):
    """An actor did not come to its next stop."""


@dataclass(kw_only=True)
class Actor:
    """A thread that acts."""

    name: str
    act: Callable[[], object]
    stops_at: Callable[[str], bool]
    at: str = "start"  #: The stop where it stands.
    can_fail: bool = False  #: Whether what comes next at this stop may fail with an error of the machinery.
    ended: bool = False
    outcome: object = None  #: What it returned or raised, once `ended`.
    _order: Order = Order.GO
    _held: int = 0
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _here: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name=self.name).start()

    def turn(self, order: Order) -> None:
        """Lets the actor go on to its next stop or its end.

        Raises:
            Stuck: It does not come there.
        """
        self._order = order
        self._go.release()
        if not self._here.acquire(timeout=PATIENCE_S):
            raise Stuck(f"{self.name} did not come back from {self.at!r}")

    def stand(self, where: str, fails_with: Exception | None) -> None:
        """Stands still until it is this actor's turn again."""
        if self._held or not self.stops_at(where):
            return
        self.at, self.can_fail = where, fails_with is not None
        self._here.release()
        self._go.acquire()
        if self._order is Order.DIE:
            raise Killed
        if self._order is Order.FAIL and fails_with is not None:
            raise fails_with

    def _run(self) -> None:
        self._go.acquire()
        _present.actor = self
        try:
            if self._order is Order.DIE:
                raise Killed
            self.outcome = self.act()
        except BaseException as error:  # noqa: BLE001 - kept as its outcome, its death included
            self.outcome = error
        finally:
            self.ended = True
            self._here.release()


class _Present(threading.local):
    actor: Actor | None = None


_present = _Present()


def stop(where: str, *, fails_with: Exception | None = None) -> None:
    """A place where the present actor gives its turn to another one; nothing for code that no actor runs.

    Args:
        where: Names the place.
        fails_with: What the machinery raises here when the order is to fail.
    """
    if _present.actor is not None:
        _present.actor.stand(where, fails_with)


@contextmanager
def no_stops() -> Iterator[None]:
    """Inside of a transaction no actor stops: the others would wait for its end, and it for its turn."""
    actor = _present.actor
    if actor is None:
        yield
        return
    actor._held += 1
    try:
        yield
    finally:
        actor._held -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One step of an order: whose turn it was, where that actor stood, and its order."""

    actor: str
    at: str
    order: Order

    def __str__(self) -> str:
        return f"{self.actor} {self.order.value} from {self.at!r}"


Choose = Callable[[Sequence[Actor]], tuple[Actor, Order]]


def play(actors: Sequence[Actor], choose: Choose, *, after: Callable[[], None]) -> list[Turn]:
    """Runs the actors to their ends, one turn after the other.

    Args:
        actors: Who acts.
        choose: Says whose turn it is, of those who have not ended.
        after: Called after every turn: what a reader sees just then.

    Raises:
        Stuck: An actor waits for what another one holds.
    """
    for actor in actors:
        actor.start()
    turns: list[Turn] = []
    while alive := [actor for actor in actors if not actor.ended]:
        actor, order = choose(alive)
        turns.append(Turn(actor=actor.name, at=actor.at, order=order))
        actor.turn(order)
        after()
    return turns


def every_order(run: Callable[[Choose], object]) -> Iterator[object]:
    """Runs all orders of turns there are, one after the other: at every turn each actor that is left; none dies.

    Args:
        run: Plays the same scene anew in the order that it is given.
    """
    path: list[int] = []
    while True:
        taken: list[tuple[int, int]] = []

        def choose(
            alive: Sequence[Actor], path: list[int] = path, taken: list[tuple[int, int]] = taken
        ) -> tuple[Actor, Order]:
            number = path[len(taken)] if len(taken) < len(path) else 0
            taken.append((number, len(alive)))
            return alive[number], Order.GO

        yield run(choose)
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return
        path = [number for number, _ in taken]
        path[-1] += 1
