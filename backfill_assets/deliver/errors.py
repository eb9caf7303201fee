"""Errors of replays: what may not be sent, or where, and what stopped the sending."""

from __future__ import annotations

from backfill_assets.core.errors import MissingInput, NotApproved, Refused, Retryable, sentence


@sentence
class NotReplayable(Refused):
    """{table} declares no replay: nothing of it leaves."""

    table: str


@sentence
class NothingToReplay(MissingInput):
    """nothing of {subject} is there to be sent{within}."""

    subject: str
    within: str = ""


@sentence
class RunNotReplayable(Refused):
    """run {run_id} is {state}, and only what readers see of a run, or saw, is sent."""

    run_id: str
    state: str


@sentence
class LiveTopic(NotApproved):
    """the topic {topic} was not created by a replay, and {table} does not allow that it is replayed to."""

    topic: str
    table: str


@sentence
class TopicGone(Refused):
    """the topic {topic} of replay {replay_id} is gone{instead}."""

    topic: str
    replay_id: str
    found: str = ""

    @property
    def instead(self) -> str:
        return f", and another one has its name ({self.found})" if self.found else ""


@sentence
class ProgressLost(Refused):
    """the cluster of the topic {topic} does not know any more how far replay {replay_id} is."""

    topic: str
    replay_id: str


@sentence
class TooLarge(Refused):
    """a record is larger than the topic {topic} takes: {why}."""

    topic: str
    why: str


@sentence
class WriteFailed(Retryable):
    """writing to the topic {topic} stopped: {why}."""

    topic: str
    why: str
