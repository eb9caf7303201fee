"""What can be said of captures of a lake table without one: declarations, and which positions follow on others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import DateType, StructField, StructType

from backfill_assets.capture.errors import StreamDenied, StreamFailed, VersionGone
from backfill_assets.capture.lake_tables.declaration import IcebergTable, LakeTable
from backfill_assets.capture.lake_tables.delta import DeltaStream
from backfill_assets.capture.lake_tables.versions import Newest
from backfill_assets.capture.streams import Captured, Span
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets_tests.domains import captured_lake

TABLE = LakeTable(url="/tables/sales")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": ""}, "has to be a folder or an address"),
        ({"url": "s3://me:hidden-word@bucket/path"}, "without a user"),
        ({"version": -1}, "has to be a number or None"),
        ({"chunk": 0}, "has to be a number of rows"),
        ({"options": {"AWS_SECRET_ACCESS_KEY": "hidden-word"}}, "name it among its secrets"),
        ({"secrets": {"AWS_SECRET_ACCESS_KEY": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_a_table_that_cannot_be_captured_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(captured_lake.with_changes, capture=replace(TABLE, **changed))
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"table": " "}, "has to be a name such as 'sales.orders'"),
        ({"table": "s3://me:hidden-word@bucket/x.metadata.json"}, "without a user"),
        ({"catalog": {}}, "so that it needs a catalog"),
        ({"catalog": {"uri": "https://me:hidden-word@catalog/"}}, "name what is secret among its secrets"),
        ({"catalog": {"type": "rest", "token": "hidden-word"}}, "name it among its secrets"),
        ({"snapshot": "newest"}, "has to be a number or None"),
        ({"secrets": {"token": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_an_iceberg_table_that_cannot_be_captured_is_refused_too(changed: dict[str, Any], said: str) -> None:
    declared = IcebergTable(table="shop.sales", catalog={"type": "rest", "uri": "https://catalog/"})
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(captured_lake.with_changes, capture=replace(declared, **changed))
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


def test_a_date_has_no_time_of_a_commit_that_a_snapshot_lacks() -> None:
    declared = captured_lake.with_changes
    dated = StructType([*declared.schema, StructField("on", DateType(), nullable=False)])
    with pytest.raises(InvalidDeclaration, match="a snapshot has no lake_committed_at: leave at out of its Operations"):
        replace(declared, event_time="on", schema=dated)
    assert declared.operation is not None
    replace(declared, event_time="on", schema=dated, operation=replace(declared.operation, at=None))


def read(*ranges: tuple[str, str], partition: str = "0") -> list[Captured]:
    return [Captured(partition=partition, range_from=start, range_to=end) for start, end in ranges]


@pytest.mark.parametrize(
    ("captured", "has_feed", "follows"),
    [
        ([], True, ("0", "0", "10")),
        (read(("0", "10@1"), ("10@1", "10")), True, ("0", "10", "10")),
        (read(("0", "8@1"), ("8@1", "8")), True, ("0", "8", "10")),
        (read(("0", "8@1"), ("8@1", "8")), False, ("scan-version-9", "0", "10")),
        (read(("0", "8")) + read(("0", "10"), partition="scan-version-9"), False, ("0", "10", "10")),
        (read(("0", "8")) + read(("0", "10@1"), partition="scan-version-9"), False, ("scan-version-9", "0", "10")),
        (read(("0", "8"), ("8", "9")), True, ("0", "9", "10")),
        # A snapshot that was begun is read to its end, as long as its version is there.
        (read(("0", "8@1")), True, ("0", "0", "8")),
        # All rows were read once more meanwhile.
        (read(("0", "8@1")) + read(("0", "9"), partition="scan-4-0"), True, ("0", "9", "10")),
    ],
)
def test_what_follows_on_captures(
    captured: list[Captured], has_feed: bool, follows: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeltaStream(TABLE, secret={}, event_time="sold_at", operated=captured_lake.with_changes.operated)
    monkeypatch.setattr(DeltaStream, "_is_readable", lambda self, version, begin: True)
    assert stream._following(Newest(version=9, pinned={}, has_changes=has_feed), captured) == follows


def test_changes_are_cut_where_every_capture_cuts() -> None:
    stream = DeltaStream(TABLE, secret={}, event_time="sold_at", operated=None)
    asked = Span(partition="0", range_from="95", range_to="305")
    assert [(each.range_from, each.range_to) for each in stream.pieces(asked, ())] == [
        ("95", "100"),
        ("100", "200"),
        ("200", "300"),
        ("300", "305"),
    ]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("in 401.625µs - HTTP error: tcp connect error: Connection refused (os error 111)", StreamFailed),
        ("in 6.404ms - HTTP error: tcp connect error: Connection refused (os error 111)", StreamFailed),
        ("in 6.364ms - Server returned non-2xx status code\n 403 Forbidden\n <Code>AccessDenied</Code>", StreamDenied),
        ("in 6.364ms - Server returned non-2xx status code\n 401 Unauthorized", StreamDenied),
        ("in 6.364ms - Server returned non-2xx status code\n 404 Not Found", VersionGone),
    ],
)
def test_what_a_store_says_is_told_from_how_long_it_took(said: str, error: type[Exception]) -> None:
    stream = DeltaStream(TABLE, secret={}, event_time="sold_at", operated=None)
    with pytest.raises(error), stream._reading():
        raise OSError(f"Error performing GET http://127.0.0.1:9/x/_delta_log/_last_checkpoint {said}")
