"""A window that is too short is caught where chunks meet and at the ends of a run, whatever dies in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, Release, TransformContext, Window, unique_key
from backfill_assets.lake.checksums import joined
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.findings import FailingKey, Finding
from backfill_assets.ledger.records import ChunkRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import recent_sales, sales
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, shop_environment, ticking_clock

HISTORY = DayRange.inclusive(date(2009, 11, 1), date(2010, 6, 12))
COMPUTED = DayRange.inclusive(date(2010, 3, 2), date(2010, 6, 12))
"""103 days: a chunk of 100 and one of three."""
BEFORE_THE_LAST_CHUNK = date(2010, 6, 7)
"""The first of the three days before it, which it computes once more with exactly their declared history."""


# ------------------------------------------------------------------------------------------------ a long history


def _of_the_last(local_days: int, sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Sales of so many local days: an hour or two of the first one are on the UTC day before it."""
    local = F.to_date(F.from_utc_timestamp("sold_at", "Europe/Berlin"))
    days = F.explode(F.sequence(local, F.date_add(local, local_days - 1))).alias("day")
    return _summed(sales.select(days, "amount"))


def _of_28_local_days(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return _of_the_last(28, sales, ctx)


def _of_120_days(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return _summed(sales.select(F.explode(F.sequence("sold_on", F.date_add("sold_on", 120))).alias("day"), "amount"))


def _summed(rows: DataFrame) -> DataFrame:
    amount: Column = F.sum("amount").cast("long").alias("amount")
    return rows.groupBy("day").agg(amount).select("day", F.lit("only").alias("shop"), "amount")


@contextmanager
def sold_on(home: Path, spark: SparkSession, days: DayRange, sold: Sequence[date]) -> Iterator[Workspace]:
    """A shop whose days are all built, with one sale late in the evening of some of them."""
    settings = Settings.from_environment({**shop_environment(home), "BACKFILL_FIRST_DAY": str(days.start)})
    ws = Workspace.open(settings, clock=ticking_clock(NOON), open_session=lambda: spark)
    path = home / "sales.jsonl"
    lines = [{"sale_id": f"sale-{day}", "sold_at": f"{day}T23:30:00Z", "amount": 1 + day.day} for day in sold]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    operations.land(ws, "sales", path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    empty = tuple(day for day in days if day not in sold)
    load = operations.plan_load(ws, "sales", partitions=tuple(days), by="ana", reason="a history", empty=empty)
    assert load is not None
    operations.stage(ws, load.run_id, actor="ana")
    operations.gate(ws, load.run_id, actor="ana")
    operations.publish(ws, load.run_id, by="ana")
    yield ws
    ws.close()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Workspace]:
    """A sale on every day, over most of a year: what a window lacks is never an empty day."""
    with sold_on(tmp_path_factory.mktemp("history"), spark, HISTORY, tuple(HISTORY)) as ws:
        yield ws


def declared(ws: Workspace, **changed: object) -> Workspace:
    """The workspace of an author who declares the table in another way."""
    table = replace(recent_sales, **changed)  # type: ignore[arg-type]
    domain = Domain(name="example", package="backfill_assets_tests.domains.example", sources=(sales,), derived=(table,))
    return replace(ws, domain=domain)


def gated(ws: Workspace, days: DayRange, chunk_partitions: int) -> str:
    limits = AskedLimits(chunk_partitions=chunk_partitions)
    request = PlanRequest(table=RECENT, days=days, reason="in parts", by="ana", limits=limits)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    return run_id


def chunks(ws: Workspace, run_id: str) -> tuple[ChunkRecord, ...]:
    with ws.ledger.read() as reader:
        return reader.candidates.chunks(run_id)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "back"), [(_of_28_local_days, 28), (_of_120_days, 120)], ids=["28 local days", "120 days"]
)
def test_a_window_short_by_one_day_is_caught_in_chunks_of_a_hundred_days(
    history: Workspace, function: object, back: int
) -> None:
    release = Release(version="1.0.0", function=function)  # type: ignore[arg-type]
    short = declared(history, window=Window(days_back=back - 1), releases=(release,), gates=())
    run_id = gated(short, COMPUTED, 100)
    assert operations.state_of(short, run_id) is RunState.BLOCKED
    # The first day of the run has no more history than its window, and what the second chunk computes of the first one.
    failing = {
        p: verdict_words(result)
        for p, result in operations.proofs(short, run_id).items()
        if result.finding is Finding.DIFFERENT
    }
    assert set(failing) == {COMPUTED.start, BEFORE_THE_LAST_CHUNK}
    assert all(
        verdict.endswith(
            "1 of 1 rows differ: the window is too short, or the transform does not give the same rows twice"
        )
        for verdict in failing.values()
    )
    enough = declared(history, window=Window(days_back=back), releases=(release,), gates=())
    run_id = gated(enough, COMPUTED, 100)
    assert operations.state_of(enough, run_id) is RunState.PASSED
    assert verdict_words(operations.proofs(enough, run_id)[BEFORE_THE_LAST_CHUNK]) == (
        "the same 1 row with other partitions in the same call"
    )


