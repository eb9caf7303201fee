"""A dropped file that has landed is put aside, and whatever came into its place meanwhile stays where it can land."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.capture.files import drop_folder as dropped
from backfill_assets.capture.files.drop_folder import DroppedFile, dropped_files, put_aside

Move = Callable[[Path, Path], None]


def no_renameat2(_source: Path, _target: Path) -> None:
    raise OSError(errno.EINVAL, "the file system does not know it")


@pytest.fixture(params=["by renameat2", "by a link"])
def drop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "by a link":
        monkeypatch.setattr(dropped, "_renamed_where_free", no_renameat2)
    (tmp_path / "sales").mkdir()
    return tmp_path


def put(drop: Path, content: str) -> Path:
    """What a producer does: another version takes the place of the file at once."""
    half, path = drop / "sales" / "a.jsonl.part", drop / "sales" / "a.jsonl"
    half.write_text(content)
    half.replace(path)
    return path


def listed(drop: Path) -> DroppedFile:
    (found,) = dropped_files(drop, ["sales"])
    return found


def contents(drop: Path) -> dict[str, str]:
    return {path.relative_to(drop / "sales").as_posix(): path.read_text() for path in drop.rglob("*.jsonl")}


def test_a_landed_file_is_put_aside_and_replaces_nothing_there(drop: Path) -> None:
    for version in "ab":
        put(drop, version)
        assert put_aside(listed(drop), drop=drop, import_id="imp-1") is not None
    assert contents(drop) == {"landed/imp-1-a.jsonl": "a", "landed/imp-1-2-a.jsonl": "b"}


def test_a_version_that_came_after_the_one_that_landed_stays(drop: Path) -> None:
    put(drop, "one")
    before = listed(drop)
    put(drop, "two")
    assert put_aside(before, drop=drop, import_id="imp-1") is None
    assert contents(drop) == {"a.jsonl": "two"}


def test_a_rewrite_of_the_same_size_with_its_time_restored_stays(drop: Path) -> None:
    path = put(drop, "one")
    before, held = listed(drop), path.stat()
    path.write_text("two")
    os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))
    assert put_aside(before, drop=drop, import_id="imp-1") is None
    assert contents(drop) == {"a.jsonl": "two"}
    assert listed(drop).mark != before.mark


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_a_version_that_comes_while_it_is_moved_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Where it finds the next version in its place, it is put beside that one, so that both land."""
    (tmp_path / "sales").mkdir()
    moved: Move = dropped._renamed_where_free
    rest = ["three"] if again else []

    def meanwhile(source: Path, target: Path) -> None:
        if source.name == "a.jsonl":
            put(tmp_path, "two")
        moved(source, target)
        if rest and source.name == "a.jsonl":
            put(tmp_path, rest.pop())

    put(tmp_path, "one")
    before = listed(tmp_path)
    monkeypatch.setattr(dropped, "_renamed_where_free", meanwhile)
    assert put_aside(before, drop=tmp_path, import_id="imp-1") is None
    assert contents(tmp_path) == ({"a.jsonl": "three", "2-a.jsonl": "two"} if again else {"a.jsonl": "two"})


def test_a_file_that_is_gone_is_not_put_aside(drop: Path) -> None:
    path = put(drop, "one")
    before = listed(drop)
    path.unlink()
    assert put_aside(before, drop=drop, import_id="imp-1") is None
