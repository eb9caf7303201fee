"""Row checks: whether the rows of the ledger agree with its events.

The event chain finds an edited event; this finds an edited row: what a publication changed, which versions are
accepted, what the gates found, who approved, and how many records a file had. Each is computed again from the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from backfill_assets.core.identity import document_digest
from backfill_assets.ledger import rows
from backfill_assets.ledger.events import gates_payload, publication_payload
from backfill_assets.ledger.import_records import KeyCounts
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.records import Action
from backfill_assets.ledger.samples import ERASED, salted_digest
from backfill_assets.ledger.schema import (
    approvals,
    events,
    gate_results,
    import_days,
    imports,
    manifests,
    partition_versions,
    publication_changes,
    publications,
    run_follows,
    runs,
    samples,
)
from backfill_assets.ledger.states import ApprovalState, ImportState, PublicationState, VersionState
from backfill_assets.planning.manifest import Manifest

COUNTS = ("landed", "accepted", "duplicate", "superseded", "rejected")
LANDED = (ImportState.LANDED, ImportState.LOADED)


@dataclass(slots=True)
class _Stated:
    """What the events say of landed files, by import: counts, the digest of the days, contract version, and keys."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    days: dict[str, str] = field(default_factory=dict)
    contracts: dict[str, int] = field(default_factory=dict)
    keys: dict[str, dict[str, int]] = field(default_factory=dict)


class ImportChecks(Queries):
    """Landed files, compared with what was recorded of them."""

    def violations(self) -> Iterator[str]:
        """What was changed in the rows of imports, and what does not add up, one sentence each.

        Cost: one pass over the events of imports, and over all rows of imports and their days.
        """
        stated = self._stated()
        touched: dict[str, list[list[Any]]] = {}
        for day in self._rows(select(import_days)):
            touched.setdefault(day.import_id, []).append([day.event_date.isoformat(), day.events])
        for row in self._rows(select(imports).where(imports.c.state.in_(LANDED)).order_by(imports.c.arrival)):
            if {name: row._mapping[name] for name in COUNTS} != stated.counts.get(row.import_id):
                yield f"the counts of {row.import_id} were edited: they are not what was counted."
            if row.contract != stated.contracts.get(row.import_id):
                yield f"the contract version of {row.import_id} was edited: it is not the one that it was landed with."
            keys = {"current": row.keys_current, "deleted": row.keys_deleted, "withdrawn": row.keys_withdrawn}
            if stated.keys.get(row.import_id, keys) != keys:
                yield f"the keys of {row.import_id} were edited: they are not what was counted."
            found = document_digest(sorted(touched.get(row.import_id, [])))
            if row.import_id in stated.days and found != stated.days[row.import_id]:
                yield f"the days of {row.import_id} were edited: they are not what was counted."
        yield from self._open_accounts()

    def _stated(self) -> _Stated:
        found = _Stated()
        chosen = select(events.c.sequence, events.c.entity_id, events.c.action, events.c.payload).where(
            events.c.entity == "import", events.c.action.in_(("import_landed", "import_recounted"))
        )
        for row in self._paged(chosen, events.c.sequence, after=0):
            found.counts[row.entity_id] = {name: row.payload[name] for name in COUNTS}
            if "days_digest" in row.payload:
                found.days[row.entity_id] = row.payload["days_digest"]
                found.contracts[row.entity_id] = row.payload["contract"]
            if "keys" in row.payload:
                found.keys[row.entity_id] = row.payload["keys"]
            found.days.update(row.payload.get("linked_days", {}))
            for other, by in row.payload.get("moved_elsewhere", {}).items():
                for name, n in by.items() if other in found.counts else ():
                    found.counts[other][name] += n
        return found

    def _open_accounts(self) -> Iterator[str]:
        """Sources whose keys do not add up: ever accepted = current + deleted + withdrawn.

        While an import is landed again in its place, the sums are those of before and of after, so nothing is compared.
        """
        accepted: Counter[str] = Counter()
        keys: dict[str, KeyCounts] = {}
        unfinished: set[str] = set()
        for row in self._rows(select(imports)):
            if row.state in LANDED:
                accepted[row.source] += row.accepted
                of_import = KeyCounts(current=row.keys_current, deleted=row.keys_deleted, withdrawn=row.keys_withdrawn)
                keys[row.source] = keys.get(row.source, KeyCounts()) + of_import
            elif row.landed_at is not None:
                unfinished.add(row.source)
        for source in sorted(keys.keys() - unfinished):
            found = keys[source]
            if accepted[source] != found.ever or min(found.current, found.deleted, found.withdrawn) < 0:
                yield (
                    f"the keys of {source} do not add up: {accepted[source]:,} were accepted, {found.current:,} are "
                    f"current, {found.deleted:,} deleted and {found.withdrawn:,} withdrawn."
                )


