"""The table of docs/glossary.md: its own words, and those that reports explain, in alphabetical order (`make docs`)."""

from __future__ import annotations

import re
from pathlib import Path

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.html import MEANINGS

PAGE = PROJECT_ROOT / "docs" / "glossary.md"
_ROW = re.compile(r"^\| (?P<word>[^|]+?) \| (?P<means>.+?) \|\n", flags=re.MULTILINE)
_HEAD = "| word | meaning |\n|---|---|\n"


def filled(page: str) -> str:
    """The page with the words of reports as they explain them."""
    before, _, table = page.partition(_HEAD)
    words = {row["word"]: row["means"] for row in _ROW.finditer(table)} | MEANINGS
    rows = (f"| {word} | {words[word]} |\n" for word in sorted(words))
    return f"{before}{_HEAD}{''.join(rows)}"


def main(page: Path = PAGE) -> None:
    """Writes the page."""
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
