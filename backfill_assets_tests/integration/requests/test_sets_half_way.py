"""A set at work, undone or left half-way: what others may do meanwhile, and what people read of it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace

import pytest
from rich.console import Console

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange, describe
from backfill_assets.cli.terminal import show
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    HalfWay,
    IllegalTransition,
    LostRace,
    MissingInput,
    NotApproved,
    Refused,
    TargetChanged,
    UnknownName,
)
from backfill_assets.domain import row_count
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.history import partition_history
from backfill_assets.report.planned import SetPlan, left_out_documents, set_plan_page
from backfill_assets.report.what_next import next_step
from backfill_assets.requests.left_out import how_to_include
from backfill_assets.requests.publish import rollback_run
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, refused, worded
from backfill_assets_tests.support.edited import edit
from backfill_assets_tests.support.month import (
    CARNIVAL,
    FEBRUARY,
    REACHED,
    SOLD,
    TOTALS,
    planned_set,
    ready_set,
    set_state,
    total,
)
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale, shop_environment

DYING = """
    import os, signal
    from backfill_assets_tests.support import operations
    from backfill_assets.core.clock import system_clock
    from backfill_assets.core.settings import Settings
    from backfill_assets.workspace import Workspace

    ws = Workspace.open(Settings.from_environment(), clock=system_clock)
    published = []

    def publish_or_die(run_id):
        if published:
            os.kill(os.getpid(), signal.SIGKILL)
        operations.publish(ws, run_id, by="ben")
        published.append(run_id)

    operations.publish_set(ws, {set_id!r}, by="ben", publish=publish_or_die)
