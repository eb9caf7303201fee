"""What is refused before a run is planned: a clock, randomness and the environment, however they are written."""

# ruff: noqa: E501 - a line of a table is a case.
from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.core.errors import ContractBroken
from backfill_assets.domain import Domain
from backfill_assets.transforms.code import DomainCode
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets_tests.support.advice import has_code

NAME = "night_shop"

DOMAIN = """
from backfill_assets.domain import Domain
from .sales import sales
from .days import days
DOMAIN = Domain(name="night_shop", package=__name__, sources=(sales,), derived=(days,))
"""
SALES = """
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import SourceTable, daily
sales = SourceTable(
    name="bronze.sales", key=("sale_id",), event_time="sold_at", partition=daily("sold_on"),
    schema=StructType([StructField("sale_id", StringType(), False), StructField("sold_at", TimestampType(), False)]),
)
"""
DAYS = """\
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType
from backfill_assets.domain import Breakdown, derived_table, daily, expression, not_null
from .sales import sales
{top}
@derived_table(
    name="silver.days", inputs={{"sales": sales}}, key=("day",), partition=daily("day"),
    schema=StructType([StructField("day", DateType(), nullable=False)]), version="1.0.0", {declared}
)
def days(sales, ctx):
    {body}
    return sales
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a domain that is written and imported anew."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text(DOMAIN, encoding="utf-8")
    (folder / "sales.py").write_text(SALES, encoding="utf-8")
    (folder / "helpers.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield folder
    for module in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[module]


def write(shop: Path, body: str = "pass", *, top: str = "", declared: str = "", helpers: str = "") -> None:
    inside = body.replace("\n", "\n    ")
    (shop / "days.py").write_text(DAYS.format(top=top, body=inside, declared=declared), encoding="utf-8")
    (shop / "helpers.py").write_text(helpers, encoding="utf-8")


def require_determined() -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == NAME]:
        del sys.modules[module]
    importlib.invalidate_caches()
    domain: Domain = importlib.import_module(NAME).DOMAIN
    DomainCode(domain=domain).require_determined(domain.table("days"), "1.0.0")


def refused_at(shop: Path, mark: str) -> NotDetermined:
    """The refusal, which names the file and line with the mark."""
    with pytest.raises(NotDetermined) as refused:
        require_determined()
    places = [
        (str(path), number)
        for path in sorted(shop.glob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if mark in line
    ]
    error = refused.value
    named = {(error.file, error.line)} | {
        (file, int(line)) for other in error.others for line, file in re.findall(r"in line (\d+) of (.*)$", other)
    }
    assert named & set(places), (error.message, places)
    return error


SPARK = [
    *("current_date", "current_timestamp", "now", "localtimestamp", "curdate", "unix_timestamp", "current_timezone"),
    *("current_catalog", "current_database", "current_schema", "current_user", "user", "session_user", "uuid", "rand"),
    *("randn", "input_file_name", "input_file_block_start", "input_file_block_length", "spark_partition_id"),
    *("monotonically_increasing_id", "version"),
]
WAYS_OF_SPARK = {
    "as a function": ("F.{name}()  # here", ""),
    "handed on": ("made = list(map(lambda f: f(), [F.{name}]))  # here", ""),
    "by getattr": ('getattr(F, "{name}")()  # here', ""),
    "by its name": ('F.call_function("{name}")  # here', ""),
    "imported under another name": ("from pyspark.sql.functions import {name} as today\ntoday()  # here", ""),
    "of the module inside": ("import pyspark.sql.functions as G\nG.{name}()  # here", ""),
    "local name": ("other = F.{name}\nother()  # here", ""),
    "expr": ('F.expr("coalesce(day, {name}())")  # here', ""),
    "a filter": ('sales.filter("day <= {name}()")  # here', ""),
    "selectExpr": ('sales.selectExpr("1", "{name}() as x")  # here', ""),
    "formatted": ('F.expr(f"datediff({{ctx.run_id}}, {name}())")  # here', ""),
    "put together": ('F.expr("datediff(day, " + "{name}" + "())")  # here', ""),
    "a query": ('ctx.spark.sql("select {name}() from {{sales}}", sales=sales)  # here', ""),
    "lateral": ('ctx.spark.sql("select * from {{sales}}, lateral (select {name}() as x)", sales=sales)  # here', ""),
    "over lines": ('F.expr("""\nday > \n{name}()  -- # here\n""")', ""),
    "texts in a list": ('[F.expr(each) for each in ("1", "{name}()")]  # here', ""),
    "a lambda": ("(lambda: F.{name}())()  # here", ""),
    "a helper": ("from .helpers import today\ntoday()", "from pyspark.sql import functions as F\ndef today():\n    return F.{name}()  # here\n"),
    "a constant of a helper": ("from . import helpers\nF.expr(helpers.SQL)  # here", 'SQL = "{name}()"\n'),
    "passed on": ("from .helpers import clock\nclock()  # here", "from pyspark.sql.functions import {name} as clock\n"),
}  # fmt: skip


