"""Assets of a domain, the parts of a run that each executes, and the jobs and resources of their definitions."""

from collections.abc import Callable, Iterable, Sequence

import dagster as dg
from dagster import AssetKey, AssetSelection, Definitions, define_asset_job, in_process_executor

from backfill_assets.application import look
from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.application.report import report_markdown
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import NotApproved
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Command, do
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.domain import DerivedTable, Domain, SourceTable, Table
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import PublicationRecord, RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import metadata, tags
from backfill_assets.orchestration.captured import before_bronze, captured_assets
from backfill_assets.orchestration.dagster_internals import UnresolvedAssetJobDefinition as AssetJob
from backfill_assets.orchestration.events import (
    Events,
    ended_checks,
    expired,
    gate_events,
    gate_specs,
    materialized,
    of_readers,
    waits,
)
from backfill_assets.orchestration.freshness_checks import fresh_checks, fresh_key
from backfill_assets.orchestration.metadata import report_link
from backfill_assets.orchestration.partitions import (
    OfferedDays,
    offered_days,
    published_key,
    relied_upon,
    table_partitions,
    window_mapping,
)
from backfill_assets.orchestration.resources import SESSION, Session, run_resources, session_of
from backfill_assets.orchestration.runs import (
    actor,
    refusals_as_failures,
    run_in_state,
    run_to_load,
    run_to_stage,
    say_why,
)
from backfill_assets.planning.graph import Graph
from backfill_assets.report.command_line import words_of
from backfill_assets.report.report import run_report
from backfill_assets.report.review import review_of
from backfill_assets.workspace import Workspace

# Assets of a domain, and the parts of a run that each executes.
#
# ``` captured/<source> the captures of a stream, which commands and the schedule `live` make bronze/<source>
# plans a load, executes every part; its gates are checks on itself candidate/<derived> plans (unless a manifest
# is given), executes the part STAGE validation/<derived> executes GATE; materialized whether the gates pass or
# fail <layer>/<derived> executes PUBLISH, which reads the verdict and the approval from the ledger ```

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.


WHOLE_RANGE = dg.BackfillPolicy.single_run()


def layer_of(table: Table) -> str:
    """The group of the assets that readers know; versions beside a table have one of their own."""
    layer = table.name.partition(".")[0]
    return f"{layer}_versions" if isinstance(table, DerivedTable) and table.version_of else layer


def candidate_key(table: DerivedTable) -> dg.AssetKey:
    """The asset of staged rows."""
    return dg.AssetKey(["candidate", table.short_name])


def validation_key(table: DerivedTable) -> dg.AssetKey:
    """The asset of gate results."""
    return dg.AssetKey(["validation", table.short_name])


def domain_assets(ws: Workspace, *, days: OfferedDays, pool: str | None) -> Sequence[dg.AssetsDefinition]:
    """Every asset of a domain: one per source table, three per derived table.

    Args:
        pool: The concurrency pool of the assets that use Spark; None when nothing else can run beside them.
    """
    found = [_bronze(source, ws.lake.url(source.name), days, pool) for source in ws.domain.sources]
    for table in ws.domain.derived:
        found += [
            _candidate(table, ws.domain, ws.graph, days, pool),
            _validation(table, days, pool),
            _published(table, ws.lake.url(table.name), days),
        ]
    return found