Name = tuple[int, str]
"""A sample by the sequence of its event and its kind."""

STANDING = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)


class RowChecks(Queries):
    """Compares the rows with the events."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._publications = PublicationReads(connection)

    def violations(self) -> Iterator[str]:
        """What was changed in the rows behind the ledger's back, one sentence each.

        Cost: one pass over all events, and over all rows of publications, versions, gates, samples and imports.
        """
        yield from self._runs_against_manifests()
        yield from self._publications_against_events()
        yield from self._versions_against_publications()
        yield from self._gates_against_events()
        yield from self._samples_against_events()
        yield from self._approvals_against_events()
        yield from ImportChecks(self._connection).violations()

    def _runs_against_manifests(self) -> Iterator[str]:
        """What the rows of runs repeat of their manifests; manifests that cannot be read are for `chain_checks`."""
        of_run = runs.c["table_name", "kind", "mode", "because", "first_partition", "last_partition"]
        follows: dict[str, set[str]] = {}
        for row in self._rows(select(run_follows)):
            follows.setdefault(row.run_id, set()).add(row.publication_id)
        chosen = select(runs.c.run_id, manifests.c.body, *of_run).join_from(
            runs, manifests, manifests.c.run_id == runs.c.run_id
        )
        for row in self._paged(chosen, runs.c.run_id, after="", size=20):
            try:
                manifest = Manifest.parse(row.body)
            except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
                continue
            stated = (manifest.table, manifest.kind, manifest.mode, manifest.cause.kind)
            ends = (min(manifest.partitions), max(manifest.partitions))
            followed = follows.get(row.run_id, set())
            if tuple(row[2:]) != (*stated, *ends) or followed != set(manifest.cause.publications):
                yield f"run {row.run_id} was edited: its row is not what its manifest says."

    def _publications_against_events(self) -> Iterator[str]:
        begun = select(events.c.sequence, events.c.entity_id, events.c.payload).where(
            events.c.entity == "publication", events.c.action == "publication_begun"
        )
        recorded = {row.entity_id: row.payload for row in self._paged(begun, events.c.sequence, after=0)}
        for publication_id in self._values(select(publications.c.publication_id).order_by(publications.c.started_at)):
            payload = recorded.get(publication_id)
            if payload is None:
                yield f"publication {publication_id} was added without an event."
                continue
            present = publication_payload(self._publications.get(publication_id).intent)
            if wrong := sorted(name for name, value in present.items() if payload.get(name) != value):
                yield f"publication {publication_id} was edited: {', '.join(wrong)} are not what its event says."

    def _versions_against_publications(self) -> Iterator[str]:
        """The versions as the standing publications make them, one after the other, against the rows."""
        chosen = (
            select(publications.c.publication_id, publications.c.table_name, publications.c.action)
            .where(publications.c.state.in_(STANDING))
            .order_by(publications.c.begun_sequence)
        )
        expected: dict[tuple[str, date], dict[int, tuple[VersionState, str]]] = {}
        for row in self._rows(chosen):
            changed = select(
                publication_changes.c.partition_date,
                publication_changes.c.expected_version,
                publication_changes.c.restores,
            ).where(publication_changes.c.publication_id == row.publication_id)
            for change in self._rows(changed):
                made = expected.setdefault((row.table_name, change.partition_date), {})
                _replay(made, row.action, change.expected_version, change.restores, row.publication_id)
        yield from self._against_rows(expected)
        yield from self._copies_against_changes()

    def _against_rows(self, expected: dict[tuple[str, date], dict[int, tuple[VersionState, str]]]) -> Iterator[str]:
        held = partition_versions
        columns = (held.c.table_name, held.c.partition_date, held.c.version, held.c.state, held.c.publication_id)
        for row in self._rows(select(*columns)):
            named = f"{row.table_name} {row.partition_date}: version {row.version}"
            made = expected.get((row.table_name, row.partition_date), {}).pop(row.version, None)
            if made is None:
                yield f"{named} was added, no publication made it."
            elif made != (row.state, row.publication_id):
                yield (
                    f"{named} is {row.state} by publication {row.publication_id}, and the publications make it "
                    f"{made[0]} by {made[1]}."
                )
        for (table, day), left in expected.items():
            for version in left:
                yield f"{table} {day}: version {version} was removed."

    def _copies_against_changes(self) -> Iterator[str]:
        """The files of a version are those that its publication recorded."""
        held, made = partition_versions, publication_changes
        same = and_(made.c.publication_id == held.c.publication_id, made.c.partition_date == held.c.partition_date)
        differs = or_(
            held.c.files != made.c.new_files,
            held.c.files_digest != made.c.files_digest,
            held.c.row_count != made.c.row_count,
            held.c.checksum != made.c.checksum,
            held.c.replaces != made.c.expected_version,
            held.c.provenance != made.c.provenance,
        )
        chosen = select(held.c.table_name, held.c.partition_date, held.c.version).join_from(held, made, same)
        for row in self._rows(chosen.where(differs)):
            yield (
                f"{row.table_name} {row.partition_date}: version {row.version} was edited: it is not what its "
                f"publication brought in."
            )

    def _gates_against_events(self) -> Iterator[str]:
        last: dict[str, Mapping[str, Any] | None] = {}
        chosen = select(events.c.sequence, events.c.entity_id, events.c.action, events.c.payload).where(
            events.c.action.in_(("gates_recorded", "candidates_cleared"))
        )
        for row in self._paged(chosen, events.c.sequence, after=0):
            last[row.entity_id] = row.payload if row.action == "gates_recorded" else None
        for run_id in self._values(select(gate_results.c.run_id).distinct()):
            if last.get(run_id) is None:
                yield f"gate results of run {run_id} were added without an event."
        for run_id, payload in last.items():
            if payload is None:
                continue
            found = gates_payload(
                rows.gate_result(row) for row in self._rows(select(gate_results).where(gate_results.c.run_id == run_id))
            )
            if any(found[name] != payload[name] for name in payload if name in found):
                yield f"the gate results of run {run_id} were edited: they are not what was recorded."

    def _samples_against_events(self) -> Iterator[str]:
        """A sample is what its event says, or an event says who erased it; nothing else is accepted."""
        expected: dict[Name, tuple[str, str]] = {}
        for row in self._paged(
            select(events.c.sequence, events.c.entity_id, events.c.action, events.c.payload).where(
                events.c.action.in_(("gates_recorded", "moved", ERASED))
            ),
            events.c.sequence,
            after=0,
        ):
            for kind, digest in row.payload.get("samples", {}).items():
                expected[row.sequence, kind] = (row.entity_id, digest)
            if row.action == ERASED:
                for sequence, kind in row.payload["erased"]:
                    expected.pop((sequence, kind), None)
        for row in self._paged(select(samples), samples.c.sequence, after=0):
            name = (row.sequence, str(row.kind))
            recorded = expected.pop(name, None)
            if recorded is None:
                yield f"the sample {_called(name, row.run_id)} was added: no event explains it."
            elif recorded != (row.run_id, salted_digest(row.salt, row.body)):
                yield f"the sample {_called(name, row.run_id)} was edited: it is not what its event says."
        for name, (run_id, _) in expected.items():
            yield f"the sample {_called(name, run_id)} is gone, and no event says that it was erased."

    def _approvals_against_events(self) -> Iterator[str]:
        last: dict[str, tuple[str, str | None]] = {}
        chosen = select(events.c.sequence, events.c.entity_id, events.c.actor, events.c.to_state, events.c.payload)
        for row in self._paged(chosen.where(events.c.entity == "approval"), events.c.sequence, after=0):
            if row.to_state == str(ApprovalState.APPROVED):
                last[row.entity_id] = (row.actor, row.payload.get("manifest_digest"))
        approved = select(approvals.c.run_id, approvals.c.approved_by, approvals.c.manifest_digest)
        for row in self._rows(approved.where(approvals.c.state == ApprovalState.APPROVED)):
            if last.get(row.run_id) != (row.approved_by, row.manifest_digest):
                yield f"the approval of run {row.run_id} was edited: it is not the one that was given."


def _replay(
    made: dict[int, tuple[VersionState, str]], action: Action, before: int, restores: int | None, publication_id: str
) -> None:
    """What one landed publication makes of the versions of one partition."""
    present = made.get(before)
    match action:
        case Action.PUBLISH:
            if present is not None:
                made[before] = (VersionState.SUPERSEDED, present[1])
            made[max(made, default=0) + 1] = (VersionState.ACCEPTED, publication_id)
        case Action.ROLLBACK:
            if present is not None:
                made[before] = (VersionState.ROLLED_BACK, present[1])
            if restores and restores in made:
                made[restores] = (VersionState.ACCEPTED, made[restores][1])


def _called(name: Name, run_id: str) -> str:
    return f"{name[1]} of run {run_id} (event {name[0]})"
