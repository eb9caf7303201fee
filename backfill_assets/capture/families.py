"""Families: what opens the stream that a source declares. The only place that tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from backfill_assets.capture.kafka import KafkaStream
from backfill_assets.capture.kafka_topic import KafkaTopic
from backfill_assets.capture.postgres import PostgresStream
from backfill_assets.capture.postgres_table import PostgresTable
from backfill_assets.capture.secrets_by_name import secrets_named
from backfill_assets.capture.streams import Stream, Tombstones


@contextmanager
def opened_stream(
    declared: KafkaTopic | PostgresTable,
    *,
    key: Sequence[str],
    columns: Sequence[str],
    tombstones: Tombstones | None,
    home: Path,
) -> Iterator[Stream]:
    """The stream while the block lasts.

    Args:
        declared: As the source declares it.
        key: The columns of its key.
        columns: The columns of its files.
        tombstones: What a record without a value becomes.
        home: Where no secret may be.

    Raises:
        Refused: Its client is not installed, or a secret is not there.
    """
    secret = secrets_named(declared.secrets, home=home)
    stream: Stream
    match declared:
        case KafkaTopic():
            stream = KafkaStream(declared, secret=secret, tombstones=tombstones)
        case PostgresTable():
            stream = PostgresStream(declared, secret=secret, key=key, columns=columns)
        case _:
            assert_never(declared)
    try:
        yield stream
    finally:
        stream.close()
