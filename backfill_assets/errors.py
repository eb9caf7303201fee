"""What can go wrong, and what a caller may do about it.

```
BackfillError
├── Refused            nothing was changed; mend what the message names and ask again
│   ├── InvalidDeclaration    a domain declares something impossible
│   ├── UnknownName           a table, run, version or import nobody has heard of
│   ├── InvalidRange          days that are reversed, malformed or outside a table's days
│   ├── MissingInput          partitions, files or references that a run needs are not there
│   ├── UnreadableFile        a landed file that cannot be read at all
│   ├── UnreadableTable       a table whose log or files cannot be read
│   ├── InvalidReference      a reference file that says something impossible
│   ├── IllegalTransition     the ledger says that this step is not the next one
│   ├── NotApproved           publication without a valid approval, or approval of one's own plan
│   ├── GateFailed            a blocking gate has not passed for exactly these files
│   ├── AtWork                another process is at work on it, and its lease has not ended
│   ├── TakenOver             another process carries on with what this one was doing, or it was cancelled
│   ├── TargetChanged         a partition is not what the candidate was compared with
│   ├── InputsMovedOn         there are newer inputs than the run has read
│   ├── LeavesOrphans         a rollback would leave published partitions without their input
│   ├── WrongSession          a Spark session in which rows could mean something else
│   └── ContractBroken        a transform returned something else than it declares
├── Retryable          nothing was changed; the same request may succeed later
│   ├── LostRace              another writer committed first, again and again
│   └── TurnTaken             another process is landing files of the source (landing.turn)
├── Interrupted        somebody stopped the command; what it had finished is kept
├── HalfWay            some tables of a set are changed and the others not yet; `backfill recover` ends it
├── OutcomeUnknown     look before you touch: run `backfill recover`
└── Unexpected         the machine or this project failed in a way that nobody foresaw; details are in a file
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from backfill_assets.next_steps import Advice, NextStep, step


class BackfillError(Exception):
    """The base of every error this project raises on purpose.

    Args:
        message: What was expected, what was found, and where.
        next_step: What the reader can do now, preferably what to ask for.
        **ids: The ids of what was involved (run_id, table, partition, ...), kept as `ids` for logs and JSON.
    """

    exit_code = 1
    _recorded = ""

    def __init__(self, message: str, *, next_step: Advice | None = None, **ids: object) -> None:
        super().__init__(message)
        self.message = message
        self.next_step: NextStep | None = None if next_step is None else step(next_step)
        self.ids: Mapping[str, object] = dict(ids)

    @property
    def recorded(self) -> str:
        """The message as the ledger keeps it for ever, which may not hold values of rows."""
        return self._recorded or self.message

    def record_as(self, sentence: str) -> Self:
        """The same error, recorded with another sentence than the one that a person reads."""
        self._recorded = sentence
        return self

    def __str__(self) -> str:
        return f"{self.message} Next: {self.next_step}" if self.next_step else self.message


class Refused(BackfillError):
    """The request was understood and declined; nothing was changed."""


class InvalidDeclaration(Refused):
    """A domain declares something impossible; the message names the table and the mistake."""


class UnknownName(Refused):
    """A table, run, transform version, source or import that does not exist."""


class InvalidRange(Refused):
    """Days that are reversed, malformed, or outside the days a table can have."""


class MissingInput(Refused):
    """Partitions, files or references that the run needs are not there."""


class UnreadableFile(Refused):
    """A file offered for landing that cannot be read at all, and is refused whole."""


class UnreadableTable(Refused):
    """A table whose log, or a file of it, cannot be read: damaged, or not ours to read."""


class InvalidReference(Refused):
    """A reference file that cannot be parsed or says something impossible."""


class IllegalTransition(Refused):
    """A state change that the ledger's transition table does not allow from the present state."""


class NotApproved(Refused):
    """Publication without a valid approval, or an approval by the one who asked."""


class GateFailed(Refused):
    """A blocking gate has not passed for exactly the files that would be published."""


class AtWork(Refused):
    """Another process is at work on the run or the landed file, and its lease has not ended."""


class TakenOver(Refused):
    """The run is not this process's any more: another one carries on with it, or it was given up or cancelled."""


class TargetChanged(Refused):
    """A declared partition is not what the candidate was compared with."""


class InputsMovedOn(Refused):
    """There are newer inputs than those that the run was computed from: readers see what follows from them, or another
    run of its set was staged again."""


class WrongSession(Refused):
    """A setting of the Spark session, which decides what rows mean, is not what it has to be."""


class LeavesOrphans(Refused):
    """A rollback would leave published partitions without an accepted version of their input."""


class ContractBroken(Refused):
    """A transform returned something else than its table declares."""


class Retryable(BackfillError):
    """Nothing was changed, and the same request may succeed later."""


class LostRace(Retryable):
    """Other writers committed first, as often as we were willing to try."""


class Interrupted(BackfillError):
    """Somebody stopped the command (Ctrl-C); what it had finished is kept."""

    exit_code = 130


class HalfWay(BackfillError):
    """Some tables of a restatement set are changed and others are not yet; the ledger knows, and can go either way."""


class OutcomeUnknown(BackfillError):
    """It cannot be said from here whether the change happened; `backfill recover` finds out."""


class Unexpected(BackfillError):
    """The machine or this project failed in a way that nobody foresaw; what a killed process leaves may be left."""
