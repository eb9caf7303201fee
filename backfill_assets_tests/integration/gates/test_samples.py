"""Values of rows are kept apart from what can never change, and can be erased."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import select

from backfill_assets.core.errors import Refused
from backfill_assets.ledger.findings import FailingKey, SampledRow
from backfill_assets.ledger.schema import samples
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.report.report import run_report
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import DAYS, plan, results_for, show_rows, stage, staged, tamper
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, open_shop, ticking_clock


def violations(ledger: Ledger) -> list[str]:
    with ledger.read() as reader:
        return [*reader.events.violations(), *reader.row_checks.violations()]


@pytest.fixture
def shown(ledger: Ledger) -> Ledger:
    """A ledger with a run whose reviewer is shown a changed row and a failing key."""
    show_rows(ledger, "shown")
    return ledger


def test_an_event_names_a_sample_and_holds_none_of_its_values(shown: Ledger) -> None:
    with shown.read() as reader:
        (row,) = reader.samples.latest("shown", SampledRow)
        assert row.key == {"case_id": "case-1742"}
        assert [failing.key for failing in reader.samples.latest("shown", FailingKey)] == [{"case_id": "case-1743"}]
        events = list(reader.events.entries())
        assert "case-17" not in str(events)
        assert [event.action for event in events if "samples" in event.digests] == ["gates_recorded"]
    assert violations(shown) == []


def test_a_reviewer_of_a_first_build_sees_some_of_its_rows(shop: Shop) -> None:
    report = run_report(shop.ws, shop.staged(shop.planned(OUTPUT)))
    assert {(row.before, (row.after or {})["amount"]) for row in report.sample} == {(None, "40")}


def test_the_same_rows_have_another_digest_every_time(ledger: Ledger) -> None:
    show_rows(ledger, "one")
    show_rows(ledger, "two")
    with ledger.read() as reader:
        salts = {row.salt for row in reader.samples._rows(select(samples.c.salt))}
    assert len(salts) == 4, "or a digest of values that can be guessed would prove them"


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE samples SET body = '[]'", "were edited"),
        ("UPDATE samples SET salt = '00'", "were edited"),
        ("DELETE FROM samples WHERE kind = 'CHANGED_ROWS'", "were edited"),
        ("UPDATE samples SET sequence = 1", "were edited"),
    ],
)
def test_a_sample_that_was_edited_removed_or_added_shows(
    shown: Ledger, ledger_url: str, statement: str, found: str
) -> None:
    tamper(ledger_url, statement)
    assert any(found in problem for problem in violations(shown))


def test_erased_rows_are_gone_and_the_audit_accepts_it_with_its_record(shown: Ledger, ledger_url: str) -> None:
    with shown.write() as writer:
        assert writer.samples.erase("shown", by="dora", reason="the person asked for it") == 2
    shown.compact_log()
    with shown.read() as reader:
        assert reader.samples.latest("shown", SampledRow) == ()
        erased = reader.samples.erased("shown")
        assert erased is not None
        assert (erased.actor, erased.payload["reason"]) == ("dora", "the person asked for it")
    assert violations(shown) == []
    if ledger_url.startswith("sqlite"):
        folder = Path(ledger_url.removeprefix("sqlite:///")).parent
        assert b"case-17" not in b"".join(path.read_bytes() for path in folder.iterdir())


def test_erased_rows_that_come_back_show(shown: Ledger, ledger_url: str) -> None:
    with shown.write() as writer:
        writer.samples.erase("shown", by="dora", reason="asked for")
    tamper(
        ledger_url,
        "INSERT INTO samples (sequence, kind, run_id, salt, body) "
        "SELECT max(sequence), 'CHANGED_ROWS', 'shown', '', '[]' FROM events WHERE action = 'gates_recorded'",
    )
    assert any("were added" in problem for problem in violations(shown))


def test_an_erasure_without_samples_or_without_a_person_is_refused(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    show_rows(ledger, "shown")
    with ledger.write() as writer, pytest.raises(Refused, match="no values of rows of run bf-1"):
        writer.samples.erase("bf-1", by="dora", reason="asked for")
    for by, reason in (("", "asked for"), ("dora", " ")):
        with ledger.write() as writer, pytest.raises(Refused, match="is empty"):
            writer.samples.erase("shown", by=by, reason=reason)


def test_what_an_earlier_gating_showed_is_not_shown_for_the_next(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    stage(ledger, "bf-1")
    row = SampledRow(partition=DAYS[0], key={"id": "a"}, before=None, after={})
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.GATING, actor="runner", attempt="a1")
        for shown in (((row,),), ()):
            writer.candidates.record_gates(
                "bf-1", staged("bf-1"), results_for("bf-1"), actor="runner", attempt="a1", samples=shown
            )
    with ledger.read() as reader:
        assert reader.samples.latest("bf-1", SampledRow) == ()
    assert violations(ledger) == []


@pytest.mark.long
def test_a_reviewer_reads_rows_until_they_are_erased(tmp_path: Path, published_home: Path, spark: SparkSession) -> None:
    copy_home(published_home, tmp_path / "home")
    shop = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 5 * ONE_HOUR), spark=spark)
    run_id = shop.staged(shop.planned(reason="amounts were wrong"))
    report = run_report(shop.ws, run_id)
    assert report.sample and report.samples_erased is None
    with shop.ws.ledger.read() as reader:
        assert not [
            event for event in reader.events.entries() if '"before"' in str(event.payload) or "'before'" in str(event)
        ]
    assert operations.erase_samples(shop.ws, run_id, by="dora", reason="asked for") == 1
    report = run_report(shop.ws, run_id)
    assert report.sample == () and report.samples_erased is not None
    assert (report.samples_erased.by, report.samples_erased.reason) == ("dora", "asked for")
    assert audit(shop.ws).problems == ()
    logs = "".join(path.read_text() for path in (folder_of(shop.ws.lake, RECENT) / "_delta_log").glob("*.json"))
    assert "numRecords" in logs and "minValues" not in logs
    shop.ws.close()
