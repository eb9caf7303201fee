"""What does each command do, from words to documents?

One function per command: it opens a workspace, calls the operation, shows progress on standard error, and returns
plain values. Staging, gating and publishing go through Dagster in this process, so that the UI shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.application import operations
from backfill_assets.application.command_line import explained, words_of
from backfill_assets.cli.console import Advance, progress_bar, quiet_spark
from backfill_assets.domain import SourceTable
from backfill_assets.errors import BackfillError, InvalidRange, Refused
from backfill_assets.evidence.follow import waiting_sentences
from backfill_assets.evidence.history import import_document, partition_history, table_history
from backfill_assets.evidence.history import status as status_of_everything
from backfill_assets.evidence.landed import about_import, questions
from backfill_assets.evidence.planned import plan_document, set_plan_document
from backfill_assets.evidence.releases import goes_back
from backfill_assets.evidence.report import interrupted, publication_document, run_document, run_report
from backfill_assets.evidence.sets import set_document
from backfill_assets.landing.archive import require_landable
from backfill_assets.landing.land import Landed, OnDuplicate
from backfill_assets.ledger.records import Action, PublicationRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.people import require_person
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import DayRange, Grain, count_of, describe, partitions_over
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import SetRequest
from backfill_assets.progress import Listener, Progress
from backfill_assets.settings import Settings
from backfill_assets.staleness.document import stale_document
from backfill_assets.upkeep.audit import audit as audit_everything
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    # Dagster takes seconds to import, and most commands do not need it: it is imported where it is used.
    from backfill_assets.orchestration.jobs import Steps
    from backfill_assets.orchestration.launch import Followed

Document = Mapping[str, Any]


@contextmanager
def workspace() -> Iterator[Workspace]:
    """A workspace over the environment's settings, whose Spark writes its log to a file and not to the terminal."""
    settings = Settings.from_environment()
    opened = Workspace.open(settings, open_session=quiet_spark(settings))
    try:
        yield opened
    finally:
        opened.close()


def named(by: str) -> str:
    """Who or what is acting.

    Raises:
        Refused: That was not said.
    """
    if not by.strip():
        raise Refused("it was not said who is acting.", next_step="add --by NAME, or set BACKFILL_USER")
    return by.strip()


def required_actor(by: str) -> str:
    """The person who is acting.

    Raises:
        Refused: No person was named.
    """
    require_person("the one who acts", named(by))
    return by.strip()


def land(source: str, files: Sequence[Path], *, on_duplicate: str, load: bool, by: str, quiet: bool) -> Document:
    """Lands files in the order given, then builds the touched days."""
    actor = required_actor(by)
    with workspace() as ws:
        return land_files(ws, source, files, on_duplicate=on_duplicate, load=load, by=actor, quiet=quiet)


def land_files(
    ws: Workspace, source: str, files: Sequence[Path], *, on_duplicate: str, load: bool, by: str, quiet: bool
) -> Document:
    """Lands files into an open workspace. A refused file stops the rest; what landed before it stays landed."""
    table = ws.domain.source_table(source)
    for path in files:
        # Before Spark is started, and before any of the files has landed.
        require_landable(path)
    if load:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    landed: list[Landed] = []
    sentences: list[str] = []
    with progress_bar("landing", len(files), quiet=quiet) as advance:
        for path in files:
            try:
                outcome = operations.land(ws, table.name, path, on_duplicate=OnDuplicate(on_duplicate), by=by)
            except BackfillError as error:
                if landed:
                    before = f"{count_of(len(landed), 'file')} before it {'has' if len(landed) == 1 else 'have'} landed"
                    error.message = f"{error.message} ({before}; their days are built by the next `land` or `load`.)"
                raise
            landed.append(outcome)
            if not outcome.is_new:
                sentences.append(f"{path.name} was landed before as {outcome.record.import_id}; nothing new.")
            advance(1, path.name)
    sentences += [sentence for outcome in landed for sentence in about_import(ws, table, outcome)]
    built = None
    if load:
        sentences += map(words_of, questions(ws, table))
        run = operations.plan_load(ws, table.name, partitions=None, by=by, reason=f"landed by {by}")
        if run is not None:
            built = execute(ws, run.run_id, steps="bronze", by=by, quiet=quiet)
            sentences.append(f"{table.name}: built {built['partitions_described']}")
    with ws.ledger.read() as reader:
        records = [reader.import_record(outcome.record.import_id) for outcome in landed]
    return {"imports": [import_document(r) for r in records], "load": built, "sentences": sentences}


