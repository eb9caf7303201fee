from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused, TargetChanged, UnknownName
from backfill_assets.core.identity import fields_of
from backfill_assets.ledger.records import CandidatePartition, PublicationIntent
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, VersionState
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    carry_out,
    files_of,
    made_from,
    make_publishable,
    publication_of,
    publish,
    results_for,
    roll_back,
    rollback_of,
    staged,
    states_of_versions,
    tamper,
)


def test_the_first_publication_of_a_table_accepts_version_one(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publication_id = publish(ledger, "bf-1", at=7)
    with ledger.read() as reader:
        accepted = reader.versions.accepted(TABLE)
        assert list(accepted) == list(DAYS)
        first = accepted[DAYS[0]]
        assert (first.version, first.replaces, first.state) == (1, 0, VersionState.ACCEPTED)
        assert (first.run_id, first.publication_id, first.delta_version) == ("bf-1", publication_id, 7)
        assert (first.files, first.rows, first.accepted_at) == (files_of("bf-1", DAYS[0]), 3, NOON)
        assert (first.checksum, first.provenance) == (f"c2:bf-1-{DAYS[0]}", made_from("bf-1"))
        assert reader.runs.get("bf-1").state is RunState.PUBLISHED
        assert reader.publications.get(publication_id).state is PublicationState.PUBLISHED
        [entry] = reader.outbox.entries()
        assert (entry.sequence, entry.publication_id, entry.partitions) == (1, publication_id, DAYS)
        assert reader.events.violations() == ()


def test_an_open_publication_comes_back_with_everything_it_intends(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.read() as reader:
        intent = publication_of(reader, "bf-1")
    with ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")
    with ledger.read() as reader:
        [found] = reader.publications.records(states=[PublicationState.PUBLISHING])
        assert fields_of(intent).items() <= fields_of(found).items()
        assert found == reader.publications.get(intent.publication_id)
        assert (found.started_at, found.finished_at, found.delta_version) == (NOON, None, None)
        assert reader.runs.get("bf-1").state is RunState.PUBLISHING
        assert reader.versions.accepted(TABLE) == {}
        assert reader.outbox.entries() == ()
        assert reader.publications.records(run_id="bf-2") == ()


def test_a_later_publication_supersedes_versions_and_at_last_the_run(ledger: Ledger) -> None:
    for run_id in ("bf-1", "bf-2", "bf-3"):
        make_publishable(ledger, run_id)
    first = publish(ledger, "bf-1", at=1)
    second = publish(ledger, "bf-2", days=DAYS[:1], at=2)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.PUBLISHED, "two of its days are still what readers see"
        assert states_of_versions(reader, DAYS[0]) == {2: "ACCEPTED", 1: "SUPERSEDED"}
        assert reader.versions.accepted(TABLE)[DAYS[0]].replaces == 1
        assert reader.versions.accepted(TABLE, DAYS[1:])[DAYS[1]].version == 1
        assert [reader.versions.replaced_by(run_id) for run_id in ("bf-1", "bf-2", "bf-3")] == ["bf-2", None, None]
    publish(ledger, "bf-3", days=DAYS[1:], at=3)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.SUPERSEDED
        assert [version.delta_version for version in reader.versions.history(TABLE)] == [3, 3, 2, 1, 1, 1]
        assert [version.version for version in reader.versions.history(TABLE, DAYS[2])] == [2, 1]
        made = [reader.versions.of_publication(each) for each in (first, second, "pub-none")]
        assert [[(v.partition, v.version) for v in each] for each in made] == [
            [(day, 1) for day in DAYS],
            [(DAYS[0], 2)],
            [],
        ]
        assert reader.events.violations() == ()


def test_a_rollback_brings_back_what_was_before_and_takes_the_approval(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    make_publishable(ledger, "bf-2")
    publish(ledger, "bf-1", at=1)
    second = publish(ledger, "bf-2", at=2)
    with ledger.read() as reader:
        assert reader.runs.get("bf-1").state is RunState.SUPERSEDED
    undoing = roll_back(ledger, second, at=3)
    with ledger.read() as reader:
        assert {day: version.files for day, version in reader.versions.accepted(TABLE).items()} == {
            day: files_of("bf-1", day) for day in DAYS
        }
        assert states_of_versions(reader, DAYS[0]) == {2: "ROLLED_BACK", 1: "ACCEPTED"}
        assert (reader.runs.get("bf-1").state, reader.runs.get("bf-1").approval) == (
            RunState.PUBLISHED,
            ApprovalState.APPROVED,
        )
        assert (reader.runs.get("bf-2").state, reader.runs.get("bf-2").approval) == (
            RunState.ROLLED_BACK,
            ApprovalState.DRAFT,
        )
        assert reader.publications.get(second).state is PublicationState.ROLLED_BACK
        assert reader.publications.get(undoing).state is PublicationState.PUBLISHED
        assert reader.publications.get(undoing).undoes == second
        assert [entry.sequence for entry in reader.outbox.entries()] == [1, 2, 3]
        assert reader.events.violations() == ()


def test_a_rollback_of_the_first_publication_leaves_nothing_accepted(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    roll_back(ledger, publish(ledger, "bf-1"))
    with ledger.read() as reader:
        assert reader.versions.accepted(TABLE) == {}
        assert states_of_versions(reader, DAYS[0]) == {1: "ROLLED_BACK"}


def test_what_was_rolled_back_is_published_again_after_a_new_approval(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    roll_back(ledger, publish(ledger, "bf-1"))
    with pytest.raises(NotApproved), ledger.read() as reader:
        carry_out(ledger, publication_of(reader, "bf-1"))
    with ledger.write() as writer:
        writer.requests.approve("bf-1", by="Bob")
    publish(ledger, "bf-1", at=4)
    with ledger.read() as reader:
        assert states_of_versions(reader, DAYS[0]) == {2: "ACCEPTED", 1: "ROLLED_BACK"}
        assert reader.versions.accepted(TABLE)[DAYS[0]].replaces == 0


def test_a_publication_is_rolled_back_once(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    published = publish(ledger, "bf-1")
    with ledger.read() as reader:
        again = rollback_of(reader, published)
    roll_back(ledger, published)
    with pytest.raises(IllegalTransition, match="ROLLED_BACK"), ledger.write() as writer:
        writer.publications.begin(again, actor="Bob")


def test_an_earlier_publication_is_not_rolled_back_under_a_later_one(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    make_publishable(ledger, "bf-2")
    first = publish(ledger, "bf-1")
    publish(ledger, "bf-2", days=DAYS[:1])
    with ledger.read() as reader:
        intent = rollback_of(reader, first)
    with pytest.raises(TargetChanged, match="expected version 1 of 2024-10-01, found 2"), ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")


def test_a_rollback_restores_what_the_undone_version_replaced_and_nothing_else(ledger: Ledger) -> None:
    for run_id in ("bf-1", "bf-2", "bf-3"):
        make_publishable(ledger, run_id)
    publish(ledger, "bf-1")
    publish(ledger, "bf-2")
    third = publish(ledger, "bf-3")
    with ledger.read() as reader:
        intent = rollback_of(reader, third)
    older = replace(intent, changes=tuple(replace(change, restores=1) for change in intent.changes))
    with pytest.raises(TargetChanged), ledger.write() as writer:
        writer.publications.begin(older, actor="Bob")
    with pytest.raises(Refused, match="all 3 partitions"), ledger.write() as writer:
        writer.publications.begin(replace(intent, changes=intent.changes[:1]), actor="Bob")


def test_a_table_has_one_open_publication_and_the_refusal_names_it(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    make_publishable(ledger, "bf-2")
    make_publishable(ledger, "bf-3", table="gold.other")
    with ledger.read() as reader:
        first, second = publication_of(reader, "bf-1"), publication_of(reader, "bf-2")
        elsewhere = publication_of(reader, "bf-3", table="gold.other")
    with ledger.write() as writer:
        writer.publications.begin(first, actor="Bob")
        writer.publications.begin(elsewhere, actor="Bob")
    with refused(IllegalTransition, match=f"{first.publication_id}.*backfill recover"), ledger.write() as writer:
        writer.publications.begin(second, actor="Bob")


def test_the_database_itself_refuses_a_second_open_publication_and_a_second_accepted_version(
    ledger: Ledger, ledger_url: str
) -> None:
    for run_id in ("bf-1", "bf-2"):
        make_publishable(ledger, run_id)
    publish(ledger, "bf-1")
    publish(ledger, "bf-2")
    with pytest.raises(IntegrityError):
        tamper(ledger_url, "UPDATE partition_versions SET state = 'ACCEPTED'")
    tamper(ledger_url, "UPDATE publications SET state = 'PUBLISHING' WHERE run_id = 'bf-1'")
    with pytest.raises(IntegrityError):
        tamper(ledger_url, "UPDATE publications SET state = 'PUBLISHING'")


def test_an_abandoned_publication_changes_nothing(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.read() as reader:
        intent = publication_of(reader, "bf-1")
    with ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")
    with ledger.write() as writer:
        writer.publications.abandon(intent.publication_id, actor="recover", reason="the swap never landed")
    with ledger.read() as reader:
        assert (reader.runs.get("bf-1").state, reader.runs.get("bf-1").approval) == (
            RunState.PASSED,
            ApprovalState.APPROVED,
        )
        found = reader.publications.get(intent.publication_id)
        assert (found.state, found.note, found.finished_at) == (
            PublicationState.ABANDONED,
            "the swap never landed",
            NOON,
        )
        assert (reader.versions.accepted(TABLE), reader.outbox.entries()) == ({}, ())
        assert reader.events.violations() == ()
    with pytest.raises(IllegalTransition, match="ABANDONED"), ledger.write() as writer:
        writer.publications.abandon(intent.publication_id, actor="recover", reason="again")
    with pytest.raises(IllegalTransition, match="ABANDONED"), ledger.write() as writer:
        writer.publications.finish(intent.publication_id, delta_version=1, actor="recover")
    publish(ledger, "bf-1")


def test_an_abandoned_rollback_leaves_the_run_published(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    published = publish(ledger, "bf-1")
    with ledger.read() as reader:
        intent = rollback_of(reader, published)
    with ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")
        assert writer.runs.get("bf-1").state is RunState.PUBLISHED
    with ledger.write() as writer:
        writer.publications.abandon(intent.publication_id, actor="recover", reason="never landed")
        assert writer.runs.get("bf-1").state is RunState.PUBLISHED
    roll_back(ledger, published)


def test_finishing_twice_is_finishing_once(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    published = publish(ledger, "bf-1", at=5)
    with ledger.read() as reader:
        before = list(reader.events.entries()), reader.versions.history(TABLE), reader.outbox.entries()
    with ledger.write() as writer:
        assert writer.publications.finish(published, delta_version=5, actor="recover").delta_version == 5
    with ledger.read() as reader:
        assert (list(reader.events.entries()), reader.versions.history(TABLE), reader.outbox.entries()) == before


Spoil = Callable[[PublicationIntent], PublicationIntent]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda intent: replace(intent, table="gold.other"), Refused),
        (lambda intent: replace(intent, changes=intent.changes * 2), Refused),
        (
            lambda intent: replace(
                intent, changes=(*intent.changes, replace(intent.changes[0], partition=date(1999, 1, 1)))
            ),
            Refused,
        ),
        (
            lambda intent: replace(
                intent, changes=tuple(replace(change, expected_version=1) for change in intent.changes)
            ),
            TargetChanged,
        ),
        (lambda intent: replace(intent, reason=" "), Refused),
        (lambda intent: replace(intent, run_id="bf-9"), UnknownName),
    ],
    ids=["another table", "a partition twice", "an undeclared day", "another version", "no reason", "no such run"],
)
def test_a_publication_that_is_not_what_was_agreed_is_refused(
    ledger: Ledger, spoil: Spoil, error: type[Exception]
) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.read() as reader:
        intent = publication_of(reader, "bf-1")
    with pytest.raises(error), ledger.write() as writer:
        writer.publications.begin(spoil(intent), actor="Bob")
    with ledger.read() as reader:
        assert reader.publications.records() == ()
        assert reader.runs.get("bf-1").state is RunState.PASSED


def test_a_run_without_approval_is_not_published(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    with ledger.write() as writer:
        writer.requests.withdraw_approval("bf-1", by="Bob", reason="not yet")
    with ledger.read() as reader:
        intent = publication_of(reader, "bf-1")
    with refused(NotApproved, match="backfill approve bf-1"), ledger.write() as writer:
        writer.publications.begin(intent, actor="Bob")


def test_a_publication_without_changes_is_published_and_not_superseded_by_the_next(ledger: Ledger) -> None:
    for run_id in ("bf-1", "bf-2", "bf-3"):
        make_publishable(ledger, run_id)
    publish(ledger, "bf-1")
    publish(ledger, "bf-2", days=())
    publish(ledger, "bf-3")
    with ledger.read() as reader:
        states = {run.run_id: run.state for run in reader.runs.records()}
        assert states == {
            "bf-1": RunState.SUPERSEDED,
            "bf-2": RunState.PUBLISHED,
            "bf-3": RunState.PUBLISHED,
        }


def test_pinned_versions_are_exact_whatever_was_accepted_since(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    make_publishable(ledger, "bf-2")
    publish(ledger, "bf-1")
    publish(ledger, "bf-2")
    with ledger.read() as reader:
        found = reader.versions.pinned(TABLE, [(DAYS[1], 2), (DAYS[0], 1)])
        assert [(day, version.run_id) for day, version in found.items()] == [(DAYS[0], "bf-1"), (DAYS[1], "bf-2")]
        assert reader.versions.pinned(TABLE, []) == {}
        with pytest.raises(UnknownName, match="version 3 of 2024-10-01"):
            reader.versions.pinned(TABLE, [(DAYS[0], 3)])


def test_the_outbox_is_read_from_a_cursor_and_delivered_once(ledger: Ledger) -> None:
    for run_id in ("bf-1", "bf-2"):
        make_publishable(ledger, run_id)
    first, _ = (publish(ledger, run_id) for run_id in ("bf-1", "bf-2"))
    with ledger.write() as writer:
        writer.outbox.mark_delivered(first, actor="sensor")
        writer.outbox.mark_delivered(first, actor="sensor")
    with ledger.read() as reader:
        assert [entry.sequence for entry in reader.outbox.entries(after=1)] == [2]
        assert [entry.sequence for entry in reader.outbox.entries(open_only=True)] == [2]
        assert reader.outbox.entries()[0].delivered_at == NOON
        assert [event.action for event in reader.events.entries()].count("delivered") == 1
    with pytest.raises(UnknownName), ledger.write() as writer:
        writer.outbox.mark_delivered("pub-none", actor="sensor")


@pytest.mark.long
def test_five_thousand_partitions_are_staged_gated_published_and_rolled_back(ledger: Ledger) -> None:
    days = tuple(date(2000, 1, 1) + timedelta(days=number) for number in range(5_000))
    make_publishable(ledger, "bf-1", days=days)
    make_publishable(ledger, "bf-2", days=days)
    with ledger.write() as writer:
        writer.runs.take("bf-2", RunState.GATING, actor="runner", attempt="g1")
        gates = ("a", "b", "c", "d", "e")
        writer.candidates.record_gates(
            "bf-2", staged("bf-2", days), results_for("bf-2", days, gates), actor="runner", attempt="g1"
        )
        writer.runs.move("bf-2", RunState.PASSED, actor="runner", attempt="g1")
    publish(ledger, "bf-1", days=days)
    second = publish(ledger, "bf-2", days=days)
    with ledger.read() as reader:
        accepted = reader.versions.accepted(TABLE, days)
        assert list(accepted) == list(days)
        assert {version.version for version in accepted.values()} == {2}
        assert len(reader.candidates.of_run("bf-2")) == 5_000
        assert len(reader.candidates.gate_results("bf-2")) == 25_000
        assert len(reader.versions.pinned(TABLE, [(day, 1) for day in days])) == 5_000
        assert len(reader.versions.history(TABLE)) == 10_000
    roll_back(ledger, second)
    with ledger.read() as reader:
        assert {version.version for version in reader.versions.accepted(TABLE).values()} == {1}
        assert [entry.partitions for entry in reader.outbox.entries()] == [days] * 3
        one = CandidatePartition(run_id="bf-1", partition=days[9], files=files_of("bf-1", days[9]), rows=3)
        assert reader.candidates.of_run("bf-1")[days[9]].files == one.files
