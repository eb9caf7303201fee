"""What is proposed for a file is taken by landing: the file is not refused as a whole."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.capture.files.file_capture import kind_of
from backfill_assets.domain import SourceTable
from backfill_assets.landing.decoding.decode import decode, formats
from backfill_assets.landing.probe import Probe, probe
from backfill_assets.sniff.propose import propose
from backfill_assets_tests.support.proposed import declared
from backfill_assets_tests.support.public_files import SHAPES, Shape

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)


def probed(path: Path, source: SourceTable) -> Probe:
    """What landing finds in a file before anything is recorded of it."""
    kind, into = kind_of(path, formats(source)), path.parent / "decoded"
    read = decode(path, kind, source, name=path.name, into=into)
    return probe(into if read else path, read or kind, source, name=path.name)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_column_of_a_public_file_is_missing(shape: Shape, tmp_path: Path) -> None:
    path = tmp_path / shape.file
    path.write_bytes(shape.write())
    assert probed(path, declared(propose([path], name="bronze.any", as_of=AS_OF))).missing_columns == ()


names = st.lists(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=10).map(
        str.strip
    ),
    min_size=2,
    max_size=6,
).filter(lambda found: all(found) and not any(name[0] in "#%!*'\"" for name in found))
cells = st.one_of(
    st.integers(-(10**6), 10**9).map(str),
    st.decimals(-(10**6), 10**6, places=2).map(str),
    st.sampled_from(["", "NA", "true", "x, y", "a;b", 'say "hi"', "it's", "1,234"]),
    st.text("abc äß", min_size=1, max_size=8),
)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names, st.data(), st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_rows_of_any_table_are_taken(
    tmp_path: Path, header: list[str], data: st.DataObject, delimiter: str, encoding: str
) -> None:
    row = st.lists(cells, min_size=len(header), max_size=len(header))
    rows = data.draw(st.lists(row, min_size=5, max_size=12))
    at = [f"{datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n):%Y-%m-%dT%H:%M:%SZ}" for n in range(len(rows))]
    text = io.StringIO()
    write = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    write.writerows([["happened_at", *header], *([time, *row] for time, row in zip(at, rows, strict=True))])
    path = tmp_path / "any.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    source = declared(propose([path], name="bronze.any", as_of=AS_OF))
    found = probed(path, source)
    assert found.missing_columns == ()
    assert source.event_time == "happened_at"


members = st.dictionaries(
    st.text("abcdeAB_ .-", min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2)),
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(members, min_size=2, max_size=5), st.sampled_from(["array", "lines", "list", "row", "pretty"]))
def test_records_of_any_document_are_taken(tmp_path: Path, records: list[dict[str, object]], how: str) -> None:
    for number, each in enumerate(records):
        each["happened_at"] = f"2026-03-{number + 1:02}T00:00:00Z"
    written = {
        "array": json.dumps(records),
        "lines": "\n".join(map(json.dumps, records)),
        "list": json.dumps({"meta": {"count": 2}, "result": {"rows": records}}),
        "row": "".join(map(json.dumps, records)),
        "pretty": "\n".join(json.dumps(each, indent=1) for each in records),
    }[how]
    path = tmp_path / "any.json"
    path.write_text(written, encoding="utf-8")
    source = declared(propose([path], name="bronze.any", as_of=AS_OF))
    probed(path, source)
    assert source.event_time == "happened_at"
