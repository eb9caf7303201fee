"""Decoding step: landed bytes in a declared dialect become a file that the readers take, which is kept while Spark
reads it.
"""

from __future__ import annotations

import csv
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.files.file_capture import FORMATS, format_of
from backfill_assets.capture.files.packed import Archive, is_of_people, open_archive
from backfill_assets.capture.landed_files import FileKind, Format, LandingPlace
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.wording import visible
from backfill_assets.domain import Avro, Canal, Csv, Json, Maxwell, SourceTable, Xlsx
from backfill_assets.domain.source_files import Dialect
from backfill_assets.landing.decoding.avro_files import avro_records
from backfill_assets.landing.decoding.csv_rows import decode_csv
from backfill_assets.landing.decoding.json_documents import json_records
from backfill_assets.landing.decoding.row_changes import canal_events, maxwell_events
from backfill_assets.landing.decoding.workbooks import decode_workbook
from backfill_assets.landing.first_bytes import SAMPLE_BYTES, require_kind, require_text
from backfill_assets.landing.names import names_in_header
from backfill_assets.landing.parquet import decode_parquet, is_foreign
from backfill_assets.landing.probe import MOST_RECORD_BYTES, csv_text, no_csv, opened, text_errors

# Archives: the members of a ZIP file, one behind the other in the order of their names, as one file.
#
# All of them are of one format, and those of CSV have one header. What is beside them for people to read is
# passed over.

Decode = Callable[[Path, FileKind, str, Path], FileKind | None]
"""Writes the records of a file that is not packed, given what it is and what messages call it, into another one; None
where the readers take it as it is, and nothing was written."""

_MOST_NAMES, _MOST_CHARACTERS = 5, 100
_CHUNK_CHARACTERS = 1 << 20
_BOM = b"\xef\xbb\xbf"


def decode_archive(
    copy: Path, kind: FileKind, formats: Mapping[str, Format], decode: Decode, *, name: str, into: Path
) -> FileKind:
    """Writes the records of all members of an archive.

    Args:
        formats: The formats by suffix.
        decode: How a member is decoded.

    Raises:
        UnreadableFile: It is cut, damaged or encrypted, or holds files of several formats or headers.
    """
    inner = FileKind(format=kind.format, compression="")
    member, part = (into.with_name(f"{into.name}-{what}") for what in ("member", "part"))
    found = inner
    try:
        with text_errors(name), open_archive(copy) as archive, into.open("wb") as written:
            header: Sequence[str] | None = None
            for each in _chosen(archive, inner.format, formats, name):
                with archive.open(each) as packed, member.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                shown = f"{name} ({visible(each[:_MOST_CHARACTERS])})"
                decoded = decode(member, inner, shown, part)
                if decoded is None:
                    require_kind(member, inner, shown)
                found = decoded or inner
                source = part if decoded else member
                if found.format is Format.CSV:
                    header = _append_rows(source, written, header, shown)
                else:
                    _append(source, written, is_text=found.format is Format.JSONL)
    finally:
        member.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
    return found


def _chosen(archive: Archive, wanted: Format, formats: Mapping[str, Format], name: str) -> Sequence[str]:
    """The members with records."""
    names = [each for each in archive.names if not is_of_people(each)]
    others = [each for each in names if format_of(each, formats) is not wanted]
    if (others and len(names) > 1) or not names:
        shown = ", ".join(visible(each[:_MOST_CHARACTERS]) for each in others[:_MOST_NAMES]) or "no file"
        why = f"holds {shown}, and is declared to hold {wanted.upper()}"
        raise BadFile(path=name, fault=Fault.PACKED, why=why)
    if wanted is Format.PARQUET and len(names) > 1:
        raise BadFile(path=name, fault=Fault.PACKED, why=f"holds {len(names)} files of Parquet, and one can be read")
    return names


def _append(source: Path, written: IO[bytes], *, is_text: bool) -> None:
    """Appends a file. The last line of a text ends, so that the next one begins another."""
    with source.open("rb") as file:
        begin = file.read(len(_BOM))
        written.write(b"" if is_text and begin == _BOM else begin)
        shutil.copyfileobj(file, written)
        size = file.tell()
        file.seek(max(0, size - 1))
        if is_text and file.read(1) not in (b"\n", b"\r", b""):
            written.write(b"\n")


