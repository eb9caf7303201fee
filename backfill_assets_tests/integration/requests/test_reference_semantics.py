"""Which truth a plan computes: with the present references, with those of the replaced rows, or with named ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from typer.testing import CliRunner

from backfill_assets.application.follow import follow
from backfill_assets.application.plan import described_plan, described_set_plan
from backfill_assets.application.propose import propose
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.calendar.windows import Window
from backfill_assets.core.errors import MissingInput, Refused, UnknownName
from backfill_assets.domain import days, merge
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app
from backfill_assets.planning.errors import SeveralVersions
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Cause, Mode, ReferenceSemantics, semantics_of
from backfill_assets.planning.request import THE_PRESENT, AskedReferences, Plan
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.history import partition_history
from backfill_assets.report.planned import SetPlan
from backfill_assets.report.proposals import propose_lines
from backfill_assets.report.report import run_report
from backfill_assets.report.stale import stale_document
from backfill_assets.report.status import status
from backfill_assets.report.values import text_of
from backfill_assets.report.words.plans import brought_along_words, changed_words, references_described
from backfill_assets.report.words.states import stale_words
from backfill_assets.requests.references import Chooser
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.tariff import bills, charges, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.tariffs import (
    AS_RECORDED,
    BILLS,
    CHARGES,
    CORRECTED,
    CURRENT,
    FIRST,
    JANUARY,
    RECORDED,
    SALES,
    SECOND,
    SOLD,
    amounts,
    charged,
    environment,
    january,
    land,
    opened,
    plan,
    plan_set,
    published,
    published_set,
    stale,
    versions,
    window,
    write,
    write_file,
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Four days by the first tariff, the rest of January by the second, and the bill of January; tax never changed."""
    home = tmp_path_factory.mktemp("tariff")
    write(home, "tariff", "1", factor=1)
    write(home, "tax", "1", factor=1)
    ws = opened(home, spark)
    land(ws, "sales.jsonl", dict.fromkeys(SOLD, 10))
    published(ws, plan(ws, FIRST))
    ws.close()
    write(home, "tariff", "2", factor=2, days_back=1)
    ws = opened(home, spark)
    published(ws, plan(ws, SECOND))
    published(ws, plan(ws, JANUARY, table=BILLS))
    ws.close()
    return home


@pytest.fixture
def home(mixed: Path, tmp_path: Path) -> Path:
    return copy_home(mixed, tmp_path / "home")


@pytest.fixture
def ws(home: Path, spark: SparkSession) -> Iterator[Workspace]:
    found = opened(home, spark)
    yield found
    found.close()


@pytest.mark.long
def test_without_a_word_a_plan_computes_with_the_present_references(ws: Workspace) -> None:
    planned = plan(ws, january(2, 4))
    assert versions(planned) == [("tariff", "2", CURRENT)]
    assert window(planned) == Window(days_back=1)
    published(ws, planned)
    assert charged(ws, january(2, 31)) == {40}
    assert (stale(ws).kept, stale(ws).partitions) == ((), (date(2026, 1, 1),))


@pytest.mark.long
def test_as_recorded_reads_the_versions_and_the_window_that_the_replaced_rows_had(ws: Workspace) -> None:
    planned = plan(ws, FIRST, RECORDED)
    assert versions(planned) == [("tariff", "1", AS_RECORDED)]
    assert window(planned) == Window(days_back=0)
    assert planned.manifest.configuration == {"windows": {"sales": {"days_back": 0, "days_ahead": 0}}}
    later = plan(ws, SECOND, RECORDED)
    assert (versions(later), window(later)) == ([("tariff", "2", AS_RECORDED)], Window(days_back=1))


def test_a_correction_of_inputs_as_recorded_keeps_the_truth_of_its_time(ws: Workspace, spark: SparkSession) -> None:
    land(ws, "late.jsonl", {date(2026, 1, 2): 5, date(2026, 1, 20): 5})
    planned = plan_set(ws, RECORDED, january(2, 2), january(20, 20))
    runs = [(each.manifest.table, each.manifest.partitions, versions(each)) for each in planned.plans]
    assert runs == [
        # 3 January is computed as well, because some rows of the table count the day before; it comes out equal.
        (CHARGES, (date(2026, 1, 2), date(2026, 1, 3)), [("tariff", "1", AS_RECORDED)]),
        (CHARGES, (date(2026, 1, 20), date(2026, 1, 21)), [("tariff", "2", AS_RECORDED)]),
        (BILLS, (date(2026, 1, 1),), [("tax", "1", AS_RECORDED)]),
    ]
    before = dict(amounts(ws)), dict(amounts(ws, BILLS))
    set_id = published_set(ws, planned)
    found = amounts(ws)
    assert [found[date(2026, 1, day)] for day in (1, 2, 3, 4, 5, 20, 21)] == [10, 15, 10, 10, 40, 50, 50]
    assert amounts(ws, BILLS) == {date(2026, 1, 1): sum(found.values())}
    operations.rollback_set(ws, set_id, by="ana", reason="a test")
    assert (amounts(ws), amounts(ws, BILLS)) == before


