"""Only regular files are read, and nothing waits for a pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.capture.errors import FileRefused
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.local_files import NotRegular, open_regular
from backfill_assets.domain import Reference
from backfill_assets.files.local import LocalFiles
from backfill_assets.requests.approvers import WHO_APPROVES
from backfill_assets.transforms.errors import ReferenceBroken, ReferenceNotRead
from backfill_assets.transforms.references import find_version, load_reference

REFERENCE = Reference(name="rates", parse=lambda document: document)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_suffix(".pipe"))
    path.symlink_to(path.with_suffix(".pipe"))


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket may have 107 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


MADE = [a_pipe, a_link_to_a_pipe, a_link_to_a_device, a_socket]
Make = Callable[[Path], None]


@pytest.mark.parametrize("make", MADE)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "rates.yaml")
    files = LocalFiles(tmp_path)
    for read in (files.read, files.open, files.digest):
        with pytest.raises(NotRegular):
            read("rates.yaml")


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("reference", [REFERENCE, WHO_APPROVES], ids=lambda each: each.name)
def test_a_reference_that_is_no_regular_file_is_one_sentence(tmp_path: Path, make: Make, reference: Reference) -> None:
    make(tmp_path / f"{reference.name}.yaml")
    with pytest.raises(ReferenceBroken, match=rf"{reference.name}.yaml: is not a regular file"):
        load_reference(reference, LocalFiles(tmp_path))


@pytest.mark.parametrize("make", MADE)
def test_a_version_that_is_named_by_the_path_of_a_pipe_is_one_sentence(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "other.yaml")
    (tmp_path / "rates.yaml").write_text('version: "1"', encoding="utf-8")
    reference = Reference(name="rates", parse=lambda document: type("Rates", (), document)())
    present = load_reference(reference, LocalFiles(tmp_path))
    path = str(tmp_path / "other.yaml")
    with pytest.raises(ReferenceBroken, match="is not a regular file"):
        find_version(reference, path, present=present, archived=LocalFiles(tmp_path), used=())


def test_a_folder_as_a_reference_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "rates.yaml").mkdir()
    with pytest.raises(ReferenceNotRead):
        load_reference(REFERENCE, LocalFiles(tmp_path))


@pytest.mark.parametrize("make", MADE)
def test_a_file_to_land_that_is_no_regular_file_is_refused(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "sales.csv")
    with pytest.raises(FileRefused, match="is not a regular file"):
        FileCapture(tmp_path / "sales.csv").require()


def test_a_regular_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with open_regular(tmp_path / "two") as file:
        assert file.read() == b"1"
