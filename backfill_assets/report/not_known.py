"""Documents of keys that are not known: whose last version is not what their source has now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Act, Invocation, NextStep, do, step
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.imports import NotKnown, not_known
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.documents import INLINE
from backfill_assets.report.rejected import built_and_read
from backfill_assets.workspace import Workspace

_WHAT_THEN = {
    UnknownKeys.BLOCK: "what is computed from these days is not published until they are known",
    UnknownKeys.KEEP: "readers see the last accepted versions, as declared",
    UnknownKeys.DROP: "readers see none of them, as declared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnownDocument:
    """Keys that are not known."""

    found: NotKnown = field(metadata=INLINE)  #: Of which source, how many, and where.
    #: What names some of them, with the reasons; null where only records without a key were rejected.
    look: Invocation | None


def not_known_document(found: NotKnown) -> NotKnownDocument:
    """The keys, and what names them."""
    days, source = found.days.days, found.source.partition(".")[2]
    look = do(Act.LOCATE, source, first=days[0], last=days[-1]) if days else None
    return NotKnownDocument(found=found, look=look)


def not_known_of(tx: ReadTransaction, sources: Sequence[SourceTable]) -> tuple[NotKnownDocument, ...]:
    """The keys of some sources that are not known now."""
    return tuple(not_known_document(found) for source in sources if (found := not_known(tx, source)))


def not_known_behind(ws: Workspace, tx: ReadTransaction, runs: Sequence[Manifest]) -> tuple[NotKnownDocument, ...]:
    """The keys that are not known now, of the source days that runs build or read."""
    days = grouped(each for run in runs for each in built_and_read(run))
    sources = [source for source in ws.domain.sources if source.name in days]
    found = (not_known(tx, source, set(days[source.name])) for source in sources)
    return tuple(not_known_document(each) for each in found if each)


def not_known_words(found: NotKnown) -> str:
    """The number of keys that are not known, since which files, and what that means for readers."""
    said = [_keys(found)] if found.keys else []
    if found.keyless:
        have = "has" if found.keyless == 1 else "have"
        records = f"{count_of(found.keyless, 'rejected record')} of {found.source}"
        said.append(f"{records} {have} no key that can be read, so that any key may be meant")
    return "; ".join(said)


def waits_to_know(found: NotKnown) -> str:
    """The note that a run waits until keys are known."""
    are = "is" if found.keys == 1 else "are"
    return f"{count_of(found.keys, 'key')} of {found.source} ({found.days}) that it reads {are} not known"


def _keys(found: NotKnown) -> str:
    first, more = found.imports[0], len(found.imports) - 1
    since = f"{first} and {count_of(more, 'more file')}" if more else first
    many = f"{count_of(found.keys, 'key')} of {found.source} ({found.days})"
    are = "is" if found.keys == 1 else "are"
    then = _WHAT_THEN[UnknownKeys(found.policy)]
    return f"{many} {are} not known since {since}, of which newer records were rejected: {then}"


def not_known_line(document: NotKnownDocument) -> NextStep:
    """A line on keys that are not known, with the command that names them."""
    said = not_known_words(document.found)
    return step(f"{said}. To see which: ", document.look) if document.look else step(said)