def _bronze(table: SourceTable, url: str, days: OfferedDays, pool: str | None) -> dg.AssetsDefinition:
    key = published_key(table)

    @dg.asset(
        key=key,
        deps=before_bronze(table),
        partitions_def=table_partitions(table, days),
        backfill_policy=WHOLE_RANGE,
        output_required=False,  # a run with gaps, see `events.materialized`
        owners=metadata.owners(table),
        tags=metadata.part_tags(table, "source"),
        check_specs=gate_specs(key, table.gates, None),
        required_resource_keys={SESSION},
        pool=pool,
        group_name=layer_of(table),
        kinds=metadata.kinds(table, "spark"),
        description=metadata.source(table),
        metadata=metadata.table_metadata(table, url),
    )
    def load(context: dg.AssetExecutionContext) -> Events:
        session = session_of(context)
        workspace = session.workspace
        with refusals_as_failures(session, context):
            by = actor(session, context)
            run = run_to_load(session, table, context, by=by)
            if run is None:
                context.log.info(f"No file has landed for these days of {table.name}; there is nothing to load.")
                yield from ended_checks(key, table.gates)
                return
            gated = session.perform(
                workspace, run.run_id, STAGED_AND_GATED, actor=by, listener=_listener(context, session)
            )
            results = gated.results
        try:
            _must_have_passed(context, session, run, results)
            with refusals_as_failures(session, context):
                record = _published_or_waiting(session, run, by=by)
        except dg.Failure:
            yield from ended_checks(key, table.gates)
            raise
        # In this order, for a check counts for the materialization before it.
        yield from _what_was_published(context, session, table, run, record)
        yield from of_readers(workspace, table)
        yield from ended_checks(key, table.gates)

    return load


def _candidate(
    table: DerivedTable, domain: Domain, graph: Graph, days: OfferedDays, pool: str | None
) -> dg.AssetsDefinition:
    key = candidate_key(table)
    node = graph.table(table.name)

    @dg.asset(
        key=key,
        deps=[
            dg.AssetDep(
                published_key(domain.table(name)),
                partition_mapping=window_mapping(*(edge for edge in node.inputs if edge.table == name)),
            )
            for name in dict.fromkeys(edge.table for edge in node.inputs)
        ],
        partitions_def=table_partitions(table, days),
        backfill_policy=WHOLE_RANGE,
        # Without an output the assets after it are skipped: a publication that was followed already asks for nothing.
        output_required=False,
        owners=metadata.owners(table),
        tags=metadata.part_tags(table, "candidate"),
        required_resource_keys={SESSION},
        pool=pool,
        # Apart from the tables: pages show only the last part of an asset's key.
        group_name=f"{layer_of(table)}_candidates",
        kinds={"spark", "delta"},
        code_version=table.version,
        description=metadata.candidate(table),
        metadata={**metadata.row_metadata(table), **metadata.transform_metadata(table, node)},
    )
    def stage_candidate(context: dg.AssetExecutionContext) -> Events:
        session = session_of(context)
        with refusals_as_failures(session, context):
            by = actor(session, context)
            run = run_to_stage(session, table, context, by=by)
            if run is None:
                context.log.info("Another process has taken this follow-up on already; there is nothing to do.")
                return
            context.log.info(f"{run.run_id} ({run.manifest.kind}): {run.manifest.reason}")
            listener = _listener(context, session)
            staged = session.perform(session.workspace, run.run_id, [Part.STAGE], actor=by, listener=listener).staged
        numbers = metadata.staged(staged, run.manifest, validation=validation_key(table), links=_links(session, run))
        yield from materialized(context, key, run.manifest.partitions, numbers)

    return stage_candidate


def _validation(table: DerivedTable, days: OfferedDays, pool: str | None) -> dg.AssetsDefinition:
    key, partitions = validation_key(table), table_partitions(table, days)

    @dg.asset(
        key=key,
        deps=[candidate_key(table)],
        partitions_def=partitions,
        backfill_policy=WHOLE_RANGE,
        output_required=False,  # a run with gaps, see `events.materialized`
        owners=metadata.owners(table),
        tags=metadata.part_tags(table, "validation"),
        check_specs=gate_specs(key, table.gates, partitions),
        required_resource_keys={SESSION},
        pool=pool,
        group_name=f"{layer_of(table)}_validations",
        kinds={"spark"},
        description=metadata.validation(table),
        metadata=metadata.gate_metadata(table),
    )
    def measure_gates(context: dg.AssetExecutionContext) -> Events:
        session = session_of(context)
        with refusals_as_failures(session, context):
            by = actor(session, context)
            run = run_in_state(session, table, context, RunState.STAGED, RunState.GATING)
            listener = _listener(context, session)
            results = session.perform(session.workspace, run.run_id, [Part.GATE], actor=by, listener=listener).results
        measured = look.staged_partitions(session.workspace, run.run_id)
        numbers = metadata.measured(
            measured,
            results,
            report=report_markdown(session.workspace, run.run_id),
            candidate=candidate_key(table),
            published=published_key(table),
            links=_links(session, run),
        )
        yield from materialized(context, key, run.manifest.partitions, numbers)
        yield from gate_events(context, key, table.partition.grain, results, links=_links(session, run))
        yield from ended_checks(key, table.gates)
        _must_have_passed(context, session, run, results)

    return measure_gates


