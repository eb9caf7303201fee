"""Reading digest: by which declaration the records of a landed file are read, as one text that an import keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from backfill_assets.core.identity import document_digest
from backfill_assets.domain import SourceTable

DECODER_VERSION = 1
"""Raised whenever the same bytes in the same dialect become other records: imports were read by an earlier one then."""

PLAIN_VERSION = 0
"""The same for files without a declared dialect: JSON lines, plain CSV and Parquet, also with INT96, with columns that
Arrow decodes, and packed."""


def reading_digest(source: SourceTable) -> str:
    """The digest of what decides which records the bytes of a file are: how they are written, and the decoder."""
    return document_digest(
        {
            "reads": _declared(source.reads),
            "decoder": DECODER_VERSION if source.reads is not None else PLAIN_VERSION,
            "columns": _pairs(source.columns),
            "earlier_columns": {str(version): _pairs(names) for version, names in source.earlier_columns.items()},
            "formats": _pairs(source.formats),
            "timezone": source.timezone,
            "repeated_hour": source.repeated_hour,
            "ahead": str(source.ahead),
            "planned": source.planned,
            "json_columns": sorted(source.json_columns),
            "rounds": source.rounds,
            "bounds": {column: dict(named) for column, named in source.bounds.items()},
            "envelope": _declared(source.envelope),
        }
    )


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


def _pairs(declared: Mapping[Any, object]) -> list[list[str]]:
    return sorted([repr(name), repr(value)] for name, value in declared.items())
