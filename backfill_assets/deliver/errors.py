"""Errors of replays: what may not be sent, or where, and what stopped the sending."""

from __future__ import annotations

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.capture.landed_files import Family
from backfill_assets.core.about import Because, OfTable
from backfill_assets.core.errors import MissingInput, NotApproved, Refused, Retryable, sentence


@sentence
class NotReplayable(OfTable, Refused):
    """{table} declares no replay, so its rows cannot be sent.

    Next: declare replay=KafkaReplay(servers=...) or KinesisReplay(region=...) if its records may be sent
    """


@sentence
class NothingToReplay(MissingInput):
    """{subject} has nothing to send{within}."""

    subject: str
    within: str = ""


@sentence
class InputsChanged(Refused):
    """{what} changed after the replay was planned."""

    what: str


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
        if self.family != Family.KAFKA:
            return "name one that is not there yet with [into=events.backfill]"
        return (
            "name a topic that is not there yet with [into=TOPIC]; "
            "if this one is meant, declare live_topics=({target!r},)"
        )


@sentence
class BadName(Refused):
    """{target} is not the name of a {kind}.

    Next: name one that is not there yet with [into=events.backfill]
    """

    target: str
    kind: str


@sentence
class OtherSink(OfTable, Refused):
    """replay {replay_id} sends to {expected}, and the replay that {table} declares now is to {found}.

    Next: declare its replay to {expected} again until it is closed
    """

    replay_id: str
    expected: str
    found: str


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


@sentence
class ProgressLost(Refused):
    """the cluster of {name} no longer knows the progress of replay {replay_id}.

    Next: end it, and replay again: [replay close {replay_id} by=NAME reason=WHY]
    """

    name: str
    replay_id: str


@sentence
class TooLargeForStream(Refused):
    """a record with its key and its envelope has {size_bytes:,} bytes, and one of {name} has at most {most_bytes:,}.

    Next: replay to a topic, or only days without such a record
    """

    name: str
    size_bytes: int
    most_bytes: int


@sentence
class WriteFailed(Because, Retryable):
    """writing to {name} stopped: {why}.

    Next: repeat the command: it continues where it stopped
    """

    name: str
