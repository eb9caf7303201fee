"""What to do about errors of upkeep, and about what it has found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.report.advice.filling import joined, loads
from backfill_assets.report.requests import Act, Advice, Following, NextStep, Option, do, step
from backfill_assets.upkeep import errors
from backfill_assets.upkeep.errors import Fault

if TYPE_CHECKING:
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckedTable

_FIX = {
    Fault.NO_JAVA: "install Java 17 or newer, and let JAVA_HOME name it",
    Fault.LITTLE_SPACE: "free some space, or move it: every run stages whole partitions beside the published ones",
    Fault.NOT_WRITABLE: "let this user write there",
    Fault.NOT_LISTED: "use a store whose listings show what was written at once",
    Fault.NOT_REMOVED: "allow deletes below this place",
    Fault.CLOCKS_APART: "set both by the same time server: leases are judged by the clock of who looks",
    Fault.NO_JARS: "fetch them: mvn -f deploy/s3/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; "
    "then name them in BACKFILL_SPARK_CONF: spark.jars=DIR/one.jar,DIR/two.jar",
    Fault.FILES_NOT_SHARED: "let Spark's executors and this process see the same files there",
}


def of_upkeep(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    match error:
        case errors.NotAHead():
            return "give it as an earlier audit printed it, SEQUENCE:HASH, with all 64 characters of the hash"
        case errors.EmptySample():
            return step("leave ", Option("sample"), " out for all")
        case errors.NothingToReproduce() | errors.ComputedNothing():
            return do(Act.REPORT, error.run_id)
        case errors.SparkStopped():
            return "fix the cause; nothing was changed"
        case errors.NotSound():
            return _FIX.get(error.fault)
        case errors.ReadableByOthers():
            change = f"chmod -R {error.whom}= {shlex.quote(error.home)}"
            return (
                f"take it from them: {change}, and the same for landed files, the lake and the ledger where they "
                "are elsewhere"
            )
        case errors.ReproducedOtherwise():
            return step("check out the code with that digest, then again: ", do(Act.REPRODUCE, error.run_id))
        case _:
            return None


def after_audit(audit: AuditReport, following: Following) -> Sequence[NextStep]:
    """What to do about tables that cannot be opened, and about publications that are open."""
    if audit.agrees:
        return ()
    steps = [found for problem in audit.unreadable if (found := following(problem.error))]
    return (*steps, *([step(do(Act.RECOVER))] if audit.has_open_publications else []))


def after_check(table: CheckedTable) -> NextStep:
    """What builds the partitions again that do not hold what their table declares."""
    if table.contract_version is not None:
        return joined(loads(table.table, table.restate or ()))
    return step(do(Act.STALE, table.table), " says whether its inputs and its release still are those of these rows")