def some(names: Iterable[str], ways: Iterable[str], most: int) -> list[tuple[str, str]]:
    """Every name in the first ways, and the first names in every way."""
    pairs = [(n, w, i < most or j < most) for i, n in enumerate(names) for j, w in enumerate(ways)]
    return [(name, way) for name, way, is_first in pairs if is_first and (name, way) != SAYS_NOTHING]


SAYS_NOTHING = ("unix_timestamp", "handed on")
"""What it is called with is not said there."""


@pytest.mark.parametrize(("name", "way"), some(SPARK, WAYS_OF_SPARK, 1))
def test_what_spark_computes_otherwise_another_time_is_refused_however_it_is_written(
    shop: Path, name: str, way: str
) -> None:
    body, helpers = WAYS_OF_SPARK[way]
    write(shop, body.format(name=name), helpers=helpers.format(name=name))
    refused_at(shop, "# here")


PYTHON = {
    "time.time()": "import time",
    "time.perf_counter()": "import time",
    "time.strftime('%Y')": "import time",
    "time.gmtime()": "import time",
    "time.localtime(0)": "import time",
    "datetime.datetime.now()": "import datetime",
    "datetime.datetime.utcnow()": "import datetime",
    "datetime.date.today()": "import datetime",
    "datetime.datetime.fromtimestamp(0)": "import datetime",
    "random.random()": "import random",
    "random.Random()": "import random",
    "random.choice([1, 2])": "import random",
    "uuid.uuid4()": "import uuid",
    "uuid.uuid1()": "import uuid",
    "secrets.token_hex()": "import secrets",
    "os.urandom(1)": "import os",
}
OF_THE_MACHINE = {
    "os.environ['HOME']": "import os",
    "os.environ.get('HOME')": "import os",
    "os.getenv('HOME')": "import os",
    "os.getpid()": "import os",
    "os.path.expanduser('~')": "import os.path",
    "socket.gethostname()": "import socket",
    "locale.getlocale()": "import locale",
    "platform.node()": "import platform",
}
EVERYWHERE = {
    **PYTHON,
    "hash('a')": "import os",
    "id(None)": "import os",
}
WAYS = {
    "in the function": ("{call}  # here", "{imported}", ""),
    "imported inside": ("{imported}\n{call}  # here", "", ""),
    "a nested function": ("def inner():\n    return {call}  # here\ninner()", "{imported}", ""),
    "a udf": ("of(1)", "{imported}\n@F.udf(returnType=StructType([]))\ndef of(x):\n    return {call}  # here", ""),
    "a pandas udf": (
        "of(1)",
        "from pyspark.sql.types import LongType\nfrom pyspark.sql.functions import pandas_udf\nimport pandas as pd\n{imported}\n"
        "@pandas_udf(LongType())\ndef of(x: pd.Series) -> pd.Series:\n    return x + {call}  # here", "",
    ),
    "a helper": ("from .helpers import made\nmade()", "", "{imported}\ndef made():\n    return {call}  # here\n"),
    "a module of helpers": ("from . import helpers\nhelpers.made()", "", "{imported}\ndef made():\n    return {call}  # here\n"),
    "a star": ("made()", "from .helpers import *", "{imported}\ndef made():\n    return {call}  # here\n"),
    "a decorator": (
        "of()", "{imported}\ndef deco(f):\n    def called():\n        return f({call})  # here\n    return called\n@deco\ndef of(x): ...", "",
    ),
    "a method": ("Of().made()", "{imported}\nclass Of:\n    def made(self):\n        return {call}  # here", ""),
    "a property": ("Of().made", "{imported}\nclass Of:\n    @property\n    def made(self):\n        return {call}  # here", ""),
    "a lambda": ("of()", "{imported}\nof = lambda: {call}  # here", ""),
    "a comprehension": ("[{call} for _ in range(3)]  # here", "{imported}", ""),
    "a table of functions": ('OF["a"]()', "{imported}\ndef made():\n    return {call}  # here\nOF = {{'a': made}}", ""),
    "a partial": ("of()", "import functools\n{imported}\ndef made(x):\n    return {call}  # here\nof = functools.partial(made, 1)", ""),
    "below an if": ("made()", "{imported}\nif True:\n    def made():\n        return {call}  # here", ""),
    "a registry": (
        "[each() for each in OF]",
        "{imported}\nOF = []\ndef listed(f):\n    OF.append(f)\n    return f\n@listed\ndef made():\n    return {call}  # here", "",
    ),
}  # fmt: skip
AT_IMPORT = {
    "a constant": ("AT", "{imported}\nAT = {call}  # here", ""),
    "a default": ("of()", "{imported}\ndef of(at={call}):  # here\n    return at", ""),
    "an attribute": ("Of.at", "{imported}\nclass Of:\n    at = {call}  # here", ""),
    "a call of a helper": ("AT", "{imported}\ndef made():\n    return {call}  # here\nAT = made()", ""),
    "by a global": ("AT", "{imported}\nAT = 0\ndef set_it():\n    global AT\n    AT = {call}  # here\nset_it()", ""),
}


