"""What identifies the code of a table: what its function reaches in the author's modules, and nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.domain import Domain, lifts
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.landing.imports import LOAD_VERSION, ContractVersions
from backfill_assets.transforms.code import Code, DomainCode
from backfill_assets_tests.domains.contract import LIFTS, shop_of
from backfill_assets_tests.domains.contract.transforms import doubled

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
        name="first", argument="sales", input="sales", earlier='"0.9.0": older',
        body="from .deep.inside import late; rules.ONE",
        imports="from .sources import sales\nfrom . import rules\nfrom .before import older",
    ),
    "second.py": TABLE.format(
        name="second", argument="first", input="first", earlier="", body="pass",
        imports=f"from {NAME}.first import first\nimport {NAME}_beside.words",
    ),
    "before.py": "from .old_rules import X\ndef older(sales, ctx): return sales if X else sales\n",
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
    write(tmp_path / NAME, {**FILES, f"../{NAME}_beside/__init__.py": "", f"../{NAME}_beside/words.py": ""})
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path / NAME
    for module in [each for each in sys.modules if each.partition(".")[0] in (NAME, f"{NAME}_beside")]:
        del sys.modules[module]


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


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
        ("numbers.py", {"first 1.0.0"}),
        ("deep/inside.py", {"first 1.0.0"}),
        ("deep/__init__.py", {"first 1.0.0"}),
        ("old_rules.py", {"first 1.0.0", "first 0.9.0"}),
        ("second.py", {"second 1.0.0"}),
        (f"../{NAME}_beside/words.py", {"second 1.0.0"}),
    ],
)
def test_an_edit_moves_the_tables_that_reach_the_module_and_no_others(shop: Path, file: str, moved: set[str]) -> None:
    before = digests()
    append(shop / file)
    assert {name for name, digest in digests().items() if digest != before[name]} == moved


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


STATES = """
from .sources import sales
from .words import OPEN as OPENED
{table}
STATES = ("open", "closed")
def spelled(state):
    return OPENED if state == "open" else state
"""

WIDER: Mapping[str, str] = {
    "__init__.py": FILES["__init__.py"],
    "demo.py": FILES["demo.py"],
    "sources.py": TABLES + "LATE = 3\n",
    "words.py": "from .sources import sales\nOPEN = 'open'\nCLOSED = 'closed'\n",
    "common/__init__.py": "from .texts import lower, upper\nfrom ..sources import sales\nfrom ..words import CLOSED\n",
    "common/texts.py": "def lower(x):\n    return x\n\ndef upper(x):\n    return x\n",
    "first.py": STATES.format(table=TABLE.format(
        name="first", argument="sales", input="sales", earlier="", imports="from math import pi",
        body="spelled(STATES[0])",
    )),
    "second.py": TABLE.format(
        name="second", argument="first", input="first", earlier="",
        imports=(
            "from .first import STATES, first\nfrom . import common as c\nfrom .sources import LATE\n"
            "import corner_shop.words"
        ),
        body="c.lower(STATES), LATE, corner_shop.words.CLOSED",
    ),
}  # fmt: skip
"""Tables whose modules take constants and functions of each other, of modules of helpers, and of the sources' own."""


@pytest.mark.parametrize(
    ("file", "old", "new", "moved"),
    [
        ("sources.py", '"sale_id", StringType(), False)', '"sale_id", StringType(), True)', set()),
        ("sources.py", "DateType, LongType", "DateType, DoubleType, LongType", set()),
        ("sources.py", "LATE = 3", "LATE = 4", {"second"}),
        ("sources.py", "LATE = 3", "LATE = 3\nmore = SourceTable()\n", set()),
        ("words.py", "'open'", "'OPEN'", {"first"}),
        ("words.py", "'closed'", "'CLOSED'", {"second"}),
        ("first.py", '"closed"', '"shut"', {"first", "second"}),
        ("first.py", "else state", "else None", {"first"}),
        ("first.py", "math import pi", "cmath import pi", set()),
        ("common/texts.py", "def lower(x):\n    return x", "def lower(x):\n    return 1", {"second"}),
        ("common/texts.py", "def upper(x):\n    return x", "def upper(x):\n    return 1", set()),
        ("common/__init__.py", "lower, upper", "upper as lower", {"second"}),
        ("common/__init__.py", "lower, upper", "lower", set()),
        ("common/__init__.py", "from .texts", "print()\nfrom .texts", {"second"}),
    ],
)
def test_of_a_module_counts_what_is_used_of_it(shop: Path, file: str, old: str, new: str, moved: set[str]) -> None:
    """A column more in a contract is no other code of a table, whatever else its modules take from each other."""
    write(shop, WIDER)
    before = {name: code_of(name).digest for name in ("first", "second")}
    edit(shop / file, old, new)
    assert {name for name, digest in before.items() if code_of(name).digest != digest} == moved


