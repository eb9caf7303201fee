"""Jobs by which people act in the launchpad: what the commands do, with the same refusals and the same next steps.

A job takes a small typed configuration, which Dagster validates before it starts anything; names and reasons are
required. A name is a claim, as it is on the command line (docs/guarantees.md): who may approve what is decided in the
ledger, and nothing that is typed here grants more than a command would. What rows are computed or published is done by
Dagster runs of the assets, which these jobs execute and record as a command does.
"""

# No postponed annotations here: Dagster compares the annotation of `context` with the class itself.

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from typing import Any

from dagster import (
    ConfigMapping,
    Enum,
    EnumValue,
    Failure,
    Field,
    JobDefinition,
    OpExecutionContext,
    in_process_executor,
    job,
    op,
)

from backfill_assets.application import plan as planning
from backfill_assets.application.follow import step_after_change
from backfill_assets.application.recorder import Acting
from backfill_assets.application.recover import recover_document
from backfill_assets.application.subjects import subject_of
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Progress
from backfill_assets.domain import DerivedTable, Domain
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.described import report_link
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.orchestration.resources import SESSION, session_of
from backfill_assets.orchestration.runs import refusals_as_failures
from backfill_assets.planning.chosen_references import asked_references
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.partitions import DayRange
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.errors import Malformed, NotGiven
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.planned import NothingPlanned
from backfill_assets.report.requests import Act, Invocation, NextStep, Option, do, step
from backfill_assets.report.screens import page_of

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
RUN_OR_SET = Field(str, description="The id of a run or of a restatement set.")
REASON = Field(str, description="Why.")


def _name(role: str) -> Field:
    return Field(str, description=f"Your name: {role}.")


def _optional(kind: Any, description: str) -> Field:
    return Field(kind, is_required=False, description=description)


class _Launch:
    """One launch of a job: who acts, on what, and what is said about it in the log of the Dagster run."""

    def __init__(self, context: OpExecutionContext, opened: ExitStack) -> None:
        self.context, self.typed = context, context.op_config
        session = session_of(context)
        self.ws, self._opened = session.workspace, opened

    def person(self, key: str) -> str:
        """The name that was typed, which has to be a person's."""
        name = str(self.typed[key]).strip()
        require_person(f"the {key}", name)
        return name

    def acting(self, by: str) -> Acting:
        """Who acts; what is computed and published is recorded as Dagster runs of the assets."""

        def listen(progress: Progress) -> None:
            self.context.log.info(progress.line)

        recorder = DagsterRecorder(self.ws.settings, self._opened, self.context.instance)
        return Acting(by=by, recorder=recorder, listener=listen)

    def days(self) -> DayRange | None:
        """The days that were typed, both ends included; None for none."""
        ends = [self._day(key) for key in ("first_day", "last_day")]
        if (ends[0] is None) != (ends[1] is None):
            raise NotGiven(why="only one end of the range was given", add="the other: both first_day and last_day")
        return DayRange.inclusive(ends[0], ends[1]) if ends[0] and ends[1] else None

    def _day(self, key: str) -> date | None:
        text = str(self.typed.get(key) or "").strip()
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            raise Malformed(what=key, value=text, form="a day", example="2006-07-01") from None

    def about(self, name: str, by: str, *, table: str | None = None) -> None:
        """Tags the Dagster run with what it is about, so that it is found under it."""
        found = {tags.ON: name, tags.BY: by, **({tags.TABLE: table} if table else {})}
        self.context.instance.add_run_tags(self.context.run.run_id, found)

    def says(self, *sentences: str) -> None:
        """Writes sentences into the log of the run."""
        for sentence in sentences:
            self.context.log.info(sentence)

    def stages(self, name: str, by: str) -> None:
        """Stages and gates a run or a set; a blocked one fails the Dagster run, as its gates fail their checks."""
        subject = subject_of(self.ws, name)
        is_blocked = subject.stage(self.acting(by)).is_blocked
        self.ends(name, subject.document().next_step)
        if is_blocked:
            raise Failure(
                f"{name} is blocked by a gate. Next: {words_of(do(Act.REPORT, name))}",
                metadata=report_link(self.ws.settings, name),
                allow_retries=False,
            )

    def ends(self, name: str | None, following: NextStep | None) -> None:
        """Ends the log with what became of a run or a set, if it is about one, and with what is next."""
        next_text = in_the_launchpad(following) if following else "nothing is left to do"
        found: dict[str, Any] = {"next": next_text}
        if name:
            state = subject_of(self.ws, name).document().record.state
            self.says(f"{name} is {state}.")
            found |= {"state": str(state), **report_link(self.ws.settings, name)}
        self.says(f"Next: {next_text}")
        self.context.add_output_metadata(found)


