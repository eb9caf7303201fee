"""Kinesis: a range of sequence numbers of a stream becomes landed files, and records are replayed to streams."""

from backfill_assets.capture.families import Family, Target

FAMILY = Family(
    name="kinesis",
    package=__name__,
    streams=("KinesisStream",),
    replays=("KinesisReplay",),
    target=Target(
        kind="stream",
        part="shard",
        delivery="at least once",
        note="at least once: a record may be in it again, so that consumers drop those whose sequence is not greater "
        "than the last one of their key; the stream is kept until it is closed, its records for the retention that the "
        "table declares",
        captured_as="shard",
    ),
)