@pytest.mark.long
def test_a_merge_whose_keys_move_is_not_planned_as_recorded_with_several_versions_in_one_set(ws: Workspace) -> None:
    schema = StructType([*charges.schema, StructField("sale_id", StringType(), nullable=False)])
    merging = replace(charges, schema=schema, key=("sale_id",), publish=merge(on=("sale_id",)))
    both, chooser = (date(2026, 1, 2), date(2026, 1, 20)), Chooser.of(ws, RECORDED)
    with ws.ledger.read() as tx:
        assert len(chooser.each(tx, charges, both)) == 2
        assert len(chooser.each(tx, merging, both[:1])) == 1
        with pytest.raises(SeveralVersions) as refused:
            chooser.each(tx, merging, both)
    assert "plan silver.charges --references as-recorded --from 2026-01-20 --to 2026-01-20" in advised(refused.value)


@pytest.mark.long
def test_what_a_change_reaches_as_recorded_follows_from_the_earlier_windows(
    home: Path, ws: Workspace, spark: SparkSession
) -> None:
    """The second tariff counted the day before; the third does not, and still 21 January was charged by the second."""
    write(home, "tariff", "3", factor=3)
    land(ws, "late.jsonl", {date(2026, 1, 20): 5})
    now = opened(home, spark)
    reached = {each.manifest.table: each.manifest.partitions for each in plan_set(now, RECORDED, january(20, 20)).plans}
    assert reached[CHARGES] == (date(2026, 1, 20), date(2026, 1, 21))
    by_the_present = SetRequest(reason="why not", by="ana", because=((SALES, january(20, 20)),))
    present = operations.plan_set(now, by_the_present)
    assert isinstance(present, PlannedSet)
    assert present.plans[0].manifest.partitions == (date(2026, 1, 20),)
    now.close()


@pytest.mark.long
def test_a_proposal_takes_the_present_references_and_says_which_take_the_place_of_which(
    home: Path, ws: Workspace, spark: SparkSession
) -> None:
    write(home, "tariff", "3", factor=3)
    land(ws, "late.jsonl", {date(2026, 1, 20): 5})
    now = opened(home, spark)
    report = propose(now, by="propose")
    said = "silver.charges gets tariff 3 in place of 2: 2026-01-20, 1 day"
    assert said in map(brought_along_words, report.proposed[0].brings)
    assert f"  {said}" in map(text_of, propose_lines(report))
    now.close()


def changed(planned: Plan) -> str:
    return "; ".join(changed_words(planned.manifest))


@pytest.mark.long
def test_a_plan_keeps_what_has_changed_since_the_accepted_rows_by_the_references_that_it_computes_with(
    ws: Workspace,
) -> None:
    then, since = (f"sales = {SALES}, Window(days_back={back}, days_ahead=0)" for back in (0, 1))
    newer = f"configured otherwise: {then}; now {since}; tariff was 1, now 2: it could be any day"
    assert changed(plan(ws, january(2, 4))) == newer
    assert changed(plan(ws, january(2, 4), RECORDED)) == ""
    earlier = plan(ws, SECOND, AskedReferences(semantics=CORRECTED, named=(("tariff", "1"),)))
    assert changed(earlier) == f"configured otherwise: {since}; now {then}; tariff was 2, now 1: it could be any day"
    assert changed(plan(ws, january(2, 4), mode=Mode.DRY_RUN)) == newer
    land(ws, "late.jsonl", {date(2026, 1, 20): 5})
    late = "bronze.sales changed: 2026-01-20, 1 day"
    assert changed(plan(ws, SECOND)) == late
    charges, bills = plan_set(ws, RECORDED, january(20, 20)).plans
    again = f"is computed again by {charges.manifest.run_id} of the same set: 2026-01-20..2026-01-21, 2 days"
    assert (changed(charges), changed(bills)) == (late, f"{CHARGES} {again}")
    assert Manifest.parse(bills.manifest.text).changed == bills.manifest.changed


