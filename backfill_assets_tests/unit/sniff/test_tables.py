"""Tables of others, in folders: what captures them is proposed as well."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from backfill_assets.application.sniff import sniffed
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import IcebergTable, LakeTable
from backfill_assets_tests.support.proposed import declared

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
ROWS = pa.table(
    {
        "order_id": pa.array(range(50), pa.int64()),
        "ordered_at": pa.array([datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(50)]),
        "due_on": pa.array([date(2026, 4, 1)] * 50),
        "note": pa.array(["a", None] * 25),
    }
)


def test_a_delta_table_is_captured(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "orders"), ROWS)
    source = declared(sniffed([tmp_path / "orders"], clock=lambda: AS_OF))
    assert (source.name, source.key, source.event_time) == ("bronze.orders", ("order_id",), "ordered_at")
    assert source.capture == LakeTable(url=str(tmp_path / "orders"))


def test_an_iceberg_table_is_captured(tmp_path: Path) -> None:
    catalog = SqlCatalog("example", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", schema=ROWS.schema)
    table.append(ROWS)
    folder = Path(table.location().removeprefix("file://"))
    source = declared(sniffed([folder], clock=lambda: AS_OF))
    assert (source.key, source.event_time) == (("order_id",), "ordered_at")
    assert isinstance(source.capture, IcebergTable)
    assert source.capture.table == table.metadata_location.removeprefix("file://")


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="neither a Delta nor an Iceberg table"):
        sniffed([tmp_path], clock=lambda: AS_OF)
