"""Jobs by which people act in the launchpad: what the commands do, with the same refusals and the same next steps.

There are three, however many tables a domain has: one asks for new rows, one decides what becomes of them, and one
measures accepted rows with the gates of today. Each has
entries of which a launch fills in exactly one, with a small typed configuration that Dagster validates before anything
starts: days and releases are listed, and names and reasons are required. A name is a claim, as it is on the command
line (docs/guarantees.md): who may approve what is decided in the ledger, and nothing that is typed here grants more
than a command would. What rows are computed or published is done by Dagster runs of the assets, which these jobs
execute and record as a command does.
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from dagster import (
    ConfigMapping,
    DagsterInvariantViolationError,
    Enum,
    EnumValue,
    Failure,
    Field,
    JobDefinition,
    OpExecutionContext,
    Selector,
    in_process_executor,
    job,
    op,
)

from backfill_assets.application import plan as planning
from backfill_assets.application.check import check
from backfill_assets.application.follow import step_after_change
from backfill_assets.application.recover import recover_document
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange, ReversedRange, days_in
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.core.people import require_person
from backfill_assets.domain import DerivedTable, Table
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.metadata import report_link
from backfill_assets.orchestration.next_steps import (
    CHECK,
    DECIDE,
    EXPIRE,
    NEXT,
    PLAN,
    PLANNED,
    STALE,
    TOGETHER,
    in_dagster,
    linked,
)
from backfill_assets.orchestration.partitions import offered_days
from backfill_assets.orchestration.recorder import acting_in
from backfill_assets.orchestration.resources import SESSION, session_of
from backfill_assets.orchestration.runs import refusals_as_failures, say_why
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import Plan, PlanRequest, asked_references
from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet, SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.upkeep import after_rows_check
from backfill_assets.workspace import Workspace

MODES = Enum(
    "Mode",
    [
        EnumValue("backfill", Mode.BACKFILL, "May be published once it has passed and is approved."),
        EnumValue("replay", Mode.REPLAY, "As a backfill, of a time whose files have landed before."),
        EnumValue("dry-run", Mode.DRY_RUN, "Never published."),
        EnumValue("reconciliation", Mode.RECONCILIATION, "Reports the drift of what is published, never published."),
    ],
)
REFERENCES = Enum(
    "References",
    [
        EnumValue("current", description="The present ones."),
        EnumValue("as-recorded", description="Those that the replaced rows had used."),
        EnumValue("corrected", description="Those that `reference` names; the present ones of all others."),
    ],
)
FOLLOWS = step("the sensor backfill_follow computes again what depends on it; where it is off, ", do(Command.FOLLOW))
RUN_OR_SET = Field(str, description="The id of a run or of a restatement set.")
REASON = Field(str, description="Why.")
REQUESTER = Field(str, description="Your name: who asks; another person approves.")


def _name(role: str) -> Field:
    return Field(str, description=f"Your name: {role}.")


def _optional(kind: Any, description: str) -> Field:
    return Field(kind, is_required=False, description=description)


class _Launch:
    """One launch of a job: who acts, on what, and what is said about it in the log of the Dagster run."""

    def __init__(self, context: OpExecutionContext) -> None:
        self.context = context
        ((self.chosen, self.typed),) = context.op_config.items()
        self.ws = session_of(context).workspace

    def person(self, key: str) -> str:
        """The name that was typed, which has to be a person's."""
        name = str(self.typed[key]).strip()
        require_person(f"the {key}", name)
        return name

    def text(self, key: str) -> str:
        """The typed text, without blanks around it; empty for nothing."""
        return str(self.typed.get(key) or "").strip()

    def about(self, name: str | None, by: str) -> None:
        """Tags the Dagster run with what it is about, so that it is found under it."""
        found = {**({tags.ON: name} if name else {}), tags.CHOSEN: self.chosen, tags.BY: by}
        self.context.instance.add_run_tags(self.context.run.run_id, found)

    def says(self, *sentences: str) -> None:
        """Writes sentences into the log of the run."""
        for sentence in sentences:
            self.context.log.info(sentence)

    def plans(self, planned: Plan | PlannedSet | NothingToRebuild) -> None:
        """Shows what was planned, and stages and gates it."""
        self.says(markdown_page(page_of(planning.described(self.ws, planned))))
        if not isinstance(planned, NothingToRebuild):
            named = planned.manifest.run_id if isinstance(planned, Plan) else planned.manifest.set_id
            by = self.person("requester")
            self.about(named, by)
            self.stages(named, by)

    def stages(self, name: str, by: str) -> None:
        """Stages and gates a run or a set; a blocked one fails the Dagster run, as its gates fail their checks."""
        subject = Restatement(self.ws, name)
        is_blocked = subject.stage(acting_in(self.context, self.ws, by)).is_blocked
        self.ends(name, subject.document().next_step)
        if is_blocked:
            say_why(self.context, f"{name} is blocked by a gate.")
            raise Failure(
                f"{name} is blocked by a gate. Next: {words_of(do(Command.REPORT, name))}",
                metadata=report_link(self.ws.settings, name),
                allow_retries=False,
            )

    def ends(self, name: str | None, following: NextStep | None) -> None:
        """Ends the log with what became of a run or a set, if it is about one, and with what is next."""
        next_text = in_dagster(following) if following else "nothing is left to do"
        found: dict[str, Any] = {NEXT: next_text, **linked(following, self.context.run)}
        if name:
            state = Restatement(self.ws, name).document().record.state
            self.says(f"{name} is {state}.")
            found |= {"state": str(state), **report_link(self.ws.settings, name)}
        self.says(f"Next: {next_text}")
        self.context.add_output_metadata(found)

    def ends_for_readers(self, name: str) -> None:
        """Ends the log after readers see other rows."""
        self.ends(name, FOLLOWS if step_after_change(self.ws) else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One of the entries of a job, of which a launch fills in exactly one."""

    description: str
    config: Mapping[str, Field]  #: What is typed.
    act: Callable[[_Launch], None]  #: What is done then.


def _job(name: str, description: str, entries: Mapping[str, Entry], *, pool: str | None = None) -> JobDefinition:
    choices = {chosen: Field(dict(each.config), description=each.description) for chosen, each in entries.items()}
    typed = Selector(choices)  # type: ignore[no-untyped-call]

    @op(
        name=f"{name}_now",
        description=description,
        config_schema=typed,
        required_resource_keys={SESSION},
        pool=pool,
    )
    def now(context: OpExecutionContext) -> None:
        with refusals_as_failures(session_of(context), context):
            launch = _Launch(context)
            entries[launch.chosen].act(launch)

    # The launchpad asks for these entries and nothing else; as typed, for Dagster validates them once more for the op.
    config = ConfigMapping(
        config_schema=typed,
        config_fn=lambda given: {"ops": {now.name: {"config": _in_order(given)}}},
        receive_processed_config_values=False,
    )

    @job(name=name, description=description, config=config, executor_def=in_process_executor)
    def acting() -> None:
        now()

    return acting


def _in_order(given: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """The typed range; refuses reversed days before there is a Dagster run.

    Raises:
        DagsterInvariantViolationError: The last day is before the first one; Dagster shows its own errors as they are.
    """
    for typed in given.values():
        first, last = typed.get("first_day", ""), typed.get("last_day", "")
        if last < first:
            said = ReversedRange(first=date.fromisoformat(first), last=date.fromisoformat(last)).message
            raise DagsterInvariantViolationError(f"{said} Type a last_day that is not before first_day.")
    return given


def acting_jobs(ws: Workspace, *, pool: str | None) -> Sequence[JobDefinition]:
    """The job that asks for new rows, the one that decides what becomes of them, and the one that measures rows."""
    derived = ws.domain.derived
    days = _days_listed(offered_days(ws).first, ws.clock().date())
    keeping = [table for table in derived if table.keep is not None]
    asked = {
        **{table.name: _of_table(table, days) for table in derived},
        **({TOGETHER: _with_dependents(derived, days)} if derived else {}),
        STALE: _of_what_is_stale(derived),
        **({EXPIRE: _of_what_is_not_kept(keeping)} if keeping else {}),
        PLANNED: Entry(
            description="A run or a set that is planned already, such as a draft that was proposed.",
            config={"id": RUN_OR_SET, "by": _name("who acts")},
            act=_stage,
        ),
    }
    return [
        _job(
            PLAN,
            "Ask for new rows: plan a table over days, or everything that is stale, or take up what is planned; stage "
            "and gate it. No row is visible to readers before it is published.",
            asked,
            pool=pool,
        ),
        _job(
            CHECK,
            "Measure accepted rows with the gates that their table declares now, as its checks show then. Nothing is "
            "computed, approved or published.",
            {table.name: _of_rows(table, days) for table in ws.domain.tables.values()},
            pool=pool,
        ),
        _job(
            DECIDE,
            "Decide what becomes of a run or a set: approve, publish, roll back or cancel it, or leave the accepted "
            "rows in its place; or complete or undo the unfinished work of a stopped process.",
            DECISIONS,
        ),
    ]


def _days_listed(first: date, today: date) -> Enum:
    """The days that can be typed, so that the launchpad refuses any other text before Launch.

    To the end of the next year, so that a code location which runs for months has every day; the planner refuses days
    that are not over.
    """
    count = (date(today.year + 1, 12, 31) - first).days + 1
    # Also where the first day is still to come: the code location is loaded, and the planner refuses the day.
    days = [first + timedelta(days=n) for n in range(max(1, count))]
    return _listed("day", {day.isoformat(): day for day in days}, f"from {days[0]} to {days[-1]}")


def _listed(what: str, values: Mapping[str, Any], described: str) -> Enum:
    """A type of exactly these values.

    Dagster takes types of one name for one type, also those of another domain in the same process: so its name, which
    a refusal shows, says which values it has.
    """
    return Enum(f"{what} {described}", [EnumValue(name, value) for name, value in values.items()])


def _of_days(days: Enum, *, references: bool) -> Mapping[str, Field]:
    """What is typed for every plan over days."""
    of_references = {
        "references": _optional(
            REFERENCES, "Which versions of the references; the present ones by default. `corrected` needs `reference`."
        ),
        "reference": _optional(
            [str], "For corrected references: NAME=VERSION, the beginning of a sha256, or a YAML file."
        ),
    }
    return {
        "first_day": Field(days, description="The first day to compute, such as 2006-07-01."),
        "last_day": Field(days, description="The last day to compute; a monthly table takes every month it touches."),
        "more_days": _optional(
            [{"first_day": days, "last_day": days}], "More ranges of days; what is between the ranges stays as it is."
        ),
        "reason": REASON,
        "requester": REQUESTER,
        **(of_references if references else {}),
        "mode": _optional(MODES, "How the run may be published; `backfill` by default."),
        "show": _optional(
            str,
            "Disputed cases: a CSV file of keys on this machine, or a reference with `keys`, whose rows the report "
            "shows before and after.",
        ),
    }


def _over_days(launch: _Launch) -> Mapping[str, Any]:
    """The fields of a request over days that requests for runs and for sets have in common."""
    typed = launch.typed
    return {
        "days": days_in(
            DayRange.inclusive(each["first_day"], each["last_day"]) for each in (typed, *typed.get("more_days", ()))
        ),
        "reason": launch.text("reason"),
        "by": launch.person("requester"),
        "mode": typed.get("mode", Mode.BACKFILL),
        "references": asked_references(typed.get("references"), typed.get("reference", [])),
    }


def _of_table(table: DerivedTable, days: Enum) -> Entry:
    versions = [release.version for release in table.releases]
    releases = _listed("release", {version: version for version in versions}, " or ".join(versions))

    def act(launch: _Launch) -> None:
        version, asked = launch.typed.get("transform_version"), _over_days(launch)
        request = PlanRequest(table=table.name, transform_version=version, **asked)
        launch.plans(planning.plan_table(launch.ws, request, show=launch.text("show")))

    return Entry(
        description=f"A run of {table.name} over days.",
        config={
            **_of_days(days, references=bool(table.references)),
            "transform_version": _optional(releases, f"{' or '.join(versions)}; the first by default."),
        },
        act=act,
    )


def _with_dependents(tables: Sequence[DerivedTable], days: Enum) -> Entry:
    def act(launch: _Launch) -> None:
        request = SetRequest(table=launch.typed["table"], with_dependents=True, **_over_days(launch))
        launch.plans(planning.plan_set(launch.ws, request, show=launch.text("show")))

    return Entry(
        description="Days of a table and everything that depends on them, as one set by the present releases.",
        config={
            "table": Field(_one_of(tables)),
            **_of_days(days, references=any(table.references for table in tables)),
        },
        act=act,
    )


def _of_rows(table: Table, days: Enum) -> Entry:
    config = {
        "first_day": Field(days, description="The first day whose accepted rows are measured."),
        "last_day": Field(days, description="The last day; of a monthly table every month that the days touch."),
        "gates": _optional([str], "Only these gates; by default all that can be asked of accepted rows."),
        "by": _name("who checks"),
    }

    def act(launch: _Launch) -> None:
        by, typed = launch.person("by"), launch.typed
        launch.about(None, by)
        days = DayRange.inclusive(typed["first_day"], typed["last_day"])
        acting = acting_in(launch.context, launch.ws, by)
        found = check(launch.ws, acting, table.name, days, gates=typed.get("gates", ()))
        launch.says(markdown_page(page_of(found)))
        following = [*after_rows_check(found)]
        launch.ends(None, following[0] if following else None)
        if not found.passes:
            said = f"accepted rows of {table.name} fail a gate, or could not be measured; nothing was changed"
            say_why(launch.context, f"{said}.")
            raise Failure(f"{said}. Next: {in_dagster(following[0])}", allow_retries=False)

    return Entry(description=f"The accepted rows of {table.name} over days.", config=config, act=act)


def _of_what_is_stale(tables: Sequence[DerivedTable]) -> Entry:
    return Entry(
        description="Everything that no longer follows from the present, as one set.",
        config={
            "reason": REASON,
            "requester": REQUESTER,
            "table": _optional(_one_of(tables), "Only this table and what depends on it."),
            "changed_code": _optional(bool, "Also where only the code changed; no by default."),
        },
        act=_plan_stale,
    )


def _of_what_is_not_kept(tables: Sequence[DerivedTable]) -> Entry:
    return Entry(
        description="The snapshots that a table does not keep expire: readers see them no more.",
        config={"table": Field(_one_of(tables)), "reason": REASON, "requester": REQUESTER},
        act=_plan_expiry,
    )


def _one_of(tables: Sequence[DerivedTable]) -> Enum:
    names = [table.name for table in tables]
    return _listed("table", {name: name for name in names}, " or ".join(names))


def _plan_expiry(launch: _Launch) -> None:
    reason, by = launch.text("reason"), launch.person("requester")
    launch.plans(planning.plan_expiry(launch.ws, launch.typed["table"], reason=reason, by=by))


def _plan_stale(launch: _Launch) -> None:
    request = SetRequest(
        reason=launch.text("reason"),
        by=launch.person("requester"),
        stale=True,
        table=launch.typed.get("table"),
        changed_code=launch.typed.get("changed_code", False),
    )
    launch.plans(planning.plan_set(launch.ws, request))


def _stage(launch: _Launch) -> None:
    name, by = _named(launch, "by")
    launch.stages(name, by)


def _approve(launch: _Launch) -> None:
    name, by = _named(launch, "approver")
    # The name was typed in the launchpad: the run of Dagster shows from where, as far as that is known.
    where = f"in Dagster, run {launch.context.run.run_id}"
    approved = Restatement(launch.ws, name).approve(by=by, note=launch.text("note"), place=where)
    launch.says(f"{by} approved {name}.", markdown_page(page_of(approved)))
    launch.ends(name, approved.next_step)


def _publish(launch: _Launch) -> None:
    name, by = _named(launch, "publisher")
    Restatement(launch.ws, name).publish(acting_in(launch.context, launch.ws, by))
    launch.ends_for_readers(name)


def _roll_back(launch: _Launch) -> None:
    name, by = _named(launch, "by")
    acting, together = acting_in(launch.context, launch.ws, by), launch.typed.get("with_dependents", False)
    Restatement(launch.ws, name).rollback(acting, reason=launch.text("reason"), with_dependents=together)
    launch.ends_for_readers(name)


def _cancel(launch: _Launch, role: str = "by", *, leave: bool = False) -> None:
    name, by = _named(launch, role)
    launch.ends(name, Restatement(launch.ws, name).cancel(by=by, reason=launch.text("reason"), leave=leave).next_step)


def _recover(launch: _Launch) -> None:
    by, only = launch.person("by"), launch.text("only") or None
    launch.about(only, by)
    report = recover_document(launch.ws, acting_in(launch.context, launch.ws, by), only=only, now=False)
    launch.says(*(f"{each.what} {each.id} {each.outcome}." for each in report.recovered))
    launch.says(*("" if report.recovered else "Nothing was left unfinished.",))
    launch.ends(None, None)


def _named(launch: _Launch, role: str) -> tuple[str, str]:
    """The run or set and the person of a launch; also as tags of the Dagster run."""
    name, by = launch.text("id"), launch.person(role)
    launch.about(name, by)
    return name, by


DECISIONS = {
    "approve": Entry(
        description="Agree to exactly the manifest of a run, or to every run of a set, as another person than its "
        "requester.",
        config={
            "id": RUN_OR_SET,
            "approver": _name("who approves, another person than the requester"),
            "note": _optional(str, "The grounds of the approval."),
        },
        act=_approve,
    ),
    "publish": Entry(
        description="Make a gated and approved run what readers see, in one commit; the runs of a set one after the "
        "other.",
        config={"id": RUN_OR_SET, "publisher": _name("who publishes")},
        act=_publish,
    ),
    "roll_back": Entry(
        description="Restore exactly the files that a publication replaced; for a set, those of all its publications.",
        config={
            "id": RUN_OR_SET,
            "by": _name("who rolls back"),
            "reason": REASON,
            "with_dependents": _optional(bool, "First undo what would be left without its input; no by default."),
        },
        act=_roll_back,
    ),
    "cancel": Entry(
        description="Cancel what is not published of a run or a set, permanently.",
        config={"id": RUN_OR_SET, "by": _name("who cancels"), "reason": REASON},
        act=_cancel,
    ),
    "leave": Entry(
        description="Leave the accepted rows as they are in place of a run or a set that changes no more of them than "
        "their table tolerates; it is cancelled, and the rows are not stale until their inputs change again.",
        config={"id": RUN_OR_SET, "owner": _name("who owns the table, as approvers.yaml says"), "reason": REASON},
        act=partial(_cancel, role="owner", leave=True),
    ),
    "recover": Entry(
        description="Complete or undo the unfinished work of a stopped process; work with a valid lease is skipped.",
        config={"by": _name("who recovers"), "only": _optional(str, "Only this run, landed file or set.")},
        act=_recover,
    ),
}