def test_rows_of_different_versions_are_refused_in_one_run_with_the_plans_that_are_possible(ws: Workspace) -> None:
    with pytest.raises(
        Refused, match=r"2026-01-01\.\.2026-01-04, 4 days, with tariff 1; .*, 6 days, with tariff 2"
    ) as no:
        plan(ws, january(1, 10), RECORDED)
    each = "backfill plan table silver.charges --references as-recorded --from {} --to {} --reason WHY --by NAME"
    first, second = each.format("2026-01-01", "2026-01-04"), each.format("2026-01-05", "2026-01-10")
    assert advised(no.value) == f"plan them one by one: {first}; {second}"


def test_what_was_never_published_has_no_references_as_recorded(home: Path, ws: Workspace) -> None:
    february = DayRange.inclusive(date(2026, 1, 31), date(2026, 2, 1))
    with pytest.raises(MissingInput, match=r"silver\.charges has never been published for 2026-02-01"):
        plan(ws, february, RECORDED)


def test_a_version_that_is_gone_from_the_archive_is_refused_before_anything_is_written(ws: Workspace) -> None:
    (used,) = {pinned.sha256 for pinned in plan(ws, FIRST, RECORDED).manifest.references}
    (folder_at(ws.settings.reference_archive) / "tariff" / f"{used}.yaml").unlink()
    with ws.ledger.read() as tx:
        before = len(tx.runs.records())
    with pytest.raises(MissingInput, match=r"tariff 1 .* is what the rows are computed with, and the archive") as no:
        plan(ws, FIRST, RECORDED)
    assert "present references" in advised(no.value)
    with ws.ledger.read() as tx:
        assert len(tx.runs.records()) == before


@pytest.mark.long
def test_a_corrected_version_is_one_that_was_used_before_or_a_file(home: Path, ws: Workspace) -> None:
    earlier = AskedReferences(semantics=CORRECTED, named=(("tariff", "1"),))
    planned = plan(ws, january(5, 6), earlier)
    assert (versions(planned), window(planned)) == ([("tariff", "1", CORRECTED)], Window(days_back=0))
    by_digest = AskedReferences(semantics=CORRECTED, named=(("tariff", planned.manifest.references[0].sha256[:12]),))
    assert versions(plan(ws, january(5, 6), by_digest)) == versions(planned)
    write_file(home / "elsewhere", "tariff", "1-restated", factor=7)
    file = AskedReferences(semantics=CORRECTED, named=(("tariff", str(home / "elsewhere" / "tariff.yaml")),))
    restated = plan(ws, january(5, 6), file)
    published(ws, restated)
    assert charged(ws, january(5, 6)) == {70}
    # The file is not needed any more: its content was archived, and has its version from now on.
    named = AskedReferences(semantics=CORRECTED, named=(("tariff", "1-restated"),))
    assert versions(plan(ws, january(7, 7), named)) == [("tariff", "1-restated", CORRECTED)]


def test_a_correction_names_versions_that_exist_of_references_that_are_used(home: Path, ws: Workspace) -> None:
    def asked(name: str, version: str) -> AskedReferences:
        return AskedReferences(semantics=CORRECTED, named=((name, version),))

    with pytest.raises(UnknownName, match="no version '9' of tariff was ever used here; known are 1, 2"):
        plan(ws, FIRST, asked("tariff", "9"))
    with pytest.raises(UnknownName, match="there is no reference 'tarif'; the references are tariff, tax"):
        plan(ws, FIRST, asked("tarif", "1"))
    with pytest.raises(Refused, match=r"tax is not a reference of silver.charges; used are tariff"):
        plan(ws, FIRST, asked("tax", "1"))
    write(home, "tariff", "1", factor=9)
    with pytest.raises(MissingInput, match="cannot be read from"):
        plan(ws, FIRST, asked("tariff", str(home / "none.yaml")))


def test_a_version_that_was_only_read_and_never_used_is_not_among_those_that_were(
    home: Path, ws: Workspace, spark: SparkSession
) -> None:
    write(home, "tariff", "3", factor=3)
    for_a_moment = opened(home, spark)
    stale(for_a_moment)
    for_a_moment.close()
    write(home, "tariff", "2", factor=2, days_back=1)
    asked = AskedReferences(semantics=CORRECTED, named=(("tariff", "3"),))
    with pytest.raises(UnknownName, match="no version '3' of tariff was ever used here; known are 1, 2"):
        plan(ws, FIRST, asked)