_JOBS = {
    Act.RUN: "stage",
    Act.APPROVE: "approve",
    Act.PUBLISH: "publish",
    Act.ROLLBACK: "roll_back",
    Act.CANCEL: "cancel",
    Act.RECOVER: "recover",
}


def in_the_launchpad(following: NextStep) -> str:
    """A next step as what is launched: the job that does what a command would do, where there is one."""

    def worded(part: str | Invocation | Option) -> str:
        if not isinstance(part, Invocation) or part.act not in _JOBS:
            return words_of(step(part))
        job_of = f"the job {tags.prefixed(_JOBS[part.act])}"
        return f"{job_of} with the id {part.of[0]}" if part.of else job_of

    return "".join(map(worded, following.parts))


Carried = Callable[[_Launch], None]


def _job(
    name: str, description: str, config: Mapping[str, Field], act: Carried, *, pool: str | None = None
) -> JobDefinition:
    job_name = tags.prefixed(name)

    @op(
        name=f"{job_name}_now",
        description=description,
        config_schema=dict(config),
        required_resource_keys={SESSION},
        pool=pool,
    )
    def now(context: OpExecutionContext) -> None:
        with refusals_as_failures(session_of(context), context), ExitStack() as opened:
            act(_Launch(context, opened))

    # The launchpad asks for these entries and nothing else; as typed, for Dagster validates them once more for the op.
    entries = ConfigMapping(
        config_schema=dict(config),
        config_fn=lambda typed: {"ops": {now.name: {"config": typed}}},
        receive_processed_config_values=False,
    )

    @job(name=job_name, description=description, config=entries, executor_def=in_process_executor)
    def acting() -> None:
        now()

    return acting


def acting_jobs(domain: Domain, *, pool: str | None) -> Sequence[JobDefinition]:
    """A job per derived table that plans, stages and gates, and the jobs over runs and sets.

    Args:
        domain: The tables.
    """
    return [*(_planning(table, pool) for table in domain.derived), *_over_runs_and_sets(pool)]


def _planning(table: DerivedTable, pool: str | None) -> JobDefinition:
    releases = Enum(f"Release_of_{table.short_name}", [EnumValue(release.version) for release in table.releases])
    config = {
        "first_day": Field(str, description="The first day to compute, such as 2006-07-01."),
        "last_day": Field(str, description="The last day to compute; a monthly table takes every month it touches."),
        "reason": REASON,
        "requester": _name("who asks; another person approves"),
        "transform_version": _optional(releases, "A registered release; the present one by default."),
        "references": _optional(
            REFERENCES, "Which versions of the references; the present ones by default. `corrected` needs `reference`."
        ),
        "reference": Field(
            [str],
            default_value=[],
            description="For corrected references: NAME=VERSION, the beginning of a sha256, or a YAML file.",
        ),
        "mode": Field(MODES, default_value="backfill", description="What may become of the run."),
    }
    description = (
        f"Plan, stage and gate a run of {table.name}. Its rows are not visible to readers before it is published."
    )

    def act(launch: _Launch) -> None:
        by, days = launch.person("requester"), launch.days()
        if days is None:
            raise NotGiven(why="the days to plan are not given", add="first_day and last_day")
        request = PlanRequest(
            table=table.name,
            days=days,
            reason=launch.typed["reason"].strip(),
            by=by,
            mode=launch.typed["mode"],
            transform_version=launch.typed.get("transform_version"),
            references=asked_references(launch.typed.get("references"), launch.typed["reference"]),
        )
        document = planning.described_plan(launch.ws, planning.plan(launch.ws, request))
        launch.about(document.plan.manifest.run_id, by, table=table.name)
        launch.says(markdown_page(page_of(document)))
        launch.stages(document.plan.manifest.run_id, by)

    return _job(f"plan_{table.short_name}", description, config, act, pool=pool)


