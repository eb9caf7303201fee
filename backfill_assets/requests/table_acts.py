"""Acts on versions of a table: readers are cut over to one, and shown the earlier one again; one is given up for good.

A cut-over changes one row of the ledger: the table that readers of a name are shown. No file moves, and the table that
they were shown stays as it is, so that they can be shown it again. Approval is as for a run of the table: by another
person than the requester, and the stricter of the policy that was pinned and the one that is declared now (`asked`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.candidates.compare_versions import expected_differences, outdated
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import GateFailed, InputsMovedOn, TargetChanged, UnknownName
from backfill_assets.core.people import require_person
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import only_of_code
from backfill_assets.requests.authority import (
    asked_demand,
    demand_to_ask,
    reads_approvers,
    require_may_approve,
    require_member,
)
from backfill_assets.requests.errors import Frozen, SeveralVersions
from backfill_assets.staleness.find import stale_before
from backfill_assets.transforms.schemas import changes_when_shown
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A version of a table, and the table that readers are shown."""

    name: str  #: The table whose readers it is about.
    version: DerivedTable  #: The version; the table itself, where readers are shown another one.
    shown: DerivedTable

    @property
    def clean_days(self) -> int:
        """On how many days in a row both have to agree before readers are cut over."""
        return expected_differences(self.version, self.shown).clean_days


def name_of(ws: Workspace, table: str) -> str:
    """The table whose readers a version is for: itself for one that has versions.

    Raises:
        UnknownName: There is no such table, or it is no version and has none.
    """
    declared = ws.domain.derived_table(table)
    name = declared.version_of or declared.name
    if len(ws.domain.family(name)) == 1:
        raise UnknownName.coded(
            "no_versions",
            "{table} is not a version of a table, and has no versions.",
            then="declare a version of this table first, or name a table that has one",
            table=declared.name,
        )
    return name


def pair_of(ws: Workspace, tx: ReadTransaction, table: str) -> Pair:
    """A version and the table that its readers are shown; given the table that they are shown, its only other version.

    Raises:
        UnknownName: It is no version and has none, or it has several.
    """
    name, version = name_of(ws, table), ws.domain.derived_table(table).name
    shown = tx.acts.shown(name)
    if version == shown:
        others = tuple(each for each in ws.domain.family(name) if each != shown)
        if len(others) > 1:
            raise SeveralVersions(name=name, versions=others)
        version = others[0]
    return Pair(name=name, version=ws.domain.derived_table(version), shown=ws.domain.derived_table(shown))


def beside(ws: Workspace, tx: ReadTransaction) -> tuple[Pair, ...]:
    """Every version that is kept up to date beside the table that readers are shown."""
    stopped = tx.acts.stopped()
    names = {each: name for name in ws.domain.names_with_versions for each in ws.domain.family(name)}
    return tuple(
        pair_of(ws, tx, table) for table, name in names.items() if table not in stopped and table != tx.acts.shown(name)
    )


def ask_to_cut_over(ws: Workspace, table: str, *, by: str, reason: str) -> ActRecord:
    """Asks to show readers another version, if it could be done now.

    Raises:
        UnknownName, TargetChanged, InputsMovedOn, GateFailed: As `require_ready`.
        IllegalTransition: Readers are shown it already, or it was given up.
    """
    require_person("the requester", by)
    with ws.ledger.read() as tx:
        pair = pair_of(ws, tx, table)
        require_ready(ws, tx, pair)
    columns = changes_when_shown(pair.shown, pair.version)
    return _asked(ws, TableAct.CUT_OVER, pair.name, pair.version.name, by=by, reason=reason, columns=columns)


def ask_to_stop(ws: Workspace, table: str, *, by: str, reason: str) -> ActRecord:
    """A version is no longer kept up to date, at once; one that readers were ever shown is given up for good, which
    another person has to agree to where the policy of the table asks for that.

    Raises:
        UnknownName: It is no version of a table, and has none.
        IllegalTransition: Readers are shown it, or it was given up already.
    """
    require_person("the requester", by)
    name, version = name_of(ws, table), ws.domain.derived_table(table).name
    with ws.ledger.read() as tx:
        was_shown = version in tx.acts.were_shown(name)
    if was_shown:
        return _asked(ws, TableAct.RETIRE, name, version, by=by, reason=reason)
    return _begun_or_stopped(ws, TableAct.STOP, name, version, by=by, reason=reason)


def start(ws: Workspace, table: str, *, by: str, reason: str) -> ActRecord:
    """A version is kept up to date from now on; days on which it is compared count from now on.

    Raises:
        UnknownName: It is no version of a table, and has none.
        IllegalTransition: It was given up.
    """
    require_person("the one who starts it", by)
    name, version = name_of(ws, table), ws.domain.derived_table(table).name
    return _begun_or_stopped(ws, TableAct.START, name, version, by=by, reason=reason)


def _begun_or_stopped(ws: Workspace, act: TableAct, name: str, table: str, *, by: str, reason: str) -> ActRecord:
    policy = ws.domain.table(name).policy
    with ws.ledger.write() as tx:
        record = tx.acts.ask(act, name=name, table=table, policy=policy, waits=False, by=by, reason=reason)
        return tx.acts.carry_out(record.act_id, by=by)


def _asked(
    ws: Workspace,
    act: TableAct,
    name: str,
    table: str,
    *,
    by: str,
    reason: str,
    columns: tuple[ColumnChange, ...] = (),
) -> ActRecord:
    policy = ws.domain.table(name).policy
    with ws.ledger.write() as tx:
        shown = tx.acts.shown(name) if act is TableAct.CUT_OVER else ""
        waits = demand_to_ask(ws, tx, name, version=table, shown=shown).policy is None
        return tx.acts.ask(
            act, name=name, table=table, policy=policy, waits=waits, by=by, reason=reason, columns=columns
        )