@pytest.mark.long
def test_an_audit_reads_the_archived_references_that_manifests_pin(ws: Workspace) -> None:
    found = audit(ws)
    assert (found.problems, found.references) == ((), 3)
    archive = folder_at(ws.settings.reference_archive)
    changed, gone = sorted((archive / "tariff").glob("*.yaml"))
    text = changed.read_bytes()
    changed.write_bytes(text.replace(b"factor: ", b"factor: 1"))
    gone.rename(gone.with_suffix(".away"))
    problems = audit(ws).problems
    assert len(problems) == 2 and all("computed or approved with it cannot be shown" in problem for problem in problems)
    assert any(
        "the bytes of the archived reference tariff" in problem and changed.name in problem for problem in problems
    )
    assert any("is gone" in problem and gone.name in problem for problem in problems)
    assert len(audit(ws, is_quick=True).problems) == 1
    changed.write_bytes(text)
    gone.with_suffix(".away").rename(gone)
    assert audit(ws).problems == ()


def test_two_documents_of_one_version_are_told_apart_by_their_digest(
    home: Path, ws: Workspace, spark: SparkSession
) -> None:
    ws.references  # noqa: B018 - the second tariff is archived
    write(home, "tariff", "1", factor=9)
    now = opened(home, spark)
    with pytest.raises(Refused, match="2 documents of tariff have version 1"):
        plan(now, FIRST, AskedReferences(semantics=CORRECTED, named=(("tariff", "1"),)))
    now.close()


@pytest.mark.long
def test_rows_with_chosen_references_are_not_stale_and_say_on_whose_word(ws: Workspace) -> None:
    run_id = published(ws, plan(ws, january(2, 4), RECORDED))
    found = stale(ws)
    assert found.partitions == (date(2026, 1, 1),)
    ((reason,),) = [each.reasons for each in found.kept]
    assert (reason.cause, reason.was, reason.now, reason.run_id) == (Cause.REFERENCE_KEPT, "1", "2", run_id)
    assert found.kept[0].partitions == tuple(january(2, 4))
    assert stale_words(found.table, reason) == (
        f"computed with tariff 1 (as recorded) on purpose, by run {run_id}; now 2: it could be any day"
    )
    planned = operations.plan_set(ws, SetRequest(reason="why not", by="ana", stale=True))
    assert isinstance(planned, PlannedSet)
    assert planned.plans[0].manifest.partitions == (date(2026, 1, 1),)
    assert [(each.partitions, each.why) for each in planned.left_out] == [
        (tuple(january(2, 4)), WhyLeftOut.CHOSEN_REFERENCES)
    ]
    # The bill depends on what is rebuilt, and its references are the present ones.
    assert [plan.manifest.table for plan in planned.plans] == [CHARGES, BILLS]
    # A person decides that they are to be what holds now.
    published(ws, plan(ws, january(2, 4)))
    assert (stale(ws).partitions, stale(ws).kept) == ((date(2026, 1, 1),), ())


@pytest.mark.long
def test_what_is_stale_for_another_reason_as_well_is_left_to_a_person(ws: Workspace) -> None:
    published(ws, plan(ws, january(2, 4), RECORDED))
    land(ws, "late.jsonl", {date(2026, 1, 3): 5})
    found = stale(ws)
    assert found.on_purpose == (date(2026, 1, 3),)
    causes = {why.cause for each in found.ranges for why in each.reasons if date(2026, 1, 3) in each.partitions}
    assert causes == {Cause.INPUT_CHANGED, Cause.REFERENCE_KEPT}
    assert [len(each.partitions) for each in found.kept] == [1, 1]
    document = stale_document([found], table=CHARGES, days=None, sources=[SALES])
    assert words_of(document.next_steps[-1]) == (
        "backfill plan table silver.charges --references as-recorded --from 2026-01-03 --to 2026-01-03 --reason WHY "
        "--by NAME"
    )
    planned = operations.plan_set(ws, SetRequest(reason="why not", by="ana", stale=True, table=CHARGES))
    assert isinstance(planned, PlannedSet)
    assert date(2026, 1, 3) not in planned.plans[0].manifest.partitions


