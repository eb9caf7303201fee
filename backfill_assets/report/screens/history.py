"""History of a table, of a partition and of one row of it: what readers saw, since when, and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.provenance import DerivedProvenance, OtherProvenance, Provenance, SourceProvenance
from backfill_assets.ledger.records import PublicationHeader
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.history import ImportOnDay, PartitionHistory, TableHistory, VersionHistory
from backfill_assets.report.page import (
    Code,
    Facts,
    Items,
    Note,
    Page,
    Section,
    Table,
    Tone,
    Toned,
    Value,
    facts,
    joined,
    page,
    partition_ref,
    place_ref,
    run_ref,
    section,
    several,
    table,
    words,
)
from backfill_assets.report.row_history import KeyList, RowHistory, RowVersion
from backfill_assets.report.screens.publications import publications_table
from backfill_assets.report.screens.runs import state_of
from backfill_assets.report.screens.shadow import times_shown
from backfill_assets.report.screens.staleness import stale_note
from backfill_assets.report.values import key_text, text_of
from backfill_assets.report.words.changes import WORDS
from backfill_assets.report.words.plans import gate_references_described, kept_words, references_described
from backfill_assets.report.words.states import MEANING
from backfill_assets.report.words.verdicts import verdict_words


def history_page(history: TableHistory) -> Page:
    """The page on the history of a table."""
    found, earlier = history.table, history.earlier_publications
    return page(
        found.table,
        facts(
            ("table", found.table),
            ("path", found.path),
            ("accepted", f"{found.accepted}; {count_of(found.accepted_rows, 'row')}"),
            ("not shown", count_of(earlier, "earlier publication") if earlier else None),
        ),
        times_shown(found.table, history.name, history.shown),
        section("Publications", publications_table(history.publications, of_one_table=True)),
    )


def partition_page(history: PartitionHistory) -> Page:
    """The versions of one partition, each with where it came from."""
    named = f"{history.table} {history.described}"
    return page(named, facts(("partition", named)), *map(_version, history.versions))


def _version(version: VersionHistory) -> Facts:
    manifest = version.manifest
    staged_with = version.versions.staged or version.versions.planned
    return facts(
        (f"version {version.claim.version}", state_of(version.claim.state, MEANING[version.claim.state])),
        ("rows", f"{version.claim.rows:,}; equal rows have this checksum too: {version.claim.checksum}"),
        (
            WORDS[type(manifest.change)].seen,
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
        ("code", _code(manifest) if manifest.computed else None),
        ("staged with", ", ".join(f"{name} {each}" for name, each in sorted(staged_with.items()))),
        ("references", references_described(manifest.references)),
        ("read by gates", gate_references_described(version.gate_references)),
        ("inputs", _inputs(version.claim.provenance)),
        *several("what they do now", map(_on_day, version.imports)),
        ("checks", _checks(version.checks)),
        ("replaced", f"version {version.claim.replaces}" if version.claim.replaces else "nothing"),
        ("to undo it", version.undo),
    )


PEOPLE = ("asked, agreed", "ran, published")
"""What the people did who brought a version to readers."""


def people(version: VersionHistory) -> tuple[str, str]:
    """The names of people, in the order of `PEOPLE`."""
    asked, agreed = version.manifest.requested_by, version.approved_by
    return f"{asked}, {agreed}", f"{version.ran_by}, {version.published_by}"


def _code(manifest: Manifest) -> str:
    return f"{manifest.transform} {manifest.transform_version}; sha256 {manifest.code_digest[:16]}"


def _kept(version: VersionHistory) -> Value:
    """Such as `all but region=N, as in version 2: run bf-1, release 1.0.0`."""
    kept = version.kept
    if kept is None:
        return None
    which = kept_words(version.manifest.change)
    return words(f"{which}, as in version {kept.version}: run ", run_ref(kept.run_id), f", release {kept.release}")


def seen_text(version: VersionHistory) -> Value:
    """From when until when readers saw a version, each time."""
    return joined((words("from ", each.since, " until ", each.until or "now") for each in version.seen), ", and ")


def undone_text(rollback: PublicationHeader | None) -> Value:
    """A text on a rollback of a version: who, when and why."""
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
        (day.unknown, "has rejected newer records of", "key", "of this day"),
    )
    parts = [count_of(day.events, "record")] if day.events else []
    parts += [f"{verb} {count_of(many, what)} {how}".rstrip() for many, verb, what, how in verbs if many]
    why = f" ({landed.landed_by}: {landed.note})" if landed.note else ""
    return f"{day.import_id}, {landed.name}: {'; '.join(parts) or 'nothing of this day'}{why}"


def _inputs(provenance: Provenance) -> str:
    match provenance:
        case SourceProvenance(imports=imports):
            return ", ".join(f"{import_id} (sha256 {sha256[:12]})" for import_id, sha256 in imports) or "no landed file"
        case DerivedProvenance(inputs=inputs):
            return ", ".join(f"{table} (digest of what was read: {digest[:16]})" for table, digest in inputs.items())
        case OtherProvenance():
            return ""


RowAddress = Callable[[Mapping[str, str]], str]
"""The address of the row of a key."""

_SHORT = 12


def ask_page() -> Page:
    """The page that answers a question about the history of a row."""
    text = (
        "A row in every version that its partition ever had: what changed, which run computed it, from which release, "
        "references and landed files, and who approved it."
    )
    return page("Where did this number come from?", Note(text=text))


def keys_page(found: KeyList, address: RowAddress) -> Page:
    """Some keys of a partition, and its versions."""
    history = found.history
    links = tuple(place_ref(address(key), key_text(key)) for key in found.keys)
    none = Note(text=f"No keys can be shown: {found.problem}", tone=Tone.ATTENTION) if found.problem else None
    return page(
        f"{history.table} {history.described}", section("Some keys", Items(items=links), none), _versions(history)
    )


def _versions(history: PartitionHistory) -> Section | None:
    rows = [
        (
            each.claim.version,
            state_of(each.claim.state),
            each.claim.rows,
            seen_text(each),
            run_ref(each.claim.run_id),
            _release(each),
            *people(each),
            words(each.manifest.reason, Toned(value=words(" undone ", undone_text(each.undone)), tone=Tone.SOFT))
            if each.undone
            else each.manifest.reason,
        )
        for each in history.versions
    ]
    heads = ["version", "state", "rows", "readers saw it", "run", "release", *PEOPLE, "reason"]
    return section("Versions", table(heads, rows, numbers=["version", "rows"], whole=["state", "run"]))


def row_page(row: RowHistory, trace: str) -> Page:
    """A row in every version of its partition, the newest on the left.

    Args:
        trace: The address of what its present values were computed from.
    """
    history = row.history
    others = partition_ref(history.table, history.partition, "Other keys of this partition")
    legend = "The newest version comes first. A value that differs from the version before is marked with \u2260. "
    return page(
        f"{history.table} {history.described}{f': {key_text(row.key)}' if row.key else ''}",
        stale_note(history.table, row.stale),
        Note(text=words(legend, others), tone=Tone.SOFT),
        Note(text=place_ref(trace, "From this number to its request, the rows of its inputs, and landed records")),
        _values(row),
        section("Behind it", _behind(row)),
    )


def _values(row: RowHistory) -> Table:
    versions = row.versions
    lines: list[tuple[Value, ...]] = [
        ("state", *(state_of(v.version.claim.state, MEANING[v.version.claim.state]) for v in versions))
    ]
    if any(each.found for each in versions):
        lines.append(("row", *(each.found or "found" for each in versions)))
    changed = [
        (place, column)
        for place, name in enumerate(row.columns, start=len(lines))
        for column, each in enumerate(versions, start=1)
        if name in each.changed
    ]
    lines += [(name, *(_value(name, each) for each in versions)) for name in row.columns]
    return table(_heads(row), lines, changed=changed, headed=True)


def _heads(row: RowHistory) -> list[str]:
    return ["", *(f"version {each.version.claim.version}" for each in row.versions)]


def _value(name: str, row: RowVersion) -> Value:
    if row.values is None:
        return Toned(value="not known", tone=Tone.SOFT)
    value = row.values.get(name)
    shown: Value = Toned(value="null", tone=Tone.SOFT) if value is None else value
    return words("\u2260 ", shown) if name in row.changed else shown


def _behind(row: RowHistory) -> Table:
    """The inputs behind each version, a line for each kind of thing; the lineage of rows only where they have it."""
    values: dict[str, Callable[[RowVersion], Value]] = {
        "readers saw it": _seen,
        "run": lambda row: run_ref(row.version.claim.run_id),
        "kind": lambda row: row.version.manifest.kind,
        "reason": lambda row: row.version.manifest.reason,
        "requested by": lambda row: row.version.manifest.requested_by,
        "approved by": lambda row: row.version.approved_by,
        "run by": lambda row: row.version.ran_by,
        "published by": lambda row: row.version.published_by,
        "release": lambda row: _release(row.version),
        "references": lambda row: joined(f"{each.name} {each.version}" for each in row.version.manifest.references),
        "read by gates": lambda row: gate_references_described(row.version.gate_references),
        "landed files": _landed,
        "verified by": lambda row: joined(run_ref(each.run_id) for each in row.version.verified_by),
        "gates that failed": lambda row: joined(
            (f"{gate.gate}: {verdict_words(gate)}" for gate in row.version.checks if not gate.passed), "; "
        ),
        "checksum of all rows": lambda row: Code(row.version.claim.checksum),
        "manifest, code": lambda row: joined(
            map(_short, (row.version.manifest.digest, row.version.manifest.code_digest))
        ),
        "lineage of the row": _lineage,
    }
    lines = [(name, *map(value_of, row.versions)) for name, value_of in values.items()]
    return table(_heads(row), [line for line in lines if any(map(text_of, line[1:]))], headed=True)


def _seen(row: RowVersion) -> Value:
    version = row.version
    undone = (", undone ", undone_text(version.undone)) if version.undone else ()
    return words(seen_text(version), *undone)


def _landed(row: RowVersion) -> Value:
    if row.landed_count is None:
        return "not known"
    files: list[Value] = [
        Toned(
            value=Code(file.name),
            tone=Tone.PLAIN,
            hint=f"{file.import_id}, sha256 {file.sha256}, landed by {file.landed_by}",
        )
        for file in row.landed
    ]
    more = row.landed_count - len(files)
    return joined([*files, *([f"and {more:,} more"] if more else [])])


def _short(digest: str) -> Value:
    """The beginning of a digest, and the whole of it where there is room."""
    return Toned(value=Code(f"{digest[:_SHORT]}\u2026"), tone=Tone.PLAIN, hint=digest)


def _lineage(row: RowVersion) -> Value:
    return joined(words(f"{name}: ", Code(value)) for name, value in row.lineage.items() if value is not None)


def _release(version: VersionHistory) -> str:
    return f"{version.manifest.transform} {version.manifest.transform_version}"
