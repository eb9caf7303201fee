"""Errors of the edges: what a reader typed, chose, or left out, on the command line, at the desk, or in Dagster.

One class for each kind of mistake, shared by all places where it can be made. Their values are in the words of that
edge: names of options, fields, tags and settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import Interrupted, InvalidRange, MissingInput, Refused, UnknownName, sentence
from backfill_assets.core.next_steps import NextStep
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.partitions import Partitions
from backfill_assets.report.words.states import MEANING


@sentence
class NotGiven(Because, Refused):
    """{why}."""

    add: str


@sentence
class NotOfKey(OfTable, Refused):
    """{column} is not of the key of {table}, which is {listed}."""

    column: str
    key: tuple[str, ...]

    @property
    def listed(self) -> str:
        return ", ".join(self.key) or "its partition alone"


@sentence
class WordWithoutValue(OfTable, Refused):
    """{word!r} is not COLUMN=VALUE: a row of {table} is named by {listed}."""

    word: str
    example: tuple[tuple[str, str], ...]

    @property
    def listed(self) -> str:
        return " ".join(f"{name}=VALUE" for name, _ in self.example) or "its partition alone"


@sentence
class NotTogether(Because, Refused):
    """{why}."""

    leave: str
    instead: str


@sentence
class NotDoneWith(Refused):
    """{name} is neither a run nor a set, and cannot be {deed}."""

    name: str
    deed: str


@sentence
class WrongUsage(Because, Refused):
    """{command}: {why}."""

    command: str
    instead: str


@sentence
class Malformed(Refused):
    """{what} {value!r} is not {form}."""

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


@sentence
class CannotUse(Because, Refused):
    """{what} cannot be used: {why}."""

    what: str
    instead: str


@sentence
class FileThere(Refused):
    """the file {file} exists, and only --replace replaces it."""

    file: str


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


@sentence
class NotYet(InvalidRange):
    """{at:%Y-%m-%d %H:%M:%S} UTC is in the future: what readers see then is not known yet."""

    at: datetime


@sentence
class NotAsPlanned(OfRun, Because, Refused):
    """{why}."""

    launch: str


@sentence
class NoRunYet(OfTable, MissingInput):
    """no run of {table} is {state} over exactly {partitions}."""

    state: RunState
    partitions: Partitions


@sentence
class Undeclared(OfTable, UnknownName):
    """the domain {domain} no longer declares the table {table}, which has been published."""

    domain: str


@sentence
class RunInterrupted(OfRun, Interrupted):
    """interrupted; run {run_id} is {state} ({meaning})."""

    state: RunState
    following: NextStep | None

    @property
    def meaning(self) -> str:
        return MEANING[self.state]
