"""Names of jobs and sensors, tags of a Dagster run and their meaning, and the Dagster runs of one subject."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from backfill_assets.ledger.records import RunRecord

# Names of jobs and sensors, and tags of a Dagster run and their meaning.
#
# A launch may set any of them by hand in the launch dialog of the UI. The command line and the sensor always do.

PREFIX = "backfill_"
"""The beginning of the names of all jobs, ops, sensors, schedules and resources: in a project with others of the same
names, Dagster refuses to load either."""

RUN_ID = "backfill/run_id"
"""The manifest that the Dagster run executes; without it an ad-hoc one is made."""

KIND = "backfill/kind"
REASON = "backfill/reason"
BY = "backfill/by"
EMPTY = "backfill/empty"
"""The days of a source on which nothing happened, as the requester states: `2026-01-01..2026-01-03,2026-01-07`."""

TRANSFORM_VERSION = "backfill/transform_version"

BECAUSE = "backfill/because"
"""The publication that a launch claims to follow. It is refused: only the ledger decides what follows."""

ON = "backfill/on"
"""The run or set that a job of the launchpad is about; such a Dagster run executes no manifest itself."""

CHOSEN = "backfill/chosen"
"""Which of the entries of a job of the launchpad was filled in, such as `approve`."""

OF_LAUNCHES = (BY, REASON, KIND, EMPTY, TRANSFORM_VERSION, RUN_ID, BECAUSE, ON, CHOSEN)
"""The tags that mean something in a launch."""

PROCESS = ".dagster/backfill_process"
"""`host:pid` of the process that executes a run; the prefix keeps it off the pages."""

FIRST_FILE = "backfill/first_file"
"""The oldest dropped file that a run lands, and its mark."""

WHY = "backfill/why"
"""Why a Dagster run failed: in every list of runs, those of a backfill's page among them."""

REFUSED = ".dagster/backfill_refused"
"""Set on a Dagster run that was refused: nothing changed, so its partitions keep their colour."""

SENSOR = "dagster/sensor_name"
"""Set by Dagster's daemon on the runs that a sensor asked for."""

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"

NO_REASON = "launched without a reason"
"""The reason of a launch that gives none; the requester is required."""


def prefixed(name: str) -> str:
    """The name that Dagster knows a job or a sensor by."""
    return f"{PREFIX}{name}"


def own_run_id(short_name: str) -> str:
    """The tag under which a Dagster run keeps the ad-hoc manifest of one of its tables."""
    return f"{RUN_ID}.{short_name}"


def unknown_in(given: Iterable[str]) -> str | None:
    """The first tag that looks like one of these and means nothing; None if there is none."""
    ours = (name for name in given if name.startswith("backfill/") and not name.startswith(f"{RUN_ID}."))
    return next((name for name in ours if name not in (*OF_LAUNCHES, FIRST_FILE)), None)


def partition_range(partitions: tuple[date, ...]) -> Mapping[str, str]:
    """The tags that make Dagster run an asset once for a range of partitions."""
    return {RANGE_START: min(partitions).isoformat(), RANGE_END: max(partitions).isoformat()}


def of_run(run: RunRecord, by: str) -> Mapping[str, str]:
    """The tags of a Dagster run that executes a manifest; all else that it is about is in the ledger."""
    return {RUN_ID: run.run_id, REASON: run.manifest.reason, BY: by}


# Attempts: the Dagster runs of one subject, such as a manifest, a set or a folder of files.

MOST_ATTEMPTS = 3
"""After so many attempts in vain a sensor gives up, until a person clears what it has given up."""

_PID = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """A sensor's record of its attempts."""

    made: int  #: How many of its Dagster runs have ended.
    counted: int  #: How many of these since a person let it try again.


def attempts_of(
    instance: DagsterInstance, named: Mapping[str, str], *, sensor: str, forgiven: int = 0
) -> Attempts | None:
    """The attempts that a sensor has made; None while any Dagster run of the subject is under way, whoever began it.

    Launches by hand are no attempts of the sensor: a colleague who launches something wrong uses none of them up.

    Args:
        named: The tags by which runs of the subject are found.
        forgiven: How many it had made when a person let it try again.
    """
    if is_under_way(instance, named):
        return None
    made = instance.get_runs_count(filters=RunsFilter(tags={**named, SENSOR: prefixed(sensor)}))
    return Attempts(made=made, counted=max(0, made - forgiven))


def is_under_way(instance: DagsterInstance, named: Mapping[str, str]) -> bool:
    """True if a Dagster run with these tags has not ended. Ends those whose process is gone first."""
    end_abandoned_runs(instance, named)
    return not all(run.is_finished for run in instance.get_runs(filters=RunsFilter(tags=dict(named))))


def end_abandoned_runs(instance: DagsterInstance, named: Mapping[str, str] | None = None) -> None:
    """Marks runs as failed whose process is gone: those with these tags, or all of this machine."""
    begun = RunsFilter(tags=dict(named or {}), statuses=[DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED])
    for run in instance.get_runs(filters=begun):
        host, _, pid = run.tags.get(PROCESS, "").partition(":")
        # A launch may set the tag by hand: what is no number of a process says nothing about one.
        if host == socket.gethostname() and _PID.fullmatch(pid) and not _is_alive(int(pid)):
            instance.report_run_failed(run, "The process that executed this run ended before the run did.")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
