"""Which files of the package a command goes through, as a reader of its code would.

    python benchmarks/trace.py publish RUN --by ben

A file is entered when a function of it is called from another file, and a way is a pair of files of which one calls
the other. Calls in other threads and in Spark's workers do not count. With `--files` every file is listed with how
often it was entered, in the order of the first time.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import backfill_assets

PACKAGE = Path(backfill_assets.__file__).parent


class Trail:
    """The files that calls have gone through."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.ways: set[tuple[str, str]] = set()
        self._thread = threading.get_ident()
        self._names: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _arg: object) -> None:
        if event != "call" or threading.get_ident() != self._thread:
            return
        entered, left = self._file(frame), self._file(frame.f_back) if frame.f_back else None
        if entered and entered != left and frame.f_code.co_name != "<module>":
            self.entered[entered] += 1
            if left:
                self.ways.add((left, entered))

    def _file(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in self._names:
            here = path.startswith(f"{PACKAGE}/")
            self._names[path] = Path(path).relative_to(PACKAGE).as_posix() if here else None
        return self._names[path]


def main() -> None:
    """Runs the command that follows, and prints its trail to standard error."""
    from backfill_assets.main import main as backfill

    words = [word for word in sys.argv[1:] if word != "--files"]
    lists = len(words) < len(sys.argv) - 1
    sys.argv = ["backfill", *words]
    trail = Trail()
    sys.setprofile(trail)
    try:
        backfill()
    finally:
        sys.setprofile(None)
        rooms = Counter(name.partition("/")[0] for name in trail.entered)
        shown = ", ".join(f"{room} {count}" for room, count in rooms.items())
        sys.stderr.write(f"{words[0]}: {len(trail.entered)} files, {len(trail.ways)} ways ({shown})\n")
        steps = {
            name: count for name, count in trail.entered.items() if name == "core/next_steps.py" or "advice" in name
        }
        sys.stderr.write(f"entered for next steps: {steps or 'nothing'}\n")
        if lists:
            sys.stderr.write("".join(f"{count:7,} {name}\n" for name, count in trail.entered.items()))


if __name__ == "__main__":
    main()
