"""Disputed keys: the report of a run shows exactly the rows that were asked for when it was planned."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.application.asked_keys import asked_keys, keys_by_table
from backfill_assets.application.plan import plan_set, plan_table
from backfill_assets.core.errors import Refused
from backfill_assets.main import app
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import AskedKeys
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.shown_rows import WhereShown
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, WorkIn
from backfill_assets_tests.support.two_releases import (
    FIRST,
    by_pandas,
    drawn,
    in_delta,
    opened,
    records,
    things,
)

REQUEST = PlanRequest(table=RECENT, days=OUTPUT, reason="disputed", by="ana", transform_version="1.0.0")


def keys_in(folder: Path, *lines: str) -> str:
    path = folder / "keys.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def planned(shop: Shop, show: str, request: PlanRequest = REQUEST) -> str:
    plan = plan_table(shop.ws, request, show=show)
    assert isinstance(plan, Plan)
    return plan.manifest.run_id


@pytest.mark.long
def test_the_report_shows_exactly_the_rows_that_were_asked_for_until_they_are_erased(
    published_shop: Shop, tmp_path: Path
) -> None:
    shop = published_shop
    lines = ("day,shop", "2026-01-05,only", "2026-01-20,only", "2026-01-06,other", "2026-01-04,only")
    run_id = planned(shop, keys_in(tmp_path, *lines))
    report = run_report(shop.ws, run_id)
    assert (report.shown, report.sample) == (None, ()), "before its gates"
    shop.staged(run_id)
    report = run_report(shop.ws, run_id)
    assert report.shown is not None
    assert [(each.key["day"], each.key["shop"], str(each.where), each.before, each.after) for each in report.shown] == [
        ("2026-01-05", "only", "CHANGED", {"amount": "80"}, {"amount": "40"}),
        ("2026-01-20", "only", "OTHER_PARTITION", None, None),
        ("2026-01-06", "other", "NOWHERE", None, None),
        ("2026-01-04", "only", "CHANGED", {"amount": "80"}, {"amount": "40"}),
    ]
    assert not any(row.is_asked for row in report.sample) and report.sample
    assert "Rows that were asked for" in str(run_page(report))
    manifest = report.run.manifest
    assert manifest.shown is not None and manifest.shown.count == 4
    assert Manifest.parse(manifest.text) == manifest and "other" not in manifest.text
    with shop.ws.ledger.read() as tx:
        assert "2026-01-20" not in str([each.payload for each in tx.events.entries(entity_id=run_id)])
    assert operations.erase_samples(shop.ws, run_id, by="dora", reason="asked for") >= 2
    with shop.ws.ledger.read() as tx:
        assert tx.samples.asked_keys(run_id) is None
    assert run_report(shop.ws, run_id).shown == ()
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_rows_of_keys_without_a_partition_are_those_that_pandas_has(tmp_path: Path, spark: SparkSession) -> None:
    shop = opened(tmp_path / "home", spark, drawn(7))
    try:
        days = replace(OUTPUT, start=FIRST, end=date(2026, 1, 4))
        first = shop.planned(days, table=things.name, version="0.9.0")
        operations.approve(shop.ws, first, by="ben")
        shop.publish(shop.staged(first))
        before = in_delta(shop)
        show = keys_in(tmp_path, "id", *(f"id {n}" for n in (3, 0, 99, 5)))
        request = PlanRequest(table=things.name, days=days, reason="why", by="ana", transform_version="1.0.0")
        run_id = planned(shop, show, request)
        operations.approve(shop.ws, run_id, by="ben")
        shop.publish(shop.staged(run_id))
        after, report = in_delta(shop), run_report(shop.ws, run_id)
    finally:
        shop.ws.close()
    assert report.shown is not None
    differing = by_pandas(before, after)
    there = {(row["day"], row["id"]) for side in (before, after) for _, row in side.iterrows()}
    wanted = [(day, f"id {n}") for n in (3, 0, 5) for day in sorted({d for d, name in there if name == f"id {n}"})]
    expected = [(str(day), name, differing.get((day, name), ("equal", 0))[0].upper()) for day, name in wanted]
    found = [(each.key["day"], each.key["id"], str(each.where)) for each in report.shown if each.where.is_found]
    assert found == expected
    assert [each.key for each in report.shown if each.where is WhereShown.NOWHERE] == [{"id": "id 99"}]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            ("day,shop,amount", "2026-01-05,only,1"),
            "its columns are day, shop, amount, and a key of .* is day, shop",
        ),
        (("shop,shop", "a,b"), "its columns are shop, shop"),
        (("day,shop",), "it has no keys"),
        ((), "its columns are none"),
        (("shop", "only", "", "only"), "line 4 cannot be used: it names the key of .*line 2 again"),
        (("day,shop", "2026-01-05,only", "soon,only"), "line 3 cannot be used: 'soon' is neither a date"),
        (("day,shop", "2026-01,only"), "line 2 cannot be used: '2026-01' names several days"),
        (("day,shop", "2026-01-05"), "line 2 cannot be used: it has 1 values for 2 columns"),
        (("shop", '"only'), "line 2 cannot be used: it is not CSV"),
        (("shop", *map(str, range(5_001))), "line 5002 cannot be used: it is more than the 5,000 keys"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_file_that_names_no_keys_is_refused_with_its_line(
    published_shop: Shop, tmp_path: Path, lines: tuple[str, ...], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        planned(published_shop, keys_in(tmp_path, *lines))
    with published_shop.ws.ledger.read() as tx:
        assert len(tx.runs.records(table=RECENT)) == 1


def test_texts_of_one_value_are_one_key_and_what_is_no_value_is_said_as_it_was_typed(
    published_shop: Shop, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=r"line 3 cannot be used: it names the key of .*line 2 again"):
        asked_keys(published_shop.ws, records, keys_in(tmp_path, "record", "7", "07"))
    by_instant = replace(records, key=("at",))
    with pytest.raises(Refused, match=r"line 2 cannot be used: '2026-01-01' is not a value of the key column at"):
        asked_keys(published_shop.ws, by_instant, keys_in(tmp_path, "at", "2026-01-01"))


def test_the_command_pins_keys_and_refuses_what_has_no_one_table(
    published_shop: Shop, work_in: WorkIn, tmp_path: Path
) -> None:
    work_in(published_shop.ws.settings.home)
    show = keys_in(tmp_path, "shop", "only")
    days = ("--from", str(OUTPUT.start), "--to", str(OUTPUT.last), "--reason", "why", "--by", "ana")
    words = ["plan", "table", RECENT, *days, "--show", show]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["shown"]["count"] == 1, done.output
    assert "the rows of 1 key" in " ".join(CliRunner().invoke(app, words, catch_exceptions=False).stdout.split())
    refused = CliRunner().invoke(app, ["plan", "expire", RECENT, *days[4:], "--show", show], catch_exceptions=False)
    assert (refused.exit_code, "no such option: --show" in refused.stderr) == (1, True)
    of_set = CliRunner().invoke(app, ["plan", "with-dependents", *words[2:]], catch_exceptions=False)
    said = " ".join(of_set.stdout.split())
    assert f"reports show the rows of 1 key of {RECENT}" in said, of_set.output
    missing = CliRunner().invoke(app, [*words[:-1], "nowhere.csv"], catch_exceptions=False)
    assert (missing.exit_code, "nowhere.csv cannot be used: No such file" in missing.stderr) == (1, True)


def test_keys_of_a_set_go_to_the_tables_that_have_them_and_to_no_other(published_shop: Shop, tmp_path: Path) -> None:
    shop = published_shop
    request = SetRequest(table=RECENT, days=OUTPUT, with_dependents=True, reason="disputed", by="ana")

    def shown(*lines: str) -> list[tuple[str, int]]:
        found = plan_set(shop.ws, request, show=keys_in(tmp_path, *lines))
        assert isinstance(found, PlannedSet)
        manifests = [plan.manifest for plan in found.plans]
        with shop.ws.ledger.read() as tx:
            for each in manifests:
                kept = tx.samples.asked_keys(each.run_id)
                assert (kept.pinned if kept else None) == each.shown
        return [(each.table, each.shown.count) for each in manifests if each.shown]

    assert shown("day,shop", "2026-01-05,only", "2026-01-06,only") == [(RECENT, 2)]
    said = f"its columns are sho, and no table of the set has this key: of {RECENT} day, shop"
    with pytest.raises(Refused, match=said):
        shown("sho", "only")
    with pytest.raises(Refused, match="'soon' is neither a date"):
        shown("day,shop", "soon,only")
    both = [RECENT, "gold.sales_monthly"]
    for lines, table in ((("shop", "only"), RECENT), (("month", "2026-01"), both[1])):
        assert list(keys_by_table(shop.ws, keys_in(tmp_path, *lines), both)) == [table]


@pytest.mark.long
def test_every_phase_shows_its_rows(published_shop: Shop, tmp_path: Path) -> None:
    shop = published_shop
    show = keys_in(tmp_path, "day,shop", f"{OUTPUT.start},only", f"{OUTPUT.last},only")
    asked = AskedPhases(count=2, terms=Phases())
    found = plan_table(shop.ws, REQUEST, asked, show=show)
    assert not isinstance(found, Plan)
    wheres = []
    for each in found.plans:
        shown = run_report(shop.ws, shop.staged(each.manifest.run_id)).shown
        assert shown is not None
        wheres.append([str(key.where) for key in shown])
    assert wheres == [["CHANGED", "OTHER_PARTITION"], ["OTHER_PARTITION", "CHANGED"]]


def test_keys_of_a_reference_are_taken_from_its_document(published_shop: Shop) -> None:
    def of(document: str) -> AskedKeys:
        ws = SimpleNamespace(
            domain=SimpleNamespace(references=[SimpleNamespace(name="disputed")]),
            references={"disputed": SimpleNamespace(content=document.encode())},
        )
        return asked_keys(cast(Any, ws), published_shop.ws.domain.table(RECENT), "disputed")

    found = of("version: 1\nkeys:\n- {day: 2026-01-05, shop: only}\n- {shop: other, day: 2026-01-06}\n")
    assert (found.columns, found.keys) == (("day", "shop"), (("2026-01-05", "only"), ("2026-01-06", "other")))
    for document, why in (
        ("version: 1\n", "the reference disputed cannot be used: its document has no list of keys"),
        ("keys:\n- {shop: a}\n- {sho: b}\n", "key 2 of the reference disputed cannot be used: it has other columns"),
        ("keys: []\n", "disputed cannot be used: its columns are none"),
    ):
        with pytest.raises(Refused, match=why):
            of(document)
