"""What a killed process leaves beside a file that it was writing goes with the next one, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from backfill_assets.application.output_files import replacing

WRITES = """
import sys, time
from pathlib import Path
from backfill_assets.application.output_files import replacing

with replacing(Path(sys.argv[1])) as part:
    part.write_text("half")
    print("half", flush=True)
    time.sleep(600)
"""


def writing(file: Path) -> subprocess.Popen[str]:
    """A process that has written half of a file."""
    begun = subprocess.Popen([sys.executable, "-c", WRITES, str(file)], stdout=subprocess.PIPE, text=True)
    assert begun.stdout is not None and begun.stdout.readline() == "half\n"
    return begun


def written(file: Path) -> list[str]:
    """Writes a file, and lists what its folder then has."""
    with replacing(file) as part:
        part.write_text("whole")
    assert file.read_text() == "whole"
    return sorted(path.name for path in file.parent.iterdir())


def test_a_part_of_a_killed_process_goes_with_the_next_and_one_that_is_being_written_stays(tmp_path: Path) -> None:
    file = tmp_path / "changed.parquet"
    with writing(file) as begun:
        part = f".{file.name}.{begun.pid}.part"
        assert written(file) == [part, file.name]
        begun.kill()
    assert (tmp_path / part).read_text() == "half"
    assert written(file) == [file.name]


def test_nothing_goes_that_is_named_otherwise_or_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "changed.csv"
    others = [".changed_csv.1.part", ".changed.csv.part", ".changed.csv.x.part", "changed.csv.1.part", ".b.csv.1.part"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".changed.csv.2.part").mkdir()
    (tmp_path / ".changed.csv.3.part").symlink_to(tmp_path / others[0])
    os.mkfifo(tmp_path / ".changed.csv.4.part")
    before = [path.name for path in tmp_path.iterdir()]
    assert written(file) == sorted([*before, file.name])


def test_a_file_that_is_written_again_after_an_error_leaves_no_part(tmp_path: Path) -> None:
    file = tmp_path / "changed.jsonl"
    try:
        with replacing(file) as part:
            part.write_text("half")
            raise ValueError
    except ValueError:
        pass
    assert list(tmp_path.iterdir()) == []
    assert written(file) == [file.name]
