"""The swap against a real Delta table: all or nothing, compare-and-swap, exactly once. Files written without Spark."""

from __future__ import annotations

import hashlib
import io
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import DateType, LongType, StructField, StructType

from backfill_assets.core.errors import LostRace, MissingInput, OutcomeUnknown, Refused, TargetChanged
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet
from backfill_assets.core.places import StoreAccess, StoreUrl
from backfill_assets.files.port import NoAnswer
from backfill_assets.lake.swap import Exchange, SwapOrder, commits, fence, is_landed, swap
from backfill_assets.lake.tables import Lake, live_paths
from backfill_assets_tests.support.lakes import folder_of, overwrite, use_store
from backfill_assets_tests.support.s3_server import NoStore, Store, running_store
from backfill_assets_tests.support.seams import Seam

TABLE = "silver.numbers"
SCHEMA = StructType([StructField("number", LongType()), StructField("day", DateType())])
DAYS = [f"2026-01-0{number}" for number in range(1, 6)]


@pytest.fixture(params=["folder", "store"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake(root=tmp_path / "lake")
    if request.param == "store":
        store: Store = request.getfixturevalue("store")
        use_store(monkeypatch, store)
        bucket = store.make_bucket(f"swap-{hashlib.sha256(request.node.name.encode()).hexdigest()[:16]}")
        made = Lake(root=StoreUrl(bucket, "lake"), access=StoreAccess.of(store.environment))
        # It is one store, which is asked for its winners elsewhere.
        monkeypatch.setattr("backfill_assets.files.admission._admitted", {(made.root, store.endpoint)})
    made.ensure(TABLE, SCHEMA, "day")
    return made


def staged(lake: Lake, run_id: str, day: str, number: int, column: str = "day") -> FileSet:
    path = f"_runs/{run_id}/{column}={day}/part-0.parquet"
    written = io.BytesIO()
    pq.write_table(pa.table({"number": pa.array([number], pa.int64())}), written)
    overwrite(lake, TABLE, path, written.getvalue())
    return FileSet.of([DataFile(path=path, size_bytes=len(written.getvalue()), rows=1)])


def order(publication_id: str, *exchanges: Exchange) -> SwapOrder:
    return SwapOrder(
        table=TABLE,
        partition_column="day",
        publication_id=publication_id,
        run_id="run",
        exchanges=exchanges,
        committed_at_ms=1,
    )


def seen(lake: Lake) -> dict[str, int]:
    rows = lake.open(TABLE).to_pyarrow_table().to_pylist()
    assert len({row["day"] for row in rows}) == len(rows)
    return {str(row["day"]): row["number"] for row in rows}


def no_wait(seconds: float) -> None:
    """Races are lost at once in tests."""


def test_a_partition_column_of_any_letters_is_exchanged_more_than_once(tmp_path: Path) -> None:
    """A log has percents for letters that are not of ASCII, also where the folder of a partition is named by them."""
    lake, column = Lake(root=tmp_path / "lake"), "día"
    lake.ensure(TABLE, StructType([SCHEMA["number"], StructField(column, DateType())]), column)
    expected = EMPTY_FILE_SET
    for number in range(3):
        new = staged(lake, f"run-{number}", DAYS[0], number, column)
        exchange = Exchange(value=DAYS[0], expected=expected, new=new)
        swap(lake, replace(order(f"publication-{number}", exchange), partition_column=column))
        assert live_paths(lake, TABLE) == set(new.paths)
        assert [row["number"] for row in lake.open(TABLE).to_pyarrow_table().to_pylist()] == [number]
        expected = new


FIRST_ROW = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg00000",
    "sizeInBytes": 34,
    "cardinality": 1,
}
"""A deletion vector of Delta."""


def test_a_file_in_which_another_writer_marked_rows_as_deleted_is_not_what_was_published(tmp_path: Path) -> None:
    """To remove it by its path would leave it in the table, beside the new file."""
    lake, day = Lake(root=tmp_path / "lake"), DAYS[0]
    lake.ensure(TABLE, SCHEMA, "day")
    old, new = (staged(lake, run, day, 1) for run in ("old", "new"))
    swap(lake, order("first", Exchange(value=day, new=old)))
    (file,) = old.files
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    whole = {"path": file.path, "partitionValues": {"day": day}, "size": file.size_bytes, "dataChange": True}
    marked = {**whole, "modificationTime": 1, "stats": json.dumps({"numRecords": 1}), "deletionVector": FIRST_ROW}
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {**whole, "deletionTimestamp": 1, "extendedFileMetadata": True}},
        {"add": marked},
        {"commitInfo": {"operation": "DELETE"}},
    ]
    overwrite(lake, TABLE, f"_delta_log/{2:020}.json", "\n".join(map(json.dumps, actions)).encode())
    exchange = Exchange(value=day, expected=old, new=new)
    with pytest.raises(TargetChanged, match=day):
        swap(lake, order("second", exchange))
    lake.open(TABLE).restore(1)
    swap(lake, order("third", exchange))
    assert live_paths(lake, TABLE) == set(new.paths)