def test_dependents_whose_references_were_chosen_do_not_follow_by_themselves(ws: Workspace) -> None:
    published(ws, plan(ws, JANUARY, RECORDED, table=BILLS))
    published(ws, plan(ws, january(2, 4)))
    followed = operations.plan_follow_ups(ws, by="ana")
    assert (followed.runs, followed.failed) == ((), ())
    assert operations.asked_follow_ups(ws) == ()
    assert stale(ws, BILLS).on_purpose == (date(2026, 1, 1),)
    rebuilt = operations.plan_set(ws, SetRequest(reason="why not", by="ana", stale=True, table=CHARGES))
    assert isinstance(rebuilt, PlannedSet)
    assert [plan.manifest.table for plan in rebuilt.plans] == [CHARGES]
    published(ws, plan(ws, JANUARY, table=BILLS))
    published(ws, plan(ws, january(1, 1)))
    (run,) = operations.plan_follow_ups(ws, by="ana").runs
    assert [pinned.semantics for pinned in run.manifest.references] == [CURRENT]


def followed(ws: Workspace) -> list[tuple[str, RunState | None]]:
    done = follow(ws, Acting(by="follow", recorder=Unrecorded())).followed
    return [(each.table, each.state) for each in done]


@pytest.mark.long
def test_a_late_sale_follows_only_where_its_rows_were_computed_with_the_present_references(ws: Workspace) -> None:
    ours = replace(sales, lateness=days(400))
    silver = replace(charges, inputs={"sales": ours})
    gold = replace(bills, inputs={"charges": silver})
    late = replace(ws, domain=replace(ws.domain, sources=(ours,), derived=(silver, gold)))
    # That late days follow by themselves is new, so that another person has to agree to it.
    land(late, "late.jsonl", {date(2026, 1, 20): 5}, approver="ben")
    assert followed(late) == [(CHARGES, RunState.PUBLISHED), (BILLS, RunState.PUBLISHED)]
    before = amounts(late), amounts(late, BILLS)
    land(late, "later.jsonl", {date(2026, 1, 3): 5})
    assert followed(late) == []
    (found,) = propose(late, by="propose").proposed
    assert [str(each) for each in found.days] == [f"{SALES} 2026-01-03, 1 day"]
    assert (amounts(late), amounts(late, BILLS)) == before


@pytest.mark.long
def test_a_month_that_would_follow_with_another_tax_waits_for_a_person(home: Path, spark: SparkSession) -> None:
    write(home, "tax", "2", factor=3)
    ws = opened(home, spark)
    before = amounts(ws, BILLS)
    published(ws, plan(ws, january(2, 4)))
    assert followed(ws) == [(BILLS, RunState.PASSED)]
    assert followed(ws) == []
    assert amounts(ws, BILLS) == before
    (waiting,) = (run for run in status(ws).runs if run.record.table == BILLS and run.record.state is RunState.PASSED)
    assert words_of(waiting.next_step or "") == f"backfill approve {waiting.record.run_id} --by ANOTHER_PERSON"
    operations.approve(ws, waiting.record.run_id, by="ben")
    operations.publish(ws, waiting.record.run_id, by="ben")
    # With that tax agreed to, months follow again.
    published(ws, plan(ws, january(1, 1)))
    assert followed(ws) == [(BILLS, RunState.PUBLISHED)]
    ws.close()


@pytest.mark.long
@pytest.mark.parametrize("semantics", ReferenceSemantics)
def test_every_semantics_is_reproduced_and_undone(ws: Workspace, home: Path, semantics: ReferenceSemantics) -> None:
    before = dict(amounts(ws))
    land(ws, "late.jsonl", {date(2026, 1, 3): 5})
    named = (("tariff", "1"),) if semantics is CORRECTED else ()
    planned = plan(ws, january(2, 4), AskedReferences(semantics=semantics, named=named))
    run_id = published(ws, planned)
    assert amounts(ws)[date(2026, 1, 3)] == (50 if semantics is CURRENT else 15)
    write(home, "tariff", "4", factor=4)
    assert operations.reproduce(ws, run_id, by="ana").identical
    report = run_report(ws, run_id).run
    history = partition_history(ws, CHARGES, date(2026, 1, 3)).versions[0]
    assert {
        report.record.manifest.reference_semantics,
        semantics_of(history.manifest.references),
        planned.manifest.reference_semantics,
    } == {semantics}
    described = references_described(history.manifest.references)
    assert (
        references_described(report.record.manifest.references)
        == described
        == references_described(planned.manifest.references)
    )
    operations.rollback(ws, run_id, by="ana", reason="a test")
    assert amounts(ws) == before


