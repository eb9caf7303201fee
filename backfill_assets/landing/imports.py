"""Imports in the ledger: which count, how their files were read, by which version of the contract, and which keys they
leave unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import Any

from pyspark.sql.types import StructField, StructType

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, count_of
from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.identity import document_digest
from backfill_assets.core.next_steps import NAME, Command, NextStep, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.domain.contracts import name_at
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import KeysUnknown
from backfill_assets.planning.next_steps import joined, loads, plan_again

# How the records of a landed file are read, as one text that an import keeps, and which are read otherwise now.
#
# The text is of the version of the contract in which the records are kept, so that another version says nothing
# about them. It has two digests: of the columns and of how whole files are written, and of what is declared
# column by column, which a later version cannot tell any more of a column that it has dropped.

DECODER_VERSION = 1
"""Raised whenever the same bytes in the same dialect become other records: imports were read by an earlier one then."""

PLAIN_VERSION = 0
"""The same for files without a declared dialect: JSON lines, plain CSV and Parquet, also with INT96, with columns that
Arrow decodes, and packed."""

_DIGITS = 30
"""Of each digest: the ledger keeps 64 characters."""

_KIND = "2"
"""Of the text; before it was one digest, which knew nothing of the columns."""


def reading_digest(source: SourceTable) -> str:
    """The digest of what decides which records the bytes of a file are in the present version of a contract: their
    columns, how files are written, and the decoder."""
    parts = (_of_files(source) | _contract(source), _by_column(source))
    return ":".join([_KIND, *(document_digest(part)[:_DIGITS] for part in parts)])


def reads_otherwise(source: SourceTable) -> Callable[[ImportRecord], bool]:
    """Tells of landed files of a source whether their bytes would become other records now, by what is declared.

    It is so of a file that was read as an earlier version of the contract and has columns that a later one knows. Of
    files that earlier releases landed it is not known, and False.
    """
    known = frozenset(str(part) for parts in source.places.values() for part in parts)

    @cache
    def declared(version: int) -> tuple[str, str]:
        of = source.at(version)
        in_full = {"reads": _in_full(of.reads), "envelope": _in_full(of.envelope)}
        return reading_digest(of), document_digest(_of_files(of) | _by_column(of) | in_full)

    def otherwise(record: ImportRecord) -> bool:
        if record.reading is None or record.contract > source.contract_version:
            return False
        if record.contract < source.contract_version and known.intersection(record.ignored_columns):
            return True
        now, before = declared(record.contract)
        if not record.reading.startswith(f"{_KIND}:"):
            return record.reading != before
        if _drops(source, record.contract):
            return record.reading.rpartition(":")[0] != now.rpartition(":")[0]
        return record.reading != now

    return otherwise


def are_comparable(one: str, other: str) -> bool:
    """True if two texts are of one kind, so that they differ only where the declarations do."""
    return one.count(":") == other.count(":")


def without_comments(schema: StructType) -> StructType:
    """The columns without what their author says about them, which changes no row."""
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {key: v for key, v in f.metadata.items() if key != "comment"})
            for f in schema.fields
        ]
    )


def _of_files(source: SourceTable) -> dict[str, object]:
    return {
        "reads": _declared(source.reads),
        "decoder": DECODER_VERSION if source.reads is not None else PLAIN_VERSION,
        "timezone": source.timezone,
        "repeated_hour": source.repeated_hour,
        "ahead": str(source.ahead),
        "planned": source.planned,
        "rounds": source.rounds,
        "envelope": _declared(source.envelope),
    }


def _contract(source: SourceTable) -> dict[str, object]:
    lifts = {version: source.lift_from(version) for version in source.earlier}
    return {
        "schema": without_comments(source.schema).json(),
        "earlier": {str(version): without_comments(schema).json() for version, schema in source.earlier.items()},
        "lifts": {
            str(version): [_pairs(lift.renamed), _pairs(lift.defaults), sorted(lift.dropped)]
            for version, lift in lifts.items()
        },
        "key": list(source.key),
        "order": list(source.order),
        "event_time": source.event_time,
        "operation": asdict(source.operation) if source.operation else None,
    }


def _by_column(source: SourceTable) -> dict[str, object]:
    return {
        "columns": _pairs(source.columns),
        "earlier_columns": {str(version): _pairs(names) for version, names in source.earlier_columns.items()},
        "formats": _pairs(source.formats),
        "json_columns": sorted(source.json_columns),
        "bounds": {column: dict(named) for column, named in source.bounds.items()},
    }


def _drops(source: SourceTable, version: int) -> bool:
    """True if the present version lacks a column of an earlier one, so that nothing is declared about it any more."""
    kept = {name_at(source, column, version) for column in source.schema.fieldNames()}
    return not kept.issuperset(source.at(version).schema.fieldNames())


def _declared(value: Any) -> list[list[str]]:
    """The choices that an author has made; a choice that a later release adds, and that nobody has made, is none."""
    if value is None:
        return []
    chosen = {each.name: getattr(value, each.name) for each in fields(value)}
    defaults = {each.name: each.default for each in fields(value) if each.default is not MISSING}
    return [
        [type(value).__name__],
        *_pairs({name: each for name, each in chosen.items() if each != defaults.get(name)}),
    ]


def _in_full(value: object) -> str:
    """The full text of the declaration for texts of the earlier kind: every choice that existed then."""
    return repr(value).replace(", letters=False", "")


def _pairs(declared: Mapping[Any, object]) -> list[list[str]]:
    return sorted([repr(name), repr(value)] for name, value in declared.items())


# Imports that count, and those from which the rows of a day of bronze are built, by the ledger.

LOAD, LOAD_VERSION = "load", "1"
"""The transform that builds every source table, as manifests name it."""

_UNFINISHED = (ImportState.LANDING, ImportState.FAILED)


class OnDuplicate(StrEnum):
    """The treatment of a file whose content was landed before."""

    IGNORE = "ignore"
    REPROCESS = "reprocess"
    CORRECT = "correct"
    REJECT = "reject"


def contract_of(source: SourceTable) -> Mapping[str, str]:
    """The digest of an author's declarations about a record, on which the rows of a source table depend."""
    contract: dict[str, object] = {
        "schema": without_comments(source.schema).json(),
        "key": list(source.key),
        "event_time": source.event_time,
    }
    if source.order:
        contract |= {"order": list(source.order), "ties": str(source.ties)}
    if source.unknown == UnknownKeys.DROP:
        contract["unknown"] = str(source.unknown)
    if source.operation is not None:
        contract["operation"] = asdict(source.operation)
    return {"contract": document_digest(contract)}


