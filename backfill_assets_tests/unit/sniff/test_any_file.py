"""Whatever a file holds, something is proposed that loads, or one sentence says why not."""

from __future__ import annotations

import gzip
import io
import json
import time
import zipfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backfill_assets.core.errors import BackfillError
from backfill_assets.report.sniffed import document_of, python_of
from backfill_assets.sniff.propose import propose
from backfill_assets.sniff.sample import HEAD_BYTES, PART_BYTES, PARTS, WHOLE_BYTES

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
names = st.text(max_size=12)
values = st.one_of(
    st.text(max_size=8),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.dates().map(str),
    st.sampled_from(["NA", "", "true", "1,5", "2020-01-01T00:00:00Z", "1602629755622", "01/02/2020"]),
)
tables = st.integers(1, 6).flatmap(
    lambda width: st.tuples(
        st.lists(names, min_size=width, max_size=width),
        st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=8),
        st.sampled_from([",", ";", "\t", "|"]),
    )
)


def outcome(content: bytes, name: str, folder: Path) -> object:
    path = folder / name
    path.write_bytes(content)
    try:
        proposal = propose([path], as_of=AS_OF)
        text = python_of(proposal)
    except BackfillError as error:
        return error
    module = ModuleType("proposed")
    exec(compile(text, "proposed.py", "exec"), vars(module))
    assert document_of(proposal).module == text
    return module.DOMAIN


every = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.long
@every
@given(tables)
@example((["at", "at", "AT", "", "file_name", "day"], [["2020-01-01"] * 6] * 3, ","))
@example((["year", "month", "day"], [["2020", "1", "1"]] * 3, ","))
def test_rows_of_anything(tmp_path: Path, table: tuple[list[str], list[list[str]], str]) -> None:
    header, rows, delimiter = table
    text = "\n".join(delimiter.join(row) for row in [header, *rows])
    assert outcome(text.encode("utf-8", "surrogatepass"), "any.csv", tmp_path)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), values),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.long
@every
@given(st.lists(st.dictionaries(names, json_values, max_size=4), min_size=1, max_size=5), st.sampled_from(range(4)))
def test_documents_of_anything(tmp_path: Path, records: list[dict[str, object]], how: int) -> None:
    for each in records:
        each["at"] = "2026-03-01T00:00:00Z"
    written = [
        "\n".join(map(json.dumps, records)),
        json.dumps(records),
        json.dumps({"meta": {"n": 1}, "data": {"rows": records}}, indent=1),
        "".join(map(json.dumps, records)),
    ][how]
    found = outcome(written.encode(), "any.json", tmp_path)
    assert not isinstance(found, BackfillError), found


@every
@given(st.binary(min_size=1, max_size=300))
def test_bytes_of_anything(tmp_path: Path, content: bytes) -> None:
    for packed in (content, gzip.compress(content), b"PK\x03\x04" + content, b"PAR1" + content, b"\xff\xfe" + content):
        assert outcome(packed, "any.csv", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("packed", ["", "gzip", "zip"])
def test_of_a_large_file_a_bounded_part_is_read_and_said(packed: str, tmp_path: Path) -> None:
    first = date(2000, 1, 1)
    lines = ["id,day,value,note"]
    lines += [f"{n},{first + timedelta(days=n // 40)},{n % 977}.5,{'x' * 60}" for n in range(400_000)]
    content = ("\n".join(lines) + "\n").encode()
    name = "large.csv"
    if packed == "gzip":
        content, name = gzip.compress(content, compresslevel=1), "large.csv.gz"
    elif packed == "zip":
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("large.csv", content)
        content, name = archive.getvalue(), "large.csv.zip"
    path = tmp_path / name
    path.write_bytes(content)
    began = time.monotonic()
    found = propose([path], as_of=AS_OF)
    took = time.monotonic() - began
    (looked,) = found.looked
    assert not looked.is_whole
    assert looked.read_bytes <= max(WHOLE_BYTES, HEAD_BYTES + PARTS * PART_BYTES)
    assert (found.key, found.event_time) == (("id",), "day")
    of_whole = " unpacked" if packed else f" of {looked.size_bytes:,}"
    assert f"{looked.read_bytes:,}{of_whole} bytes read" in python_of(found)
    if not packed:
        assert found.last_on == first + timedelta(days=399_999 // 40)
    assert took < 20


def test_files_of_one_kind_are_looked_at_together(tmp_path: Path) -> None:
    for name, header in (("a.csv", "id,at"), ("b.csv", "id,at,x"), ("c.csv", "id,at,x")):
        (tmp_path / name).write_text(f"{header}\n" + "".join(f"{n},2026-03-01T00:00:00Z,1\n" for n in range(9)))
    found = propose([tmp_path / name for name in ("a.csv", "b.csv", "c.csv")], as_of=AS_OF)
    assert [each.file for each in found.looked] == ["a.csv", "b.csv", "c.csv"]
    assert [doubt.values[0] for doubt in found.doubts if doubt.kind == "other columns"] == ["a.csv"]