def _published(table: DerivedTable, url: str, days: OfferedDays) -> dg.AssetsDefinition:
    key = published_key(table)

    @dg.asset(
        key=key,
        deps=[validation_key(table)],
        partitions_def=table_partitions(table, days),
        backfill_policy=WHOLE_RANGE,
        output_required=False,  # a run with gaps, see `events.materialized`
        owners=metadata.owners(table),
        tags=metadata.part_tags(table, "published"),
        check_specs=gate_specs(key, table.gates, None),
        required_resource_keys={SESSION},
        group_name=layer_of(table),
        kinds=metadata.kinds(table),
        description=metadata.published_table(table),
        metadata={**metadata.table_metadata(table, url), **metadata.code_metadata(table)},
    )
    def swap(context: dg.AssetExecutionContext) -> Events:
        session = session_of(context)
        with refusals_as_failures(session, context):
            by = actor(session, context)
            run = run_in_state(session, table, context, RunState.PASSED)
            if run.state is RunState.VERIFIED:
                context.log.info(f"{run.run_id} changes nothing: its rows are those that readers see.")
                yield from ended_checks(key, table.gates)
                return
            record = _published_or_waiting(session, run, by=by)
        yield from _what_was_published(context, session, table, run, record, validation=validation_key(table))
        if isinstance(record, NotApproved):
            yield from ended_checks(key, table.gates)
            return
        yield from of_readers(session.workspace, table)
        yield from ended_checks(key, table.gates)

    return swap


def _published_or_waiting(session: Session, run: RunRecord, *, by: str) -> PublicationRecord | NotApproved:
    """Publishes a run. A missing approval is no failure: without an output, every partition stays as accepted."""
    try:
        return session.perform(session.workspace, run.run_id, [Part.PUBLISH], actor=by).published
    except NotApproved as waiting:
        session.errors.append(waiting)
        return waiting


def _what_was_published(
    context: dg.AssetExecutionContext,
    session: Session,
    table: Table,
    run: RunRecord,
    record: PublicationRecord | NotApproved,
    *,
    validation: dg.AssetKey | None = None,
) -> Events:
    """The changes of a publication, or whose approval it waits for."""
    key, links = published_key(table), _links(session, run)
    if isinstance(record, NotApproved):
        yield waits(context, key, run, record, links=links)
        return
    numbers = metadata.published(
        record,
        look.staged_partitions(session.workspace, run.run_id),
        run.manifest,
        rows=look.accepted_rows(session.workspace, table.name),
        links=links,
        validation=validation,
    )
    if run.manifest.computed:
        yield from materialized(context, key, run.manifest.computed, numbers)
    else:
        yield from expired(context, key, run.manifest, numbers)


def _must_have_passed(
    context: dg.AssetExecutionContext, session: Session, run: RunRecord, results: Iterable[GateResult]
) -> None:
    """Fails the step when a blocking gate failed, so that nothing after it starts in the same Dagster run."""
    if any(result.blocking and not result.passed for result in results):
        review = review_of(run_report(session.workspace, run.run_id))
        say_why(context, f"{run.run_id} is blocked. {review.headline}.")
        raise dg.Failure(
            description=f"{review.headline}. {review.is_it_right} Next: {words_of(do(Command.REPORT, run.run_id))}",
            metadata={"run_id": run.run_id, **_links(session, run)},
            allow_retries=False,
        )