@reads_approvers
def carry_out(ws: Workspace, act_id: str, *, by: str) -> ActRecord:
    """Does what was asked for and approved, in one transaction of the ledger.

    Raises:
        UnknownName: No such act.
        NotApproved: It has no approval that is valid now.
        IllegalTransition: It is done or cancelled already, or what readers are shown is frozen.
        TargetChanged, InputsMovedOn, GateFailed: As `require_ready`.
    """
    require_person("the one who acts", by)
    with ws.ledger.read() as tx:
        _require_fresh(ws, tx, tx.acts.get(act_id))
    with ws.ledger.write() as tx:
        record = tx.acts.get(act_id)
        if record.act is TableAct.CUT_OVER:
            _require_not_frozen(tx, record)
            require_compared(tx, _pair(ws, tx, record))
        if record.approved_by is not None:
            require_may_approve(ws, tx, record, record.approved_by)
        demand = asked_demand(ws, tx, record)
        done = tx.acts.carry_out(
            act_id, by=by, waits=demand.policy is None, loosened=demand.loosened, unsure=demand.unsure
        )
    ws.reached(Point.TABLE_ACT_DONE)
    return done


@reads_approvers
def undo(ws: Workspace, act_id: str, *, by: str, reason: str) -> ActRecord:
    """Shows readers the table again that they were shown before a cut-over. One person can do it, as every rollback.

    Raises:
        UnknownName: No such act.
        NotApproved: The policy names groups, and the person is in none.
        IllegalTransition: It is not a cut-over that holds, or the earlier table was given up.
    """
    require_person("the one who rolls back", by)
    with ws.ledger.write() as tx:
        record = tx.acts.get(act_id)
        if groups := asked_demand(ws, tx, record).groups:
            require_member(ws, {"kind": "act", "name": act_id}, record.name, groups, by, "approve")
        undone = tx.acts.undo(act_id, by=by, reason=reason)
    ws.reached(Point.TABLE_ACT_DONE)
    return undone


def require_ready(ws: Workspace, tx: ReadTransaction, pair: Pair) -> None:
    """Refuses to cut readers over to a version that lacks what they see, is stale where that is not, or does not agree
    long enough.

    Raises:
        TargetChanged: It lacks a partition that readers are shown.
        InputsMovedOn: A partition of it is stale, and what readers are shown is not.
        GateFailed: A partition was not compared as both are now, or too few days in a row were without an unexplained
            difference.
    """
    require_compared(tx, pair)
    if stale := stale_before(ws, tx, pair.version, pair.shown):
        of_code = any(only_of_code(reasons) for reasons in stale.values())
        raise InputsMovedOn.coded(
            "version_is_stale",
            "readers of {name} cannot be cut over to {table}: its partitions {partitions} are stale.",
            then="build them again first: [plan stale {table} changed_code={of_code} reason=WHY by=NAME]",
            name=pair.name,
            table=pair.version.name,
            partitions=_some(pair, stale),
            of_code=of_code,
        )


def require_compared(tx: ReadTransaction, pair: Pair) -> None:
    """Checks again, in the transaction that cuts over, what `require_ready` checks."""
    version, shown = pair.version, pair.shown
    named = {"name": pair.name, "table": version.name, "shown": shown.name}
    there = tx.versions.claims(shown.name)
    if lacking := there.keys() - tx.versions.claims(version.name).keys():
        raise TargetChanged.coded(
            "version_lacks_partitions",
            "readers of {name} cannot be cut over to {table}: it lacks {partitions}, which {shown} has.",
            then="build them first: [shadow start {table} by=NAME reason=WHY]",
            partitions=_some(pair, lacking),
            **named,
        )
    if not pair.clean_days:
        return
    due, gone = outdated(tx, version, shown)
    if due or gone:
        raise GateFailed.coded(
            "version_not_compared",
            "readers of {name} cannot be cut over to {table}: {partitions} were not compared with {shown} as both "
            "are now.",
            then="launch the job backfill_live in Dagster, which compares them, or wait for its schedule; then "
            "[shadow status {table}]",
            partitions=_some(pair, due | gone),
            **named,
        )
    days = tx.comparisons.clean_days(version.name, shown.name, since=tx.acts.started_at(version.name))
    if days < pair.clean_days:
        raise GateFailed.coded(
            "version_differs",
            "readers of {name} cannot be cut over to {table}: it has agreed with {shown} on {found} days in a row, "
            "and {wanted} are declared.",
            then="[shadow status {table}]",
            found=days,
            wanted=pair.clean_days,
            **named,
        )


def _some(pair: Pair, partitions: Iterable[date]) -> Partitions:
    return Partitions.of(pair.version.partition.grain, partitions)


def _pair(ws: Workspace, tx: ReadTransaction, record: ActRecord) -> Pair:
    version, shown = ws.domain.derived_table(record.table), ws.domain.derived_table(tx.acts.shown(record.name))
    return Pair(name=record.name, version=version, shown=shown)


def _require_not_frozen(tx: ReadTransaction, record: ActRecord) -> None:
    """Refuses a cut-over while what readers are shown is frozen: LIVE runs of the other version do not wait for it."""
    if standing := tx.freezes.standing(at=tx.now, table=tx.acts.shown(record.name)):
        raise Frozen(freeze=standing[-1], partitions=standing[-1].partitions, act_id=record.act_id)


def _require_fresh(ws: Workspace, tx: ReadTransaction, record: ActRecord) -> None:
    """Refuses a cut-over to a stale version; outside of the transaction that cuts over, because it reads much."""
    if record.act is TableAct.CUT_OVER and record.from_table == tx.acts.shown(record.name):
        require_ready(ws, tx, _pair(ws, tx, record))
