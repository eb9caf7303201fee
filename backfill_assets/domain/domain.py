"""Domain: tables and references that belong together, and loading of the one that the settings name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from backfill_assets.calendar.partitions import DayRange, Days, Grain
from backfill_assets.calendar.windows import SAME_DAYS
from backfill_assets.core.declaring import declared, meant, shown
from backfill_assets.core.errors import BackfillError, InvalidDeclaration, UnknownName
from backfill_assets.domain.breakdown import check_measures
from backfill_assets.domain.declarations import SHORT_NAME, check_conditions, require_columns, wrong
from backfill_assets.domain.errors import DomainNotLoaded
from backfill_assets.domain.failing_rows import Failing
from backfill_assets.domain.gates import columns_in, require_kind
from backfill_assets.domain.sources import SourceTable
from backfill_assets.domain.tables import DerivedTable, References, Table
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.kinds.load import LOAD
from backfill_assets.planning.kinds.replace import VersionOf
from backfill_assets.planning.safeguards import APPROVERS


class ReferenceValue(Protocol):
    """The protocol of a parsed reference document: it has the version that it declares."""

    @property
    def version(self) -> str: ...


@declared
@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A versioned reference document, kept as `<name>.yaml` in the reference folder.

    Args:
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

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise InvalidDeclaration(f"a reference is named like its file, without .yaml: {self.name!r:.60}.")


@declared
@dataclass(frozen=True, kw_only=True)
class Domain:
    """Everything that belongs together: tables and the references they use. Its module names it `DOMAIN`.

    Args:
        name: A word for it, kept in manifests: lower-case letters, digits and _.
        package: The Python package whose modules make up the transforms' code; of each table, those that it reaches.
        sources: The source tables.
        derived: The derived tables.
        references: The references that they may use.
        tables: All tables by name, in the order in which they follow from each other.
    """

    name: str
    package: str
    sources: tuple[SourceTable, ...]
    derived: tuple[DerivedTable, ...]
    references: tuple[Reference, ...] = ()
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
                    raise wrong(
                        table, f"it uses reference {name!r}, which the domain does not declare{meant(name, known)}"
                    )
        for table in every:
            for gate in (each for each in table.gates if isinstance(each, Failing)):
                for name in gate.references:
                    if name not in known:
                        why = f"gate {gate.name} uses reference {name!r}, which the domain does not declare"
                        raise wrong(table, f"{why}{meant(name, known)}")
                for read in gate.reads:
                    if id(read.table) not in declared:
                        why = f"gate {gate.name} reads {read.table.name} as {read.argument!r}"
                        raise wrong(table, f"{why}, which the domain does not declare")
        for table in self.derived:
            self._check_version(table)
        ordered = topological(_node(table, {}, {}) for table in every)
        by_name = {table.name: table for table in every}
        object.__setattr__(self, "tables", {name: by_name[name] for name in ordered})

    def _check_version(self, table: DerivedTable) -> None:
        """Refuses a version of a table whose readers could not be cut over to it."""
        by_name = {each.name: each for each in self.derived}
        if table.version_of is None:
            for read in table.inputs.values():
                if isinstance(read, DerivedTable) and read.version_of:
                    why = f"it reads {read.name}, a version of {read.version_of}, and is not a version itself"
                    raise wrong(table, f"{why}: its readers would see rows of the version before they are cut over")
            return
        other = by_name.get(table.version_of)
        if other is None or other.version_of:
            raise wrong(table, f"it is a version of {table.version_of}, which has to be a derived table without one")
        if (table.key, table.partition, table.stretches) != (other.key, other.partition, other.stretches):
            raise wrong(table, f"it is a version of {other.name}, and has another key or other partitions")
        for name in (*other.key, other.partition.column):
            if table.schema[name].dataType != other.schema[name].dataType:
                raise wrong(table, f"it is a version of {other.name}, and its key {name!r} has another type")

    def source_of_package(self) -> tuple[Path, bool]:
        """The source file of the package, and whether it is a package and not a single module.

        Raises:
            InvalidDeclaration: There is none.
        """
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError):  # a package above it is not there, or it is no name of a package
            spec = None
        if spec is None or spec.origin is None:
            raise InvalidDeclaration(f"domain {self.name} names the package {self.package!r}, which has no source.")
        return Path(spec.origin), bool(spec.submodule_search_locations)

    def family(self, name: str) -> tuple[str, ...]:
        """A table and its versions, in the order of their declaration; only itself for a table without versions."""
        return (name, *(table.name for table in self.derived if table.version_of == name))

    @property
    def names_with_versions(self) -> tuple[str, ...]:
        """The tables that have versions beside them."""
        return tuple(dict.fromkeys(table.version_of for table in self.derived if table.version_of))

    def table(self, name: str) -> Table:
        """The table of that name, with or without its layer.

        Raises:
            UnknownName: There is no such table.
        """
        for table in self.tables.values():
            if name in (table.name, table.short_name):
                return table
        raise NoSuchName(kind="table", name=name, known=tuple(self.tables))

    def grain_of(self, name: str) -> Grain:
        """The grain of a table: days or months; days of a table that is not declared."""
        return self.tables[name].partition.grain if name in self.tables else Grain.DAILY

    def derived_table(self, name: str, *, days: Days | None = None) -> DerivedTable:
        """The derived table of that name.

        Raises:
            UnknownName: There is no such table, or it is a source table.
        """
        table = self.table(name)
        if isinstance(table, SourceTable):
            raise UnknownName.coded(
                "source_is_not_planned",
                "{table} is a source table; it is built from landed files, not planned.",
                then="[load {short} days={days} by=NAME]" if days else "",
                table=table.name,
                days=days,
                short=table.short_name,
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
        raise NoSuchName(kind="source", name=name, known=[table.short_name for table in self.sources])

    def graph(self, references: References, *, first_day: date, contracts: Mapping[str, str] | None = None) -> Graph:
        """The planner's view of the tables, windows resolved against these references.

        Args:
            references: The parsed reference values, by name.
        """
        read_as = contracts or {}
        return Graph(
            tables=topological(_node(table, references, read_as, resolve=True) for table in self.tables.values()),
            first_day=first_day,
        )


def _node(table: Table, references: References, contracts: Mapping[str, str], *, resolve: bool = False) -> TableNode:
    if isinstance(table, SourceTable):
        return TableNode(name=table.name, grain=table.partition.grain, beyond=table.beyond, change=LOAD)
    return TableNode(
        name=table.name,
        grain=table.partition.grain,
        change=table.publish.pinned,
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


def load_domain(module_name: str, *, conditions: bool = True) -> Domain:
    """The `DOMAIN` that a module declares.

    Args:
        module_name: As BACKFILL_DOMAIN names it.
        conditions: Check the conditions of gates as well; what plans nothing does not need them.

    Raises:
        InvalidDeclaration: No module is named, it cannot be imported, has no `DOMAIN`, or its declarations are invalid.
    """
    if not module_name:
        raise InvalidDeclaration.coded(
            "no_domain",
            "BACKFILL_DOMAIN is not set, and there is no domain without it.",
            then="set BACKFILL_DOMAIN to the module that declares DOMAIN; to begin one: [init my_shop]; to see one: "
            "[demo]",
        )
    try:
        return _loaded(module_name, conditions=conditions)
    except InvalidDeclaration as error:
        error.place = error.place or _place_of(module_name, error)
        raise


def _loaded(module_name: str, *, conditions: bool) -> Domain:
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            why = f"it imports {error.name!r}, which is not installed"
            refusal = DomainNotLoaded(module=module_name, why=why)
            refusal.place = _place_of(module_name, error)
            raise refusal from error
        raise InvalidDeclaration.coded(
            "domain_not_found",
            "BACKFILL_DOMAIN names the module {module!r}, which cannot be imported.",
            then="put the folder that holds it on the path: export PYTHONPATH=$PWD",
            module=module_name,
        ) from error
    except BackfillError:
        raise
    except Exception as error:  # every error of an author's module is shown to the author, in one line
        place = _place_of(module_name, error)
        said = error.msg if isinstance(error, SyntaxError) else error
        refusal = DomainNotLoaded(module=module_name, why=f"{type(error).__name__}: {said}{place and f' ({place})'}")
        refusal.place = place
        raise refusal from error
    domain = getattr(module, "DOMAIN", None)
    if not isinstance(domain, Domain):
        others = sorted(name for name, value in vars(module).items() if isinstance(value, Domain))
        why = f"{others[0]} is a Domain there, and is not named DOMAIN" if others else "it defines no DOMAIN"
        is_other = "" if domain is None else f"; its DOMAIN is {shown(domain)}"
        raise DomainNotLoaded(module=module_name, why=f"{why}{is_other}")
    if conditions:
        check_expressions(domain)
    return domain


def check_expressions(domain: Domain) -> None:
    """Refuses a package without source, and the SQL of gates, measures and explained differences that cannot be
    evaluated.

    Raises:
        InvalidDeclaration: The package has no source files, or it is not SQL, or mentions a column that the schema
            lacks.
    """
    domain.source_of_package()
    for table in domain.tables.values():
        try:
            check_conditions(table)
            if isinstance(table, DerivedTable):
                check_measures(table, table.breakdown)
                if table.declared_version and table.declared_version.explained:
                    _check_explained(table, table.declared_version, domain.derived_table(table.declared_version.table))
        except InvalidDeclaration as error:
            error.place = error.place or table.place
            raise


def is_named(domain: Domain, module_name: str) -> bool:
    """True if an imported module has this very domain as its `DOMAIN`, so that other processes can load it."""
    return getattr(sys.modules.get(module_name), "DOMAIN", None) is domain


def _place_of(module_name: str, error: BaseException) -> str:
    """The last line of an author's own files that an error passed; without one, the module's file, if it has one.

    Where Python cannot parse a file, it is the line in that file.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    package = module_name.rpartition(".")[0] or module_name
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, name = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
        if f"{name}.".startswith(f"{package}.") or _is_of_an_author(file):
            place = f"{file}, line {line}"
    return place or getattr(sys.modules.get(module_name), "__file__", None) or ""


def _is_of_an_author(file: str) -> bool:
    """True if a file belongs neither to Python, nor to an installed package, nor to this one."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = (*installed, str(Path(__file__).parents[1]))
    return not file.startswith("<") and not any(file.startswith(f"{folder}{os.sep}") for folder in others)


def _check_explained(version: DerivedTable, declared: VersionOf, other: DerivedTable) -> None:
    """Refuses a condition of explained differences over columns that only one side has, or in another type."""
    what = f"the explained difference of {version.name}"
    columns = columns_in(declared.explained, what)
    for table in (version, other):
        require_columns(table, columns, f"{what}: column")
    require_kind(declared.explained, what, version.schema, counts=False)
    for name in columns:
        if version.schema[name].dataType != other.schema[name].dataType:
            raise wrong(version, f"its explained difference names {name!r}, of another type in {other.name}")
