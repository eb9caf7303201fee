"""Column types of the ledger: instants, documents and file sets, as both databases keep them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

from backfill_assets.core.identity import DataFile, FileSet, canonical_json


class UtcDateTime(TypeDecorator[datetime]):
    """An aware instant. PostgreSQL keeps it as such; SQLite has no such type and keeps its UTC wall time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The instant as the database keeps it; a naive one could mean any of 24 hours and is a mistake."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant without a time zone cannot be kept: {value!r}")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The instant, aware and in UTC whatever the time zone of the database session is."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class CanonicalJson(TypeDecorator[Any]):
    """A document as its one canonical text, so that what is stored is also what is digested."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The canonical text."""
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The document."""
        return None if value is None else json.loads(value)


class FileSetText(TypeDecorator[FileSet]):
    """A file set, one `[path, size, rows, sha256, stamp]` per file, in the order of paths."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: FileSet | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The file set as text."""
        if value is None:
            return None
        return canonical_json([[f.path, f.size_bytes, f.rows, f.sha256, f.stamp] for f in value.files])

    def process_result_value(self, value: str | None, dialect: Dialect) -> FileSet | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The file set."""
        if value is None:
            return None
        return FileSet.of(
            DataFile(path=path, size_bytes=size, rows=rows, sha256=sha256, stamp=stamp)
            for path, size, rows, sha256, stamp in json.loads(value)
        )
