"""Sniff: what a person's files look like, as the declaration of a source table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets.application.sniff_addresses import Reached, fetched, sniffed_address
from backfill_assets.capture.errors import BadFile, Fault, NoFile
from backfill_assets.capture.files.fetched_files import ADDRESS
from backfill_assets.capture.lake_tables.versions import is_delta, newest_metadata
from backfill_assets.core.clock import Clock
from backfill_assets.domain.declarations import TABLE_NAME
from backfill_assets.domain.source_files import Json
from backfill_assets.report.errors import Malformed
from backfill_assets.sniff.api_document import document_in, doubts_of_answer, propose_api
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Proposal, table_name
from backfill_assets.sniff.propose import propose

_MOST_FILES = 100
_LEAST_LETTERS = 3


def sniffed(given: Sequence[str | Path], name: str = "", *, clock: Clock, reached: Reached | None = None) -> Proposal:
    """The source table in which files land, or what is captured from a table of others, an API or a topic, lands.

    Args:
        given: Paths or addresses of files of the same kind, the newest last, or their folder; or one folder with a
            Delta or an Iceberg table, one document of OpenAPI, or the address of an API or of a topic
            (`kafka://HOST:PORT/TOPIC`).
        name: The table, such as bronze.weather; by default it is called like the file, or what names of files have in
            common.
        reached: How an API or a topic is reached.

    Raises:
        Refused: The name is none of a table.
        MissingInput: There is no such file.
        Retryable: An address does not answer.
        UnreadableFile: A file is none of which records could be read.
    """
    if name and not TABLE_NAME.fullmatch(name):
        raise Malformed(what="the name of the table", value=name[:100], form="LAYER.TABLE", example="bronze.weather")
    texts = [str(each) for each in given]
    if not any(map(ADDRESS.match, texts)):
        return _of_files([Path(each) for each in given], name, clock=clock)
    reached = reached or Reached(home=Path("data"))
    if len(texts) == 1 and (found := sniffed_address(texts[0], name, reached, as_of=clock())) is not None:
        return found
    with fetched(texts, reached) as files:
        return _of_files(files, name, clock=clock)


def _of_files(files: Sequence[Path], name: str, *, clock: Clock) -> Proposal:
    for file in files:
        if not file.exists():
            raise NoFile(path=str(file), why=f"there is no file {file}")
    if len(files) == 1 and files[0].is_file() and (document := document_in(files[0])) is not None:
        return propose_api(files[0], document, name=name)
    among = [file for each in files for file in (_in_folder(each) if is_plain_folder(each) else [each])]
    chosen = among if len(among) <= _MOST_FILES else [*among[:: -(-len(among) // (_MOST_FILES - 1))], among[-1]]
    found = propose(chosen, name=name or _name_of(among, files), as_of=clock())
    if left := len(among) - len(chosen):
        found = replace(found, doubts=(*found.doubts, Doubt(kind=DoubtKind.MORE_FILES, records=left)))
    if isinstance(found.reads, Json) and found.reads.records and len(among) == 1:
        return replace(found, doubts=(*found.doubts, *doubts_of_answer(among[0], found.reads.records)))
    return found


def is_plain_folder(path: Path) -> bool:
    """True if a path is a folder without the log of a table."""
    return path.is_dir() and not is_delta(path) and newest_metadata(path) is None


def _in_folder(folder: Path) -> list[Path]:
    """The files of a folder with the most usual suffix of it, by name, with numbers in their order.

    Raises:
        BadFile: It has no file.
    """
    files = [path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"]
    if not files:
        why = "is a folder without files, and neither a Delta nor an Iceberg table"
        raise BadFile(path=str(folder), fault=Fault.FOLDER, why=why)
    ((suffixes, _),) = Counter(tuple(path.suffixes[-2:]) for path in files).most_common(1)
    return sorted((path for path in files if tuple(path.suffixes[-2:]) == suffixes), key=_by_numbers)


def _by_numbers(path: Path) -> list[tuple[int, str]]:
    return [(int(each), "") if each.isdigit() else (-1, each) for each in re.split(r"(\d+)", path.name) if each]


def _name_of(files: Sequence[Path], given: Sequence[Path]) -> str:
    """The name of the table of several files: what their names begin with, or else their folder's; empty of one."""
    if len(files) < 2:
        return ""
    common = re.sub(r"[\d\W_]+$", "", _beginning([path.name for path in files]))
    if len(common) >= _LEAST_LETTERS and common[:1].isalpha():
        return f"bronze.{table_name(common)}"
    place = given[-1].resolve()
    return f"bronze.{table_name((place if place.is_dir() else place.parent).name)}"


def _beginning(names: Sequence[str]) -> str:
    """The prefix that all names share."""
    first, last = min(names), max(names)
    return first[: next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
