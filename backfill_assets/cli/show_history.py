"""Terminal views of the history of a table or a partition."""

from __future__ import annotations

from rich.console import Group, RenderableType

from backfill_assets.cli.show import facts, state_and_meaning
from backfill_assets.cli.terminal import view
from backfill_assets.ledger.provenance import DerivedProvenance, OtherProvenance, Provenance, SourceProvenance
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.history import TableHistory
from backfill_assets.report.imports import ImportOnDay
from backfill_assets.report.partition import GateVerdict, PartitionHistory, VersionHistory
from backfill_assets.report.screens.publications import publications_page
from backfill_assets.report.screens.runs import run_ids


def history_view(history: TableHistory) -> RenderableType:
    """What a table has been."""
    table = history.table
    head = facts(
        [
            ("table", table.table),
            ("path", table.path),
            ("accepted", f"{table.accepted_described}; {table.accepted_rows:,} rows"),
            ("not shown", _earlier(history.earlier_publications)),
        ]
    )
    return Group(head, "", view(publications_page("", history.publications)))


def _earlier(publications: int) -> str | None:
    return f"{publications:,} earlier publications" if publications else None


def partition_view(history: PartitionHistory) -> RenderableType:
    """The versions of one partition, each with where it came from."""
    parts: list[RenderableType] = [facts([("partition", f"{history.table} {history.described}")])]
    for version in history.versions:
        parts += ["", _version(version)]
    return Group(*parts)


def _version(version: VersionHistory) -> RenderableType:
    code = f"{version.transform} {version.transform_version}; sha256 {version.code_digest[:16]}"
    seen = f"{version.accepted_at.isoformat()} (table version {version.delta_version})"
    return facts(
        [
            (f"version {version.version}", state_and_meaning(version.state, version.meaning)),
            ("rows", f"{version.rows:,}, checksum {version.checksum}"),
            ("since", seen),
            ("files removed", version.removed_at and version.removed_at.isoformat()),
            ("why", f"{version.kind}: {version.reason}"),
            ("no events", version.declared_empty_by and f"declared by {version.declared_empty_by}"),
            ("asked, agreed", f"{version.requested_by}, {version.approved_by}"),
            ("equal again in", ", ".join(found.run_id for found in version.verified_by)),
            ("undone", version.undone),
            ("again since", version.restored_at and version.restored_at.isoformat()),
            ("run", version.run_id),
            ("code", code),
            ("staged with", _versions(version)),
            ("supersedes", run_ids(version.supersedes)),
            ("references", version.references_described),
            ("inputs", _inputs(version.provenance)),
            *(("" if place else "what they do now", _on_day(each)) for place, each in enumerate(version.imports)),
            ("checks", _checks(version.checks)),
            ("replaced", f"version {version.replaced_version}" if version.replaced_version else "nothing"),
            ("to undo it", version.undo),
        ]
    )


def _checks(checks: tuple[GateVerdict, ...]) -> str:
    failed = [check.gate for check in checks if not check.passed]
    return f"{len(checks) - len(failed)} passed" + (f", failed: {', '.join(failed)}" if failed else "")


def _on_day(found: ImportOnDay) -> str:
    """Such as `imp-000003 (late.jsonl): 12 records; moves 2 keys to other days`."""
    verbs = (
        (found.moved_away, "moves", "key", "to other days"),
        (found.deleted, "ends", "version", "by deletes"),
        (found.withdrawn, "withdraws", "key", ""),
        (found.restored, "restores", "key", ""),
    )
    parts = [count_of(found.records, "record")] if found.records else []
    parts += [f"{verb} {count_of(many, what)} {how}".rstrip() for many, verb, what, how in verbs if many]
    why = f" ({found.by}: {found.reason})" if found.reason else ""
    return f"{found.import_id}, {found.file.rpartition('/')[2]}: {'; '.join(parts) or 'nothing of this day'}{why}"


def _inputs(provenance: Provenance) -> str:
    match provenance:
        case SourceProvenance(imports=imports):
            return ", ".join(f"{import_id} (sha256 {sha256[:12]})" for import_id, sha256 in imports) or "no landed file"
        case DerivedProvenance(inputs=inputs):
            return ", ".join(f"{table} window {digest[:16]}" for table, digest in inputs.items())
        case OtherProvenance():
            return ""


def _versions(version: VersionHistory) -> str:
    known = version.versions.staged or version.versions.planned
    return ", ".join(f"{name} {each}" for name, each in sorted(known.items()))
