"""What a shard that has nothing left tells of what was captured of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backfill_assets.capture.errors import RangeExpired
from backfill_assets.capture.kinesis import KinesisCapture
from backfill_assets.capture.kinesis_client import KinesisClient, Shard, Stream
from backfill_assets.capture.streams import Captured, Period
from backfill_assets.domain import KinesisStream

ON = Period(start=None, end=None)


def captured_to(position: str) -> tuple[Captured, ...]:
    return (Captured(partition="shard-1", range_from="10", range_to=position, since=None, is_complete=True),)


@pytest.mark.parametrize(
    ("closed", "ended", "is_known"), [("90", "50+", False), ("90", "90+", True), ("", "50+", True)]
)
def test_a_shard_that_ended_behind_its_captures_and_has_expired_is_refused(
    monkeypatch: pytest.MonkeyPatch, closed: str, ended: str, is_known: bool
) -> None:
    stream = Stream(
        arn="arn", status="ACTIVE", created_at=datetime(2020, 1, 1, tzinfo=UTC), retention=timedelta(hours=24)
    )

    def nothing(*_: object, **__: Any) -> None:
        return None

    monkeypatch.setattr(KinesisClient, "summary", lambda _: stream)
    monkeypatch.setattr(KinesisClient, "shards", lambda _: [Shard(name="shard-1", begun="1", closed=closed)])
    monkeypatch.setattr(KinesisClient, "first", nothing)
    monkeypatch.setattr(KinesisClient, "last", nothing)
    opened = KinesisCapture(KinesisStream(stream="sales", region="eu-central-1"), secret={})
    if is_known:
        (span,) = opened.resolve(ON, captured_to(ended)).spans
        assert (span.range_from, span.range_to) == (ended, ended)
    else:
        with pytest.raises(RangeExpired, match=r"begins at 90\+.*, and the captures end at 50\+"):
            opened.resolve(ON, captured_to(ended))
