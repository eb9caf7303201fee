"""The values of an author's names are part of the code of whatever uses them, in every process the same."""

# ruff: noqa: E501 - a line of a table is a case.
from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.domain import Domain
from backfill_assets.examples.enforcement_sla import DOMAIN as EXAMPLE
from backfill_assets.transforms.code import DomainCode
from backfill_assets.transforms.statements import Sources
from backfill_assets.transforms.values import Encoding
from backfill_assets_tests.unit.transforms.test_determined import DOMAIN, NAME, SALES

TABLES = """\
from pyspark.sql.types import DateType, StructField, StructType
from backfill_assets.domain import derived_table, daily
from .sales import sales
{top}
@derived_table(
    name="silver.days", inputs={{"sales": sales}}, key=("day",), partition=daily("day"),
    schema=StructType([StructField("day", DateType(), nullable=False)]), version="1.0.0",
)
def days(sales, ctx):
    {body}
    return sales
"""

OTHER = """
@derived_table(
    name="silver.other", inputs={"sales": sales}, key=("day",), partition=daily("day"),
    schema=StructType([StructField("day", DateType(), nullable=False)]), version="1.0.0",
)
def other(sales, ctx):
    return sales
"""


def indented(text: str) -> str:
    return text.strip().replace("\n", "\n    ")


def write(folder: Path, *, top: str = "", body: str = "pass", **files: str) -> None:
    folder.mkdir(exist_ok=True)
    given_files = {"__init__": DOMAIN, "sales": SALES, "days": TABLES.format(top=top, body=body), **files}
    for name, text in given_files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / NAME
    forget()


def forget() -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[module]
    importlib.invalidate_caches()


def digest() -> str:
    """The digest of the table, of modules as they are in memory."""
    domain: Domain = importlib.import_module(NAME).DOMAIN
    code = DomainCode(domain=domain)
    code.require_determined(domain.table("days"), "1.0.0")
    return code.of(domain.table("days"), "1.0.0").digest


INSIDE = {
    "an if": "import os\nif os.sep:\n    {table}",
    "an else": "import os\nif not os.sep:\n    pass\nelse:\n    {table}",
    "a for": "for number in range(1):\n    {table}",
    "a while": "while True:\n    {table}\n    break",
    "a try": "try:\n    {table}\nexcept ImportError:\n    other = None",
    "a finally": "try:\n    pass\nfinally:\n    {table}",
    "a with": "import contextlib\nwith contextlib.nullcontext():\n    {table}",
    "a match": "match 1:\n    case 1:\n        {deeper}",
    "a class": "class Tables:\n    {table}",
    "a function": "def declared():\n    {table}\n    return other\nother = declared()",
    "a function that is called alone": "def declare():\n    global other\n    {table}\ndeclare()",
    "a nested if": "import os\nif os.sep:\n    for number in (1,):\n        {deeper}",
    "a function with an argument": "def declared(layer):\n    {table}\n    return other\nTABLES = [declared(each) for each in ('a',)]",
    "a list": "TABLES = []\ndef declared():\n    {table}\n    return other\nTABLES.append(declared())",
    "a dictionary": "TABLES = {{}}\ndef declared():\n    {table}\n    return other\nTABLES['other'] = declared()",
}  # fmt: skip


@pytest.mark.parametrize("way", INSIDE)
def test_a_table_more_is_no_other_code_of_the_tables_beside_it_wherever_it_is_declared(shop: Path, way: str) -> None:
    top = INSIDE[way].format(table=indented(OTHER), deeper=indented(OTHER).replace("\n", "\n    "))
    write(shop)
    alone = digest()
    forget()
    write(shop, top=top)
    assert digest() == alone
    forget()
    write(shop, top=top.replace("return sales", "return sales.limit(1)"))
    assert digest() == alone