"""


@pytest.fixture
def shop(month: Shop) -> Shop:
    return month


def killed_after_the_first_table(shop: Shop, set_id: str) -> None:
    script = textwrap.dedent(DYING).format(set_id=set_id)
    environment = {**os.environ, **shop_environment(shop.ws.settings.home)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_set_killed_between_its_tables_is_completed_by_recover(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    killed_after_the_first_table(late, set_id)
    assert (late.amounts()[CARNIVAL], total(late)) == (45, 28 * 40), "half of it is visible, and the ledger says so"
    assert set_state(late, set_id) is SetState.PUBLISHING
    (found,) = operations.recover(late.ws, by="ops")
    assert (found.what, found.outcome) == ("set", "was half-way; now it is published completely")
    assert total(late) == 28 * 40 + 4 * 5
    assert operations.recover(late.ws, by="ops") == ()
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_a_set_is_completed_by_its_name_although_a_swap_of_it_was_stopped(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    with suppress(Stopped):
        stopped = Restatement(stopping_at(late.ws, Point.SWAP_COMMITTED), set_id)
        stopped.publish(Acting(by="ben", recorder=Unrecorded()))
    found = operations.recover(late.ws, by="ops", only=set_id)
    assert [each.what for each in found] == ["publication", "set"]
    assert set_state(late, set_id) is SetState.PUBLISHED


def test_a_set_that_cannot_be_completed_is_reversed_by_recover(late: Shop) -> None:
    before = late.live_paths()
    set_id = ready_set(late, planned_set(late))
    killed_after_the_first_table(late, set_id)
    other = late.staged(late.planned(FEBRUARY, table=TOTALS, reason="in between"))
    operations.approve(late.ws, other, by="ben")
    late.publish(other)
    (found,) = operations.recover(late.ws, by="ops")
    assert "could not be completed" in found.outcome
    assert set_state(late, set_id) is SetState.ROLLED_BACK
    assert late.live_paths() == before
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_a_set_whose_first_table_changed_is_refused_with_nothing_changed(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    late.published(REACHED, reason="in between")
    before = (late.live_paths(), late.live_paths(TOTALS))
    with pytest.raises(TargetChanged):
        operations.publish_set(late.ws, set_id, by="ben")
    assert (late.live_paths(), late.live_paths(TOTALS)) == before
    assert set_state(late, set_id) is SetState.PENDING


def test_a_rollback_of_a_set_brings_every_table_back(late: Shop) -> None:
    before = (late.live_paths(), late.live_paths(TOTALS), total(late))
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    operations.publish_set(late.ws, set_id, by="ben")
    undone = operations.rollback_set(late.ws, set_id, by="ben", reason="was right before")
    assert [record.table for record in undone] == [TOTALS, RECENT], "dependents first"
    assert (late.live_paths(), late.live_paths(TOTALS), total(late)) == before
    assert set_state(late, set_id) is SetState.ROLLED_BACK
    assert {operations.state_of(late.ws, m.run_id) for m in planned.manifest.members} == {RunState.ROLLED_BACK}
    with pytest.raises(IllegalTransition, match="nothing to undo"):
        operations.rollback_set(late.ws, set_id, by="ben", reason="again")
    assert audit(late.ws).problems == ()
    # What keeps one of its runs from readers is said of each of them: they are published together.
    *others, monthly = late.ws.domain.derived
    gated = replace(monthly, gates=(*monthly.gates, row_count(at_least=1, name="since")))
    ws = replace(late.ws, domain=replace(late.ws.domain, derived=(*others, gated)))
    with ws.ledger.read() as tx:
        said = {str(next_step(ws, tx, run)) for run in tx.runs.named(m.run_id for m in planned.manifest.members)}
    assert len(said) == 1
    assert "was not measured with gate since of gold.sales_monthly" in said.pop()


@pytest.mark.long
def test_sales_that_landed_and_are_not_loaded_are_named_before_anything_is_planned(shop: Shop) -> None:
    path = shop.folder / "later.jsonl"
    path.write_text('{"sale_id": "x", "sold_at": "2026-02-16T12:00:00Z", "amount": 1}\n', encoding="utf-8")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    with pytest.raises(MissingInput, match="not built from what has landed: 2026-02-16"):
        planned_set(shop, stale=True)


def test_a_run_of_a_set_is_neither_published_nor_brought_back_alone(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    first = planned.manifest.members[0].run_id
    before = (late.live_paths(), late.live_paths(TOTALS))
    with refused(IllegalTransition, match=f"belongs to set {set_id}.*backfill publish {set_id}"):
        operations.publish(late.ws, first, by="ben")
    assert (late.live_paths(), late.live_paths(TOTALS)) == before
    operations.publish_set(late.ws, set_id, by="ben")
    with refused(IllegalTransition, match=f"belongs to set {set_id}.*backfill rollback {set_id}"):
        operations.rollback(late.ws, first, by="ben", reason="only silver")
    assert set_state(late, set_id) is SetState.PUBLISHED
    assert audit(late.ws).problems == ()


def test_two_who_publish_a_set_at_once_leave_it_published_or_going_on(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))

    def somebody_was_first(run_id: str) -> None:
        operations.publish(late.ws, run_id, by="cleo")
        operations.publish(late.ws, run_id, by="ben")

    with pytest.raises(HalfWay, match="1 of 2 runs"):
        operations.publish_set(late.ws, set_id, by="ben", publish=somebody_was_first)
    assert set_state(late, set_id) is SetState.PUBLISHING, "one table is published: that is not planned any more"
    operations.publish_set(late.ws, set_id, by="cleo")
    assert total(late) == 28 * 40 + 4 * 5


def test_recover_during_a_live_publication_of_a_set_never_tears_it(late: Shop) -> None:
    """Whatever recover decides, the slow publisher's next table is published with the others or not at all."""
    set_id = ready_set(late, planned_set(late))
    published: list[str] = []

    def slow(run_id: str) -> None:
        if published:
            operations.recover(late.ws, by="ops")
        published.append(run_id)
        operations.publish(late.ws, run_id, by="ben")

    assert operations.publish_set(late.ws, set_id, by="ben", publish=slow).state is SetState.PUBLISHED
    assert (late.amounts()[CARNIVAL], total(late)) == (45, 28 * 40 + 4 * 5)
    assert audit(late.ws).problems == ()


