"""The work log: lines that always have the same fields, for a run, a chunk, and what stops them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from backfill_assets.application.parts import Part
from backfill_assets.application.work_log import WorkLog
from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import JSON, Settings
from backfill_assets.planning.manifest import Chunk
from backfill_assets.planning.stages import Compute, Reads
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import ledger_examples as examples
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE

ALWAYS = {"run_id", "chunk_id", "source_range", "transform_version", "target", "mode", "event", "level", "at", "by"}
INPUT = DayRange.inclusive(date(2024, 9, 1), date(2024, 10, 4))


@pytest.fixture
def ws(settings: Settings, clock: Clock) -> Iterator[Workspace]:
    chosen = replace(settings, domain="backfill_assets_tests.domains.example", log=JSON)
    opened = Workspace.open(chosen, clock=clock)
    examples.plan(opened.ledger, "a")
    yield opened
    opened.close()


def chunk() -> Compute:
    reads = Reads(argument="events", table="bronze.events", grain=Grain.DAILY, partitions=tuple(INPUT), days=INPUT)
    return Compute(
        run_id="a",
        table=TABLE,
        grain=Grain.DAILY,
        chunk=Chunk(number=2, grain=Grain.DAILY, partitions=DAYS),
        chunks=2,
        reads=(reads,),
    )


def lines(capsys: pytest.CaptureFixture[str]) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_chunk_says_what_it_reads_and_writes(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    log = WorkLog.of(ws, "a", by="ana")
    with log.run([Part.STAGE]), log.stage(chunk()):
        pass
    found = lines(capsys)
    assert [line["event"] for line in found] == ["run started", "stage started", "stage finished", "run finished"]
    assert all(line.keys() >= ALWAYS for line in found)
    assert {
        (line["run_id"], line["target"], line["mode"], line["transform_version"], line["by"]) for line in found
    } == {("a", TABLE, "BACKFILL", "1.0.0", "ana")}
    assert [line["chunk_id"] for line in found] == [None, 2, 2, None]
    assert found[1]["source_range"] == "2024-09-01..2024-10-04"
    assert found[0]["source_range"] == "2024-10-01..2024-10-03"


def test_what_stops_a_chunk_is_said_once_per_level(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    log = WorkLog.of(ws, "a", by="ana")
    with pytest.raises(Refused), log.run([Part.STAGE]), log.stage(chunk()):
        raise Refused("no \x1b[31mway")
    found = [line for line in lines(capsys) if line["level"] == "error"]
    assert [line["event"] for line in found] == ["stage failed", "run failed"]
    assert (found[0]["error"], found[0]["message"]) == ("Refused", "no \\x1b[31mway")


def test_without_the_setting_nothing_is_read_or_written(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    silent = replace(ws, settings=replace(ws.settings, log=""))
    log = WorkLog.of(silent, "no such run", by="ana")
    with log.run([Part.STAGE]), log.stage(chunk()):
        pass
    assert lines(capsys) == []
