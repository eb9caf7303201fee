"""Errors, and what a caller can do about each of them.

```
BackfillError
├── Refused            nothing was changed; fix what the message names and repeat the request
│   ├── InvalidDeclaration    a domain declares something impossible
│   ├── UnknownName           a table, run, version or import that does not exist
│   ├── InvalidRange          days that are reversed, malformed or outside a table's days
│   ├── MissingInput          partitions, files or references that a run needs do not exist
│   ├── UnreadableFile        a landed file that cannot be read at all
│   ├── AmbiguousOrder        nothing declared decides between two versions of a key
│   ├── UnreadableTable       a table whose log or files cannot be read
│   ├── InvalidReference      a reference file with invalid content
│   ├── IllegalTransition     the state in the ledger does not allow this step
│   ├── NotApproved           publication without a valid approval, or approval of one's own plan
│   ├── GateFailed            a blocking gate has not passed for exactly these files
│   ├── AtWork                another process works on it, and its lease has not ended
│   ├── TakenOver             another process has taken over the work, or it was cancelled
│   ├── TargetChanged         a partition is not what the candidate was compared with
│   ├── InputsMovedOn         there are newer inputs than the run has read
│   ├── LeavesOrphans         a rollback would leave published partitions without their input
│   ├── StoreRefused          an object store that does not accept the credentials, or has no such bucket
│   ├── PackageMissing        a package of an extra that is not installed
│   ├── WrongSession          a Spark session whose settings change the meaning of rows
│   └── ContractBroken        a transform did not return what it declares
├── Retryable          nothing was changed; the same request may succeed later
│   ├── LostRace              other writers committed first in every attempt
│   ├── StoreAway             an object store does not answer
│   ├── DiskFull              no space is left on a disk
│   └── TurnTaken             another process is landing files of the source (landing.attempt)
├── Interrupted        the command was stopped; what it had finished is kept
├── HalfWay            some tables of a set are changed and others are not; `backfill recover` ends it
├── OutcomeUnknown     check before you repeat it: run `backfill recover`
└── Unexpected         an unforeseen failure of the machine or of this project; details are in a file
    └── Unrecorded            of what records the work for people to look at; the work itself is done
```
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date
from string import Formatter
from typing import Any, Self, TypeVar, dataclass_transform

from backfill_assets.core.next_steps import Advice, NextStep, step, written
from backfill_assets.core.wording import in_text, visible

_NEXT = re.compile(r"\n\s*\n\s*Next: ")
"""Before the second paragraph of a docstring, which is the next step."""


class BackfillError(Exception):
    """The base of the errors that this project raises intentionally.

    A room declares its own errors in its `errors.py`, each a `sentence` below one of the classes here: its fields are
    the ids and values that were expected and found, those that most errors have taken from `core.about`, and its
    docstring is the sentence, a template of these fields. Its second paragraph begins with `Next:` and is the next step
    (`core.next_steps`), such as `Next: stage the rest: [run {run_id}]`; a class whose next step depends on what its
    fields hold says it as `advice` instead.

    What is raised in one place, and caught, matched or asked for nowhere, needs no class: it is `coded` there.

    Args:
        message: What was expected, what was found, and where, for a class without fields.
    """

    exit_code = 1
    code = ""  #: What an error without a class of its own is called in the reference of messages.
    _recorded = ""
    _said = ""
    _then = ""
    _named: tuple[str, ...] = ()

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @classmethod
    def coded(cls, code: str, said: str, *, then: str = "", **named: object) -> Self:
        """Makes an error that nothing tells from others of its category, so that it has no class of its own.

        Args:
            code: What it is called in the reference of messages.
            said: Its sentence, as the docstring of a class has it.
            then: What to do next, as the second paragraph of such a docstring has it.
            **named: What both name.
        """
        error = cls()
        error.args = ()
        error.__dict__.update(named, code=code, _said=said, _then=then, _named=tuple(named))
        return error

    @property
    def message(self) -> str:
        """The sentence with the fields of the error: what was expected, what was found, and where."""
        if self.args:
            return str(self.args[0])
        template = self._said or " ".join(_NEXT.split(type(self).__doc__ or "{ids}")[0].split())
        return Formatter().vformat(template, (), _Fields(self))

    @message.setter
    def message(self, message: str) -> None:
        self.args = (message,)

    @property
    def advice(self) -> Advice | None:
        """The next step, as text with names of fields and properties, or as a value; None for nothing.

        The second paragraph of the docstring of the class, or of the nearest base that has one.
        """
        if self._said:
            return self._then or None
        said = (_NEXT.split(kind.__dict__.get("__doc__") or "", 1) for kind in type(self).__mro__)
        return next((" ".join(paragraphs[1].split()) for paragraphs in said if len(paragraphs) > 1), None)

    @property
    def next_step(self) -> NextStep | None:
        """The next step of a reader; None where there is nothing to do."""
        advice = self.advice
        found = written(advice, _Values(self)) if isinstance(advice, str) else step(advice) if advice else None
        return found if found and found.parts else None

    @property
    def ids(self) -> Mapping[str, object]:
        """The fields of the error that are plain values or a sequence of these, for logs and JSON; not `why`, which the
        sentence has and which may quote values of rows. An error with `of` has the ids in it, and no others."""
        if isinstance(of := getattr(self, "of", None), Mapping):
            return of
        names = [each.name for each in fields(self)] if is_dataclass(self) else self._named
        named = {name: getattr(self, name) for name in names}
        return {name: plain for name, value in named.items() if name != "why" and (plain := _plain(value)) is not None}

    @property
    def category(self) -> type[BackfillError]:
        """The class of this module that says what a caller can do about the error."""
        return next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)

    @property
    def recorded(self) -> str:
        """The message that the ledger keeps permanently, which must not contain values of rows."""
        return self._recorded or self.message

    def record_as(self, sentence: str) -> Self:
        """This error, recorded with another sentence than the displayed one."""
        self._recorded = sentence
        return self

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Fields are keywords: an error that leaves a worker process is rebuilt from its attributes.
        return _rebuilt, (type(self), self.args, self.__dict__)


E = TypeVar("E", bound=BackfillError)


@dataclass_transform(eq_default=False, kw_only_default=True)
def sentence(kind: type[E]) -> type[E]:
    """Makes the fields of an error keywords of its constructor; its docstring is the sentence that it says."""
    return dataclass(eq=False, kw_only=True)(kind)


class _Values(Mapping[str, Any]):
    """The fields and properties of an error by name."""

    def __init__(self, error: BackfillError) -> None:
        self._error = error

    def __getitem__(self, name: str) -> object:
        return getattr(self._error, name)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self._error))

    def __len__(self) -> int:
        return len(vars(self._error))


class _Fields(_Values):
    """The fields and properties of an error as a sentence has them."""

    def __getitem__(self, name: str) -> object:
        return in_text(super().__getitem__(name))


def _plain(value: object) -> object:
    if isinstance(value, (str, int, date)):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Collection) and all(isinstance(each, (str, int, date)) for each in value):
        return [str(each) for each in value]
    return None


def _rebuilt(kind: type[BackfillError], args: tuple[object, ...], attributes: Mapping[str, object]) -> BackfillError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class Refused(BackfillError):
    """The request was understood and declined; nothing was changed."""


class InvalidDeclaration(Refused):
    """An invalid declaration of a domain; the message names the table and the mistake.

    Next: correct the declaration in {declared_in}; then the command again
    """

    place: str = ""  #: The file of the author, and the line, where it is; empty where that is not known.

    @property
    def declared_in(self) -> str:
        return visible(self.place) or "the module that BACKFILL_DOMAIN names"


class UnknownName(Refused):
    """A table, run, transform version, source or import that does not exist."""


class InvalidRange(Refused):
    """Days that are reversed, malformed, or outside the days a table can have."""


class MissingInput(Refused):
    """Partitions, files or references that the run needs do not exist."""


class UnreadableFile(Refused):
    """A file for landing that cannot be read at all, and is refused."""


class AmbiguousOrder(Refused):
    """Two landed records of a key have the same position and different content."""


class UnreadableTable(Refused):
    """A table whose log or file cannot be read: damaged, or without permission."""


class InvalidReference(Refused):
    """A reference file that cannot be parsed or has invalid content.

    Next: correct the file; nothing was changed
    """


class IllegalTransition(Refused):
    """A state change that the ledger's transition table does not allow from the present state."""


