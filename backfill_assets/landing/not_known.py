"""Keys that are not known, by the ledger: a newer record of each was rejected, and nothing newer was accepted since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from backfill_assets.domain import SourceTable
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import KeysUnknown
from backfill_assets.planning.partitions import Grain, Partitions, count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """The keys of a source that are not known.

    Attributes:
        source: The source table.
        policy: What its author declares of them: `block`, `keep` or `drop`.
        keys: How many.
        keyless: How many rejected records of the source have no key that can be read: any key may be theirs. Counted
            for a source with operations, of which a record is more often about a key that is there.
        days: The days of their last accepted versions.
        imports: The files that hold the rejected records since which they are not known, in the order of arrival.
    """

    source: str
    policy: str
    keys: int
    keyless: int = 0
    days: Partitions
    imports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSince:
    """Keys that were not known when a run was planned, or since, and are known now: it has read what was there before.

    Attributes:
        of: The keys, and those of their days that are not what the run has read.
        unbuilt: Those of the days that are not built from what has landed.
    """

    of: KeysUnknown
    unbuilt: tuple[date, ...]
    manifest: Manifest

    @property
    def words(self) -> str:
        """That it is so, of the run."""
        are, were = ("is", "was") if self.of.keys == 1 else ("are", "were")
        days = Partitions.of(Grain.DAILY, self.of.days)
        keys = count_of(self.of.keys, "key")
        is_since = all(each.table != self.of.table for each in self.manifest.unknown)
        when = "for a time after" if is_since else "when"
        return f"{keys} of {self.of.table} ({days}) that it reads {were} not known {when} it was planned, and {are} now"


def not_known(tx: ReadTransaction, source: SourceTable, days: Collection[date] | None = None) -> NotKnown | None:
    """The keys of a source that are not known, or those of some days of it; None where all are."""
    found = [each for each in tx.imports.unknown_days(source.name) if days is None or each.event_date in days]
    keyless = tx.imports.keyless(source.name) if source.operation is not None and days is None else 0
    if not found and not keyless:
        return None
    return NotKnown(
        source=source.name,
        policy=str(source.unknown),
        keys=sum(each.unknown for each in found),
        keyless=keyless,
        days=Partitions.of(Grain.DAILY, {each.event_date for each in found}),
        imports=tuple(dict.fromkeys(each.import_id for each in found)),
    )