@pytest.mark.parametrize(("call", "way"), some([*EVERYWHERE, *OF_THE_MACHINE], WAYS, 1))
def test_what_python_answers_otherwise_another_time_is_refused_wherever_it_is_asked(
    shop: Path, call: str, way: str
) -> None:
    body, top, helpers = WAYS[way]
    imported = (EVERYWHERE | OF_THE_MACHINE)[call]
    write(
        shop,
        body.format(call=call, imported=imported),
        top=top.format(call=call, imported=imported),
        helpers=helpers.format(call=call, imported=imported),
    )
    refused_at(shop, "# here")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pair=st.sampled_from([(name, way) for name in SPARK for way in WAYS_OF_SPARK if (name, way) != SAYS_NOTHING]))
def test_any_of_spark_is_refused_in_any_way(shop: Path, pair: tuple[str, str]) -> None:
    test_what_spark_computes_otherwise_another_time_is_refused_however_it_is_written(shop, *pair)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pair=st.sampled_from([(call, way) for call in EVERYWHERE | OF_THE_MACHINE for way in WAYS]))
def test_any_of_python_is_refused_in_any_way(shop: Path, pair: tuple[str, str]) -> None:
    test_what_python_answers_otherwise_another_time_is_refused_wherever_it_is_asked(shop, *pair)


@pytest.mark.parametrize(("call", "way"), [each for each in some(PYTHON, AT_IMPORT, 1) if each[1] != "by a global"])
def test_a_clock_that_was_asked_when_the_module_was_imported_is_refused(shop: Path, call: str, way: str) -> None:
    body, top, helpers = AT_IMPORT[way]
    write(shop, body.format(call=call), top=top.format(call=call, imported=PYTHON[call]), helpers=helpers)
    refused_at(shop, "# here")


@pytest.mark.parametrize("way", AT_IMPORT)
def test_what_a_module_read_of_the_environment_is_a_value_and_allowed(shop: Path, way: str) -> None:
    body, top, helpers = AT_IMPORT[way]
    write(
        shop,
        body,
        top=top.format(call="os.environ.get('BACKFILL_OF_NO_ONE', '1')", imported="import os"),
        helpers=helpers,
    )
    require_determined()


