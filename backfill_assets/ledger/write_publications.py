"""Writes to publications: whether a swap may be tried, its intent, its acknowledgement, and its abandonment.

Everything about a publication's partitions is done by a few statements over whole sets, inside the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, get_args

from sqlalchemy import insert, or_, select

from backfill_assets.core.errors import MissingInput, Refused, TargetChanged
from backfill_assets.core.identity import EMPTY_FILE_SET, LogEvidence, plain
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.people import POLICY
from backfill_assets.ledger import errors, queries
from backfill_assets.ledger.agreements import AgreementReads
from backfill_assets.ledger.approvals import ApprovalSteps
from backfill_assets.ledger.bases import BasisReads
from backfill_assets.ledger.candidates import CandidateReads
from backfill_assets.ledger.events import Event, EventLog, Step, Writes
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.outbox import OutboxSteps
from backfill_assets.ledger.publication_checks import PublicationChecks
from backfill_assets.ledger.publications import ENDED, ORDERED, OUTCOME_UNKNOWN, ROLLBACK, SET_TO_LEDGER
from backfill_assets.ledger.recorded_text import first_few, one_line, required_text
from backfill_assets.ledger.records import (
    Action,
    ApprovalGrounds,
    PartitionChange,
    PartitionVersion,
    PublicationIntent,
    PublicationRecord,
    RollbackOrder,
    RunHeader,
    RunRecord,
)
from backfill_assets.ledger.runs import RunReads, RunSteps
from backfill_assets.ledger.schema import partition_versions, publication_changes, publications, verifications
from backfill_assets.ledger.sets import settle_phases
from backfill_assets.ledger.states import (
    STANDING,
    ApprovalState,
    PublicationState,
    RunState,
    SetState,
    VersionState,
    may_follow,
)
from backfill_assets.ledger.versions import VersionSteps
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, RunPurpose
from backfill_assets.planning.next_steps import plan_again
from backfill_assets.planning.safeguards import Cause

Versions = Mapping[tuple[date, int], tuple[VersionState, int]]
"""State and replaced version, by partition and version."""


class PublicationWrites(PublicationChecks, Writes):
    """Publications and rollbacks: refused before anything was tried, begun, finished and abandoned."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._runs = RunReads(log.connection)
        self._run_steps, self._approvals, self._outbox = RunSteps(log), ApprovalSteps(log), OutboxSteps(log)
        self._versions, self._leases = VersionSteps(log), LeaseSteps(log)

    def require_possible(self, intent: PublicationIntent, *, verifies: bool = False) -> None:
        """Refuses what cannot be published, verified or brought back now, and writes nothing down.

        Cost: the manifest is parsed, or the publication to be undone is read; a few index lookups, and one row per
        version that is named. For a source table also one row per landed file of each partition.
        """
        self._must_be_free(intent)
        match intent.action:
            case Action.PUBLISH:
                self._may_publish(intent, verifies=verifies)
            case Action.ROLLBACK:
                self._may_roll_back(intent)
        self._must_expect_what_is_accepted(intent)
        self._must_be_there(intent)

    def _must_be_free(self, intent: PublicationIntent) -> None:
        held = publications
        if self._row(select(held.c.run_id).where(held.c.publication_id == intent.publication_id)):
            raise errors.AlreadyRecorded(kind="publication", name=intent.publication_id)
        self.require_none_open(intent.table)

    def _may_publish(self, intent: PublicationIntent, *, verifies: bool) -> None:
        found = self._runs.get(intent.run_id)
        if found.manifest.mode in NEVER_PUBLISHED:
            raise errors.NeverPublished(run_id=found.run_id, manifest=found.manifest)
        self.require_turn_of_set(intent.run_id, intent.action, SetState.VERIFIED if verifies else SetState.PUBLISHING)
        self.require_after_what_it_read(found)
        self._outbox.require_still_asked(found)
        if not may_follow(found.state, RunState.PUBLISHING):
            raise _cannot(found.run_id, found.state, RunState.PUBLISHING)
        if not verifies and found.approval is not ApprovalState.APPROVED:
            raise errors.NeedsApproval(run_id=found.run_id)
        self._must_be_granted(found, intent)
        _must_be_declared(intent, found.manifest.table, found.manifest.partitions)
        self.require_read_what_landed(found)

    def _must_be_granted(self, found: RunRecord, intent: PublicationIntent) -> None:
        """Refuses what a policy has approved, and the pinned or the last agreed terms do not let a policy approve; a
        repair that was approved because its rows are the recorded ones, where they are not.

        What is declared now is not known here.
        """
        manifest = found.manifest
        if found.approved_by == f"{POLICY}repair" and not self._is_repaired_as_agreed(intent, manifest):
            raise errors.NeedsApproval(run_id=found.run_id)
        granted = [cause for cause in get_args(Cause) if found.approved_by == f"{POLICY}{cause}"]
        if not granted:
            return
        agreed = AgreementReads(self._log.connection).of(manifest.table)
        # A version has no readers until they are cut over to it, and what it loosens is agreed to then.
        loosened = (
            agreed.loosened_for_runs(manifest.safeguards, permit=manifest.change.permits)
            if manifest.name_policy is None
            else ()
        )
        if loosened or any(each.rule(granted[0]) == "approve" for each in (manifest.policy, *agreed.policies)):
            raise errors.NeedsApproval(run_id=found.run_id)

    def _may_roll_back(self, intent: PublicationIntent) -> None:
        self.require_turn_of_set(intent.run_id, intent.action, SetState.ROLLING_BACK)
        state = self._runs.state(intent.run_id)
        if state is not RunState.PUBLISHED:
            raise _cannot(intent.run_id, state, RunState.ROLLED_BACK)
        undone = self.header(intent.undoes or "")
        is_its_publication = undone.run_id == intent.run_id and undone.action is Action.PUBLISH
        if undone.state is not PublicationState.PUBLISHED or not is_its_publication:
            raise errors.Ended(
                kind="publication",
                name=undone.publication_id,
                why=f"({undone.action} of run {undone.run_id}) is {undone.state}; only a standing publication of run "
                f"{intent.run_id} can be undone",
            )
        changed = self.changed_partitions(undone.publication_id)
        _must_be_declared(intent, undone.table, changed)
        if len(intent.changes) != len(changed):
            raise Refused(
                f"a rollback undoes all {len(changed)} partitions of a publication, "
                f"and this one names {len(intent.changes)}."
            )

    def _must_expect_what_is_accepted(self, intent: PublicationIntent) -> None:
        versions = self._states_of_versions(intent)
        # What has expired is computed again as what was never there, and brought back by undoing what it expired with.
        states = STANDING if intent.action is Action.ROLLBACK else (VersionState.ACCEPTED,)
        accepted = {day: version for (day, version), (state, _) in sorted(versions.items()) if state in states}
        expected = _expected_versions(intent)
        other = {day for day, version in expected.items() if accepted.get(day, 0) != version}
        if intent.action is Action.ROLLBACK:
            repaired = self._versions.repaired(intent.table)
            other.update(c.partition for c in intent.changes if not _can_be_restored(c, versions, repaired))
        if other:
            first = min(other)
            raise TargetChanged.coded(
                "other_versions",
                "{table} is not what was expected, for {which}: expected version {expected} of {first}, found {found}.",
                then="[history {table}]; roll back the later publication first"
                if intent.action is Action.ROLLBACK
                else "[run {run_id}], which compares it with what is published now",
                run_id=intent.run_id,
                table=intent.table,
                which=first_few(sorted(other)),
                expected=expected[first],
                found=accepted.get(first, 0),
                first=first,
            )

    def _states_of_versions(self, intent: PublicationIntent) -> Versions:
        """The accepted and expired versions of the partitions, and those that the intent names: not all that there ever
        were."""
        named = {version for change in intent.changes for version in (change.expected_version, change.restores or 0)}
        held = partition_versions
        columns = (held.c.partition_date, held.c.version, held.c.state, held.c.replaces)
        chosen = select(*columns).where(
            held.c.table_name == intent.table, or_(held.c.state.in_(STANDING), held.c.version.in_(named))
        )
        found = self._rows_with(chosen, held.c.partition_date, _expected_versions(intent))
        return {(row.partition_date, row.version): (row.state, row.replaces) for row in found}

    def _must_be_there(self, intent: PublicationIntent) -> None:
        """Refuses to make readers see what retention removed."""
        held = partition_versions
        restored = {change.partition: change.restores for change in intent.changes}
        new = {change.partition: change.new.digest for change in intent.changes}
        chosen = select(held.c.partition_date, held.c.version, held.c.files_digest, held.c.removed_at).where(
            held.c.table_name == intent.table, held.c.removed_at.is_not(None)
        )
        removed = [
            row
            for row in self._rows_with(chosen, held.c.partition_date, new)
            if row.files_digest == new[row.partition_date] != EMPTY_FILE_SET.digest
            and (intent.action is Action.PUBLISH or row.version == restored[row.partition_date])
        ]
        if not removed:
            return
        days = first_few(sorted(row.partition_date for row in removed))
        at = max(row.removed_at for row in removed).isoformat(timespec="seconds")
        if intent.action is Action.PUBLISH:
            raise MissingInput.coded(
                "staged_files_removed",
                "the staged files of run {run_id} were removed by retention at {at}, for {days}.",
                then="stage it again: [run {run_id}]",
                run_id=intent.run_id,
                table=intent.table,
                at=at,
                days=days,
            )
        manifest = self._runs.get(intent.run_id).manifest
        # A publication that replaces lost files marks them when it is acknowledged.
        is_lost = any(row.removed_at == self.header(intent.undoes or "").finished_at for row in removed)
        how = "was lost, and replaced" if is_lost else "was removed by retention"
        raise MissingInput.coded(
            "replaced_files_removed",
            "run {run_id} cannot be rolled back: what it replaced in {table} {how} at {at}, for {days}.",
            then="restate the days instead: {planned_again}",
            run_id=intent.run_id,
            table=intent.table,
            at=at,
            days=days,
            how=how,
            planned_again=plan_again(manifest),
        )

    def begin(
        self,
        intent: PublicationIntent,
        *,
        actor: str,
        grounds: ApprovalGrounds | None = None,
        lease: LeaseTerms | None = None,
    ) -> None:
        """Writes down a swap that is about to be tried. A run to be published is PUBLISHING from here on.

        The event has the grounds of a rollback: why its person may, where not anybody may.

        Cost: as `require_possible`; one row per partition that the intent names, and two events.

        Args:
            lease: Until when `recover` leaves it alone, unless the lease is renewed or its process is gone.
        """
        self._begin(intent, actor, grounds, verifies=False)
        self._leases.take(intent.publication_id, lease, holder=intent.by)

    def verify(self, intent: PublicationIntent, *, delta_version: int, actor: str) -> PublicationRecord:
        """The rows of a run are those that readers see: it is recorded, nothing is swapped, and no person has to agree.

        Cost: as `begin` and `finish`.

        Args:
            intent: A publication that changes no partition.
            delta_version: The table version that was compared with it.

        Raises:
            Refused: It would change something.
            IllegalTransition: The run has not passed, or its set is not VERIFIED.
        """
        if intent.changes:
            raise Refused(f"run {intent.run_id} changes rows, and what changes rows is published.")
        self._begin(intent, actor, None, verifies=True)
        return self.finish(intent.publication_id, delta_version=delta_version, actor=actor)

    def _begin(self, intent: PublicationIntent, actor: str, grounds: ApprovalGrounds | None, *, verifies: bool) -> None:
        one_line("the reason", intent.reason)
        one_line("the one who publishes", intent.by)
        self.require_possible(intent, verifies=verifies)
        self._log.write(
            insert(publications).values(
                publication_id=intent.publication_id,
                run_id=intent.run_id,
                action=intent.action,
                table_name=intent.table,
                state=PublicationState.PUBLISHING,
                asked_by=intent.by,
                reason=intent.reason,
                undoes=intent.undoes,
                lineage_digest=intent.lineage_digest,
                begun_sequence=self._log.next_sequence,
                started_at=self._log.now,
                note="",
            ),
            of=[intent.publication_id],
        )
        if intent.changes:
            changes = [queries.change_row(intent.publication_id, change) for change in intent.changes]
            self._log.write(insert(publication_changes), changes, of=[intent.publication_id])
        if intent.verified:
            found = [queries.verified_row(intent.publication_id, verified) for verified in intent.verified]
            self._log.write(insert(verifications), found, of=[intent.publication_id])
        self._log.append(_begun(intent, actor, grounds))
        if intent.action is Action.PUBLISH:
            state = self._runs.state(intent.run_id)
            self._move_by(intent.publication_id, intent.run_id, state, RunState.PUBLISHING, actor)

    def finish(
        self, publication_id: str, *, delta_version: int, actor: str, log: LogEvidence | None = None
    ) -> PublicationRecord:
        """The swap has landed: new versions are accepted, or the earlier ones again, and dependents are notified.

        Finishing a publication that is finished changes nothing.

        Cost: as `get`; a few statements over its partitions inside the database, and one event per run whose
        state changes with it. A rollback also has the cost of `OutboxWrites.cancel`.

        Args:
            log: What the log of the table contains now; None where nothing was swapped.
        """
        found = self.get(publication_id)
        if found.state is PublicationState.PUBLISHED:
            return found
        self._log.change(
            _step(publication_id, PublicationState.PUBLISHED),
            _publication_event(publication_id, "publication_finished", actor, {"delta_version": delta_version}),
            also={
                "delta_version": delta_version,
                "finished_at": self._log.now,
                "log": None if log is None else plain(log),
            },
        )
        self._leases.drop(publication_id)
        run = self._runs.header(found.run_id)
        if run.makes is VersionState.ACCEPTED and not self._only_repairs(found, run):
            # What follows from a snapshot stays as it is when the snapshot expires, and when it is brought back.
            self._outbox.announce(found)
        match found.action:
            case Action.PUBLISH:
                self._publish(found, run, delta_version, actor)
            case Action.ROLLBACK:
                self._roll_back(found, run, actor)
        settle_phases(self._log, found.run_id, actor=actor)
        ended = self.header(publication_id)
        return replace(
            found,
            state=ended.state,
            finished_at=ended.finished_at,
            delta_version=ended.delta_version,
            log=log,
            note=ended.note,
        )

    def _is_repaired_as_agreed(self, intent: PublicationIntent, manifest: Manifest) -> bool:
        """True if a repair brings in what was lost, as it was recorded, and computed as was agreed to."""
        connection, days = self._log.connection, [change.partition for change in intent.changes]
        lost = CandidateReads(connection).replacing_lost(intent.run_id)
        return (
            self._only_repairs(intent, self._runs.header(intent.run_id))
            and manifest.change.is_repaired(lost, set(days))
            and BasisReads(connection).is_computed_as_agreed(intent.run_id, intent.table, days)
        )

    def _only_repairs(self, intent: PublicationIntent, run: RunHeader) -> bool:
        """True if a repair brings in, for every partition, exactly the rows that were recorded of the version there."""
        if run.kind is not RunPurpose.REPAIR or intent.action is not Action.PUBLISH or not intent.changes:
            return False
        held = partition_versions
        chosen = select(held.c.partition_date, held.c.version, held.c.row_count, held.c.checksum).where(
            held.c.table_name == intent.table, held.c.checksum != ""
        )
        recorded = {
            (row.partition_date, row.version): (row.row_count, row.checksum)
            for row in self._rows_with(chosen, held.c.partition_date, [change.partition for change in intent.changes])
        }
        return all(
            recorded.get((change.partition, change.expected_version)) == (change.rows, change.checksum)
            for change in intent.changes
        )

    def _publish(self, intent: PublicationIntent, run: RunHeader, delta_version: int, actor: str) -> None:
        replaced = self._versions.supersede_expected(intent)
        self._versions.accept_new(intent, delta_version, run.kind)
        # What was begun without an approval has changed nothing.
        is_agreed = run.approval is ApprovalState.APPROVED
        ends = RunState.PUBLISHED if is_agreed else RunState.VERIFIED
        self._move_by(intent.publication_id, intent.run_id, RunState.PUBLISHING, ends, actor)
        self._supersede_unseen(replaced, intent, actor)

    def _supersede_unseen(self, run_ids: Iterable[str], intent: PublicationIntent, actor: str) -> None:
        """Runs whose last visible rows a swap took away are no longer PUBLISHED."""
        for run_id in self._versions.without_accepted_versions(intent.table, run_ids):
            if run_id != intent.run_id and self._runs.state(run_id) is RunState.PUBLISHED:
                self._move_by(intent.publication_id, run_id, RunState.PUBLISHED, RunState.SUPERSEDED, actor)

    def _roll_back(self, intent: PublicationIntent, run: RunHeader, actor: str) -> None:
        undone = self.header(str(intent.undoes))
        self._supersede_unseen(self._versions.roll_back_expected(intent, run.kind), intent, actor)
        restored = self._versions.accept_restored(intent)
        self._log.change(
            _step(undone.publication_id, PublicationState.ROLLED_BACK),
            _publication_event(
                undone.publication_id, "publication_rolled_back", actor, {"undone_by": intent.publication_id}
            ),
            also={"note": f"undone by {intent.publication_id}"},
        )
        self._outbox.withdraw(undone.publication_id, actor=actor, why=f"undone by {intent.publication_id}")
        self._move_by(intent.publication_id, intent.run_id, RunState.PUBLISHED, RunState.ROLLED_BACK, actor)
        self._approvals.withdraw(intent.run_id, actor, f"rolled back: {intent.reason}")
        for run_id in restored:
            if self._runs.state(run_id) is RunState.SUPERSEDED:
                self._move_by(intent.publication_id, run_id, RunState.SUPERSEDED, RunState.PUBLISHED, actor)

    def abandon(self, publication_id: str, *, actor: str, reason: str, log: LogEvidence | None = None) -> None:
        """The swap was given up before it landed. A run to be published is PASSED again; nothing else changes.

        Cost: as `get`; the rows of the publication and its run, and two events.

        Args:
            log: What the log of the table contains, where a commit was made so that it cannot land.
        """
        found = self.get(publication_id)
        why = required_text("the reason", reason)
        self._log.change(
            _step(publication_id, PublicationState.ABANDONED),
            _publication_event(publication_id, "publication_abandoned", actor, {"reason": why}),
            also={"finished_at": self._log.now, "note": why, "log": None if log is None else plain(log)},
        )
        self._leases.drop(publication_id)
        if found.action is Action.PUBLISH:
            self._move_by(publication_id, found.run_id, RunState.PUBLISHING, RunState.PASSED, actor, why)
        settle_phases(self._log, found.run_id, actor=actor, note=why)

    def note_unknown(self, publication_id: str, *, actor: str, why: str) -> None:
        """The process of an open publication ends without knowing whether the swap landed; `recover` finds out.

        Cost: the rows of the publication, and one event.
        """
        if self.header(publication_id).state is PublicationState.PUBLISHING:
            self._log.append(_publication_event(publication_id, OUTCOME_UNKNOWN, actor, {"reason": why}))
            self._leases.drop(publication_id)

    def set_table_to_ledger(
        self,
        table: str,
        log: LogEvidence,
        *,
        missing: Sequence[str],
        lost_runs: Sequence[str],
        gone: Sequence[tuple[date, int]],
        actor: str,
        reason: str,
        grounds: ApprovalGrounds | None,
    ) -> None:
        """Records that a table was set to what the ledger holds, and what was accepted as lost; see `SetToLedger`.

        Cost: one event.

        Raises:
            TableBusy: A publication of the table has begun, and is not recorded yet.
        """
        self.require_none_open(table)
        payload: dict[str, Any] = {"log": plain(log), "missing": list(missing), "lost_runs": list(lost_runs)}
        payload |= {
            "gone": plain(gone),
            "reason": one_line("the reason", reason),
            **(plain(grounds) if grounds else {}),
        }
        self._log.append(Event("table", table, SET_TO_LEDGER, actor=one_line("the person", actor), payload=payload))

    def order_rollback(self, order: RollbackOrder, grounds: ApprovalGrounds | None = None) -> None:
        """Notes a rollback that takes dependents along, before the first of them is undone, and why its person may.

        Cost: one event.
        """
        payload = {"dependents": list(order.dependents), "reason": one_line("the reason", order.reason)}
        by = one_line("the one who rolls back", order.by)
        payload |= plain(grounds) if grounds else {}
        self._log.append(Event(ROLLBACK, order.of, ORDERED, actor=by, payload=payload))

    def end_rollback(self, of: str, *, actor: str, note: str = "") -> None:
        """Such a rollback is complete, or was given up for the reason in the note. Cost: one event."""
        payload = {"note": note} if note else {}
        self._log.append(Event(ROLLBACK, of, ENDED, actor=actor, payload=payload))

    def _move_by(
        self, publication_id: str, run_id: str, begins: RunState, ends: RunState, actor: str, note: str = ""
    ) -> None:
        self._run_steps.move(run_id, begins, ends, actor=actor, note=note, payload={"publication_id": publication_id})