@pytest.mark.parametrize("way", INSIDE)
def test_an_edit_of_a_table_is_an_edit_wherever_it_is_declared(shop: Path, way: str) -> None:
    table = OTHER.replace("silver.other", "silver.days").replace("other", "days")
    top = (
        INSIDE[way]
        .replace("other", "days")
        .format(table=indented(table), deeper=indented(table).replace("\n", "\n    "))
    )
    last = {"a class": "days = Tables.days", "a list": "days = TABLES[0]", "a dictionary": "days = TABLES['days']"}
    last["a function with an argument"] = "days = TABLES[0]"
    head = TABLES.partition("{top}")[0] + top + "\n" + last.get(way, "") + "\n"
    write(shop, days=head)
    before = digest()
    forget()
    write(shop, days=head + OTHER)
    assert digest() == before
    forget()
    write(shop, days=head.replace("return sales", "return sales.limit(1)"))
    assert digest() != before


def test_two_tables_of_one_function_do_not_share_their_code(shop: Path) -> None:
    first = OTHER.replace("silver.other", "silver.days").replace("other", "days")
    both = TABLES.partition("{top}")[0] + (
        f"def declared():\n    {indented(first)}\n    {indented(OTHER)}\n    return days, other\ndays, other = declared()\n"
    )
    write(shop, days=both)
    before = digest()
    forget()
    there = "def other(sales, ctx):\n        return sales"
    assert there in both
    write(shop, days=both.replace(there, f"{there}.limit(1)"))
    assert digest() == before


def test_what_decides_about_a_definition_is_code_of_it(shop: Path) -> None:
    top = "import os\nif os.sep == '/':\n    def helped(): return 1\nelse:\n    def helped(): return 2"
    write(shop, top=top, body="helped()")
    before = digest()
    for edited in (top.replace("'/'", "'//'"), top.replace("return 2", "return 3")):
        forget()
        write(shop, top=edited, body="helped()")
        assert digest() != before


