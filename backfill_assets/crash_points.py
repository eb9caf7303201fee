"""Between which durable steps can a process die?

Every such place has a name, so that `make test-faults` can kill a process exactly there and see what `recover` makes of
it. In use a place does nothing. What is promised is written in docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """A place right after a durable step and before the next one."""

    LAND_ARCHIVED = "land: the file is in the archive, the ledger does not know it"
    LAND_BEGUN = "land: the import is LANDING"
    LAND_CONFORMED = "land: its records are written beside the archive"
    LAND_QUARANTINED = "land: its rejected records are in the quarantine"
    LAND_FINISHED = "land: the import is LANDED"
    STAGE_BEGUN = "stage: the run is STAGING, earlier candidates are forgotten"
    STAGE_CHUNK_STARTED = "stage: a chunk is RUNNING"
    STAGE_FILES_WRITTEN = "stage: the files of a chunk are written, the ledger does not know them"
    STAGE_CHUNK_FINISHED = "stage: a chunk is DONE"
    STAGE_FINISHED = "stage: the run is STAGED"
    GATE_BEGUN = "gate: the run is GATING"
    GATE_APPENDED = "gate: the results are in the validation table, the ledger does not know them"
    GATE_RECORDED = "gate: the run is PASSED or BLOCKED"
    SWAP_INTENDED = "swap: the intent is in the ledger, the table is as it was"
    SWAP_COMMITTED = "swap: the table has changed, the ledger does not know it"
    SWAP_ACKNOWLEDGED = "swap: the ledger knows"
    SWAP_ABANDONED = "swap: refused by the table, and the ledger knows"
    SET_BEGUN = "set: it is PUBLISHING, no table has changed"
    SET_TABLE_PUBLISHED = "set: a table is published"
    SET_ROLLING_BACK = "set: it is ROLLING_BACK, no table has changed"
    SET_TABLE_BROUGHT_BACK = "set: a table is as it was before"
    SET_FINISHED = "set: all of it is published or brought back, and the ledger knows"
    ROLLBACK_ORDERED = "rollback: it is noted which dependents go with it, nothing is undone"
    RECOVER_FENCED = "recover: the table says for good whether the swap landed, the ledger does not know it"
    RECOVER_CLOSED = "recover: one thing that was under way is closed"
    RECOVER_SWEPT = "recover: abandoned landings are FAILED, their folders are still there"
    FOLLOW_UP_PLANNED = "follow: a run is planned, what asked for it is still open"
    FOLLOW_UPS_DELIVERED = "follow: what asks for nothing more is delivered"
    VACUUM_PLANNED = "vacuum: it is known what goes, and nothing is done"
    VACUUM_MARKED = "vacuum: the ledger knows what goes, every file is still there"
    VACUUM_TABLE_DONE = "vacuum: the files of a table are gone"


Reached = Callable[[Point], None]


def carry_on(point: Point) -> None:
    """What happens at every place in use: nothing."""
