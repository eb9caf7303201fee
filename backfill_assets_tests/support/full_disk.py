"""A home on a disk without room: what commands and pages say there, as JSON.

`python -m backfill_assets_tests.support.full_disk FOLDER` runs in a mount namespace of its own (`unshare --mount`), so
the small file system that it mounts on FOLDER is gone with the process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from backfill_assets.core.settings import Settings
from backfill_assets.desk.app import create_app
from backfill_assets.main import app
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.by_hand import JANUARY, open_by_hand
from backfill_assets_tests.support.desk_reader import PATIENCE_S, get
from backfill_assets_tests.support.hand_made import GOLD, SILVER
from backfill_assets_tests.support.quick_commands import remember_commands
from backfill_assets_tests.support.shop import sale, shop_environment

SIZE = "24m"
PLAN = ("plan", "table", GOLD, "--from", "2026-01", "--to", "2026-01", "--reason", "why not", "--by", "ana")


def main(folder: Path) -> None:
    """Writes the answers by the name of the command or the page."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)
    home = folder / "home"
    hand = open_by_hand(home)
    run_id = hand.silver({JANUARY.start: 20})
    hand.ws.close()
    sales = folder.parent / "sales.jsonl"
    sales.write_text(json.dumps(sale(JANUARY.start)) + "\n", encoding="utf-8")
    os.environ |= shop_environment(home)
    os.environ.pop("DAGSTER_HOME", None)

    left = fill(folder)
    before = contents(home)
    found: dict[str, Any] = {}
    for words in (
        ("status",),
        ("status", run_id),
        ("stale",),
        ("history", SILVER),
        ("history", SILVER, "--partition", str(JANUARY.start)),
        ("report", run_id),
        ("metrics",),
        ("check",),
        ("audit", "--quick"),
    ):
        found[" ".join(("read", *words[:1], str(len(words))))] = answer(*words)
    ws = Workspace.open(Settings.from_environment(), conditions=False)
    pages = create_app(ws, patience_s=PATIENCE_S)
    addresses = ["/", "/runs", "/calendar", "/publications", f"/runs/{run_id}", "/audit", "/metrics"]
    for address in addresses:
        found[f"page {address}"] = (get(pages, address).status, "")
    ws.close()
    found["changed"] = sorted(contents(home) ^ before)
    found["write plan"] = answer(*PLAN)
    found["write land"] = answer("land", "sales", str(sales), "--by", "ana", "--no-load")
    # The ledger has room, the landed files and the tables have none.
    os.environ["BACKFILL_LEDGER_URL"] = f"sqlite:///{shutil.copy(home / 'ledger.db', folder.parent)}"
    found["write landed"] = answer("land", "sales", str(sales), "--by", "ana", "--no-load")
    found["write publish"] = answer("publish", run_id, "--by", "ben")
    del os.environ["BACKFILL_LEDGER_URL"]
    left.unlink()
    found["again plan"] = answer(*PLAN)
    sys.stdout.write(json.dumps(found))


def answer(*words: str) -> tuple[int, str]:
    """The exit code of a command, and what it said in one line."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=True)
    said = result.output if result.exception is None or result.exit_code == 1 else repr(result.exception)
    return result.exit_code, re.sub(r"\s+", " ", said)


def fill(folder: Path) -> Path:
    """Takes all the room that is left, and names the file that holds it."""
    path = folder / "full"
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1024)
        except OSError:
            return path


def contents(home: Path) -> set[str]:
    """Every file with its size."""
    return {f"{path.relative_to(home)} {path.stat().st_size}" for path in home.rglob("*") if path.is_file()}


if __name__ == "__main__":
    remember_commands()
    main(Path(sys.argv[1]))