@pytest.mark.parametrize(
    "body",
    [
        "getattr(c, 'upper')",
        "[c][0].upper",
        "c.texts.upper",
        "c.__dict__",
        "from .common import *",
        "import importlib; importlib.import_module('corner_shop.common.texts')",
        "globals()['c'].upper",
    ],
)
def test_where_names_do_not_say_what_is_used_all_of_a_module_counts(shop: Path, body: str) -> None:
    write(shop, WIDER)
    if "*" in body:
        edit(shop / "second.py", "from . import common as c", "from .common import *\nfrom . import common as c")
    else:
        edit(shop / "second.py", "c.lower(STATES)", body)
    before = code_of("second").digest
    edit(shop / "common/texts.py", "def upper(x):\n    return x", "def upper(x):\n    return 1")
    assert code_of("second").digest != before


LIFTED = """
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import SourceTable, daily, lifts
FIRST = StructType([StructField("sale_id", StringType(), False), StructField("sold_at", TimestampType(), False)])
SECOND = StructType([*FIRST.fields, StructField("amount", LongType(), False)])
def counted(record): return {"amount": 1 + 0 * record["sale_id"]}
sales = SourceTable(
    name="bronze.sales", key=("sale_id",), event_time="sold_at", partition=daily("sold_on"),
    schema=SECOND, earlier={1: FIRST}, lift={1: lifts(counted)},
)
"""


def test_a_column_more_is_no_other_code_of_the_lifts_before_it(shop: Path) -> None:
    write(shop, {**WIDER, "sources.py": LIFTED + "LATE = 3\n"})
    domain: Domain = importlib.import_module(NAME).DOMAIN
    source = domain.sources[0]
    before = DomainCode(domain=domain).lifts(source)
    edit(shop / "sources.py", "schema=SECOND, earlier={1: FIRST}", "schema=THIRD, earlier={1: FIRST, 2: SECOND}")
    edit(shop / "sources.py", "def counted", "THIRD = StructType([*SECOND.fields])\ndef counted")
    assert DomainCode(domain=domain).lifts(source) == before
    edit(shop / "sources.py", "1 + 0", "2 + 0")
    assert DomainCode(domain=domain).lifts(source) != before


def test_runs_are_known_by_the_code_of_their_lifts() -> None:
    source = shop_of(4, lift={**LIFTS, 2: lifts(doubled)}).sources[0]
    recorded = ContractVersions(source=source, lifts={2: "a" * 64})
    other = replace(recorded, lifts={2: "c" * 64})
    for version in (3, 4):
        assert recorded.version_built(recorded.configuration(version)) == version
        assert recorded.version_read(recorded.named(version)) == version
        assert other.version_built(recorded.configuration(version)) is None
        assert other.version_read(recorded.named(version)) is None


def test_an_input_that_the_function_uses_is_code_and_not_only_an_input(shop: Path) -> None:
    edit(shop / "second.py", "    pass", "    used = more()")
    append(shop / "second.py", "def more(): return first.releases\n")
    assert f"{NAME}.first" in code_of("second").modules
    edit(shop / "first.py", "rules.ONE", "sales.name")
    assert f"{NAME}.sources" not in code_of("first").modules, "the argument, and not the table"
    edit(shop / "first.py", "sales.name", "more()")
    append(shop / "first.py", "def more(): return sales.name\n")
    assert f"{NAME}.sources" in code_of("first").modules


def test_what_the_package_itself_holds_is_followed_when_it_is_taken_from_there(shop: Path) -> None:
    append(shop / "rules.py", "def late():\n    from . import DOMAIN\n    return DOMAIN\n")
    assert {f"{NAME}", f"{NAME}.sources", f"{NAME}.second"} <= set(code_of("first").modules)


def test_an_import_by_a_computed_name_makes_the_whole_package_count_and_is_said(shop: Path) -> None:
    append(shop / "numbers.py", "from .by_name import importlib\n")
    before = code_of("first")
    assert before.modules == (f"{NAME}.*",)
    assert code_of("second").modules != (f"{NAME}.*",)
    append(shop / "demo.py")
    assert code_of("first").digest != before.digest


def test_a_source_table_has_the_loaders_code(shop: Path) -> None:
    before = code_of("sales", LOAD_VERSION)
    append(shop / "sources.py")
    assert code_of("sales", LOAD_VERSION) == before
    assert before.modules == ("backfill_assets.landing.*",)


def test_the_reference_domains_demo_is_no_code_of_its_tables() -> None:
    code = DomainCode(domain=DOMAIN)
    silver, gold, state = (code.of(table, table.version).modules for table in DOMAIN.derived)
    package = DOMAIN.package
    shared = ("clock_moves", "reference_changes", "references")
    assert silver == tuple(f"{package}.{name}" for name in (*shared, "sla_clocks"))
    assert state == tuple(sorted(f"{package}.{name}" for name in (*shared, "open_cases")))
    assert gold == (f"{package}.sla_breaches",)
