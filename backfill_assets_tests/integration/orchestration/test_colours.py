"""Dagster's pages show every partition of every table as the ledger has it, whatever people and processes do."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from dagster import AssetKey, AssetMaterialization

from backfill_assets.core.errors import Refused
from backfill_assets.orchestration.assets import candidate_key
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.partitions import published_key
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.storage import SHOWN_PER_RUN
from backfill_assets_tests.faults.dagster_status_oracle import compare_with_dagster
from backfill_assets_tests.faults.story_generator import Time, open_home
from backfill_assets_tests.support.by_hand import JANUARY, open_by_hand
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.hand_made import SILVER

NEVER = date(2026, 2, 10)

SEEDS = {"short": (7, 15), "long": (8, 30), "longer": (9, 30)}
"""By name: the seed of a story, and its steps."""


@pytest.mark.parametrize("name", SEEDS)
def test_after_every_step_every_partition_is_green_where_it_is_accepted_and_none_is_red(
    tmp_path: Path, name: str
) -> None:
    story, looks = compare_with_dagster(*SEEDS[name], tmp_path)
    assert not story.violations, story.text
    shown = {(look.table, look.green) for look in looks}
    assert len(shown) > len({look.table for look in looks}), "the story never changed a colour"


@pytest.mark.long
def test_a_home_that_was_copied_names_no_place_of_the_first_one_and_works(tmp_path: Path) -> None:
    """Everything that is recorded is scanned: the ledger, Dagster's record, the tables and what has landed."""
    first, copied = tmp_path / "made" / "home", tmp_path / "elsewhere"
    compare_with_dagster(7, 3, first.parent)
    shutil.copytree(first, copied, symlinks=True)
    assert not [path for path in copied.rglob("*") if path.is_symlink()]
    shutil.rmtree(first.parent)
    named = {
        str(path.relative_to(copied))
        for path in copied.rglob("*")
        if path.is_file() and str(first).encode() in path.read_bytes()
    }
    # delta-rs writes into the first commit of a table where it was made, which nothing reads.
    assert {path for path in named if not path.endswith(f"_delta_log/{0:020}.json")} == set()

    ws = open_home(copied, Time())
    with open_record(ws.settings) as instance:
        DagsterRecorder(ws.settings, lambda: instance).catch_up(ws)
        for name, table in ws.domain.tables.items():
            with ws.ledger.read() as tx:
                accepted = {str(day) for day in tx.versions.accepted(name)}
            assert instance.get_materialized_partitions(published_key(table)) == accepted
            assert ws.lake.open(name).version() > 0
        definitions = definitions_over(ws, lambda: Session(workspace=ws), pool=None)
        of_table = definitions.resolve_asset_graph().get(published_key(ws.domain.table("gold.palette")))
        assert of_table.metadata["dagster/uri"] == ws.lake.url("gold.palette")
        assert str(copied) in ws.lake.url("gold.palette")
    ws.close()


def test_nobody_paints_a_table_by_hand(tmp_path: Path) -> None:
    """Dagster's pages offer to report a materialization and to wipe some; the ledger knows of neither."""
    hand = open_by_hand(tmp_path / "home")
    accepted = list(JANUARY)
    assert len(accepted) > SHOWN_PER_RUN
    table = hand.ws.domain.derived_table(SILVER)
    key, green = published_key(table), {str(day) for day in accepted}
    with open_record(hand.ws.settings) as instance:
        DagsterRecorder(hand.ws.settings, lambda: instance).catch_up(hand.ws)
        assert instance.get_materialized_partitions(key) == green

        for day in (accepted[0], NEVER, None):
            reported = AssetMaterialization(key, partition=str(day) if day else None, metadata={"publication": "p-1"})
            with pytest.raises(Refused, match=f"{SILVER} shows what the ledger has accepted"):
                instance.report_runless_asset_event(reported)
        with pytest.raises(Refused, match="is not reported or wiped by hand"):
            instance.wipe_assets([key])
        with pytest.raises(Refused, match="is not reported or wiped by hand"):
            instance.wipe_asset_partitions(key, [str(accepted[0])])
        assert instance.get_materialized_partitions(key) == green
        latest = instance.get_latest_materialization_event(key)
        assert latest is not None
        assert latest.asset_materialization is not None
        assert "rows" in latest.asset_materialization.metadata

        for other in (candidate_key(table), AssetKey("foreign")):
            instance.report_runless_asset_event(AssetMaterialization(other, partition="2026-01-31"))
            assert instance.get_materialized_partitions(other) == {"2026-01-31"}
            instance.wipe_assets([other])
    hand.ws.close()
