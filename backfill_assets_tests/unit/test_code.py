"""What identifies the code of a table: the modules that its function reaches, and no others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from backfill_assets.domain import Domain
from backfill_assets.domains.enforcement_sla import DOMAIN
from backfill_assets.landing.imports import LOAD_VERSION
from backfill_assets.transforms.code import Code, DomainCode

NAME = "corner_shop"

TABLES = """
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import SourceTable, daily
sales = SourceTable(
    name="bronze.sales", key=("sale_id",), event_time="sold_at", partition=daily("sold_on"),
    schema=StructType([StructField("sale_id", StringType(), False), StructField("sold_at", TimestampType(), False)]),
)
"""

TABLE = """
from pyspark.sql.types import DateType, StructField, StructType
from backfill_assets.domain import derived_table, daily
{imports}
@derived_table(
    name="silver.{name}", inputs={{"{argument}": {input}}}, key=("day",), partition=daily("day"),
    schema=StructType([StructField("day", DateType(), nullable=False)]), version="1.0.0", earlier={{{earlier}}},
)
def {name}({argument}, ctx):
    {body}
    return {argument}
"""

FILES: Mapping[str, str] = {
    "__init__.py": f"""
from backfill_assets.domain import Domain
from .demo import write_files
from .first import first
from .second import second
from .sources import sales
DOMAIN = Domain(name="{NAME}", package=__name__, sources=(sales,), derived=(first, second))
""",
    "sources.py": TABLES,
    "demo.py": "import random\ndef write_files(): ...\n",
    "first.py": TABLE.format(
        name="first", argument="sales", input="sales", earlier='"0.9.0": older', body="from .deep.inside import late",
        imports="from .sources import sales\nfrom . import rules\nfrom .before import older",
    ),
    "second.py": TABLE.format(
        name="second", argument="first", input="first", earlier="", body="pass",
        imports=f"from {NAME}.first import first\nimport {NAME}_beside.words",
    ),
    "before.py": "from .old_rules import X\ndef older(sales, ctx): return sales\n",
    "old_rules.py": "X = 1\n",
    "rules.py": "from .numbers import *\n",
    "numbers.py": "ONE = 1\n",
    "deep/__init__.py": "",
    "deep/inside.py": "from ..rules import ONE as late\n",
    "by_name.py": "import importlib\ndef load(name): return importlib.import_module(name)\n",
}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a small domain whose modules import each other, with a package beside it."""
    for name, text in {**FILES, f"../{NAME}_beside/__init__.py": "", f"../{NAME}_beside/words.py": ""}.items():
        path = tmp_path / NAME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path / NAME
    for module in [each for each in sys.modules if each.partition(".")[0] in (NAME, f"{NAME}_beside")]:
        del sys.modules[module]


def code_of(table: str, version: str = "1.0.0") -> Code:
    domain: Domain = importlib.import_module(NAME).DOMAIN
    return DomainCode(domain=domain).of(domain.table(table), version)


def digests() -> Mapping[str, str]:
    every = (("first", "1.0.0"), ("first", "0.9.0"), ("second", "1.0.0"))
    return {f"{table} {version}": code_of(table, version).digest for table, version in every}


def append(path: Path, text: str = "# a remark\n") -> Callable[[], object]:
    before = path.read_text(encoding="utf-8")
    path.write_text(before + text, encoding="utf-8")
    return lambda: path.write_text(before, encoding="utf-8")


def test_a_table_has_the_modules_that_its_function_reaches(shop: Path) -> None:
    own = ("before", "deep", "deep.inside", "first", "numbers", "old_rules", "rules")
    assert code_of("first").modules == tuple(f"{NAME}.{name}" for name in own)
    assert code_of("second").modules == (f"{NAME}.second", f"{NAME}_beside", f"{NAME}_beside.words")


@pytest.mark.parametrize(
    ("file", "moved"),
    [
        ("demo.py", set()),
        ("__init__.py", set()),
        ("sources.py", set()),
        ("numbers.py", {"first 1.0.0", "first 0.9.0"}),
        ("deep/inside.py", {"first 1.0.0", "first 0.9.0"}),
        ("deep/__init__.py", {"first 1.0.0", "first 0.9.0"}),
        ("second.py", {"second 1.0.0"}),
        (f"../{NAME}_beside/words.py", {"second 1.0.0"}),
    ],
)
def test_an_edit_moves_the_tables_that_reach_the_module_and_no_others(shop: Path, file: str, moved: set[str]) -> None:
    before = digests()
    append(shop / file)
    assert {name for name, digest in digests().items() if digest != before[name]} == moved


def test_an_input_that_the_function_uses_is_code_and_not_only_an_input(shop: Path) -> None:
    append(shop / "second.py", "def more(): return first.releases\n")
    assert f"{NAME}.first" in code_of("second").modules
    append(shop / "first.py", "def more(): return sales.name\n")
    assert f"{NAME}.sources" in code_of("first").modules


def test_what_the_package_itself_holds_is_followed_when_it_is_taken_from_there(shop: Path) -> None:
    append(shop / "rules.py", "def late():\n    from . import DOMAIN\n    return DOMAIN\n")
    assert {f"{NAME}", f"{NAME}.demo", f"{NAME}.second"} <= set(code_of("first").modules)


def test_an_import_by_a_computed_name_makes_the_whole_package_count_and_is_said(shop: Path) -> None:
    append(shop / "numbers.py", "from .by_name import importlib\n")
    domain: Domain = importlib.import_module(NAME).DOMAIN
    code = DomainCode(domain=domain)
    assert code_of("first") == Code(digest=code.package_digest, modules=(f"{NAME}.*",))
    assert code_of("second").modules != (f"{NAME}.*",)
    append(shop / "demo.py")
    assert code_of("first").digest != code.package_digest


def test_what_the_earlier_rule_recorded_is_the_present_code_while_the_package_is_the_same(shop: Path) -> None:
    domain: Domain = importlib.import_module(NAME).DOMAIN
    recorded = DomainCode(domain=domain).package_digest
    table = domain.table("first")
    assert DomainCode(domain=domain).is_present(table, "1.0.0", recorded)
    put_back = append(shop / "demo.py")
    assert not DomainCode(domain=domain).is_present(table, "1.0.0", recorded)
    put_back()
    assert DomainCode(domain=domain).is_present(table, "1.0.0", recorded)


def test_a_source_table_has_the_loaders_code(shop: Path) -> None:
    before = code_of("sales", LOAD_VERSION)
    append(shop / "sources.py")
    assert code_of("sales", LOAD_VERSION) == before
    assert before.modules == ("backfill_assets.landing.*",)


def test_the_reference_domains_demo_is_no_code_of_its_tables() -> None:
    code = DomainCode(domain=DOMAIN)
    silver, gold = (code.of(table, table.version).modules for table in DOMAIN.derived)
    package = DOMAIN.package
    assert silver == tuple(f"{package}.{name}" for name in ("reference_changes", "references", "sla_clocks"))
    assert gold == (f"{package}.sla_breaches",)
