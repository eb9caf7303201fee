"""What a manifest pins is found again whatever has become of it, or it is said what is missing."""

from __future__ import annotations

import pytest

from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.core.errors import MissingInput
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE, files_of, make_publishable, plan, publish, stage


def pins(*partitions: PinnedPartition) -> list[PinnedInput]:
    return [PinnedInput(argument="rows", table=TABLE, partitions=partitions)]


def test_accepted_versions_and_candidates_of_the_same_set_are_found_together(ledger: Ledger) -> None:
    make_publishable(ledger, "old")
    publish(ledger, "old")
    make_publishable(ledger, "new")
    publish(ledger, "new", at=2)
    plan(ledger, "member")
    stage(ledger, "member")
    wanted = pins(
        PinnedPartition(partition=DAYS[0], version=1, digest=files_of("old", DAYS[0]).digest),
        PinnedPartition(partition=DAYS[1], version=0, digest="", from_run="member"),
        PinnedPartition(partition=DAYS[2], version=2, digest=files_of("new", DAYS[2]).digest),
    )
    with ledger.read() as reader:
        found = pinned_files(reader, "run", wanted)
    runs = ("old", "member", "new")
    assert found == {"rows": {day: files_of(run, day) for run, day in zip(runs, DAYS, strict=True)}}


def test_a_member_that_has_not_been_staged_is_named_with_the_command_for_it(ledger: Ledger) -> None:
    plan(ledger, "member")
    with ledger.read() as reader, pytest.raises(MissingInput, match="what run member stages") as refusal:
        pinned_files(reader, "run", pins(PinnedPartition(partition=DAYS[0], version=0, digest="", from_run="member")))
    assert advised(refusal.value) == "backfill run member"


def test_a_version_that_is_not_what_was_pinned_is_refused(ledger: Ledger) -> None:
    make_publishable(ledger, "old")
    publish(ledger, "old")
    with ledger.read() as reader, pytest.raises(MissingInput, match="does not hold as it was"):
        pinned_files(reader, "run", pins(PinnedPartition(partition=DAYS[0], version=1, digest="d" * 64)))


def test_a_version_that_retention_removed_is_refused_with_the_instant(ledger: Ledger) -> None:
    make_publishable(ledger, "old")
    publish(ledger, "old")
    plan(ledger, "run")
    with ledger.write() as writer:
        assert writer.versions.mark_removed([(TABLE, DAYS[0], 1)]) == 1
        writer.events.record(actor="ann", entity="retention", entity_id=TABLE, action="vacuumed")
    with ledger.read() as reader:
        assert [version.removed_at is not None for version in reader.versions.history(TABLE, DAYS[0])] == [True]
        assert [version.removed_at for version in reader.versions.history(TABLE, DAYS[1])] == [None]
        pin = PinnedPartition(partition=DAYS[0], version=1, digest=files_of("old", DAYS[0]).digest)
        with pytest.raises(MissingInput, match="retention removed at 2026-01-15T12:00:00"):
            pinned_files(reader, "run", pins(pin))


def test_the_ledger_tells_retention_what_holds_files(ledger: Ledger) -> None:
    make_publishable(ledger, "old")
    publish(ledger, "old")
    plan(ledger, "member")
    with ledger.read() as reader:
        runs = {run.run_id: str(run.state) for run in reader.runs.headers()}
        assert reader.publications.landed_at() == {"old": NOON}
        staged = reader.candidates.files(runs)
        assert {version.files for version in reader.versions.every()} == {files_of("old", day) for day in DAYS}
        assert [set(states.values()) for states in reader.publications.states().values()] == [{"PUBLISHED"}]
        assert (set(reader.versions.tables()), reader.runs.states(["old", "nobody"])) == ({TABLE}, {"old": "PUBLISHED"})
    assert runs == {"old": "PUBLISHED", "member": "PLANNED"}
    assert staged == {"old": {day: files_of("old", day) for day in DAYS}}
