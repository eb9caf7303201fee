"""Checks: the domain against what is published, every table against what its readers need, accepted rows against their
gates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from backfill_assets.calendar.partitions import Partitions, count_of, partition_of
from backfill_assets.candidates.compare import ComparedFiles, compare_partitions, groups_of
from backfill_assets.candidates.compute import cannot_compute, pinned_inputs
from backfill_assets.candidates.evaluate import validation_rows
from backfill_assets.candidates.failing_rows import (
    GateQueries,
    counted,
    examples,
    pinned_by_gate,
    require_determined_gates,
)
from backfill_assets.candidates.rows import lost_partitions, rows_of
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    BackfillError,
    ContractBroken,
    InvalidReference,
    MissingInput,
    Problem,
    Problems,
    Refused,
)
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import DataFile, FileSet, contract_of, document_digest
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.spark import require_meaning
from backfill_assets.domain import DerivedTable, Failing, Gate, SourceTable, Table, UniqueKey
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.gates.agreed import asked_of_accepted, gate_terms
from backfill_assets.gates.judge import FailingRows, Findings, judge
from backfill_assets.gates.measure import contents, violations
from backfill_assets.gates.measured import Measured
from backfill_assets.gates.sample import MOST_KEYS, failing_keys
from backfill_assets.lake.append import append_validation
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.lake.staging import footer_columns
from backfill_assets.lake.tables import problem_of
from backfill_assets.ledger.checks import CheckedGate
from backfill_assets.ledger.findings import FailingKey, Finding, GateResult
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.transforms.apply import CHECK, plan_of
from backfill_assets.transforms.schemas import business_schema, former_columns_of, require_follows
from backfill_assets.transforms.ties import AddedDoubles
from backfill_assets.workspace import Workspace

# Check: compares the domain with what is published, and every table with what its readers need.
#
# It changes nothing. What the published files cannot give is named: columns that old files do not have,
# partitions that a lift gives other values, tables that cannot follow their declaration, and transforms that
# cannot be computed.


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltVersion:
    """Accepted partitions of a source that were built in one version of its contract."""

    version: int  #: The version.
    partitions: Partitions  #: Which ones.
    #: True if they are read as what the present contract says, so that they need not be built again.
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

    agrees: bool  #: True if every table can follow its declaration, and every transform can read its inputs.
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
            way = (
                f"{anew}; {error.with_other_files}" if error.is_source else f"cancel what was staged with them: {runs}"
            )
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


# Check of rows: measures accepted rows with the gates that their table declares now, and computes nothing.
#
# What readers see stays as it is, whatever is found. Results are recorded group by group of partitions, each in
# one commit of the table behind `validation/<name>` and one transaction of the ledger: a process that stops
# leaves whole groups, and the same command again adds nothing twice. A result names the version that was
# measured; where another one is accepted meanwhile, that is said.

MOST_FAILURES = 20
"""How many failing partitions of a gate are listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOnRows:
    """One gate's finding in the accepted rows that were checked."""

    gate: str  #: Its name.
    blocking: bool  #: True if its failure would block a run.
    measured: int  #: In how many partitions it was measured.
    nothing_known: int  #: In how many of them it asked nothing, because its reference has no entry for them.
    failed: Partitions | None  #: The partitions that do not pass it; null when all do.
    failures: tuple[CheckedGate, ...]  #: What it found in the first of them, by partition.
    keys: tuple[FailingKey, ...]  #: Keys of some rows that fail it.


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasurable:
    """Accepted partitions that could not be measured."""

    partitions: Partitions  #: Which ones.
    gates: tuple[str, ...]  #: With which gates.
    why: str  #: The reason, of the first of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCheck:
    """Accepted rows of a table, measured with the gates that it declares now."""

    table: str  #: The table.
    #: True if every blocking gate passed in every accepted partition that was asked for, and could be measured there.
    passes: bool
    partitions: Partitions | None  #: The accepted partitions that were measured; null when none could be.
    asked: int | None  #: How many partitions were asked for; null where all accepted ones were.
    #: Those of them without accepted rows, in which nothing was measured; null without any.
    not_accepted: Partitions | None
    gates: tuple[GateOnRows, ...]  #: What each gate found, as they are declared.
    of_candidates: tuple[str, ...]  #: The gates that are asked only of candidates, and were not asked.
    #: The accepted partitions that could not be measured with some gates, by reason.
    not_measurable: tuple[NotMeasurable, ...]
    #: Partitions of which another version was accepted while the one before it was measured.
    replaced: Partitions | None


