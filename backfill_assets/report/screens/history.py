"""History of a table and of a partition: what readers saw, since when, and where it came from."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.provenance import DerivedProvenance, OtherProvenance, Provenance, SourceProvenance
from backfill_assets.ledger.records import PublicationHeader
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.history import ImportOnDay, PartitionHistory, TableHistory, VersionHistory
from backfill_assets.report.page import Facts, Page, Value, facts, joined, page, run_ref, section, several, words
from backfill_assets.report.screens.publications import publications_table
from backfill_assets.report.screens.runs import state_of
from backfill_assets.report.words.plans import kept_words, references_described
from backfill_assets.report.words.states import MEANING


def history_page(history: TableHistory) -> Page:
    """What a table has been."""
    found, earlier = history.table, history.earlier_publications
    return page(
        found.table,
        facts(
            ("table", found.table),
            ("path", found.path),
            ("accepted", f"{found.accepted}; {count_of(found.accepted_rows, 'row')}"),
            ("not shown", count_of(earlier, "earlier publication") if earlier else None),
        ),
        section("Publications", publications_table(history.publications, of_one_table=True)),
    )


def partition_page(history: PartitionHistory) -> Page:
    """The versions of one partition, each with where it came from."""
    named = f"{history.table} {history.described}"
    return page(named, facts(("partition", named)), *map(_version, history.versions))


def _version(version: VersionHistory) -> Facts:
    manifest = version.manifest
    seen, code = ("readers saw no rows", None) if manifest.expires else ("readers saw it", _code(manifest))
    staged_with = version.versions.staged or version.versions.planned
    return facts(
        (f"version {version.claim.version}", state_of(version.claim.state, MEANING[version.claim.state])),
        ("rows", f"{version.claim.rows:,}; equal rows have this checksum too: {version.claim.checksum}"),
        (
            seen,
            words(seen_text(version), f" (table version {version.claim.delta_version})"),
        ),
        ("files removed", version.claim.removed_at),
        ("why", f"{manifest.kind}: {manifest.reason}"),
        ("no events", f"declared by {version.declared_empty_by}" if version.declared_empty_by else None),
        *zip(PEOPLE, people(version), strict=True),
        ("equal again in", ", ".join(found.run_id for found in version.verified_by)),
        ("undone", undone_text(version.undone)),
        ("run", run_ref(version.claim.run_id)),
        ("kept rows", _kept(version)),
        ("code", code),
        ("staged with", ", ".join(f"{name} {each}" for name, each in sorted(staged_with.items()))),
        ("references", references_described(manifest.references)),
        ("inputs", _inputs(version.claim.provenance)),
        *several("what they do now", map(_on_day, version.imports)),
        ("checks", _checks(version.checks)),
        ("replaced", f"version {version.claim.replaces}" if version.claim.replaces else "nothing"),
        ("to undo it", version.undo),
    )


PEOPLE = ("asked, agreed", "ran, published")
"""What the people did who brought a version to readers."""


def people(version: VersionHistory) -> tuple[str, str]:
    """Who they are, in the order of `PEOPLE`."""
    asked, agreed = version.manifest.requested_by, version.approved_by
    return f"{asked}, {agreed}", f"{version.ran_by}, {version.published_by}"


def _code(manifest: Manifest) -> str:
    return f"{manifest.transform} {manifest.transform_version}; sha256 {manifest.code_digest[:16]}"


def _kept(version: VersionHistory) -> Value:
    """Such as `all but region=N, as in version 2: run bf-1, release 1.0.0`."""
    kept = version.kept
    if kept is None:
        return None
    which = kept_words(version.manifest.publish)
    return words(f"{which}, as in version {kept.version}: run ", run_ref(kept.run_id), f", release {kept.release}")


def seen_text(version: VersionHistory) -> Value:
    """From when until when readers saw a version, each time."""
    return joined((words("from ", each.since, " until ", each.until or "now") for each in version.seen), ", and ")


def undone_text(rollback: PublicationHeader | None) -> Value:
    """Who rolled a version back, when and why."""
    return words(f"by {rollback.by} at ", rollback.finished_at, f": {rollback.reason}") if rollback else None


def _checks(checks: Sequence[GateResult]) -> str:
    failed = [check.gate for check in checks if not check.passed]
    return f"{len(checks) - len(failed)} passed" + (f", failed: {', '.join(failed)}" if failed else "")


def _on_day(found: ImportOnDay) -> str:
    """Such as `imp-000003, late.jsonl: 12 records; moves 2 keys to other days`."""
    day, landed = found.day, found.landed
    verbs = (
        (day.displaced, "moves", "key", "to other days"),
        (day.deleted, "ends", "version", "by deletes"),
        (day.withdrawn, "withdraws", "key", ""),
        (day.restored, "restores", "key", ""),
    )
    parts = [count_of(day.events, "record")] if day.events else []
    parts += [f"{verb} {count_of(many, what)} {how}".rstrip() for many, verb, what, how in verbs if many]
    why = f" ({landed.landed_by}: {landed.note})" if landed.note else ""
    return (
        f"{day.import_id}, {landed.original_path.rpartition('/')[2]}: {'; '.join(parts) or 'nothing of this day'}{why}"
    )


def _inputs(provenance: Provenance) -> str:
    match provenance:
        case SourceProvenance(imports=imports):
            return ", ".join(f"{import_id} (sha256 {sha256[:12]})" for import_id, sha256 in imports) or "no landed file"
        case DerivedProvenance(inputs=inputs):
            return ", ".join(f"{table} (digest of what was read: {digest[:16]})" for table, digest in inputs.items())
        case OtherProvenance():
            return ""
