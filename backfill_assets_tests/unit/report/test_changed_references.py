"""A run whose reference has changed since it was planned can be published, and says so before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.next_steps import decline
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.publications import Extent
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.planning.manifest_parts import ReferenceSemantics
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.publications import PublicationDocument, published_page
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.report import run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.runs import run_document
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.hand_made import compared
from backfill_assets_tests.support.ledger_examples import plan, results_for, stage, staged
from backfill_assets_tests.support.report_examples import an_act
from backfill_assets_tests.support.tariffs import CHARGES, environment, january, write

DAYS = tuple(january(1, 4))
RUN = "charges-1"
SAID = (
    "the reference tariff has changed since silver.charges 2026-01-01..2026-01-04, 4 days was planned with version 1: "
    "it is version 2 now, and the rows follow from the earlier one"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path, "tariff", "1", factor=1)
    write(tmp_path, "tax", "1", factor=1)
    return tmp_path


@pytest.fixture
def ws(home: Path) -> Iterator[Workspace]:
    found = Workspace.open(Settings.from_environment(environment(home)))
    yield found
    found.close()


def approved(ws: Workspace, semantics: ReferenceSemantics = ReferenceSemantics.CURRENT) -> None:
    pinned = replace(ws.references["tariff"].pinned, semantics=semantics)
    plan(ws.ledger, RUN, table=CHARGES, days=DAYS, references=(pinned,))
    stage(ws.ledger, RUN, DAYS)
    with ws.ledger.write() as tx:
        tx.runs.take(RUN, RunState.GATING, actor="runner", attempt="a1")
        candidates = compared({each.partition: each for each in staged(RUN, DAYS)}, {})
        tx.candidates.record_gates(RUN, candidates, results_for(RUN, DAYS), actor="runner", attempt="a1")
        tx.runs.move(RUN, RunState.PASSED, actor="runner", attempt="a1")
        tx.requests.approve(RUN, by="Bob")


def test_a_reference_that_has_changed_is_named_before_the_publication_and_nothing_is_refused(
    home: Path, ws: Workspace
) -> None:
    approved(ws)
    assert worded(run_document(ws, RUN).next_step) == f"backfill publish {RUN} --by NAME"
    write(home, "tariff", "2", factor=2)
    later = ws.with_present_references()
    following = run_document(later, RUN).next_step
    assert worded(following) == f"{SAID}; to publish them all the same: backfill publish {RUN} --by NAME"
    assert following is not None and decline(RUN, following) is not None, "the pages know that a publication is next"
    report = run_report(later, RUN)
    assert SAID[1:] in " ".join(review_of(report).warnings)


def test_a_reference_that_a_person_chose_does_not_change_with_the_present_one(home: Path, ws: Workspace) -> None:
    approved(ws, ReferenceSemantics.AS_RECORDED)
    write(home, "tariff", "2", factor=2)
    assert worded(run_document(ws.with_present_references(), RUN).next_step) == f"backfill publish {RUN} --by NAME"


def test_the_answer_of_a_publication_names_the_reference(home: Path, ws: Workspace) -> None:
    approved(ws)
    write(home, "tariff", "2", factor=2)
    with ws.ledger.read() as tx:
        changed = references_moved_on(ws.with_present_references(), tx.runs.get(RUN))
    document = PublicationDocument(
        header=an_act(Action.PUBLISH, PublicationState.PUBLISHED, 1),
        extent=Extent(first=DAYS[0], last=DAYS[-1], partition_count=4),
        grain=Grain.DAILY,
    )
    assert SAID[1:] in markdown_page(published_page(replace(document, changed_references=changed)))
    assert SAID[1:] not in markdown_page(published_page(document))