@dataclass(kw_only=True)
class _Checking:
    """One check: what is measured, and what was found so far."""

    ws: Workspace
    table: Table
    gates: tuple[Gate, ...]
    terms: Mapping[str, str]  #: The digests of the gates by name.
    accepted: Mapping[date, PartitionVersion]
    by: str
    code: Mapping[str, str]  #: The digests of the code that measures gates, by name.
    found: list[CheckedGate] = field(default_factory=list)
    keys: list[FailingKey] = field(default_factory=list)
    unmeasured: dict[tuple[str, date], str] = field(default_factory=dict)  #: Why a gate could not measure a partition.


def check_rows(
    ws: Workspace,
    table: Table,
    partitions: Sequence[date] | None,
    *,
    gates: Collection[str] = (),
    by: str,
    listener: Listener = no_listener,
) -> RowsCheck:
    """Measures the accepted rows of a table with its present gates, and records what they find.

    Args:
        table: A source or a derived table.
        partitions: Those to check; None for all accepted ones.
        gates: Names of declared gates; none for all that can be asked of accepted rows.
        by: Who checks.

    Raises:
        MissingInput: None of these partitions has accepted rows.
        Refused: A gate is named that needs a candidate.
        WrongSession: The Spark session gives rows another meaning.
        ContractBroken: Spark stopped at a gate, which the error names.
        NotAppended: The results could not be written; nothing of their group was recorded.
    """
    wanted = tuple(gate for gate in table.gates if not gates or gate.name in gates)
    for gate in wanted:
        if gates and not gate.of_accepted:
            raise Refused.coded(
                "asked_of_candidates_only",
                "gate {gate} of {table} is asked only of candidates: it compares one with the accepted rows.",
                then="leave it out; [plan table {short} reason=WHY by=NAME] asks it",
                table=table.name,
                gate=gate.name,
                short=table.short_name,
            )
    with ws.ledger.read() as tx:
        accepted = tx.versions.accepted(table.name, partitions)
    if not accepted:
        raise MissingInput.coded(
            "nothing_accepted",
            "no partition of {table} that was asked for has accepted rows.",
            then="[history {table}] lists its publications",
            table=table.name,
        )
    unreadable, own = _unreadable(ws, table, accepted), ws.code.gate_digests(table)
    readable = {p: version for p, version in accepted.items() if p not in unreadable}
    work = _Checking(
        ws=ws,
        table=table,
        gates=tuple(gate for gate in wanted if gate.of_accepted),
        terms=asked_of_accepted(table, own),
        code={term.name: term.code for term in gate_terms(table, code=own)},
        accepted=readable,
        by=by,
    )
    work.unmeasured |= {(gate.name, p): why for gate in work.gates for p, why in unreadable.items()}

    def say(line: str) -> None:
        listener(Progress(step="check", done=done, total=len(readable), line=line, table=table.name))

    done = 0
    for group in groups_of(readable, {p: version.files for p, version in readable.items()}):
        say(f"measuring {count_of(len(group), table.partition.grain.noun)} with {count_of(len(work.gates), 'gate')}")
        _check_group(work, group)
        done += len(group)
    say("done")
    lacking = [p for p in partitions or () if p not in accepted]
    return replace(
        _checked_rows(work, wanted),
        asked=None if partitions is None else len(partitions),
        not_accepted=Partitions.of(table.partition.grain, lacking) if lacking else None,
    )


def _unreadable(ws: Workspace, table: Table, accepted: Mapping[date, PartitionVersion]) -> Mapping[date, str]:
    """Why accepted versions cannot be measured, by partition."""
    if (former := former_columns_of(ws.lake, table)) is not None:
        why = f"{table.name} was written in other columns than it declares now: {former.differing}"
        return {p: why for p, version in accepted.items() if version.files.files}
    lost = lost_partitions(ws, table, accepted, repairs=True)
    return {p: problem_of(ws.lake, table.name, version.files) or "" for p, version in lost.items()}


def _check_group(work: _Checking, group: Sequence[date]) -> None:
    """Measures, appends and records some partitions."""
    ws, table = work.ws, work.table
    versions = {partition: work.accepted[partition] for partition in group}
    measured, (failing, own_keys) = _measured(work, versions), _failing_rows(work, versions)
    judged = judge(work.gates, map(_as_candidate, versions.values()), Findings(measured=measured, failing=failing))
    results = [each for each in judged if (each.gate, each.partition) not in work.unmeasured]
    keys = (*_keys(work, versions, results), *own_keys)
    found = [
        CheckedGate.of(
            result, table=table.name, version=versions[result.partition].version, term=work.terms[result.gate]
        )
        for result in results
    ]
    with ws.ledger.read() as tx:
        new = tx.checks.not_known(table.name, found)
    if new:
        _append(work, new)
        ws.reached(Point.CHECK_APPENDED)
        with ws.ledger.write() as tx:
            tx.checks.record(table.name, new, actor=work.by, keys=keys)
    work.found += found
    work.keys += keys


