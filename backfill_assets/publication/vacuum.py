"""How do files that nobody needs go, without anybody ever missing one?

The files are listed first and judged afterwards, by one state of the ledger, so that a file which comes in meanwhile is
not among them. Versions that lose files are marked in the same transaction; only then are files removed. A process that
dies in between leaves files that the next clean-up finds again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.crash_points import Point
from backfill_assets.identity import document_digest
from backfill_assets.lake.retention import remove_files, run_files
from backfill_assets.lake.tables import live_paths
from backfill_assets.ledger.claims import OPEN_STATES
from backfill_assets.ledger.read_retention import RunInShort
from backfill_assets.ledger.states import ImportState, RunState
from backfill_assets.ledger.store import LedgerReader
from backfill_assets.planning.manifest import NEVER_PUBLISHED, PinnedInput
from backfill_assets.publication.retention import Decision, Facts, HeldRun, Horizons, Why, decide
from backfill_assets.workspace import Workspace

Sizes = Mapping[str, Mapping[str, int]]
"""Bytes by table and path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    """What a clean-up decided, and did unless it was asked to decide only."""

    is_dry_run: bool
    horizons: Horizons
    decision: Decision
    sizes: Sizes

    def document(self) -> Mapping[str, Any]:
        """The clean-up as plain values; the fields are documented in docs/cli.md."""
        tables = [self._table(name) for name in self.sizes]
        return {
            "dry_run": self.is_dry_run,
            "at": self.horizons.as_of.isoformat(),
            "rollback_days": self.horizons.rollback_days,
            "reproduction_days": self.horizons.reproduction_days,
            "removed": _counted(self._of(self.decision.removed)),
            "kept": _counted(self._of(self.decision.kept)),
            "versions_removed": len(self.decision.versions),
            "tables": tables,
        }

    def _of(self, chosen: Mapping[str, Mapping[str, Why]]) -> Iterator[int]:
        return (self.sizes[table][path] for table, paths in chosen.items() for path in paths)

    def _table(self, name: str) -> Mapping[str, Any]:
        groups: dict[tuple[str, bool, Why], list[int]] = {}
        for kept, chosen in ((False, self.decision.removed), (True, self.decision.kept)):
            for path, why in chosen.get(name, {}).items():
                groups.setdefault((path.split("/")[1], kept, why), []).append(self.sizes[name][path])
        return {
            "table": name,
            "skipped": "a publication is open" if name in self.decision.skipped else None,
            "removed": _counted(self.sizes[name][path] for path in self.decision.removed.get(name, {})),
            "kept": _counted(self.sizes[name][path] for path in self.decision.kept.get(name, {})),
            "runs": [
                {"run_id": run_id, "kept": kept, "reason": str(why), **_counted(sizes)}
                for (run_id, kept, why), sizes in sorted(groups.items())
            ],
        }


def _counted(sizes: Iterable[int]) -> Mapping[str, int]:
    found = list(sizes)
    return {"files": len(found), "size_bytes": sum(found)}


def vacuum_lake(ws: Workspace, *, by: str, quarantines: Iterable[str] = (), dry_run: bool = False) -> Vacuumed:
    """Removes the files below `_runs/` that no version, candidate or horizon needs.

    Args:
        ws: The workspace.
        by: Who asks.
        quarantines: The tables of rejected records; what their logs show is kept.
        dry_run: Only say what would be removed and why.
    """
    rejected = frozenset(quarantines)
    sizes = {name: run_files(ws.lake, name) for name in (*ws.domain.tables, *sorted(rejected)) if ws.lake.exists(name)}
    horizons = Horizons(
        as_of=ws.clock(),
        rollback_days=ws.settings.rollback_days,
        reproduction_days=ws.settings.reproduction_days,
    )
    if dry_run:
        with ws.ledger.read() as reader:
            decision = decide(_facts(ws, reader, sizes, rejected, horizons), sizes, horizons)
        return Vacuumed(is_dry_run=True, horizons=horizons, decision=decision, sizes=sizes)
    with ws.ledger.write() as writer:
        decision = decide(_facts(ws, writer, sizes, rejected, horizons), sizes, horizons)
        writer.mark_removed(decision.versions)
        for table, removed in decision.removed.items():
            writer.record_event(
                actor=by,
                entity="retention",
                entity_id=table,
                action="vacuumed",
                payload={
                    **_counted(sizes[table][path] for path in removed),
                    "versions": sum(1 for name, *_ in decision.versions if name == table),
                    "paths_digest": document_digest(sorted(removed)),
                    "rollback_days": horizons.rollback_days,
                    "reproduction_days": horizons.reproduction_days,
                },
            )
    ws.reached(Point.VACUUM_MARKED)
    for table, removed in decision.removed.items():
        # Whoever restores a table without our knowledge may have made some of them visible since they were judged.
        shown = live_paths(ws.lake, table)
        remove_files(ws.lake, table, (path for path in removed if path not in shown))
        ws.reached(Point.VACUUM_TABLE_DONE)
    return Vacuumed(is_dry_run=False, horizons=horizons, decision=decision, sizes=sizes)


def _facts(
    ws: Workspace, reader: LedgerReader, tables: Iterable[str], quarantines: frozenset[str], horizons: Horizons
) -> Facts:
    known = reader.runs_in_short()
    files = reader.staged_files(run.run_id for run in known)
    return Facts(
        runs=tuple(
            HeldRun(
                run_id=run.run_id,
                table=run.table,
                state=run.state,
                changed_at=run.updated_at,
                published_at=run.published_at,
                is_trial=is_trial,
                staged={p: frozenset(staged.paths) for p, staged in files.get(run.run_id, {}).items()},
                inputs=inputs,
            )
            for run in known
            for is_trial, inputs in [_reads(reader, run, horizons)]
        ),
        versions=reader.every_version(),
        live={name: live_paths(ws.lake, name) for name in tables},
        publishing=frozenset(reader.tables_being_published()),
        quarantines=quarantines,
        imports={record.import_id: record.state is ImportState.LANDING for record in reader.imports()},
    )


def _reads(reader: LedgerReader, run: RunInShort, horizons: Horizons) -> tuple[bool, tuple[PinnedInput, ...]]:
    """Whether a run is one that never publishes, and what it pins; manifests of runs long past are not even read."""
    is_recent = run.published_at is not None and run.published_at >= horizons.reproduction_since
    if run.state not in OPEN_STATES and run.state is not RunState.ROLLED_BACK and not is_recent:
        return False, ()
    manifest = reader.run(run.run_id).manifest
    proof = manifest.proof.inputs if manifest.proof else ()
    return manifest.mode in NEVER_PUBLISHED, (*manifest.inputs, *proof)
