"""Every next step that is printed leads on; `python -m backfill_assets_tests.faults.next_steps` tells more stories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from backfill_assets.core.next_steps import Command, Option, do, step
from backfill_assets.ledger import errors as ledger
from backfill_assets.report import what_next
from backfill_assets.requests import errors as publication
from backfill_assets_tests.faults.next_steps import Walk, alternatives, typed_from, walk_all


def told(walks: Iterable[Walk], capsys: pytest.CaptureFixture[str]) -> str:
    """What did not lead on; the number of steps that were followed, and of those without a command, is printed."""
    walks = list(walks)
    done = sum(each.followed for each in walks)
    without = sum(many for each in walks for kind, many in each.kinds.items() if kind.startswith("no command"))
    with capsys.disabled():
        print(f"\n{len(walks)} stories, {done:,} next steps followed, {without:,} without a command")  # noqa: T201
    return "\n".join(each.text for each in walks if each.circles)


@pytest.mark.long
def test_the_next_steps_of_short_stories_lead_on(capsys: pytest.CaptureFixture[str]) -> None:
    walks = walk_all(range(2000, 2002), 12)
    assert told(walks, capsys) == ""
    assert sum(each.followed for each in walks) > 10


@pytest.mark.long
@pytest.mark.parametrize("first", range(3000, 3030, 5))
def test_the_next_steps_of_long_stories_lead_on(capsys: pytest.CaptureFixture[str], first: int) -> None:
    walks = walk_all(range(first, first + 5), 30)
    assert told(walks, capsys) == ""
    assert sum(each.followed for each in walks) > 50


@pytest.mark.long
@pytest.mark.parametrize("fault", ["a rollback that leaves orphans is advised", "the same command again is advised"])
def test_a_next_step_that_leads_in_a_circle_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault.startswith("a rollback"):
        monkeypatch.setattr(what_next, "_left_without_input", lambda *_: ())
    else:
        for errors in (ledger, publication):
            monkeypatch.setattr(errors, "go_on_with", lambda run_id, *_, **__: do(Command.PUBLISH, run_id, by="ana"))
    assert any(each.circles for each in walk_all(range(4000, 4010), 30))


@pytest.mark.parametrize(
    ("following", "typed"),
    [
        (step("wait for it; if its process is gone: ", do(Command.RECOVER)), [[("recover",)]]),
        (step(do(Command.RUN, "r"), "; or give it up: ", do(Command.CANCEL, "r")), [[("run", "r")], [("cancel", "r")]]),
        (step(do(Command.REPORT, "r"), ", and then ", do(Command.RUN, "r")), [[("report", "r"), ("run", "r")]]),
        (step("leave ", Option("phases"), " out"), [[("plan", "table", "t", "--to", "d")]]),
        (step("add ", Option("partial")), [[("plan", "table", "t", "--phases", "2", "--to", "d", "--partial")]]),
    ],
)
def test_next_steps_are_typed_as_they_are_printed(following: Mapping[str, str], typed: object) -> None:
    refused = ("plan", "table", "t", "--phases", "2", "--to", "d")
    assert [list(typed_from(each, refused)) for each in alternatives(following)] == typed  # type: ignore[arg-type]
