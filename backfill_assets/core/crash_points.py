"""Crash points: the named places between durable steps at which a process can stop.

`make test-faults` kills a process exactly at each of them and runs `recover`. In production they do nothing. The
guarantees are listed in docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    """A place between one durable step and the next one."""

    CAPTURE_BEGUN = "capture: the positions are in the ledger, nothing is read"
    CAPTURE_KEPT = "capture: a file of a piece is in the landing place, and not in the ledger"
    CAPTURE_RECORDED = "capture: the files of a piece are in the ledger, and the stream has not been notified"
    LAND_DECODED = "land: what decoding made of the file is beside the archive, the file is not in it"
    LAND_ARCHIVED = "land: the file is in the archive and not in the ledger"
    LAND_BEGUN = "land: the import is LANDING"
    LAND_CONFORMED = "land: its records are written beside the archive"
    LAND_QUARANTINED = "land: its rejected records are in the quarantine"
    LAND_STATED = "land: the keys that a statement is about are written beside the archive"
    LAND_FINISHED = "land: the import is LANDED"
    STAGE_BEGUN = "stage: the run is STAGING, earlier candidates are discarded"
    STAGE_CHUNK_STARTED = "stage: a chunk is RUNNING"
    STAGE_FILES_WRITTEN = "stage: the files of a chunk are written and not in the ledger"
    STAGE_CHUNK_FINISHED = "stage: a chunk is DONE"
    STAGE_FINISHED = "stage: the run is STAGED"
    GATE_BEGUN = "gate: the run is GATING"
    GATE_APPENDED = "gate: the results are in the validation table and not in the ledger"
    GATE_RECORDED = "gate: the run is PASSED or BLOCKED"
    CHECK_APPENDED = "check: the results are in the validation table and not in the ledger"
    SWAP_INTENDED = "swap: the intent is in the ledger, the table is as it was"
    LINEAGE_WRITTEN = "swap: the lineage of the run is in lineage.runs, its table is as it was"
    SWAP_COMMITTED = "swap: the table has changed, the ledger has not acknowledged it"
    SWAP_ACKNOWLEDGED = "swap: the ledger has acknowledged it"
    SWAP_ABANDONED = "swap: refused by the table, and abandoned in the ledger"
    TABLE_ACT_DONE = "cut-over: readers are shown the other version, by one row of the ledger"
    SET_BEGUN = "set: it is PUBLISHING, no table has changed"
    SET_TABLE_PUBLISHED = "set: a table is published"
    SET_ROLLING_BACK = "set: it is ROLLING_BACK, no table has changed"
    SET_TABLE_BROUGHT_BACK = "set: a table is rolled back"
    SET_FINISHED = "set: everything is published or rolled back, and recorded in the ledger"
    ROLLBACK_ORDERED = "rollback: the dependents that are undone with it are recorded, nothing is undone"
    RECOVER_FENCED = "recover: the table's log decides permanently whether the swap landed, the ledger is not updated"
    RECOVER_CLOSED = "recover: one piece of work that was in progress is closed"
    RECOVER_SWEPT = "recover: abandoned landings are FAILED, their folders still exist"
    FOLLOW_UP_PLANNED = "follow: a run is planned, the outbox entry that asked for it is still open"
    FOLLOW_UPS_DELIVERED = "follow: entries that ask for nothing more are delivered"
    PROPOSAL_DECIDED = "propose: it is decided what is proposed and replaced, nothing is written"
    PROPOSAL_PLANNED = "propose: a draft set is planned, and the drafts whose place it takes are cancelled"
    REPLAY_ASKED = "replay: what is sent is in the ledger, and no topic or stream is there"
    REPLAY_CREATED = "replay: its topic or stream is there, the ledger does not know which it is"
    REPLAY_IDENTIFIED = "replay: the ledger knows its topic or stream, nothing is sent"
    REPLAY_BEGUN = "replay: it is kept how far it is, the ledger has it as ASKED"
    REPLAY_SENDING = "replay: it is SENDING"
    REPLAY_PUT = "replay: a batch is in its stream, and not counted"
    REPLAY_BATCH_SENT = "replay: a batch is in its topic or stream, and counted"
    REPLAY_ALL_SENT = "replay: its topic or stream has all records, the ledger has it as SENDING"
    REPLAY_SENT = "replay: it is SENT"
    REPLAY_FENCED = "close a replay: no process can continue it, its topic or stream exists"
    REPLAY_DELETED = "close a replay: its topic or stream is deleted, the ledger has it as open"
    REPLAY_CLOSED = "close a replay: it is CLOSED"
    VACUUM_PLANNED = "vacuum: the files to remove are determined, nothing is removed"
    VACUUM_MARKED = "vacuum: the ledger has recorded the removal, every file still exists"
    VACUUM_TABLE_DONE = "vacuum: the files of a table are removed"


Reached = Callable[[Point], None]


def carry_on(point: Point) -> None:
    """Does nothing: the callback in production."""