def test_a_rollback_during_a_live_publication_of_a_set_stops_it(late: Shop) -> None:
    before = (late.live_paths(), late.live_paths(TOTALS))
    set_id = ready_set(late, planned_set(late))
    published: list[str] = []

    def slow(run_id: str) -> None:
        if published:
            operations.rollback_set(late.ws, set_id, by="ops", reason="stop")
        published.append(run_id)
        operations.publish(late.ws, run_id, by="ben")

    with pytest.raises(Refused, match="belongs to set"):
        operations.publish_set(late.ws, set_id, by="ben", publish=slow)
    assert set_state(late, set_id) is SetState.ROLLED_BACK
    assert (late.live_paths(), late.live_paths(TOTALS)) == before
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_a_set_is_rolled_back_as_a_whole_or_not_at_all(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    operations.publish_set(late.ws, set_id, by="ben")
    # Silver is published again: the set's silver cannot be brought back, so its gold must stay as well.
    late.land("later.jsonl", [sale(CARNIVAL, amount=1, sale_id="later")])
    late.published(DayRange.inclusive(CARNIVAL, CARNIVAL), reason="one day")
    before = (late.live_paths(), late.live_paths(TOTALS))
    with pytest.raises(TargetChanged):
        operations.rollback_set(late.ws, set_id, by="ben", reason="too late")
    assert (late.live_paths(), late.live_paths(TOTALS)) == before
    assert set_state(late, set_id) is SetState.PUBLISHED
    assert operations.recover(late.ws, by="ops") == ()


@pytest.mark.long
def test_a_rollback_that_stopped_half_way_can_be_given_up(late: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    operations.publish_set(late.ws, set_id, by="ben")
    whole = total(late)
    rolled_back: list[str] = []

    def only_one(ws: Workspace, run_id: str, *, by: str, reason: str, ordered: bool) -> PublicationRecord:
        if rolled_back:
            raise LostRace("other writers committed first in every attempt.")
        rolled_back.append(run_id)
        return rollback_run(ws, run_id, by=by, reason=reason, ordered=ordered)

    with monkeypatch.context() as racing:
        racing.setattr("backfill_assets.requests.rollout.rollback_run", only_one)
        with pytest.raises(HalfWay, match="1 of 2 published runs"):
            operations.rollback_set(late.ws, set_id, by="ben", reason="was right before")
    assert total(late) == 28 * 40
    operations.approve(late.ws, set_id, by="ben")
    operations.publish_set(late.ws, set_id, by="ben")
    assert total(late) == whole
    assert audit(late.ws).problems == ()


@pytest.mark.long
def test_what_a_set_found_equal_is_undone_with_it(shop: Shop) -> None:
    shop.land("free.jsonl", [sale(CARNIVAL, amount=0, sale_id="free")])
    planned = planned_set(shop)
    set_id = ready_set(shop, planned)
    operations.publish_set(shop.ws, set_id, by="ben")
    before = shop.live_paths()
    operations.rollback_set(shop.ws, set_id, by="ben", reason="try")
    assert {operations.state_of(shop.ws, m.run_id) for m in planned.manifest.members} == {RunState.ROLLED_BACK}
    assert shop.live_paths() == before
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_set_that_is_never_published_says_so(late: Shop) -> None:
    day = DayRange.inclusive(CARNIVAL, CARNIVAL)
    request = SetRequest(reason="look", by="ana", because=((SALES, day),), mode=Mode.DRY_RUN)
    planned = operations.plan_set(late.ws, request)
    assert isinstance(planned, PlannedSet)
    for member in planned.manifest.members:
        late.staged(member.run_id)
    with pytest.raises(IllegalTransition, match="mode DRY_RUN and is never published"):
        operations.publish_set(late.ws, planned.manifest.set_id, by="ben")


def test_a_set_is_approved_once(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    with pytest.raises(IllegalTransition, match="approved already"):
        operations.approve(late.ws, set_id, by="ben")


@pytest.mark.long
def test_the_versions_of_a_set_are_those_of_the_whole_set(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    killed_after_the_first_table(late, set_id)
    assert operations.set_versions(late.ws, set_id) == {}, "half of a set is not a state that readers should choose"
    operations.recover(late.ws, by="ops")
    assert set(operations.set_versions(late.ws, set_id)) == {RECENT, TOTALS}


@pytest.mark.long
def test_history_undoes_a_run_of_a_set_with_its_set(late: Shop) -> None:
    set_id = ready_set(late, planned_set(late))
    operations.publish_set(late.ws, set_id, by="ben")
    story, before = partition_history(late.ws, RECENT, CARNIVAL).versions
    undo_the_set = f"backfill rollback {set_id} --by NAME --reason WHY"
    assert worded(story.undo) == undo_the_set
    with refused(TargetChanged, match=f"undo that first: {undo_the_set}"):
        operations.rollback(late.ws, before.claim.run_id, by="ben", reason="was right before")


@pytest.mark.long
def test_days_that_were_not_loaded_are_loaded_range_by_range(shop: Shop) -> None:
    path = shop.folder / "apart.jsonl"
    days = ("2026-02-16", "2026-02-17", "2026-02-20")
    lines = [f'{{"sale_id": "x{day}", "sold_at": "{day}T12:00:00Z", "amount": 1}}\n' for day in days]
    path.write_text("".join(lines), encoding="utf-8")
    operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    with pytest.raises(MissingInput) as refusal:
        planned_set(shop, stale=True)
    assert advised(refusal.value) == (
        "backfill load sales --from 2026-02-16 --to 2026-02-17 --by NAME; "
        "backfill load sales --from 2026-02-20 --to 2026-02-20 --by NAME"
    )


def with_other_code(ws: Workspace) -> Workspace:
    """The workspace after an edit of the domain's package."""

    return edit(Workspace(settings=ws.settings, domain=ws.domain, clock=ws.clock, open_session=ws.open_session))


def test_what_a_stale_plan_leaves_out_is_said_with_the_way_to_include_it(late: Shop) -> None:
    edited = replace(late, ws=with_other_code(late.ws))
    planned = planned_set(edited, stale=True)
    assert [rebuild.partitions for rebuild in planned.rebuilds] == [tuple(REACHED), (FEBRUARY.start,)]
    left_out, march = planned.left_out
    assert (march.partitions, march.is_asked) == ((SOLD.last,), False)
    # The month would be left out as well, if it did not depend on what is rebuilt.
    assert (left_out.table, set(left_out.partitions)) == (RECENT, set(FEBRUARY) - set(REACHED))
    assert left_out.why is WhyLeftOut.CODE_CHANGED
    assert "--changed-code" in worded(how_to_include(left_out))
    document = SetPlan(planned=planned, left_out=left_out_documents(planned.left_out))
    assert [describe(each.some.grain, each.some.partitions) for each in document.left_out] == [
        "2026-02-01..2026-02-14, 2026-02-19..2026-02-28, 24 days",
        "2026-03-01, 1 day",
    ]
    text = io.StringIO()
    show(Console(file=text, width=200), set_plan_page(document))
    assert "Left out" in text.getvalue()
    assert "only the code changed" in text.getvalue()
    assert "--changed-code" in text.getvalue()
    edited.ws.close()


@pytest.mark.long
def test_what_a_set_has_brought_in_is_read_at_once_and_agrees_with_its_publications(late: Shop) -> None:
    planned = planned_set(late)
    set_id = ready_set(late, planned)
    operations.publish_set(late.ws, set_id, by="ben")
    with late.ws.ledger.read() as reader:
        assert [run.run_id for run in reader.runs.named(m.run_id for m in planned.manifest.members)] == [
            member.run_id for member in planned.manifest.members
        ]
        with pytest.raises(UnknownName, match="nobody"):
            reader.runs.named(["nobody"])
        landed = reader.publications.landed(m.run_id for m in planned.manifest.members)
        for member in planned.manifest.members:
            (publication,) = reader.publications.records(run_id=member.run_id)
            landing = landed[member.run_id]
            assert landing.delta_version == publication.delta_version
            assert (landing.changed, landing.verified) == (
                len(publication.changes),
                len(publication.verified),
            )


def test_a_part_of_a_set_cannot_be_approved_and_the_refusal_names_the_set(late: Shop) -> None:
    manifest = planned_set(late).manifest
    set_id, one = manifest.set_id, manifest.members[0].run_id
    words = f"belongs to set {set_id}, and only the whole set can be approved"
    with pytest.raises(IllegalTransition, match=words) as refusal:
        operations.approve(late.ws, one, by="ben")
    assert advised(refusal.value) == f"backfill approve {set_id} --by ANOTHER_PERSON"
    with pytest.raises(NotApproved, match="was requested by ana") as own:
        operations.approve(late.ws, set_id, by="ana")
    assert set_id in advised(own.value)


def test_a_set_because_of_a_change_says_what_is_stale_for_other_reasons_and_left_out(late: Shop) -> None:
    edited = replace(late, ws=with_other_code(late.ws))
    planned = planned_set(edited)
    edited.ws.close()
    (left_out,) = planned.left_out
    assert (left_out.table, set(left_out.partitions)) == (RECENT, set(FEBRUARY) - set(REACHED))
    assert (left_out.why, worded(how_to_include(left_out))) == (
        WhyLeftOut.STALE,
        f"backfill plan stale {RECENT} --changed-code --reason WHY --by NAME; why: backfill stale {RECENT}",
    )
    assert planned_set(late).left_out == ()