def _over_runs_and_sets(pool: str | None) -> Sequence[JobDefinition]:
    return [
        _job(
            "plan_stale",
            "Plan everything that no longer follows from the present as one set, stage and gate it.",
            {
                "reason": REASON,
                "requester": _name("who asks; another person approves"),
                "table": _optional(str, "Only this table and what depends on it."),
                "changed_code": Field(bool, default_value=False, description="Also where only the code changed."),
            },
            _plan_stale,
            pool=pool,
        ),
        _job(
            "stage",
            "Stage and gate a planned run or set.",
            {"id": RUN_OR_SET, "by": _name("who acts")},
            _stage,
            pool=pool,
        ),
        _job(
            "approve",
            "Agree to exactly the manifest of a run, or to every run of a set, as another person than its requester.",
            {
                "id": RUN_OR_SET,
                "approver": _name("who approves, another person than the requester"),
                "note": Field(str, default_value="", description="The grounds of the approval."),
            },
            _approve,
        ),
        _job(
            "publish",
            "Make a gated and approved run what readers see, in one commit; the runs of a set one after the other.",
            {"id": RUN_OR_SET, "publisher": _name("who publishes")},
            _publish,
        ),
        _job(
            "roll_back",
            "Bring back exactly the files that a publication replaced; of a set, all of them.",
            {
                "id": RUN_OR_SET,
                "by": _name("who rolls back"),
                "reason": REASON,
                "with_dependents": Field(
                    bool, default_value=False, description="First undo what would be left without its input."
                ),
            },
            _roll_back,
        ),
        _job(
            "cancel",
            "Cancel a run or a set that is not published, permanently.",
            {"id": RUN_OR_SET, "by": _name("who cancels"), "reason": REASON},
            _cancel,
        ),
        _job(
            "recover",
            "Complete or undo what a stopped process left unfinished; work with a lease is skipped.",
            {"by": _name("who recovers"), "only": _optional(str, "Only this run, landed file or set.")},
            _recover,
        ),
    ]


def _plan_stale(launch: _Launch) -> None:
    by = launch.person("requester")
    request = SetRequest(
        reason=launch.typed["reason"].strip(),
        by=by,
        stale=True,
        table=(launch.typed.get("table") or "").strip() or None,
        changed_code=launch.typed["changed_code"],
    )
    document = planning.described_set_plan(launch.ws, planning.plan_set(launch.ws, request))
    launch.says(markdown_page(page_of(document)))
    if isinstance(document, NothingPlanned):
        return
    launch.about(document.planned.manifest.set_id, by)
    launch.stages(document.planned.manifest.set_id, by)


def _stage(launch: _Launch) -> None:
    name, by = _named(launch, "by")
    launch.stages(name, by)


def _approve(launch: _Launch) -> None:
    name, by = _named(launch, "approver")
    note = launch.typed["note"].strip()
    # The name was typed in the launchpad: the run of Dagster shows from where, as far as that is known.
    where = f"in Dagster, run {launch.context.run.run_id}"
    launch.ends(name, subject_of(launch.ws, name).approve(by=by, note=note, place=where).next_step)


def _publish(launch: _Launch) -> None:
    name, by = _named(launch, "publisher")
    subject_of(launch.ws, name).publish(launch.acting(by))
    launch.ends(name, step_after_change(launch.ws))


def _roll_back(launch: _Launch) -> None:
    name, by = _named(launch, "by")
    subject_of(launch.ws, name).rollback(
        launch.acting(by), reason=launch.typed["reason"].strip(), with_dependents=launch.typed["with_dependents"]
    )
    launch.ends(name, step_after_change(launch.ws))


def _cancel(launch: _Launch) -> None:
    name, by = _named(launch, "by")
    launch.ends(name, subject_of(launch.ws, name).cancel(by=by, reason=launch.typed["reason"].strip()).next_step)


def _recover(launch: _Launch) -> None:
    by, only = launch.person("by"), (launch.typed.get("only") or "").strip() or None
    report = recover_document(launch.ws, launch.acting(by), only=only, now=False)
    launch.says(*(f"{each.what} {each.id} {each.outcome}." for each in report.recovered))
    launch.says(*("" if report.recovered else "Nothing was left unfinished.",))
    launch.ends(None, None)


def _named(launch: _Launch, role: str) -> tuple[str, str]:
    """The run or set and the person of a launch; also as tags of the Dagster run."""
    name, by = launch.typed["id"].strip(), launch.person(role)
    launch.about(name, by)
    return name, by
