"""Opens the stream that a source declares, by its family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import assert_never

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.http.declaration import HttpApi
from backfill_assets.capture.http.stream import HttpStream
from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.capture.kinesis.declaration import KinesisStream
from backfill_assets.capture.kinesis.stream import KinesisCapture
from backfill_assets.capture.lake_tables.declaration import IcebergTable, LakeTable
from backfill_assets.capture.lake_tables.delta import DeltaStream
from backfill_assets.capture.lake_tables.iceberg import IcebergStream
from backfill_assets.capture.postgres.declaration import PostgresTable
from backfill_assets.capture.postgres.stream import PostgresStream
from backfill_assets.capture.schemas.declaration import SchemaRegistry
from backfill_assets.capture.schemas.registry import value_reader
from backfill_assets.capture.streams import Stream
from backfill_assets.domain import SourceTable


@contextmanager
def opened_stream(table: SourceTable, *, home: Path, as_of: datetime) -> Iterator[Stream]:
    """The stream that a source is captured from, while the block lasts.

    Args:
        home: Where no secret may be.
        as_of: The present.

    Raises:
        Refused: Its client is not installed, or a secret is not there.
    """
    declared, operated = table.capture, table.operated
    assert declared is not None

    def secret(names: Mapping[str, str]) -> Mapping[str, str]:
        return secrets_named(names, home=home)

    stream: Stream
    match declared:
        case KafkaTopic():
            given = secret(declared.values.secrets) if isinstance(declared.values, SchemaRegistry) else {}
            values = value_reader(declared.values, given) if declared.values is not None else None
            stream = KafkaStream(declared, secret=secret(declared.secrets), operated=operated, values=values)
        case PostgresTable():
            given = secret(declared.secrets)
            stream = PostgresStream(declared, secret=given, key=table.key_members, columns=table.member_columns)
        case HttpApi():
            for_api = HttpSecrets(
                parameters=secret(declared.secret_parameters),
                headers=secret(declared.secret_headers),
                basic=secret(declared.basic.secrets) if declared.basic else {},
                token=secret(declared.token.secrets) if declared.token else {},
            )
            stream = HttpStream(declared, secret=for_api, event_time=table.event_member, as_of=as_of, days=table.days)
        case LakeTable():
            stream = DeltaStream(
                declared,
                secret=secret(declared.secrets),
                event_time=table.event_member,
                days=table.days,
                operated=operated,
                columns=table.member_columns,
            )
        case IcebergTable():
            stream = IcebergStream(
                declared,
                secret=secret(declared.secrets),
                event_time=table.event_member,
                days=table.days,
                operated=operated,
                columns=table.member_columns,
            )
        case KinesisStream():
            stream = KinesisCapture(declared, secret=secret(declared.secrets))
        case _:
            assert_never(declared)
    try:
        yield stream
    finally:
        stream.close()
