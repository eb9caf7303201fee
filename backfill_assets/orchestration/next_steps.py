"""Next steps in Dagster's pages: the job that does what a command would do, and a link to its launchpad, filled in.

A link names the job, which of its entries is meant, and what is known: an id, or a table and days. Names of people and
reasons stay open, and the launchpad launches nothing without them: a link narrows a launch and grants nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dagster import MetadataValue

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Command, Invocation, NextStep, Option, step
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.dagster_internals import place_of
from backfill_assets.report.command_line import words_of

if TYPE_CHECKING:
    from dagster import DagsterRun

PLAN, DECIDE, CHECK = tags.prefixed("plan"), tags.prefixed("decide"), tags.prefixed("check")
PLANNED, TOGETHER, STALE, EXPIRE = "planned", "with_dependents", "stale", "expire"
"""Entries of the job that plans, beside one per derived table."""

NEXT = "next"
_ENDS = ("first", "last")
LEFT_OPEN = {"by", "reason"}


@dataclass(frozen=True, slots=True)
class Launchpad:
    """A launchpad, filled in."""

    job: str
    chosen: str  #: Which entry of the job.
    about: str  #: What the entry is about, for a reader.
    #: Its values by name; None where a person has to fill one in.
    entries: Mapping[str, str | bool | Sequence[Mapping[str, str]] | Sequence[str] | None]

    @property
    def config(self) -> str:
        """The config that its editor shows. An empty value is none, so that Dagster names it as missing."""
        lines = [f"  {name}: {'' if value is None else json.dumps(value)}" for name, value in self.entries.items()]
        return "\n".join([f"{self.chosen}:", *(line.rstrip() for line in lines), ""])

    def link(self, place: str) -> str:
        """Its address on Dagster's pages, whatever their host.

        Args:
            place: The code location, as these addresses name it.
        """
        filled = quote(self.config, safe="")
        return f"/locations/{quote(place, safe='')}/jobs/{self.job}/playground/setup?config={filled}"


def launchpad_of(asked: Invocation) -> Launchpad | None:
    """The launchpad of the job that does what a command would do; None where no job does all of it."""
    given = dict(asked.options)
    match asked.command, asked.of:
        case Command.RUN, (name,):
            return Launchpad(PLAN, PLANNED, name, {"id": name, "by": None})
        case Command.APPROVE, (name,):
            note = {"note": None} if "note" in given else {}
            return Launchpad(DECIDE, "approve", name, {"id": name, "approver": None, **note})
        case Command.PUBLISH, (name,):
            return Launchpad(DECIDE, "publish", name, {"id": name, "publisher": None})
        case Command.ROLLBACK, (name,):
            more = {"with_dependents": True} if given.get("with_dependents") else {}
            return Launchpad(DECIDE, "roll_back", name, {"id": name, "by": None, "reason": None, **more})
        case Command.CANCEL, (name,) if given.get("leave"):
            return Launchpad(DECIDE, "leave", name, {"id": name, "owner": None, "reason": None})
        case Command.CANCEL, (name,):
            return Launchpad(DECIDE, "cancel", name, {"id": name, "by": None, "reason": None})
        case Command.RECOVER, ():
            return Launchpad(DECIDE, "recover", "", {"by": None})
        case Command.RECOVER, (name,) if not {"now", "reason"} & given.keys():
            return Launchpad(DECIDE, "recover", name, {"only": name, "by": None})
        case Command.CHECK, (table,) if {*_ENDS} <= given.keys() <= {*_ENDS, "gate"}:
            gates = [str(value) for name, value in asked.options if name == "gate"]
            days = {"first_day": str(given["first"]), "last_day": str(given["last"])}
            about = f"{days['first_day']}..{days['last_day']}"
            return Launchpad(CHECK, table, about, {**days, **({"gates": gates} if gates else {}), "by": None})
        case Command.PLAN_STALE, tables if given.keys() <= {"changed_code", *LEFT_OPEN}:
            asked_of: Mapping[str, Any] = {"table": tables[0]} if tables else {}
            known = {**asked_of, **({"changed_code": True} if "changed_code" in given else {})}
            return Launchpad(PLAN, STALE, " ".join(tables), {**known, "reason": None, "requester": None})
        case (Command.PLAN_TABLE | Command.PLAN_WITH_DEPENDENTS) as plan, (table,) if (
            {*_ENDS} <= given.keys() <= {*_ENDS, "references", *LEFT_OPEN}
        ):
            chosen, of = (TOGETHER, {"table": table}) if plan is Command.PLAN_WITH_DEPENDENTS else (table, {})
            truth = {"references": str(given["references"])} if "references" in given else {}
            firsts, lasts = ([str(day) for name, day in asked.options if name == end] for end in _ENDS)
            ranges = [{"first_day": first, "last_day": last} for first, last in zip(firsts, lasts, strict=True)]
            planned: Mapping[str, Any] = {**ranges[0], **({"more_days": ranges[1:]} if ranges[1:] else {})}
            about = ", ".join([*of.values(), *(f"{each['first_day']}..{each['last_day']}" for each in ranges)])
            return Launchpad(PLAN, chosen, about, {**of, **planned, **truth, "reason": None, "requester": None})
        case _:
            return None


def in_dagster(following: NextStep) -> str:
    """A next step as what is launched, and as a command where no job does it."""
    return "".join(map(_worded, following.parts))


def _worded(part: str | Invocation | Option) -> str:
    found = launchpad_of(part) if isinstance(part, Invocation) else None
    return (
        words_of(step(part)) if found is None else f"the job {found.job} ({found.chosen} {found.about}".rstrip() + ")"
    )


def explained_in_dagster(error: BackfillError) -> str:
    """The error and the next step as one text for Dagster's pages."""
    following = error.next_step
    return f"{error.message} Next: {in_dagster(following)}" if following else error.message


def linked(following: NextStep | None, run: DagsterRun) -> Mapping[str, MetadataValue]:
    """The first launchpad of a next step as a link, for pages of the code location that a Dagster run is of."""
    place = place_of(run)
    for part in following.parts if following and place else ():
        if isinstance(part, Invocation) and (found := launchpad_of(part)):
            return {NEXT: MetadataValue.url(found.link(place))}
    return {}
