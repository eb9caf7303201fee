"""History of a table and of a partition: its publications, its versions, and the origin of every number in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import zip_longest

from backfill_assets.calendar.partitions import (
    Grain,
    Partitions,
    count_of,
    days_named,
    partition_of,
    partition_text,
    partitions_over,
)
from backfill_assets.core.columns import RUN_ID
from backfill_assets.core.errors import BackfillError, InvalidRange, Refused
from backfill_assets.core.next_steps import NextStep
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.lake.row_values import Texts, rows_with_key, some_keys
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.imports import ImportDay, ImportRecord
from backfill_assets.ledger.provenance import DerivedProvenance, OtherProvenance, Provenance, SourceProvenance
from backfill_assets.ledger.records import EventRecord, PartitionVersion, Period, PublicationHeader, RunRecord
from backfill_assets.ledger.states import PublicationState, VersionState
from backfill_assets.ledger.table_acts import ShownPeriod
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import NeverPublished
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest import lineage as lineage_of
from backfill_assets.planning.manifest_parts import PinnedReference, Reason
from backfill_assets.report.documents import INLINE
from backfill_assets.report.errors import Malformed, NotGiven, NotOfKey, WordWithoutValue
from backfill_assets.report.landed_behind import LandedBehind
from backfill_assets.report.page import (
    Code,
    Facts,
    Items,
    Note,
    Page,
    Section,
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
from backfill_assets.report.page import Table as TableBlock
from backfill_assets.report.publications import PublicationDocument, publication_documents, publications_table
from backfill_assets.report.releases import KeptRows, kept_rows, references_read_by_gates
from backfill_assets.report.report import RunVersions, is_approval, run_versions
from backfill_assets.report.runs import state_of
from backfill_assets.report.stale import reasons_of, stale_note
from backfill_assets.report.status import TableStatus, table_status
from backfill_assets.report.values import key_text, text_of
from backfill_assets.report.versions import times_shown
from backfill_assets.report.what_next import how_to_undo, published_together
from backfill_assets.report.words.plans import gate_references_described, kept_words, references_described
from backfill_assets.report.words.stages import WORDS
from backfill_assets.report.words.states import MEANING
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace

MOST_PUBLICATIONS = 100
SHOWN = tuple(state for state in PublicationState if state is not PublicationState.ABANDONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """A table, and everything that changed it."""

    table: TableStatus = field(metadata=INLINE)  #: What readers see of it now.
    publications: tuple[PublicationDocument, ...]  #: The latest hundred publications and rollbacks, in order.
    earlier_publications: int = 0  #: How many there were before these; `--partition` shows all that a partition had.
    #: Of a version of a table, or of a table that has versions, the table whose readers are cut over; else null.
    name: str | None = None
    #: When the readers of `name` were shown this table, in order; empty without `name`.
    shown: tuple[ShownPeriod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOnDay:
    """The effect of one landed file or statement on one day of its source."""

    day: ImportDay  #: What of the day it brings, moves, deletes, withdraws and restores.
    landed: ImportRecord  #: The file or the statement.


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHistory:
    """One version of a partition, and where it came from."""

    claim: PartitionVersion = field(metadata=INLINE)  #: The version.
    manifest: Manifest = field(metadata=INLINE)  #: The manifest of the run that computed it.
    declared_empty_by: str | None  #: Who declared that nothing happened in it, or null.
    approved_by: str | None  #: Who approved it last, even if a rollback has withdrawn the approval; null without one.
    ran_by: str | None  #: Who computed its run last.
    published_by: str  #: Who published it.
    kept: KeptRows | None  #: Whose rows its run kept, where it changes only some; null otherwise.
    versions: RunVersions  #: What its run was planned and staged with.
    #: For a source table, what each of these files does to this day: its records, and keys that it moves, deletes,
    #: withdraws or restores; empty for a derived table.
    imports: tuple[ImportOnDay, ...]
    checks: tuple[GateResult, ...]  #: Its gate results.
    #: The references that only its gates have read, in the versions that they met.
    gate_references: tuple[PinnedReference, ...] = ()
    #: The publications of runs that computed it again and found it equal, the latest first.
    verified_by: tuple[PublicationHeader, ...]
    undone: PublicationHeader | None  #: The rollback that took it back; null when it was not rolled back.
    #: When readers saw it, in order: a version that a rollback restored is there twice. Of one that says that the
    #: snapshot has expired, when they saw none.
    seen: tuple[Period, ...]
    #: What undoes it; null when readers do not see it, and it does not say either that they see none.
    undo: NextStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """Everything that a partition has been."""

    table: str  #: Its table.
    partition: date  #: Its first day.
    grain: Grain  #: Whether it is a day or a month.
    versions: tuple[VersionHistory, ...]  #: The newest first.

    @property
    def described(self) -> str:
        return partition_text(self.grain, self.partition)


def table_history(ws: Workspace, table: str) -> TableHistory:
    """The latest publications and rollbacks of a table in order, and what readers see now."""
    declared = ws.domain.table(table)
    with ws.ledger.read() as tx:
        headers = tx.publications.headers(table=declared.name, states=SHOWN, limit=MOST_PUBLICATIONS)
        name, shown = readers_and_periods(ws, tx, declared)
        return TableHistory(
            table=table_status(ws, tx, declared.name),
            publications=publication_documents(ws, tx, headers[::-1]),
            earlier_publications=tx.publications.count(table=declared.name, states=SHOWN) - len(headers),
            name=name,
            shown=shown,
        )


def readers_and_periods(ws: Workspace, tx: ReadTransaction, table: Table) -> tuple[str | None, tuple[ShownPeriod, ...]]:
    """The table whose readers can be shown this one or another, and when they were shown this one, in order; None for a
    table without versions."""
    name = (table.version_of if isinstance(table, DerivedTable) else None) or table.name
    return (name, tx.acts.periods_shown(name, table.name)) if name in ws.domain.names_with_versions else (None, ())


def partition_history(ws: Workspace, table: str, day: date) -> PartitionHistory:
    """Every version a partition ever had, newest first, each with where it came from.

    Raises:
        MissingInput: The partition has never had a version.
    """
    declared = ws.domain.table(table)
    partition = partition_of(declared.partition.grain, day)
    with ws.ledger.read() as tx:
        versions = tx.versions.history(declared.name, partition)
        periods = tx.publications.periods(declared.name, partition)
        found = tuple(_version_history(ws, tx, version, tx.runs.get(version.run_id), periods) for version in versions)
        if not found:
            raise never_published(tx, declared, partition)
    return PartitionHistory(table=declared.name, partition=partition, grain=declared.partition.grain, versions=found)


def never_published(tx: ReadTransaction, table: Table, partition: date) -> NeverPublished:
    """The refusal of a partition that never had a version, with the first and the last one that ever had."""
    ever = tx.versions.extents().get(table.name)
    return NeverPublished(table=table.name, partitions=Partitions.of(table.partition.grain, [partition]), ever=ever)


def _version_history(
    ws: Workspace, tx: ReadTransaction, version: PartitionVersion, run: RunRecord, periods: Sequence[Period]
) -> VersionHistory:
    manifest, events = run.manifest, tuple(tx.events.entries(entity_id=run.run_id))
    publication = tx.publications.header(version.publication_id)
    return VersionHistory(
        claim=version,
        manifest=manifest,
        declared_empty_by=manifest.requested_by if version.partition in manifest.change.declared_empty else None,
        approved_by=approver_of(run, events, publication),
        ran_by=tx.events.ran_by([run.run_id]).get(run.run_id),
        published_by=publication.by,
        kept=kept_rows(tx, manifest, version.partition),
        versions=run_versions(run, events),
        imports=_imports(tx, version),
        checks=_checks(tx, version),
        gate_references=references_read_by_gates(tx, run.run_id),
        verified_by=tx.publications.verifying(version.table, version.partition, version.version),
        undone=_undone(tx, version),
        seen=tuple(each for each in periods if each.version == version.version),
        undo=undo_of(ws, tx, version, run),
    )


def _imports(tx: ReadTransaction, version: PartitionVersion) -> tuple[ImportOnDay, ...]:
    if not isinstance(version.provenance, SourceProvenance):
        return ()
    read = [import_id for import_id, _ in version.provenance.imports]
    days = tx.imports.days(read, days=[version.partition]) if read else ()
    return tuple(ImportOnDay(day=day, landed=tx.imports.get(day.import_id)) for day in days)


def undo_of(ws: Workspace, tx: ReadTransaction, version: PartitionVersion, run: RunRecord) -> NextStep | None:
    """The command that undoes the publication of a version by its run; None when readers do not see it."""
    standing = tx.versions.standing(version.table, [version.partition]).get(version.partition)
    if standing is None or standing.version != version.version:
        return None
    return how_to_undo(ws, tx, run.request_id, published_together(tx, run))


def _checks(tx: ReadTransaction, version: PartitionVersion) -> tuple[GateResult, ...]:
    results = tx.candidates.gate_results(version.run_id)
    return tuple(found for found in results if found.partition == version.partition)


def _undone(tx: ReadTransaction, version: PartitionVersion) -> PublicationHeader | None:
    if version.state is not VersionState.ROLLED_BACK:
        return None
    made = tx.publications.headers(run_id=version.run_id)
    return next((each for each in made if each.undoes == version.publication_id and each.finished_at), None)


def approver_of(run: RunRecord, events: Iterable[EventRecord], publication: PublicationHeader) -> str | None:
    """The last approver of a run when a publication of it was begun, by its events: after a rollback, another person
    may approve it again."""
    approvals = [event for event in events if is_approval(event)]
    before = [event for event in approvals if event.sequence < publication.sequence]
    return before[-1].actor if before else None if approvals else run.approved_by


# History of a row: the values of one key in every version that its partition ever had, side by side.

MOST_KEYS = 25
"""How many keys of a partition are offered to a reader who has none."""

MOST_FILES = 20
"""How many landed files are named."""

_MOST_ROWS = 3
_QUOTED = 100
_LINEAGE = "_"
"""The columns of lineage begin with it; they differ from version to version, and are no values of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """The row in one version of its partition."""

    version: VersionHistory  #: The version, and where it came from.
    #: By column, as text or null; null when the version has no such row, or it cannot be read.
    values: Mapping[str, str | None] | None
    #: By column of lineage, what the row says of its origin, and what its run says where the row does not.
    lineage: Mapping[str, str | None]
    changed: tuple[str, ...]  #: The columns whose values differ from those of the version before.
    found: str | None  #: What was found, in a sentence; null when there is exactly one row.
    #: The landed files behind the version, those that are not behind the version before first; twenty at most.
    landed: tuple[ImportRecord, ...]
    landed_count: int | None  #: How many these are; null when that cannot be found out.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistory:
    """One row in every version of its partition."""

    history: PartitionHistory  #: The versions of its partition.
    key: Mapping[str, str]  #: By column, the value that was asked for.
    #: Why the present version does not follow from the present any more; empty where it does.
    stale: tuple[Reason, ...]
    columns: tuple[str, ...]  #: The columns of values, in the order of the table.
    versions: tuple[RowVersion, ...]  #: The newest first.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """Keys of a partition."""

    history: PartitionHistory  #: The versions of the partition.
    key_columns: tuple[str, ...]  #: The columns of the key, without the partition's.
    #: By column, the values of some keys, of the newest version whose files are there.
    keys: tuple[Mapping[str, str], ...]
    problem: str | None  #: Why there are none, or null.


