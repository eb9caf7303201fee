"""Kit: a domain in an empty home, in which an author's tests land, compute and publish rows as the commands do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from backfill_assets.application.execute import execute
from backfill_assets.application.land import land
from backfill_assets.application.parts import Part
from backfill_assets.application.plan import plan
from backfill_assets.application.plan_load import plan_load
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.statements import complete_extract, land_as_extract
from backfill_assets.calendar.partitions import days_between
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.clock import Clock, system_clock
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.settings import Settings, require_settings
from backfill_assets.domain import DayRange, Domain, SourceTable, TransformContext
from backfill_assets.domain.context import known_rows
from backfill_assets.domain.domain import check_expressions, load_domain
from backfill_assets.lake.checksums import partition_checksums
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion, PublicationRecord, RunRecord
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.planning.stages import output_days, reads_of
from backfill_assets.requests.authority import approve
from backfill_assets.testing.values import Rows, columns_given, in_json, typed_rows
from backfill_assets.transforms.apply import apply_transform
from backfill_assets.transforms.schemas import current_rows
from backfill_assets.transforms.statements import Sources
from backfill_assets.workspace import Workspace

Days = DayRange | str
"""Days as a range, or as a person types them: `2026-01-01..2026-01-31`, `2026-01`, `2026`."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xmn512m"
"""What tests ask of Java: most of their processes are short, and wait neither for good code nor for threads. One that
tries many modules has room for all of its code, which it otherwise throws away and compiles again, and collects garbage
seldom."""

QUICK_SPARK: Mapping[str, str] = {
    "BACKFILL_SPARK_MASTER": "local[2]",
    "BACKFILL_SPARK_MEMORY": "3g",
    "BACKFILL_SPARK_SHUFFLE_PARTITIONS": "1",
    # Tests have little data and short processes: compiling for them, in Java and in Spark, takes longer than it saves.
    "BACKFILL_SPARK_CONF": ";".join(
        (
            f"spark.driver.extraJavaOptions={SHORT_LIVED}",
            "spark.sql.codegen.wholeStage=false",
            "spark.sql.codegen.factoryMode=NO_CODEGEN",
            "spark.sql.adaptive.enabled=false",
            # Else every table of hashes takes 32 MB, also for three rows, and a broadcast one keeps them.
            "spark.buffer.pageSize=1m",
        )
    ),
}
"""Settings of a Spark for little data: it starts and answers faster, and computes the same rows."""