READ = "int(os.environ['SHOP_T'])"
HELD = {
    "a constant": (f"import os\nT = {READ}", "T", {}),
    "a type": (f"import os\nT: int = {READ}", "T", {}),
    "added to": (f"import os\nT = 1\nT += {READ}", "T", {}),
    "of an if": (f"import os\nif {READ} > 1:\n    T = 1\nelse:\n    T = 2", "T", {}),
    "a tuple": (f"import os\nT = (0, ({READ},))", "T", {}),
    "a list that is filled": (f"import os\nT = []\nT.append({READ})", "T", {}),
    "a dictionary that is filled": (f"import os\nT = {{}}\nT['x'] = {READ}", "T", {}),
    "a set": (f"import os\nT = {{1, {READ} + 10}}", "T", {}),
    "a Decimal": (f"import os\nfrom decimal import Decimal\nT = Decimal({READ})", "T", {}),
    "a date": (f"import os\nfrom datetime import date\nT = date(2026, 1, {READ})", "T", {}),
    "a pattern": (f"import os, re\nT = re.compile(str({READ}))", "T", {}),
    "an enumeration": (f"import os\nfrom enum import Enum\nclass E(Enum):\n    A = {READ}", "E.A", {}),
    "a frozen object": (
        f"import os\nfrom dataclasses import dataclass\n@dataclass(frozen=True)\nclass D:\n    x: int\nT = D({READ})", "T.x", {},
    ),
    "an object": (f"import os\nclass D:\n    def __init__(self): self.x = {READ}\nT = D()", "T.x", {}),
    "an object with slots": (f"import os\nclass D:\n    __slots__ = ('x',)\n    def __init__(self): self.x = {READ}\nT = D()", "T.x", {}),
    "a named tuple": (f"import os\nfrom typing import NamedTuple\nclass D(NamedTuple):\n    x: int\nT = D({READ})", "T.x", {}),
    "a type of columns": (f"import os\nfrom pyspark.sql.types import DecimalType\nT = DecimalType(9, {READ})", "T", {}),
    "an attribute of a class": (f"import os\nclass C:\n    x = {READ}", "C.x", {}),
    "an inherited attribute": (f"import os\nclass B:\n    x = {READ}\nclass C(B): ...", "C.x", {}),
    "an attribute that a method reads": (f"import os\nclass C:\n    x = {READ}\n    def y(self): return self.x", "C().y()", {}),
    "a default": (f"import os\ndef f(x={READ}): return x", "f()", {}),
    "a keyword with a default": (f"import os\ndef f(*, x={READ}): return x", "f()", {}),
    "a closure": (f"import os\ndef made(x):\n    def f(): return x\n    return f\nf = made({READ})", "f()", {}),
    "a decorator": (
        f"import os\ndef at(x):\n    def of(f):\n        def g(): return f() + x\n        return g\n    return of\n@at({READ})\ndef f(): return 1",
        "f()", {},
    ),
    "a partial": (f"import os, functools\ndef g(x): return x\nf = functools.partial(g, {READ})", "f()", {}),
    "a lambda": (f"import os\nf = (lambda x: lambda: x)({READ})", "f()", {}),
    "an attribute of a function": (f"import os\ndef f(): return f.x\nf.x = {READ}", "f()", {}),
    "a cached function": (f"import os, functools\nT = {READ}\n@functools.cache\ndef f(): return T", "f()", {}),
    "a udf": (
        f"import os\nfrom pyspark.sql.functions import udf\nfrom pyspark.sql.types import LongType\nT = {READ}\n"
        "@udf(LongType())\ndef f(x): return T", "f", {},
    ),
    "a constant of a helper": ("from .helpers import T", "T", {"helpers": f"import os\nT = {READ}\n"}),
    "a module of helpers": ("from . import helpers", "helpers.T", {"helpers": f"import os\nT = {READ}\n"}),
    "a module that is handed on": ("from . import helpers", "str(helpers)", {"helpers": f"import os\nT = {READ}\n"}),
    "a star": ("from .helpers import *", "T", {"helpers": f"import os\nT = {READ}\n"}),
    "an import inside": ("", "from .helpers import T; T", {"helpers": f"import os\nT = {READ}\n"}),
    "a helper that uses it": ("from .helpers import f", "f()", {"helpers": f"import os\nT = {READ}\ndef f(): return T\n"}),
    "a global that is set": (f"import os\ndef f():\n    global T\n    T = {READ}\nf()", "T", {}),
    "set by another module": ("from . import helpers, other", "helpers.T", {"helpers": "T = 0\n", "other": f"import os\nfrom . import helpers\nhelpers.T = {READ}\n"}),
    "a function that is replaced": (
        "from . import helpers, other", "helpers.f()",
        {"helpers": "def f(): return 0\n", "other": f"import os\nfrom . import helpers\nT = {READ}\ndef g(): return T\nhelpers.f = g\n"},
    ),
    "an attribute of the module": ("from . import helpers", "helpers.T", {"helpers": f"import os\ndef __getattr__(name): return {READ}\n"}),
    "a default of a class": ("import os\nfrom dataclasses import dataclass, field\n@dataclass\nclass D:\n" f"    x: int = {READ}", "D().x", {}),
    "a file": ("import os\nfrom pathlib import Path\nT = Path(os.environ['SHOP_F']).read_text()", "T", {}),
    "globals()": (f"import os\nT = {READ}", "globals()['T']", {}),
    "by getattr": ("from . import helpers", "getattr(helpers, 'T')", {"helpers": f"import os\nT = {READ}\n"}),
    "a property of a constant": (f"import os\nclass C:\n    def __init__(self, x): self._x = x\n    @property\n    def x(self): return self._x\nT = C({READ})", "T.x", {}),
    "functions of one name": (f"import os\nif {READ} > 1:\n    def f(): return 1\nelse:\n    def f(): return 2", "f()", {}),
    "functions without a name in one line": (f"import os\nf = (lambda: 1) if {READ} > 1 else (lambda: 2)", "f()", {}),
    "lambdas of one line, one in another": (f"import os\nf = (lambda: (lambda: 1)) if {READ} > 1 else (lambda: (lambda: 2))\nf = f()", "f()", {}),
    "functions of one name in a function": (
        f"import os\ndef made(x):\n    if x > 1:\n        def f(): return 1\n    else:\n        def f(): return 2\n    return f\nf = made({READ})",
        "f()", {},
    ),
    "classes of one name": (
        f"import os\nif {READ} > 1:\n    class C:\n        def f(self): return 1\nelse:\n    class C:\n        def f(self): return 2",
        "C().f()", {},
    ),
    "methods of one name": (
        f"import os\nclass C:\n    if {READ} > 1:\n        def f(self): return 1\n    else:\n        def f(self): return 2", "C().f()", {},
    ),
    "a function that is written in no file": (f"import os\nexec('def f(): return ' + str({READ}))", "f()", {}),
    "a lambda that is written in no file": (f"import os\nf = eval('lambda: ' + str({READ}))", "f()", {}),
    "a default of a class with slots": (
        f"import os\nfrom dataclasses import dataclass\n@dataclass(slots=True, frozen=True)\nclass D:\n    x: int = {READ}", "D().x", {},
    ),
    "a factory of a default": (
        f"import functools, os\nfrom dataclasses import dataclass, field\n@dataclass\nclass D:\n"
        f"    x: int = field(default_factory=functools.partial(int, {READ}))", "D().x", {},
    ),
    "a default of a constructor": (f"import os\nclass C:\n    def __init__(self, x={READ}): self.x = x", "C().x", {}),
    "a default of an operator": (f"import os\nclass C:\n    def __getitem__(self, key, x={READ}): return x", "C()[0]", {}),
    "an attribute with underscores": (f"import os\nclass C:\n    __at__ = {READ}", "C.__at__", {}),
    "an attribute of a member": (f"import os\nfrom enum import Enum\nclass E(Enum):\n    A = 1\nE.A.x = {READ}", "E.A.x", {}),
}  # fmt: skip