def key_columns(ws: Workspace, table: str) -> tuple[str, ...]:
    """The columns that name a row within its partition."""
    declared = ws.domain.table(table)
    return tuple(name for name in declared.key if name != declared.partition.column)


def chosen_key(ws: Workspace, table: str, partition: date, key: Mapping[str, str]) -> Mapping[str, str]:
    """A complete key of a row within its partition, from what a reader has typed.

    Raises:
        Refused: A column is not of the key, one of the key is not given, or that of the partition names another one.
    """
    declared, wanted = ws.domain.table(table), key_columns(ws, table)
    column, grain = declared.partition.column, declared.partition.grain
    if column in key and not _names(grain, partition, key[column]):
        named = partition_text(grain, partition)
        raise Malformed(
            what=column,
            value=key[column][:_QUOTED],
            form=f"the partition {named}",
            example=f"{column}={named}, or leave it out",
        )
    given = {name: value for name, value in key.items() if name != column}
    if strange := [name for name in given if name not in wanted]:
        raise NotOfKey(table=declared.name, column=strange[0][:_QUOTED], key=wanted)
    if lacking := [name for name in wanted if name not in given]:
        raise NotGiven(
            why=f"a key of {declared.name} is {', '.join(wanted)}, and {', '.join(lacking)} is not given",
            add=" ".join(f"{name}=VALUE" for name in lacking),
        )
    return {name: given[name] for name in wanted}


