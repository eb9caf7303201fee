"""Landed files that were read by an earlier declaration of their source, and how they are read anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.next_steps import Command, Invocation, do
from backfill_assets.domain import SourceTable
from backfill_assets.landing.imports import read_otherwise
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.page import Note, Tone

_MOST_IMPORTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBefore:
    """Landed files of a source whose records were read by an earlier declaration."""

    source: str  #: The source table.
    imports: tuple[str, ...]  #: The files.

    @property
    def again(self) -> Invocation:
        """The command that shows what they would give as their source is declared now."""
        return do(Command.LAND, self.source.rpartition(".")[2], again_as_declared=True, dry_run=True)


def read_before(tx: ReadTransaction, sources: Sequence[SourceTable]) -> tuple[ReadBefore, ...]:
    """The files of some sources that were read by an earlier declaration; of those of earlier releases it is not known.

    Cost: one row per landed file.
    """
    found = {each.name: [r.import_id for r in read_otherwise(tx, each) if r.reading is not None] for each in sources}
    return tuple(ReadBefore(source=source, imports=tuple(imports)) for source, imports in found.items() if imports)


def read_before_notes(read_before: Sequence[ReadBefore]) -> Iterator[Note]:
    """Notes that files were read by earlier declarations."""
    for each in read_before:
        many, some = count_of(len(each.imports), "landed file"), ", ".join(each.imports[:_MOST_IMPORTS])
        more = " and more" if len(each.imports) > _MOST_IMPORTS else ""
        text = f"{many} of {each.source} was read by an earlier declaration: {some}{more}"
        yield Note(text=text if len(each.imports) == 1 else text.replace(" was ", " were ", 1), tone=Tone.ATTENTION)