def _begun(intent: PublicationIntent, actor: str, grounds: ApprovalGrounds | None) -> Event:
    payload = {
        "run_id": intent.run_id,
        "action": str(intent.action),
        "table": intent.table,
        "by": intent.by,
        "reason": intent.reason,
        "undoes": intent.undoes,
        "partitions": len(intent.changes),
        "verified": len(intent.verified),
        **(plain(grounds) if grounds else {}),
    }
    state = str(PublicationState.PUBLISHING)
    name = intent.publication_id
    return Event("publication", name, "publication_begun", actor=actor, to_state=state, payload=payload)


def _publication_event(publication_id: str, action: str, actor: str, payload: dict[str, object]) -> Event:
    return Event("publication", publication_id, action, actor=actor, payload=payload)


def _step(publication_id: str, ends: PublicationState) -> Step:
    begins = PublicationState.PUBLISHED if ends is PublicationState.ROLLED_BACK else PublicationState.PUBLISHING
    return Step(
        table=publications,
        key={"publication_id": publication_id},
        name=f"publication {publication_id}",
        begins=begins,
        ends=ends,
    )


def _expected_versions(intent: PublicationIntent) -> dict[date, int]:
    """The version that must be accepted, by partition, of everything that the publication changes or found equal."""
    verified = {found.partition: found.version for found in intent.verified}
    return verified | {change.partition: change.expected_version for change in intent.changes}


