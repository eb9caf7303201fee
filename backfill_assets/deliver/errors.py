"""Errors of replays: what may not be sent, or where, and what stopped the sending."""

from __future__ import annotations

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.capture.families import families, one_of
from backfill_assets.core.about import Because, OfTable
from backfill_assets.core.errors import MissingInput, NotApproved, Refused, sentence


@sentence
class NotReplayable(OfTable, Refused):
    """{table} declares no replay, so its rows cannot be sent."""

    @property
    def advice(self) -> str:
        return f"declare replay={one_of('replays')} if its records may be sent"


@sentence
class ReplayFailed(Because, Refused):
    """replay {replay_id} failed, so its target is incomplete: {why}.

    Next: end it, and replay again: [replay close {replay_id} by=NAME reason=WHY]
    """

    replay_id: str


@sentence
class RowsRemoved(MissingInput):
    """what run {run_id} published of {table}, or replaced there, was removed by retention, for {partitions}.

    Next: replay {table}, whose rows are sent as readers see them
    """

    run_id: str
    table: str
    partitions: Partitions


@sentence
class LiveTarget(OfTable, NotApproved):
    """{name} was not created by a replay, and {table} does not allow that it is replayed to."""

    family: str
    name: str
    target: str

    @property
    def advice(self) -> str:
        of_family = next((each.target.if_live for each in families() if each.name == self.family and each.target), "")
        return f"name one that is not there yet with [into=events.backfill]{of_family and '; '}{of_family}"


@sentence
class TargetGone(Refused):
    """{name} of replay {replay_id} is gone{instead}.

    Next: end it, and replay again: [replay close {replay_id} by=NAME reason=WHY]
    """

    name: str
    replay_id: str
    found: str = ""

    @property
    def instead(self) -> str:
        return f", and another one has its name ({self.found})" if self.found else ""
