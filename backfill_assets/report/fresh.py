"""Freshness of tables: which accepted partitions are stale and why, with a mark that changes when that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import days_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.identity import document_digest
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import Reason
from backfill_assets.report.words.staleness import stale_words
from backfill_assets.staleness.find import stale_within
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The stale parts of a table, partition by partition."""

    table: str
    accepted: tuple[date, ...]  #: Its accepted partitions, in order.
    stale: Mapping[date, str]  #: Why each of those that are stale is, in words.
    mark: str  #: Differs when another partition is stale, for another reason, or when something was published.


def freshness(ws: Workspace, table: str | None) -> Iterator[Freshness]:
    """The stale partitions of a derived table, or of each table; a source table reads no other, so none of it is
    stale."""
    names = {derived.name for derived in ws.domain.derived}
    with ws.ledger.read() as tx:
        for source in ws.domain.sources if table is None else ():
            yield _freshness(tx, source.name, {})
        for found in stale_within(ws, tx, table=table):
            if found.table not in names:
                continue
            stale = {
                partition: "; ".join(stale_words(found.table, reason) for reason in reasons)
                for partition, reasons in found.reasons.items()
            }
            yield _freshness(tx, found.table, stale)


def _freshness(tx: ReadTransaction, table: str, why: Mapping[date, str]) -> Freshness:
    accepted = {day: claim.version for day, claim in tx.versions.claims(table).items()}
    stale = {day: said for day, said in why.items() if day in accepted}
    seen = [[str(day), version, stale.get(day, "")] for day, version in sorted(accepted.items())]
    return Freshness(table=table, accepted=tuple(sorted(accepted)), stale=stale, mark=document_digest(seen))


def reasons_of(ws: Workspace, tx: ReadTransaction, table: str, partition: date) -> tuple[Reason, ...]:
    """Why the present rows of a partition are stale; empty where they are not, or that cannot be found out."""
    grain = ws.domain.table(table).partition.grain
    try:
        (found,) = stale_within(ws, tx, table=table, days=days_of(grain, partition))
    except BackfillError:
        # A reference that cannot be read, or a day behind today: `status` names that.
        return ()
    return found.reasons.get(partition, ())
