"""A demo starts anew: nothing that an earlier one made says something about it."""

from __future__ import annotations

from backfill_assets.cli.demo import MARKER, _prepare_home
from backfill_assets.clock import Clock
from backfill_assets.settings import Settings
from backfill_assets.upkeep.audit_record import FILE
from backfill_assets.workspace import Workspace


def test_the_verdict_and_the_reports_of_an_earlier_demo_go_with_it(settings: Settings, clock: Clock) -> None:
    home = settings.home
    (home / "reports").mkdir(parents=True)
    for name in (FILE, "reports/run.html", MARKER):
        (home / name).write_text("of an earlier demo", encoding="utf-8")
    _prepare_home(Workspace.open(settings, clock=clock), settings, fresh=False)
    assert not (home / FILE).exists() and not (home / "reports").exists()
    assert "starts anew" in (home / MARKER).read_text(encoding="utf-8")