OTHERS = {
    "sample": "sales.sample(0.1, seed=1)  # here",
    "randomSplit": "sales.randomSplit([0.5, 0.5])[0]  # here",
    "sampleBy": "sales.sampleBy('x', {1: 0.1}, 1)  # here",
    "TABLESAMPLE": 'ctx.spark.sql("select * from {s} tablesample (10 percent)", s=sales)  # here',
    "without parentheses": 'sales.where("day < current_date")  # here',
    "a typed word": "F.expr(\"date'today'\")  # here",
    "a word that is cast": "F.expr(\"cast('now' as timestamp)\")  # here",
    "a literal that is cast": 'F.lit("now").cast("timestamp")  # here',
    "a seeded rand": "F.rand(42)  # here",
    "shuffle": 'F.shuffle("x")  # here',
    "randstr": "F.randstr(3)  # here",
    "uniform": "F.uniform(1, 2)  # here",
    "reflect": 'F.reflect(F.lit("java.util.UUID"), F.lit("randomUUID"))  # here',
    "files": 'F.col("_metadata.file_name")  # here',
    "a udf that says so": "F.udf(lambda x: x).asNondeterministic()  # here",
    "a text with a name put in": 'F.expr("{}()".format("now"))  # here',
    "an attribute of a class": "F.expr(SQLS.DAY)  # here",
    "the zone of the machine": "from datetime import datetime\ndatetime(2026, 1, 1).astimezone()  # here",
    "a subclass": "from datetime import datetime\nclass Mine(datetime): ...\nMine.now()  # here",
    "vars": 'vars(F)["rand"]()  # here',
    "a dictionary": 'F.__dict__["rand"]()  # here',
}


@pytest.mark.parametrize("way", [each for each in OTHERS if each != "a subclass"])
def test_samples_words_and_files_are_refused(shop: Path, way: str) -> None:
    write(shop, OTHERS[way], top='class SQLS:\n    DAY = "current_date"')
    refused_at(shop, "# here")


READS = {
    "open": "open('/x').read()  # here",
    "a path": "from pathlib import Path\nPath('/x').read_text()  # here",
    "a path of the module": "AT.read_bytes()  # here",
    "an instant of the module": "WHEN.now()  # here",
    "a folder": "import os\nos.listdir('/')  # here",
    "a state of a file": "import os\nos.path.getmtime('/x')  # here",
    "a resource": "from importlib import resources\nresources.files('x').joinpath('y').read_text()  # here",
    "an address": "import urllib.request\nurllib.request.urlopen('http://x')  # here",
    "another program": "import subprocess\nsubprocess.run(['date'])  # here",
    "a mail": "import smtplib\nsmtplib.SMTP('x')  # here",
    "a connection": "import asyncio\nasyncio.open_connection('x', 1)  # here",
    "a program of a loop": "import asyncio\nasyncio.create_subprocess_exec('date')  # here",
    "a replaced process": "import os\nos.execv('/bin/date', ['date'])  # here",
    "a remote call": "import xmlrpc.client\nxmlrpc.client.ServerProxy('http://x')  # here",
    "an address in a udf": "import urllib.request\nF.udf(lambda x: urllib.request.urlopen(x).read(), 'binary')('day')  # here",
    "a socket in rows": "import socket\ndef rows(batches):\n    socket.create_connection(('x', 1))  # here\n    yield from batches\nsales.mapInPandas(rows, 'day date')",
    "a program in groups": "import subprocess\ndef rows(group):\n    subprocess.run(['date'])  # here\n    return group\nsales.groupBy('day').applyInPandas(rows, 'day date')",
    "a database": "import sqlite3\nsqlite3.connect('/x')  # here",
    "pandas": "import pandas as pd\npd.read_csv('/x')  # here",
    "a helper": "from .helpers import rates\nrates()",
    "the session": "ctx.spark.read.parquet('/x')  # here",
    "a table of the session": "ctx.spark.table('x')  # here",
    "the session of an input": "sales.sparkSession.read.json('/x')  # here",
    "SQL over files": 'ctx.spark.sql("select * from parquet.`/x`")  # here',
}  # fmt: skip


