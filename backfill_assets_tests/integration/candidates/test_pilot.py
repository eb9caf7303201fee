"""A pilot changes the rows of its scope and leaves every other row of its partitions exactly as it is accepted."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console

from backfill_assets.application.diff import diff_of
from backfill_assets.application.plan import described_plan, described_set_plan, plan_phases
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.compare import EVERY
from backfill_assets.candidates.compute import PilotedRows
from backfill_assets.candidates.errors import MergedWithEarlier
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.report.command_line import explained
from backfill_assets.report.history import partition_history, partition_page, row_history
from backfill_assets.report.page import Note, Page
from backfill_assets.report.planned import plan_page, set_plan_page
from backfill_assets.report.releases import KeptRows, cover_all
from backfill_assets.report.report import Level, run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.trace import trace_of, trace_page
from backfill_assets.report.what_next import next_step
from backfill_assets.report.words.plans import publish_words
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.tenants import USAGE, usage
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

TABLE, READINGS = "silver.usage", "bronze.readings"
DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
TENANTS = ("acme", "zeta", None)
ACME = Scope(where=(("tenant", "acme"),))
REST = Scope(where=(("tenant", "acme"),), is_rest=True)
EARLY, LATE = {"acme": 20, "zeta": 40, None: 60}, {"acme": 10, "zeta": 20, None: 30}
"""What a tenant used on a day, by the earlier release and by the present one."""


@dataclass(frozen=True, kw_only=True)
class Meter:
    """The domain of tenants with its workspace."""

    ws: Workspace

    def planned(
        self, days: Sequence[date], *, scope: Scope | None = None, version: str | None = None, table: str = TABLE
    ) -> str:
        request = PlanRequest(
            table=table,
            days=DayRange.inclusive(days[0], days[-1]),
            reason="why not",
            by="ana",
            transform_version=version,
            scope=scope,
        )
        return operations.plan(self.ws, request).manifest.run_id

    def gated(self, run_id: str) -> RunState:
        operations.stage(self.ws, run_id, actor="ana")
        operations.gate(self.ws, run_id, actor="ana")
        return operations.state_of(self.ws, run_id)

    def published(self, days: Sequence[date], *, scope: Scope | None = None, version: str | None = None) -> str:
        run_id = self.planned(days, scope=scope, version=version)
        # Approved before it is measured, it waits for its publication even where it would change nothing.
        operations.approve(self.ws, run_id, by="ben")
        assert self.gated(run_id) is RunState.PASSED
        operations.publish(self.ws, run_id, by="ben")
        return run_id

    def seen(self) -> Mapping[tuple[date, str | None], int]:
        found = self.ws.lake.open(TABLE).to_pyarrow_table(columns=["day", "tenant", "used"]).to_pylist()
        assert len({(row["day"], row["tenant"]) for row in found}) == len(found)
        return {(row["day"], row["tenant"]): row["used"] for row in found}


@pytest.fixture
def meter(tmp_path: Path, spark: SparkSession) -> Iterator[Meter]:
    """Three days of three tenants, one of them without a name, by the earlier release."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {**shop_environment(home), "BACKFILL_DOMAIN": "backfill_assets_tests.domains.tenants"}
    clock = ticking_clock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    ws = Workspace.open(Settings.from_environment(environment), clock=clock, open_session=lambda: spark)
    opened = Meter(ws=ws)
    path = home / "readings.jsonl"
    readings = [
        {"reading_id": f"{day} {tenant}", "at": f"{day}T12:00:00Z", "tenant": tenant, "used": LATE[tenant]}
        for day in DAYS
        for tenant in TENANTS
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in readings), encoding="utf-8")
    operations.land(ws, READINGS, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    run = operations.plan_load(ws, READINGS, partitions=None, by="ana", reason="landed")
    assert run is not None
    opened.gated(run.run_id)
    operations.publish(ws, run.run_id, by="ana")
    opened.published(DAYS, version="0.9.0")
    yield opened
    ws.close()


def used(by_day: Mapping[date, Mapping[str | None, int]]) -> Mapping[tuple[date, str | None], int]:
    return {(day, tenant): amount for day, tenants in by_day.items() for tenant, amount in tenants.items()}


def stale(meter: Meter) -> list[date]:
    found = [each for each in operations.stale_tables(meter.ws) if each.table == TABLE]
    return sorted(day for each in found for some in each.ranges for day in some.partitions)


@pytest.mark.long
def test_a_pilot_then_the_rest_and_every_row_outside_stays_until_a_plain_run_finds_all_of_it_equal(
    meter: Meter,
) -> None:
    assert meter.seen() == used(dict.fromkeys(DAYS, EARLY))
    pilot = meter.published(DAYS[:2], scope=ACME)
    mixed = {**EARLY, "acme": LATE["acme"]}
    assert meter.seen() == used({DAYS[0]: mixed, DAYS[1]: mixed, DAYS[2]: EARLY})
    (diff,) = diff_of(meter.ws, pilot, EVERY).tables
    assert {(row.kind, row.key["day"]) for row in diff.rows} == {("changed", str(day)) for day in DAYS[:2]}
    assert (diff.added, diff.removed, diff.changed) == (0, 0, 2), "rows that stay are not among them"
    with meter.ws.ledger.read() as tx:
        run = tx.runs.get(pilot)
        results = tx.candidates.gate_results(pilot)
    assert publish_words(run.manifest) == "only rows of tenant=acme; all others stay exactly as they are accepted"
    assert Manifest.parse(run.manifest.text) == run.manifest
    why = review_of(run_report(meter.ws, pilot)).why
    assert "The rows of tenant=acme come from " in why and "all others stay exactly as they are accepted" in why
    assert {verdict_words(each) for each in results if each.gate == "outside_scope"} == {
        "1 row of tenant=acme; all others are the accepted ones"
    }
    rest = meter.published(DAYS[:2], scope=REST)
    assert meter.seen() == used({DAYS[0]: LATE, DAYS[1]: LATE, DAYS[2]: EARLY})
    # Rows of two releases are stale until a plain run finds every row equal; it swaps nothing.
    assert stale(meter) == DAYS
    before = meter.ws.lake.open(TABLE).version()
    whole = meter.published(DAYS[:2])
    assert (meter.ws.lake.open(TABLE).version(), stale(meter)) == (before, DAYS[2:])
    assert operations.reproduce(meter.ws, pilot, by="ana", sample=None).identical
    for run_id in (rest, pilot):
        operations.rollback(meter.ws, run_id, by="cara", reason="was right before")
    assert operations.state_of(meter.ws, whole) is RunState.SUPERSEDED
    assert meter.seen() == used(dict.fromkeys(DAYS, EARLY))
    assert audit(meter.ws).problems == ()


@pytest.mark.long
def test_a_row_that_a_pilot_kept_goes_on_naming_the_run_that_computed_it_wherever_a_person_asks(meter: Meter) -> None:
    built = made_by(meter, DAYS[0])["zeta"]
    pilot = meter.published(DAYS[:2], scope=ACME)
    assert made_by(meter, DAYS[0]) == {"acme": pilot, "zeta": built, None: built}
    (kept, computed) = (
        trace_of(meter.ws, TABLE, DAYS[0], {"reading_id": f"{DAYS[0]} {name}"}) for name in TENANTS[1::-1]
    )
    assert [(each.run_id, each.kept, each.release) for each in kept.publications] == [
        (pilot, True, "usage 1.0.0"),
        (built, False, "usage 0.9.0"),
    ]
    assert [(each.run_id, each.kept) for each in computed.publications] == [(pilot, False)]
    assert "usage 1.0.0, which kept the row" in printed(trace_page(kept))
    (latest, first) = partition_history(meter.ws, TABLE, DAYS[0]).versions
    assert (latest.kept, first.kept) == (KeptRows(version=1, run_id=built, release="0.9.0"), None)
    assert "those of all but tenant=acme, as in version 1: run" in printed(
        partition_page(partition_history(meter.ws, TABLE, DAYS[0]))
    )
    for name, run_id, release in (("zeta", built, "0.9.0"), ("acme", pilot, "1.0.0")):
        row = row_history(meter.ws, TABLE, DAYS[0], {"reading_id": f"{DAYS[0]} {name}"}).versions[0]
        assert (row.lineage["_run_id"], row.lineage["_transform_version"]) == (run_id, release)
    found = run_report(meter.ws, pilot)
    assert {stretch.next_step.options[-1] for stretch in found.left_behind} == {("where", "tenant=acme")}
    planned = run_report(meter.ws, meter.planned(DAYS))
    assert planned.from_versions == ("0.9.0", "1.0.0")
    request = PlanRequest(table=TABLE, days=DayRange.inclusive(DAYS[0], DAYS[0]), reason="why not", by="ana")
    document = described_plan(meter.ws, operations.plan(meter.ws, request))
    assert [(each.what, each.was, each.now) for each in document.brings] == [("release", "0.9.0", "1.0.0")]
    meter.published(DAYS[:1], scope=REST)
    assert run_report(meter.ws, meter.planned(DAYS[:1])).from_versions == ("1.0.0",)


@pytest.mark.long
def test_a_pilot_that_has_measured_no_row_says_so_where_it_is_decided(meter: Meter) -> None:
    run_id = meter.planned(DAYS[:1], scope=Scope(where=(("tenant", "acmee"),)))
    assert meter.gated(run_id) is RunState.VERIFIED
    found = run_report(meter.ws, run_id)
    assert (found.no_rows_of, found.level) == ("tenant=acmee", Level.ATTENTION)
    assert any("No row of these partitions is of tenant=acmee" in each for each in review_of(found).warnings)
    assert run_report(meter.ws, meter.published(DAYS[:1], scope=ACME)).no_rows_of is None


def made_by(meter: Meter, day: date) -> Mapping[str | None, str]:
    found = meter.ws.lake.open(TABLE).to_pyarrow_table(columns=["day", "tenant", "_run_id"]).to_pylist()
    return {row["tenant"]: row["_run_id"] for row in found if row["day"] == day}


def printed(shown: Page) -> str:
    out = io.StringIO()
    show(Console(file=out, width=1000), shown)
    return out.getvalue()


@pytest.mark.long
def test_a_pilot_whose_other_rows_were_published_since_computes_nothing_and_is_planned_again_with_its_scope(
    meter: Meter,
) -> None:
    planned, passed = meter.planned(DAYS[:1], scope=REST), meter.planned(DAYS[:1], scope=ACME)
    assert meter.gated(passed) is RunState.PASSED
    meter.published(DAYS[:1])
    with pytest.raises(MergedWithEarlier):
        operations.stage(meter.ws, planned, actor="ana")
    assert operations.run_named(meter.ws, planned).state is RunState.PLANNED
    for run_id, scope in ((planned, "--but tenant=acme"), (passed, "--where tenant=acme")):
        with meter.ws.ledger.read() as tx:
            said = worded(next_step(meter.ws, tx, tx.runs.get(run_id)))
        again = f"backfill plan table usage --reason WHY --from 2026-01-01 --to 2026-01-01 --by NAME {scope}"
        assert said.startswith(f"{TABLE} changed since {run_id} was planned with its rows: {again}; then ")
        assert f"backfill cancel {run_id}" in said


@pytest.mark.long
def test_a_pilot_is_planned_again_when_other_rows_were_published_since(meter: Meter) -> None:
    planned = meter.planned(DAYS[:1], scope=ACME)
    assert meter.gated(planned) is RunState.PASSED
    operations.approve(meter.ws, planned, by="ben")
    meter.published(DAYS[:1])
    with pytest.raises(MergedWithEarlier):
        operations.publish(meter.ws, planned, by="ben")
    assert meter.seen() == used({DAYS[0]: LATE, DAYS[1]: EARLY, DAYS[2]: EARLY})


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "scope", "days", "says"),
    [
        (
            TABLE,
            Scope(where=(("tennant", "a"),)),
            DAYS,
            "tennant cannot tell rows of a partition apart; these columns can: reading_id, tenant, used. "
            "Next: name rows by one of these columns, such as tenant=VALUE",
        ),
        (TABLE, Scope(where=(("day", "2026-01-01"),)), DAYS, "day cannot tell rows of a partition apart"),
        ("silver.closed_usage", ACME, DAYS, "only tables that replace whole partitions and keep no state have pilots"),
        (TABLE, ACME, [*DAYS, date(2026, 1, 4)], "2026-01-04, 1 day has no accepted rows that could stay"),
    ],
)
def test_what_cannot_be_a_pilot_is_refused(
    meter: Meter, table: str, scope: Scope, days: Sequence[date], says: str
) -> None:
    with pytest.raises(Refused) as refusal:
        meter.planned(days, scope=scope, table=table)
    assert explained(refusal.value).startswith(f"{table} has no pilot of {scope}: {says}")


