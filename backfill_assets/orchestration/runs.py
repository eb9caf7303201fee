"""Runs of Dagster: their manifest, partitions, requester and reason, from the tags of the launch.

The tag `backfill/run_id` names the manifest. Without it, the candidate plans an ad-hoc one and leaves its id as a tag
of the Dagster run, where the assets after it find it. An asset that is launched by itself later takes the newest run of
its table, in the right state, over exactly the partitions that were chosen.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from types import MappingProxyType
from typing import Any

from dagster import AssetExecutionContext, AssetObservation, Failure, OpExecutionContext

from backfill_assets.application.follow import is_taken_on
from backfill_assets.application.plan import plan
from backfill_assets.application.plan_load import plan_load
from backfill_assets.application.requests import run_of
from backfill_assets.application.upkeep import find_run
from backfill_assets.calendar.partitions import Partitions, days_in, days_listed, days_of, describe
from backfill_assets.core.errors import BackfillError, MissingInput, Refused, Retryable
from backfill_assets.core.people import FOLLOWER, require_person
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.event_log import one_commit
from backfill_assets.orchestration.next_steps import explained_in_dagster, linked
from backfill_assets.orchestration.resources import Session
from backfill_assets.planning.manifest import has_gaps
from backfill_assets.planning.manifest_parts import NOT_BY_KIND, CauseKind, RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.errors import NotAsPlanned, NotGiven, NotOneOf, NotTogether
from backfill_assets.workspace import Workspace

MOST_SAID = 100


@contextmanager
def refusals_as_failures(session: Session, context: AssetExecutionContext | OpExecutionContext) -> Iterator[None]:
    """A refusal of the application fails the step with its message, and is not retried automatically.

    Ctrl-C and the termination of a run in the UI reach the application as a KeyboardInterrupt.
    """
    try:
        with _plain_interrupts():
            yield
    except BackfillError as error:
        session.errors.append(error)
        refused = {tags.REFUSED: error.category.__name__} if isinstance(error, Refused) else {}
        say_why(context, error.message, refused)
        following = error.next_step
        known: dict[str, Any] = {name: str(value) for name, value in error.ids.items()}
        raise Failure(
            description=explained_in_dagster(error),
            metadata={**known, **linked(following, context.run)},
            allow_retries=issubclass(error.category, Retryable),
        ) from None


def say_why(
    context: AssetExecutionContext | OpExecutionContext, said: str, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Why a Dagster run fails, where an operator looks first: in lists of runs, and on the partitions of its asset."""
    context.instance.add_run_tags(context.run.run_id, {tags.WHY: said, **more})
    if not isinstance(context, AssetExecutionContext) or not context.has_partition_key_range:
        return
    keys = list(context.partition_keys)
    # Of more than that the asset says it, and not every one of them.
    on = keys if len(keys) <= MOST_SAID else [None]
    with one_commit(context.instance):
        for key in on:
            # The page of a partition shows no description.
            seen = AssetObservation(context.asset_key, description=said, partition=key, metadata={"why": said})
            context.log_event(seen)


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Converts Dagster's exception for signals into a KeyboardInterrupt, which the application handles."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, signal.default_int_handler) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def launch_tags(context: AssetExecutionContext) -> Mapping[str, str]:
    """The run's tags as they are now; an earlier asset may have added some."""
    run = context.instance.get_run_by_id(context.run.run_id)
    return run.tags if run is not None else context.run.tags


def actor(session: Session, context: AssetExecutionContext) -> str:
    """The person who requested the Dagster run, from its tag or the setting BACKFILL_USER: Dagster has no identity of
    its users.

    Raises:
        Refused: Neither is given, or it is no name of a person. The system acts in its own names in a process that
            a command or a job has opened, and in the daemon's launches of follow-ups.
    """
    given = launch_tags(context)
    if unknown := tags.unknown_in(given):
        raise NotOneOf(what="a tag of the launch", value=unknown, known=tags.OF_LAUNCHES)
    name = given.get(tags.BY, "").strip() or session.workspace.settings.user.strip()
    if not name:
        raise NotGiven(
            why="the launch does not name its requester",
            add=f"the tag {tags.BY} with your name, or set BACKFILL_USER for this process",
        )
    if name == session.acts_as or (name == FOLLOWER and _is_follow_up(session.workspace, given)):
        return name
    try:
        require_person("the requester", name)
    except Refused as refusal:
        add = f"the tag {tags.BY} with the name of a person"
        raise NotGiven(why=refusal.message.rstrip("."), add=add) from refusal
    return name


def _is_follow_up(workspace: Workspace, given: Mapping[str, str]) -> bool:
    run_id = given.get(tags.RUN_ID)
    return run_id is not None and run_of(workspace, run_id).manifest.cause.kind is CauseKind.FOLLOW_UP


def chosen_partitions(context: AssetExecutionContext) -> tuple[date, ...]:
    """The partitions that the Dagster run targets, in order."""
    return tuple(date.fromisoformat(key) for key in context.partition_keys)