def _as_candidate(version: PartitionVersion) -> CandidatePartition:
    """An accepted version as gates judge a candidate: of the run that made it."""
    return CandidatePartition(
        run_id=version.run_id, partition=version.partition, files=version.files, rows=version.rows
    )


def _measured(work: _Checking, versions: Mapping[date, PartitionVersion]) -> Mapping[date, Measured]:
    """The measurements of accepted rows as readers see them; partitions without rows are absent."""
    ws, table = work.ws, work.table
    files = {p: version.files for p, version in versions.items() if version.files.files}
    if not files:
        return {}
    require_meaning(ws.spark())
    rows = rows_of(ws, table, files.values())
    try:
        measured = dict(contents(rows, table, schema=business_schema(table), gates=work.gates))
    except PySparkException as error:
        raise _of_its_gate(work, rows, error) from error
    if any(isinstance(gate, UniqueKey) for gate in work.gates):
        by_key = compare_partitions(ComparedFiles(ws=ws, table=table, staged=files, accepted={}))
        measured = {p: replace(each, surplus=by_key[p].surplus if p in by_key else 0) for p, each in measured.items()}
    return measured


def _of_its_gate(work: _Checking, rows: DataFrame, error: PySparkException) -> Exception:
    """An error of Spark as that of the gate whose condition stops by itself, without the value; else as it is."""
    for name, is_broken in violations(work.table, work.gates).items():
        try:
            rows.where(is_broken).count()
        except PySparkException as alone:
            problem = f"stopped with {alone.getCondition() or type(alone).__name__} while Spark asked it of rows"
            return CodeBroken(code=f"the gate {name} of {work.table.name}", problem=problem)
    return error


def _failing_rows(
    work: _Checking, versions: Mapping[date, PartitionVersion]
) -> tuple[Mapping[str, FailingRows], Sequence[FailingKey]]:
    """The failures of gates on failing rows, and some of the rows. Where they read inputs or references, these are the
    ones that the run pinned which made the rows; where retention has removed them, that is kept as the reason.

    The gates are asked together, in one query of the rows of each run.
    """
    gates = tuple(gate for gate in work.gates if isinstance(gate, Failing))
    counts: dict[str, dict[date, int]] = {gate.name: {} for gate in gates}
    keys: list[FailingKey] = []
    unknown: dict[str, set[date]] = {gate.name: set() for gate in gates}
    for run_id, days in grouped((v.run_id, p) for p, v in versions.items()).items() if gates else ():
        with work.ws.ledger.read() as tx:
            manifest = tx.runs.get(run_id).manifest
        left = [gates]
        while left:
            some = left.pop()
            asked = _asked(work, some, manifest, {p: versions[p].files for p in days})
            try:
                measured = counted(asked)
                rows = {
                    name: {p: found for p, found in each.rows.items() if p not in each.lacking}
                    for name, each in measured.items()
                }
                shown = Counter(key.gate for key in (*work.keys, *keys))
                wanted = {name: found for name, found in rows.items() if shown[name] < MOST_KEYS}
                for name, few in grouped((key.gate, key) for key in examples(asked, wanted)).items():
                    keys += few[: MOST_KEYS - shown[name]]
            except MissingInput as error:
                if len(some) > 1:
                    # Those that do not read what is gone can be measured.
                    left += [(gate,) for gate in some]
                else:
                    work.unmeasured |= dict.fromkeys(((some[0].name, p) for p in days), error.message)
                continue
            for name, each in measured.items():
                for partition, (lacked, missing) in each.lacking.items():
                    why = f"gate {name} reads {lacked}, of which {missing[0]} has no accepted rows"
                    work.unmeasured[name, partition] = why
                counts[name] |= rows[name]
                unknown[name] |= {*each.unknown}
    return {name: FailingRows(rows=found, unknown=unknown[name]) for name, found in counts.items()}, keys