@pytest.mark.long
def test_a_plan_says_how_many_rows_a_pilot_replaces_and_warns_of_none(meter: Meter) -> None:
    none = "No accepted row of these partitions has"
    mistyped = (("tenant", "acmee"),)
    for scope, replaced, warned in (
        (ACME, 3, []),
        (REST, 6, []),
        (Scope(where=(("used", "20"),)), 3, []),
        (Scope(where=mistyped), 0, [f"{none} tenant=acmee, so that only rows that are new can change anything"]),
        (Scope(where=(("used", "x"),)), 0, [f"{none} used=x, so that only rows that are new can change anything"]),
        (Scope(where=mistyped, is_rest=True), 9, [f"{none} tenant=acmee, so that every row may change"]),
    ):
        days = DayRange.inclusive(DAYS[0], DAYS[-1])
        planned = operations.plan(meter.ws, PlanRequest(table=TABLE, days=days, reason="x", by="ana", scope=scope))
        described = plan_page(described_plan(meter.ws, planned))
        found = [str(each.text) for each in described.blocks if isinstance(each, Note)]
        assert [text for text in found if none in text] == [f"{each}: look whether it is mistyped." for each in warned]
        said = io.StringIO()
        show(Console(file=said, width=250), described)
        assert f"{replaced} of 9 accepted rows in 3 partitions" in said.getvalue()
    in_phases = PlanRequest(
        table=TABLE, days=DayRange.inclusive(DAYS[0], DAYS[-1]), reason="x", by="ana", scope=Scope(where=mistyped)
    )
    phased = plan_phases(meter.ws, in_phases, AskedPhases(count=2, terms=Phases()))
    shown = io.StringIO()
    show(Console(file=shown, width=250), set_plan_page(described_set_plan(meter.ws, phased)))
    assert f"{none} tenant=acmee" in shown.getvalue()
    assert "only rows of tenant=acmee; all others stay exactly as they are accepted" in shown.getvalue()


