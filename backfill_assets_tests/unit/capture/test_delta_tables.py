"""Delta tables of others with every feature that changes what their files mean: the rows of the table, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.errors import CannotBeCaptured, StreamFailed, VersionGone, WentBack
from backfill_assets.capture.lake_tables.declaration import LakeTable
from backfill_assets.capture.lake_tables.delta import DeltaStream
from backfill_assets.capture.streams import Captured, CapturePeriod, Operated, Pace
from backfill_assets_tests.support.delta_by_hand import HandMade, column, with_id

NOW = CapturePeriod(start=None, end=None)
OPERATED = Operated(
    key=("id",),
    column="op",
    create="c",
    update="u",
    snapshot="r",
    delete="d",
    at="lake_committed_at",
    version=1,
    in_events=False,
)


def opened(folder: Path, *, columns: Sequence[str] = (), operated: Operated | None = None, **more: Any) -> DeltaStream:
    declared = LakeTable(url=str(folder), **more)
    return DeltaStream(declared, secret={}, event_time="at", operated=operated, columns=columns)


def captured(folder: Path, scratch: Path, **more: Any) -> list[dict[str, Any]]:
    """The rows that a first capture writes, without what it adds."""
    stream = opened(folder, **more)
    found: list[dict[str, Any]] = []
    resolution = stream.resolve(NOW, ())
    for piece in stream.pieces(resolution.spans[0], ()):
        scratch.unlink(missing_ok=True)
        stream.write(piece, scratch, Pace())
        found += pq.read_table(scratch).drop_columns(["lake_version", "lake_committed_at"]).to_pylist()
    return found


def in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(each, default=str, sort_keys=True) for each in rows)


def nested(number: int) -> dict[str, Any]:
    return {"type": "struct", "fields": [column("x", "long", physical="col-x", number=number)]}


MAPPED = [
    column("id", "long", physical="col-1", number=1),
    column("cents", "long", physical="cents-of-before", number=2),
    column("cents-of-before", "string", physical="col-3", number=3),
    column("shop", "string", physical="col-4", number=4),
    column("place", nested(15), physical="col-5", number=5),
    column(
        "parts",
        {"type": "array", "elementType": nested(16), "containsNull": True},
        physical="col-6",
        number=6,
    ),
    column(
        "named",
        {"type": "map", "keyType": "string", "valueType": nested(17), "valueContainsNull": True},
        physical="col-7",
        number=7,
    ),
]


def mapped_rows(mode: str) -> pa.Table:
    """Three rows as a file has them: by name, or with other names and by id."""
    by_id = mode == "id"

    def own(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return with_id(f"other-{name}", kind, number) if by_id else pa.field(name, kind)

    place, part, value = (pa.struct([own("col-x", pa.int64(), number)]) for number in (15, 16, 17))
    inner = place.field(0).name
    schema = pa.schema(
        [
            own("col-1", pa.int64(), 1),
            own("cents-of-before", pa.int64(), 2),
            own("col-3", pa.string(), 3),
            own("col-5", place, 5),
            own("col-6", pa.list_(part), 6),
            own("col-7", pa.map_(pa.string(), value), 7),
        ]
    )
    columns = (
        [1, 2, 3],
        [10, None, 30],
        ["a", "b", None],
        [{inner: 1}, None, {inner: None}],
        [[{inner: 1}, None], None, []],
        [[("k", {inner: 1})], None, [("n", None)]],
    )
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


LOGICAL: list[dict[str, Any]] = [
    {"id": 1, "cents": 10, "cents-of-before": "a", "shop": "n", "place": {"x": 1}, "parts": [{"x": 1}, None]},
    {"id": 2, "cents": None, "cents-of-before": "b", "shop": "n", "place": None, "parts": None},
    {"id": 3, "cents": 30, "cents-of-before": None, "shop": "n", "place": {"x": None}, "parts": []},
]
for _each, _named in zip(LOGICAL, ([("k", {"x": 1})], None, [("n", None)]), strict=True):
    _each["named"] = _named


@pytest.mark.parametrize("reader", [2, 3])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_are_mapped_have_their_values_by_name_and_by_id(tmp_path: Path, reader: int, mode: str) -> None:
    table = HandMade(folder=tmp_path / "table")
    metadata = table.metadata(MAPPED, partition=["shop"], delta__columnMapping__mode=mode)
    rows = mapped_rows(mode)
    table.commit(table.protocol(reader, "columnMapping"), metadata, table.add(rows, partition={"col-4": "n"}))
    assert captured(table.folder, tmp_path / "copy") == LOGICAL


def test_a_column_that_was_dropped_and_added_again_does_not_have_the_values_of_before(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    mode = {"delta__columnMapping__mode": "name"}
    first = [column("id", "long", physical="id", number=1), column("cents", "long", physical="cents", number=2)]
    again = [first[0], column("cents", "long", physical="col-9", number=3)]
    rows = pa.table({"id": [1], "cents": [10]})
    table.commit(table.protocol(2), table.metadata(first, **mode), table.add(rows))
    table.commit(table.metadata(again, **mode), table.add(pa.table({"id": [2], "col-9": [20]})))
    found = captured(table.folder, tmp_path / "copy")
    assert in_order(found) == in_order([{"id": 1, "cents": None}, {"id": 2, "cents": 20}])


def test_rows_of_deletion_vectors_are_not_captured_also_in_a_folder_with_blanks(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "a table")
    fields = [column("id", "long")]
    rows = pa.table({"id": list(range(20))})
    table.commit(
        table.protocol(3, "deletionVectors"),
        table.metadata(fields),
        table.add(rows, without=[0, 7, 19], row_group_size=5),
        table.add(pa.table({"id": [100, 101]})),
    )
    found = captured(table.folder, tmp_path / "copy")
    assert sorted(row["id"] for row in found) == [*(each for each in range(20) if each not in (0, 7, 19)), 100, 101]


def test_a_deletion_vector_is_of_one_file_also_where_another_folder_has_a_file_of_its_name(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    adds = [table.add(pa.table({"id": [10 * n + each for each in range(3)]}), without=[n]) for n in range(3)]
    paths = ["x.parquet", "a/x.parquet", "b/a/x.parquet"]
    for add, path in zip(adds, paths, strict=True):
        (table.folder / path).parent.mkdir(exist_ok=True, parents=True)
        (table.folder / add["add"]["path"]).rename(table.folder / path)
        add["add"]["path"] = path
    table.commit(table.protocol(3, "deletionVectors"), table.metadata([column("id", "long")]), *adds)
    found = captured(table.folder, tmp_path / "copy")
    assert sorted(row["id"] for row in found) == [1, 2, 10, 12, 20, 21]


def test_types_that_were_widened_have_the_values_of_before(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    fields = [
        column("id", "long"),
        column("rate", "double"),
        column("on", "timestamp_ntz"),
        column("d", "decimal(14,4)"),
    ]
    old = pa.table(
        {
            "id": pa.array([1], pa.int8()),
            "rate": pa.array([0.5], pa.float32()),
            "on": pa.array([date(2026, 1, 2)], pa.date32()),
            "d": pa.array([7], pa.int32()),
        }
    )
    table.commit(table.protocol(3, "typeWidening", "timestampNtz"), table.metadata(fields), table.add(old))
    assert captured(table.folder, tmp_path / "copy") == [
        {"id": 1, "rate": 0.5, "on": datetime.fromisoformat("2026-01-02T00:00:00"), "d": Decimal("7.0000")}
    ]


@pytest.mark.parametrize(
    ("reader", "features", "configuration", "why"),
    [
        (3, ["fooBar"], {}, "it uses the feature fooBar of Delta"),
        (3, ["geospatial"], {}, "it uses the feature geospatial of Delta"),
        (3, ["variantType"], {}, "it uses the feature variantType of Delta"),
        (3, ["variantShredding-preview"], {}, "it uses the feature variantShredding-preview of Delta"),
        (3, ["catalogManaged"], {}, "it uses the feature catalogManaged of Delta"),
        (3, ["columnMapping"], {"delta__columnMapping__mode": "colour"}, "its columns are mapped by colour"),
        (1, [], {"delta__columnMapping__mode": "name"}, "its protocol says that they are not"),
        (3, ["deletionVectors"], {"delta__columnMapping__mode": "name"}, "its protocol says that they are not"),
    ],
)
def test_what_a_capture_does_not_understand_is_refused_by_its_name(
    tmp_path: Path, reader: int, features: list[str], configuration: dict[str, str], why: str
) -> None:
    table = HandMade(folder=tmp_path / "table")
    fields = [column("id", "long", physical="id", number=1)]
    table.commit(
        table.protocol(reader, *features), table.metadata(fields, **configuration), table.add(pa.table({"id": [1]}))
    )
    with pytest.raises(CannotBeCaptured, match=why) as refused:
        captured(table.folder, tmp_path / "copy")
    assert len(refused.value.message.splitlines()) == 1


def test_a_partition_by_a_binary_column_and_a_clone_are_refused(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    fields = [column("id", "long"), column("b", "binary")]
    table.commit(table.protocol(1), table.metadata(fields, partition=["b"]))
    with pytest.raises(CannotBeCaptured, match="partitioned by b, which is binary"):
        captured(table.folder, tmp_path / "copy")
    clone = HandMade(folder=tmp_path / "clone")
    add = clone.add(pa.table({"id": [1]}))
    add["add"]["path"] = f"file://{clone.folder}/{add['add']['path']}"
    clone.commit(clone.protocol(1), clone.metadata(fields[:1]), add)
    with pytest.raises(CannotBeCaptured, match="a clone that has files of another table"):
        captured(clone.folder, tmp_path / "copy")


@pytest.mark.parametrize("records", [0, 1, 10_000])
def test_statistics_that_are_wrong_lose_no_row(tmp_path: Path, records: int) -> None:
    table = HandMade(folder=tmp_path / "table")
    add = table.add(pa.table({"id": list(range(50))}), records=records)
    table.commit(table.protocol(1), table.metadata([column("id", "long")]), add)
    assert len(captured(table.folder, tmp_path / "copy")) == 50


def test_old_timestamps_of_spark_are_not_another_time(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    far = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    rows = pa.table({"at": pa.array([far, datetime(1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    add = table.add(rows)
    pq.write_table(rows, table.folder / add["add"]["path"], use_deprecated_int96_timestamps=True)
    table.commit(table.protocol(1), table.metadata([column("at", "timestamp")]), add)
    assert captured(table.folder, tmp_path / "copy") == rows.to_pylist()


def test_a_page_whose_checksum_does_not_match_is_not_read(tmp_path: Path) -> None:
    table = HandMade(folder=tmp_path / "table")
    rows = pa.table({"id": [200] * 1000})
    add = table.add(rows)
    path = table.folder / add["add"]["path"]
    pq.write_table(rows, path, write_page_checksum=True, compression="none", use_dictionary=False)
    table.commit(table.protocol(1), table.metadata([column("id", "long")]), add)
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StreamFailed):
        captured(table.folder, tmp_path / "copy")


def test_a_column_of_the_contract_that_the_table_lacks_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [1], "remark": ["x"]}))
    stream = opened(tmp_path / "table", columns=("id", "note", "lake_version"))
    with pytest.raises(CannotBeCaptured, match="it has no column note"):
        list(stream.pieces(stream.resolve(NOW, ()).spans[0], ()))


def test_a_version_of_which_files_are_gone_does_not_pass_a_plan(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    write_deltalake(str(folder), pa.table({"id": [1, 2]}))
    write_deltalake(str(folder), pa.table({"id": [3]}), mode="overwrite")
    DeltaTable(str(folder)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    stream = opened(folder, version=0)
    with pytest.raises(VersionGone, match="version 0 of the Delta table"):
        list(stream.pieces(stream.resolve(NOW, ()).spans[0], ()))


def test_changes_of_which_files_are_gone_do_not_pass_a_plan(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(folder), pa.table({"id": [1, 2], "n": [1, 1]}), configuration=feed)
    DeltaTable(str(folder)).update(predicate="id = 1", updates={"n": "7"})
    read = [Captured(partition="0", range_from="0", range_to="1")]
    stream = opened(folder, operated=OPERATED)
    (span,) = stream.resolve(NOW, read).spans
    assert [(each.range_from, each.range_to) for each in stream.pieces(span, read)] == [("1", "2")]
    for each in (folder / "_change_data").rglob("*.parquet"):
        each.unlink()
    with pytest.raises(VersionGone, match="version 1 of the Delta table"):
        opened(folder, operated=OPERATED).resolve(NOW, read)


def test_a_table_that_ends_before_what_was_captured_is_another_history(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    write_deltalake(str(folder), pa.table({"id": [1, 2]}))
    stream = opened(folder)
    with pytest.raises(WentBack, match="ends at version 0 now, and its captures end at version 4"):
        stream.resolve(NOW, [Captured(partition="0", range_from="0", range_to="5")])


@pytest.mark.parametrize("features", [["deletionVectors"], ["columnMapping"]])
def test_with_mapped_columns_or_deletion_vectors_later_versions_are_complete_extracts(
    tmp_path: Path, features: list[str]
) -> None:
    table = HandMade(folder=tmp_path / "table")
    settings = {"delta__enableChangeDataFeed": "true"}
    if features == ["columnMapping"]:
        settings |= {"delta__columnMapping__mode": "name"}
    fields = [column("id", "long", physical="id", number=1)]
    table.commit(table.protocol(3, *features), table.metadata(fields, **settings), table.add(pa.table({"id": [1, 2]})))
    table.commit(table.add(pa.table({"id": [3]})))
    stream = opened(table.folder, operated=OPERATED)
    resolution = stream.resolve(NOW, [Captured(partition="0", range_from="0", range_to="1")])
    assert (resolution.is_whole, resolution.spans[0].partition) == (True, "scan-version-1")


@dataclass(frozen=True)
class Drawn:
    """A file of a random table: its numbers, and the rows that it has lost."""

    numbers: tuple[int, ...]
    lost: frozenset[int]
    shop: str | None


FILES = st.lists(
    st.builds(
        Drawn,
        st.lists(st.integers(0, 99), min_size=1, max_size=9).map(tuple),
        st.frozensets(st.integers(0, 8), max_size=4),
        st.sampled_from(["n", "s", None]),
    ),
    max_size=4,
)


@pytest.mark.long
@given(files=FILES, mode=st.sampled_from(["none", "name", "id"]), has_vectors=st.booleans(), chunk=st.integers(1, 12))
def test_whatever_features_a_table_combines_its_rows_are_those_that_its_log_says(
    files: list[Drawn], mode: str, has_vectors: bool, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    room = tmp_path_factory.mktemp("drawn")
    table = HandMade(folder=room / "table")
    physical = {name: name if mode == "none" else f"col-{number}" for number, name in enumerate(("n", "v", "shop"))}
    kinds = {"n": "long", "v": "string", "shop": "string"}
    fields = [
        column(name, kinds[name], physical=None if mode == "none" else physical[name], number=number + 1)
        for number, name in enumerate(physical)
    ]
    features = [*(["columnMapping"] if mode != "none" else []), *(["deletionVectors"] if has_vectors else [])]
    adds, expected = [], list[dict[str, Any]]()
    for each in files:
        names = ("n", "v") if mode == "id" else (physical["n"], physical["v"])
        schema = pa.schema([with_id(names[0], pa.int64(), 1), with_id(names[1], pa.string(), 2)])
        values = [str(number) for number in each.numbers]
        rows = pa.Table.from_arrays([pa.array(each.numbers, pa.int64()), pa.array(values)], schema=schema)
        lost = sorted(place for place in each.lost if place < len(each.numbers)) if has_vectors else []
        adds.append(table.add(rows, partition={physical["shop"]: each.shop}, without=lost, row_group_size=3))
        kept = [number for place, number in enumerate(each.numbers) if place not in lost]
        expected += [{"n": number, "v": str(number), "shop": each.shop} for number in kept]
    settings = {} if mode == "none" else {"delta__columnMapping__mode": mode}
    table.commit(table.protocol(3, *features), table.metadata(fields, partition=["shop"], **settings), *adds)
    found = captured(table.folder, room / "copy", chunk=chunk)
    assert in_order(found) == in_order(expected)
    if mode != "id":  # there the client itself gives nulls where names differ
        read = QueryBuilder().register("t", DeltaTable(str(table.folder))).execute("SELECT * FROM t")
        assert in_order(pa.table(read.read_all()).to_pylist()) == in_order(found)