def run_to_stage(session: Session, table: DerivedTable, context: AssetExecutionContext, *, by: str) -> RunRecord | None:
    """The run whose manifest a candidate asset executes: the tagged one, else a new ad-hoc one, asked for by a person.

    Returns:
        The run; None for a follow-up that another process has taken on already.

    Raises:
        Refused: The tagged manifest is for something else, or the partitions cannot be planned.
    """
    workspace, partitions, given = session.workspace, chosen_partitions(context), launch_tags(context)
    tagged = tagged_run(workspace, table, context)
    if tagged is not None:
        target = _must_fit(tagged, table, context)
        return None if session.executes and is_taken_on(target) else target
    if given.get(tags.BECAUSE):
        raise NotTogether(
            why=f"the tag {tags.BECAUSE} is given, and a launch cannot state what it follows: the ledger decides that",
            leave=f"the tag {tags.BECAUSE}",
            instead="leave what publications ask for to the sensor that follows them",
        )
    request = PlanRequest(
        table=table.name,
        days=days_in(days_of(table.partition.grain, partition) for partition in partitions),
        kind=_kind(given.get(tags.KIND)),
        reason=given.get(tags.REASON) or tags.NO_REASON,
        by=by,
        transform_version=given.get(tags.TRANSFORM_VERSION),
    )
    return _adopt(workspace, table, context, plan(workspace, request).manifest.run_id)


def run_to_load(session: Session, table: SourceTable, context: AssetExecutionContext, *, by: str) -> RunRecord | None:
    """The run whose manifest a bronze asset executes; None when nothing has landed for the partitions."""
    partitions = chosen_partitions(context)
    tagged = tagged_run(session.workspace, table, context)
    if tagged is not None:
        return _must_fit(tagged, table, context)
    given = launch_tags(context)
    planned = plan_load(
        session.workspace,
        table.name,
        partitions=partitions,
        by=by,
        reason=given.get(tags.REASON) or tags.NO_REASON,
        empty=days_listed(given[tags.EMPTY]) if given.get(tags.EMPTY) else (),
    )
    return None if planned is None else _adopt(session.workspace, table, context, planned.run_id)


def run_in_state(session: Session, table: Table, context: AssetExecutionContext, *states: RunState) -> RunRecord:
    """The run that an asset after the candidate takes on: the tagged one, else the newest in one of the states.

    Raises:
        MissingInput: No run of the table is in one of them over exactly the partitions that were chosen.
    """
    partitions = chosen_partitions(context)
    found = tagged_run(session.workspace, table, context)
    if found is None:
        found = find_run(session.workspace, table.name, partitions, states=states)
    if found is None:
        raise MissingInput.coded(
            "no_run_yet",
            "no run of {table} is {state} over exactly {partitions}.",
            then="materialize candidate/{short}{and_validated} for these partitions first",
            table=table.name,
            state=states[0],
            partitions=Partitions.of(table.partition.grain, partitions),
            short=table.short_name,
            and_validated="" if states[0] is RunState.STAGED else f" and validation/{table.short_name}",
        )
    return _must_fit(found, table, context)


def tagged_run(workspace: Workspace, table: Table, context: AssetExecutionContext) -> RunRecord | None:
    """The run that the Dagster run's tags name for a table."""
    given = launch_tags(context)
    run_id = given.get(tags.own_run_id(table.short_name)) or given.get(tags.RUN_ID)
    return run_of(workspace, run_id) if run_id else None


def _adopt(workspace: Workspace, table: Table, context: AssetExecutionContext, run_id: str) -> RunRecord:
    context.instance.add_run_tags(context.run.run_id, {tags.own_run_id(table.short_name): run_id})
    return run_of(workspace, run_id)


def _must_fit(run: RunRecord, table: Table, context: AssetExecutionContext) -> RunRecord:
    """Refuses a launch whose partitions or assets Dagster could not run, or would skip without a word."""
    _must_span(run, table, chosen_partitions(context))
    # Empty where a whole job is launched.
    if has_gaps(run.manifest) and len(context.run.asset_selection or ()) != 1:
        raise NotAsPlanned(
            run_id=run.run_id,
            why=f"{run.run_id} has gaps between its partitions, so that Dagster would skip what follows the first "
            "asset of a launch",
            launch="each asset by itself, one after the other, over the same range with the tag "
            f"{tags.RUN_ID}={run.run_id}",
        )
    return run


def _must_span(run: RunRecord, table: Table, partitions: tuple[date, ...]) -> RunRecord:
    if run.manifest.table != table.name:
        raise NotAsPlanned(
            run_id=run.run_id,
            why=f"the tag {tags.RUN_ID} names {run.run_id}, a run of {run.manifest.table}, not of {table.name}",
            launch=f"the assets of {run.manifest.table}, or without the tag",
        )
    own = run.manifest.partitions
    if (own[0], own[-1]) != (partitions[0], partitions[-1]) or not set(own) <= set(partitions):
        grain = table.partition.grain
        raise NotAsPlanned(
            run_id=run.run_id,
            why=f"the manifest of {run.run_id} covers {describe(grain, own)}, but {describe(grain, partitions)} were "
            "chosen",
            launch=f"every partition from {own[0]} to {own[-1]}"
            f"{', also those of its gaps, which are left alone' if has_gaps(run.manifest) else ''}, or without the tag "
            f"{tags.RUN_ID}",
        )
    return run


def _kind(text: str | None) -> RunPurpose | None:
    """The kind that a launch asks for. LIVE is not among them: such runs may be published without a person."""
    if not text:
        return None
    possible = [kind for kind in RunPurpose if kind not in NOT_BY_KIND]
    if text.upper() not in possible:
        raise NotOneOf(what=f"the tag {tags.KIND}", value=text, known=possible)
    return RunPurpose(text.upper())