def load(source: str, first: date, last: date, *, empty: bool, by: str, reason: str, quiet: bool) -> Document:
    """Builds bronze days from what has landed; with `empty`, `by` says that nothing happened on the others."""
    actor = required_actor(by)
    days = DayRange.inclusive(first, last)
    with workspace() as ws:
        table = ws.domain.source_table(source)
        known = DayRange(ws.settings.first_day, ws.clock().date())
        if days.start < known.start or days.last > known.end:
            raise InvalidRange(
                f"{table.name} can have partitions from {known.start} to {known.end}; {days} is not within them.",
                next_step="choose days within the table's range, or set BACKFILL_FIRST_DAY to an earlier first day",
            )
        partitions = partitions_over(Grain.DAILY, days)
        silent = operations.days_without_events(ws, table.name, partitions) if empty else ()
        run = operations.plan_load(ws, table.name, partitions=partitions, by=actor, reason=reason, empty=silent)
        if run is None:
            raise InvalidRange(f"{days} holds no days to build.")
        return execute(ws, run.run_id, steps="bronze", by=actor, quiet=quiet)


def plan(request: PlanRequest) -> Document:
    """Plans a run and writes its DRAFT manifest."""
    required_actor(request.by)
    with workspace() as ws:
        planned = operations.plan(ws, request)
        with ws.ledger.read() as reader:
            back = goes_back(reader, planned.manifest)
        return plan_document(planned, operations.stages(ws, planned.manifest.run_id), back)


def plan_set(request: SetRequest) -> Document:
    """Plans everything that a change makes stale, as one set, whose id is None when there is nothing to rebuild."""
    required_actor(request.by)
    with workspace() as ws:
        planned = operations.plan_set(ws, request)
        return set_plan_document(planned)


def approve(run_id: str, *, by: str, note: str) -> Document:
    """Approves a run's manifest, or a set and with it every run of it."""
    actor = required_actor(by)
    with workspace() as ws:
        if operations.is_set(run_id):
            operations.approve_set(ws, run_id, by=actor, note=note)
            return set_document(ws, run_id)
        operations.approve(ws, run_id, by=actor, note=note)
        return run_document(ws, run_id)


def cancel(run_id: str, *, by: str, reason: str) -> Document:
    """Ends a run or a set that is not published."""
    actor = required_actor(by)
    with workspace() as ws:
        operations.cancel(ws, run_id, by=actor, reason=reason)
        return set_document(ws, run_id) if operations.is_set(run_id) else run_document(ws, run_id)


def run_set(set_id: str, *, by: str, quiet: bool) -> Document:
    """Stages and gates the runs of a set, in order; those that have passed already are left as they are."""
    with workspace() as ws:
        return run_set_recorded(ws, set_id, by=by, quiet=quiet)


def run_set_recorded(ws: Workspace, set_id: str, *, by: str, quiet: bool) -> Document:
    """Stages and gates the runs of a set in an open workspace. A blocked run stops the ones that read it.

    What has passed is staged again only where what it was computed from has been staged again since.
    """
    visible = (RunState.PUBLISHING, RunState.PUBLISHED, RunState.SUPERSEDED)
    done = (RunState.PASSED, RunState.ROLLED_BACK)
    for member in set_document(ws, set_id)["runs"]:
        record = operations.run_named(ws, member["run_id"])
        if record.state in visible or (record.state in done and not operations.is_outdated(ws, record)):
            continue
        actor = by.strip() or record.manifest.requested_by
        operations.require_stageable(ws, record)
        execute(ws, record.run_id, steps="candidate+validation", by=actor, quiet=quiet)
        if operations.run_named(ws, record.run_id).state is RunState.BLOCKED:
            break
    return set_document(ws, set_id)


def run(run_id: str, *, by: str, quiet: bool) -> Document:
    """Stages and gates a run."""
    with workspace() as ws:
        record = operations.run_named(ws, run_id)
        actor = by.strip() or record.manifest.requested_by
        operations.require_stageable(ws, record)
        is_load = isinstance(ws.domain.table(record.manifest.table), SourceTable)
        return execute(ws, run_id, steps="bronze" if is_load else "candidate+validation", by=actor, quiet=quiet)


def execute(ws: Workspace, run_id: str, *, steps: Steps, by: str, quiet: bool) -> Document:
    """Runs assets of a run in this process, with a progress bar; returns the run's report.

    Raises:
        BackfillError: What stopped it.
    """
    from backfill_assets.orchestration.launch import open_instance, run_in_process

    total = len(operations.run_named(ws, run_id).manifest.partitions)
    if steps != "published":
        # Opened here, so that its chatter goes to a file; Dagster's resource then finds it open.
        ws.spark()
    with open_instance(ws.settings) as instance, progress_bar(run_id, total, quiet=quiet) as advance:
        try:
            outcome = run_in_process(ws, run_id, steps=steps, instance=instance, by=by, progress=_listener(advance))
        except KeyboardInterrupt:
            raise interrupted(ws, run_id) from None
    if outcome.error is not None:
        raise outcome.error
    if not outcome.succeeded and outcome.run is not None and outcome.run.state is not RunState.BLOCKED:
        raise BackfillError(
            f"the Dagster run {outcome.dagster_run_id} stopped without saying why.",
            next_step=f"backfill status {run_id}",
            run_id=run_id,
        )
    return run_report(ws, run_id)