def test_every_declared_partition_changes_and_no_other(lake: Lake) -> None:
    old = {day: staged(lake, "old", day, 1) for day in DAYS}
    swap(lake, order("first", *(Exchange(value=day, new=old[day]) for day in DAYS)))
    new = staged(lake, "new", DAYS[1], 2)
    swap(lake, order("second", Exchange(value=DAYS[1], expected=old[DAYS[1]], new=new)))
    assert seen(lake) == {**dict.fromkeys(DAYS, 1), DAYS[1]: 2}


def test_one_changed_partition_refuses_all_of_them(lake: Lake) -> None:
    old = {day: staged(lake, "old", day, 1) for day in DAYS}
    swap(lake, order("first", *(Exchange(value=day, new=old[day]) for day in DAYS)))
    new = {day: staged(lake, "new", day, 2) for day in DAYS}
    wrong = [Exchange(value=day, expected=old[day], new=new[day]) for day in DAYS[:-1]]
    with pytest.raises(TargetChanged, match=DAYS[-1]):
        swap(lake, order("second", *wrong, Exchange(value=DAYS[-1], new=new[DAYS[-1]])))
    assert seen(lake) == dict.fromkeys(DAYS, 1)


def test_swapping_back_restores_the_same_files(lake: Lake) -> None:
    old, new = staged(lake, "old", DAYS[0], 1), staged(lake, "new", DAYS[0], 2)
    swap(lake, order("first", Exchange(value=DAYS[0], new=old)))
    before = set(lake.open(TABLE).file_uris())
    swap(lake, order("second", Exchange(value=DAYS[0], expected=old, new=new)))
    swap(lake, order("third", Exchange(value=DAYS[0], expected=new, new=old)))
    assert set(lake.open(TABLE).file_uris()) == before


def test_the_same_publication_twice_changes_nothing_the_second_time(lake: Lake) -> None:
    exchange = Exchange(value=DAYS[0], new=staged(lake, "old", DAYS[0], 1))
    version = swap(lake, order("first", exchange))
    assert swap(lake, order("first", exchange)) == version
    assert lake.open(TABLE).version() == version


def test_an_append_between_compare_and_commit_is_noticed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = staged(lake, "old", DAYS[0], 1), staged(lake, "new", DAYS[0], 2)
    swap(lake, order("first", Exchange(value=DAYS[0], new=old)))
    commit = Seam.COMMIT.present

    def append_first(handle: object, wanted: SwapOrder) -> None:
        Seam.COMMIT.put(monkeypatch, commit)
        foreign = pa.table({"number": pa.array([9], pa.int64()), "day": pa.array([date(2026, 1, 1)], pa.date32())})
        write_deltalake(lake.url(TABLE), foreign, mode="append", storage_options=lake.storage_options)
        commit(handle, wanted)

    Seam.COMMIT.put(monkeypatch, append_first)
    with pytest.raises(TargetChanged):
        swap(lake, order("second", Exchange(value=DAYS[0], expected=old, new=new)), wait=no_wait)
    assert sorted(row["number"] for row in lake.open(TABLE).to_pyarrow_table().to_pylist()) == [1, 9]


