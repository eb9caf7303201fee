"""The file port: one behaviour, over a local folder and over an object store."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

from backfill_assets.core.errors import StoreAway, StoreRefused
from backfill_assets.core.places import StoreAccess, StoreUrl
from backfill_assets.files import files_at
from backfill_assets.files.admission import FOLDER, require_one_winner
from backfill_assets.files.port import Files
from backfill_assets.files.store import StoreFiles
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.s3_server import ACCESS_KEY, REGION, SECRET_KEY, Store

FOLDERS = "_runs/r-1/0001-ab"


@pytest.fixture(params=["folder", "store"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "folder":
        return files_at(tmp_path / "place", StoreAccess())
    store: Store = request.getfixturevalue("store")
    bucket = store.make_bucket(f"b{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}")
    return files_at(StoreUrl(bucket, "some/lake"), StoreAccess.of(store.environment))


def bytes_of(files: Files, path: str) -> bytes:
    with files.open(path) as file:
        return file.read()


def test_of_two_puts_of_one_path_the_first_one_stays(files: Files) -> None:
    assert files.put_if_absent("a/b.json", b"first")
    assert not files.put_if_absent("a/b.json", b"second")
    assert bytes_of(files, "a/b.json") == b"first"


def test_of_eight_writers_of_one_path_one_wins(files: Files) -> None:
    def put(number: int) -> bool:
        return files.put_if_absent("raced", f"{number}".encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(8)))
    assert won.count(True) == 1
    assert bytes_of(files, "raced") == f"{won.index(True)}".encode()


def test_a_local_file_is_put_whole(files: Files, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(bytes(range(256)) * 40_000)
    assert files.put_if_absent("copy", given)
    assert files.digest("copy") == hashlib.sha256(given.read_bytes()).hexdigest()
    state = files.stat("copy")
    assert state is not None and state.size_bytes == 10_240_000


def test_what_is_put_replaces_what_was_there_and_readers_find_one_or_the_other(files: Files, tmp_path: Path) -> None:
    for content in (b"first" * 3_000_000, b"second" * 3_000_000):  # in parts, on a store
        given = tmp_path / content[:6].decode()
        given.write_bytes(content)
        files.put("a/b", given)
        given.unlink()
        assert files.digest("a/b") == hashlib.sha256(content).hexdigest()
    assert [each.path for each in files.listed()] == ["a/b"]


def test_a_file_is_put_from_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    given = tmp_path / "given"
    given.write_bytes(b"content")
    files = files_at(tmp_path / "place", StoreAccess())
    with monkeypatch.context() as patch:
        patch.setattr("os.link", refuse)
        files.put("a/b", given)
    assert bytes_of(files, "a/b") == b"content"
    assert [each.path for each in files.listed()] == ["a/b"]


def test_a_file_is_created_piece_by_piece(files: Files) -> None:
    rows = pa.table({"n": range(100_000)})
    with files.create("a/numbers.parquet") as file, pq.ParquetWriter(file, rows.schema) as writer:
        for batch in rows.to_batches(10_000):
            writer.write_batch(batch)
    with files.open("a/numbers.parquet") as read:
        assert pq.read_table(read).equals(rows)


def test_what_was_not_created_to_its_end_is_not_in_a_store(store: Store) -> None:
    files = files_at(StoreUrl(store.make_bucket("halves"), "lake"), StoreAccess.of(store.environment))
    with pytest.raises(KeyboardInterrupt), files.create("a/b") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert list(files.listed()) == []


def test_files_are_listed_at_any_depth_and_no_sibling_with_them(files: Files) -> None:
    for path in (f"{FOLDERS}/day=2026-01-02/b.parquet", f"{FOLDERS}/day=2026-01-01/a.parquet", f"{FOLDERS}c/x"):
        files.put_if_absent(path, path.encode())
    found = list(files.listed(FOLDERS))
    assert [each.path for each in found] == [
        f"{FOLDERS}/day=2026-01-01/a.parquet",
        f"{FOLDERS}/day=2026-01-02/b.parquet",
    ]
    assert [each.size_bytes for each in found] == [len(each.path) for each in found]
    assert [files.stat(each.path) for each in found] == found
    assert list(files.listed("nowhere")) == []


def test_names_are_taken_as_they_are(files: Files) -> None:
    path = "source=a%3Ab/it's (1)=ü.json"
    files.put_if_absent(path, b"x")
    assert [each.path for each in files.listed()] == [path]
    assert files.digest(path) == hashlib.sha256(b"x").hexdigest()
    files.remove([path])
    assert files.stat(path) is None


def test_a_parquet_footer_is_read_from_a_file_of_the_port(files: Files) -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({"n": range(100_000)}), written)
    files.put_if_absent("numbers.parquet", written.getvalue())
    with files.open("numbers.parquet") as file:
        assert pq.read_metadata(file).num_rows == 100_000
        file.seek(-4, io.SEEK_END)
        assert file.read() == b"PAR1"


def test_a_file_that_is_not_there_has_no_state_and_cannot_be_read(files: Files) -> None:
    assert files.stat("a/b") is None
    for read in (files.open, files.digest):
        with pytest.raises(FileNotFoundError):
            read("a/b")


def test_what_hadoop_leaves_to_mark_a_folder_is_no_file(store: Store) -> None:
    bucket = store.make_bucket("marked")
    far = S3FileSystem(
        access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=store.endpoint, region=REGION, scheme="http"
    )
    far.create_dir(f"{bucket}/lake/full/empty", recursive=True)
    files = files_at(StoreUrl(bucket, "lake"), StoreAccess.of(store.environment))
    files.put_if_absent("full/_SUCCESS", b"")
    assert [each.path for each in files.listed()] == ["full/_SUCCESS"]
    assert list(files.listed("full/empty")) == []


def test_removing_twice_is_removing_once_and_the_rest_stays(files: Files) -> None:
    paths = [f"{FOLDERS}/day=1/{number}" for number in range(3)]
    for path in paths:
        files.put_if_absent(path, b"x")
    for _ in range(2):
        files.remove([*paths[:2], f"{FOLDERS}/never"], within="_runs")
    assert [each.path for each in files.listed()] == paths[2:]


def test_a_file_that_was_written_again_has_another_stamp(files: Files, request: pytest.FixtureRequest) -> None:
    files.put_if_absent("a", b"one")
    before = files.stat("a")
    files.remove(["a"])
    files.put_if_absent("a", b"two")
    after = files.stat("a")
    assert before is not None and after is not None and before.stamp != after.stamp and after.stamp


def test_a_place_that_honours_conditions_is_admitted_and_nothing_is_left(files: Files) -> None:
    require_one_winner(lambda: files, rounds=50)
    assert list(files.listed()) == []


def test_a_store_that_ignores_conditions_is_refused(careless_store: Store) -> None:
    bucket = careless_store.make_bucket("careless")
    access = StoreAccess.of(careless_store.environment)
    place = StoreUrl(bucket, "lake")
    with pytest.raises(StoreRefused, match=r"s3://careless/lake cannot hold a lake: of \d+ keys .* won by up to \d"):
        require_one_winner(lambda: files_at(place, access))
    assert not [path for path in (careless_store.folder / bucket).rglob("*") if path.is_file()]
    assert FOLDER.startswith("_")


WRONG: tuple[tuple[str, Callable[[Store], tuple[StoreUrl, StoreAccess]], str], ...] = (
    (
        "wrong secret",
        lambda store: (StoreUrl("there"), StoreAccess.of({**store.environment, "AWS_SECRET_ACCESS_KEY": "no"})),
        "does not know these credentials",
    ),
    (
        "unknown key",
        lambda store: (StoreUrl("there"), StoreAccess.of({**store.environment, "AWS_ACCESS_KEY_ID": "no"})),
        "does not know these credentials",
    ),
    (
        "no bucket",
        lambda store: (StoreUrl("not-there"), StoreAccess.of(store.environment)),
        "s3://not-there cannot be used: there is no such bucket",
    ),
)


@pytest.mark.parametrize(("wrong", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_the_store_refuses_is_said_in_a_sentence_without_the_secret(
    store: Store, wrong: Callable[[Store], tuple[StoreUrl, StoreAccess]], message: str
) -> None:
    (store.folder / "there").mkdir(exist_ok=True)
    place, access = wrong(store)
    files = files_at(place, access)
    for act in (
        lambda: list(files.listed()),
        lambda: files.open("a"),
        lambda: files.digest("a"),
        lambda: files.put_if_absent("a", b"x"),
    ):
        with pytest.raises(StoreRefused, match=message) as refused:
            act()
        assert SECRET_KEY not in str(refused.value)


def test_a_store_that_is_away_is_asked_again_for_a_while_and_then_named(store: Store) -> None:
    access = replace(StoreAccess.of(store.environment), endpoint="http://127.0.0.1:9")
    files = StoreFiles.at(StoreUrl("there", "lake"), access, patience=timedelta(seconds=1))
    with pytest.raises(StoreAway, match="the store of s3://there/lake does not answer as it should") as away:
        files.put_if_absent("a", b"x")
    assert "continues where this one stopped" in advised(away.value)