ROUNDABOUT = {
    "a day that is given": "ctx.output.start.today()  # here",
    "a day that is made": "from datetime import date\ndate(2020, 1, 1).today()  # here",
    "a local day": "from datetime import datetime\nx = datetime(2020, 1, 1)\nx.now()  # here",
    "a name of a name": "import time\nx = time\ny = x\ny.time()  # here",
    "an element": "from datetime import date\n[x.today() for x in [date]]  # here",
    "the type of a day": "from datetime import date\ntype(date(2020, 1, 1)).today()  # here",
    "a module by a call": "__import__('time').time()  # here",
    "a module by its name": "import importlib\nimportlib.import_module('datetime').datetime.utcnow()  # here",
    "a text that is evaluated": "eval('1')  # here",
    "a text that is executed": "exec('x = 1')  # here",
    "a mail's clock": "import email.utils\nemail.utils.formatdate()  # here",
    "a loop's clock": "import asyncio\nasyncio.new_event_loop().time()  # here",
    "a timer": "import timeit\ntimeit.default_timer()  # here",
    "no seed": "import random\nrandom.Random(None)  # here",
    "no seed by name": "import numpy as np\nnp.random.default_rng(seed=None)  # here",
    "no instant": "import time\ntime.strftime('%Y', None)  # here",
    "no zone": "from datetime import datetime\ndatetime.fromtimestamp(0, tz=None)  # here",
    "a word by name": "import pandas as pd\npd.Timestamp(ts_input='now')  # here",
    "words in a list": "import pandas as pd\npd.to_datetime(['now'])  # here",
    "a word of a range": "import pandas as pd\npd.date_range('2020-01-01', 'today')  # here",
    "a word of an array": "import numpy as np\nnp.array(['today'], dtype='datetime64[D]')  # here",
    "a period": "import pandas as pd\npd.Period.now('D')  # here",
    "Java": "ctx.spark._jvm.java.lang.System.currentTimeMillis()  # here",
    "the name of the session": "ctx.spark.sparkContext.applicationId  # here",
    "the start of the session": "at = ctx.spark.sparkContext\nat.startTime  # here",
    "another session": "from pyspark.sql import SparkSession\nSparkSession.getActiveSession()  # here",
    "a local session": "s = ctx.spark\ns.read.parquet('/x')  # here",
    "a module that is given": "import os\n(lambda m=os: m.environ['HOME'])()  # here",
    "a computed attribute": "import time\ngetattr(time, 'ti' + 'me')()  # here",
    "a computed attribute in a udf": "named",
    "an attribute by name": "import operator, time\noperator.attrgetter('time')(time)()  # here",
    "a module in a list": "import time\n[each.time() for each in [time]]  # here",
    "a module of two": "import time\na, b = time, 1  # here\na.time()",
    "a module or none": "import time\n(time if ctx else None).time()  # here",
    "a module that is assigned": "import time\n(t := time).time()  # here",
    "a module of the process": "import sys\nsys.modules['time'].time()  # here",
    "a chain of names": "import datetime, functools\nfunctools.reduce(getattr, ['datetime', 'now'], datetime)()  # here",
    "a module in a dictionary": "MODULES['os'].environ['HOME']  # here",
    "a function in a dictionary": "READS['open']('/x')",
    "a path that is opened": "from pathlib import Path\nPath('/x').open()  # here",
    "a path that is asked for": "from pathlib import Path\nx = Path('/x')\nx.exists()  # here",
    "where the process is": "import os\nos.path.abspath('x')  # here",
    "a file of settings": "import configparser\nc = configparser.ConfigParser()\nc.read('/x')  # here",
    "a document": "import xml.etree.ElementTree as tree\ntree.parse('/x')  # here",
    "a file of Arrow": "import pyarrow.parquet as pq\npq.ParquetFile('/x')  # here",
    "a folder of Arrow": "import pyarrow.fs as fs\nfs.LocalFileSystem()  # here",
    "a table of Delta": "from delta.tables import DeltaTable\nDeltaTable.forPath(ctx.spark, '/x')  # here",
    "a release": "import importlib.metadata\nimportlib.metadata.version('pyspark')  # here",
    "numbers without a seed": "import random\nrng = random.Random()  # here\nrng.random()",
    "a seed that is given up": "import random\nrng = random.Random(1)\nrng.seed()  # here\nrng.random()",
    "a seed that is none": "import random\nrng = random.Random(1)\nrng.seed(None)  # here\nrng.random()",
    "a clock of a base": "class Mine(datetime.datetime):\n    def go(self): return self.now()  # here\nMine(2020, 1, 1).go()",
    "a clock of a base of the module": "Mine(2020, 1, 1).go()",
    "a path of an object": "x = Held()\nx.path.read_text()  # here",
    "a path of itself": "Held().go()",
    "what no class says": "class Held:\n    @staticmethod\n    def go(day): return day.today()  # here\nHeld.go(1)",
    "a file that is not in memory": "import pandas as pd\npath = str('/x')\npd.read_csv(path)  # here",
    "a task": "from pyspark import TaskContext\nTaskContext.get()  # here",
}  # fmt: skip


UDF = """
import random
def named(x):
    return getattr(random, "ran" + "dom")()  # here
"""