def _append_rows(source: Path, written: IO[bytes], header: Sequence[str] | None, shown: str) -> Sequence[str] | None:
    """Appends the rows of a CSV, with its header if it is the first one, and gives the header.

    Raises:
        UnreadableFile: Its header is another one.
    """
    with csv_text(source.open("rb"), errors="surrogateescape") as text:
        begun: list[str] = []

        def lines() -> Iterator[str]:
            while line := text.readline(MOST_RECORD_BYTES):
                begun.append(line)
                yield line

        try:
            found = next((row for row in csv.reader(lines()) if row), None)
        except csv.Error as error:
            raise no_csv(str(error), shown, began=1, line=len(begun)) from error
        if found is None:
            return header
        if header is not None and found != header:
            raise BadFile(path=shown, fault=Fault.PACKED, why="has another header than the member before it")
        last = "".join(begun)
        if header is None:
            written.write(last.encode("utf-8", "surrogateescape"))
        while chunk := text.read(_CHUNK_CHARACTERS):
            last = chunk
            written.write(chunk.encode("utf-8", "surrogateescape"))
        if not last.endswith(("\n", "\r")):
            written.write(b"\n")
        return found


# Step: landed bytes in a declared dialect become a file in a form that the readers take.
#
# A decoded file has the records of the landed one in their order, one for one, with the texts of their values as
# the source wrote them. It is no record of anything: it is made of the landed bytes whenever they are read, and
# removed afterwards. So the landed file stays what came, and another declaration gives other records of the same
# bytes.

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
"""The compressions that the readers unpack themselves."""


def formats(source: SourceTable) -> Mapping[str, Format]:
    """The formats of a source's files, by the suffix of their name; the empty suffix stands for any other name."""
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
    """True if a file of this kind is read through a decoded copy.

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


# Kept: where decoded files are while Spark reads them, `<landing>/<source>/decoded/<owner>/`, and when they go.
#
# The owner is the attempt of a landing, which removes them when it ends, or a reading without one, such as a
# reproduction. What a killed process left is removed by the next landing of the source: that of an attempt that
# lands nothing any more, and of a reading after a day.

LONGEST_READING = timedelta(days=1)
_BEGUN = "read-%Y%m%dT%H%M%SZ"
_FOLDER = "decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRead:
    """The bytes of a file as the readers take them."""

    copy: Path  #: On this machine, for the probe.
    kind: FileKind  #: What they are.
    #: The decoded file, relative to the landing place; empty where the landed one is read itself.
    stored_path: str = ""


@contextmanager
def to_read(
    place: LandingPlace,
    owner: str,
    copy: Path,
    kind: FileKind,
    source: SourceTable,
    *,
    name: str,
    is_offered: bool = True,
) -> Iterator[ToRead]:
    """A landed file as the readers take it; a decoded one is kept for Spark once nothing was wrong with it.

    Args:
        place: Where it is kept.
        owner: Who reads it.
        copy: The bytes as they landed, on this machine.
        name: What messages call the file.
        is_offered: As for `is_decoded`.
    """
    if not is_decoded(copy, kind, source, is_offered=is_offered):
        yield ToRead(copy=copy, kind=kind)
        return
    with place.scratch() as decoded:
        found = decode(copy, kind, source, name=name, into=decoded)
        assert found is not None
        # Records that are read from several files at once tell these apart by the last part of their names.
        path = place.stored_path(f"{_FOLDER}/{owner}/{secrets.token_hex(8)}{found.suffix}")
        yield ToRead(copy=decoded, kind=found, stored_path=path)
        place.files.put(path, decoded)


@contextmanager
def reading(place: LandingPlace, *, begun_at: datetime) -> Iterator[str]:
    """An owner that is no landing; its decoded files are removed afterwards, also after an error."""
    owner = f"{begun_at.astimezone(UTC):{_BEGUN}}-{secrets.token_hex(4)}"
    with removed_at_end(place, owner):
        yield owner


@contextmanager
def removed_at_end(place: LandingPlace, owner: str) -> Iterator[None]:
    """Removes the decoded files of an owner when the block ends; an error of the block is the one that is raised."""
    try:
        yield
    except BaseException:
        # A store that stopped the block often refuses this as well; what is left is removed by a later landing.
        with suppress(BackfillError):
            remove_decoded(place, owner)
        raise
    remove_decoded(place, owner)


def remove_decoded(place: LandingPlace, owner: str) -> None:
    """Removes the decoded files of an owner."""
    place.files.remove_folder(place.stored_path(f"{_FOLDER}/{owner}"))


def remove_left(place: LandingPlace, *, attempts: Collection[str], now: datetime) -> None:
    """Removes decoded files that killed processes left.

    Args:
        attempts: Landings that may be in progress.
    """
    folder = place.stored_path(_FOLDER)
    owners = {each.path.removeprefix(f"{folder}/").partition("/")[0] for each in place.files.listed(folder)}
    for owner in owners.difference(attempts):
        begun = _begun_at(owner)
        if begun is None or begun < now - LONGEST_READING:
            remove_decoded(place, owner)


def _begun_at(owner: str) -> datetime | None:
    """When a reading was begun, by its name; None for an attempt."""
    try:
        return datetime.strptime(owner.rpartition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return None