def _names(grain: Grain, partition: date, text: str) -> bool:
    """True if a text names a partition, or days of it."""
    with suppress(InvalidRange):
        return partitions_over(grain, days_named(text)) == (partition,)
    return False


def word_without_value(ws: Workspace, table: str, day: date, word: str) -> WordWithoutValue:
    """The refusal of a word that is no `COLUMN=VALUE`, with the key of a row of the partition as an example."""
    found = keys_of(ws, table, day)
    example = found.keys[0] if found.keys else dict.fromkeys(found.key_columns, "VALUE")
    return WordWithoutValue(table=found.history.table, word=word, example=tuple(example.items()))


def keys_of(ws: Workspace, table: str, day: date) -> KeyList:
    """Some keys of a partition, to choose from."""
    history = partition_history(ws, table, day)
    columns, problem = key_columns(ws, history.table), None
    with ws.ledger.read() as tx:
        versions = tx.versions.history(history.table, history.partition)
    for version in versions:
        try:
            found = some_keys(ws.lake, history.table, version.files, columns, most=MOST_KEYS)
        except BackfillError as error:
            problem = problem or error.message
            continue
        keys = sorted({tuple(row[name] or "" for name in columns) for row in found})
        if keys:
            chosen = tuple(dict(zip(columns, key, strict=True)) for key in keys)
            return KeyList(history=history, key_columns=columns, keys=chosen, problem=None)
    return KeyList(history=history, key_columns=columns, keys=(), problem=problem or "no version has rows")


