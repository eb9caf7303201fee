"""A published run is rebuilt from its manifest: identical, or exactly what differs, or refused with the reason."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.errors import ContractBroken, IllegalTransition, MissingInput, Refused
from backfill_assets.core.progress import Progress
from backfill_assets.domain import Domain, Release, TransformContext
from backfill_assets.lake import checksums
from backfill_assets.lake.staging import RUNS_FOLDER
from backfill_assets.landing.conformed import ConformedRecords
from backfill_assets.ledger.records import EventRecord
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.reproduce import ReproductionReport, spread
from backfill_assets_tests.domains import example as example_domain
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.copied_shop import copied_shop, opened_copy
from backfill_assets_tests.support.edited import drift
from backfill_assets_tests.support.lakes import files_below, folder_at, folder_of, only_in_folders
from backfill_assets_tests.support.ledger_examples import tamper
from backfill_assets_tests.support.shop import (
    DAYS,
    OUTPUT,
    RECENT,
    SALES,
    Shop,
    sale,
)

SIXTH = date(2026, 1, 6)


def in_chunks_of(shop: Shop, size: int) -> Shop:
    return replace(shop, ws=replace(shop.ws, settings=replace(shop.ws.settings, chunk_partitions=size)))


def reproduced(shop: Shop, run_id: str, *, sample: int | None = None) -> ReproductionReport:
    return operations.reproduce(shop.ws, run_id, by="rita", sample=sample)


def last_event(shop: Shop, run_id: str) -> EventRecord:
    with shop.ws.ledger.read() as reader:
        return list(reader.events.entries(entity_id=run_id))[-1]


@pytest.mark.long
def test_a_published_run_is_rebuilt_identically_and_nothing_but_an_event_remains(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = in_chunks_of(shop, 3)
    run_id = small.published()
    before, live = small.files(), small.live_paths()
    outcome = reproduced(small, run_id)
    assert outcome.identical
    assert len(outcome.partitions) == len(OUTPUT)
    assert outcome.rows == len(OUTPUT)
    assert (small.files(), small.live_paths()) == (before, live)
    assert not files_below(folder_of(small.ws.lake, RECENT) / RUNS_FOLDER / "_reproduced")
    event = last_event(small, run_id)
    assert (event.action, event.actor, event.payload["identical"]) == ("reproduced", "rita", True)
    assert audit(small.ws).problems == ()
    # A later release that writes checksums in another form compares the rows by their values.
    monkeypatch.setattr(checksums, "FORM", "c0")
    assert reproduced(small, run_id).identical


@pytest.mark.long
def test_a_run_is_rebuilt_from_its_own_inputs_and_release_after_both_have_moved_on(shop: Shop) -> None:
    first = shop.published(version="0.9.0")
    shop.land("late.jsonl", [sale(SIXTH, amount=100, sale_id="late")])
    second = shop.published(reason="a late sale")
    assert shop.amounts()[SIXTH] == 140
    assert reproduced(shop, first).identical
    operations.rollback(shop.ws, second, by="ben", reason="was wrong")
    assert reproduced(shop, second).identical


@pytest.mark.long
def test_a_load_of_bronze_is_rebuilt_from_its_landed_files(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        (load,) = reader.runs.records(table=SALES)
    outcome = reproduced(shop, load.run_id)
    assert (outcome.identical, len(outcome.partitions), outcome.rows) == (True, len(DAYS), len(DAYS))


def forge_conformed(shop: Shop) -> None:
    """Other amounts in the judged records that landed, with the digests in the ledger that they have now."""
    with shop.ws.ledger.read() as tx:
        (record,) = tx.imports.records(SALES)
    landing, source = landing_files(shop.ws.settings), shop.ws.domain.source_table(SALES)
    for file in record.conformed.files if record.conformed else ():
        path = folder_at(shop.ws.settings.landing) / file.path
        held = pq.read_table(path)
        amounts = pa.array([16] * held.num_rows, held.schema.field("amount").type)
        place = held.schema.get_field_index("amount")
        pq.write_table(held.set_column(place, held.schema.field("amount"), amounts), path)
    forged = ConformedRecords(spark=shop.ws.spark(), landing=landing, source=source).written(record.import_id)
    files = json.dumps([[f.path, f.size_bytes, f.rows, f.sha256, f.stamp] for f in forged.files])
    tamper(shop.ws.settings.ledger_url, f"UPDATE imports SET conformed = '{files}'")


@pytest.mark.long
def test_rows_that_do_not_follow_from_the_bytes_that_landed_are_found_from_raw_alone(shop: Shop) -> None:
    only_in_folders("judged records are edited where they are")
    forge_conformed(shop)
    shop.kit.land(SALES, [sale(SIXTH, sale_id="late")], name="late.jsonl")
    run_id = shop.published(reason="forged")
    assert shop.amounts()[SIXTH] == 56
    assert reproduced(shop, run_id).identical
    found = operations.reproduce(shop.ws, run_id, by="rita", from_raw=True)
    assert not found.identical
    assert {each.table: each.identical for each in found.behind if SIXTH in each.partitions} == {SALES: False}


@pytest.mark.long
def test_a_run_and_all_that_it_read_is_rebuilt_from_the_bytes_that_landed(shop: Shop) -> None:
    run_id = shop.published(reason="whatever")
    found = operations.reproduce(shop.ws, run_id, by="rita", from_raw=True)
    assert found.identical
    assert [(each.table, len(each.partitions)) for each in found.behind] == [(SALES, len(DAYS))]
    with shop.ws.ledger.read() as tx:
        (landed,) = tx.imports.records(SALES)
    path = folder_at(shop.ws.settings.landing) / landed.stored_path
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"amount": 10', b'"amount": 99', 1))
    with pytest.raises(MissingInput, match="has other bytes than those that landed"):
        operations.reproduce(shop.ws, run_id, by="rita", from_raw=True)


@pytest.mark.long
def test_a_sample_is_spread_over_the_run_with_both_ends_in_it(shop: Shop) -> None:
    small = in_chunks_of(shop, 4)
    run_id = small.published()
    seen: list[Progress] = []
    outcome = operations.reproduce(small.ws, run_id, by="rita", sample=3, listener=seen.append)
    assert str(outcome.partitions) == "2026-01-03, 2026-01-06, 2026-01-09, 3 days"
    assert outcome.identical
    assert (seen[-1].done, seen[-1].total) == (3, 3)


@pytest.mark.long
def test_rows_that_no_longer_follow_are_shown_by_partition_column_and_example(shop: Shop) -> None:
    run_id = shop.published()

    def drifting(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        rows = recent_sales.releases[0].function(sales=sales, ctx=ctx).where("day <> date'2026-01-04'")
        sixth = F.col("day") == F.lit(SIXTH)
        return rows.withColumn("amount", F.when(sixth, F.lit(7).cast("bigint")).otherwise(F.col("amount")))

    table = replace(recent_sales, releases=(Release(version="1.0.0", function=drifting),))
    domain = Domain(name="example", package=example_domain.__name__, sources=(sales,), derived=(table,))
    outcome = reproduced(replace(shop, ws=drift(shop.ws, domain)), run_id)
    assert not outcome.identical
    found = {d.partition.day: d for d in outcome.differences}
    assert set(found) == {4, 6}
    assert (found[4].removed, found[4].rows, found[4].expected_rows) == (1, 0, 1)
    assert (found[6].changed, found[6].changed_columns) == (1, {"amount": 1})
    rows = {row.partition.day: (row.before, row.after) for row in outcome.sample}
    assert rows == {4: ({"amount": "40"}, None), 6: ({"amount": "40"}, {"amount": "7"})}
    assert last_event(shop, run_id).payload["differing_partitions"] == ["2026-01-04", "2026-01-06"]


@pytest.mark.long
def test_what_differs_is_said_even_when_the_published_files_are_gone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.published()
    with shop.ws.ledger.read() as reader:
        victim = reader.candidates.of_run(run_id)[SIXTH].files.files[0]
    (folder_of(shop.ws.lake, RECENT) / victim.path).unlink()
    assert reproduced(shop, run_id).identical

    table = replace(recent_sales, releases=(replace(recent_sales.releases[1], version="1.0.0"),))
    domain = Domain(name="example", package=example_domain.__name__, sources=(sales,), derived=(table,))
    outcome = reproduced(replace(shop, ws=drift(shop.ws, domain)), run_id)
    sixth = next(d for d in outcome.differences if d.partition == SIXTH)
    assert (sixth.changed, sixth.changed_columns, sixth.rows) == (None, None, 1)
    assert len(outcome.differences) == len(OUTPUT)
    # A checksum of another form says nothing: neither that the rows differ, nor that they are equal.
    monkeypatch.setattr(checksums, "FORM", "c0")
    with pytest.raises(MissingInput, match=r"2026-01-06, 1 day are gone, and their checksums have the form of another"):
        reproduced(shop, run_id)


def test_a_failed_reproduction_leaves_no_scratch_behind(shop: Shop) -> None:
    run_id = shop.published()

    def failing(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        rows = recent_sales.releases[0].function(sales=sales, ctx=ctx)
        return rows.withColumn("shop", F.coalesce(F.lit(None).cast("string"), F.raise_error(F.lit("no shop"))))

    table = replace(recent_sales, releases=(Release(version="1.0.0", function=failing),))
    domain = Domain(name="example", package=example_domain.__name__, sources=(sales,), derived=(table,))
    with pytest.raises(ContractBroken, match="no shop"):
        reproduced(replace(shop, ws=drift(shop.ws, domain)), run_id)
    assert not files_below(folder_of(shop.ws.lake, RECENT) / RUNS_FOLDER / "_reproduced")


def test_what_was_never_published_is_not_reproduced(shop: Shop) -> None:
    run_id = shop.ready()
    with pytest.raises(IllegalTransition, match="nothing to reproduce: it is PASSED"):
        reproduced(shop, run_id)


def test_an_empty_sample_is_refused(shop: Shop) -> None:
    with pytest.raises(Refused, match="at least one partition"):
        reproduced(shop, "any", sample=0)


def test_an_input_file_that_is_gone_is_named(shop: Shop) -> None:
    run_id = shop.published()
    with shop.ws.ledger.read() as reader:
        victim = reader.versions.accepted(SALES)[SIXTH].files.files[0]
    (folder_of(shop.ws.lake, SALES) / victim.path).unlink()
    with pytest.raises(MissingInput) as refusal:
        reproduced(shop, run_id)
    assert refusal.value.message == f"{SALES} {SIXTH} cannot be read: its file {victim.path} is gone."
    assert "from a backup" in advised(refusal.value)
    assert f"backfill load sales --from {SIXTH} --to {SIXTH}" in advised(refusal.value)


@pytest.mark.long
def test_after_a_column_more_in_a_contract_nothing_is_stale_and_earlier_runs_are_rebuilt(
    tmp_path: Path, stocked_home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables stand in the module of the source whose contract changes."""
    module = copied_shop(tmp_path, stocked_home, monkeypatch)
    run_id = opened_copy(tmp_path, spark).published()
    text = module.read_text(encoding="utf-8")
    (contract,) = re.findall(r"schema=(StructType\(\n.*?\n    \)),\n\)", text, flags=re.DOTALL)
    wider = contract.replace("        ]\n", '            StructField("note", StringType()),\n        ]\n')
    module.write_text(text.replace(contract, f"{wider}, earlier={{1: {contract}}}", 1), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "copied_shop")
    shop = opened_copy(tmp_path, spark)
    assert shop.ws.domain.sources[0].contract_version == 2
    assert [each.partitions for each in operations.stale_tables(shop.ws)] == [(), (), ()]
    assert reproduced(shop, run_id).identical