def test_an_append_to_another_partition_only_costs_another_try(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = staged(lake, "old", DAYS[0], 1), staged(lake, "new", DAYS[0], 2)
    swap(lake, order("first", Exchange(value=DAYS[0], new=old)))
    commit = Seam.COMMIT.present

    def append_first(handle: object, wanted: SwapOrder) -> None:
        Seam.COMMIT.put(monkeypatch, commit)
        foreign = pa.table({"number": pa.array([9], pa.int64()), "day": pa.array([date(2026, 1, 9)], pa.date32())})
        write_deltalake(lake.url(TABLE), foreign, mode="append", storage_options=lake.storage_options)
        commit(handle, wanted)

    Seam.COMMIT.put(monkeypatch, append_first)
    swap(lake, order("second", Exchange(value=DAYS[0], expected=old, new=new)), wait=no_wait)
    assert seen(lake) == {DAYS[0]: 2, "2026-01-09": 9}


def test_a_writer_that_is_always_first_makes_us_give_up_with_nothing_changed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = staged(lake, "new", DAYS[0], 2)
    commit = Seam.COMMIT.present
    turns = iter(range(100))

    def always_first(handle: object, wanted: SwapOrder) -> None:
        foreign = {"number": pa.array([next(turns)], pa.int64()), "day": pa.array([date(2026, 2, 1)], pa.date32())}
        write_deltalake(lake.url(TABLE), pa.table(foreign), mode="append", storage_options=lake.storage_options)
        commit(handle, wanted)

    Seam.COMMIT.put(monkeypatch, always_first)
    with pytest.raises(LostRace):
        swap(lake, order("unlucky", Exchange(value=DAYS[0], new=new)), wait=no_wait)
    assert not is_landed(lake, TABLE, "unlucky")


def test_a_commit_whose_answer_was_lost_is_not_refused_by_a_store_that_is_away_then(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = order("late", Exchange(value=DAYS[0], new=staged(lake, "new", DAYS[0], 2)))
    commit, sent = Seam.COMMIT.present, []

    def lost(*given: object) -> None:
        sent.append(given)
        raise OSError("timed out")

    def away(self: Lake, table: str) -> None:
        raise NoAnswer(place=self.url(table), why="it does not answer")

    with monkeypatch.context() as patch:
        Seam.COMMIT.put(patch, lost)
        with pytest.raises(OutcomeUnknown):
            swap(lake, wanted, wait=lambda _: patch.setattr(Lake, "open", away))
    commit(*sent[0])
    assert seen(lake) == {DAYS[0]: 2}, "the store took it after all"


def test_a_staged_file_that_is_gone_is_refused_before_anything(lake: Lake) -> None:
    new = staged(lake, "new", DAYS[0], 2)
    (folder_of(lake, TABLE) / new.files[0].path).unlink()
    with pytest.raises(MissingInput, match="is gone"):
        swap(lake, order("first", Exchange(value=DAYS[0], new=new)))
    assert lake.open(TABLE).version() == 0


def test_empty_partitions_are_swapped_and_compared_like_any_other(lake: Lake) -> None:
    swap(lake, order("nothing", Exchange(value=DAYS[0])))
    assert is_landed(lake, TABLE, "nothing")
    swap(lake, order("something", Exchange(value=DAYS[0], new=staged(lake, "new", DAYS[0], 2))))
    with pytest.raises(TargetChanged):
        swap(lake, order("late", Exchange(value=DAYS[0], expected=EMPTY_FILE_SET)))


def test_a_fenced_publication_can_never_land(lake: Lake) -> None:
    assert fence(lake, TABLE, "slow") is None
    with pytest.raises(Refused, match="abandoned by a recovery"):
        swap(lake, order("slow", Exchange(value=DAYS[0], new=staged(lake, "new", DAYS[0], 2))))
    assert fence(lake, TABLE, "slow") is None
    assert seen(lake) == {}


def test_a_landed_publication_cannot_be_fenced(lake: Lake) -> None:
    version = swap(lake, order("quick", Exchange(value=DAYS[0], new=staged(lake, "new", DAYS[0], 2))))
    assert fence(lake, TABLE, "quick") == version


@pytest.mark.parametrize("seed", range(8))
def test_of_rivals_for_the_same_partitions_exactly_one_wins_each_round(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    present = dict.fromkeys(DAYS, EMPTY_FILE_SET)
    for turn in range(3):
        rivals = []
        for name in ("a", "b", "c"):
            days = [DAYS[0], *chance.sample(DAYS[1:], chance.randint(0, 4))]
            new = {day: staged(lake, f"{name}{turn}", day, turn * 10 + ord(name)) for day in days}
            exchanges = [Exchange(value=day, expected=present[day], new=new[day]) for day in days]
            rivals.append((order(f"{name}{turn}", *exchanges), new))
        outcomes: dict[str, str] = {}

        def compete(wanted: SwapOrder, outcomes: dict[str, str] = outcomes) -> None:
            try:
                swap(lake, wanted)
            except (TargetChanged, LostRace) as refusal:
                outcomes[wanted.publication_id] = type(refusal).__name__
            else:
                outcomes[wanted.publication_id] = "landed"

        threads = [threading.Thread(target=compete, args=(wanted,)) for wanted, _ in rivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [(wanted, new) for wanted, new in rivals if outcomes[wanted.publication_id] == "landed"]
        assert len(winners) == 1, (seed, outcomes)
        present = {**present, **winners[0][1]}
        live = {path.split("/")[1] for path in lake.open(TABLE).get_add_actions().column("path").to_pylist()}
        assert live == {file_set.files[0].path.split("/")[1] for file_set in present.values() if file_set.files}


def test_every_commit_says_which_publication_it_is(lake: Lake) -> None:
    swap(lake, order("first", Exchange(value=DAYS[0], new=staged(lake, "new", DAYS[0], 2))))
    told = dict(commits(lake, TABLE))
    assert told[1]["publication_id"] == "first"
    assert told[0]["created_by"] == "backfill_assets"


@pytest.mark.long
def test_a_store_that_is_away_for_a_moment_delays_a_swap_and_loses_nothing() -> None:
    with short_lived_store() as store:
        bucket = store.make_bucket("away")
        lake = Lake(root=StoreUrl(bucket, "lake"), access=StoreAccess.of(store.environment))
        lake.ensure(TABLE, SCHEMA, "day")
        files = staged(lake, "run", DAYS[0], 7)
        store.stop()
        back = threading.Timer(2.0, store.start)
        back.start()
        try:
            swap(lake, order("late", Exchange(value=DAYS[0], new=files)), wait=no_wait)
        finally:
            back.join()
        assert seen(lake) == {DAYS[0]: 7}
        assert [commit.get("publication_id") for _, commit in commits(lake, TABLE)].count("late") == 1


@contextmanager
def short_lived_store() -> Iterator[Store]:
    try:
        with running_store() as started:
            yield started
    except NoStore as reason:
        pytest.skip(f"OBJECT STORES ARE NOT TESTED: {reason}")