# -------------------------------------------------------------------------------- one order on every tenth day

FIRST_ORDER = date(2024, 12, 4)
TENTHS = DayRange.inclusive(date(2025, 1, 1), date(2025, 4, 20))
"""In chunks of ten days, each of which begins with a day on which an order is due after 28 days."""


def _due(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was ordered 28 days before, and so nothing on nine days of ten."""
    return _summed(sales.select(F.date_add("sold_on", 28).alias("day"), "amount"))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Workspace]:
    with sold_on(
        tmp_path_factory.mktemp("orders"),
        spark,
        DayRange.inclusive(date(2024, 11, 20), date(2025, 4, 27)),
        [FIRST_ORDER + timedelta(days=10 * number) for number in range(15)],
    ) as ws:
        yield ws


@pytest.mark.long
def test_rows_that_are_wrong_on_the_first_day_of_a_chunk_alone_are_caught(orders: Workspace) -> None:
    release = Release(version="1.0.0", function=_due)
    firsts = {day for number, day in enumerate(TENTHS) if number % 10 == 0}
    for back, wrong in ((23, firsts), (26, {TENTHS.start}), (28, set())):
        ws = declared(orders, window=Window(days_back=back), releases=(release,), gates=())
        run_id = gated(ws, TENTHS, 10)
        with ws.ledger.read() as reader:
            staged = {p for p, each in reader.candidates.of_run(run_id).items() if each.rows}
        assert firsts - staged == wrong
        assert operations.state_of(ws, run_id) is (RunState.BLOCKED if wrong else RunState.PASSED)
        assert (
            {p for p, result in operations.proofs(ws, run_id).items() if not result.passed} >= {min(wrong)}
            if wrong
            else True
        )


# ------------------------------------------------------------------------------------------------------ a small shop


def in_chunks(ws: Workspace, size: int, days: DayRange = OUTPUT) -> str:
    request = PlanRequest(
        table=RECENT, days=days, reason="in parts", by="ana", limits=AskedLimits(chunk_partitions=size)
    )
    return operations.plan(ws, request).manifest.run_id


class Gone(BaseException):
    """Ends a process in the middle, as SIGKILL would: nothing that handles errors handles it."""


def dies_at(beginning: str) -> Listener:
    def listen(progress: Progress) -> None:
        if progress.line.startswith(beginning):
            raise Gone

    return listen


@pytest.mark.long
def test_a_chunk_computes_days_of_its_neighbours_and_never_stages_them(shop: Shop) -> None:
    run_id = shop.staged(in_chunks(shop.ws, 3))
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    with shop.ws.ledger.read() as reader:
        candidates, events = reader.candidates.of_run(run_id), list(reader.events.entries(entity_id=run_id))
    found = first, second, third = chunks(shop.ws, run_id)
    assert [len(chunk.partitions) for chunk in found] == [3, 3, 1]
    assert [chunk.output_rows for chunk in found] == [3, 3, 1]
    # With warm-up and look-ahead: of 3 to 8 January, of 3 to 9, and of 6 to 9.
    assert [chunk.input_rows for chunk in found] == [9, 10, 7]
    staged = {number: candidates[date(2026, 1, number)].checksum for number in range(3, 10)}
    assert first.seam_checksum == joined(staged[number] for number in (6, 7, 8))
    assert second.seam_checksum == joined(staged[number] for number in (3, 4, 5, 9))
    assert third.seam_checksum == joined(staged[number] for number in (6, 7, 8))
    noted = [e.payload["seam_checksum"] for e in events if e.action == "chunk_finished"]
    assert noted == [chunk.seam_checksum for chunk in found]
    folder = f"{second.number:04d}-{second.attempt}"
    files = (folder_of(shop.ws.lake, RECENT) / "_runs" / run_id / folder).rglob("*.parquet")
    assert {path.parent.name for path in files} == {f"day={day}" for day in second.partitions}
    # A run of a week has no other days than those at its ends, which are computed with more days chunk by chunk.
    more = ("4 more days ahead", "3 more days back and 1 more day ahead", "6 more days back")
    verdicts = {p: verdict_words(result) for p, result in operations.proofs(shop.ws, run_id).items()}
    assert verdicts == {
        p: f"the same 1 row with {how}" for chunk, how in zip(found, more, strict=True) for p in chunk.partitions
    }


@pytest.mark.parametrize("window", [Window(days_back=1, days_ahead=1), Window(days_back=2)], ids=["back", "ahead"])
def test_rows_that_a_run_in_chunks_gets_wrong_are_caught_after_it_died_and_went_on(shop: Shop, window: Window) -> None:
    short = declared(shop.ws, window=window)
    run_id = in_chunks(short, 3)
    with pytest.raises(Gone):
        operations.stage(short, run_id, actor="ana", listener=dies_at("chunk 3 of 3"))
    # An hour later the lease of the dead process has ended.
    late = replace(short, clock=ticking_clock(NOON + timedelta(days=1)))
    operations.recover(late, by="ops")
    operations.stage(late, run_id, actor="ana")
    operations.gate(late, run_id, actor="ana")
    late.close()
    with short.ledger.read() as reader:
        finished = [
            e.payload["number"] for e in reader.events.entries(entity_id=run_id) if e.action == "chunk_finished"
        ]
    assert finished == [1, 2, 3], "no chunk is computed twice"
    found = operations.proofs(short, run_id)
    assert operations.state_of(short, run_id) is RunState.BLOCKED
    # The end of the run, and the day that a neighbour computes with exactly the declared window on that side.
    if window.days_back == 1:
        end, meeting, side = 3, 6, "1 more day back and 4 more days ahead"
    else:
        end, meeting, side = 9, 8, "6 more days back and 1 more day ahead"
    for number, how in ((end, side), (meeting, "other partitions in the same call")):
        result = found[date(2026, 1, number)]
        assert (
            verdict_words(result) == f"with {how}, 1 of 1 rows differ: "
            "the window is too short, or the transform does not give the same rows twice"
        )
        assert result.observed["changed_columns"] == {"amount": 1}
    assert [day.day for day, result in found.items() if not result.passed] == sorted((end, meeting))
    with short.ledger.read() as reader:
        named = reader.samples.latest(run_id, FailingKey)
        candidates = reader.candidates.of_run(run_id)
    assert [(each.gate, each.partition.day, each.key) for each in sorted(named, key=lambda key: key.partition)] == [
        ("warm_up", number, {"day": f"2026-01-0{number}", "shop": "only"}) for number in sorted((end, meeting))
    ]
    staged = rows_of(short, short.domain.table(RECENT), [part.files for part in candidates.values()])
    amounts = {str(row["day"]): str(row["amount"]) for row in staged.collect()}
    for each in named:
        assert each.before and each.after
        assert each.before["amount"] == amounts[each.key["day"] or ""] != each.after["amount"]


@pytest.mark.long
def test_two_days_are_proven_with_longer_windows(shop: Shop) -> None:
    two = DayRange(date(2026, 1, 5), date(2026, 1, 7))
    for size, ahead in ((1, 4), (2, 3)):
        run_id = shop.staged(in_chunks(shop.ws, size, two))
        assert verdict_words(operations.proofs(shop.ws, run_id)[two.start]) == (
            f"the same 1 row with 2 more days back and {ahead} more days ahead"
        )
    short = declared(shop.ws, window=Window(days_back=1, days_ahead=1))
    run_id = in_chunks(short, 2, two)
    operations.stage(short, run_id, actor="ana")
    operations.gate(short, run_id, actor="ana")
    assert verdict_words(operations.proofs(short, run_id)[two.start]) == (
        "with 3 more days back and 3 more days ahead, 1 of 1 rows differ: "
        "the window is too short, or the transform does not give the same rows twice"
    )


def _twice(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """Rows that share their key, and differ with what the call happens to compute."""
    amount = F.lit(len(ctx.output)).cast("long")
    first = sales.select(F.col("sold_on").alias("day"), F.lit("only").alias("shop"), amount.alias("amount"))
    return first.unionAll(first.withColumn("amount", F.col("amount") + 1))


@pytest.mark.long
def test_where_the_key_is_not_unique_the_proof_says_that_it_is_not_usable(shop: Shop) -> None:
    release = Release(version="1.0.0", function=_twice)
    doubled = declared(shop.ws, releases=(release,), gates=(unique_key(blocking=False),))
    run_id = in_chunks(doubled, 3)
    operations.stage(doubled, run_id, actor="ana")
    operations.gate(doubled, run_id, actor="ana")
    assert operations.state_of(doubled, run_id) is RunState.BLOCKED
    found = {result.finding for result in operations.proofs(doubled, run_id).values()}
    assert found and found <= {Finding.UNUSABLE, Finding.UNUSABLE_ELSEWHERE}


@pytest.mark.long
def test_chunks_compute_no_neighbours_beyond_a_gap(shop: Shop) -> None:
    days = tuple(day for day in OUTPUT if day != date(2026, 1, 5))
    request = PlanRequest(
        table=RECENT,
        days=OUTPUT,
        partitions=days,
        reason="in parts",
        by="ana",
        limits=AskedLimits(chunk_partitions=2),
    )
    run_id = shop.staged(operations.plan(shop.ws, request).manifest.run_id)
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED
    assert [bool(chunk.seam_checksum) for chunk in chunks(shop.ws, run_id)] == [False, True, True]