@pytest.mark.long
def test_after_one_byte_of_a_module_changed_it_is_refused_where_its_code_is_not_archived(
    tmp_path: Path, stocked_home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = copied_shop(tmp_path, stocked_home, monkeypatch)

    def opened() -> Shop:
        return opened_copy(tmp_path, spark)

    run_id = opened().published()
    assert reproduced(opened(), run_id).identical
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("on a day", "on a dax", 1), encoding="utf-8")
    opened().ws.reference_archive.remove_folder("code")
    with pytest.raises(ContractBroken, match="planned with other code") as refusal:
        reproduced(opened(), run_id)
    assert f"backfill reproduce {run_id}" in advised(refusal.value)
    module.write_text(text, encoding="utf-8")
    assert reproduced(opened(), run_id, sample=1).identical


@given(st.integers(1, 400), st.integers(1, 40))
def test_a_spread_has_both_ends_no_doubles_and_is_in_order(length: int, count: int) -> None:
    partitions = tuple(date(2024, 1, 1) + timedelta(days=number) for number in range(length))
    chosen = spread(partitions, count)
    assert len(chosen) == min(length, count) == len(set(chosen))
    assert list(chosen) == sorted(chosen)
    assert chosen[0] == partitions[0]
    assert count == 1 or chosen[-1] == partitions[-1]
    gaps = [(after - before).days for before, after in pairwise(chosen)]
    assert not gaps or max(gaps) - min(gaps) <= 1