@pytest.mark.long
def test_drift_is_looked_for_with_the_references_of_the_time(ws: Workspace) -> None:
    drift = plan(ws, FIRST, RECORDED, mode=Mode.RECONCILIATION).manifest.run_id
    operations.stage(ws, drift, actor="ana")
    operations.gate(ws, drift, actor="ana")
    report = run_report(ws, drift)
    assert (report.equal_partitions, len(report.partitions)) == (4, 4)


def test_what_is_stale_is_planned_with_the_present_references_only(ws: Workspace) -> None:
    with pytest.raises(Refused, match="what is stale is rebuilt with the present references"):
        operations.plan_set(ws, SetRequest(reason="why not", by="ana", stale=True, references=RECORDED))


def test_a_set_in_which_nothing_uses_the_named_reference_is_refused(ws: Workspace) -> None:
    asked = AskedReferences(semantics=CORRECTED, named=(("tariff", "1"),))
    request = SetRequest(reason="why not", by="ana", because=((CHARGES, FIRST),), references=asked)
    with pytest.raises(Refused, match=r"tariff is not a reference of gold.bills; used are tax"):
        operations.plan_set(ws, request)
    planned = plan_set(ws, asked, january(5, 5))
    assert [versions(each) for each in planned.plans] == [[("tariff", "1", CORRECTED)], [("tax", "1", CURRENT)]]
    assert not isinstance(planned, NothingToRebuild)


@pytest.mark.long
def test_a_run_and_a_set_are_published_with_what_they_pinned_and_name_the_reference_that_has_changed_since(
    home: Path, spark: SparkSession
) -> None:
    ws = opened(home, spark)
    run, planned = plan(ws, FIRST), plan_set(ws, THE_PRESENT, january(20, 20))
    # Approved before they are measured, they wait for their publication even where they would change nothing.
    operations.approve(ws, run.manifest.run_id, by="ben")
    operations.approve(ws, planned.manifest.set_id, by="ben")
    for run_id in (run.manifest.run_id, *(each.manifest.run_id for each in planned.plans)):
        operations.stage(ws, run_id, actor="ana")
        operations.gate(ws, run_id, actor="ana")
    ws.close()
    write(home, "tariff", "3", factor=3)
    later = opened(home, spark)
    for subject in (Restatement(later, run.manifest.run_id), Restatement(later, planned.manifest.set_id)):
        document = subject.publish(Acting(by="ben", recorder=Unrecorded()))
        found = [(each.table, each.name, each.was, each.now) for each in document.changed_references]
        assert found == [(CHARGES, "tariff", "2", "3")]
    assert charged(later, january(2, 4)) == {40}
    later.close()


def test_a_plan_says_that_it_also_brings_newer_references_and_none_as_recorded(ws: Workspace) -> None:
    def brought(planned: PlannedSet) -> list[str]:
        document = described_set_plan(ws, planned)
        assert isinstance(document, SetPlan)
        return [brought_along_words(each) for each in document.brings]

    assert brought(plan_set(ws, THE_PRESENT, january(2, 2), january(20, 20))) == [
        "silver.charges gets tariff 2 in place of 1: 2026-01-02..2026-01-03, 2 days"
    ]
    assert brought(plan_set(ws, RECORDED, january(2, 2), january(20, 20))) == []
    (only,) = described_plan(ws, plan(ws, january(4, 6))).brings
    assert (only.what, only.was, only.now, len(only.partitions)) == ("tariff", "1", "2", 1)


def test_the_command_line_takes_the_words_and_prints_them(home: Path) -> None:
    runner = CliRunner(env=dict(environment(home)))
    plain = [
        "plan",
        "table",
        "charges",
        "--from",
        "2026-01-01",
        "--to",
        "2026-01-04",
        "--reason",
        "why not",
        "--by",
        "ana",
    ]
    shown = runner.invoke(app, [*plain, "--references", "as-recorded"])
    assert shown.exit_code == 0, shown.output
    assert "as recorded, which the replaced rows had used: tariff 1" in shown.output
    named = runner.invoke(app, [*plain, "--reference", "tariff=1", "--json"])
    assert json.loads(named.output)["reference_semantics"] == "CORRECTED"
    present = runner.invoke(app, plain)
    assert "current: tariff 2" in present.output
    assert "silver.charges gets tariff 2 in place of 1" in present.output
    for wrong in (["--references", "corrected"], ["--references", "current", "--reference", "tariff=1"]):
        refused = runner.invoke(app, [*plain, *wrong])
        assert (refused.exit_code, "Traceback" in refused.output) == (1, False)
        assert "--reference" in refused.output