def _links(session: Session, run: RunRecord) -> metadata.Links:
    return report_link(session.workspace.settings, run.run_id)


def _listener(context: dg.AssetExecutionContext, session: Session) -> Listener:
    def listen(progress: Progress) -> None:
        context.log.info(progress.line)
        session.progress(progress)

    return listen


# Definitions of the domain's tables: their assets, the jobs that execute parts of a run, and their resources.


def job_name(table: Table) -> str:
    """The job that executes the runs of a table."""
    if isinstance(table, SourceTable):
        return tags.prefixed("load")
    few = f"_every_{table.every}_days_since_{table.since:%Y%m%d}" if table.stretches else ""
    return tags.prefixed(f"{table.partition.grain}_tables{few}")


def table_jobs(domain: Domain) -> Sequence[AssetJob]:
    """All jobs that execute runs."""
    return [*load_jobs(domain), *derived_jobs(domain)]


def load_jobs(domain: Domain) -> Sequence[AssetJob]:
    """The one job of all source tables."""
    return _job(domain.sources, "Load landed files into source tables and publish them.")


def derived_jobs(domain: Domain) -> Sequence[AssetJob]:
    """One job per grain of derived tables, and per number of days between snapshots: Dagster's jobs have partitions of
    one kind.

    A launch chooses the assets that its run needs: those that stage and gate, the one that publishes, or all of them.
    """
    by_job = grouped((job_name(table), table) for table in domain.derived)
    return [
        made
        for _, tables in sorted(by_job.items())
        for made in _job(
            tables,
            f"Stage, gate and publish planned runs of {tables[0].partition.grain} tables"
            f"{f' with a snapshot every {tables[0].every} days' if tables[0].stretches else ''}, each as far as the "
            f"ledger lets it: for commands, for the jobs of people, and for what follows a publication.",
        )
    ]


def _job(tables: Sequence[Table], description: str) -> Sequence[AssetJob]:
    if not tables:
        return []
    keys = [key for table in tables for key in keys_of(table, tuple(Part))]
    return [
        define_asset_job(
            job_name(tables[0]),
            # Staleness is found out by a sensor, and not once more by every run.
            selection=AssetSelection.assets(*keys)
            - AssetSelection.checks(*(fresh_key(table) for table in tables if isinstance(table, DerivedTable))),
            description=description,
            # One process per run: a process per step would start a JVM per step.
            executor_def=in_process_executor,
        )
    ]


def keys_of(table: Table, parts: Sequence[Part]) -> Sequence[AssetKey]:
    """The assets that execute parts of a table's runs, in order."""
    if isinstance(table, SourceTable):
        return [published_key(table)]
    assets = {
        Part.STAGE: candidate_key(table),
        Part.GATE: validation_key(table),
        Part.PUBLISH: published_key(table),
    }
    return [assets[part] for part in Part if part in parts]


def table_definitions(
    workspace: Workspace,
    open_session: Callable[[], Session],
    *,
    jobs: Sequence[AssetJob],
    pool: str | None,
    over: DayRange | None = None,
) -> Definitions:
    """The assets and jobs of the tables of a workspace: all that executes a run.

    Args:
        jobs: Those of `table_jobs`.
        pool: The concurrency pool of assets that use Spark; None for runs that this process executes itself.
        over: The days of a run, which may be earlier or later than the data.
    """
    days = offered_days(workspace).with_all(over)
    with relied_upon():
        return Definitions(
            assets=[
                *captured_assets(workspace.domain),
                *domain_assets(workspace, days=days, pool=pool),
            ],
            asset_checks=fresh_checks(workspace.domain.derived, days=days),
            jobs=jobs,
            resources=run_resources(workspace.settings, workspace.domain, open_session),
        )
