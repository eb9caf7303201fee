"""A shop whose sales are captured from a stream of a server of Kinesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from backfill_assets.capture.kinesis.declaration import KinesisReplay, KinesisStream
from backfill_assets.domain import SourceTable
from backfill_assets_tests.domains import streamed
from backfill_assets_tests.support.captured_shop import StreamShop, sale_record
from backfill_assets_tests.support.kinesis_server import CREDENTIALS

SECRETS = {variable: CREDENTIALS[name] for name, variable in streamed.NAMES.items()}
"""The credentials, in the variables that the declaration names."""


@dataclass(frozen=True, kw_only=True)
class KinesisShop(StreamShop):
    """A shop whose sales are captured from a stream."""

    topic: str  #: The name of the stream.
    endpoint: str = ""  #: Where the server is.
    replays: str = ""  #: Where streams of replays are; the same server where it is empty.
    shards: int = 2  #: How many shards these have.

    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment(),
            **SECRETS,
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.streamed",
            "TEST_KINESIS_STREAM": self.topic,
            "TEST_KINESIS_ENDPOINT": self.endpoint,
            "TEST_KINESIS_REPLAYS": self.replays or self.endpoint,
            "TEST_KINESIS_SHARDS": str(self.shards),
        }

    def source(self) -> SourceTable:
        usual = streamed.sales
        assert isinstance(usual.capture, KinesisStream)
        assert isinstance(usual.replay, KinesisReplay)
        stream = replace(usual.capture, **{"stream": self.topic, "endpoint": self.endpoint, **self.declared})
        sink = replace(usual.replay, endpoint=self.replays or self.endpoint, shards=self.shards)
        return replace(usual, capture=stream, replay=sink, policy=self.policy, gates=())


def sales(many: int, *, start: int = 0) -> list[tuple[str, bytes]]:
    """So many sales as records of a stream, in order."""
    records = (sale_record(number) for number in range(start, start + many))
    return [(str(key), str(value).encode()) for key, value, _ in records]


def versions(keys: int, each: int) -> Iterator[tuple[str, bytes]]:
    """Some sales, and versions of each, one after the other."""
    for version in range(each):
        for number in range(keys):
            key, value, _ = sale_record(number, amount=version)
            yield str(key), str(value).encode()