@pytest.mark.parametrize("way", HELD)
def test_a_value_is_code_of_whatever_uses_it(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    top, body, files = HELD[way]
    write(shop, top=top, body=body, **files)
    held = tmp_path / "held.txt"
    monkeypatch.setenv("SHOP_F", str(held))
    found = []
    for value in ("1", "3", "1"):
        forget()
        monkeypatch.setenv("SHOP_T", value)
        held.write_text(value, encoding="utf-8")
        found.append(digest())
    assert found[0] == found[2]
    assert found[0] != found[1]


@pytest.mark.parametrize("way", HELD)
def test_a_value_that_is_not_used_is_no_code(shop: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    top, _, files = HELD[way]
    if "import *" in top:
        pytest.skip("all of a module counts")
    monkeypatch.setenv("SHOP_F", __file__)
    write(shop, top=top, **files)
    found = []
    for value in ("1", "3"):
        forget()
        monkeypatch.setenv("SHOP_T", value)
        found.append(digest())
    assert found[0] == found[1]


READS_A_REFERENCE = """
from dataclasses import dataclass
from backfill_assets.domain import Domain, Reference
from .sales import sales
from .days import days
@dataclass
class Rates:
    version: str
    rate: int
def parse(document):
    return Rates(document["version"], document["rate"] * {factor})
DOMAIN = Domain(
    name="night_shop", package=__name__, sources=(sales,), derived=(days,), references=(Reference(name="rates", parse=parse),)
)
"""


def test_how_a_reference_is_parsed_is_code_of_the_tables_that_use_it(shop: Path) -> None:
    uses = TABLES.replace('version="1.0.0"', 'version="1.0.0", references=("rates",)').format(top="", body="pass")
    found = {}
    for days in (uses, TABLES.format(top="", body="pass")):
        for factor in "12":
            forget()
            write(shop, __init__=READS_A_REFERENCE.format(factor=factor), days=days)
            found[days, factor] = digest()
    assert [found[uses, "1"] == found[uses, "2"], len(set(found.values()))] == [False, 3]


def test_a_value_that_is_assigned_from_elsewhere_is_seen_at_once(shop: Path) -> None:
    write(shop, top="T = 1\nL = [1]", body="T, L")
    before = digest()
    module: Any = sys.modules[f"{NAME}.days"]
    module.T = 3
    assert digest() != before
    module.T = 1
    assert digest() == before
    module.L.append(2)
    assert digest() != before


def test_a_secret_is_in_no_digest_as_itself(shop: Path) -> None:
    write(shop, top="SECRET = 'hunter2'", body="SECRET")
    domain: Domain = importlib.import_module(NAME).DOMAIN if digest() else None  # type: ignore[assignment]
    code = DomainCode(domain=domain).of(domain.table("days"), "1.0.0")
    assert "hunter2" not in repr(code)


PRINTED = f"""
import importlib, json, sys
from backfill_assets.transforms.code import DomainCode
sys.path.insert(0, sys.argv[1])
domain = importlib.import_module({NAME!r}).DOMAIN
code = DomainCode(domain=domain)
print(json.dumps(code.of(domain.table("days"), "1.0.0").digest))
"""


@pytest.mark.long
def test_digests_are_the_same_in_every_process(shop: Path) -> None:
    top = (
        "import enum, re, functools\nfrom datetime import date, timedelta\nfrom decimal import Decimal\n"
        "S = {'a', 'b', 'c', ('d', 1)}\nF = frozenset('xyz')\nD = {'k': {1, 2}, 'j': F}\nP = re.compile('a', re.I)\n"
        "class E(enum.Enum):\n    A = 'a'\n    B = frozenset('ab')\nclass O:\n    def __init__(self): self.x = {'p', 'q'}\n"
        "O1 = O()\nT = (1.5, Decimal('1.0'), date(2026, 1, 1), timedelta(1), None, object())\nf = functools.partial(max, key=len)"
    )
    write(shop, top=top, body="S, F, D, P, E.A, E, O1, T, f, O")
    found = {
        subprocess.run(
            [sys.executable, "-c", PRINTED, str(shop.parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(found) == 1
    assert json.loads(found.pop()) == digest()


PLACES = {
    "a path": "from pathlib import Path\nT = Path(__file__).parent / 'sales.py'",
    "a text": "import os\nT = os.path.join(os.path.dirname(__file__), 'sales.py')",
    "what was read there": "from pathlib import Path\nHERE = Path(__file__).parent\nT = (HERE / 'sales.py').read_text()",
    "in an object": "class C:\n    def __init__(self): self.at = __file__\nT = C()",
}


@pytest.mark.parametrize("way", PLACES)
def test_the_folder_of_a_checkout_is_no_value(shop: Path, way: str, tmp_path: Path) -> None:
    found = []
    for place in (tmp_path, tmp_path / "another"):
        place.mkdir(exist_ok=True)
        write(place / NAME, top=PLACES[way], body="T")
        found.append(
            subprocess.run(
                [sys.executable, "-c", PRINTED, str(place)], capture_output=True, text=True, check=True
            ).stdout
        )
    assert found[0] == found[1]
    forget()
    before = digest()
    forget()
    write(shop, top=PLACES[way].replace("sales.py", "days.py").replace("= __file__", "= 'x'"), body="T")
    assert digest() != before


def test_a_value_that_holds_itself_can_be_pinned(shop: Path) -> None:
    write(shop, top="T = [1]\nT.append(T)", body="T")
    before = digest()
    forget()
    write(shop, top="T = [2]\nT.append(T)", body="T")
    assert digest() != before


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.uuids()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner) | st.frozensets(SCALARS)
    ),
    max_leaves=8,
)
ENCODING = Encoding(sources=Sources.of(EXAMPLE))


def told_apart(value: Any) -> Any:
    """A value by which those are told apart that Python takes for equal, such as 1, 1.0 and True."""
    if isinstance(value, dict):
        return ("dict", [(told_apart(k), told_apart(v)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [told_apart(each) for each in value])
    if isinstance(value, frozenset):
        return ("frozenset", sorted(repr(told_apart(each)) for each in value))
    return (type(value).__name__, value.as_tuple() if hasattr(value, "as_tuple") else repr(value))


@given(VALUES, VALUES)
def test_other_values_have_other_bytes(one: Any, other: Any) -> None:
    assert (ENCODING.of(one) == ENCODING.of(other)) == (repr(told_apart(one)) == repr(told_apart(other)))