@dataclass(frozen=True, kw_only=True)
class InMemory(PilotedRows):
    """A pilot whose accepted rows are in memory."""

    held: DataFrame

    def _accepted(self) -> DataFrame:
        return self.held


def in_memory(scope: Scope, accepted: DataFrame) -> InMemory:
    return InMemory(
        ws=cast(Any, None),
        scope=scope,
        table=usage,
        partitions=DAYS,
        files={},
        held=accepted,
    )


@pytest.mark.parametrize("is_rest", [False, True])
def test_a_key_that_enters_or_leaves_the_scope_is_neither_lost_nor_there_twice_and_is_found(
    spark: SparkSession, is_rest: bool
) -> None:
    def rows(**used: tuple[str, int]) -> DataFrame:
        return spark.createDataFrame([(DAYS[0], key, tenant, amount) for key, (tenant, amount) in used.items()], USAGE)

    def found(computed: DataFrame) -> tuple[dict[str, tuple[str, int]], bool]:
        staged = pilot.rows(computed)
        content = {row["reading_id"]: (row["tenant"], row["used"]) for row in staged.collect()}
        assert staged.count() == len(content)
        return content, pilot.measured(staged)[DAYS[0]].others_differ

    pilot = in_memory(
        Scope(where=(("used", "2"),), is_rest=is_rest),
        rows(stays=("a", 2), moves=("a", 2), other=("a", 1), gone=("a", 2)),
    )
    same_side = rows(stays=("b", 2), moves=("b", 2), other=("b", 1), new=("b", 2))
    assert found(same_side) == (
        {"stays": ("a", 2), "moves": ("a", 2), "other": ("b", 1), "gone": ("a", 2)}
        if is_rest
        else {"stays": ("b", 2), "moves": ("b", 2), "other": ("a", 1), "new": ("b", 2)},
        False,
    )
    crossing = rows(stays=("b", 2), moves=("b", 1), other=("b", 2), gone=("b", 2))
    _every, _kept = ("stays", "moves", "other", "gone"), "a" if is_rest else "b"
    assert found(crossing) == (
        {
            "stays": ("a" if is_rest else "b", 2),
            "moves": ("b", 1),
            "other": ("b", 2),
            "gone": ("a" if is_rest else "b", 2),
        },
        True,
    )


