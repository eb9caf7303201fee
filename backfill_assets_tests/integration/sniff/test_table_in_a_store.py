"""A Delta table in an object store is proposed with its capture, and no credential is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.application.sniff import sniffed
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.core.places import StoreAccess
from backfill_assets.domain import LakeTable
from backfill_assets.report.sniffed import document_of
from backfill_assets.sniff.addresses import Reached
from backfill_assets_tests.support.s3_server import NoStore, running_store

ROWS = pa.table(
    {
        "order_id": pa.array(range(50), pa.int64()),
        "ordered_at": pa.array([datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(50)]),
    }
)


def test_a_delta_table_in_a_store_is_captured_with_the_credentials_of_the_environment(tmp_path: Path) -> None:
    try:
        with running_store() as store:
            bucket = store.make_bucket("lake")
            access = StoreAccess.of(store.environment)
            write_deltalake(f"s3://{bucket}/raw/orders", ROWS, storage_options=dict(access.for_delta()))
            reached = Reached(home=tmp_path, access=access)
            clock = lambda: datetime(2026, 4, 1, tzinfo=UTC)  # noqa: E731 - a clock
            found = sniffed([f"s3://{bucket}/raw/orders/"], clock=clock, reached=reached)
            text = document_of(found).module
            module = ModuleType("proposed")
            exec(text, vars(module))
            (source,) = module.DOMAIN.sources
            assert (source.name, source.key, source.event_time) == ("bronze.orders", ("order_id",), "ordered_at")
            assert isinstance(source.capture, LakeTable)
            assert source.capture.url == f"s3://{bucket}/raw/orders"
            assert source.capture.options["AWS_ENDPOINT_URL"] == access.endpoint
            assert set(source.capture.secrets) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
            assert access.secret_key not in text
            with pytest.raises(UnreadableFile, match="cannot be read as a Delta table"):
                sniffed([f"s3://{bucket}/raw/others"], clock=clock, reached=reached)
    except NoStore as reason:
        pytest.skip(f"AN OBJECT STORE IS NOT TESTED: {reason}")