def row_history(ws: Workspace, table: str, day: date, key: Mapping[str, str]) -> RowHistory:
    """The row of a key in every version that its partition ever had.

    Raises:
        UnknownName: There is no such table.
        MissingInput: The partition has never had a version.
        InvalidRange: A value is not of its column's type.
        Refused: As of `chosen_key`.
    """
    history = partition_history(ws, table, day)
    chosen = chosen_key(ws, history.table, history.partition, key)
    with ws.ledger.read() as tx:
        versions = tx.versions.history(history.table, history.partition)
        behind = LandedBehind(ws=ws, tx=tx)
        landed = [_landed(tx, behind, version, before) for version, before in zip_longest(versions, versions[1:])]
        stale = reasons_of(ws, tx, history.table, history.partition)
    read = [_read(ws, version, chosen) for version in versions]
    before = [values for values, _, _ in read[1:]] + [None]
    manifests = _manifests(ws, {lineage[RUN_ID] for _, lineage, _ in read if lineage.get(RUN_ID)})
    documents = {each.claim.version: each for each in history.versions}
    return RowHistory(
        history=history,
        key=chosen,
        stale=stale,
        columns=_columns(ws, history.table, [values for values, _, _ in read]),
        versions=tuple(
            RowVersion(
                version=documents[version.version],
                values=values,
                lineage=_with_that_of_run(lineage, manifests),
                changed=_changed(values, earlier),
                found=found,
                landed=files,
                landed_count=count,
            )
            for version, (values, lineage, found), earlier, (files, count) in zip(
                versions, read, before, landed, strict=True
            )
        ),
    )