_OF_THE_KIT = {
    "BACKFILL_HOME": "the argument home",
    "BACKFILL_DOMAIN": "the argument domain",
    "BACKFILL_FIRST_DAY": "the argument first_day",
}
"""Settings that are arguments of `DomainKit.open`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """The verdict of a run's gates: `Gated(state="PASSED")`, or `Gated(state="BLOCKED", failed=("unique_key",))`."""

    #: PASSED or BLOCKED, and VERIFIED where nothing would change.
    state: str
    #: The gates that failed and block, in the order of their names.
    failed: tuple[str, ...] = ()
    #: The gates that failed and only warn.
    warned: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DomainKit:
    """A domain in a home that only tests use."""

    ws: Workspace  #: The open home.
    folder: Path  #: Where records become files before they are landed.
    asks: str = "ana"  #: The person who lands, plans and publishes.
    agrees: str = "ben"  #: The person who approves.

    @staticmethod
    def open(
        domain: Domain | str,
        home: Path,
        *,
        first_day: date,
        settings: Mapping[str, str] | None = None,
        clock: Clock = system_clock,
    ) -> DomainKit:
        """A domain in an empty folder. The environment is not read.

        Args:
            domain: The domain that is tested, also one that was made in the test, such as a variant by
                `dataclasses.replace`; or the module that declares it as `DOMAIN`.
            home: An empty folder, or one that does not exist yet.
            first_day: The first day that tables can have.
            settings: Further settings by their names, such as BACKFILL_REFERENCE.
            clock: Tells the time to everything in this home.

        Raises:
            InvalidDeclaration: It is no domain, or a declaration is invalid.
            Refused: The folder is not empty: tests publish, and must not do so where people work.
        """
        if not isinstance(domain, Domain | str):
            given_as = getattr(domain, "__name__", repr(domain))
            raise InvalidDeclaration(f"a kit opens a Domain or the name of its module, and was given {given_as:.60}.")
        require_settings(settings or {})
        if twice := sorted((settings or {}).keys() & _OF_THE_KIT.keys()):
            why = f"is among the settings, and the kit has it from {_OF_THE_KIT[twice[0]]}"
            raise InvalidSetting(setting=twice[0], why=why, wanted="it there only")
        home.mkdir(parents=True, exist_ok=True)
        if any(home.iterdir()):
            why = f"is {home}, which is not empty, and tests publish in it"
            raise InvalidSetting(setting="the home of a kit", why=why, wanted="an empty folder")
        given = {
            **QUICK_SPARK,
            "BACKFILL_FIRST_DAY": first_day.isoformat(),
            **(settings or {}),
            "BACKFILL_HOME": str(home),
            "BACKFILL_DOMAIN": domain.package if isinstance(domain, Domain) else domain,
        }
        if isinstance(domain, str):
            domain = load_domain(domain)
        else:
            Sources.of(domain)
            check_expressions(domain)
        ws = Workspace(settings=Settings.from_environment(given), domain=domain, clock=clock)
        return DomainKit(ws=ws, folder=home / "incoming")

    def close(self) -> None:
        """Closes the ledger. Spark stays open for the process."""
        self.ws.close()

    # ---------------------------------------------------------------------------------------------------- sources

    def land(self, source: str, records: Rows, *, name: str = "") -> RunRecord | None:
        """Lands records, one line of JSON each, and publishes the days that they touch.

        Returns:
            The run that built these days; None when there was nothing to build.
        """
        path = self.folder / (name or f"{source}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record, default=in_json) + "\n" for record in records), encoding="utf-8")
        return self.land_file(source, path)

    def land_file(self, source: str, path: Path, *, replaces: Days | None = None) -> RunRecord | None:
        """Lands a file, and publishes the days that it touches.

        Args:
            replaces: The days of which the file is a complete extract: keys that it lacks are withdrawn.
        """
        if replaces is None:
            land(self.ws, source, path, on_duplicate=OnDuplicate.IGNORE, by=self.asks)
        else:
            extract = complete_extract(in_days(replaces), where={}, reason="for a test")
            acting = Acting(by=self.asks, recorder=Unrecorded())
            land_as_extract(self.ws, source, [path], extract, acting, builds=False)
        return self._build(source, None)

    def declare_empty(self, source: str, days: Days) -> RunRecord | None:
        """Publishes days of a source on which nothing happened."""
        return self._build(source, tuple(in_days(days)))

    def _build(self, source: str, empty: tuple[date, ...] | None) -> RunRecord | None:
        table = self.ws.domain.source_table(source).name
        run = plan_load(self.ws, table, partitions=empty, by=self.asks, reason="landed", empty=empty or ())
        if run is not None:
            self.stage(run.run_id)
            self.gate(run.run_id)
            self.publish(run.run_id)
        return run

    # ---------------------------------------------------------------------------------------------- derived tables

    def planned(
        self,
        table: str,
        days: Days,
        *,
        version: str | None = None,
        mode: Mode = Mode.BACKFILL,
        chunk_partitions: int | None = None,
        reason: str = "for a test",
    ) -> str:
        """The id of a new run."""
        request = PlanRequest(
            table=table,
            days=in_days(days),
            reason=reason,
            by=self.asks,
            transform_version=version,
            mode=mode,
            limits=AskedLimits(chunk_partitions=chunk_partitions),
        )
        return plan(self.ws, request).manifest.run_id

    def stage(self, run_id: str) -> Mapping[date, CandidatePartition]:
        """Computes a run, and returns what it staged."""
        return execute(self.ws, run_id, [Part.STAGE], actor=self.asks).staged

    def gate(self, run_id: str) -> Gated:
        """Measures the gates of a run that is staged, and returns which ones failed."""
        results = execute(self.ws, run_id, [Part.GATE], actor=self.asks).results
        failed = {result.gate: result.blocking for result in results if not result.passed}
        with self.ws.ledger.read() as tx:
            state = tx.runs.get(run_id).state.value
        return Gated(
            state=state,
            failed=tuple(sorted(gate for gate, blocks in failed.items() if blocks)),
            warned=tuple(sorted(gate for gate, blocks in failed.items() if not blocks)),
        )

    def approve(self, run_id: str) -> None:
        """Approves a run."""
        approve(self.ws, run_id, by=self.agrees, note="")

    def publish(self, run_id: str) -> PublicationRecord:
        """Publishes a run. A gate that has not passed refuses it."""
        return execute(self.ws, run_id, [Part.PUBLISH], actor=self.asks).published

    def published(self, table: str, days: Days, *, version: str | None = None) -> str:
        """The id of a run that was planned, approved, computed, measured and published."""
        run_id = self.planned(table, days, version=version)
        # Approved before it is measured, it is published even where it changes nothing.
        self.approve(run_id)
        self.stage(run_id)
        self.gate(run_id)
        self.publish(run_id)
        return run_id

    def accepted(self, table: str) -> Mapping[date, PartitionVersion]:
        """The versions of a table's partitions that readers see."""
        with self.ws.ledger.read() as tx:
            return tx.versions.accepted(self.ws.domain.table(table).name)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows that readers see, in no order, without the columns that name their run."""
        declared = self.ws.domain.table(table)
        columns = list(columns_given(declared).fieldNames())
        rows: list[dict[str, Any]] = self.ws.lake.open(declared.name).to_pyarrow_table(columns=columns).to_pylist()
        return rows

    # ------------------------------------------------------------------------------------------ one call of a function

    def inputs(self, table: str) -> dict[str, DataFrame]:
        """The rows of a table's inputs that readers see now, by argument of its function."""
        derived = self.ws.domain.derived_table(table)
        return {
            argument: self.visible(source.name, changes=argument in derived.changes)
            for argument, source in derived.inputs.items()
        }

    def visible(self, table: str, *, changes: bool = False) -> DataFrame:
        """The rows of a table that readers see now, read from their files.

        Args:
            changes: With the columns of the source's changelog, and keys that are deleted.
        """
        declared = self.ws.domain.table(table)
        rows = rows_of(self.ws, declared, [version.files for version in self.accepted(table).values()])
        return rows if changes else current_rows(rows, declared)

    def compute(
        self,
        table: str,
        inputs: Mapping[str, DataFrame],
        days: Days,
        *,
        version: str | None = None,
        within_windows: bool = True,
    ) -> DataFrame:
        """The rows that the function of a table returns for some days, as a run would call it; writes nothing.

        Args:
            inputs: Rows by argument. A run reads only those in the window of the days, and so does this.
            version: The release; the present one by default.
            within_windows: False gives the function all of the rows.

        Raises:
            ContractBroken: What a plan refuses: the function asks a clock, randomness or the environment.
        """
        derived, graph = self.ws.domain.derived_table(table), self.ws.graph
        release = derived.release(version)
        self.ws.code.require_determined(derived, release.version)
        partitions = partitions_in(self, table, days)
        frames, input_days = dict(inputs), {}
        for read in reads_of(graph.table(derived.name), graph, partitions):
            column = frames[read.argument][derived.inputs[read.argument].partition.column]
            if within_windows:
                frames[read.argument] = frames[read.argument].where(column.isin(list(read.partitions)))
            input_days[read.argument] = read.days
        if derived.state is not None:
            frames.setdefault(derived.state, self.frame(derived.name, ()))
        ctx = TransformContext(
            run_id="a-test",
            kind=RunPurpose.BACKFILL,
            mode=Mode.DRY_RUN,
            transform_version=release.version,
            output=output_days(derived.partition.grain, partitions),
            output_partitions=partitions,
            input_days=input_days,
            references={name: self.ws.references[name].value for name in derived.references},
            spark=self.ws.spark(),
        )
        return apply_transform(derived, release, frames, ctx, Sources.of(self.ws.domain))

    def computed(
        self, table: str, given: Mapping[str, Rows], days: Days, *, version: str | None = None
    ) -> list[dict[str, Any]]:
        """The rows that a table has on some days, given the rows of its inputs, by argument of its function."""
        derived = self.ws.domain.derived_table(table)
        names = {argument: source.name for argument, source in derived.inputs.items()}
        if derived.state is not None:
            names[derived.state] = derived.name
        if unknown := sorted(given.keys() - names.keys()):
            raise ValueError(f"{derived.name} has no input {', '.join(unknown)}; it has {', '.join(sorted(names))}.")
        frames = {
            argument: self.frame(name, given.get(argument, ()), changes=argument in derived.changes)
            for argument, name in names.items()
        }
        rows: list[dict[str, Any]] = self.compute(table, frames, days, version=version).toArrow().to_pylist()
        return rows

    def frame(self, table: str, rows: Rows, *, changes: bool = False) -> DataFrame:
        """Rows of a table as a function reads them.

        Args:
            rows: Values by column. A nullable column can be left out, and so can the partition of a source, which is
                the day of its event. Instants and dates can be texts.
            changes: With the columns of the source's changelog.
        """
        declared = self.ws.domain.table(table)
        schema = columns_given(declared, changes=changes)
        event = declared.event_time if isinstance(declared, SourceTable) else ""
        return known_rows(
            self.ws.spark(), typed_rows(rows, schema, event=event, partition=declared.partition.column), schema
        )

    def checksums(self, rows: DataFrame, table: str) -> Mapping[date, str]:
        """The content checksum of each partition that has rows."""
        derived = self.ws.domain.derived_table(table)
        # Changes have a column more than the table that they are merged into.
        columns = StructType([field for field in derived.returned.fields if field.name in rows.columns])
        return partition_checksums(rows, derived.partition.column, columns)


def in_days(days: Days) -> DayRange:
    """Days, also those that were typed."""
    return days_between(days) if isinstance(days, str) else days


def partitions_in(kit: DomainKit, table: str, days: Days) -> tuple[date, ...]:
    """The partitions of a table on some days."""
    return kit.ws.graph.table(kit.ws.domain.derived_table(table).name).partitions_over(in_days(days))


def listed(partitions: Iterable[date], *, most: int = 5) -> str:
    """The first partitions, for a message."""
    found = [each.isoformat() for each in sorted(partitions)]
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
