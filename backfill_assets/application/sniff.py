"""Sniff: what a person's files look like, as the declaration of a source table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets.application.sniff_addresses import Reached, fetched, sniffed_address
from backfill_assets.capture.errors import NoFile
from backfill_assets.capture.fetched_files import ADDRESS
from backfill_assets.core.clock import Clock
from backfill_assets.domain.declarations import TABLE_NAME
from backfill_assets.domain.dialects import Json
from backfill_assets.report.errors import Malformed
from backfill_assets.sniff.api_document import document_in, doubts_of_answer, propose_api
from backfill_assets.sniff.proposal import Proposal
from backfill_assets.sniff.propose import propose


def sniffed(given: Sequence[str | Path], name: str = "", *, clock: Clock, reached: Reached | None = None) -> Proposal:
    """The source table in which files land, or what is captured from a table of others, an API or a topic, lands.

    Args:
        given: Paths or addresses of files of the same kind, the newest last; or one folder with a Delta or an Iceberg
            table, one document of OpenAPI, or the address of an API or of a topic (`kafka://HOST:PORT/TOPIC`).
        name: The table, such as bronze.weather; by default it is called like the last file.
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
    found = propose(files, name=name, as_of=clock())
    if isinstance(found.reads, Json) and found.reads.records and len(files) == 1:
        return replace(found, doubts=(*found.doubts, *doubts_of_answer(files[0], found.reads.records)))
    return found
