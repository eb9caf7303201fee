"""What the archive keeps of code: lines that a digest leads to, once per module, and no values."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.core.errors import MissingInput
from backfill_assets.files.local import LocalFiles
from backfill_assets.transforms.code import (
    Code,
    DomainCode,
    archived,
    changed_in_code_archive,
    differences,
    digests_like,
    keep,
    reached_texts,
    text_of_module,
    texts_now,
    what_changed,
)
from backfill_assets_tests.support.advice import has_code

NAME = "archived_shop"
FILES = {
    "__init__.py": """
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import Domain, SourceTable, daily, derived_table
from .rules import counted
sales = SourceTable(
    name="bronze.sales", key=("sale_id",), event_time="sold_at", partition=daily("sold_on"),
    schema=StructType([StructField("sale_id", StringType(), False), StructField("sold_at", TimestampType(), False)]),
)
@derived_table(
    name="silver.first", inputs={"sales": sales}, key=("day",), partition=daily("day"), version="1.0.0",
    schema=StructType([StructField("day", DateType(), nullable=False)]),
)
def first(sales, ctx):
    return counted(sales)
DOMAIN = Domain(name="archived_shop", package=__name__, sources=(sales,), derived=(first,))
""",
    "rules.py": """
import os
LEAST = int(os.environ.get("LEAST", "1"))
TOKEN = os.environ.get("TOKEN", "")

def counted(sales):
    return sales.where(f"amount > {LEAST}") if TOKEN or True else sales

def unused(sales):
    return "never"
""",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a small domain."""
    folder = tmp_path / NAME
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield folder
    forget()


def forget() -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[module]


def code() -> Code:
    """The code of the table, in a process that has imported nothing of it."""
    forget()
    importlib.invalidate_caches()
    domain = importlib.import_module(NAME).DOMAIN
    return DomainCode(domain=domain).of(domain.tables["silver.first"], "1.0.0")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    # A file of the same size that is edited within a second passes for the compiled one.
    for compiled in path.parent.glob("__pycache__/*"):
        compiled.unlink()


def kept(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "archive")


def test_a_digest_leads_to_the_lines_that_it_is_over(shop: Path, tmp_path: Path) -> None:
    files, present = kept(tmp_path), code()
    sha256 = keep(present, files)
    found = archived(present.digest, files)
    assert found is not None and found.sha256 == sha256 == keep(present, files)
    assert {each.name: each.path for each in found.modules} == {
        NAME: f"{NAME}/__init__.py",
        f"{NAME}.rules": f"{NAME}/rules.py",
    }
    assert reached_texts(found, files) == texts_now(present)
    assert "unused" not in texts_now(present)[f"{NAME}.rules"]
    (rules,) = (each for each in found.modules if each.name == f"{NAME}.rules")
    assert text_of_module(rules.source, files) == (shop / "rules.py").read_text(encoding="utf-8")
    assert digests_like(present.digest[:8], files) == (present.digest,)


def test_a_module_that_stays_is_kept_once(shop: Path, tmp_path: Path) -> None:
    files = kept(tmp_path)
    keep(code(), files)
    before = {each.path: each.stamp for each in files.listed()}
    edit(shop / "rules.py", "amount >", "amount >=")
    keep(code(), files)
    after = {each.path: each.stamp for each in files.listed()}
    # The list, and the module's lines that count and its whole text; of the other one nothing.
    assert len(after) == len(before) + 3
    assert before.items() <= after.items()


def test_what_changed_is_named_by_module_and_function(shop: Path, tmp_path: Path) -> None:
    files, before = kept(tmp_path), code()
    keep(before, files)
    edit(shop / "rules.py", "amount >", "amount >=")
    after = code()
    assert what_changed(archived(before.digest, files), after, files) == f"{NAME}.rules (counted)"
    (change,) = differences(texts_now(before), texts_now(after))
    assert [line for line in change.lines if line[:1] in "+-"][2:] == [
        '-    return sales.where(f"amount > {LEAST}") if TOKEN or True else sales',
        '+    return sales.where(f"amount >= {LEAST}") if TOKEN or True else sales',
    ]


def test_a_difference_is_cut_and_says_how_much_is_left_out() -> None:
    before = {"a": "x = 1\n", "b": "".join(f"line_{n} = 1\n" for n in range(50))}
    after = {"a": "x = 2\n", "b": "".join(f"line_{n} = 2\n" for n in range(50))}
    whole = {each.module: len(each.lines) for each in differences(before, after)}
    cut = list(differences(before, after, most=20))
    assert sum(len(each.lines) for each in cut) == 20
    assert {each.module: len(each.lines) + each.left_out for each in cut} == whole


