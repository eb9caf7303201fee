"""Landed files, references and their archive in an object store: two versions of the truth, and nothing in the home."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.landed_files import landing_place
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.places import StoreUrl
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_at, use_store
from backfill_assets_tests.support.s3_server import Store
from backfill_assets_tests.support.tariffs import (
    FIRST,
    RECORDED,
    SOLD,
    charged,
    land,
    opened,
    plan,
    published,
    stale,
    versions,
    write,
)


@pytest.mark.long
def test_a_new_reference_restates_what_an_archived_one_had_computed(
    tmp_path: Path, store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_store(monkeypatch, store)
    home = tmp_path / "home"
    write(home, "tariff", "1", factor=1)
    write(home, "tax", "1", factor=1)
    ws = opened(home, spark)
    settings = ws.settings
    assert all(isinstance(place, StoreUrl) for place in (settings.reference, settings.reference_archive))
    home.mkdir()
    land(ws, "sales.jsonl", dict.fromkeys(SOLD, 10))
    first = published(ws, plan(ws, FIRST))
    assert charged(ws, FIRST) == {10}
    ws.close()

    write(home, "tariff", "2", factor=2, days_back=1)
    ws = opened(home, spark)
    assert stale(ws).partitions == (*FIRST,)
    assert [version for _, version, _ in versions(plan(ws, FIRST, RECORDED))] == ["1"]
    published(ws, plan(ws, FIRST))
    assert charged(ws, FIRST) == {40}
    assert operations.reproduce(ws, first, by="ana").identical
    assert audit(ws).problems == ()

    tariffs = folder_at(settings.reference_archive) / "tariff"
    assert len(list(tariffs.iterdir())) == 2
    left = {path.name for path in home.iterdir()}
    assert not left & {"reference", "reference_archive", "landing", "lake"}
    assert [path for path in landing_place(settings, "").incoming.rglob("*") if path.is_file()] == []
    for path in tariffs.iterdir():
        path.unlink()
    with pytest.raises(MissingInput, match=r"tariff 1 .* archive s3://\S+/reference_archive does not hold it"):
        operations.reproduce(ws, first, by="ana")
    ws.close()
