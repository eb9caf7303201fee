"""Compared sides: which files a run is compared with in which state, and those of two states that readers saw.

A run is compared with the versions with which its gates compared it: before its publication, after it, when these are
what it replaced, and after a rollback. Before its gates it is compared with what readers see now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.candidates.compare import ComparedFiles
from backfill_assets.candidates.errors import RowsRemoved
from backfill_assets.core.identity import contract_of
from backfill_assets.domain import Table
from backfill_assets.lake.tables import missing_files
from backfill_assets.ledger.records import LOST, OTHER_COLUMNS, CandidatePartition, PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace


class WhyNotCompared(StrEnum):
    """Why the rows of a partition are not compared.

    NOT_STAGED: The run has not staged it yet. LOST: The files of the accepted rows are gone or damaged; its gates
    compared it by what was recorded of them. OTHER_COLUMNS: The accepted rows were declared with other columns.
    """

    NOT_STAGED = "NOT_STAGED"
    LOST = "LOST"
    OTHER_COLUMNS = "OTHER_COLUMNS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides:
    """The files of one table that are compared."""

    #: The later files as `staged`, the earlier ones as `accepted`; without partitions whose rows are known to be equal.
    sides: ComparedFiles
    partitions: tuple[date, ...]  #: All partitions that are compared, those with equal rows too.
    not_compared: Mapping[date, WhyNotCompared]  #: By partition, why its rows are not compared.
    what: str  #: Whose rows these are, in words.
    run_id: str | None = None  #: The run, where it is one alone.

    def require_files(self, partitions: Iterable[date]) -> None:
        """Refuses partitions whose files are not there: of a candidate, the ledger does not record their removal.

        Raises:
            RowsRemoved: Which partitions they are.
        """
        ws, table, of = self.sides.ws, self.sides.table, self.sides.of(partitions)
        every = [*of.staged.values(), *of.accepted.values()]
        if missing_files(ws.lake, table.name, every):
            both = ((p, files) for side in (of.staged, of.accepted) for p, files in side.items())
            gone = {p for p, files in both if missing_files(ws.lake, table.name, [files])}
            days = Partitions.of(table.partition.grain, sorted(gone))
            raise RowsRemoved(table=table.name, partitions=days, what=self.what, run_id=self.run_id)


def sides_of_run(ws: Workspace, run_id: str, *, with_equal: bool = False) -> ComparedSides:
    """The staged rows of a run, and the rows with which they were compared.

    Args:
        with_equal: Whether partitions whose rows are known to be equal are among the sides as well.

    Raises:
        UnknownName: There is no such run.
        RowsRemoved: Retention has removed files of one of the sides.
    """
    with ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
        table = ws.domain.table(manifest.table)
        staged = tx.candidates.of_run(run_id)
        before = _compared_with(tx, table, staged)
    why: dict[date, WhyNotCompared] = {p: WhyNotCompared.NOT_STAGED for p in manifest.partitions if p not in staged}
    equal: set[date] = set()
    for partition, each in staged.items():
        checksum = each.compared_checksum or ""
        is_equal = bool(each.compared_version) and each.checksum == checksum.removeprefix(LOST)
        if is_equal:
            equal.add(partition)
        if checksum.startswith(OTHER_COLUMNS):
            why[partition] = WhyNotCompared.OTHER_COLUMNS
        elif checksum.startswith(LOST) and (with_equal or not is_equal):
            why[partition] = WhyNotCompared.LOST
    read = [p for p in staged if p not in why and (with_equal or p not in equal)]
    old = {p: before[p] for p in read if p in before}
    new = {p: staged[p].files for p in read}
    what = f"run {run_id} and of what it replaces"
    _require_there(table, old.values(), what=what, run_id=run_id)
    return ComparedSides(
        sides=ComparedFiles(ws=ws, table=table, staged=new, accepted={p: version.files for p, version in old.items()}),
        partitions=tuple(p for p in staged if p not in why),
        not_compared=why,
        what=what,
        run_id=run_id,
    )


def sides_of_runs(ws: Workspace, run_ids: Sequence[str]) -> ComparedSides:
    """The sides of runs over one table, which have no partition in common."""
    found = [sides_of_run(ws, run_id) for run_id in run_ids]
    if len(found) == 1:
        return found[0]
    sides = found[0].sides
    return ComparedSides(
        sides=replace(
            sides,
            staged={p: files for each in found for p, files in each.sides.staged.items()},
            accepted={p: files for each in found for p, files in each.sides.accepted.items()},
        ),
        partitions=tuple(sorted(p for each in found for p in each.partitions)),
        not_compared={p: why for each in found for p, why in each.not_compared.items()},
        what=f"runs of {sides.table.name} and of what they replace",
    )


def _compared_with(
    tx: ReadTransaction, table: Table, staged: Mapping[date, CandidatePartition]
) -> Mapping[date, PartitionVersion]:
    gated = [(p, each.compared_version) for p, each in staged.items() if each.compared_version]
    not_gated = [p for p, each in staged.items() if each.compared_version is None]
    return {**tx.versions.pinned(table.name, gated), **tx.versions.accepted(table.name, not_gated)}


def sides_of_states(
    ws: Workspace, table: Table, before: int, after: int, partitions: Iterable[date] | None = None
) -> ComparedSides:
    """The two states of a table that readers saw in two of its versions.

    Args:
        before: The earlier one.
        partitions: Only these.

    Raises:
        RowsRemoved: Retention has removed files of one of the sides.
    """
    wanted = None if partitions is None else set(partitions)
    with ws.ledger.read() as tx:
        seen = [
            {p: version for p, version in tx.publications.seen_in(table.name, each).items() if version}
            for each in (before, after)
        ]
        both = sorted(p for p in {*seen[0], *seen[1]} if wanted is None or p in wanted)
        moved = [p for p in both if seen[0].get(p) != seen[1].get(p)]
        old, new = (tx.versions.pinned(table.name, [(p, each[p]) for p in moved if p in each]) for each in seen)
    equal = {p for p in moved if p in old and p in new and _have_equal_rows(old[p], new[p])}
    sides = []
    for versions in (new, old):
        read = {p: version for p, version in versions.items() if p not in equal}
        _require_there(table, read.values(), what="both states")
        sides.append({p: version.files for p, version in read.items()})
    staged, accepted = sides
    found = ComparedFiles(ws=ws, table=table, staged=staged, accepted=accepted)
    return ComparedSides(sides=found, partitions=tuple(both), not_compared={}, what="both states")


def _have_equal_rows(one: PartitionVersion, other: PartitionVersion) -> bool:
    is_same_form = contract_of(one.files) == contract_of(other.files)
    return one.files.digest == other.files.digest or (is_same_form and "" != one.checksum == other.checksum)


def _require_there(table: Table, versions: Iterable[PartitionVersion], *, what: str, run_id: str | None = None) -> None:
    if gone := [each for each in versions if each.removed_at is not None]:
        days = Partitions.of(table.partition.grain, (each.partition for each in gone))
        at = f"{max(each.removed_at for each in gone if each.removed_at):%Y-%m-%d}"
        raise RowsRemoved(table=table.name, partitions=days, what=what, at=at, run_id=run_id)