def read_otherwise(tx: ReadTransaction, source: SourceTable) -> tuple[ImportRecord, ...]:
    """The files of a source whose records were read by another declaration than the present one, in their order.

    Of those that earlier releases landed it is not known: their `reading` is None.
    """
    otherwise = reads_otherwise(source)
    return tuple(each for each in landed_files_of(tx, source) if each.reading is None or otherwise(each))


def landed_files_of(tx: ReadTransaction, source: SourceTable) -> tuple[ImportRecord, ...]:
    """The landed files of a source that can be read anew, in their order."""
    records = tx.imports.records(source.name, [*COUNTING, ImportState.FAILED])
    return tuple(each for each in records if each.format != STATEMENT and each.landed_at is not None)


def landed_since(
    tx: ReadTransaction, source: SourceTable, days: DayRange, at: datetime, *, but: Collection[str]
) -> ImportRecord | None:
    """The first import on some days of a source that has landed since a moment: a file, or a statement.

    Args:
        but: Stored paths of files that are not meant.
    """
    live = tx.imports.records(source.name, COUNTING)
    later = {
        each.import_id: each
        for each in live
        if each.landed_at is not None and each.landed_at > at and each.stored_path not in but
    }
    dates = source.days.partitions(days)
    touching = {day.import_id for day in tx.imports.days(later) if day.event_date in dates} if later else set()
    return next((each for each in later.values() if each.import_id in touching), None)


