"""Do the ledger, the tables and their logs tell the same story?

Everything is compared with everything: the event chain with itself, accepted versions with the files that readers
see, landed publications with the commits that carry them, and every commit with the publication that explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.identity import EMPTY_FILE_SET
from backfill_assets.lake.swap import commits
from backfill_assets.lake.tables import live_digests, missing_files
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import ImportState, PublicationState
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.workspace import Workspace

_LANDED = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was looked at and what does not agree; `problems` is empty when everything does."""

    events: int
    partitions: int
    commits: int
    files: int
    imports: int
    problems: tuple[str, ...]

    def document(self) -> Mapping[str, Any]:
        """The audit as plain values."""
        return {
            "agrees": not self.problems,
            "events": self.events,
            "partitions": self.partitions,
            "commits": self.commits,
            "files": self.files,
            "imports": self.imports,
            "problems": list(self.problems),
        }


def audit(ws: Workspace) -> Audit:
    """Verifies the event chain, and that ledger, tables and landed files agree. Changes nothing."""
    problems: list[str] = []
    partitions = seen_commits = files = 0
    with ws.ledger.read() as reader:
        problems += reader.chain_violations()
        events = sum(1 for _ in reader.events())
        records = reader.publications()
        for name in ws.domain.tables:
            accepted = reader.accepted(name)
            partitions += len(accepted)
            files += sum(len(version.files.files) for version in accepted.values())
            if not ws.lake.exists(name):
                if any(version.files.files for version in accepted.values()):
                    problems.append(f"{name}: the ledger holds accepted rows, but the table is gone.")
                continue
            problems += _files_against_ledger(ws, reader, name)
            known = {record.intent.publication_id: record for record in records if record.intent.table == name}
            seen = dict(commits(ws.lake, name))
            seen_commits += len(seen)
            problems += _commits_against_ledger(name, seen, known)
        landed = reader.imports(states=[ImportState.LANDED, ImportState.LOADED])
    for record in landed:
        if not record.counts.reconciles:
            problems.append(f"{record.import_id}: its counts do not add up.")
        if not (ws.settings.landing / record.stored_path).exists():
            problems.append(f"{record.import_id}: the landed file {record.stored_path} is gone.")
    return Audit(
        events=events,
        partitions=partitions,
        commits=seen_commits,
        files=files,
        imports=len(landed),
        problems=tuple(problems),
    )


def _files_against_ledger(ws: Workspace, reader: LedgerReader, name: str) -> Iterator[str]:
    column = ws.domain.table(name).partition.column
    live = dict(live_digests(ws.lake.open(name), column))
    accepted = reader.accepted(name)
    for partition, version in accepted.items():
        found = live.pop(partition.isoformat(), EMPTY_FILE_SET.digest)
        if found != version.files.digest:
            yield (
                f"{name} {partition}: readers do not see version {version.version}, which the ledger calls accepted "
                f"(run {version.run_id})."
            )
        for problem in missing_files(ws.lake, name, [version.files]):
            yield f"{name} {partition}: {problem}."
    for value in sorted(live):
        yield f"{name} {value}: readers see rows that no accepted version explains."


def _commits_against_ledger(
    name: str, seen: Mapping[int, Mapping[str, object]], known: Mapping[str, PublicationRecord]
) -> Iterator[str]:
    carried: dict[str, int] = {}
    for version, commit in sorted(seen.items()):
        if "created_by" in commit or "gave_up" in commit:
            continue
        publication_id = str(commit.get("publication_id", ""))
        record = known.get(publication_id)
        if record is None:
            operation = commit.get("operation", "an unknown operation")
            yield f"{name} version {version}: a commit ({operation}) that no publication explains."
        elif record.state not in _LANDED:
            yield (
                f"{name} version {version}: publication {publication_id} landed, but the ledger calls it "
                f"{record.state}; run `backfill recover`."
            )
        else:
            carried[publication_id] = version
    for publication_id, record in known.items():
        if not record.intent.changes:
            continue  # every partition was found equal, so there was nothing to commit
        if record.state in _LANDED and carried.get(publication_id) != record.delta_version:
            yield (
                f"{name}: the ledger says publication {publication_id} is version {record.delta_version}, the "
                f"table's log says {carried.get(publication_id, 'nothing')}."
            )
