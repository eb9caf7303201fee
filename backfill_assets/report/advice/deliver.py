"""What to do about errors of replays."""

from __future__ import annotations

from backfill_assets.capture.landed_files import Family
from backfill_assets.core.errors import BackfillError
from backfill_assets.deliver import errors
from backfill_assets.report.requests import Act, Advice, Option, close_replay, do, step


def of_deliver(error: BackfillError) -> Advice | None:
    """What to do about an error of a replay; None when it is none, or there is nothing."""
    match error:
        case errors.NotReplayable():
            return "declare replay=KafkaReplay(servers=...) or KinesisReplay(region=...) if its records may be sent"
        case errors.RunNotReplayable():
            return do(Act.REPORT, error.run_id)
        case errors.LiveTarget() if error.family == Family.KAFKA:
            return step(
                "name a topic that is not there yet with ",
                Option("into", "TOPIC"),
                f"; if this one is meant, declare live_topics=({error.target!r},)",
            )
        case errors.LiveTarget() | errors.BadName():
            return step("name one that is not there yet with ", Option("into", "events.backfill"))
        case errors.OtherSink():
            return f"declare its replay to {error.expected} again until it is closed"
        case errors.TargetGone() | errors.ProgressLost():
            return step("end it, and replay again: ", close_replay(error.replay_id))
        case errors.TooLarge():
            return "raise message.max.bytes in the settings of the replay, and max.message.bytes of the topic"
        case errors.TooLargeForStream():
            return "replay to a topic, or only days without such a record"
        case errors.WriteFailed():
            return "give the same command again: it goes on where it stopped"
        case _:
            return None
