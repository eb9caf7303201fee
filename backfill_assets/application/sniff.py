"""Sniff: what a person's files look like, as the declaration of a source table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets.capture.errors import NoFile
from backfill_assets.core.clock import Clock
from backfill_assets.domain.declarations import TABLE_NAME
from backfill_assets.domain.dialects import Json
from backfill_assets.report.errors import Malformed
from backfill_assets.sniff.api_document import document_in, doubts_of_answer, propose_api
from backfill_assets.sniff.proposal import Proposal
from backfill_assets.sniff.propose import propose


def sniffed(files: Sequence[Path], name: str = "", *, clock: Clock) -> Proposal:
    """The source table in which files land, or what is captured from a table of others, or from an API, lands.

    Args:
        files: Files of the same kind, the newest last; or one folder with a Delta or an Iceberg table, or one document
            of OpenAPI.
        name: The table, such as bronze.weather; by default it is called like the last file.

    Raises:
        Refused: The name is none of a table.
        MissingInput: There is no such file.
        UnreadableFile: A file is none of which records could be read.
    """
    if name and not TABLE_NAME.fullmatch(name):
        raise Malformed(what="the name of the table", value=name[:100], form="LAYER.TABLE", example="bronze.weather")
    for file in files:
        if not file.exists():
            raise NoFile(path=str(file), why=f"there is no file {file}")
    if len(files) == 1 and files[0].is_file() and (document := document_in(files[0])) is not None:
        return propose_api(files[0], document, name=name)
    found = propose(files, name=name, as_of=clock())
    if isinstance(found.reads, Json) and found.reads.records and len(files) == 1:
        return replace(found, doubts=(*found.doubts, *doubts_of_answer(files[0], found.reads.records)))
    return found
