"""Code as authors write it is planned: what only reminds of a clock, of chance or of a file is refused nowhere."""

# ruff: noqa: E501 - a line of a table is a case.
from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from backfill_assets.transforms.code import DomainCode
from backfill_assets_tests.unit.transforms.test_determined import NAME, require_determined, shop, write

__all__ = ["shop"]

ORDINARY = {
    "numbers of a seed": ("import random", "rng = random.Random(7)\nrng.random(), rng.sample([1, 2], 1), rng.shuffle([1]), random.Random(7).choice([1, 2])"),
    "numbers of a seed of numpy": ("import numpy as np", "rng = np.random.default_rng(42)\nrng.normal(size=3), rng.integers(1, 2), np.random.default_rng(42).normal(size=3)"),
    "methods of an own class": ("class Shop:\n    def now(self): return 1\n    def go(self): return self.now()\n    @classmethod\n    def open(cls): return cls()\n    @classmethod\n    def made(cls): return cls.open().go()\nSHOP = Shop()", "SHOP.go(), Shop.made()"),
    "methods of a base": ("class Base:\n    def open(self): return 1\nclass Sub(Base):\n    def go(self): return self.open()", "Sub().go()"),
    "a file in memory": ("import io, gzip, zipfile, pandas as pd, xml.etree.ElementTree as ET", "def read(b):\n    return pd.read_csv(io.BytesIO(b)), gzip.open(io.BytesIO(b)).read(), zipfile.ZipFile(io.BytesIO(b)).namelist(), ET.parse(io.StringIO('x'))\nF.udf(read)"),
    "a local file in memory": ("import io, pandas as pd", "def read(b):\n    buffer = io.StringIO(b)\n    return pd.read_json(buffer, lines=True)\nF.udf(read)"),
    "functions of numpy": ("import numpy as np\nOF = {'sum': np.sum, 'log': np.log}\nE = np.array([0.0, 1.0])\nAT = np.datetime64('2020-01-01')\nN = np.float64(1.5)", "OF['log'](1), E, AT + np.timedelta64(1, 'D'), N"),
    "a layout of bytes": ("import struct\nS = struct.Struct('<i')", "S.unpack(b'1234')"),
    "a record that is not iterated": ("import dagster as dg\nKEY = dg.AssetKey(['a', 'b'])\nDAYS = dg.DailyPartitionsDefinition(start_date='2026-01-01')", "KEY.to_user_string(), DAYS"),
    "a logger of Dagster": ("import dagster as dg", "dg.get_dagster_logger().info('now() %s', 1)"),
    "a logger of structlog": ("import structlog\nLOG = structlog.get_logger(__name__)", "LOG.info('x', rows=1)"),
    "an adapted logger": ("import logging\nLOG = logging.LoggerAdapter(logging.getLogger('a'), {'x': 1})", "LOG.info('x')"),
    "caches": ("import functools\n@functools.lru_cache(maxsize=None)\ndef a(x): return x\nclass Of:\n    @functools.lru_cache\n    def m(self, x): return x\n    @functools.cached_property\n    def p(self): return 1\n    @functools.singledispatchmethod\n    def s(self, x): return x\nOF = Of()", "a(1), OF.m(1), OF.p, OF.s(1)"),
    "dispatch": ("import functools\n@functools.singledispatch\ndef show(x): return str(x)\n@show.register\ndef _(x: int): return x", "show(1)"),
    "an order": ("import functools\n@functools.total_ordering\nclass V:\n    def __init__(self, x): self.x = x\n    def __lt__(self, o): return self.x < o.x\n    def __eq__(self, o): return self.x == o.x\n    def __hash__(self): return hash(self.x)", "V(1) < V(2)"),
    "named tuples": ("import collections\nfrom typing import NamedTuple\nclass P(NamedTuple):\n    a: int = 1\nQ = collections.namedtuple('Q', 'a b')\nOF = P(1), Q(1, 2)", "OF, P(2).a"),
    "a protocol": ("from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n    def go(self) -> int: ...\nclass Q:\n    def go(self): return 1\nOF: P = Q()", "OF.go(), isinstance(OF, P)"),
    "types": ("from typing import Annotated, Final, Generic, Literal, NewType, TypeVar, Union\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, x: T): self.x = x\nId = NewType('Id', str)\nMode = Literal['a', 'b']\nA = Annotated[int, 'a']\nU = Union[int, str] | None\nOF: Final = Box[int](1)", "OF.x, Id('a'), Mode, A, U"),
    "a dataclass": ("from dataclasses import asdict, dataclass, field, replace\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass R:\n    a: int = 1\n    b: list = field(default_factory=list)\n    def total(self): return self.a\nOF = R(a=2)", "replace(OF, a=3).total(), asdict(OF)"),
    "enumerations": ("import enum, functools\nclass At(enum.Flag):\n    A = enum.auto()\n    B = enum.auto()\nclass S(enum.StrEnum):\n    NOW = enum.auto()\n    @property\n    def label(self): return self.value.title()\nclass C(enum.Enum):\n    A = functools.partial(max, 1)\n    def __call__(self, x): return self.value(x)\nclass V(enum.Enum):\n    LOW = ('low', 6)\n    def __init__(self, label, rate):\n        self.label = label\n        self.rate = rate", "At.A | At.B, S.NOW.label, C.A(2), V.LOW.rate, [e.value for e in S]"),
    "decimals": ("import decimal\nfrom decimal import Decimal\nCTX = decimal.Context(prec=10)\nVAT = Decimal('0.21')", "with decimal.localcontext(CTX) as c:\n    c.prec = 5\n    VAT.quantize(Decimal('0.01'), rounding=decimal.ROUND_UP), decimal.getcontext().copy()"),
    "instants": ("import datetime as dt\nfrom zoneinfo import ZoneInfo\nSTART = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)\nDAY = dt.timedelta(days=1)\nNOON = dt.time(12, 0)\nTZ = dt.timezone(dt.timedelta(hours=1), 'X')\nAMS = ZoneInfo('Europe/Amsterdam')\nPARSE = {'d': dt.date.fromisoformat, 't': dt.datetime.fromisoformat}", "F.lit(START + DAY), START.astimezone(AMS), START.astimezone(TZ), dt.datetime.combine(START.date(), NOON), dt.datetime.fromtimestamp(0, dt.UTC), START.strftime('%Y'), isinstance(START, (dt.date, dt.datetime)), PARSE['d']('2026-01-01')"),
    "days of Spark": ("", "F.to_date('x'), F.to_timestamp(F.col('x'), 'yyyy'), F.to_date(F.lit('2020-01-01')), F.lit('2020-01-01').cast('date'), F.from_utc_timestamp('x', 'Europe/Amsterdam'), F.unix_timestamp(F.col('x')), F.lit(ctx.output.start)"),
    "a window": ("from pyspark.sql import Window", "w = Window.partitionBy('x').orderBy(F.col('y').desc()).rowsBetween(Window.unboundedPreceding, Window.currentRow)\nsales.withColumn('n', F.row_number().over(w))"),
    "functions over groups": ("import pandas as pd\nimport pyarrow as pa\ndef grp(key, pdf: pd.DataFrame) -> pd.DataFrame:\n    return pdf.assign(v=pdf.v - pdf.v.mean()).sort_values('v')\ndef each(batches):\n    for b in batches:\n        yield pa.RecordBatch.from_pydict({'a': b.column(0)})", "sales.groupBy('x').applyInPandas(grp, 'v double'), sales.mapInArrow(each, 'a string')"),
    "functions of functions": ("import operator\nfrom functools import partial, reduce\nfrom pyspark.sql import DataFrame\nROUND = partial(F.round, scale=2)\nGET = operator.itemgetter('x')\nSTEPS = [lambda d: d.distinct(), DataFrame.distinct]\nCALC = {'a': lambda c: F.sum(c), 'm': F.max}\nT = {'a': 1}\nOF = T.get\nFNS = [lambda x, i=i: x + i for i in range(3)]", "ROUND('x'), GET, reduce(DataFrame.unionByName, [sales]), [s(sales) for s in STEPS], [f('x') for f in CALC.values()], OF('a'), [f(1) for f in FNS]"),
    "collections": ("import collections, types\nD = collections.defaultdict(list)\nQ = collections.deque([1], maxlen=3)\nM = collections.ChainMap({'a': 1}, {'b': 2})\nN = types.SimpleNamespace(a=1)\nX = object()", "D, Q, M['a'], N.a, X"),
    "patterns and texts": ("import re, string\nRE = {'a': re.compile(r'(?i)now\\(\\)'), 'b': re.compile(b'b')}\nT = string.Template('$a')\nTR = str.maketrans('ab', 'cd')", "RE['a'].sub('', 'x'), T.substitute(a=1), 'x'.translate(TR)"),
    "digests": ("import base64, hashlib, hmac, zlib\nBY = {'sha': hashlib.sha256, 'crc': zlib.crc32}", "BY['sha'](b'x').hexdigest(), hmac.new(b'k', b'x', 'sha256').digest(), base64.b64encode(b'x')"),
    "values of pandas": ("import pandas as pd\nDF = pd.DataFrame({'a': [1, 2]})\nTS = pd.Timestamp('2020-01-01', tz='UTC') + pd.offsets.MonthEnd(1)\nCAT = pd.CategoricalDtype(['a'], ordered=True)\nIV = pd.IntervalIndex.from_breaks([0, 1])", "DF.merge(DF, on='a'), TS, CAT, pd.cut([1], IV), pd.to_datetime(['2020-01-01'], utc=True), pd.NA"),
    "models of pydantic": ("from pydantic import BaseModel, ConfigDict, Field, TypeAdapter\nclass M(BaseModel):\n    model_config = ConfigDict(frozen=True)\n    a: int = 1\n    b: list[str] = Field(default_factory=list)\nTA = TypeAdapter(list[int])\ndef read(x): return M.model_validate_json(x).a", "F.udf(read), M(a=1).model_dump(), TA.validate_json('[1]')"),
    "classes that know of each other": ("class Rule:\n    rules = []\n    def __init_subclass__(cls, **k):\n        super().__init_subclass__(**k)\n        Rule.rules.append(cls)\nclass A(Rule):\n    def apply(self, f): return f\nclass Reg(type):\n    known = {}\n    def __new__(m, n, b, d):\n        c = super().__new__(m, n, b, d)\n        m.known[n] = c\n        return c\nclass B(metaclass=Reg): ...", "[r().apply(sales) for r in Rule.rules], Reg.known['B']"),
    "what a module reads": ("import csv, os, platform, sys\nfrom pathlib import Path\nHERE = Path(__file__).resolve().parent\nwith open(__file__, encoding='utf-8') as opened:\n    LINES = [line.strip() for line in opened]\nROWS = list(csv.reader(['a,b']))\nSEP = '/' if sys.platform == 'win32' else os.sep\nPY = platform.python_version()\nHOME = os.path.expanduser('~')", "HERE / 'x', LINES[0], ROWS, SEP, PY, HOME"),
    "a decorator that logs": ("import functools, logging\nLOG = logging.getLogger(__name__)\ndef traced(name):\n    def deco(f):\n        @functools.wraps(f)\n        def inner(*a, **k):\n            LOG.debug('calling %s now()', name)\n            return f(*a, **k)\n        return inner\n    return deco\n@traced('x')\ndef helper(x): return x", "helper(sales)"),
    "names of clocks that are columns": ("def plus(time, date, random): return time.alias('x'), date.cast('date'), random", "time = F.col('time')\ntime.cast('date')\nplus(F.col('a'), F.col('b'), 1)"),
    "relative days": ("from dateutil import parser, tz\nfrom dateutil.relativedelta import relativedelta\nSTEP = relativedelta(months=1)\nZ = tz.gettz('Europe/Amsterdam')", "STEP, parser.isoparse('2026-01-01'), Z"),
    "documents": ("import json, yaml\nDOC = yaml.safe_load('a: 1')\nENC = json.JSONEncoder(sort_keys=True)", "DOC['a'], json.loads('1', parse_float=str), ENC.encode(1)"),
    "warnings and contexts": ("import contextlib, warnings\n@contextlib.contextmanager\ndef scope(x):\n    yield x", "with scope(1) as x, contextlib.suppress(KeyError), contextlib.ExitStack() as stack:\n    warnings.warn('x', stacklevel=2)"),
}  # fmt: skip


@pytest.mark.parametrize("what", ORDINARY)
def test_what_authors_write_every_day_is_planned_and_has_the_same_digest_again(shop: Path, what: str) -> None:
    top, body = ORDINARY[what]
    write(shop, body, top=top)
    require_determined()
    domain = importlib.import_module(NAME).DOMAIN
    first, again = (DomainCode(domain=domain).of(domain.table("days"), "1.0.0") for _ in range(2))
    assert first == again
