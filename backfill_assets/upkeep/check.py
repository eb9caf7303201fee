"""Check: compares the domain with what is published, and every table with what its readers need.

It changes nothing. What the published files cannot give is named: columns that old files do not have, partitions that a
lift gives other values, tables that cannot follow their declaration, and transforms that cannot be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.candidates.compute import cannot_compute
from backfill_assets.candidates.failing_rows import require_determined_gates
from backfill_assets.core.errors import BackfillError, ContractBroken, InvalidReference, MissingInput, Problem, Problems
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import DataFile, FileSet, contract_of
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.lake.errors import WAY_OUT_OF_SOURCE, OtherColumns
from backfill_assets.lake.staging import footer_columns
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.planning.partitions import Partitions, partition_of
from backfill_assets.transforms.apply import CHECK, plan_of
from backfill_assets.transforms.schemas import business_schema, require_follows
from backfill_assets.transforms.ties import AddedDoubles
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVersion:
    """Accepted partitions of a source that were built in one version of its contract."""

    version: int  #: The version.
    partitions: Partitions  #: Which ones.
    #: Whether they are read as what the present contract says, so that they need not be built again.
    gives_same_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LackedColumn:
    """A declared column that the files of some accepted partitions do not have; it is null there."""

    column: str  #: The column.
    partitions: Partitions  #: The partitions that lack it.


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """One table of the domain, compared with what is published."""

    table: str  #: Its name.
    accepted_partitions: int  #: How many partitions have an accepted version.
    empty_partitions: int  #: How many of them have no rows, and so no file that was built in any version.
    contract_version: int | None  #: The present version of a source's contract; null for a derived table.
    #: By the version that a source's partitions were built in; empty for a derived table.
    built: tuple[BuiltVersion, ...]
    lacked: tuple[LackedColumn, ...]  #: Columns of a derived table that older files do not have.
    #: The partitions that have to be built again to hold what is declared; null when there are none.
    restate: Partitions | None
    problems: tuple[str, ...]  #: Why the table cannot follow its declaration, or cannot be computed from its inputs.
    inexact: tuple[InexactSum, ...] = ()  #: The additions of floating-point numbers that its code shows.
    added_doubles: tuple[AddedDoubles, ...] = ()  #: Those that Spark's plan shows, by function and column.


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The domain, compared with what is published."""

    agrees: bool  #: Whether every table can follow its declaration, and every transform can read its inputs.
    tables: tuple[CheckedTable, ...]  #: Inputs before dependents.
    problems: tuple[Problem, ...]  #: Tables that could not be looked at.


def check(ws: Workspace, listener: Listener = no_listener) -> CheckReport:
    """Compares every table of the domain with what is published of it, and with its readers."""
    problems = Problems()
    tables: list[CheckedTable] = []
    total = len(ws.domain.tables)
    for place, table in enumerate(ws.domain.tables.values()):
        line = "its declaration, files and inputs"
        listener(Progress(step="check", done=place, total=total, line=line, table=table.name))
        with problems.noted(table.name):
            tables.append(_checked(ws, table))
    listener(Progress(step="check", done=total, total=total, line="done"))
    is_right = not problems.found and not any(checked.problems for checked in tables)
    return CheckReport(agrees=is_right, tables=tuple(tables), problems=tuple(problems.found))


def _checked(ws: Workspace, table: Table) -> CheckedTable:
    with ws.ledger.read() as tx:
        accepted = {p: version.files for p, version in tx.versions.accepted(table.name).items()}
    found = tuple(_problems(ws, table))
    built = _built(accepted) if isinstance(table, SourceTable) else {}
    lacked = {} if isinstance(table, SourceTable) else _lacked(ws, table, accepted)
    again = sorted({day for each, days in built.items() if not _is_same(ws, table, each) for day in days})
    again = again or sorted({day for days in lacked.values() for day in days})
    grain = table.partition.grain
    return CheckedTable(
        table=table.name,
        accepted_partitions=len(accepted),
        empty_partitions=sum(not files.files for files in accepted.values()),
        contract_version=table.contract_version if isinstance(table, SourceTable) else None,
        built=tuple(
            BuiltVersion(
                version=version,
                partitions=Partitions.of(grain, days),
                gives_same_rows=_is_same(ws, table, version),
            )
            for version, days in sorted(built.items())
        ),
        lacked=tuple(
            LackedColumn(column=column, partitions=Partitions.of(grain, days)) for column, days in lacked.items()
        ),
        restate=Partitions.of(grain, again) if again else None,
        problems=found,
        inexact=_inexact(ws, table) if not found else (),
        added_doubles=_added_doubles(table) if not found else (),
    )


def _inexact(ws: Workspace, table: Table) -> tuple[InexactSum, ...]:
    return ws.code.require_determined(table, table.version) if isinstance(table, DerivedTable) else ()


def _added_doubles(table: Table) -> tuple[AddedDoubles, ...]:
    """The additions of floating-point numbers in the plan that was looked at when the table was computed from no
    rows."""
    plan = plan_of(table, table.release(None), CHECK) if isinstance(table, DerivedTable) else None
    return plan.added_doubles if plan else ()


def _is_same(ws: Workspace, table: Table, version: int) -> bool:
    versions = ws.contracts[table.name]
    return version <= versions.present and versions.gives_same_rows(version)


def _problems(ws: Workspace, table: Table) -> Iterator[str]:
    try:
        require_follows(ws.lake, ws.ledger, table)
    except OtherColumns as error:
        way = "only columns that can be null may be added and types widened, else it needs a new name"
        runs = ", ".join(error.open_runs)
        if error.is_source or error.open_runs:
            anew = "if its files were always as they are declared now, they are to be read anew"
            way = f"{anew}; {WAY_OUT_OF_SOURCE}" if error.is_source else f"cancel what was staged with them: {runs}"
        yield f"it cannot follow its declaration: {error.differing}; {way}."
    try:
        ws.code.require_determined(table, "" if isinstance(table, SourceTable) else table.version)
    except ContractBroken as error:
        yield error.message
        return
    if not isinstance(table, SourceTable) and (reason := cannot_compute(ws, table)):
        yield f"{reason}."
    try:
        ws.known_to_gates(table)
    except MissingInput:
        pass  # the file is not part of the declaration, and a plan names it
    except InvalidReference as error:
        yield error.message
        return
    try:
        require_determined_gates(ws, table, (partition_of(table.partition.grain, ws.settings.first_day),))
    except BackfillError as error:
        yield error.message


def _built(accepted: Mapping[date, FileSet]) -> Mapping[int, Sequence[date]]:
    return grouped((contract_of(files), partition) for partition, files in accepted.items() if files.files)


def _lacked(ws: Workspace, table: Table, accepted: Mapping[date, FileSet]) -> Mapping[str, Sequence[date]]:
    """The declared columns that files lack, with the partitions; footers are read, rows are not.

    All files of a staging attempt have the columns of one frame, so the footer of one of them is read.
    """
    column = table.partition.column
    wanted = [name for name in business_schema(table).fieldNames() if name != column]
    attempts: dict[str, tuple[DataFile, list[date]]] = {}
    for partition, files in accepted.items():
        for file in files.files:
            attempts.setdefault(file.path.rpartition(f"/{column}=")[0], (file, []))[1].append(partition)
    found: dict[str, list[date]] = {}
    for file, partitions in attempts.values():
        for columns in footer_columns(ws.lake, table.name, [FileSet.of([file])]):
            for name in set(wanted) - dict(columns).keys():
                found.setdefault(name, []).extend(partitions)
    return {name: sorted(set(found[name])) for name in wanted if name in found}