OF_THE_MODULE = {
    "a computed attribute in a udf": UDF,
    "a clock of a base": "import datetime",
    "a clock of a base of the module": (
        "import datetime\nclass Mine(datetime.datetime):\n    def go(self): return self.now()  # here"
    ),
    "a path of an object": "import pathlib\nclass Held:\n    def __init__(self): self.path = pathlib.Path('/x')",
    "a path of itself": (
        "import pathlib\nclass Held:\n    def __init__(self): self.path = pathlib.Path('/x')\n"
        "    def go(self): return self.path.read_text()  # here"
    ),
}


def _of_the_module(way: str) -> str:
    return OF_THE_MODULE.get(way, "")


@pytest.mark.parametrize("way", ROUNDABOUT)
def test_what_is_asked_in_a_roundabout_way_is_refused(shop: Path, way: str) -> None:
    write(
        shop,
        ROUNDABOUT[way],
        top=f"import os\nMODULES = {{'os': os}}\nREADS = {{'open': open}}  # here\n{_of_the_module(way)}",
    )
    refused_at(shop, "# here")


@pytest.mark.parametrize("what", READS)
def test_what_a_function_reads_when_it_is_called_and_no_manifest_pins_is_refused(shop: Path, what: str) -> None:
    top = "import datetime, pathlib\nAT = pathlib.Path('/x')\nWHEN = datetime.datetime(2026, 1, 1)"
    write(
        shop,
        READS[what],
        top=top,
        helpers="def rates():\n    with open('/x') as file:  # here\n        return file.read()",
    )
    refused_at(shop, "# here")


def test_a_file_that_was_read_when_the_module_was_imported_is_a_value_and_allowed(shop: Path) -> None:
    top = (
        "import pathlib\nfrom importlib import resources\ndef made():\n    with open(__file__) as file:\n"
        "        return file.read()\nMADE = made()\nHERE = pathlib.Path(__file__).read_text()\n"
        "THERE = resources.files(__package__).joinpath('days.py').read_text()"
    )
    write(shop, "MADE, HERE, THERE", top=top)
    require_determined()


DECLARED = {
    "a gate": 'gates=(expression("past", "day <= current_date()"),),  # here',
    "a measure": 'breakdown=Breakdown(measures={"late": "day < now()"}),  # here',
    "a window": "window=window_of,",
}


@pytest.mark.parametrize("what", DECLARED)
def test_gates_measures_and_windows_are_refused_too(shop: Path, what: str) -> None:
    top = (
        "from datetime import date\nfrom backfill_assets.domain import Window\n"
        "def window_of(references):\n    return Window(days_back=date.today().day)  # here"
    )
    write(shop, declared=DECLARED[what], top=top if what == "a window" else "")
    refused_at(shop, "# here")


def test_a_condition_that_is_put_together_is_refused_with_the_place_of_its_table(shop: Path) -> None:
    write(
        shop, top='CLOCK = "_".join(["current", "date"])', declared='gates=(expression("past", f"day <= {CLOCK}()"),),'
    )
    with pytest.raises(NotDetermined, match=r"days\.py, line 6"):
        require_determined()


