"""How do documents look on a terminal? Every view that commands print."""

from __future__ import annotations

from backfill_assets.cli.show import (
    audit_view,
    history_view,
    imports_view,
    publications_view,
    recovered_lines,
    report_view,
    run_view,
    show,
    status_view,
    story_view,
)
from backfill_assets.cli.show_plan import nothing_planned_view, plan_view, set_plan_view, set_view
from backfill_assets.cli.show_stale import stale_view
from backfill_assets.cli.show_upkeep import reproduction_view, vacuum_view

__all__ = [
    "audit_view",
    "history_view",
    "imports_view",
    "nothing_planned_view",
    "plan_view",
    "publications_view",
    "recovered_lines",
    "report_view",
    "reproduction_view",
    "run_view",
    "set_plan_view",
    "set_view",
    "show",
    "stale_view",
    "status_view",
    "story_view",
    "vacuum_view",
]