def _listener(advance: Advance) -> Listener:
    def listen(progress: Progress) -> None:
        advance(None, progress.sentence, done=progress.done, step=progress.step)

    return listen


def report(run_id: str) -> Document:
    """The report of a run; of a set, where it stands and the report of each of its runs."""
    with workspace() as ws:
        if operations.is_set(run_id):
            found = set_document(ws, run_id)
            return {**found, "reports": [run_report(ws, each["run_id"]) for each in found["runs"]]}
        return run_report(ws, run_id)


def publish_set(set_id: str, *, by: str, quiet: bool) -> Document:
    """Publishes the runs of a set in order; Dagster records each as a materialization of its published asset."""
    actor = required_actor(by)
    with workspace() as ws:
        operations.publish_set(
            ws, set_id, by=actor, publish=lambda run_id: publish_recorded(ws, run_id, by=actor, quiet=quiet)
        )
        return set_document(ws, set_id)


def publish(run_id: str, *, by: str, quiet: bool) -> Document:
    """Publishes a run; Dagster records it as a materialization of the published asset."""
    actor = required_actor(by)
    with workspace() as ws:
        return publish_recorded(ws, run_id, by=actor, quiet=quiet)


def publish_recorded(ws: Workspace, run_id: str, *, by: str, quiet: bool) -> Document:
    """Publishes a run in an open workspace."""
    operations.require_publishable(ws, run_id)
    execute(ws, run_id, steps="published", by=by, quiet=quiet)
    return publication_document(_latest(ws, run_id, Action.PUBLISH))


def _latest(ws: Workspace, run_id: str, action: Action) -> PublicationRecord:
    with ws.ledger.read() as reader:
        own = [record for record in reader.publications(run_id=run_id) if record.intent.action is action]
    return max(own, key=lambda record: record.started_at)


def rollback_set(set_id: str, *, by: str, reason: str, with_dependents: bool = False) -> Document:
    """Brings every table of a set back, dependents first."""
    actor = required_actor(by)
    with workspace() as ws:
        undo = operations.rollback_with_dependents if with_dependents else operations.rollback_set
        _report_rollbacks(ws, undo(ws, set_id, by=actor, reason=reason))
        return set_document(ws, set_id)


def _report_rollbacks(ws: Workspace, records: Sequence[PublicationRecord]) -> None:
    """Dagster records what readers see again."""
    from backfill_assets.orchestration.launch import open_instance, report_rollback

    with open_instance(ws.settings) as instance:
        for record in records:
            report_rollback(ws, record, instance=instance)


def reproduce(run_id: str, *, sample: int | None, by: str, quiet: bool) -> Document:
    """Rebuilds a published run and compares it with what it published."""
    with workspace() as ws:
        total = len(operations.run_named(ws, run_id).manifest.partitions)
        with progress_bar(run_id, min(total, sample or total), quiet=quiet) as advance:
            listen = _listener(advance)
            return operations.reproduce(ws, run_id, by=named(by), sample=sample, listener=listen).document()


def rollback(run_id: str, *, by: str, reason: str, with_dependents: bool = False) -> Document:
    """Undoes a run's publication, with those that would be left without their input if that was asked for."""
    actor = required_actor(by)
    with workspace() as ws:
        if not with_dependents:
            return rollback_recorded(ws, run_id, by=actor, reason=reason)
        records = operations.rollback_with_dependents(ws, run_id, by=actor, reason=reason)
        _report_rollbacks(ws, records)
        documents = [publication_document(record) for record in records]
        return {**documents[-1], "dependents": documents[:-1]}


def rollback_recorded(ws: Workspace, run_id: str, *, by: str, reason: str) -> Document:
    """Undoes a publication in an open workspace; Dagster records what readers see again."""
    record = operations.rollback(ws, run_id, by=by, reason=reason)
    _report_rollbacks(ws, [record])
    return {**publication_document(record), "dependents": []}


def follow(*, by: str, quiet: bool) -> Document:
    """Runs what depends on undelivered publications."""
    with workspace() as ws:
        return follow_recorded(ws, by=by, quiet=quiet)


def follow_recorded(ws: Workspace, *, by: str, quiet: bool) -> Document:
    """Follows publications in an open workspace."""
    from backfill_assets.orchestration.launch import follow_in_process, open_instance

    waiting = [sentence for each in operations.asked_follow_ups(ws) for sentence in waiting_sentences(each)]
    with open_instance(ws.settings) as instance, progress_bar("follow", 1, quiet=quiet) as advance:
        followed = follow_in_process(ws, instance=instance, by=by, progress=_listener(advance))
    return _followed_document(followed, waiting)


