"""Work logs: the lines of JSON that every step of a run writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.application.execute import execute
from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.core.errors import NotApproved
from backfill_assets.core.settings import JSON
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, Shop, shop_environment

ALWAYS = {"run_id", "chunk_id", "source_range", "transform_version", "target", "mode", "event", "level", "at", "by"}


def logging(shop: Shop) -> Workspace:
    return replace(shop.ws, settings=replace(shop.ws.settings, log=JSON))


def logged(text: str) -> list[Mapping[str, Any]]:
    lines: list[Mapping[str, Any]] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return lines


@pytest.mark.long
def test_every_step_of_a_run_is_a_line_with_what_it_works_on(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = shop.planned()
    operations.approve(shop.ws, run_id, by="ben")
    execute(logging(shop), run_id, tuple(Part), actor="ben")
    lines = logged(capsys.readouterr().err)
    assert all(line.keys() >= ALWAYS for line in lines)
    assert {(line["run_id"], line["target"], line["mode"], line["transform_version"]) for line in lines} == {
        (run_id, RECENT, "BACKFILL", "1.0.0")
    }
    told = [(line["event"], line.get("stage"), line["chunk_id"]) for line in lines]
    assert told[0] == ("run started", None, None) and told[-1] == ("run finished", None, None)
    assert ("stage started", "compute", 1) in told and ("stage finished", "compute", 1) in told
    assert [stage for event, stage, _ in told if event == "stage finished"][-2:] == ["swap", "notify"]
    computed = next(line for line in lines if line.get("stage") == "compute")
    assert computed["source_range"] == "2026-01-01..2026-01-10"
    assert all(line["seconds"] >= 0 for line in lines if line["event"].endswith("finished"))


def test_what_stops_a_run_is_a_line_with_the_error(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = shop.staged(shop.planned())
    with pytest.raises(NotApproved):
        execute(logging(shop), run_id, [Part.PUBLISH], actor="ben")
    lines = logged(capsys.readouterr().err)
    failed = [line for line in lines if line["level"] == "error"]
    assert [line["event"] for line in failed] == ["stage failed", "run failed"]
    assert failed[0]["stage"] == "agree" and failed[0]["error"] == "NotApproved" and failed[0]["message"]


@pytest.mark.long
def test_without_the_setting_nothing_is_written(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = shop.planned()
    execute(shop.ws, run_id, STAGED_AND_GATED, actor="ana")
    assert logged(capsys.readouterr().err) == []


@pytest.mark.long
def test_a_command_writes_lines_in_place_of_its_progress(tmp_path: Path, shop: Shop) -> None:
    run_id = shop.planned()
    done = subprocess.run(
        [sys.executable, "-c", "from backfill_assets.main import main; main()", "run", run_id, "--by", "ana"],
        env={**os.environ, **shop_environment(shop.ws.settings.home), "BACKFILL_LOG": "json"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = logged(done.stderr)
    # Dagster shows a command as a step per part, and each executes its part of the run.
    whole = [(line["event"], line["parts"]) for line in lines if line["event"].startswith("run ")]
    assert whole == [(f"run {what}", [part]) for part in ("stage", "gate") for what in ("started", "finished")]
    assert not re.search(r"^stage ", done.stderr, re.M)
    assert run_id in done.stdout
