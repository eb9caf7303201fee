"""Days far from the usual wait for a person, block or are shown, and later days are not held against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.report import report_html
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.errors import NotApproved, TargetChanged
from backfill_assets.domain import Breakdown, DerivedTable, Domain, Policy, days, moved, rows, usual
from backfill_assets.domain.gates import Then
from backfill_assets.ledger.findings import FAR, Finding, GateResult
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.report.report import Level, run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.integration.requests.test_live import advanced, lands, newest
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import refused, worded
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, ticking_clock

TENTH, ELEVENTH, TWELFTH = (date(2026, 1, day) for day in (10, 11, 12))
GATE = "usual_amount"


def watched(then: Then, **given: Any) -> DerivedTable:
    """The sales of a few days, whose amount has to be about that of the days before."""
    gate = usual("amount", against=days(7), same=None, fewest=4, then=then, **given)
    return replace(
        recent_sales,
        breakdown=Breakdown(by=("shop",), measures={"amount": "amount"}),
        gates=(*recent_sales.gates, gate),
        policy=Policy(live="auto"),
    )


def watching(shop: Shop, table: DerivedTable) -> Shop:
    """The same shop with another declaration of its table, which nothing is computed from."""
    package = "backfill_assets_tests.domains.example"
    domain = Domain(name="example", package=package, sources=(sales,), derived=(table,))
    return replace(shop, ws=replace(shop.ws, domain=domain))


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """Sales of ten days, and silver of those whose windows are complete: 80 on each day from the third to the ninth."""
    copy_home(published_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def results_of(shop: Shop, run_id: str, gate: str = GATE) -> Mapping[date, GateResult]:
    with shop.ws.ledger.read() as tx:
        return {result.partition: result for result in tx.candidates.gate_results(run_id) if result.gate == gate}


@pytest.mark.long
def test_a_live_day_far_from_the_usual_waits_for_the_comment_of_a_person(shop: Shop) -> None:
    asking = watching(shop, watched("comment"))
    lands(asking, "new.jsonl", [ELEVENTH], amount=200)
    said = advanced(asking)[-1]
    run = newest(asking)
    assert (run.state, run.approval, run.manifest.partitions) == (RunState.PASSED, ApprovalState.DRAFT, (TENTH,))
    assert said.endswith(f"Next: backfill approve {run.run_id} --by ANOTHER_PERSON --note WHY")
    with pytest.raises(NotApproved, match="with a comment on usual_amount"):
        asking.publish(run.run_id)
    with pytest.raises(NotApproved, match="needs a comment"):
        operations.approve(asking.ws, run.run_id, by="ben")

    found = run_report(asking.ws, run.run_id)
    words = "amount: 230 is far above the usual 80, which is between 76.8 and 83.2"
    assert found.level is Level.ATTENTION
    assert review_of(found).warnings == (f"The approval needs a written comment: {words}.",)
    (series,) = found.usual
    assert [number.partition.day for number in series.numbers] == [*range(3, 11)]
    assert [number.value for number in series.numbers if not number.is_tested] == [80] * 7
    page = report_html(asking.ws, run.run_id)
    assert "2026-01-10: 230, far from the usual" in page
    assert "far above the usual" in page

    operations.approve(asking.ws, run.run_id, by="ben", note="a large sale")
    asking.publish(run.run_id)
    assert asking.amounts()[TENTH] == 230
    assert audit(asking.ws).problems == ()

    # What a person let through is not what the next day is held against.
    lands(asking, "newer.jsonl", [TWELFTH])
    advanced(asking)
    (result,) = results_of(asking, newest(asking).run_id).values()
    assert (result.partition, result.observed["usual"], result.observed["compared"]) == (ELEVENTH, "80", 6)
    assert (result.finding, result.observed[FAR]) == (Finding.FAR_FROM_USUAL, "high")


@pytest.mark.long
def test_a_live_day_far_from_the_usual_is_blocked_where_that_is_declared(shop: Shop) -> None:
    blocking = watching(shop, watched("block"))
    lands(blocking, "new.jsonl", [ELEVENTH], amount=200)
    advanced(blocking)
    run = newest(blocking)
    assert run.state is RunState.BLOCKED
    assert TENTH not in blocking.amounts()
    assert any(each.work.subject == run.run_id for each in status(blocking.ws).stuck)


@pytest.mark.long
def test_a_live_day_far_from_the_usual_is_published_with_a_warning_where_that_is_declared(shop: Shop) -> None:
    warning = watching(shop, watched("warn"))
    lands(warning, "new.jsonl", [ELEVENTH], amount=200)
    advanced(warning)
    run = newest(warning)
    assert (run.state, run.approved_by) == (RunState.PUBLISHED, "policy:live")
    (said,) = review_of(run_report(warning.ws, run.run_id)).warnings
    assert said.startswith("Gate usual_amount is not met: 2026-01-10: amount: 230 is far above the usual 80")
    lands(warning, "newer.jsonl", [TWELFTH])
    advanced(warning)
    (result,) = results_of(warning, newest(warning).run_id).values()
    assert (result.observed["usual"], result.observed["compared"]) == ("80", 6), "nobody said that it is usual"


@pytest.mark.long
def test_an_ordinary_live_day_is_published_by_its_policy_and_with_little_history_that_is_said(shop: Shop) -> None:
    asking = watching(shop, watched("comment"))
    lands(asking, "new.jsonl", [ELEVENTH], amount=50)
    advanced(asking)
    run = newest(asking)
    assert (run.state, results_of(asking, run.run_id)[TENTH].finding) == (RunState.PUBLISHED, Finding.AS_USUAL)
    # All that is accepted before is restated as well: nothing is left to compare with.
    run_id = asking.staged(asking.planned())
    found = results_of(asking, run_id).values()
    assert {result.finding for result in found} == {Finding.LITTLE_HISTORY}
    assert {result.observed["compared"] for result in found} == {0}
    assert "little history: 0" in report_html(asking.ws, run_id)


@pytest.mark.long
def test_rows_are_known_from_the_ledger_and_other_measures_are_read_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(ws: Any, table: Any, files: Any, **given: Any) -> Any:
        read.append(len(files))
        return rows_of(ws, table, files, **given)

    monkeypatch.setattr("backfill_assets.candidates.usual.rows_of", counted)
    day = DayRange.inclusive(date(2026, 1, 9), date(2026, 1, 9))
    by_rows = usual(rows(), against=days(7), same=None, fewest=4)
    counting = watching(shop, replace(recent_sales, gates=(*recent_sales.gates, by_rows)))
    run_id = counting.staged(counting.planned(day))
    assert (results_of(counting, run_id, "usual_rows")[day.start].observed["compared"], read) == (6, [])

    asking = watching(shop, watched("comment"))
    run_id = asking.staged(asking.planned(day))
    assert (results_of(asking, run_id)[day.start].observed["compared"], read) == (6, [6])
    # What was measured with its breakdown is not read again.
    whole = asking.staged(asking.planned(DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 7))))
    operations.approve(asking.ws, whole, by="ben", note="half")
    asking.publish(whole)
    read.clear()
    again = asking.staged(asking.planned(day))
    assert read == [1], "of the eighth alone"
    assert results_of(asking, again)[day.start].observed["usual"] == "40"


@pytest.mark.long
def test_a_version_that_was_rolled_back_is_not_compared_with(shop: Shop) -> None:
    asking = watching(shop, watched("warn"))
    eighth = DayRange.inclusive(date(2026, 1, 8), date(2026, 1, 8))
    half = asking.ready(eighth)
    asking.publish(half)
    ninth = DayRange.inclusive(date(2026, 1, 9), date(2026, 1, 9))
    before = asking.staged(asking.planned(ninth))
    operations.rollback(asking.ws, half, by="ben", reason="wrong")
    after = asking.staged(asking.planned(ninth, reason="again"))
    compared = [results_of(asking, run_id)[ninth.start].observed["compared"] for run_id in (before, after)]
    assert compared == [5, 6], "what was far is left out, and what came back is not"


@pytest.mark.long
def test_a_run_is_measured_again_where_what_it_was_compared_with_has_another_version_since(shop: Shop) -> None:
    asking = watching(shop, watched("warn"))
    eighth, ninth = (DayRange.inclusive(day, day) for day in (date(2026, 1, 8), date(2026, 1, 9)))
    waiting = asking.ready(ninth)
    assert results_of(asking, waiting)[ninth.start].observed["compared"] == 6
    asking.publish(asking.ready(eighth, reason="first"))
    with refused(TargetChanged, match=f"{RECENT} changed since gate {GATE} of run .* read it: 2026-01-08"):
        asking.publish(waiting)
    assert worded(run_report(asking.ws, waiting).run.next_step).endswith(f"backfill run {waiting}")
    asking.kit.gate(waiting)
    assert results_of(asking, waiting)[ninth.start].observed["compared"] == 5, (
        "the eighth is far from the usual as well"
    )
    asking.publish(waiting)
    assert asking.amounts()[ninth.start] == 40
    assert audit(asking.ws).problems == ()


@pytest.mark.long
def test_groups_are_kept_where_they_can_be_erased(shop: Shop) -> None:
    asking = watching(shop, watched("comment", by=("shop",)))
    lands(asking, "new.jsonl", [ELEVENTH], amount=200)
    advanced(asking)
    run = newest(asking)
    (result,) = results_of(asking, run.run_id, "usual_amount_by_shop").values()
    assert (result.passed, "only" in str(result.observed)) == (False, False)
    (series,) = run_report(asking.ws, run.run_id).usual
    assert (series.by, series.far) == ({"shop": "only"}, 1)
    operations.approve(asking.ws, run.run_id, by="ben", note="a large sale")
    asking.publish(run.run_id)
    lands(asking, "newer.jsonl", [TWELFTH])
    advanced(asking)
    (series,) = run_report(asking.ws, newest(asking).run_id).usual
    assert [(number.compared, number.usual) for number in series.numbers if number.is_tested] == [(6, 80)]
    operations.erase_samples(asking.ws, run.run_id, by="dora", reason="asked for")
    assert run_report(asking.ws, run.run_id).usual == ()
    assert audit(asking.ws).problems == ()

    # Which groups were far is not known any more, that some were is.
    second = newest(asking).run_id
    operations.approve(asking.ws, second, by="ben", note="the same sale")
    asking.publish(second)
    lands(asking, "newest.jsonl", [date(2026, 1, 13)])
    advanced(asking)
    (series,) = run_report(asking.ws, newest(asking).run_id).usual
    assert [(number.partition, number.compared) for number in series.numbers if number.is_tested] == [(TWELFTH, 5)]


def test_moved_and_usual_are_both_asked_for_in_one_comment(shop: Shop) -> None:
    table = watched("comment")
    both = replace(table, gates=(*table.gates, moved("amount", percent=5)))
    asking = watching(shop, both)
    run_id = asking.staged(asking.planned(DayRange.inclusive(date(2026, 1, 8), date(2026, 1, 9))))
    assert {result.gate for result in run_report(asking.ws, run_id).to_comment} == {"moved_amount", GATE}
