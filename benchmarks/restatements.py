"""B1 and B6: a governed restatement against the bare script, and where the time of a run goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from figures import Figure, Watch, in_turns, processor_ratio, ratio
from pyspark.sql import functions as F
from small_world import SILVER, World, output

from backfill_assets.application.execute import execute
from backfill_assets.application.parts import Part
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates import evaluate
from backfill_assets.domain import TransformContext
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

PARTS = (Part.STAGE, Part.GATE, Part.PUBLISH)
STEPS = (
    "contents",
    "accepted_checksums",
    "compare_partitions",
    "compare",
    "_accepted_cells",
    "prove",
    "_sample",
    "_judged",
    "append_validation",
)
"""What gating consists of, by the names in its module."""

MADE_UP = {
    "no row changes": ("2.0.0", 1.15),
    "1 % of the rows change": ("2.1.0", 1.35),
    "every row changes": ("3.0.0", 1.35),
}


def measure(world: World, *, days: int, items: int, rounds: int) -> Sequence[Figure]:
    """The figures of a made-up home with so many rows on each of so many days."""
    figures: list[Figure] = []
    with world.home("restatements", days=days, items=lambda _: items) as ws:
        chosen = output(days)
        first = Watch()
        governed(ws, first, planned(ws, SILVER, chosen, "1.0.0"), "first publication")
        bare(ws, first, SILVER, chosen, "1.0.0", "bare script (warm-up)")
        for what, (version, goal) in MADE_UP.items():
            figures += compared(ws, SILVER, chosen, version, what, rounds=rounds, goal=goal)
    return figures


def compared(
    ws: Workspace, table: str, days: DayRange, version: str, what: str, *, rounds: int, goal: float
) -> Sequence[Figure]:
    """A restatement that is undone each time, in turns with the bare script; the first round warms up."""
    watch = Watch()
    restated, script = f"governed restatement, {what}", "bare script"
    expected: list[float] = []

    def restate() -> None:
        run_id, seconds = approved(ws, table, days, version)
        expected.append(seconds or 0.0)
        # What was found equal changed nothing, and cannot be undone.
        if governed(ws, watch, run_id, restated):
            operations.rollback(ws, run_id, by="ben", reason="next round")

    in_turns(rounds + 1, lambda: bare(ws, watch, table, days, version, script), restate)
    return [
        ratio("B1", watch, restated, script, goal=goal, leave_out=1),
        processor_ratio("B1", watch, restated, script, goal=goal, leave_out=1),
        _off(watch, restated, expected),
        *shares(watch, restated, leave_out=1),
    ]


def shares(watch: Watch, what: str, *, leave_out: int) -> Sequence[Figure]:
    """B6: the share of every part of a run, and of every step of its gates."""
    whole = watch.seconds[what][leave_out:]
    named = [name for name in watch.seconds if name.startswith(f"{what}: ")]
    return [
        Figure(name="B6", what=name, against="the whole run", measured=watch.seconds[name][leave_out:], base=whole)
        for name in named
        if len(watch.seconds[name]) == len(watch.seconds[what])
    ]


def _off(watch: Watch, restated: str, expected: Sequence[float]) -> Figure:
    """How far the seconds that plans expect are from those that computing and gates take, either way; the first plan
    knows no such run."""
    taken = [
        a + b for a, b in zip(watch.seconds[f"{restated}: stage"], watch.seconds[f"{restated}: gate"], strict=True)
    ]
    pairs = [sorted(pair) for pair in zip(expected[1:], taken[1:], strict=True)]
    return Figure(
        name="B1",
        what=f"{restated}: what the plan expects or it takes, the larger",
        against="the smaller",
        measured=[larger for _, larger in pairs],
        base=[smaller for smaller, _ in pairs],
        goal=1.3,
    )


def approved(ws: Workspace, table: str, days: DayRange, version: str) -> tuple[str, float | None]:
    """An approved run, and the seconds that its plan expects."""
    request = PlanRequest(table=table, days=days, reason="benchmark", by="ana", transform_version=version)
    plan = operations.plan(ws, request)
    operations.approve(ws, plan.manifest.run_id, by="ben")
    return plan.manifest.run_id, plan.estimate.seconds


def planned(ws: Workspace, table: str, days: DayRange, version: str) -> str:
    """An approved run."""
    return approved(ws, table, days, version)[0]


def governed(ws: Workspace, watch: Watch, run_id: str, what: str) -> bool:
    """Stages, gates and publishes a run; measures the whole, each part, and each step of the gates.

    Returns:
        Whether readers see other rows.
    """
    with _watched_steps(watch, f"{what}: gate: "), watch.on(what):
        for part in PARTS:
            with watch.on(f"{what}: {str(part).lower()}"):
                done = execute(ws, run_id, [part], actor="ben")
    return bool(done.published.changes)


@contextmanager
def _watched_steps(watch: Watch, prefix: str) -> Iterator[None]:
    """Measures the steps of gating while a block runs."""

    def watched(name: str, act: Callable[..., object]) -> Callable[..., object]:
        def measured(*args: object, **named: object) -> object:
            with watch.on(prefix + name.strip("_").replace("_", " ")):
                return act(*args, **named)

        return measured

    kept = {name: getattr(evaluate, name) for name in STEPS}
    for name, act in kept.items():
        setattr(evaluate, name, watched(name, act))
    try:
        yield
    finally:
        for name, act in kept.items():
            setattr(evaluate, name, act)


def bare(
    ws: Workspace, watch: Watch, table: str, days: DayRange, version: str, what: str, *, others_stay: bool = False
) -> None:
    """The backfill without this package: read the same files, call the same transform, overwrite the same days.

    Without `others_stay`, the folder holds these days alone afterwards, which is quicker.
    """
    declared = ws.domain.derived_table(table)
    references: Mapping[str, object] = {name: loaded.value for name, loaded in ws.references.items()}
    ((argument, source),) = declared.inputs.items()
    read = declared.window_of(argument, references).around(days)
    with ws.ledger.read() as reader:
        versions = reader.versions.accepted(source.name, list(read))
    root = ws.lake.place(source.name)
    paths = [str(root / path) for version in versions.values() for path in version.files.paths]
    target, column = ws.settings.home / "bare", declared.partition.column
    with watch.on(what):
        ctx = TransformContext(
            run_id="bare",
            kind=RunPurpose.RESTATEMENT,
            mode=Mode.BACKFILL,
            transform_version=version,
            output=days,
            output_partitions=tuple(days),
            input_days={argument: read},
            references=references,
            spark=ws.spark(),
        )
        events = ws.spark().read.option("recursiveFileLookup", "true").parquet(*paths)
        # The date is in the paths of the files, and a script would write it into its rows.
        events = events.withColumn(source.partition.column, F.to_date(source.event_time))
        rows = declared.release(version).function(**{argument: events}, ctx=ctx)
        written = rows.repartition(column).write.partitionBy(column).mode("overwrite")
        written.option("partitionOverwriteMode", "dynamic" if others_stay else "static").parquet(str(target))