def cancel_follow_ups(publication_id: str, *, by: str, reason: str) -> Document:
    """Decides that nothing follows a publication any more."""
    actor = required_actor(by)
    with workspace() as ws:
        operations.cancel_follow_ups(ws, publication_id, by=actor, reason=reason)
    return {
        "publication_id": publication_id,
        "cancelled_by": actor,
        "reason": reason.strip(),
        "sentences": [f"nothing follows {publication_id} any more; what depends on it is as it was"],
    }


def _followed_document(followed: Followed, waiting: Sequence[str]) -> Document:
    """What became of what was asked for; `failed` says whether a person has to look."""
    runs = [
        {
            "table": outcome.table,
            "run_id": outcome.run.run_id,
            "state": str(outcome.run.state),
            "partitions_described": _described(outcome.run.manifest),
            "publications": list(outcome.run.manifest.cause.publications),
            "failed": outcome.error is not None or outcome.run.state in (RunState.FAILED, RunState.BLOCKED),
            "error": explained(outcome.error) if outcome.error else None,
        }
        for outcome in followed.outcomes
    ]
    unplanned = [
        {
            "table": each.follow_up.table,
            "run_id": None,
            "state": None,
            "partitions_described": describe(each.follow_up.grain, each.follow_up.partitions),
            "publications": list(each.follow_up.publications),
            "failed": True,
            "error": explained(each.error),
        }
        for each in followed.failed
    ]
    elsewhere = [f"{run.manifest.table}: {run.run_id} is under way in another process" for run in followed.elsewhere]
    everything = [*runs, *unplanned]
    sentences = [*map(_followed_sentence, everything), *elsewhere, *waiting]
    return {
        "followed": everything,
        "failed": any(each["failed"] for each in everything),
        "sentences": sentences or ["no publication waits for its dependents"],
    }


def _followed_sentence(each: Document) -> str:
    became = f"{each['state']} as {each['run_id']}" if each["run_id"] else "was not planned"
    reason = f" ({each['error']})" if each["error"] else ""
    return f"{each['table']} {each['partitions_described']}: {became}{reason}"


def _described(manifest: Manifest) -> str:
    return describe(manifest.grain, manifest.partitions)


def recover(run_id: str | None, *, now: bool, by: str) -> Document:
    """Ends what a dead process left half done; one thing of it even while its lease has not ended."""
    # What lost its lease is ended by whoever comes; what has not, a person takes over.
    if now and by == "recover":
        raise Refused("it was not said who takes the work over.", next_step="add --by NAME, or set BACKFILL_USER")
    actor = required_actor(by) if now else by
    with workspace() as ws:
        found = operations.recover(ws, by=actor, only=run_id, now=now)
    return {
        "recovered": [each.document() for each in found],
        "problems": [each.problem.document() for each in found if each.problem],
    }


def erase_samples(name: str, *, by: str, reason: str) -> Document:
    """Deletes the values of rows that the ledger holds of a run, or of the runs of a set."""
    with workspace() as ws:
        erased = operations.erase_samples(ws, name, by=required_actor(by), reason=reason)
    return {"set_id" if operations.is_set(name) else "run_id": name, "erased": erased}


def vacuum(*, dry_run: bool, by: str) -> Document:
    """Removes staged files that are not needed any more, and old runs of Dagster's that no page shows."""
    from backfill_assets.orchestration.prune import prune_history

    with workspace() as ws:
        vacuumed = operations.vacuum(ws, by=named(by), dry_run=dry_run).document()
        pruned = prune_history(ws.settings, as_of=ws.clock(), dry_run=dry_run)
        return {**vacuumed, "dagster": pruned.document()}


def status(run_id: str | None) -> Document:
    """Everything at a glance, one run, or one set."""
    with workspace() as ws:
        if run_id is None:
            return status_of_everything(ws)
        if operations.is_set(run_id):
            return set_document(ws, run_id)
        return run_document(ws, run_id)


def stale(table: str | None, first: date | None, last: date | None) -> Document:
    """What no longer follows from what is there now, and why."""
    days = None if first is None or last is None else DayRange.inclusive(first, last)
    with workspace() as ws:
        name = None if table is None else ws.domain.table(table).name
        found = operations.stale_tables(ws, table=name, days=days)
        return stale_document(found, table=name, days=days, sources=[source.name for source in ws.domain.sources])


def history(table: str, partition: date | None) -> Document:
    """What a table or a partition has been."""
    with workspace() as ws:
        return table_history(ws, table) if partition is None else partition_history(ws, table, partition)


def audit(*, head: str | None, is_quick: bool) -> Document:
    """Whether ledger, tables and landed files agree."""
    with workspace() as ws:
        return audit_everything(ws, head=head, is_quick=is_quick).document()