def imports_for_days(tx: ReadTransaction, source: SourceTable, days: Iterable[date]) -> tuple[ImportRecord, ...]:
    """The imports that the rows of these days follow from, in the order of arrival.

    An import that was reprocessed may hold keys, at its earlier place, that later imports have on other days; so the
    later ones are among them. So are statements: a version of another day that they withdraw ends none of these days.

    Raises:
        MissingInput: An import that was landed before is unfinished, so its records of these days are out of reach.
    """
    wanted = tuple(days)
    touching = {day.import_id for day in tx.imports.days(source=source.name, days=wanted)}
    every = tx.imports.records(source.name)
    for record in every:
        if record.import_id in touching and record.state in _UNFINISHED and record.landed_at is not None:
            path = record.original_path
            raise MissingInput.coded(
                "landing_unfinished",
                "{import_id} ({path}) holds records of these days, and was being reprocessed when it stopped.",
                then="[land {source} {path} on_duplicate=reprocess by=NAME]",
                import_id=record.import_id,
                path=path,
                source=source.short_name,
            )
    live = [record for record in every if record.state in COUNTING]
    first = min((record.arrival for record in live if record.import_id in touching), default=None)
    again = [r.arrival for r in live if r.import_id in touching and r.on_duplicate == OnDuplicate.REPROCESS]
    since = min(again, default=None)
    return tuple(
        record
        for record in live
        if record.import_id in touching
        or (since is not None and record.arrival > since)
        or (first is not None and record.format == STATEMENT and record.arrival > first)
    )


# Contract versions as runs remember them: which of them give the rows that the present contract gives.
#
# A run of a source has the digest of its contract as configuration. A run of a derived table names, for each
# input that is a source, the version that it read. Both name the code of lifts that change values, because other
# code gives other rows.

FIRST = "1"
"""The name of the first version of a contract. A configuration names only later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractVersions:
    """The versions of a source's contract."""

    source: SourceTable
    #: The digests of the code of those lifts that change values, by the version that they start from.
    lifts: Mapping[int, str]

    @property
    def present(self) -> int:
        return self.source.contract_version

    def configuration(self, version: int | None = None) -> Mapping[str, str]:
        """The configuration of a run that builds the source in a version of its contract; the present one for None."""
        of = version or self.present
        digest = self._lifts_until(of)
        return {**contract_of(self.source.at(of)), **({"lifts": digest} if digest else {})}

    def version_built(self, configuration: Mapping[str, Any]) -> int | None:
        """The version that a run of the source built, by its configuration; None when no version has it."""
        return next((v for v in range(self.present, 0, -1) if self.configuration(v) == configuration), None)

    def named(self, version: int | None = None) -> str:
        """The contract version that a run read, with the code of those lifts up to it that change values."""
        of = version or self.present
        digest = self._lifts_until(of)
        return f"{of}:{digest[:12]}" if digest else str(of)

    def version_read(self, name: str) -> int | None:
        """The version that a run read, by its name; None when there is none, or its lifts are other code now."""
        number = int(name.partition(":")[0])
        return number if number <= self.present and name == self.named(number) else None

    def gives_same_rows(self, version: int) -> bool:
        """True if rows built or read in a version are those of the present contract, up to added columns."""
        return not any(each in self.lifts for each in range(version, self.present))

    def _lifts_until(self, version: int) -> str:
        changing = {str(each): digest for each, digest in self.lifts.items() if each < version}
        return document_digest(changing) if changing else ""


