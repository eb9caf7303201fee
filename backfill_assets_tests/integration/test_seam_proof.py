"""A window that is short by one day is caught at the seams between chunks, whatever dies in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlalchemy import update

from backfill_assets.domain import Domain, Release, TransformContext, Window, unique_key
from backfill_assets.gates.judge_proof import NOT_USABLE
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import ChunkRecord, GateResult
from backfill_assets.ledger.sampled import FailingKey
from backfill_assets.ledger.schema import chunk_runs
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Proof
from backfill_assets.planning.partitions import DayRange, partitions_over
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.progress import Listener, Progress
from backfill_assets.settings import Settings
from backfill_assets.workspace import Workspace
from backfill_assets_tests import operations
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.example_domain import recent_sales, sales
from backfill_assets_tests.lakes import folder_of
from backfill_assets_tests.shop import DAYS, OUTPUT, RECENT, Shop, shop_environment, ticking_clock

HISTORY = DayRange.inclusive(date(2009, 11, 1), date(2010, 6, 12))
COMPUTED = DayRange.inclusive(date(2010, 3, 2), date(2010, 6, 12))
"""103 days: one seam, between a chunk of 100 and one of three."""


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


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Workspace]:
    """One sale late in the evening of every day, over most of a year: what a window lacks is never an empty day."""
    home = tmp_path_factory.mktemp("history")
    settings = Settings.from_environment({**shop_environment(home), "BACKFILL_FIRST_DAY": str(HISTORY.start)})
    ws = Workspace.open(settings, clock=ticking_clock(NOON), open_session=lambda: spark)
    path = home / "sales.jsonl"
    lines = [{"sale_id": f"sale-{day}", "sold_at": f"{day}T23:30:00Z", "amount": 1 + day.day} for day in HISTORY]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    operations.land(ws, "sales", path, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, "sales", partitions=tuple(HISTORY), by="ana", reason="a history")
    assert load is not None
    operations.stage(ws, load.run_id, actor="ana")
    operations.gate(ws, load.run_id, actor="ana")
    operations.publish(ws, load.run_id, by="ana")
    yield ws
    ws.close()


def declared(ws: Workspace, **changed: object) -> Workspace:
    """The workspace of an author who declares the table in another way."""
    table = replace(recent_sales, **changed)  # type: ignore[arg-type]
    domain = Domain(name="example", package="backfill_assets_tests.example_domain", sources=(sales,), derived=(table,))
    return replace(ws, domain=domain)


def gated(ws: Workspace, days: DayRange, chunk_partitions: int) -> str:
    limits = AskedLimits(chunk_partitions=chunk_partitions)
    request = PlanRequest(table=RECENT, days=days, reason="in parts", by="ana", limits=limits)
    run_id = operations.plan(ws, request).manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    return run_id


def proofs(ws: Workspace, run_id: str) -> Mapping[date, GateResult]:
    with ws.ledger.read() as reader:
        return {r.partition: r for r in reader.candidates.gate_results(run_id) if r.gate == "warm_up"}


def chunks(ws: Workspace, run_id: str) -> tuple[ChunkRecord, ...]:
    with ws.ledger.read() as reader:
        return reader.candidates.chunks(run_id)


def state_of(ws: Workspace, run_id: str) -> RunState:
    return operations.run_named(ws, run_id).state


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
    assert state_of(short, run_id) is RunState.BLOCKED
    failing = [p for p, result in proofs(short, run_id).items() if "rows differ" in result.verdict]
    seams = [chunk.partitions[-1] for chunk in chunks(short, run_id)[:-1]]
    assert set(failing) <= set(seams) and failing
    assert proofs(short, run_id)[failing[0]].verdict == (
        f"with exactly {back - 1} days back and 0 ahead, 1 of 1 rows differ: the window is too short"
    )
    enough = declared(history, window=Window(days_back=back), releases=(release,), gates=())
    run_id = gated(enough, COMPUTED, 100)
    assert state_of(enough, run_id) is RunState.PASSED
    assert proofs(enough, run_id)[seams[0]].verdict == f"the same 1 row with exactly {back} days back and 0 ahead"


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
        if progress.sentence.startswith(beginning):
            raise Gone

    return listen


@pytest.mark.long
def test_the_seam_is_computed_with_its_chunk_and_never_staged_by_it(shop: Shop) -> None:
    run_id = shop.staged(in_chunks(shop.ws, 3))
    assert state_of(shop.ws, run_id) is RunState.PASSED
    with shop.ws.ledger.read() as reader:
        candidates, events = reader.candidates.of_run(run_id), list(reader.events.entries(entity_id=run_id))
    first, second, third = chunks(shop.ws, run_id)
    assert [len(chunk.partitions) for chunk in (first, second, third)] == [3, 3, 1]
    assert [chunk.output_rows for chunk in (first, second, third)] == [3, 3, 1]
    # Nine days of input without the seam, four of them warm-up and look-ahead; one more with it.
    assert [chunk.input_rows for chunk in (first, second, third)] == [6, 7, 5]
    assert first.seam_checksum == ""
    assert second.seam_checksum == candidates[date(2026, 1, 5)].checksum
    assert third.seam_checksum == candidates[date(2026, 1, 8)].checksum
    noted = [e.payload["seam_checksum"] for e in events if e.action == "chunk_finished"]
    assert noted == [chunk.seam_checksum for chunk in (first, second, third)]
    folder = f"{second.number:04d}-{second.attempt}"
    staged = {p.parent.name for p in (folder_of(shop.ws.lake, RECENT) / "_runs" / run_id / folder).rglob("*.parquet")}
    assert staged == {f"day={day}" for day in second.partitions}
    shop_verdicts = {p.day: r.verdict for p, r in proofs(shop.ws, run_id).items()}
    assert shop_verdicts[5] == shop_verdicts[8] == "the same 1 row with exactly 2 days back and 1 ahead"
    assert shop_verdicts[6] == "proven on 2026-01-05, 2026-01-08, 2 days, with exactly 2 days back and 1 ahead"


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
    found = proofs(short, run_id)
    assert state_of(short, run_id) is RunState.BLOCKED
    side = f"exactly {window.days_back} day{'s' * (window.days_back > 1)} back and {window.days_ahead} ahead"
    for seam in (date(2026, 1, 5), date(2026, 1, 8)):
        assert found[seam].verdict == f"with {side}, 1 of 1 rows differ: the window is too short"
        assert found[seam].observed["changed_columns"] == {"amount": 1}
    with short.ledger.read() as reader:
        (named,) = reader.samples.failing_keys(run_id)
    assert named == FailingKey(gate="warm_up", partition=date(2026, 1, 5), key={"day": "2026-01-05", "shop": "only"})
    assert found[date(2026, 1, 4)].verdict == "the window is too short, as 2026-01-05 shows"


@pytest.mark.long
def test_a_seam_whose_checksum_is_not_known_is_computed_by_the_gate(shop: Shop) -> None:
    for ws, ends in ((shop.ws, RunState.PASSED), (declared(shop.ws, window=Window(days_back=2)), RunState.BLOCKED)):
        run_id = in_chunks(ws, 3)
        operations.stage(ws, run_id, actor="ana")
        with ws.ledger.write() as writer:
            writer.events._connection.execute(
                update(chunk_runs).where(chunk_runs.c.run_id == run_id).values(seam_checksum="")
            )
        operations.gate(ws, run_id, actor="ana")
        assert state_of(ws, run_id) is ends


@pytest.mark.long
def test_where_nothing_lies_between_two_others_a_longer_window_is_the_proof(shop: Shop) -> None:
    two = DayRange(date(2026, 1, 5), date(2026, 1, 7))
    for size in (1, 2):
        run_id = shop.staged(in_chunks(shop.ws, size, two))
        assert operations.run_named(shop.ws, run_id).manifest.proof.seams == ()  # type: ignore[union-attr]
        assert proofs(shop.ws, run_id)[two.start].verdict == (
            "the same 1 row with 2 more days back and 3 more days ahead"
        )
    short = declared(shop.ws, window=Window(days_back=1, days_ahead=1))
    run_id = in_chunks(short, 2, two)
    operations.stage(short, run_id, actor="ana")
    operations.gate(short, run_id, actor="ana")
    assert proofs(short, run_id)[two.start].verdict == (
        "with 3 more days back and 3 more days ahead, 1 of 1 rows differ: the window is too short"
    )


@pytest.mark.long
def test_a_run_that_an_earlier_release_planned_is_proven_as_it_was_agreed(shop: Shop) -> None:
    """Its manifest has another text for the gate and computes its ends again; its chunks compute no seams."""
    with_seams = operations.run_named(shop.ws, in_chunks(shop.ws, 3)).manifest
    gates = tuple(
        replace(gate, demands="the first 3 partitions and the last one are the same with a longer window")
        if gate.name == "warm_up"
        else gate
        for gate in with_seams.gates
    )
    first = tuple(partitions_over(with_seams.grain, DayRange(OUTPUT.start, OUTPUT.start + timedelta(days=3))))
    proof = Proof(partitions=first, last=(OUTPUT.last,), extra_days=7, extra_days_ahead=7)
    earlier = replace(with_seams, run_id="earlier", format=2, gates=gates, proof=proof)
    with shop.ws.ledger.write() as writer:
        writer.runs.add(earlier, actor="ana")
    shop.staged("earlier")
    assert state_of(shop.ws, "earlier") is RunState.PASSED
    assert [chunk.seam_checksum for chunk in chunks(shop.ws, "earlier")] == ["", "", ""]
    assert proofs(shop.ws, "earlier")[OUTPUT.start].verdict == "the same 1 row with 4 more days ahead"


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
    assert state_of(doubled, run_id) is RunState.BLOCKED
    verdicts = {result.verdict for result in proofs(doubled, run_id).values()}
    assert all(verdict.startswith(NOT_USABLE) for verdict in verdicts) and len(verdicts) == 2


@pytest.mark.long
def test_a_run_whose_days_have_gaps_has_seams_where_they_are_consecutive(shop: Shop) -> None:
    whole = operations.run_named(shop.ws, in_chunks(shop.ws, 3)).manifest
    days = tuple(day for day in OUTPUT if day != date(2026, 1, 5))
    gapped = replace(whole, run_id="gapped", partitions=days, chunks=(2, 2, 2), proof=Proof(seams=(date(2026, 1, 7),)))
    with shop.ws.ledger.write() as writer:
        writer.runs.add(gapped, actor="ana")
    shop.staged("gapped")
    assert state_of(shop.ws, "gapped") is RunState.PASSED
    assert [bool(chunk.seam_checksum) for chunk in chunks(shop.ws, "gapped")] == [False, False, True]
    assert DAYS.start not in days