def _can_be_restored(
    change: PartitionChange, versions: Versions, repaired: Mapping[tuple[date, int], PartitionVersion]
) -> bool:
    """True if a rollback brings back exactly the version that the undone one had replaced; where a repair has put
    that one back, the one that the repair had replaced."""
    key = (change.partition, change.expected_version)
    _, replaced = versions.get(key, (None, None))
    before = {replaced, repaired[key].replaces} if key in repaired else {replaced}
    if change.restores is None or change.restores not in before:
        return False
    return change.restores == 0 or versions[change.partition, change.restores][0] is VersionState.SUPERSEDED


def _must_be_declared(intent: PublicationIntent, table: str, declared: tuple[date, ...] | list[date]) -> None:
    changed = intent.partitions
    undeclared = sorted(set(changed) - set(declared))
    if intent.table != table or undeclared:
        raise Refused(
            f"run {intent.run_id} is about {table}, and may not change {intent.table}"
            f"{f' for {first_few(undeclared)}' if undeclared else ''}."
        )
    if len(changed) != len(set(changed)):
        raise Refused("a publication changes a partition once, and this one names some twice.")


def _cannot(run_id: str, found: RunState, wanted: RunState) -> errors.CannotBecome:
    return errors.CannotBecome(name=f"run {run_id}", found=found, wanted=wanted, of={"run_id": run_id})