class NotApproved(Refused):
    """Publication without a valid approval, or an approval by the requester."""


class GateFailed(Refused):
    """A blocking gate has not passed for exactly the files that would be published."""


class AtWork(Refused):
    """Another process works on the run or the landed file, and its lease has not ended."""


class TakenOver(Refused):
    """This process has lost the run: another process has taken it over, or it was abandoned or cancelled."""


class TargetChanged(Refused):
    """A declared partition is not what the candidate was compared with."""


class InputsMovedOn(Refused):
    """There are newer inputs than those that the run was computed from: readers see rows computed from them, or another
    run of its set was staged again."""


class WrongSession(Refused):
    """A setting of the Spark session that determines the meaning of rows does not have the required value."""


class StoreRefused(Refused):
    """An object store that does not accept the credentials, has no such bucket, or lets two writers win."""


class LeavesOrphans(Refused):
    """A rollback would leave published partitions without an accepted version of their input."""


class ContractBroken(Refused):
    """A transform did not return what its table declares."""


@sentence
class PackageMissing(Refused):
    """{what} needs the package {package}, which is not installed.

    Next: pip install 'backfill-assets[[{extra}]]'
    """

    what: str
    package: str
    extra: str


class Retryable(BackfillError):
    """Nothing was changed, and the same request may succeed later."""


