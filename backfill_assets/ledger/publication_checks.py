"""Publication checks: whether the ledger allows a swap to be tried."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from sqlalchemy import Connection, or_, select

from backfill_assets.errors import (
    IllegalTransition,
    InputsMovedOn,
    MissingInput,
    NotApproved,
    Refused,
    TargetChanged,
)
from backfill_assets.identity import EMPTY_FILE_SET
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.read_outbox import OutboxReads
from backfill_assets.ledger.read_publications import PublicationReads
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.recorded_text import first_few
from backfill_assets.ledger.records import Action, PartitionChange, PublicationIntent, RunRecord
from backfill_assets.ledger.run_steps import usual_step
from backfill_assets.ledger.schema import (
    import_days,
    imports,
    partition_versions,
    publications,
    restatement_sets,
    set_members,
)
from backfill_assets.ledger.states import (
    MEANING,
    ApprovalState,
    ImportState,
    PublicationState,
    RunState,
    SetState,
    VersionState,
    may_follow,
)
from backfill_assets.ledger.steps import illegal
from backfill_assets.next_steps import ANOTHER_PERSON, NAME, WAIT_OR_RECOVER, Act, Advice, do, step, undo
from backfill_assets.planning.filling import joined, loads, plan_again
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED

LANDED_STATES = (ImportState.LANDED, ImportState.LOADED)

Versions = Mapping[tuple[date, int], tuple[VersionState, int]]
"""State and replaced version, by partition and version."""


class PublicationChecks(Queries):
    """Refuses a swap before anything was tried."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._runs, self._outbox = RunReads(connection), OutboxReads(connection)
        self._publications = PublicationReads(connection)

    def require_possible(self, intent: PublicationIntent) -> None:
        """Refuses what cannot be published or brought back now, and writes nothing down.

        Cost: the manifest is parsed, or the publication to be undone is read; a few index lookups, and one row per
        version that is named. For a source table also one row per landed file of each partition.

        Raises:
            UnknownName: There is no such run, or no publication to undo.
            IllegalTransition: Another publication of the table is open, or run or undone publication are elsewhere.
            NotApproved: The run to be published has no valid approval.
            TargetChanged: The accepted versions are not those that the intent expects.
            MissingInput: Retention removed what would become visible.
            Refused: It would change what the manifest does not declare.
        """
        self._must_be_free(intent)
        match intent.action:
            case Action.PUBLISH:
                self._may_publish(intent)
            case Action.ROLLBACK:
                self._may_roll_back(intent)
        self._must_expect_what_is_accepted(intent)
        self._must_be_there(intent)

    def _must_be_free(self, intent: PublicationIntent) -> None:
        held = publications
        if self._row(select(held.c.run_id).where(held.c.publication_id == intent.publication_id)):
            raise Refused(
                f"there is a publication {intent.publication_id} already; every attempt has an id of its own.",
                next_step=do(Act.RECOVER),
                publication_id=intent.publication_id,
            )
        open_one = self._row(
            select(held.c.publication_id, held.c.run_id, held.c.action).where(
                held.c.table_name == intent.table, held.c.state == PublicationState.PUBLISHING
            )
        )
        if open_one is not None:
            raise IllegalTransition(
                f"{intent.table} is being changed by publication {open_one.publication_id} "
                f"({open_one.action} of run {open_one.run_id}), and a table has one open publication at a time.",
                next_step=WAIT_OR_RECOVER,
                table=intent.table,
                publication_id=open_one.publication_id,
                run_id=open_one.run_id,
            )

    def _may_publish(self, intent: PublicationIntent) -> None:
        found = self._runs.get(intent.run_id)
        if found.manifest.mode in NEVER_PUBLISHED:
            raise IllegalTransition(
                f"run {found.run_id} has mode {found.manifest.mode} and is never published.",
                next_step=do(Act.REPORT, found.run_id),
                run_id=found.run_id,
            )
        self._must_be_its_sets_turn(intent, SetState.PUBLISHING)
        self._must_follow_its_set(found)
        self._outbox.require_still_asked(found)
        if not may_follow(found.state, RunState.PUBLISHING):
            raise illegal(
                f"run {found.run_id}",
                found.state,
                RunState.PUBLISHING,
                next_step=usual_step(found.run_id, found.state),
                ids={"run_id": found.run_id},
            )
        if found.approval is not ApprovalState.APPROVED:
            raise NotApproved(
                f"no other person than the requester has approved the manifest of run {found.run_id}.",
                next_step=do(Act.APPROVE, found.run_id, by=ANOTHER_PERSON),
                run_id=found.run_id,
            )
        _must_be_declared(intent, found.manifest.table, found.manifest.partitions)
        self._must_have_read_what_landed(found)

    def _must_have_read_what_landed(self, found: RunRecord) -> None:
        """A source's day that a run built without landed events stays unpublished once events of it have landed."""
        manifest = found.manifest
        if manifest.inputs:
            return
        of_day = select(import_days.c.event_date, import_days.c.import_id).join_from(import_days, imports)
        of_day = of_day.where(imports.c.source == manifest.table, imports.c.state.in_(LANDED_STATES))
        read: set[date] = set()
        landed: set[date] = set()
        for batch in batches(manifest.partitions):
            for row in self._rows(of_day.where(import_days.c.event_date.in_(batch), import_days.c.events > 0)):
                (read if row.import_id in manifest.imports else landed).add(row.event_date)
        if unread := sorted(landed - read):
            raise InputsMovedOn(
                f"run {found.run_id} built {first_few(unread)} of {manifest.table} without events, and events of then "
                f"have landed since.",
                next_step=joined(loads(manifest.table, unread)),
                run_id=found.run_id,
                table=manifest.table,
            )

    def _must_be_its_sets_turn(self, intent: PublicationIntent, turn: SetState) -> None:
        """The runs of a set are published and brought back together, by the process that moved the set last."""
        chosen = select(restatement_sets.c.set_id, restatement_sets.c.state)
        of_run = chosen.join_from(restatement_sets, set_members, set_members.c.set_id == restatement_sets.c.set_id)
        row = self._row(of_run.where(set_members.c.run_id == intent.run_id))
        if row is not None and row.state is not turn:
            raise IllegalTransition(
                f"run {intent.run_id} belongs to set {row.set_id}, which is {row.state} ({MEANING[row.state]}); the "
                f"runs of a set are published and brought back together.",
                next_step=undo(row.set_id)
                if intent.action is Action.ROLLBACK
                else do(Act.PUBLISH, row.set_id, by=NAME),
                run_id=intent.run_id,
                set_id=row.set_id,
            )

    def _must_follow_its_set(self, found: RunRecord) -> None:
        """What was computed from other candidates of a set is published after them, or readers see it without them."""
        upstream = {pin.from_run for pinned in found.manifest.inputs for pin in pinned.partitions if pin.from_run}
        waiting = sorted(run_id for run_id in upstream if self._runs.state(run_id) is not RunState.PUBLISHED)
        if waiting:
            raise IllegalTransition(
                f"run {found.run_id} was computed from what {first_few(waiting)} staged, and that is not published.",
                next_step=step("publish the whole set: ", do(Act.PUBLISH, str(found.manifest.member_of), by=NAME)),
                run_id=found.run_id,
                set_id=found.manifest.member_of,
            )

    def _may_roll_back(self, intent: PublicationIntent) -> None:
        self._must_be_its_sets_turn(intent, SetState.ROLLING_BACK)
        state = self._runs.state(intent.run_id)
        if state is not RunState.PUBLISHED:
            raise illegal(
                f"run {intent.run_id}",
                state,
                RunState.ROLLED_BACK,
                next_step=usual_step(intent.run_id, state),
                ids={"run_id": intent.run_id},
            )
        undone = self._publications.header(intent.undoes or "")
        is_its_publication = undone.run_id == intent.run_id and undone.action is Action.PUBLISH
        if undone.state is not PublicationState.PUBLISHED or not is_its_publication:
            raise IllegalTransition(
                f"publication {undone.publication_id} ({undone.action} of run {undone.run_id}) is "
                f"{undone.state}; only a standing publication of run {intent.run_id} can be undone.",
                next_step=do(Act.STATUS, intent.run_id),
                publication_id=undone.publication_id,
                run_id=intent.run_id,
            )
        changed = self._publications.changed_partitions(undone.publication_id)
        _must_be_declared(intent, undone.table, changed)
        if len(intent.changes) != len(changed):
            raise Refused(
                f"a rollback undoes all {len(changed)} partitions of a publication, "
                f"and this one names {len(intent.changes)}.",
                publication_id=undone.publication_id,
            )

    def _must_expect_what_is_accepted(self, intent: PublicationIntent) -> None:
        versions = self._states_of_versions(intent)
        accepted = {day: version for (day, version), (state, _) in versions.items() if state is VersionState.ACCEPTED}
        expected = _expected_versions(intent)
        other = {day for day, version in expected.items() if accepted.get(day, 0) != version}
        if intent.action is Action.ROLLBACK:
            other.update(c.partition for c in intent.changes if not _can_be_restored(c, versions))
        if other:
            first = min(other)
            raise TargetChanged(
                f"{intent.table} is not what was expected, for {first_few(sorted(other))}: expected version "
                f"{expected[first]} of {first}, found {accepted.get(first, 0)}.",
                next_step=_after_a_change(intent),
                run_id=intent.run_id,
                table=intent.table,
                partitions=tuple(sorted(other)),
            )

    def _states_of_versions(self, intent: PublicationIntent) -> Versions:
        """The accepted versions of the partitions, and those that the intent names: not all that there ever were."""
        named = {version for change in intent.changes for version in (change.expected_version, change.restores or 0)}
        held = partition_versions
        columns = (held.c.partition_date, held.c.version, held.c.state, held.c.replaces)
        found: dict[tuple[date, int], tuple[VersionState, int]] = {}
        for batch in batches(_expected_versions(intent)):
            chosen = select(*columns).where(
                held.c.table_name == intent.table,
                held.c.partition_date.in_(batch),
                or_(held.c.state == VersionState.ACCEPTED, held.c.version.in_(named)),
            )
            found.update(((row.partition_date, row.version), (row.state, row.replaces)) for row in self._rows(chosen))
        return found

    def _must_be_there(self, intent: PublicationIntent) -> None:
        """Refuses to make readers see what retention removed."""
        held = partition_versions
        restored = {change.partition: change.restores for change in intent.changes}
        new = {change.partition: change.new.digest for change in intent.changes}
        for batch in batches(new):
            chosen = select(held.c.partition_date, held.c.version, held.c.files_digest, held.c.removed_at).where(
                held.c.table_name == intent.table, held.c.removed_at.is_not(None), held.c.partition_date.in_(batch)
            )
            removed = [
                row
                for row in self._rows(chosen)
                if row.files_digest == new[row.partition_date] != EMPTY_FILE_SET.digest
                and (intent.action is Action.PUBLISH or row.version == restored[row.partition_date])
            ]
            if not removed:
                continue
            days = first_few(sorted(row.partition_date for row in removed))
            at = max(row.removed_at for row in removed).isoformat(timespec="seconds")
            if intent.action is Action.PUBLISH:
                raise MissingInput(
                    f"the staged files of run {intent.run_id} were removed by retention at {at}, for {days}.",
                    next_step=step("stage it again: ", do(Act.RUN, intent.run_id)),
                    run_id=intent.run_id,
                    table=intent.table,
                )
            raise MissingInput(
                f"run {intent.run_id} cannot be rolled back: what it replaced in {intent.table} was removed by "
                f"retention at {at}, for {days}.",
                next_step=step("restate the days instead: ", plan_again(self._runs.get(intent.run_id).manifest)),
                run_id=intent.run_id,
                table=intent.table,
            )


