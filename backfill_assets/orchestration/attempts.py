"""Attempts: the Dagster runs of one subject, such as a manifest, a set or a folder of files."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from backfill_assets.orchestration import tags

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
    made = instance.get_runs_count(filters=RunsFilter(tags={**named, tags.SENSOR: tags.prefixed(sensor)}))
    return Attempts(made=made, counted=max(0, made - forgiven))


def is_under_way(instance: DagsterInstance, named: Mapping[str, str]) -> bool:
    """True if a Dagster run with these tags has not ended. Ends those whose process is gone first."""
    end_abandoned_runs(instance, named)
    return not all(run.is_finished for run in instance.get_runs(filters=RunsFilter(tags=dict(named))))


def end_abandoned_runs(instance: DagsterInstance, named: Mapping[str, str] | None = None) -> None:
    """Marks runs as failed whose process is gone: those with these tags, or all of this machine."""
    begun = RunsFilter(tags=dict(named or {}), statuses=[DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED])
    for run in instance.get_runs(filters=begun):
        host, _, pid = run.tags.get(tags.PROCESS, "").partition(":")
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
