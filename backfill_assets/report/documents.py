"""Documents to JSON: field by field, with the same names. No other module determines the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Invocation, NextStep
from backfill_assets.report.command_line import words_of

INLINE = {"inline": True}
"""Metadata of a field of a document whose own fields stand in its place in JSON: a report is a run and more."""

IN_PLACE = ""
"""The name in JSON of an attribute whose own fields stand in its place."""


def _shown(names: str) -> Mapping[str, str]:
    """Attributes by their paths, each with its name in JSON: its own, or what is behind `=`."""
    pairs = (each.partition("=") for each in names.split())
    return {path: name if is_renamed else path.rpartition(".")[2] for path, is_renamed, name in pairs}


SHOWN: Mapping[str, Mapping[str, str]] = {
    "planning.manifest.Manifest": _shown(
        "request_id digest=manifest_digest run_id table grain kind mode reason requested_by requested_at "
        "transform transform_version notes code_digest code_modules references reference_semantics policy gates limits "
        "supersedes columns changed shown output"
    ),
    "ledger.records.RunRecord": _shown(
        "manifest= lease=at_work state approval approved_by approved_at updated_at note"
    ),
    "core.lease.Lease": _shown("holder machine since_at until_at"),
    "ledger.records.PartitionVersion": _shown(
        "files= version state rows checksum removed_at accepted_at delta_version publication_id replaces provenance"
    ),
    "core.identity.FileSet": _shown("digest=file_set_digest paths=files"),
    "planning.request.Plan": _shown(
        "manifest= chunk_count=chunks asked_for=asked_partitions inputs replaced_partitions replaced_rows estimate "
        "dependents conflicts left_out lacks"
    ),
    "planning.restatement.PlannedSet": _shown(
        "manifest= plans=runs planned=planned_partitions asked_for=asked_partitions rebuilds stages"
    ),
    "ledger.records.SetRecord": _shown("manifest= state note updated_at"),
    "planning.sets.SetManifest": _shown(
        "digest=manifest_digest set_id name because reason requested_by requested_at phases"
    ),
    "planning.state.Estimate": _shown("total_rows=rows size_bytes seconds based_on runs"),
    "ledger.records.ReplayRecord": _shown("replay_id waits subject target records by reason approved_by approved_at"),
    "report.replayed.ReplayPlan": _shown(
        "record.subject record.table record.period_from=from record.period_to=to record.family delivery record.target "
        "record.stream record.is_live record.stream_partitions=partitions record.inputs record.records "
        "record.deleted_keys record.size_bytes replay_id not_known"
    ),
    "report.replayed.OpenReplay": _shown(
        "record.replay_id record.subject record.target record.state record.waits record.failure record.by "
        "record.asked_at"
    ),
    "report.replayed.ReplayClosed": _shown(
        "record.replay_id record.subject record.family record.target record.sent deleted record.closed_by "
        "record.closed_at"
    ),
    "report.runs.WithdrawnApproval": _shown("approved_by rollback.by rollback.at rollback.reason"),
    "report.trace.TracedRecord": _shown(
        "landed.import_id landed.original_path=file record landed.landed_by landed.landed_at"
    ),
    "report.history.ImportOnDay": _shown("day= landed.original_path=file landed.landed_by=by landed.note=reason"),
    "report.proposed.OpenProposal": _shown(
        "record.manifest.set_id record.manifest.reason record.manifest.because "
        "record.manifest.requested_at=proposed_at approved next_step"
    ),
    "report.status.WorkInProgress": _shown(
        "work table state lease.holder lease.machine lease.since_at=since chunks_done chunks_begun rows overdue_seconds"
    ),
    "report.follow.RecoveredWork": _shown("what id outcome next_step"),
    "report.sources.CapturedSource": _shown(
        "last.source last.name last.capture_id last.resolved_at=captured_at positions records captured_until "
        "lag_seconds expires_at"
    ),
    "report.captured.CapturePlan": _shown(
        "source resolution.family resolution.name resolution.stream from_=from to resolution.pinned "
        "resolution.is_compacted resolution.is_whole has_change_events partitions records size_bytes files expires_at "
        "as_of"
    ),
    "staleness.landed_news.FileNews": _shown(
        "record.import_id record.source record.original_path=file record.landed_at record.landed_by days changed.rows "
        "changed.moved_away changed.taken_back changed.restored least_days_late most_days_late"
    ),
}
"""What JSON has of records that hold more than a reader needs, such as every file that a manifest pins: paths of
attributes, each with its name in JSON. Named here and not imported, so that a status imports nothing of plans."""

DAYS = "tuple[date, ...]"
"""The type of a field that holds partitions by their first days."""


def as_json(value: object) -> Any:
    """A document, or a part of one, as JSON values.

    Args:
        value: A dataclass, which becomes an object with what `SHOWN` has of it, or else with its fields (`from_`
            without its underscore, which only Python needs); a mapping, a tuple, a list; a date or an instant, which
            becomes ISO 8601; a member of an enum, which becomes its text; partitions, which become their ranges and
            their count, and so do the days of an object that has a grain; a range of days, which becomes `FIRST..LAST`;
            an error, which becomes its type, message, next step and ids; a number that is not finite, which becomes
            `NaN`, `Infinity` or `-Infinity`; or a JSON value, which is left as it is.

    Raises:
        TypeError: There is no JSON for it.
    """
    if isinstance(value, NextStep | Invocation):
        return words_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if isfinite(number) else str(Decimal(value))
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, DayRange):
        return str(value)
    if isinstance(value, Partitions):
        return {"ranges": list(value.ranges), "count": len(value)}
    if isinstance(value, BackfillError):
        following = value.next_step
        return {
            "type": value.category.__name__,
            "message": value.message,
            "next_step": None if following is None else words_of(following),
            "ids": {name: part if isinstance(part, (list, dict)) else str(part) for name, part in value.ids.items()},
        }
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(part) for part in value]
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is not a document")
    found: dict[str, Any] = {}
    grain = getattr(value, "grain", None)
    days = {each.name for each in fields(value) if each.type == DAYS and isinstance(grain, Grain)}
    for name, shown in names_in_json(type(value)).items():
        held = attrgetter(name)(value)
        part = as_json(Partitions(grain, held) if name in days and isinstance(grain, Grain) else held)
        found |= part if shown == IN_PLACE else {shown: part}
    return found


@cache
def names_in_json(kind: Any) -> Mapping[str, str]:
    """The paths of the attributes of a class that its JSON has, in order, each with its name there or `IN_PLACE`."""
    # What a document is about stands before what it has in common with others.
    ordered = sorted(fields(kind), key=lambda each: each.metadata != INLINE)
    own = {each.name: IN_PLACE if each.metadata == INLINE else each.name.removesuffix("_") for each in ordered}
    return SHOWN.get(name_of(kind), own)


def name_of(kind: type) -> str:
    """The name of a class in `SHOWN`."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("backfill_assets.")