def test_where_not_all_lines_fit_the_own_module_comes_first_and_functions_before_names_without_imports() -> None:
    def text(n: int) -> str:
        imports = "".join(f"import of_{n}_{each}\n" for each in range(40))
        names = "".join(f"NAME_{each} = {n}\n" for each in range(40))
        gap = "".join(f"SAME_{each} = 0\n" for each in range(20))
        return f"{imports}{names}{gap}def counted():\n    return {n}\n"

    modules = ["a_helper", "b_helper", "own", "z_helper"]
    found = list(differences(dict.fromkeys(modules, text(1)), dict.fromkeys(modules, text(2)), most=60, first="own"))
    assert [each.module for each in found] == ["own", "a_helper", "b_helper", "z_helper"]
    assert [len(each.lines) for each in found] == [30, 10, 10, 10]
    for each in found:
        assert {"-    return 1", "+    return 2"} <= set(each.lines), each.module
        assert "import" not in " ".join(each.lines)
    (whole,) = differences({"own": text(1)}, {"own": text(2)})
    assert not whole.left_out and "+import of_2_0" in whole.lines


@pytest.mark.parametrize(
    ("before", "after"), [("", "x = 1\n"), ("x = 1\n", ""), ("a\nb\nc\n" * 9, "a\nc\nb\n" * 7), ("a\n", "b\n")]
)
def test_all_lines_of_a_difference_are_those_of_the_unified_format(before: str, after: str) -> None:
    expected = difflib.unified_diff(before.splitlines(), after.splitlines(), "before/m", "after/m", lineterm="")
    (found,) = differences({"m": before}, {"m": after})
    assert list(found.lines) == list(expected)


def test_another_value_by_the_same_lines_is_named_and_never_kept(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "a-long-secret-of-somebody")
    files, before = kept(tmp_path), code()
    keep(before, files)
    monkeypatch.setenv("LEAST", "7")
    after = code()
    assert after.digest != before.digest
    assert f"the value of {NAME}.rules.LEAST" in what_changed(archived(before.digest, files), after, files)
    keep(after, files)
    kept_bytes = b"".join(files.read(each.path) for each in files.listed())
    assert b"a-long-secret-of-somebody" not in kept_bytes
    assert {len(digits) for digits in before.values.values()} == {3}


def test_code_that_was_edited_or_removed_in_the_archive_is_found(shop: Path, tmp_path: Path) -> None:
    files, present = kept(tmp_path), code()
    cited = [(present.digest, keep(present, files))]
    assert list(changed_in_code_archive(cited, files, is_quick=False)) == []
    for each in list(files.listed()):
        path = tmp_path / "archive" / each.path
        text = path.read_bytes()
        path.write_bytes(text + b" ")
        assert list(changed_in_code_archive(cited, files, is_quick=False)), each.path
        path.unlink()
        assert list(changed_in_code_archive(cited, files, is_quick=True)), each.path
        path.write_bytes(text)
    assert list(changed_in_code_archive(cited, files, is_quick=False)) == []


def test_a_list_that_somebody_put_there_for_other_lines_is_refused(shop: Path, tmp_path: Path) -> None:
    files = kept(tmp_path)
    keep(code(), files)
    (old,) = (tmp_path / "archive" / "code").glob("*.json")
    edit(shop / "rules.py", "amount >", "amount >=")
    present = code()
    old.rename(old.with_name(f"{present.digest}.json"))
    with pytest.raises(MissingInput, check=has_code("code_list_of_other_code")):
        keep(present, files)


def test_a_text_that_the_archive_has_lost_is_not_shown_as_code_that_was_added(shop: Path, tmp_path: Path) -> None:
    files, present = kept(tmp_path), code()
    keep(present, files)
    found = archived(present.digest, files)
    assert found is not None
    (rules,) = (each for each in found.modules if each.name == f"{NAME}.rules")
    (tmp_path / "archive" / "code" / f"{rules.reached}.txt").unlink()
    (change,) = differences(reached_texts(found, files), texts_now(present))
    assert any("does not have this text" in line for line in change.lines)


def test_a_module_from_another_folder_has_the_place_of_its_name(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    shop.rename(tmp_path / "src" / NAME)
    sys.path[0] = str(tmp_path / "src")
    (tmp_path / "tried").mkdir()
    (tmp_path / "tried" / "variant_of_rules.py").write_text(
        "def doubled(sales, ctx):\n    return sales\n", encoding="utf-8"
    )
    sys.path.insert(0, str(tmp_path / "tried"))
    importlib.invalidate_caches()
    forget()
    domain = importlib.import_module(NAME).DOMAIN
    (first,) = domain.derived
    variant = replace(first, releases=(replace(first.releases[0], function=variant_of_rules().doubled),))
    found = DomainCode(domain=replace(domain, derived=(variant,))).of(variant, "1.0.0")
    assert [each.path for each in found.texts] == ["variant_of_rules.py"]


def variant_of_rules() -> ModuleType:
    return importlib.import_module("variant_of_rules")
