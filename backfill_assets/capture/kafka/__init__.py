"""Kafka: a range of offsets of a topic becomes landed files, and records are replayed to topics."""

from backfill_assets.capture.families import Family, Target

FAMILY = Family(
    name="kafka",
    package=__name__,
    streams=("KafkaTopic",),
    replays=("KafkaReplay",),
    target=Target(
        kind="topic",
        part="partition",
        delivery="exactly once",
        note="consumers have to read it with isolation.level=read_committed; the topic is kept until it is closed",
        captured_as="captured",
        if_live="if this one is meant, declare live_topics=({target!r},)",
    ),
    sniffs=True,
)