def _asked(work: _Checking, gates: Sequence[Failing], manifest: Manifest, files: Mapping[date, FileSet]) -> GateQueries:
    """Gates with accepted rows as the candidate, beside themselves and what they were computed from."""
    ws, table = work.ws, work.table
    pinned = pinned_inputs(ws, manifest, table) if isinstance(table, DerivedTable) else {}

    def rows() -> DataFrame:
        return rows_of(ws, table, _with_rows(files.values()))

    def not_read(name: str) -> DataFrame:
        raise MissingInput.coded(
            "not_read_then",
            "run {run_id} did not read {argument} for {table}, so that a gate on it cannot be asked of its rows.",
            then="compute the rows again: [plan table {short} reason=WHY by=NAME]",
            run_id=manifest.run_id,
            table=table.name,
            argument=name,
            short=table.short_name,
        )

    declared = table.inputs if isinstance(table, DerivedTable) else {}
    partitions = tuple(sorted(files))
    with ws.ledger.read() as tx:
        others = [pinned_by_gate(ws, tx, table, each, partitions, references=manifest.references) for each in gates]
    return GateQueries(
        ws=ws,
        table=table,
        gates=gates,
        partitions=partitions,
        candidate=rows,
        accepted=rows,
        inputs={name: pinned.get(name) or partial(not_read, name) for name in declared},
        references=manifest.references,
        code=work.code,
        pinned={each.reads.gate: each for each in others},
    )


def _keys(
    work: _Checking, versions: Mapping[date, PartitionVersion], results: Sequence[GateResult]
) -> tuple[FailingKey, ...]:
    """Keys of some rows that fail a gate, as long as no earlier group has shown as many."""
    shown = Counter(key.gate for key in work.keys)
    failed = [result for result in results if not result.passed and shown[result.gate] < MOST_KEYS]
    if not failed:
        return ()
    files = [versions[p].files for p in sorted({result.partition for result in failed})]
    found = failing_keys(rows_of(work.ws, work.table, _with_rows(files)), work.table, failed, lambda _: ())
    return tuple(key for key in found if shown[key.gate] < MOST_KEYS)


def _with_rows(files: Iterable[FileSet]) -> Sequence[FileSet]:
    return [each for each in files if each.files]


def _append(work: _Checking, found: Sequence[CheckedGate]) -> None:
    """Appends results to the table behind `validation/<name>`, once however often it is tried."""
    by_run = grouped(((each.run_id, each.version), each.result) for each in found)
    with work.ws.ledger.read() as tx:
        manifests = {run.run_id: run.manifest for run in tx.runs.named(sorted({run_id for run_id, _ in by_run}))}
    rows = [
        row
        for (run_id, version), results in by_run.items()
        for row in validation_rows(manifests[run_id], results, checked_version=version)
    ]
    measured = [
        [each.partition.isoformat(), each.version, each.gate, each.term, each.passed, each.finding, dict(each.observed)]
        for each in found
    ]
    digest = document_digest([work.table.name, measured])[:16]
    append_validation(work.ws.lake, work.table.name, rows, app_id=f"check:{digest}")


def _checked_rows(work: _Checking, wanted: Iterable[Gate]) -> RowsCheck:
    grain, table = work.table.partition.grain, work.table.name
    with work.ws.ledger.read() as tx:
        now = tx.versions.claims(table, sorted(work.accepted))
    of_gate = grouped((each.gate, each) for each in work.found)
    keys = grouped((key.gate, key) for key in work.keys)
    gates = []
    for gate in work.gates:
        found = of_gate.get(gate.name, [])
        failures = sorted((each for each in found if not each.passed), key=lambda each: each.partition)
        gates.append(
            GateOnRows(
                gate=gate.name,
                blocking=gate.blocking,
                measured=len(found),
                nothing_known=sum(each.finding is Finding.NOTHING_KNOWN for each in found),
                failed=Partitions.of(grain, [each.partition for each in failures]) if failures else None,
                failures=tuple(failures[:MOST_FAILURES]),
                keys=tuple(keys.get(gate.name, ())),
            )
        )
    why = grouped((said, (gate, partition)) for (gate, partition), said in work.unmeasured.items())
    unmeasured = {gate for gate, _ in work.unmeasured}
    replaced = [p for p, version in work.accepted.items() if p not in now or now[p].version != version.version]
    return RowsCheck(
        table=table,
        passes=not any(each.blocking and (each.failed or each.gate in unmeasured) for each in gates),
        partitions=Partitions.of(grain, work.accepted) if work.accepted else None,
        asked=None,
        not_accepted=None,
        gates=tuple(gates),
        of_candidates=tuple(gate.name for gate in wanted if not gate.of_accepted),
        not_measurable=tuple(
            NotMeasurable(
                partitions=Partitions.of(grain, (partition for _, partition in some)),
                gates=tuple(gate.name for gate in work.gates if gate.name in dict(some)),
                why=said,
            )
            for said, some in why.items()
        ),
        replaced=Partitions.of(grain, replaced) if replaced else None,
    )
