"""docs/reference/public-files.md, from the shapes of public files and what is proposed for each (`make docs`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.sniffed import declared_lines
from backfill_assets.sniff.propose import propose
from backfill_assets_tests.support.public_files import SHAPES, Shape

PAGE = PROJECT_ROOT / "docs" / "reference" / "public-files.md"
_AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
_MOST_CHARACTERS = 150
_HEAD = """# Public files, and what to declare of them

The form of well-known public files, written anew by a generator without any of their data, and the declaration that
`backfill sniff` proposes for each. Besides it a table has its name, its columns and a partition; `key` is the number of
the record where nothing identifies one, and a time without an offset needs the zone of its clocks. A test lands every
file with its declaration and compares all values with those that pandas reads
(`backfill_assets_tests/integration/sniff/test_public_files.py`). This page is written from the code by `make docs`.

| looks like | file | key | event time | declared | records | landed | rejected |
|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as folder:
        return _HEAD + "".join(f"{line}\n" for shape in SHAPES.values() for line in _lines(shape, Path(folder)))


def _lines(shape: Shape, folder: Path) -> Iterator[str]:
    path = folder / shape.file
    path.write_bytes(shape.write())
    found = propose([path], name=f"bronze.{shape.name}", as_of=_AS_OF)
    declared = "".join(
        line.strip() + ("" if line.rstrip().endswith(("(", "{")) else " ") for line in declared_lines(found)
    )
    landed = len(shape.pandas(path))
    time = f"{found.event_time}, with a zone" if found.has_local_times else found.event_time
    cells = (
        shape.like,
        f"`{shape.file}`",
        ", ".join(found.key) or "the number of the record",
        time,
        f"`{_cut(declared)}`" if declared else "nothing",
        str(landed + shape.rejected),
        str(landed),
        str(shape.rejected),
    )
    yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def _cut(text: str) -> str:
    text = text.strip().removesuffix(",").replace(", }", "}").replace(", )", ")")
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def main(path: Path = PAGE) -> None:
    """Writes the page."""
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