ALIKE = {
    "columns of clocks": 'sales.select(sales.startTime, sales.open, sales.today, sales.applicationId)',
    "columns": 'sales.select(F.col("now"), "rand", F.lit(1).alias("current_date"), sales["user"], F.col("id"))',
    "local names": "now = rand = random = uuid = id = hash = sample = 1\n[now, rand, random, uuid, id, hash, sample]",
    "a docstring": '"""Rows before current_date(), not now()."""',
    "a message": 'if not ctx: raise ValueError("now() is no column, use rand(1)")',
    "a log": 'import logging\nlogging.getLogger(__name__).info("uuid() of %s", 1)',
    "a pattern": r'F.col("x").rlike("(rand(om)?|now(\\d+)?)")',
    "quoted": "F.expr(\"concat('now()', `rand()`, x) -- uuid()\")",
    "parsing": (
        "import time\nfrom datetime import datetime, date, timezone\n"
        "time.strptime('1', '%d'), datetime.fromisoformat('2026-01-01'), date(2026, 1, 1), datetime.strptime('1', '%d')\n"
        "time.strftime('%Y', time.gmtime(0)), datetime.fromtimestamp(0, timezone.utc), date.fromisoformat('2026-01-01')"
    ),
    "uuid5": "import uuid\nuuid.uuid5(uuid.NAMESPACE_DNS, 'x'), uuid.UUID(int=1)",
    "a seed": "import random\nrandom.Random(1)",
    "spark's clocks of columns": 'F.unix_timestamp("x"), F.to_date("x"), F.date_trunc("day", "x"), F.expr("unix_timestamp(x)")',
    "typeof": 'F.expr("typeof(x)"), F.hash("x"), F.xxhash64("x"), F.sequence(F.lit(1), F.lit(2))',
    "paths": "import os\nos.path.join('a', 'b'), os.sep",
    "a column called sample": "sales.sample, sales.now, sales.uuid",
    "another function": "from .helpers import rand, shuffle, version, now\nrand(), shuffle(), version(), now()",
    "what is not reached": "from .helpers import rand\nrand()",
    "what another statement does": "STATES",
    "hash": "Of()",
    "columns in SQL": "F.expr('now > x.now and user = current_date_of_case'), F.expr('cast(today as date)')",
    "texts in SQL": "F.expr(\"s in ('today', 'user()') and s like '%rand()%' -- now()\\n\")",
    "a calendar": "class Calendar:\n    today = 1\n    def now(self): return 2\ncalendar = Calendar()\ncalendar.today, calendar.now(), ctx.now",
    "a member": "import enum\nclass At(enum.Enum):\n    NOW = 'now'\n    LATER = 'current_timestamp'\nAt.NOW",
    "a table of others": "tables = {'read': 1}\ntables['read'], sales.table, ctx.read",
    "a dictionary of functions": "import json, math\nOF = {'max': max, 'json': json.dumps, 'floor': math.floor}\nOF['max'](1, 2)",
    "objects of the author": "x = Shop()\nx.now(), Shop().now(), Shop().open(1), len('x').real",
    "a range of days": "import pandas as pd\npd.date_range('2020-01-01', periods=3), pd.Timestamp(year=2020, month=1, day=1)",
    "a path that is not read": "from pathlib import Path\nPath('/x').name, Path('/x') / 'y'",
}  # fmt: skip
HELPERS = """
import datetime, logging, random, time
def rand(): return 1
def shuffle(): return 2
def version(): return 3
def now(): return 4
def demo(): return datetime.datetime.now(), random.random()
if __name__ == "__main__":
    print(time.time())
"""


@pytest.mark.parametrize("what", ALIKE)
def test_what_only_looks_alike_is_allowed(shop: Path, what: str) -> None:
    top = (
        "import time, random\nSTATES = ('now()', 'open')\nSTARTED = time.time()\nprint(time.time(), end='')\n"
        "def demo(): return random.random()\nclass Of:\n    def __hash__(self): return hash(1)\n"
        "class Shop:\n    def now(self): return 1\n    def open(self, day): return day"
    )
    write(
        shop,
        ALIKE[what],
        top=top if what != "what another statement does" else top.replace("'now()', ", ""),
        helpers=HELPERS,
    )
    require_determined()


LOOSE = {
    "an open file": "OF = open(__file__)  # here\nOF.close()",
    "a client": "import sqlite3\nOF = sqlite3.connect(':memory:')  # here\nOF.close()",
    "a lock": "import threading\nOF = threading.Lock()  # here",
    "an iterator": "OF = iter([1])  # here",
    "a generator": "OF = (each for each in ())  # here",
    "inside a list": "import threading\nOF = [1, {'a': threading.Lock()}]  # here",
    "inside an object": "import threading\nclass Held:\n    def __init__(self): self.lock = threading.Lock()\nOF = Held()  # here",
}


@pytest.mark.parametrize("what", LOOSE)
def test_a_value_that_cannot_be_pinned_is_refused_with_its_place(shop: Path, what: str) -> None:
    write(shop, "OF", top=LOOSE[what])
    with pytest.raises(ContractBroken, check=has_code("not_pinnable")) as refused:
        require_determined()
    lines = (shop / "days.py").read_text(encoding="utf-8").splitlines()
    named = refused.value.ids
    assert str(named["file"]).endswith("days.py")
    assert "# here" in lines[int(str(named["line"])) - 1]


def test_what_cannot_be_pinned_and_is_not_reached_is_allowed(shop: Path) -> None:
    write(shop, top="\n".join(LOOSE["a lock"].splitlines()))
    require_determined()
