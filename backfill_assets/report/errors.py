"""Errors of the edges: what a reader typed, chose, or left out, on the command line, at the desk, or in Dagster.

One class for each kind of mistake, shared by all places where it can be made. Their values are in the words of that
edge: names of options, fields, tags and settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from difflib import get_close_matches

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import Interrupted, MissingInput, Refused, sentence
from backfill_assets.core.next_steps import NextStep
from backfill_assets.core.wording import word_of_a_shell
from backfill_assets.ledger.states import RunState
from backfill_assets.report.words.states import MEANING


@sentence
class NotGiven(Because, Refused):
    """{why}.

    Next: add {add}
    """

    add: str


@sentence
class NotOfKey(OfTable, Refused):
    """{column} is not of the key of {table}, which is {listed}."""

    column: str
    key: tuple[str, ...]

    @property
    def listed(self) -> str:
        return ", ".join(self.key) or "its partition alone"

    @property
    def advice(self) -> str:
        if self.near:
            return "write {near}=VALUE"
        return "write {words}" if self.key else "leave {column} out"

    @property
    def near(self) -> str:
        return next(iter(get_close_matches(self.column, self.key, n=1)), "")

    @property
    def words(self) -> str:
        return " ".join(f"{name}=VALUE" for name in self.key)


@sentence
class WordWithoutValue(OfTable, Refused):
    """{word!r} is not COLUMN=VALUE: a row of {table} is named by {listed}."""

    word: str
    example: tuple[tuple[str, str], ...]

    @property
    def listed(self) -> str:
        return " ".join(f"{name}=VALUE" for name, _ in self.example) or "its partition alone"

    @property
    def advice(self) -> str:
        return "write it like {words}" if self.example else "leave {word} out"

    @property
    def words(self) -> str:
        return " ".join(word_of_a_shell(f"{name}={value}") for name, value in self.example)


@sentence
class NotTogether(Because, Refused):
    """{why}.

    Next: leave {leave} out, or {instead}
    """

    leave: str
    instead: str


@sentence
class NotDoneWith(Refused):
    """{name} is neither a run nor a set, and cannot be {deed}.

    Next: [status {name}] says what is done with it
    """

    name: str
    deed: str


@sentence
class Malformed(Refused):
    """{what} {value!r} is not {form}.

    Next: write it like {example}
    """

    what: str
    value: str
    form: str
    example: str


@sentence
class NotOneOf(Refused):
    """{what} is {value!r}, which is not one of {listed}."""

    what: str
    value: str
    known: Iterable[str]

    @property
    def listed(self) -> str:
        return ", ".join(self.known)

    @property
    def advice(self) -> str:
        return "write {near}" if self.near else "choose one of these, or leave it out"

    @property
    def near(self) -> str:
        return next(iter(get_close_matches(self.value, list(self.known), n=1)), "")


@sentence
class CannotUse(Because, Refused):
    """{what} cannot be used: {why}.

    Next: choose {instead}
    """

    what: str
    instead: str


@sentence
class NothingThen(OfTable, MissingInput):
    """readers see no {what} of {table} {partition}{when}{why}."""

    partition: str
    at: datetime | None
    what: str
    expired_by: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    seen_last_at: datetime | None = None

    @property
    def why(self) -> str:
        return f": it expired by run {self.expired_by}" if self.expired_by else ""

    @property
    def when(self) -> str:
        return f" at {self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at else ""

    @property
    def advice(self) -> str:
        if self.seen_last_at is None:
            return "[history {table} partition={partition}] lists what readers saw"
        return "what readers saw last: [trace {table} {partition} {words} at={seen_last}]"

    @property
    def words(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.key.items()]

    @property
    def seen_last(self) -> str:
        return f"{self.seen_last_at.replace(tzinfo=None).isoformat()}Z" if self.seen_last_at else ""


@sentence
class NotAsPlanned(OfRun, Because, Refused):
    """{why}.

    Next: launch {launch}; or [run {run_id}]
    """

    launch: str


@sentence
class RunInterrupted(OfRun, Interrupted):
    """interrupted; run {run_id} is {state} ({meaning}).

    Next: {following}
    """

    state: RunState
    following: NextStep | None

    @property
    def meaning(self) -> str:
        return MEANING[self.state]
