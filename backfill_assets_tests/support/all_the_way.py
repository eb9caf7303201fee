"""A history of commands in one process, and what others on the machine may do with what it leaves, as JSON.

`python -m backfill_assets_tests.support.all_the_way FOLDER...` lands, rejects, builds, plans, stages, publishes,
follows, reports and audits as the installed command does, and looks at the folders while Spark still has its scratch
files.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

from backfill_assets.main import main
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, sale

GROUP_AND_OTHERS = 0o077


def backfill(*words: str) -> Any:
    """The JSON of a command that ended well."""
    sys.argv = ["backfill", *words, "--json"]
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"{words}: {printed.getvalue()}") from None
    return json.loads(printed.getvalue())


def history(files: Path) -> None:
    """What a person does with a new home, up to a published month and its report."""
    sales = [sale(day) for day in DAYS]
    landed = files / "sales.jsonl"
    rejected = {"sale_id": "no-day", "sold_at": "never", "amount": 1}
    landed.write_text("".join(json.dumps(each) + "\n" for each in [*sales, rejected]), encoding="utf-8")
    found = backfill("land", "sales", str(landed), "--by", "ana")
    assert "rejected" in json.dumps(found)
    days = ("--from", str(OUTPUT.start), "--to", str(OUTPUT.end - timedelta(days=1)))
    run_id = backfill("plan", "table", RECENT, *days, "--reason", "why not", "--by", "ana")["run_id"]
    backfill("approve", run_id, "--by", "ben")
    backfill("run", run_id)
    backfill("report", run_id, "--page")
    backfill("publish", run_id, "--by", "ben")
    backfill("follow")
    backfill("audit")


def open_to_others(folder: Path) -> Iterator[str]:
    """Every file and folder that another user may do something with, with its rights.

    Spark lets everybody execute its copies of jars, in a folder that nobody else can enter.
    """
    for path in (folder, *sorted(folder.rglob("*"))):
        found = path.lstat().st_mode
        if not stat.S_ISLNK(found) and found & GROUP_AND_OTHERS and path.suffix != ".jar":
            yield f"{stat.filemode(found)} {path}"


if __name__ == "__main__":
    looked_at = [Path(word) for word in sys.argv[1:]]
    history(looked_at[-1])
    os.umask(0)
    found = [each for folder in looked_at[:-1] for each in open_to_others(folder)]
    sys.stdout.write(json.dumps({"open": found, "files": sum(1 for f in looked_at[:-1] for _ in f.rglob("*"))}))
