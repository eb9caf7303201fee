"""Orphans: published partitions that would be left without an input if publications were undone.

A partition whose input has an earlier version again follows automatically (`backfill follow`). One whose input would
have no accepted version at all cannot be recomputed, and readers would see rows without a basis: it is undone as well,
before its input, or the rollback is refused. Where the input is a snapshot that had expired before it was computed
again, it is expired as before, and what was computed from it stays as it stayed then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.calendar.partitions import TablePartitions
from backfill_assets.core.errors import TargetChanged
from backfill_assets.ledger.records import Action, PartitionVersion, PublicationIntent, PublicationRecord
from backfill_assets.ledger.states import PublicationState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph, TableNode
from backfill_assets.planning.state import ComputedFrom
from backfill_assets.requests.errors import BeingPublished, ChangedAfterPublication, WouldLeaveOrphans


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans(TablePartitions):
    """Published partitions that would be left without an input, and the run whose publication shows them."""

    run_id: str
    publication_id: str
    request_id: str  #: What is undone with the run.


def require_no_orphans(graph: Graph, tx: ReadTransaction, undone: Sequence[PublicationIntent], *, of: str) -> None:
    """Refuses a rollback that would leave published partitions without an input.

    Args:
        of: The run or set that is rolled back.

    Raises:
        LeavesOrphans: There are such partitions.
    """
    if left := orphans_of(graph, tx, undone):
        dependents = tuple(orphans.run_id for orphans in left)
        raise WouldLeaveOrphans(of=of, dependents=dependents, left=left)


def orphans_of(graph: Graph, tx: ReadTransaction, undone: Sequence[PublicationIntent]) -> tuple[Orphans, ...]:
    """The publications that have to be undone before these, in that order."""
    if not any(change.restores == 0 for intent in undone for change in intent.changes):
        return ()
    after = _After(tx)
    for intent in undone:
        after.undo(intent.table, str(intent.undoes))
    begun = tx.publications.records(states=[PublicationState.PUBLISHING])
    by_table: list[list[Orphans]] = []
    for node in (node for node in graph.tables.values() if not node.is_beside):
        _require_none_on_its_way(graph, tx, node, after, begun)
        found: list[Orphans] = []
        while left := _without_input(graph, after, node):
            # The latest publication first: only then is what it replaced the version that would be accepted.
            publication_id = max(left, key=after.landed)
            run = tx.runs.get(tx.publications.get(publication_id).run_id)
            found.append(
                Orphans(
                    table=node.name,
                    grain=node.grain,
                    partitions=tuple(sorted(left[publication_id])),
                    run_id=run.run_id,
                    publication_id=publication_id,
                    request_id=run.request_id,
                )
            )
            after.undo(node.name, publication_id)
        by_table.append(found)
    # Dependents before their inputs; within a table the later publication before the earlier one.
    return tuple(orphans for found in reversed(by_table) for orphans in found)


@dataclass(slots=True)
class _Table:
    """One table after some of its publications were undone."""

    standing: dict[date, PartitionVersion]  #: The versions that would be accepted.
    accepted: Sequence[ComputedFrom]  #: The bases of what is accepted now.
    restored: set[date] = field(default_factory=set)


class _After:
    """The accepted versions after some publications were undone."""

    def __init__(self, tx: ReadTransaction) -> None:
        self._tx = tx
        self._tables: dict[str, _Table] = {}
        self._made: dict[str, tuple[PartitionVersion, ...]] = {}
        self.gone: dict[str, set[date]] = {}

    def table(self, name: str) -> _Table:
        if name not in self._tables:
            self._tables[name] = _Table(
                standing=self._tx.versions.accepted(name),
                accepted=self._tx.bases.of_accepted([name]).bases[name],
            )
        return self._tables[name]

    def undo(self, name: str, publication_id: str) -> None:
        """Removes the versions of a publication; those that it replaced are accepted again."""
        table, made = self.table(name), self._made_by(publication_id)
        replaced = self._tx.versions.pinned(name, [(v.partition, v.replaces) for v in made if v.replaces])
        expired = self._tx.versions.expired_below(name, [v.partition for v in made if not v.replaces])
        for version in made:
            present = table.standing.get(version.partition)
            if present is None or present.version != version.version:
                raise self._replaced(version, present)
            before = replaced.get(version.partition)
            if before is None:
                del table.standing[version.partition]
                if version.partition not in expired:
                    self.gone.setdefault(name, set()).add(version.partition)
            else:
                table.standing[version.partition] = before
                table.restored.add(version.partition)

    def _replaced(self, version: PartitionVersion, present: PartitionVersion | None) -> TargetChanged:
        return ChangedAfterPublication(
            table=version.table,
            partition=version.partition,
            publication_id=version.publication_id,
            changed_by=f"run {present.run_id}" if present else "a rollback",
            undone_with=self._tx.runs.request_of(present.run_id) if present else None,
            so=", all of which would have to be rolled back",
        )

    def landed(self, publication_id: str) -> int:
        return max(version.delta_version for version in self._made_by(publication_id))

    def _made_by(self, publication_id: str) -> tuple[PartitionVersion, ...]:
        if publication_id not in self._made:
            self._made[publication_id] = self._tx.versions.of_publication(publication_id)
        return self._made[publication_id]

    def bases(self, name: str) -> Iterator[tuple[ComputedFrom, frozenset[date]]]:
        """The bases of the partitions that would be accepted."""
        table = self.table(name)
        for basis in table.accepted:
            yield basis, frozenset(basis.partitions) & table.standing.keys() - table.restored
        by_run: dict[str, list[date]] = {}
        for partition in sorted(table.restored & table.standing.keys()):
            by_run.setdefault(table.standing[partition].run_id, []).append(partition)
        for run_id, partitions in by_run.items():
            yield self._tx.bases.of_run(run_id, partitions), frozenset(partitions)


def _without_input(graph: Graph, after: _After, node: TableNode) -> Mapping[str, set[date]]:
    """The partitions of a table that would lose an input, by the publication that shows them."""
    if node.is_source or not after.gone:
        return {}
    left: dict[str, set[date]] = {}
    for basis, partitions in after.bases(node.name):
        for partition in partitions & _reached(graph, node, basis, after.gone):
            left.setdefault(after.table(node.name).standing[partition].publication_id, set()).add(partition)
    return left


def _reached(graph: Graph, node: TableNode, basis: ComputedFrom, gone: Mapping[str, set[date]]) -> set[date]:
    """The partitions of a table whose window, as pinned by the run, contains a partition that would be gone."""
    return {
        partition
        for read in basis.inputs
        for partition in graph.reached(read.edge, node, gone.get(read.edge.table, ()))
    }


def _require_none_on_its_way(
    graph: Graph, tx: ReadTransaction, node: TableNode, after: _After, begun: Iterable[PublicationRecord]
) -> None:
    """Refuses if a run is being published that was computed from what would be gone: it is not accepted yet."""
    for record in begun:
        if record.table != node.name or record.action is not Action.PUBLISH:
            continue
        basis = tx.bases.of_run(record.run_id, record.partitions)
        if _reached(graph, node, basis, after.gone) & set(record.partitions):
            raise BeingPublished(run_id=record.run_id, whole=node.name, so=", and was computed from what would be gone")