class LostRace(Retryable):
    """Other writers committed first in every attempt."""


class StoreAway(Retryable):
    """An object store that does not answer, or answers that it cannot at present."""


@sentence
class DiskFull(Retryable):
    """no space is left on the disk that holds {holds}.

    Next: free some, then give the same command again
    """

    holds: str


def is_full_disk(error: BaseException) -> bool:
    """True if a disk has no space: for a file, for what delta-rs writes, or for a database, here or on its server."""
    cause = getattr(error, "orig", None)
    name, state = (getattr(cause, attribute, None) or "" for attribute in ("sqlite_errorname", "sqlstate"))
    in_database = name.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM")) or state == "53100"
    in_words = f"(os error {errno.ENOSPC})" in str(error)
    return getattr(error, "errno", None) == errno.ENOSPC or in_words or in_database


class Interrupted(BackfillError):
    """The command was stopped (Ctrl-C); what it had finished is kept."""

    exit_code = 130


class HalfWay(BackfillError):
    """Some tables of a restatement set are changed and others are not; the ledger allows completion and reversal."""


class OutcomeUnknown(BackfillError):
    """It is not known whether the change happened; `backfill recover` finds out."""


@sentence
class Unexpected(BackfillError):
    """{why}.

    Next: [recover], which ends unfinished work; then the command again
    """

    why: str
    log: str = ""


@sentence
class Unrecorded(Unexpected):
    """everything was done and is in the ledger; only Dagster's record could not be written: {why}

    Next: repair what is named; then [recover], which shows in Dagster what is accepted
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One table, or set, that could not be processed."""

    table: str  #: The table, or the set.
    error: BackfillError  #: Why it could not.

    def __str__(self) -> str:
        return f"{self.table}: {self.error.message}"


@dataclass(slots=True)
class Problems:
    """The problems of an operation, in order, each once."""

    found: list[Problem] = field(default_factory=list)

    def refused(self, table: str, error: BackfillError) -> None:
        problem = Problem(table=table, error=error)
        if str(problem) not in map(str, self.found):
            self.found.append(problem)

    @contextmanager
    def noted(self, table: str) -> Iterator[None]:
        """Adds an error inside the block as a problem of this table, and continues after it."""
        try:
            yield
        except BackfillError as error:
            self.refused(table, error)
