"""References of a request: with which versions of its references every run of it is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.errors import InvalidReference, MissingInput
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.provenance import references_of
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics
from backfill_assets.planning.request import (
    AskedReferences,
    Recorded,
    TableSpec,
    VersionGroup,
    by_recorded_versions,
    require_one_group,
)
from backfill_assets.transforms.references import archive, find_version, known_to, load_pinned, reading_references
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The partitions of one run, and with which references it is computed."""

    partitions: tuple[date, ...]
    references: tuple[PinnedReference, ...]
    graph: Graph  #: The planner's view, with the windows of the table as these references give them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Chooses the references of the runs of one request."""

    ws: Workspace
    asked: AskedReferences
    named: Mapping[str, PinnedReference]  #: The versions that the request named, found and archived.

    @staticmethod
    def of(ws: Workspace, asked: AskedReferences) -> Chooser:
        """The chooser for a request.

        Raises:
            UnknownName: The domain has no such reference, or no such version of it is known.
            Refused: Several documents have that version.
        """
        declared = {reference.name: reference for reference in ws.domain.references}
        named: dict[str, PinnedReference] = {}
        used: frozenset[str] = frozenset()
        if asked.named:
            with ws.ledger.read() as tx:
                used = frozenset(each.sha256 for each in tx.runs.references())
        for name, version in asked.named:
            if name not in declared:
                raise NoSuchName(kind="reference", name=name, known=tuple(sorted(declared)))
            found = find_version(
                declared[name], version, present=ws.references[name], archived=ws.reference_archive, used=used
            )
            archive([found], ws.reference_archive)
            named[name] = replace(found.pinned, semantics=ReferenceSemantics.CORRECTED)
        return Chooser(ws=ws, asked=asked, named=named)

    def one(self, tx: ReadTransaction, table: DerivedTable, partitions: Sequence[date]) -> Choice:
        """The references of a run over these partitions."""
        groups = self._groups(tx, table, partitions)
        return self._choice(table, require_one_group(table.name, table.partition.grain, groups))

    def each(self, tx: ReadTransaction, table: DerivedTable, partitions: Sequence[date]) -> tuple[Choice, ...]:
        """The runs over these partitions: as recorded one for each combination of versions, otherwise a single one.

        Raises:
            Refused: There would be several, and each merges with all of the table's rows: the first that is published
                replaces what the others are merged with.
        """
        groups = self._groups(tx, table, partitions)
        if not table.publish.is_divisible:
            groups = (require_one_group(table.name, table.partition.grain, groups),)
        return tuple(self._choice(table, group) for group in groups)

    def reach(self, tx: ReadTransaction) -> Graph:
        """The planner's view for what a change reaches: as recorded also by the windows of earlier references."""
        if self.asked.semantics is not ReferenceSemantics.AS_RECORDED:
            return self._graph_of_named()
        graph = self.ws.graph
        tables = dict(graph.tables)
        for table in self._with_references():
            edges = list(tables[table.name].inputs)
            recorded = recorded_references(tx, table.name).values()
            for used in dict.fromkeys(tuple(each.values()) for each in recorded if each):
                try:
                    earlier = self.ws.graph_with(table.name, _declared(table, used)).table(table.name).inputs
                except (MissingInput, InvalidReference):
                    continue  # Refused once it is known that its partitions are to be computed with it.
                edges += [edge for edge in earlier if edge not in edges]
            tables[table.name] = replace(tables[table.name], inputs=tuple(edges))
        return replace(graph, tables=tables)

    def _graph_of_named(self) -> Graph:
        graph = self.ws.graph
        if self.asked.are_present:
            return graph
        nodes = {t.name: self._graph(t, self._present(t)).table(t.name) for t in self._with_references()}
        return replace(graph, tables={**graph.tables, **nodes})

    def _with_references(self) -> Iterable[DerivedTable]:
        return (table for table in self.ws.domain.derived if table.references)

    def _groups(self, tx: ReadTransaction, table: DerivedTable, partitions: Sequence[date]) -> tuple[VersionGroup, ...]:
        if self.asked.semantics is not ReferenceSemantics.AS_RECORDED or not table.references:
            return (VersionGroup(partitions=tuple(partitions), references=self._present(table)),)
        recorded = recorded_references(tx, table.name, partitions)
        return by_recorded_versions(table.name, table.partition.grain, table.references, partitions, recorded)

    def _present(self, table: DerivedTable) -> tuple[PinnedReference, ...]:
        """The versions that were named, and the present ones of all others."""
        return tuple(self.named.get(name) or self.ws.references[name].pinned for name in table.references)

    def _choice(self, table: DerivedTable, group: VersionGroup) -> Choice:
        return Choice(
            partitions=group.partitions, references=group.references, graph=self._graph(table, group.references)
        )

    def _graph(self, table: DerivedTable, references: Sequence[PinnedReference]) -> Graph:
        if not any(pinned.is_chosen for pinned in references):
            return self.ws.graph
        return self.ws.graph_with(table.name, references)


def with_references(
    ws: Workspace, table: DerivedTable, terms: TableSpec, references: Sequence[PinnedReference]
) -> TableSpec:
    """The terms of a run with these references, of which gates know the version that was chosen.

    Raises:
        InvalidReference: An entry of one that a gate asks says nothing clear.
    """
    chosen = [each for each in references if each.is_chosen] if reading_references(table) else []
    known = {each.name: each for each in known_to(table, load_pinned(ws.domain, chosen, ws.reference_archive))}
    safeguards = tuple(known.get(each.name, each) for each in terms.safeguards)
    return replace(terms, references=tuple(references), safeguards=safeguards)


def recorded_references(tx: ReadTransaction, table: str, partitions: Sequence[date] | None = None) -> Recorded:
    """The references that the accepted rows of a table were computed with, as versions to use as recorded."""
    versions = tx.versions.accepted(table, partitions)
    return {partition: references_of(version.provenance) for partition, version in versions.items()}


def _declared(table: DerivedTable, used: Iterable[PinnedReference]) -> tuple[PinnedReference, ...]:
    return tuple(pinned for pinned in used if pinned.name in table.references)
