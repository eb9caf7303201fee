"""What an audit or a check of accepted rows has found, and what repairs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Partitions, compress
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NAME, WHY, Command, NextStep, do, publish, step
from backfill_assets.planning.next_steps import joined, loads, restated
from backfill_assets.upkeep.damage import Amiss, Damage, Lost

if TYPE_CHECKING:
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckedTable, RowsCheck


def after_audit(audit: AuditReport) -> Sequence[NextStep]:
    """The next steps for the problems of an audit, in the order in which they are done; alike ones in one step."""
    if audit.agrees:
        return ()
    damages = [each.damage for each in audit.problems if isinstance(each, Amiss)]
    readable = {each.table for each in damages if each.kind in _OPENED_AFTER}
    broken = [each for each in audit.unreadable if each.table not in readable]
    kinds = grouped((each.kind, each) for each in dict.fromkeys(damages))
    steps = (
        *(step for kind in Lost if kind in kinds for step in _after_loss(kind, kinds[kind])),
        *(found for problem in broken if (found := problem.error.next_step)),
        *([step(do(Command.RECOVER))] if audit.has_open_publications or audit.has_other_times else []),
    )
    return steps or (step("restore ledger and lake from backups of the same time; then ", do(Command.AUDIT)),)


_OPENED_AFTER = frozenset({Lost.NOT_NEEDED, Lost.COMMIT, Lost.EVIDENCE})
"""After the next step for these a table can be opened."""


def _after_loss(kind: Lost, found: Sequence[Damage]) -> Iterator[NextStep]:
    """The next step after damages of one kind."""
    match kind:
        case Lost.LEDGER:
            yield step("restore the ledger from a backup that has not been edited; then ", do(Command.AUDIT))
        case Lost.LANDED:
            for each in found:
                fetch = f"fetch {each.named} (sha256 {each.sha256}) from the archive; to land it again puts it back: "
                yield step(fetch, do(Command.LAND, _short(each.table), each.named, by=NAME))
        case Lost.CAPTURED:
            for each in found:
                yield step(f"restore {each.place} (sha256 {each.sha256}) from a backup; then ", do(Command.AUDIT))
        case Lost.CONFORMED | Lost.QUARANTINED:
            for place, alike in grouped((each.place, each) for each in found).items():
                # Files are landed from a folder.
                copied = place.rpartition("/")[2] if "://" in place else place
                first = "" if copied == place else f"copy {place} to this folder, and "
                again = do(Command.LAND, _short(alike[0].table), copied, on_duplicate="reprocess", by=NAME)
                yield step(f"{first}judge its records again, from the landed file: ", again)
        case Lost.SEGMENT | Lost.NOT_NEEDED:
            for each in found:
                why = (
                    "it is written again when it is needed"
                    if kind is Lost.SEGMENT
                    else "readers begin with the commits"
                )
                yield step(f"remove {each.place}: {why}; then ", do(Command.AUDIT))
        case Lost.REFERENCE:
            for each in found:
                said = f"put {each.named} back as {each.place}: the file whose sha256 is {each.sha256}; then "
                yield step(said, do(Command.AUDIT))
        case Lost.TABLE | Lost.CODE:
            for place in dict.fromkeys(each.place for each in found):
                yield step(f"restore {place} from a backup; then ", do(Command.AUDIT))
        case Lost.COMMIT:
            for table, of_table in grouped((each.table, each) for each in found).items():
                wanted = ", ".join(f"{each.place} (sha256 {each.sha256})" for each in of_table)
                log = of_table[0].place.rpartition("/")[0]
                without = f"restore {wanted} from a backup; without one, move {log} away, and set {table} to what its "
                yield step(without, "publications left: ", do(Command.RECOVER, table, reason=WHY, by=NAME))
        case Lost.EVIDENCE:
            for table, of_table in grouped((each.table, each) for each in found).items():
                how = f"write {table} again from the ledger (move {of_table[0].place} away if it cannot be opened): "
                yield step(how, do(Command.RECOVER, table))
        case Lost.FOREIGN:
            for table in dict.fromkeys(each.table for each in found):
                undoes = f"set {table} to what its publications left, which undoes what another program did: "
                yield step(undoes, do(Command.RECOVER, table, reason=WHY, by=NAME))
        case Lost.ACCEPTED:
            for repair in dict.fromkeys(each.repair for each in found if each.repair):
                is_ready = any(each.is_repaired for each in found if each.repair == repair)
                yield step(
                    f"{repair} repairs lost files: ", publish(repair) if is_ready else do(Command.STATUS, repair)
                )
            begun = [each for each in found if not each.repair]
            for (table, _), lost in grouped(((each.table, each.run_id), each) for each in begun).items():
                days = sorted({each.partition for each in lost if each.partition is not None})
                yield step(
                    f"restore the lost files of {table} from a backup, or compute them again: ", _repair(lost[0], days)
                )
        case Lost.EARLIER:
            for table, of_table in grouped((each.table, each) for each in found).items():
                accept = do(Command.RECOVER, table, reason=WHY, by=NAME)
                yield step(f"restore them below {of_table[0].place} from a backup, or accept the loss: ", accept)
        case Lost.NOTHING:
            pass


def _repair(lost: Damage, days: Sequence[date]) -> NextStep:
    """The commands that compute lost partitions again: those of a source are loaded, others planned."""
    if lost.table.startswith("bronze."):
        return joined(loads(lost.table, days))
    if lost.grain is None:
        return step("declare the table again; then ", do(Command.AUDIT))
    plans = [
        do(Command.PLAN_TABLE, _short(lost.table), kind="repair", reason=WHY, first=some.start, last=some.last, by=NAME)
        for some in compress(lost.grain, days)
    ]
    return joined(plans)


def _short(table: str) -> str:
    return table.partition(".")[2]


def after_check(table: CheckedTable) -> NextStep:
    """The commands that build partitions again which do not hold what their table declares."""
    if table.contract_version is not None:
        return joined(loads(table.table, table.restate or ()))
    return step(
        do(Command.STALE, table.table), " says whether its inputs and its release still are those of these rows"
    )


def after_rows_check(found: RowsCheck) -> Iterator[NextStep]:
    """The commands that replace accepted rows which fail a blocking gate, and bring back those that could not be
    read."""
    failed = [each.failed for each in found.gates if each.blocking and each.failed]
    if failed:
        days = sorted({day for each in failed for day in each})
        yield restated(found.table, Partitions.of(failed[0].grain, days))
    if found.not_measurable:
        yield step(do(Command.AUDIT), " says what is damaged, and what repairs it")