def _expected_versions(intent: PublicationIntent) -> dict[date, int]:
    """The version that must be accepted, by partition, of everything that the publication changes or found equal."""
    verified = {found.partition: found.version for found in intent.verified}
    return verified | {change.partition: change.expected_version for change in intent.changes}


def _can_be_restored(change: PartitionChange, versions: Versions) -> bool:
    """Whether a rollback brings back exactly the version that the undone one had replaced."""
    _, replaced = versions.get((change.partition, change.expected_version), (None, None))
    if change.restores is None or change.restores != replaced:
        return False
    return change.restores == 0 or versions[change.partition, change.restores][0] is VersionState.SUPERSEDED


def _must_be_declared(intent: PublicationIntent, table: str, declared: tuple[date, ...] | list[date]) -> None:
    changed = intent.partitions
    undeclared = sorted(set(changed) - set(declared))
    if intent.table != table or undeclared:
        raise Refused(
            f"run {intent.run_id} is about {table}, and may not change {intent.table}"
            f"{f' for {first_few(undeclared)}' if undeclared else ''}.",
            run_id=intent.run_id,
            table=intent.table,
        )
    if len(changed) != len(set(changed)):
        raise Refused("a publication changes a partition once, and this one names some twice.", run_id=intent.run_id)


def _after_a_change(intent: PublicationIntent) -> Advice:
    match intent.action:
        case Action.PUBLISH:
            return step(do(Act.RUN, intent.run_id), ", which compares it with what is published now")
        case Action.ROLLBACK:
            return step(do(Act.HISTORY, intent.table), "; roll back the later publication first")
