"""Domain: tables and references that belong together, and an optional demo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from backfill_assets.domain.inputs import References
from backfill_assets.domain.mistakes import SHORT_NAME, wrong
from backfill_assets.domain.sources import SourceTable
from backfill_assets.domain.tables import DerivedTable, Table
from backfill_assets.errors import InvalidDeclaration, UnknownName
from backfill_assets.next_steps import NAME, Act, do
from backfill_assets.planning.filling import NAME_A_TABLE
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.partitions import DayRange
from backfill_assets.planning.policy import APPROVERS
from backfill_assets.planning.windows import SAME_DAYS


class ReferenceValue(Protocol):
    """The protocol of a parsed reference document: it has the version that it declares."""

    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A versioned reference document, kept as `<name>.yaml` in the reference folder.

    Attributes:
        name: The file's stem, and the key under which transforms find the parsed value.
        parse: From the YAML document to the value transforms use. Raises `ValueError` with a sentence about what is
            wrong in the document; the loader adds the file's name.
        changed_days: From the value before and the value now to the days whose facts differ. An empty answer is no day,
            None means that any day may differ, as for a reference without this function. Only days that are certainly
            unaffected may be left out: too many days are recomputed, too few leave wrong rows.
    """

    name: str
    parse: Callable[[Any], ReferenceValue]
    changed_days: Callable[[Any, Any], Iterable[DayRange] | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A small history with a defect in it, for `backfill demo`.

    Attributes:
        source: The source table that the files are for.
        table: The derived table that was computed wrongly.
        figures: The dependent table whose figures move, and the column of it to show.
        write_files: From a folder, a size and a seed to files in the order in which they came in.
        size, seed: The defaults of the generated data.
        covered: The days that the files cover; those without events are empty, not missing.
        history: What was published under the defective version.
        restated: The part of it that is restated under the corrected one.
        defect: The defect, in words for a new user.
    """

    source: SourceTable
    table: DerivedTable
    figures: tuple[DerivedTable, str]
    write_files: Callable[[Path, int, int], Sequence[Path]]
    size: int
    seed: int
    covered: DayRange
    history: DayRange
    restated: DayRange
    defective_version: str
    corrected_version: str
    defect: str


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Everything that belongs together: tables and the references they use.

    Attributes:
        name: A word for it, kept in manifests.
        package: The Python package whose modules make up the transforms' code; of each table, those that it reaches.
        demo: What `backfill demo` plays; None for domains without one.
    """

    name: str
    package: str
    sources: tuple[SourceTable, ...]
    derived: tuple[DerivedTable, ...]
    references: tuple[Reference, ...] = ()
    demo: Demo | None = None
    tables: Mapping[str, Table] = field(init=False)

    def __post_init__(self) -> None:
        if not SHORT_NAME.fullmatch(self.name):
            raise InvalidDeclaration(f"a domain is named with lower-case letters, digits and _: {self.name!r}.")
        every: tuple[Table, ...] = (*self.sources, *self.derived)
        short_names: dict[str, str] = {}
        for table in every:
            other = short_names.setdefault(table.short_name, table.name)
            if other != table.name:
                raise wrong(table, f"{other} has the same name in another layer")
        known = {reference.name for reference in self.references}
        if len(known) != len(self.references):
            raise InvalidDeclaration(f"domain {self.name} declares a reference twice.")
        if APPROVERS in known:
            raise InvalidDeclaration(
                f"domain {self.name} declares a reference {APPROVERS!r}, which is the file of the groups of approvers."
            )
        declared = {id(table) for table in every}
        for table in self.derived:
            for argument, source in table.inputs.items():
                if id(source) not in declared:
                    raise wrong(table, f"it reads {source.name} as {argument!r}, which the domain does not declare")
            for name in table.references:
                if name not in known:
                    raise wrong(table, f"it uses reference {name!r}, which the domain does not declare")
        ordered = topological(_node(table, {}, {}) for table in every)
        by_name = {table.name: table for table in every}
        object.__setattr__(self, "tables", {name: by_name[name] for name in ordered})

    def table(self, name: str) -> Table:
        """The table of that name, with or without its layer.

        Raises:
            UnknownName: There is no such table.
        """
        for table in self.tables.values():
            if name in (table.name, table.short_name):
                return table
        raise UnknownName(
            f"there is no table {name!r}; the tables are {', '.join(self.tables)}.", next_step=NAME_A_TABLE, table=name
        )

    def derived_table(self, name: str, *, days: DayRange | None = None) -> DerivedTable:
        """The derived table of that name.

        Args:
            name: The table.
            days: The days that are asked for, which a refusal names.

        Raises:
            UnknownName: There is no such table, or it is a source table.
        """
        table = self.table(name)
        if isinstance(table, SourceTable):
            raise UnknownName(
                f"{table.name} is a source table; it is built from landed files, not planned.",
                next_step=do(Act.LOAD, table.short_name, first=days.start, last=days.last, by=NAME) if days else None,
                table=table.name,
            )
        return table

    def source_table(self, name: str) -> SourceTable:
        """The source table of that name.

        Raises:
            UnknownName: There is no such source.
        """
        for table in self.sources:
            if name in (table.name, table.short_name):
                return table
        known = ", ".join(table.short_name for table in self.sources)
        raise UnknownName(f"there is no source {name!r}; the sources are {known}.", next_step=NAME_A_TABLE, source=name)

    def graph(self, references: References, *, first_day: date, contracts: Mapping[str, str] | None = None) -> Graph:
        """The planner's view of the tables, windows resolved against these references.

        Args:
            references: The parsed reference values, by name.
            first_day: The first day any table has a partition for.
            contracts: The contract versions in which sources are read, by table; those not named have one.
        """
        read_as = contracts or {}
        return Graph(
            tables=topological(_node(table, references, read_as, resolve=True) for table in self.tables.values()),
            first_day=first_day,
        )


def _node(table: Table, references: References, contracts: Mapping[str, str], *, resolve: bool = False) -> TableNode:
    if isinstance(table, SourceTable):
        return TableNode(name=table.name, grain=table.partition.grain)
    return TableNode(
        name=table.name,
        grain=table.partition.grain,
        inputs=tuple(
            TableInput(
                argument=argument,
                table=source.name,
                window=table.window_of(argument, references) if resolve else SAME_DAYS,
                contract=contracts.get(source.name, ""),
            )
            for argument, source in table.inputs.items()
        ),
    )
