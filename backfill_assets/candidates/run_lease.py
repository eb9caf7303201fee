"""What holds while a process stages or gates a run, and what does the ledger say when it stops?

The lease is renewed while the work goes on, and the jobs of its Spark session are stopped when it was taken away.
Whatever ends the work, an error or Ctrl-C, fails the run at once, so that the next command goes on with it; only a
process that is killed leaves that to `recover`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from backfill_assets.errors import BackfillError, ContractBroken, TakenOver
from backfill_assets.lease import LeaseTerms, renewed
from backfill_assets.ledger.states import RunState
from backfill_assets.next_steps import Act, do, step
from backfill_assets.transforms.apply import recorded_reason, spark_reason
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRun:
    """One process at work on a run.

    Attributes:
        actor: On whose behalf.
        lease: Its `attempt` is not a counter: a process that was given up may still be at it, and is told by it.
        doing: What Spark does, such as `computed silver.orders`, for the sentence when it stops.
    """

    run_id: str
    actor: str
    lease: LeaseTerms
    doing: str


@contextmanager
def holding_lease(ws: Workspace, work: LeasedRun) -> Iterator[None]:
    """Holds the lease of a run that was taken until the block ends; a block that fails fails the run.

    Raises:
        TakenOver: Another process has the run by now, or it was given up or cancelled.
        ContractBroken: Spark stopped.
    """
    try:
        with renewed(
            lambda: ws.ledger.renew_lease(work.run_id, work.lease),
            length=work.lease.length,
            lost=ws.spark().interruptAll,
        ):
            yield
    except TakenOver:
        raise
    except (PySparkException, Py4JError) as error:
        failure = ContractBroken(
            f"Spark stopped while it {work.doing}: {spark_reason(error)}",
            next_step=step("fix the cause, then ", do(Act.RUN, work.run_id)),
            run_id=work.run_id,
        ).record_as(f"Spark stopped while it {work.doing}: {recorded_reason(error)}")
        _fail(ws, work, failure)
        raise failure from error
    except BackfillError as error:
        _fail(ws, work, error)
        raise
    except (Exception, KeyboardInterrupt) as error:
        with suppress(BackfillError):
            ws.spark().interruptAll()
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped by {type(error).__name__}"
            _fail(ws, work, BackfillError(why))
        raise


def _fail(ws: Workspace, work: LeasedRun, error: BackfillError) -> None:
    """Notes in the ledger why a run stopped.

    Raises:
        TakenOver: Another process has the run by now, so that the reason is not the run's.
    """
    attempt = work.lease.attempt
    try:
        with ws.ledger.write() as tx:
            tx.runs.move(work.run_id, RunState.FAILED, actor=work.actor, attempt=attempt, note=error.recorded)
    except TakenOver as taken:
        raise TakenOver(
            f"{taken.message} This one had stopped: {error.message}", next_step=taken.next_step, **taken.ids
        ) from error