def as_present_build(versions: ContractVersions, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a run of a source; the present one if its contract gives the same rows."""
    built = versions.version_built(configuration)
    return versions.configuration() if built and versions.gives_same_rows(built) else configuration


def as_present_reads(every: Mapping[str, ContractVersions], configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a run of a derived table, with the present version of every source that gives it the same
    rows as the version that it read."""
    recorded: Mapping[str, str] = configuration.get("contracts", {})
    names = {table: _as_present(versions, recorded.get(table, FIRST)) for table, versions in every.items()}
    rest = {name: value for name, value in configuration.items() if name != "contracts"}
    return {**rest, **contracts_document({**recorded, **names})}


def _as_present(versions: ContractVersions, name: str) -> str:
    read = versions.version_read(name)
    return versions.named() if read and versions.gives_same_rows(read) else name


def contracts_document(names: Mapping[str, str]) -> Mapping[str, Any]:
    """The part of a configuration that names the contract versions of inputs; nothing where all are the first."""
    later = {table: name for table, name in names.items() if name != FIRST}
    return {"contracts": later} if later else {}


# Keys that are not known, by the ledger: a newer record of each was rejected, and nothing newer was accepted
# since.


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """The keys of a source that are not known."""

    source: str  #: The source table.
    policy: str  #: What its author declares of them: `block`, `keep` or `drop`.
    keys: int  #: How many.
    #: How many rejected records of the source have no key that can be read: any key may be theirs. Counted for a source
    #: with operations, of which a record is more often about a key that is there.
    keyless: int = 0
    days: Partitions  #: The days of their last accepted versions.
    #: The files that hold the rejected records since which they are not known, in the order of arrival.
    imports: tuple[str, ...]

    @property
    def next_step(self) -> NextStep:
        """The step that makes the keys known again, or states what becomes of them until then."""
        source, days = self.source.partition(".")[2], self.days.days
        if self.policy == UnknownKeys.DROP:
            built = joined(loads(self.source, days))
            return step("build these days without them, and then plan it again: ", built)
        return step(
            "to see which keys: ",
            do(Command.LOCATE, source, first=days[0], last=days[-1]),
            "; land a newer record of each, withdraw them, or correct the declaration and read the files anew: ",
            do(Command.LAND, source, again_as_declared=True, by=NAME),
            f"; or declare unknown='keep' or unknown='drop' on {self.source}; once they are known, plan again: ",
            "this run has read what was there before",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSince:
    """Keys that were unknown when a run was planned, or since, and are known now: it has read what was there before."""

    of: KeysUnknown  #: The keys, and those of their days that are not what the run has read.
    unbuilt: tuple[date, ...]  #: Those of the days that are not built from what has landed.
    manifest: Manifest

    @property
    def words(self) -> str:
        """The sentence that keys were not known when the run was planned, and are known now."""
        are, were = ("is", "was") if self.of.keys == 1 else ("are", "were")
        days = Partitions.of(Grain.DAILY, self.of.days)
        keys = count_of(self.of.keys, "key")
        is_since = all(each.table != self.of.table for each in self.manifest.unknown)
        when = "for a time after" if is_since else "when"
        return f"{keys} of {self.of.table} ({days}) that it reads {were} not known {when} it was planned, and {are} now"

    @property
    def next_step(self) -> NextStep:
        """For a run that has read what was there before the keys were known."""
        again = plan_again(self.manifest)
        if not self.unbuilt:
            return step("plan it again, so that it reads them: ", again)
        built = joined(loads(self.of.table, self.unbuilt))
        return step("build these days, and then plan it again: ", built, "; ", again)


def not_known(tx: ReadTransaction, source: SourceTable, days: Collection[date] | None = None) -> NotKnown | None:
    """The keys of a source that are not known, or those of some days of it; None where all are."""
    found = [each for each in tx.imports.unknown_days(source.name) if days is None or each.event_date in days]
    keyless = tx.imports.keyless(source.name) if source.operation is not None and days is None else 0
    if not found and not keyless:
        return None
    return NotKnown(
        source=source.name,
        policy=str(source.unknown),
        keys=sum(each.unknown for each in found),
        keyless=keyless,
        days=Partitions.of(Grain.DAILY, {each.event_date for each in found}),
        imports=tuple(dict.fromkeys(each.import_id for each in found)),
    )
