"""The demo begins in an empty home, and its story consists of commands that exist."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.cli.demo import MARKER, Source, _typed, prepare_home, story
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import Settings
from backfill_assets.upkeep.audit import FILE
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.commands import command_of, commands
from backfill_assets_tests.support.ledger_examples import plan


def test_the_verdict_and_the_reports_of_an_earlier_demo_go_with_it(settings: Settings, clock: Clock) -> None:
    home = settings.home
    (home / "reports").mkdir(parents=True)
    for name in (FILE, "reports/run.html", MARKER):
        (home / name).write_text("of an earlier demo", encoding="utf-8")
    prepare_home(Workspace.open(settings, clock=clock), fresh=False)
    assert not (home / FILE).exists() and not (home / "reports").exists()
    assert "starts anew" in (home / MARKER).read_text(encoding="utf-8")
    references = {path.name: path.stat().st_nlink for path in (home / "reference").iterdir()}
    assert references == {"approvers.yaml": 1, "jurisdiction_calendar.yaml": 1, "sla_policy.yaml": 1}


def test_a_home_with_work_that_no_demo_made_is_refused_and_stays(settings: Settings, clock: Clock) -> None:
    ws = Workspace.open(settings, clock=clock)
    plan(ws.ledger, "a-run")
    with pytest.raises(Refused, match="holds work that no demo made"):
        prepare_home(ws, fresh=True)
    assert (settings.home / "ledger.db").exists()


def test_a_ledger_outside_the_home_with_an_earlier_demo_is_refused(settings: Settings, clock: Clock) -> None:
    elsewhere = settings.home.with_name("elsewhere.db")
    ws = Workspace.open(replace(settings, ledger_url=f"sqlite:///{elsewhere}"), clock=clock)
    plan(ws.ledger, "a-run")
    settings.home.mkdir(exist_ok=True)
    (settings.home / MARKER).touch()
    with pytest.raises(Refused, match="BACKFILL_LEDGER_URL may hold an earlier demo"):
        prepare_home(ws, fresh=True)
    assert elsewhere.exists()


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Source.FILES, {"land", "plan", "approve", "run", "publish", "follow", "rollback", "audit"}),
        (Source.KAFKA, {"capture", "locate", "plan", "approve", "run", "report", "publish", "reproduce", "audit"}),
    ],
)
def test_every_command_of_a_story_can_be_typed(source: Source, told: set[str]) -> None:
    typed = [shlex.split(block, comments=True) for block in story(source) if block.startswith("    backfill ")]
    assert told <= {words[1] for words in typed}
    for words in typed:
        name, rest = command_of(words[1:])
        commands()[name].make_context(name, rest)


@pytest.mark.parametrize("source", list(Source))
def test_the_demo_ends_with_the_first_restatement_and_a_project_of_ones_own(source: Source) -> None:
    said = list(_typed(Path("/a home"), source))
    assert f"export BACKFILL_HOME='/a home' BACKFILL_DOMAIN={source.domain}" in said[0]
    restated = "backfill plan table silver.case_sla_daily --from 2025-05-01 --to 2025-05-31"
    assert any(restated in line for line in said) is (source is Source.FILES)
    assert said[-1].endswith("backfill init my_shop")
