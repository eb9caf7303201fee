"""How the records of a landed file are read, as one text that an import keeps, and which are read otherwise now.

The text is of the version of the contract in which the records are kept, so that another version says nothing about
them. It has two digests: of the columns and of how whole files are written, and of what is declared column by column,
which a later version cannot tell any more of a column that it has dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any

from pyspark.sql.types import StructField, StructType

from backfill_assets.core.identity import document_digest
from backfill_assets.domain import SourceTable
from backfill_assets.domain.contracts import name_at
from backfill_assets.ledger.imports import ImportRecord

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
    """What decides which records the bytes of a file are in the present version of a contract: their columns, how files
    are written, and the decoder."""
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
    """Whether two texts are of one kind, so that they differ only where the declarations do."""
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
    """Whether the present version lacks a column of an earlier one, so that nothing is declared of it any more."""
    kept = {name_at(source, column, version) for column in source.schema.fieldNames()}
    return not kept.issuperset(source.at(version).schema.fieldNames())


def _declared(value: Any) -> list[list[str]]:
    """What an author has chosen of it: a choice that a later release adds, and that nobody has made, is none."""
    if value is None:
        return []
    chosen = {each.name: getattr(value, each.name) for each in fields(value)}
    defaults = {each.name: each.default for each in fields(value) if each.default is not MISSING}
    return [
        [type(value).__name__],
        *_pairs({name: each for name, each in chosen.items() if each != defaults.get(name)}),
    ]


def _in_full(value: object) -> str:
    """What texts of the earlier kind say of it: every choice that there was then."""
    return repr(value).replace(", letters=False", "")


def _pairs(declared: Mapping[Any, object]) -> list[list[str]]:
    return sorted([repr(name), repr(value)] for name, value in declared.items())
