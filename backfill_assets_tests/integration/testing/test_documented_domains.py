"""The examples of docs/own-domain.md are domains that publish what they say, and pages of authors say what works."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_assets.core.settings import Settings, setting_names
from backfill_assets.testing import QUICK_SPARK, DomainKit
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.doctor import Health, examine
from backfill_assets.workspace import Workspace
from backfill_assets_tests.unit.test_docs import COMMANDS, DOCS, examples_of, text_of

Opens = Callable[[int, str], DomainKit]


@pytest.fixture
def opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Opens the so many'th example, as the module of its name."""
    kits = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def opened(number: int, name: str) -> DomainKit:
        (tmp_path / f"{name}.py").write_text(examples_of("own-domain.md")[number])
        kit = DomainKit.open(importlib.import_module(name).DOMAIN, tmp_path / "home", first_day=date(2026, 1, 1))
        kits.append(kit)
        return kit

    yield opened
    for kit in kits:
        kit.close()


def order(number: int, day: int, cents: int, shop: str = "north") -> dict[str, object]:
    return {"order_id": str(number), "ordered_at": f"2026-01-{day:02d}T10:00:00Z", "shop": shop, "cents": cents}


@pytest.mark.long
def test_days_and_months_of_two_sources_have_the_refunds_that_came_in_time(opens: Opens) -> None:
    kit = opens(1, "my_books")
    kit.land("orders", [order(day, day, 100) for day in range(1, 32)] + [order(99, 5, 50, "south")])
    refunds = [("a", "1", "2026-01-15", 40), ("b", "2", "2026-01-17", 40), ("c", "31", "2026-02-14", 1)]
    kit.land(
        "refunds",
        [{"refund_id": n, "refunded_at": f"{on}T10:00:00Z", "order_id": of, "cents": c} for n, of, on, c in refunds],
    )
    kit.declare_empty("refunds", "2026-01-01..2026-01-14")
    kit.declare_empty("refunds", "2026-01-18..2026-02-13")
    kit.published("net_daily", "2026-01")
    days = {(row["day"].day, row["shop"]): row["cents"] for row in kit.rows("net_daily")}
    assert len(days) == 32
    assert (days[1, "north"], days[2, "north"], days[31, "north"], days[5, "south"]) == (60, 100, 99, 50)
    kit.published("net_monthly", "2026-01")
    assert {row["shop"]: row["cents"] for row in kit.rows("net_monthly")} == {"north": 3_059, "south": 50}


@pytest.mark.long
def test_changes_that_a_function_returns_are_merged_by_key(opens: Opens) -> None:
    kit = opens(2, "my_stock")

    def counted(op: str, number: int, article: str, pieces: int | None = None) -> dict[str, object]:
        at = {"op": op, "number": number, "article": article, "counted_at": "2026-01-05T10:00:00Z"}
        return at if pieces is None else {**at, "pieces": pieces}

    kit.land("counts", [counted("c", 1, "bolt", 7), counted("c", 2, "nut", 3)], name="first.jsonl")
    kit.published("stock", "2026-01-05")
    assert {row["article"]: row["pieces"] for row in kit.rows("stock")} == {"bolt": 7, "nut": 3}
    kit.land("counts", [counted("u", 3, "bolt", 5), counted("d", 4, "nut")], name="second.jsonl")
    kit.published("stock", "2026-01-05")
    assert {row["article"]: row["pieces"] for row in kit.rows("stock")} == {"bolt": 5}


@pytest.mark.long
def test_a_notebook_reads_what_readers_see_tries_a_function_and_a_home_that_is_moved_is_whole(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = opens(0, "my_shop")
    kit.land(
        "orders", [{"order_id": f"{n}", "ordered_at": f"2026-01-{n:02d}T10:00:00Z", "amount": n} for n in range(1, 9)]
    )
    kit.published("orders_of_the_week", "2026-01-07..2026-01-08")
    kit.close()
    moved = tmp_path / "elsewhere" / "home"
    moved.parent.mkdir()
    shutil.move(tmp_path / "home", moved)
    for name, value in {**QUICK_SPARK, "BACKFILL_HOME": str(moved), "BACKFILL_DOMAIN": "my_shop"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BACKFILL_FIRST_DAY", "2026-01-01")
    reading, trying = examples_of("notebooks.md")
    named: dict[str, Any] = {}
    exec(compile(reading, "notebooks.md", "exec"), named)
    assert sorted(named["rows"]["amount"]) == [28, 35]
    exec(compile(trying, "notebooks.md", "exec"), named)
    assert [row["amount"] for row in named["found"]] == [7, 7]
    ws = Workspace.open(Settings.from_environment())
    assert audit(ws).problems == ()
    assert {part.health for part in examine(ws).parts} <= {Health.SOUND, Health.NOT_NEEDED}
    ws.close()


def test_the_workflow_of_a_domain_in_ci_is_one() -> None:
    (workflow,) = re.findall(r"```yaml\n(.*?)```", text_of(DOCS / "ci.md"), flags=re.DOTALL)
    steps = yaml.safe_load(workflow)["jobs"]["test"]["steps"]
    typed = [step["run"] for step in steps if "run" in step]
    assert typed[:2] == ["pip install backfill-assets pytest", "pytest"]
    words = shlex.split(typed[2].partition(">")[0])
    COMMANDS[words[1]].make_context(words[1], words[2:])
    assert {"BACKFILL_DOMAIN", "BACKFILL_HOME"} == steps[-1]["env"].keys() & setting_names()