def _read(ws: Workspace, version: PartitionVersion, key: Mapping[str, str]) -> tuple[Texts | None, Texts, str | None]:
    """The values of a row in a version, those of its lineage, and what is to be known of them."""
    if version.removed_at is not None:
        return None, {}, f"retention removed its files on {version.removed_at:%Y-%m-%d}; its checksum is still known"
    try:
        rows = rows_with_key(ws.lake, version.table, version.files, key, most=_MOST_ROWS)
    except InvalidRange:
        raise  # What the reader has typed, and not what became of the files.
    except BackfillError as error:
        return None, {}, error.message
    if not rows:
        return None, {}, "no row has this key in this version"
    values = business_values(rows[0])
    lineage = {name: value for name, value in rows[0].items() if name not in values}
    return values, lineage, None if len(rows) == 1 else f"{count_of(len(rows), 'row')} have this key; this is the first"


def business_values(row: Texts) -> Texts:
    """The values of a row without those of its lineage."""
    return {name: value for name, value in row.items() if not name.startswith(_LINEAGE)}


def _manifests(ws: Workspace, run_ids: Collection[str | None]) -> Mapping[str | None, Manifest]:
    with ws.ledger.read() as tx:
        return {run.run_id: run.manifest for run in tx.runs.named(sorted(map(str, run_ids)))}


def _with_that_of_run(found: Texts, manifests: Mapping[str | None, Manifest]) -> Texts:
    """The lineage of a row that was found: rows say what is not the same in all rows of their run, and may say more."""
    manifest = manifests.get(found.get(RUN_ID))
    said = {name: value for name, value in found.items() if value is not None}
    return {**lineage_of(manifest), **said} if manifest else said


def _columns(ws: Workspace, table: str, found: Sequence[Texts | None]) -> tuple[str, ...]:
    """The columns of the table as it is declared, and those that only earlier versions have."""
    declared = ws.domain.table(table)
    stored = [name for values in found if values for name in values]
    names = dict.fromkeys((*declared.schema.fieldNames(), *stored))
    return tuple(name for name in names if name != declared.partition.column)


def _changed(values: Texts | None, earlier: Texts | None) -> tuple[str, ...]:
    if values is None or earlier is None:
        return ()
    return tuple(name for name in values if values[name] != earlier.get(name))


def _landed(
    tx: ReadTransaction, behind: LandedBehind, version: PartitionVersion, before: PartitionVersion | None
) -> tuple[tuple[ImportRecord, ...], int | None]:
    try:
        known = set(behind.imports(before)) if before else ()
        imports = sorted(behind.imports(version), key=lambda import_id: import_id in known)
        return tuple(tx.imports.get(import_id) for import_id in imports[:MOST_FILES]), len(imports)
    except Refused:
        return (), None  # A manifest of a run behind it cannot be read: an audit says which.


# History of a table, of a partition and of one row of it: what readers saw, since when, and where it came from.


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
        ("checks", _checks_block(version.checks)),
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


def _checks_block(checks: Sequence[GateResult]) -> str:
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


def _values(row: RowHistory) -> TableBlock:
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


def _behind(row: RowHistory) -> TableBlock:
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
        "landed files": _landed_block,
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


def _landed_block(row: RowVersion) -> Value:
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
