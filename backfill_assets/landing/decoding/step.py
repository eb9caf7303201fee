"""Step: landed bytes in a declared dialect become a file in a form that the readers take.

A decoded file has the records of the landed one in their order, one for one, with the texts of their values as the
source wrote them. It is no record of anything: it is made of the landed bytes whenever they are read, and removed
afterwards. So the landed file stays what came, and another declaration gives other records of the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backfill_assets.capture.file_capture import FORMATS
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.core.identity import document_digest
from backfill_assets.domain import Csv, SourceTable
from backfill_assets.landing.decoding.csv_rows import decode_csv
from backfill_assets.landing.names import names_in_header

DECODER_VERSION = 1
"""Raised whenever the same bytes in the same dialect become other records: imports were read by an earlier one then."""

_CSV_NAMES = (".csv", ".tsv", ".tab", ".psv", ".txt", ".dat")


def formats(source: SourceTable) -> Mapping[str, Format]:
    """What a file of the source is, by the suffix of its name."""
    match source.reads:
        case Csv():
            return FORMATS | dict.fromkeys(_CSV_NAMES, Format.CSV)
        case _:
            return FORMATS


def is_decoded(kind: FileKind, source: SourceTable) -> bool:
    """Whether files of this kind are read by way of a decoded one."""
    return isinstance(source.reads, Csv) and kind.format is Format.CSV


def decode(copy: Path, kind: FileKind, source: SourceTable, *, name: str, into: Path) -> FileKind | None:
    """Writes the records of a landed file in a form that the readers take.

    Args:
        copy: The bytes as they landed.
        kind: What they are.
        name: What messages call the file.
        into: The decoded file, which is written from its beginning to its end; memory does not grow with it.

    Returns:
        What the decoded file is; None when the readers take the landed one as it is, and nothing was written.

    Raises:
        BadFile: It is not in the declared dialect.
    """
    if not is_decoded(kind, source):
        return None
    match source.reads:
        case Csv() as dialect:
            decode_csv(copy, kind, dialect, name=name, into=into, columns=names_in_header(source))
            return FileKind(format=Format.CSV, compression="")
        case _:
            raise AssertionError(f"{source.reads} decodes nothing")


def reading_of(source: SourceTable) -> str:
    """The digest of what decides which records the bytes of a file are: how they are written, and the decoder."""
    return document_digest(
        {
            "reads": repr(source.reads),
            "decoder": DECODER_VERSION if source.reads is not None else 0,
            "columns": _pairs(source.columns),
            "earlier_columns": {str(version): _pairs(names) for version, names in source.earlier_columns.items()},
            "formats": _pairs(source.formats),
            "timezone": source.timezone,
            "repeated_hour": source.repeated_hour,
            "ahead_s": source.ahead.total_seconds(),
            "planned": source.planned,
            "json_columns": sorted(source.json_columns),
            "rounds": source.rounds,
            "bounds": {column: dict(named) for column, named in source.bounds.items()},
            "envelope": repr(source.envelope),
        }
    )


def _pairs(declared: Mapping[Any, object]) -> list[list[str]]:
    return sorted([repr(name), repr(value)] for name, value in declared.items())
