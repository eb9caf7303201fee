"""Event chain: verifies that recorded events are unchanged. Pure: hashes and comparisons, no database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backfill_assets.identity import canonical_json, sha256_text
from backfill_assets.ledger.records import EventRecord

GENESIS_HASH = "0" * 64
"""What the first event names as the hash before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The last event that was appended; sequence 0 before there is one."""

    sequence: int
    hash: str


def hash_of(entry: EventRecord) -> str:
    """The hash that an entry must carry: over the hash before it and everything that it says itself."""
    content = {
        "sequence": entry.sequence,
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "entity": entry.entity,
        "entity_id": entry.entity_id,
        "action": entry.action,
        "from_state": entry.from_state,
        "to_state": entry.to_state,
        "payload": dict(entry.payload),
    }
    return sha256_text(entry.previous_hash + canonical_json(content))


def broken_links(entries: Iterable[EventRecord], head: ChainHead) -> Iterator[str]:
    """What is wrong with a chain of events, one sentence each, in the order of the events.

    Args:
        entries: Every event, in the order of its sequence.
        head: What the ledger says the last one is.
    """
    last = ChainHead(sequence=0, hash=GENESIS_HASH)
    for entry in entries:
        if entry.sequence != last.sequence + 1:
            yield f"events {last.sequence + 1} to {entry.sequence - 1} were removed."
        elif entry.previous_hash != last.hash:
            yield f"event {entry.sequence} does not follow event {last.sequence}: one of them was moved or replaced."
        if hash_of(entry) != entry.hash:
            yield f"event {entry.sequence} ({entry.entity} {entry.entity_id}, {entry.action}) was edited."
        last = ChainHead(sequence=entry.sequence, hash=entry.hash)
    if last.sequence < head.sequence:
        yield f"events {last.sequence + 1} to {head.sequence} were removed: the chain ends at event {last.sequence}."
    elif last != head:
        yield f"the chain ends at event {last.sequence}, which is not the event that its head names."
