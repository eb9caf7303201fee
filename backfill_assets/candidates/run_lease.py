"""Run lease: held while a process stages or gates a run.

The lease is renewed while the work continues; if another process takes it over, the jobs of this Spark session are
cancelled. An error or Ctrl-C fails the run at once, so that the next command resumes it. If the process is killed,
`recover` fails the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from backfill_assets.candidates.errors import OverLimit, SparkStopped
from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.columns import in_sql
from backfill_assets.core.errors import BackfillError, TakenOver
from backfill_assets.core.lease import LeaseTerms, renewed
from backfill_assets.core.spark_causes import recorded_reason, spark_reason, stops_again, text_refused
from backfill_assets.core.wording import visible
from backfill_assets.domain import Table
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.ledger.events import STOPPED_BY
from backfill_assets.ledger.states import RunState, StoppedBy
from backfill_assets.planning.manifest import Manifest
from backfill_assets.transforms.apply import broken_in_worker
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRun:
    """The run that a process works on, with its lease."""

    manifest: Manifest
    table: Table
    actor: str  #: On whose behalf.
    session: SparkSession | None  #: The Spark session that computes or measures it; None for an expiry.
    lease: LeaseTerms  #: Its `attempt` is a token and not a counter: it distinguishes a process that has lost the run.
    doing: str  #: What Spark does with the table, such as `computed`, for the sentence when it stops.

    @property
    def run_id(self) -> str:
        return self.manifest.run_id

    def interrupt(self) -> None:
        """Cancels the jobs of its session."""
        if self.session:
            self.session.interruptAll()


@contextmanager
def holding_lease(ws: Workspace, work: LeasedRun) -> Iterator[None]:
    """Holds the lease of a run until the block ends; an error in the block fails the run.

    Raises:
        TakenOver: Another process has taken over the run, or it was abandoned or cancelled.
        ContractBroken: Spark stopped, or a function of the table did that it called.
    """
    try:
        with (
            ws.one_session(work.session),
            renewed(
                lambda: ws.ledger.renew_lease(work.run_id, work.lease),
                length=work.lease.length,
                lost=work.interrupt,
            ),
        ):
            yield
    except TakenOver:
        raise
    except (PySparkException, Py4JError) as error:
        failure = broken_in_worker(error, work.table, work.manifest.transform_version) or _stopped(ws, work, error)
        if isinstance(failure, CodeBroken):
            failure.manifest = work.manifest
        _fail(ws, work, failure)
        raise failure from error
    except BackfillError as error:
        if isinstance(error, CodeBroken):
            error.manifest = work.manifest
        _fail(ws, work, error)
        raise
    except (Exception, KeyboardInterrupt) as error:
        with suppress(BackfillError):
            work.interrupt()
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped by {type(error).__name__}"
            _fail(ws, work, BackfillError(why))
        raise


def _stopped(ws: Workspace, work: LeasedRun, error: Exception) -> SparkStopped:
    doing = f"{work.doing} {work.table.name}"
    stopped = SparkStopped(
        run_id=work.run_id,
        doing=doing,
        reason=spark_reason(error),
        place=_place_of(ws, work, error),
        manifest=work.manifest,
        is_final=stops_again(error),
    )
    return stopped.record_as(f"Spark stopped while it {doing}: {recorded_reason(error)}")


def _place_of(ws: Workspace, work: LeasedRun, error: Exception) -> str:
    """The column of an input whose value Spark could not read, with the key of its first row; Spark does not report
    it."""
    value = text_refused(error)
    if value is None or work.session is None:
        return ""
    # The search is no reason to lose the error that it is about: a server or a file may be gone by now.
    with suppress(BackfillError, PySparkException, Py4JError):
        with ws.ledger.read() as tx:
            files = pinned_files(tx, work.run_id, work.manifest.inputs)
        for read in work.manifest.inputs:
            table = ws.domain.table(read.table)
            rows = rows_of(ws, table, files[read.argument].values())
            texts = [name for name, kind in rows.dtypes if kind == "string"]
            holds = [F.col(in_sql(name)) == value for name in texts]
            if holds and (found := rows.where(reduce(Column.__or__, holds)).head()):
                columns = ", ".join(name for name in texts if found[name] == value)
                key = ", ".join(f"{name}={found[name]}" for name in table.key)
                return visible(f" The value is in {columns} of {table.name}: {key}.")
    return ""


def _stopped_by(error: BackfillError) -> Mapping[str, StoppedBy]:
    match error:
        case CodeBroken() | SparkStopped(is_final=True):
            return {STOPPED_BY: StoppedBy.CODE}
        case OverLimit():
            return {STOPPED_BY: StoppedBy.LIMIT}
        case _:
            return {}


def _fail(ws: Workspace, work: LeasedRun, error: BackfillError) -> None:
    """Records in the ledger why a run stopped.

    Raises:
        TakenOver: Another process has taken over the run, so that the reason does not concern the run.
    """
    attempt = work.lease.attempt
    try:
        with ws.ledger.write() as tx:
            tx.runs.move(
                work.run_id,
                RunState.FAILED,
                actor=work.actor,
                attempt=attempt,
                note=error.recorded,
                payload=_stopped_by(error),
            )
    except TakenOver as taken:
        raise TakenOver.coded(
            "lost_when_stopped",
            "{taken} This one had stopped: {stopped}",
            then="{following}",
            run_id=work.run_id,
            stopped=error.message,
            taken=taken.message,
            following=taken.next_step,
        ) from error
