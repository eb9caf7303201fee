"""Several files: those of one kind are looked at as one, and earlier headers become versions of the contract."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.application.sniff import sniffed
from backfill_assets.capture.errors import BadFile
from backfill_assets.report.sniffed import comments_of
from backfill_assets.sniff.proposal import Proposal
from backfill_assets_tests.support.proposed import declared

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)


def proposed(folder: Path, files: dict[str, str]) -> Proposal:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return sniffed([folder], clock=lambda: AS_OF)


def rows(header: str, form: str, *, more: str = "", first: int = 0) -> str:
    days = [date(2020, 3, 1) + timedelta(days=first + number) for number in range(20)]
    return f"{header}\n" + "".join(f"{first + n},{day.strftime(form)},{n}.5{more}\n" for n, day in enumerate(days))


def test_a_header_that_was_renamed_is_a_version_of_the_contract(tmp_path: Path) -> None:
    found = proposed(
        tmp_path / "cases",
        {
            "2020-01.csv": rows("ID,Last Update,Cases", "%m/%d/%Y"),
            "2020-02.csv": rows("ID,Last Update,Cases", "%m/%d/%Y", first=20),
            "2020-03.csv": rows("id,Last_Update,cases,place", "%Y-%m-%d", more=",A", first=40),
        },
    )
    source = declared(found)
    assert (found.name, source.contract_version) == ("bronze.cases", 2)
    assert source.earlier_columns == {1: {"ID": "id", "Last Update": "Last_Update", "Cases": "cases"}}
    assert source.earlier[1].fieldNames() == ["id", "Last_Update", "cases"]
    assert source.schema.fieldNames() == ["id", "Last_Update", "cases", "place"]
    assert source.formats == {"Last_Update": ("MM/dd/yyyy", "yyyy-MM-dd")}
    assert found.records == 60


def test_a_column_that_came_later_needs_no_version_where_it_is_called_as_in_the_file(tmp_path: Path) -> None:
    found = proposed(
        tmp_path / "cases",
        {"a1.csv": rows("id,day,x", "%Y-%m-%d"), "a2.csv": rows("id,day,x,y", "%Y-%m-%d", more=",1")},
    )
    assert (found.name, found.releases) == ("bronze.cases", ())
    assert [each.name for each in found.columns] == ["id", "day", "x", "y"]


def test_what_is_lost_of_an_earlier_file_and_what_is_refused_is_said(tmp_path: Path) -> None:
    lost = proposed(
        tmp_path / "lost",
        {"a1.csv": rows("id,day,x,gone", "%Y-%m-%d", more=",7"), "a2.csv": rows("id,day,x", "%Y-%m-%d")},
    )
    assert any("'a1.csv' has columns that the last file lacks, and that are left out: 'gone'." in each
               for each in comments_of(lost))  # fmt: skip
    refused = proposed(
        tmp_path / "refused",
        {"b1.csv": rows("id,when,x", "%Y-%m-%d"), "b2.csv": rows("id,day,x", "%Y-%m-%d", first=20)},
    )
    said = " ".join(" ".join(comments_of(refused)).split())
    assert "'b1.csv' would be refused: it lacks 'day', or calls it otherwise." in said


def test_texts_for_no_value_of_all_files_are_declared(tmp_path: Path) -> None:
    found = proposed(
        tmp_path / "cases",
        {
            "a1.csv": rows("id,day,x,y", "%Y-%m-%d", more=",1").replace(",3.5,", ",NA,"),
            "a2.csv": rows("id,day,x,y", "%Y-%m-%d", more=",1", first=20).replace(",4.5,", ",-,"),
        },
    )
    assert {*getattr(found.reads, "null", ())} == {"NA", "-"}
    assert [each.kind for each in found.columns] == ["LONG", "DATE", "DOUBLE", "LONG"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["prices_2021.csv", "prices_2022.csv"], "bronze.prices"),
        (["01-22-2020.csv", "03-22-2020.csv"], "bronze.of_a_day"),
    ],
)
def test_the_table_of_several_files_is_called_like_them_or_their_folder(
    names: list[str], expected: str, tmp_path: Path
) -> None:
    texts = {name: rows("id,day,x", "%Y-%m-%d", first=20 * number) for number, name in enumerate(names)}
    assert proposed(tmp_path / "of_a_day", {**texts, "README.md": "of a day"}).name == expected


def test_files_of_a_folder_come_in_the_order_of_their_numbers_and_not_too_many_are_read(tmp_path: Path) -> None:
    texts = {f"part-{number}.csv": rows("id,day,x", "%Y-%m-%d", first=20 * number) for number in range(130)}
    found = proposed(tmp_path / "parts", texts)
    assert [each.file for each in found.looked][:: len(found.looked) - 1] == ["part-0.csv", "part-129.csv"]
    assert len(found.looked) <= 100
    assert f"not sure: {130 - len(found.looked)} files were left out, and may be otherwise." in comments_of(found)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is a folder without files"):
        proposed(tmp_path / "empty", {})
