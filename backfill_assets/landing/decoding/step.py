"""Step: landed bytes in a declared dialect become a file in a form that the readers take.

A decoded file has the records of the landed one in their order, one for one, with the texts of their values as the
source wrote them. It is no record of anything: it is made of the landed bytes whenever they are read, and removed
afterwards. So the landed file stays what came, and another declaration gives other records of the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from backfill_assets.capture.file_capture import FORMATS
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.domain import Avro, Canal, Csv, Json, Maxwell, SourceTable, Xlsx
from backfill_assets.domain.dialects import Dialect
from backfill_assets.landing.decoding.archives import decode_archive
from backfill_assets.landing.decoding.avro_files import avro_records
from backfill_assets.landing.decoding.canal_messages import canal_events
from backfill_assets.landing.decoding.csv_rows import decode_csv
from backfill_assets.landing.decoding.json_documents import json_records
from backfill_assets.landing.decoding.maxwell_records import maxwell_events
from backfill_assets.landing.decoding.parquet_columns import decode_parquet, is_foreign
from backfill_assets.landing.decoding.workbooks import decode_workbook
from backfill_assets.landing.first_bytes import SAMPLE_BYTES, require_kind, require_text
from backfill_assets.landing.names import names_in_header
from backfill_assets.landing.probe import opened, text_errors

_CHUNK_BYTES = 1 << 20

_FORMATS: Mapping[type[Dialect], Format] = {
    Csv: Format.CSV,
    Json: Format.JSONL,
    Avro: Format.AVRO,
    Xlsx: Format.XLSX,
    Maxwell: Format.JSONL,
    Canal: Format.JSONL,
}
_READ_PACKED = ("", "gzip")
"""What the readers unpack themselves."""


def formats(source: SourceTable) -> Mapping[str, Format]:
    """What a file of the source is, by the suffix of its name; by an empty one, what one of any other name is."""
    match source.reads:
        case Csv():  # rows have every suffix that somebody has thought of, and none
            return FORMATS | {"": Format.CSV}
        case Json():  # what a delivery stream writes has no suffix
            return FORMATS | {"": Format.JSONL}
        case Avro():
            return FORMATS | {".avro": Format.AVRO, "": Format.AVRO}
        case Xlsx():
            return FORMATS | {".xlsx": Format.XLSX, ".xlsm": Format.XLSX}
        case _:
            return FORMATS


def is_decoded(copy: Path, kind: FileKind, source: SourceTable, *, is_offered: bool = True) -> bool:
    """Whether a file of this kind is read by way of a decoded one.

    Args:
        is_offered: Whether somebody has written it as the source declares. What is captured has one form, but the
            messages in it have that of the program that sent them.
    """
    if not is_offered and not isinstance(source.reads, Maxwell | Canal):
        return False
    return kind.compression not in _READ_PACKED or _is_of_dialect(kind, source) or _is_foreign(copy, kind)


def _is_of_dialect(kind: FileKind, source: SourceTable) -> bool:
    return source.reads is not None and _FORMATS[type(source.reads)] is kind.format


def _is_foreign(copy: Path, kind: FileKind) -> bool:
    return kind.format is Format.PARQUET and not kind.compression and is_foreign(copy)


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
    if kind.compression != "zip":
        return _decoded(copy, kind, source, name, into)
    require_kind(copy, kind, name)

    def member(copy: Path, kind: FileKind, name: str, into: Path) -> FileKind | None:
        return _decoded(copy, kind, source, name, into)

    return decode_archive(copy, kind, formats(source), member, name=name, into=into)


def _decoded(copy: Path, kind: FileKind, source: SourceTable, name: str, into: Path) -> FileKind | None:
    if not is_decoded(copy, kind, source):
        return None
    if _is_foreign(copy, kind):
        decode_parquet(copy, name=name, into=into)
        return kind
    dialect = source.reads if _is_of_dialect(kind, source) else None
    if not isinstance(dialect, Csv):
        require_kind(copy, kind, name)
    match dialect:
        case Csv():
            decode_csv(copy, kind, dialect, name=name, into=into, columns=names_in_header(source))
            return FileKind(format=Format.CSV, compression="")
        case Xlsx():
            with text_errors(name):
                decode_workbook(copy, dialect, name=name, into=into, columns=names_in_header(source))
            return FileKind(format=Format.CSV, compression="")
        case Json() | Avro() | Maxwell() | Canal():
            _write_lines(copy, kind, dialect, source, name=name, into=into)
            return FileKind(format=Format.JSONL, compression="")
        case None:
            with text_errors(name), opened(copy, kind) as stream, into.open("wb") as written:
                shutil.copyfileobj(stream, written, _CHUNK_BYTES)
            return FileKind(format=kind.format, compression="")


def _write_lines(
    copy: Path, kind: FileKind, dialect: Json | Avro | Maxwell | Canal, source: SourceTable, *, name: str, into: Path
) -> None:
    with text_errors(name):
        if not isinstance(dialect, Avro):
            with opened(copy, kind) as stream:
                require_text(stream.read(SAMPLE_BYTES), copy, name, kind)
        with opened(copy, kind) as stream, into.open("wb") as written:
            if isinstance(dialect, Json):
                records = json_records(stream, dialect, name=name)
            elif isinstance(dialect, Maxwell):
                records = maxwell_events(stream, source, name=name)
            elif isinstance(dialect, Canal):
                records = canal_events(stream, source, name=name)
            else:
                records = avro_records(stream, name=name)
            written.writelines(record + b"\n" for record in records)
