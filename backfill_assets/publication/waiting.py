"""What a run waits for before it is published, the end of a freeze, keys of sources that are not known or an open run
of a higher priority; and whether it has read older inputs than readers see, or other runs have done its work since.

Asked before automatic work begins, when a reader is advised, and again in the transaction that begins a publication.
Nothing is overwritten for a priority: when the other run is published, this one was compared with rows that are no
longer accepted, is refused for that, and is planned again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from backfill_assets.core.errors import Refused
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.imports import KnownSince, NotKnown, as_present_build, not_known
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.imports import ImportDay
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import EVER_VISIBLE, GATED, UNBLOCKED, UNPUBLISHED, VISIBLE, RunState, SetState
from backfill_assets.ledger.store import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import KeysUnknown, Mode
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.errors import ComesAfter, Frozen, KeysNotKnown, ReadBeforeKnown
from backfill_assets.workspace import Workspace


def waits_for(
    ws: Workspace, tx: ReadTransaction, run: RunRecord, *, at: datetime
) -> Freeze | NotKnown | KnownSince | RunRecord | None:
    """What a run waits for: a freeze, keys of days that it reads, to be planned again as keys are known by now, or the
    run of the highest priority over some of the
    same partitions.

    None when it waits for none, or the publication of its set has begun: readers would see half of it meanwhile.
    """
    manifest = run.manifest
    if manifest.member_of is not None and tx.sets.get(manifest.member_of).state is SetState.PUBLISHING:
        return None
    if freeze := tx.freezes.stopping(manifest, at=at):
        return freeze
    if unknown := _unknown(ws, tx, manifest) or _known_since(ws, tx, run):
        return unknown
    others = tx.runs.records(
        table=manifest.table,
        states=UNBLOCKED,
        modes=EVER_PUBLISHED,
        above=manifest.limits.priority,
        over=manifest.partitions,
        # A run whose manifest cannot be read cannot be published either, so nothing waits for it.
        unreadable=lambda _table, _error: None,
    )
    higher = [each for each in others if not set(manifest.partitions).isdisjoint(each.manifest.partitions)]
    return max(higher, key=lambda other: (other.manifest.limits.priority, -other.sequence), default=None)


def _unknown(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> NotKnown | None:
    """Keys that are not known, of days that a run reads; where its source drops them, of days that it has read with
    them."""
    for pinned in manifest.inputs:
        source = ws.domain.tables.get(pinned.table)
        if not isinstance(source, SourceTable) or source.unknown == UnknownKeys.KEEP:
            continue
        days = {each.partition: each.version for each in pinned.partitions}
        if source.unknown == UnknownKeys.DROP:
            unknown = (each for each in tx.imports.unknown_days(source.name) if each.event_date in days)
            days = {each.event_date: 0 for each in unknown if not _is_left_out(ws, tx, source, each, days)}
        if found := not_known(tx, source, days):
            return found
    return None


def _known_since(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> KnownSince | None:
    """Keys that were not known when a run was planned, or since, and are now, where their days are not what it has
    read; none of a replay, which is meant to read what was there."""
    manifest = run.manifest
    if manifest.mode is Mode.REPLAY:
        return None
    for name in dict.fromkeys(each.table for each in manifest.inputs):
        source = ws.domain.tables.get(name)
        if not isinstance(source, SourceTable) or source.unknown != UnknownKeys.BLOCK:
            continue
        pins = (pin for each in manifest.inputs if each.table == name for pin in each.partitions)
        read = {pin.partition: pin.digest for pin in pins}
        planned = [each for each in manifest.unknown if each.table == name]
        since = tx.imports.became_unknown(name, read, after=run.sequence)
        days = sorted(since.keys() | {day for each in planned for day in each.days})
        if not days:
            continue
        present = {day: claim.digest for day, claim in tx.versions.claims(name, days).items()}
        unbuilt = set(pending_days(tx, source).days).intersection(days)
        if changed := tuple(day for day in days if day in unbuilt or present.get(day) != read[day]):
            keys = sum(each.keys for each in planned[:1]) + sum(since.get(day, 0) for day in changed)
            of = KeysUnknown(table=name, keys=keys, days=changed)
            return KnownSince(of=of, unbuilt=tuple(sorted(unbuilt)), manifest=manifest)
    return None


def _is_left_out(
    ws: Workspace, tx: ReadTransaction, source: SourceTable, unknown: ImportDay, read: Mapping[date, int]
) -> bool:
    """Whether the version of a day that a run has read was built from the file since which keys of it are not known, by
    a contract that drops them."""
    day, contracts = unknown.event_date, ws.contracts[source.name]
    claim = tx.versions.claims(source.name, (day,)).get(day)
    if claim is None or claim.version != read[day]:
        return False
    bases = tx.bases.of_accepted([source.name], partitions={day}).bases[source.name]
    return any(
        unknown.import_id in basis.imports
        and as_present_build(contracts, basis.configuration) == contracts.configuration()
        for basis in bases
    )


def require_its_turn(ws: Workspace, tx: ReadTransaction, run: RunRecord, *, at: datetime) -> None:
    """Refuses a run that waits.

    Raises:
        Frozen: For which freeze.
        KeysNotKnown: For which keys.
        ReadBeforeKnown: It has to be planned again, as keys that were not known are known now.
        ComesAfter: For which run.
    """
    grain, partitions = run.manifest.grain, run.manifest.partitions
    match waits_for(ws, tx, run, at=at):
        case Freeze() as freeze:
            kept = Partitions.of(grain, freeze.keeps(partitions))
            raise Frozen(run_id=run.run_id, freeze=freeze, partitions=kept)
        case NotKnown() as found:
            raise KeysNotKnown(run_id=run.run_id, found=found)
        case KnownSince() as known:
            raise ReadBeforeKnown(run_id=run.run_id, known=known)
        case RunRecord() as first:
            raise ComesAfter(
                run_id=run.run_id,
                first=first.manifest.member_of or first.run_id,
                state=first.state,
                priority=first.manifest.limits.priority,
                partitions=Partitions.of(grain, set(partitions).intersection(first.manifest.partitions)),
            )


def older_inputs(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Sequence[date]:
    """The partitions of which a run that could be published has rows from older inputs than those that readers see.

    None of a replay, which is meant to; of an expiry, which has no rows; and of a run of a set before its turn, which
    the ledger refuses with a better reason.
    """
    manifest = run.manifest
    if manifest.expires or manifest.mode is Mode.REPLAY or run.state not in GATED:
        return ()
    upstream = {pin.from_run for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    if any(found.state is not RunState.PUBLISHED for found in tx.runs.named(sorted(upstream))):
        return ()
    # It reads much, and most of what is shown cannot be published now.
    from backfill_assets.staleness.find import regressed_partitions

    return regressed_partitions(ws, tx, manifest)


def outdated_partitions(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Sequence[date]:
    """What a run of a set has staged from candidates that have been staged again since, by what publication asks."""
    if run.manifest.member_of is None or run.state in (*VISIBLE, RunState.CANCELLED):
        return ()
    try:
        graph = ws.graph
    except Refused:
        # A reference cannot be read: `status` names that as a problem, and publication is refused for it.
        return ()
    # Only of sets, and most of what is shown is no run of a set that is under way.
    from backfill_assets.candidates.inputs import read_before

    return read_before(tx, graph, run.manifest)


def is_built_since(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> bool:
    """Whether nothing of a load is left to do, because every day of it was built by loads that were planned after it.

    A load reads whatever has landed for its days, so a later one has read what this one would have, and possibly more.
    """
    if run.state not in UNPUBLISHED or run.lease is not None:
        return False
    if not isinstance(ws.domain.tables.get(run.manifest.table), SourceTable):
        return False
    return is_covered_since(tx, run)


def is_covered_since(tx: ReadTransaction, run: RunRecord) -> bool:
    """Whether runs of the table that were planned later have published every partition of a run."""
    left, partitions = set(run.manifest.partitions), run.manifest.partitions
    for later in tx.runs.records(table=run.manifest.table, states=EVER_VISIBLE, after=run.sequence, over=partitions):
        left.difference_update(later.manifest.partitions)
    return not left