@pytest.mark.long
def test_a_pilot_by_a_column_that_the_release_changes_is_blocked_and_every_row_stays(meter: Meter) -> None:
    before = meter.seen()
    run_id = meter.planned(DAYS, scope=Scope(where=(("used", str(EARLY["acme"])),)))
    assert meter.gated(run_id) is RunState.BLOCKED
    with meter.ws.ledger.read() as tx:
        failed = {each.gate for each in tx.candidates.gate_results(run_id) if not each.passed}
    assert failed == {"outside_scope"}
    assert meter.seen() == before


@pytest.mark.parametrize("scope", [ACME, REST], ids=str)
def test_a_row_outside_that_differs_is_lost_or_added_is_found_in_its_partition(
    spark: SparkSession, scope: Scope
) -> None:
    accepted = spark.createDataFrame([(day, f"{tenant}", tenant, 2) for day in DAYS for tenant in TENANTS], USAGE)
    returned = spark.createDataFrame([(day, f"{tenant}", tenant, 1) for day in DAYS for tenant in TENANTS], USAGE)
    pilot = in_memory(scope, accepted)
    staged = pilot.rows(returned)
    inside = 1 if scope is ACME else 2
    assert {(each.rows, each.others_differ) for each in pilot.measured(staged).values()} == {(inside, False)}
    outside = sf.col("tenant").eqNullSafe("zeta" if scope is ACME else "acme") & (sf.col("day") == DAYS[1])
    extra = staged.where(outside)
    for wrong in (
        staged.where(~outside),
        staged.unionByName(extra),
        staged.withColumn("used", sf.when(outside, sf.lit(7)).otherwise(sf.col("used")).cast("long")),
    ):
        found = pilot.measured(wrong)
        assert [found[day].others_differ for day in DAYS] == [False, True, False]


def test_pilots_that_cover_every_row_together_leave_none_of_an_earlier_version() -> None:
    zeta = Scope(where=(("tenant", "zeta"),))
    narrow = Scope(where=(("tenant", "acme"), ("used", "20")))
    assert cover_all([REST, zeta, ACME]) and cover_all([narrow, REST.outside.outside, ACME])
    for some in ([], [ACME], [REST], [ACME, zeta], [REST, zeta], [REST, narrow]):
        assert not cover_all(some)
    assert cover_all([narrow, narrow.outside]) and cover_all([ACME, narrow.outside])
