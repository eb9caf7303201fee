"""Two named people agree, the second one may, and the stricter of the pinned and the present policy counts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import IllegalTransition, InvalidReference, NotApproved, Refused
from backfill_assets.domain import Policy, Reference
from backfill_assets.files.port import Files
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.history import partition_history
from backfill_assets.report.publications import PublicationDocument
from backfill_assets.report.report import run_report
from backfill_assets.report.runs import run_document
from backfill_assets.report.status import status
from backfill_assets.report.words.stages import policy_words
from backfill_assets.requests import authority
from backfill_assets.transforms.references import LoadedReference, load_reference
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, ticking_clock
from backfill_assets_tests.support.waiting_runs import AUTO, declared, run_of

PLATFORM = Policy(approvers=("Platform ", "audit"))
APPROVE = "backfill approve {run} --by ANOTHER_PERSON"
FURTHER = f"the approval by ben is no longer valid: {APPROVE}"
PUBLISH = "backfill publish {run} --by NAME"


@pytest.fixture
def shop(tmp_path: Path, waiting_home: Path, spark: SparkSession) -> Iterator[Shop]:
    copy_home(waiting_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def writes(shop: Shop, text: str) -> Path:
    path = folder_at(shop.ws.settings.reference) / "approvers.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def says(shop: Shop, version: str = "1", **groups: str) -> Path:
    lines = [f"  {group}: [{names}]" for group, names in groups.items()]
    return writes(shop, "\n".join([f'version: "{version}"', "groups:", *lines]))


def next_step(shop: Shop, run_id: str) -> str:
    """What `status` and `report` say, in the same words."""
    listed = {run.record.run_id: run.next_step for run in status(shop.ws).runs}
    assert listed[run_id] == run_report(shop.ws, run_id).run.next_step == run_document(shop.ws, run_id).next_step
    return worded(listed[run_id])


def last_approval(shop: Shop, run_id: str) -> EventRecord:
    with shop.ws.ledger.read() as reader:
        return [event for event in reader.events.entries(entity_id=run_id) if event.action == "approved"][-1]


@pytest.mark.parametrize("by", ["", "\u200b", "sensor", "unspecified", "policy:backfill", "\uff50olicy:x"])
def test_a_run_without_a_named_requester_is_not_planned(shop: Shop, by: str) -> None:
    days = DayRange.inclusive(date(2026, 1, 4), date(2026, 1, 4))
    with shop.ws.ledger.read() as reader:
        before = len(list(reader.events.entries()))
    with pytest.raises(Refused, match="the requester"):
        operations.plan(shop.ws, PlanRequest(table=RECENT, days=days, reason="why not", by=by))
    with pytest.raises(Refused, match="the requester"):
        operations.plan_load(shop.ws, "sales", partitions=(date(2026, 1, 4),), by=by, reason="why not")
    with shop.ws.ledger.read() as reader:
        assert len(list(reader.events.entries())) == before


@pytest.mark.parametrize(
    "by", ["ana", " ANA ", "\uff41\uff4e\uff41", "an\u200da", "policy:backfill", "sensor", "recover"]
)
def test_the_requester_cannot_approve_under_another_spelling_or_name(shop: Shop, by: str) -> None:
    run_id = run_of(shop.ws, "plain")
    with pytest.raises(NotApproved):
        operations.approve(shop.ws, run_id, by=by)
    with pytest.raises(NotApproved, match="is not approved"):
        shop.publish(run_id)


def test_a_run_of_a_person_is_published_and_undone_by_a_person(shop: Shop) -> None:
    run_id = run_of(shop.ws, "plain")
    operations.approve(shop.ws, run_id, by="ben")
    with pytest.raises(Refused, match="reserved for the system"):
        operations.publish(shop.ws, run_id, by="sensor")
    shop.publish(run_id)
    with pytest.raises(Refused, match="reserved for the system"):
        operations.rollback(shop.ws, run_id, by="recover", reason="why not")


def test_a_member_of_a_group_approves_and_the_event_says_on_what_grounds(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    for path_is_there in (False, True):
        with pytest.raises(NotApproved) as refusal:
            operations.approve(shop.ws, run_id, by="ben")
        if not path_is_there:
            path = says(shop, "2026-11", finance="BEN2, ana", platform="ben")
            assert (
                advised(refusal.value)
                == f'write {path}: version: "1", and below groups: the line finance: [NAME, NAME]'
            )
    assert "is approved by a member of finance (BEN2, ana), and ben is not a member" in refusal.value.message
    with pytest.raises(NotApproved, match="cannot approve it as well"):
        operations.approve(shop.ws, run_id, by="ana")
    operations.approve(shop.ws, run_id, by="Ben2")
    payload = last_approval(shop, run_id).payload
    assert (payload["groups"], payload["approvers_version"]) == (["finance"], "2026-11")
    archived = folder_at(shop.ws.settings.reference_archive) / "approvers" / f"{payload['approvers_sha256']}.yaml"
    assert archived.read_bytes() == path.read_bytes()
    report = run_report(shop.ws, run_id)
    assert report.approved_for and report.approved_for.groups == ("finance",)
    assert "backfills wait for the approval of another person of finance," in policy_words(report.run.manifest.policy)
    shop.publish(run_id)


def test_a_person_of_no_group_rolls_nothing_back_and_the_event_has_the_group_of_one_who_does(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    says(shop, finance="ana, Ben, cara")
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    before = shop.amounts()
    subject = Restatement(shop.ws, run_id)
    for with_dependents in (False, True):
        with pytest.raises(
            NotApproved, match=r"is rolled back by a member of finance \(ana, Ben, cara\), and eve is not a member"
        ) as refusal:
            subject.rollback(Acting(by="eve", recorder=Unrecorded()), reason="mine", with_dependents=with_dependents)
    assert advised(refusal.value) == f"let one of them roll it back: backfill rollback {run_id} --by NAME --reason WHY"
    # The policy of the present counts as well, and so does the pinned one where it was loosened since.
    with pytest.raises(
        NotApproved, match=r"of finance \(ana, Ben, cara\) and of Platform \(nobody\) or audit \(nobody\)"
    ):
        operations.rollback(declared(shop, PLATFORM).ws, run_id, by="cara", reason="wrong")
    with pytest.raises(NotApproved, match="of finance"):
        operations.rollback(declared(shop, AUTO).ws, run_id, by="eve", reason="mine")
    assert shop.amounts() == before
    undone = operations.rollback(shop.ws, run_id, by="cara", reason="wrong")
    with shop.ws.ledger.read() as reader:
        begun = next(reader.events.entries(entity_id=undone.publication_id))
    assert (begun.payload["groups"], begun.payload["approvers_version"]) == (["finance"], "1")
    assert audit(shop.ws).problems == ()


def test_an_approver_who_has_left_the_group_does_not_count_and_makes_room_for_another(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    says(shop, finance="ben, cara")
    operations.approve(shop.ws, run_id, by="ben")
    with pytest.raises(IllegalTransition):
        operations.approve(shop.ws, run_id, by="cara")
    says(shop, "2", finance="cara")
    for ask in (operations.require_ready, lambda ws, run: operations.publish(ws, run, by="ben")):
        with pytest.raises(NotApproved, match=f"the approval of run {run_id} by ben is not valid"):
            ask(shop.ws, run_id)
    assert next_step(shop, run_id) == FURTHER.format(run=run_id)
    operations.approve(shop.ws, run_id, by="cara")
    assert next_step(shop, run_id) == PUBLISH.format(run=run_id)
    assert last_approval(shop, run_id).payload["approvers_version"] == "2"
    shop.publish(run_id)


def test_each_publication_of_a_run_names_the_person_who_had_approved_it_then(hand: Hand) -> None:
    day = date(2026, 1, 6)
    run_id = hand.silver({day: 30})
    told: list[str] = []
    acting = Acting(by="ben", recorder=Unrecorded(), listener=lambda progress: told.append(progress.line))
    published = Restatement(hand.ws, run_id).publish(acting)
    assert isinstance(published, PublicationDocument)
    first = published.header.publication_id
    assert told == [
        "checking 2026-01-06, 1 day before anything is swapped",
        "published 2026-01-06, 1 day: readers see the new rows",
    ]
    hand.undo(first)
    operations.approve(hand.ws, run_id, by="cara")
    again = hand.publish(run_id)
    versions = {each.claim.publication_id: each for each in partition_history(hand.ws, SILVER, day).versions}
    assert (versions[first].approved_by, versions[again].approved_by) == ("ben", "cara")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((30, 40), "published 2026-01-06..2026-01-07, 2 days: equal to what readers see, so nothing was swapped"),
        (
            (30, 50),
            "published 2026-01-07, 1 day: readers see the new rows; 2026-01-06, 1 day equal what they saw before",
        ),
    ],
)
def test_a_publication_tells_which_partitions_it_has_swapped(hand: Hand, rows: Sequence[int], said: str) -> None:
    days, told = (date(2026, 1, 6), date(2026, 1, 7)), list[str]()
    hand.publish(hand.silver(dict(zip(days, (30, 40), strict=True))))
    run_id = hand.silver(dict(zip(days, rows, strict=True)))
    acting = Acting(by="ben", recorder=Unrecorded(), listener=lambda progress: told.append(progress.line))
    Restatement(hand.ws, run_id).publish(acting)
    assert told[-1] == said


def test_an_approval_satisfies_the_pinned_and_the_present_groups(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    later = declared(shop, PLATFORM)
    says(shop, finance="ben, dora", platform="cara, dora")
    for either in ("ben", "cara"):
        with pytest.raises(
            NotApproved, match=r"of finance \(ben, dora\) and of Platform \(cara, dora\) or audit \(nobody\)"
        ):
            operations.approve(later.ws, run_id, by=either)
    operations.approve(shop.ws, run_id, by="ben")
    with pytest.raises(NotApproved, match="is not valid"):
        later.publish(run_id)
    assert next_step(shop, run_id) == PUBLISH.format(run=run_id)
    assert next_step(later, run_id) == FURTHER.format(run=run_id)
    operations.approve(later.ws, run_id, by="dora")
    later.publish(run_id)


def test_a_policy_that_was_loosened_since_loosens_nothing_that_was_planned(shop: Shop) -> None:
    loose = declared(shop, AUTO)
    with pytest.raises(NotApproved, match="is not approved"):
        loose.publish(run_of(shop.ws, "plain"))
    with pytest.raises(NotApproved, match="is not approved"):
        operations.require_ready(loose.ws, run_of(shop.ws, "plain"))


def test_a_policy_that_was_tightened_since_counts(shop: Shop) -> None:
    with pytest.raises(NotApproved, match="is not approved"):
        shop.publish(run_of(shop.ws, "auto"))


@pytest.mark.long
def test_the_next_step_is_what_publication_would_ask_for(shop: Shop) -> None:
    run_id = run_of(shop.ws, "auto")
    loose = declared(shop, AUTO)
    assert next_step(loose, run_id) == APPROVE.format(run=run_id), "what was last published asked for a person"
    operations.approve(loose.ws, run_id, by="ben")
    loose.publish(run_id)
    days = DayRange.inclusive(date(2026, 1, 7), date(2026, 1, 7))
    agreed = loose.staged(loose.planned(days))
    assert next_step(loose, agreed) == PUBLISH.format(run=agreed), "the policy agrees"
    assert next_step(shop, agreed) == APPROVE.format(run=agreed), "the policy that was tightened since does not"


def test_a_malformed_file_of_approvers_leaves_every_document_readable(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    says(shop, finance="ben")
    operations.approve(shop.ws, run_id, by="ben")
    writes(shop, "groups: [")
    assert next_step(shop, run_id) == FURTHER.format(run=run_id)


def test_reading_a_status_archives_nothing(shop: Shop) -> None:
    run_id = run_of(shop.ws, "finance")
    says(shop, finance="ben")
    operations.approve(shop.ws, run_id, by="ben")
    before = sorted(folder_at(shop.ws.settings.reference_archive).rglob("*"))
    says(shop, "2", finance="ben, cara")
    assert next_step(shop, run_id) == PUBLISH.format(run=run_id)
    assert sorted(folder_at(shop.ws.settings.reference_archive).rglob("*")) == before


@pytest.mark.long
def test_a_domain_without_approvals_is_not_enough_where_rows_were_approved(shop: Shop) -> None:
    loose, run_id = declared(shop, AUTO), run_of(shop.ws, "auto")
    with pytest.raises(NotApproved, match="is not approved"):
        loose.publish(run_id)
    # An approval of that run approves what it pins: from then on no approval is needed.
    operations.approve(loose.ws, run_id, by="ben")
    loose.publish(run_id)
    days = DayRange.inclusive(date(2026, 1, 7), date(2026, 1, 7))
    run_id = loose.staged(loose.planned(days))
    loose.publish(run_id)
    assert operations.run_named(shop.ws, run_id).approved_by == "policy:backfill"
    operations.rollback(loose.ws, run_id, by="ben", reason="second thoughts")
    with pytest.raises(NotApproved, match="is not approved"):
        loose.publish(run_id)


@pytest.mark.parametrize(
    "text", ["", "version: 1\n", "groups: [", 'version: "1"\ngroups: {finance: ben}\n', "a: &b 1\nc: *b\n", "\x00"]
)
def test_a_malformed_file_of_approvers_is_one_sentence(shop: Shop, text: str) -> None:
    path = writes(shop, text)
    with pytest.raises(InvalidReference) as refusal:
        operations.approve(shop.ws, run_of(shop.ws, "finance"), by="ben")
    assert str(path) in refusal.value.message
    assert "\n" not in refusal.value.message


def test_a_pipe_as_the_file_of_approvers_is_one_sentence_and_keeps_nobody_waiting(shop: Shop) -> None:
    path = says(shop, finance="ben")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidReference, match="is not a regular file"):
        operations.approve(shop.ws, run_of(shop.ws, "finance"), by="ben")


def test_the_file_of_approvers_is_read_before_the_transaction_that_asks_who_is_in_a_group(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(shop, finance="ben")
    run_id, read = run_of(shop.ws, "finance"), load_reference
    other = Ledger.open(shop.ws.settings.ledger_url, clock=shop.ws.clock)

    def beside_a_writer(reference: Reference, files: Files) -> LoadedReference:
        with other.write():
            return read(reference, files)

    monkeypatch.setattr(authority, "load_reference", beside_a_writer)
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    other.close()


@pytest.mark.parametrize("is_gone", [True, False])
def test_an_archived_list_of_approvers_that_was_edited_or_removed_is_found(shop: Shop, is_gone: bool) -> None:
    says(shop, finance="ben")
    operations.approve(shop.ws, run_of(shop.ws, "finance"), by="ben")
    assert audit(shop.ws).problems == ()
    (archived,) = folder_at(shop.ws.settings.reference_archive).rglob("*approvers*")
    files = [path for path in (archived, *archived.rglob("*")) if path.is_file()]
    for path in files:
        path.chmod(0o644)
        path.unlink() if is_gone else path.write_text(path.read_text().replace("ben", "eve"))
    (problem,) = audit(shop.ws).problems
    assert "reference approvers 1" in problem
    assert ("is gone" if is_gone else "were changed") in problem
