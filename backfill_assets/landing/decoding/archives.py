"""Archives: the members of a ZIP file, one behind the other in the order of their names, as one file.

All of them are of one format, and those of CSV have one header. What is beside them for people to read is passed over.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.file_capture import format_of
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.packed import Archive, is_of_people, open_archive
from backfill_assets.core.wording import visible
from backfill_assets.landing.first_bytes import require_kind
from backfill_assets.landing.probe import MOST_RECORD_BYTES, csv_text, no_csv, text_errors

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
