"""Assets of a domain, and the parts of a run that each executes.

```
captured/<source>    the captures of a stream, which commands and the schedule `live` make
bronze/<source>      plans a load, executes every part; its gates are checks on itself
candidate/<derived>  plans (unless a manifest is given), executes the part STAGE
validation/<derived> executes GATE; materialized whether the gates pass or fail
<layer>/<derived>    executes PUBLISH, which reads the verdict and the approval from the ledger
```
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Iterable, Sequence

import dagster as dg

from backfill_assets.application import look
from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.application.report import report_markdown
from backfill_assets.core.errors import NotApproved
from backfill_assets.core.next_steps import Act, do
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.domain import DerivedTable, Domain, SourceTable, Table
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import PublicationRecord, RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import described
from backfill_assets.orchestration.captured import before_bronze
from backfill_assets.orchestration.described import report_link
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
from backfill_assets.orchestration.partitions import OfferedDays, published_key, table_partitions, window_mapping
from backfill_assets.orchestration.resources import SESSION, Session, session_of
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
from backfill_assets.report.screens.review import review_of
from backfill_assets.workspace import Workspace

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
        owners=described.owners(table),
        tags=described.part_tags(table, "source"),
        check_specs=gate_specs(key, table.gates, None),
        required_resource_keys={SESSION},
        pool=pool,
        group_name=layer_of(table),
        kinds=described.kinds(table, "spark"),
        description=described.source(table),
        metadata=described.table_metadata(table, url),
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
        owners=described.owners(table),
        tags=described.part_tags(table, "candidate"),
        required_resource_keys={SESSION},
        pool=pool,
        # Apart from the tables: pages show only the last part of an asset's key.
        group_name=f"{layer_of(table)}_candidates",
        kinds={"spark", "delta"},
        code_version=table.version,
        description=described.candidate(table),
        metadata={**described.row_metadata(table), **described.transform_metadata(table, node)},
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
        numbers = described.staged(staged, run.manifest, validation=validation_key(table), links=_links(session, run))
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
        owners=described.owners(table),
        tags=described.part_tags(table, "validation"),
        check_specs=gate_specs(key, table.gates, partitions),
        required_resource_keys={SESSION},
        pool=pool,
        group_name=f"{layer_of(table)}_validations",
        kinds={"spark"},
        description=described.validation(table),
        metadata=described.gate_metadata(table),
    )
    def measure_gates(context: dg.AssetExecutionContext) -> Events:
        session = session_of(context)
        with refusals_as_failures(session, context):
            by = actor(session, context)
            run = run_in_state(session, table, context, RunState.STAGED, RunState.GATING)
            listener = _listener(context, session)
            results = session.perform(session.workspace, run.run_id, [Part.GATE], actor=by, listener=listener).results
        measured = look.staged_partitions(session.workspace, run.run_id)
        numbers = described.measured(
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
        owners=described.owners(table),
        tags=described.part_tags(table, "published"),
        check_specs=gate_specs(key, table.gates, None),
        required_resource_keys={SESSION},
        group_name=layer_of(table),
        kinds=described.kinds(table),
        description=described.published_table(table),
        metadata={**described.table_metadata(table, url), **described.code_metadata(table)},
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
    numbers = described.published(
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
            description=f"{review.headline}. {review.is_it_right} Next: {words_of(do(Act.REPORT, run.run_id))}",
            metadata={"run_id": run.run_id, **_links(session, run)},
            allow_retries=False,
        )


def _links(session: Session, run: RunRecord) -> described.Links:
    return report_link(session.workspace.settings, run.run_id)


def _listener(context: dg.AssetExecutionContext, session: Session) -> Listener:
    def listen(progress: Progress) -> None:
        context.log.info(progress.line)
        session.progress(progress)

    return listen
