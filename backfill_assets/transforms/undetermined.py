"""Undetermined names: what gives another value at another time, for another user, elsewhere, or in another task.

One list for Python's names, for functions of Spark, for SQL in texts and for Spark's plans. `typeof`, `uuid5` and
others that follow from their arguments are none of them; nor is an order that nothing decides, such as that of `first`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

ENVIRONMENT = os.environ

CLOCK = "it asks the clock"
ZONE = "it depends on the time zone of the machine"
RANDOM = "it is another value each time"
USER = "it depends on who computes, and in which catalog"
TASKS = "it depends on how rows are divided into tasks"
FILES = "it depends on the files that rows are read from"
MACHINE = "it depends on the machine and the environment of the process"
PROCESS = "it is another value in each process"
JAVA = "it calls Java, which can return anything"
WORDS = "its word is an instant of the clock"
OUTSIDE = "it reads what no manifest pins"
UNREAD = "it runs a text that nothing can read before"

SPARK: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "current_date",
            "current_timestamp",
            "current_time",
            "curdate",
            "now",
            "localtimestamp",
            "localtime",
            "getdate",
        ),
        CLOCK,
    ),
    **dict.fromkeys(("rand", "randn", "random", "uuid", "randstr", "uniform", "shuffle"), RANDOM),
    **dict.fromkeys(
        (
            *("current_user", "session_user", "user", "current_catalog", "current_database", "current_schema"),
            *("current_path", "current_timezone", "version"),
        ),
        USER,
    ),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), FILES),
    **dict.fromkeys(("spark_partition_id", "monotonically_increasing_id"), TASKS),
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), JAVA),
}
"""Functions of Spark."""

METHODS: Mapping[str, str] = {
    **dict.fromkeys(("sample", "sampleBy", "randomSplit"), TASKS),
    "asNondeterministic": RANDOM,
    "inputFiles": FILES,
    **dict.fromkeys(("currentDatabase", "currentCatalog"), USER),
    **dict.fromkeys(("now", "today", "utcnow"), CLOCK),
    **dict.fromkeys(("read_text", "read_bytes", "iterdir", "rglob", "glob", "is_file", "is_dir", "open"), OUTSIDE),
    **dict.fromkeys(("textFile", "wholeTextFiles", "binaryFiles", "sequenceFile", "forPath", "forName"), OUTSIDE),
}
"""Methods, of whatever object."""

ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(("environ", "environb"), MACHINE),
    **dict.fromkeys(("_jvm", "_jsc", "_jsparkSession", "_gateway"), JAVA),
}
"""Attributes, of whatever object."""

HANDED_ON: Mapping[str, str] = {
    **dict.fromkeys(("time", "datetime"), CLOCK),
    **dict.fromkeys(("random", "secrets", "numpy.random"), RANDOM),
    **dict.fromkeys(("os", "posix", "socket", "platform", "locale", "getpass"), MACHINE),
}
"""Modules that are used as a whole, such as in `getattr(time, chosen)`, so that no name says what is asked of them."""

_OF_SESSIONS = {
    **dict.fromkeys(("spark", "sparkSession"), ("read", "readStream", "table", "catalog", "streams")),
    **dict.fromkeys(("sparkContext", "_sc"), ("applicationId", "startTime", "uiWebUrl", "defaultParallelism")),
}
"""What a session, or its context, reads that is no input."""

WITHOUT_ARGUMENTS: Mapping[str, str] = {"astimezone": ZONE, "seed": RANDOM}
"""Methods that are called with nothing."""

SINKS = {"expr", "sql", "filter", "where", "selectExpr", "having"}
"""What takes SQL."""

GIVEN: Mapping[str, int] = {
    **{"time.gmtime": 1, "time.strftime": 2, "time.asctime": 1},
    **{"datetime.datetime.fromtimestamp": 2, "random.Random": 1},
    **{"numpy.random.default_rng": 1, "numpy.random.RandomState": 1, "numpy.random.SeedSequence": 1},
}
"""Functions that follow from their arguments where they are given so many."""

IN_MEMORY = {"io.BytesIO", "io.StringIO", "pyarrow.BufferReader"}
"""What makes a file that is in memory, which others read as they read one of a disk."""

_PYTHON: Mapping[str, str] = {
    **{
        f"time.{name}{unit}": CLOCK
        for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
        for unit in ("", "_ns")
    },
    **{f"time.{name}": CLOCK for name in ("gmtime", "strftime", "asctime")},
    **{f"time.{name}": ZONE for name in ("localtime", "ctime", "mktime", "tzname", "timezone", "altzone", "daylight")},
    **{f"datetime.datetime.{name}": CLOCK for name in ("now", "utcnow", "today")},
    "datetime.date.today": CLOCK,
    "datetime.datetime.fromtimestamp": ZONE,
    "datetime.date.fromtimestamp": ZONE,
    **{
        f"{of}.Timestamp.{name}": CLOCK
        for of in ("pandas", "pandas._libs.tslibs.timestamps")
        for name in ("now", "today", "utcnow")
    },
    **{f"uuid.{name}": RANDOM for name in ("uuid1", "uuid4", "uuid6", "uuid7", "getnode")},
    **{f"os.{name}": RANDOM for name in ("urandom", "getrandom")},
    **{f"threading.{name}": PROCESS for name in ("get_ident", "get_native_id", "current_thread")},
    **dict.fromkeys(("email.utils.formatdate", "email.utils.localtime", "timeit.default_timer"), CLOCK),
    **dict.fromkeys(("timeit.timeit", "timeit.repeat", "resource.getrusage"), CLOCK),
    **{f"{of}.Period.now": CLOCK for of in ("pandas", "pandas._libs.tslibs.period")},
    **dict.fromkeys(("ssl.RAND_bytes", "_ssl.RAND_bytes"), RANDOM),
    **dict.fromkeys(("dateutil.tz.tzlocal", "dateutil.tz.tz.tzlocal", "tzlocal.get_localzone"), ZONE),
    "builtins.hash": PROCESS,
    "builtins.id": PROCESS,
    "builtins.input": MACHINE,
}
_PYTHON_AREAS: Mapping[str, str] = {
    "random.": RANDOM,
    "secrets.": RANDOM,
    "numpy.random.": RANDOM,
    "tempfile.": RANDOM,
    **dict.fromkeys(("asyncio.new_event_loop", "asyncio.get_event_loop", "sched."), CLOCK),
    "arrow.utcnow": CLOCK,
    "arrow.now": CLOCK,
    "pendulum.now": CLOCK,
    "pendulum.today": CLOCK,
}
_OF_THE_MACHINE: Mapping[str, str] = {
    **{
        f"os.{name}": MACHINE
        for name in (
            *("environ", "environb", "getenv", "getenvb", "getlogin", "getcwd", "getcwdb", "uname", "cpu_count"),
            *("getuid", "geteuid", "getgid", "getegid", "getloadavg", "times", "get_terminal_size", "sysconf"),
        )
    },
    **{f"os.{name}": PROCESS for name in ("getpid", "getppid", "getpgid", "getsid")},
    **{f"posixpath.{name}": MACHINE for name in ("expanduser", "expandvars")},
    **{f"os.path.{name}": MACHINE for name in ("expanduser", "expandvars")},
    **{f"pathlib.Path.{name}": MACHINE for name in ("cwd", "home", "expanduser", "absolute", "resolve")},
    **{f"{of}.{name}": MACHINE for of in ("os.path", "posixpath") for name in ("abspath", "realpath")},
    **dict.fromkeys(("builtins.eval", "builtins.exec", "builtins.compile"), UNREAD),
    **{f"os.{name}": OUTSIDE for name in ("read", "pread", "access", "statvfs", "getxattr")},
    **{f"sys.{name}": OUTSIDE for name in ("stdin", "__stdin__")},
    "sys.modules": UNREAD,
    **{f"pyspark.sql.session.SparkSession.{name}": OUTSIDE for name in ("active", "getActiveSession", "builder")},
    **dict.fromkeys(("xml.etree.ElementTree.parse", "xml.etree.ElementTree.iterparse"), OUTSIDE),
    **dict.fromkeys(("sqlalchemy.create_engine", "sqlalchemy.engine.create.create_engine"), OUTSIDE),
    **{f"configparser.RawConfigParser.{name}": OUTSIDE for name in ("read", "read_file")},
    **dict.fromkeys(("pyarrow.memory_map", "pyarrow.lib.memory_map", "pyarrow.OSFile", "pyarrow.lib.OSFile"), OUTSIDE),
    **{f"sys.{name}": MACHINE for name in ("argv", "path", "executable", "flags")},
    **{f"tempfile.{name}": MACHINE for name in ("gettempdir", "gettempdirb", "tempdir")},
    "multiprocessing.current_process": PROCESS,
    "multiprocessing.cpu_count": MACHINE,
    **dict.fromkeys(("_io.open", "io.open", "io.open_code", "io.FileIO", "codecs.open", "linecache.getline"), OUTSIDE),
    **{
        f"os.{name}": OUTSIDE
        for name in ("open", "popen", "system", "listdir", "scandir", "walk", "fwalk", "stat", "lstat", "readlink")
    },
    **{
        f"{of}.{name}": OUTSIDE
        for of in ("os.path", "posixpath", "genericpath")
        for name in ("exists", "isfile", "isdir", "getsize", "getmtime", "getctime", "getatime")
    },
    **{
        f"pathlib.Path.{name}": OUTSIDE
        for name in (
            *("open", "read_text", "read_bytes", "stat", "lstat", "exists", "is_file", "is_dir", "iterdir", "glob"),
            *("rglob", "walk"),
        )
    },
    **dict.fromkeys(("gzip.open", "bz2.open", "lzma.open", "zipfile.ZipFile", "tarfile.open"), OUTSIDE),
    **dict.fromkeys(("sqlite3.connect", "duckdb.connect", "duckdb.read_csv", "duckdb.read_parquet"), OUTSIDE),
    **{f"numpy.{name}": OUTSIDE for name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")},
}
"""What a module may read when it is imported: the value is pinned."""

_AREAS_OF_THE_MACHINE: Mapping[str, str] = {
    **dict.fromkeys(("socket.", "locale.", "platform.", "getpass."), MACHINE),
    **dict.fromkeys(("urllib.request.", "http.client.", "requests.", "httpx.", "ftplib.", "subprocess."), OUTSIDE),
    **dict.fromkeys(("glob.", "fileinput.", "importlib.resources.", "pkgutil.get_data", "pandas.read_"), OUTSIDE),
    **dict.fromkeys(("pyarrow.parquet.read_", "pyarrow.csv.read_", "pyarrow.json.read_", "pyarrow.dataset."), OUTSIDE),
    **dict.fromkeys(("polars.read_", "polars.scan_", "deltalake.", "fsspec.", "boto3."), OUTSIDE),
    **dict.fromkeys(("pyarrow.fs.", "pyarrow._fs.", "pyarrow.parquet.Parquet", "pyarrow.parquet.core."), OUTSIDE),
    **dict.fromkeys(("shelve.", "dbm.", "runpy.", "mmap.", "shutil.", "ctypes.", "importlib.metadata."), OUTSIDE),
    **dict.fromkeys(("psycopg.", "psycopg2.", "pymysql.", "urllib3.", "aiohttp.", "delta.tables."), OUTSIDE),
    **{
        f"{name}.": OUTSIDE
        for name in (
            *(
                "smtplib",
                "imaplib",
                "poplib",
                "telnetlib",
                "nntplib",
                "xmlrpc.client",
                "webbrowser",
                "paramiko",
                "grpc",
            ),
            *("websocket", "websockets", "pycurl", "botocore", "google.cloud", "azure", "redis", "pymongo", "kafka"),
            *("confluent_kafka", "elasticsearch", "oracledb", "cx_Oracle", "pyodbc", "MySQLdb", "mysql.connector"),
            *(
                "snowflake.connector",
                "openai",
                "anthropic",
                "multiprocessing.connection",
                "multiprocessing.shared_memory",
            ),
            *("asyncio.subprocess", "pty"),
        )
    },
    **dict.fromkeys(("asyncio.open_", "asyncio.create_subprocess_", "asyncio.streams.open_"), OUTSIDE),
    **{f"os.{name}": OUTSIDE for name in ("exec", "spawn", "posix_spawn", "fork")},
    **dict.fromkeys(("pyspark.taskcontext.", "pyspark.core.files.", "pyspark.files."), TASKS),
}


ENDINGS = {
    name.rpartition(".")[2] for name in (*_PYTHON, *_OF_THE_MACHINE) if name not in GIVEN and "builtins." not in name
} - {name.rpartition(".")[2] for name in GIVEN} | {"random", "getrandbits"}
"""The last parts of the names of functions that are never asked for the same."""

_KNOWN_AS = {
    **dict.fromkeys(("posix", "nt"), "os"),
    **{"_socket": "socket", "_locale": "locale", "_thread": "threading", "_sqlite3": "sqlite3"},
}
"""The modules by which what others hold is known."""


def full_name(module: object, name: object) -> str:
    """The name by which a function or class of a module is known."""
    return f"{_KNOWN_AS.get(str(module), module)}.{name}"


def why_not(name: str, *, is_called: bool = True) -> str | None:
    """Why what a full name means is not determined; None where it is.

    Args:
        is_called: Whether it is asked when a function is called, and not only when a module is imported.
    """
    if name.startswith("pyspark.") and ".functions" in name:
        return SPARK.get(name.rpartition(".")[2])
    if name in _PYTHON:
        return _PYTHON[name]
    if name in _OF_THE_MACHINE:
        return _OF_THE_MACHINE[name] if is_called else None
    if why := next((why for area, why in _PYTHON_AREAS.items() if name.startswith(area)), None):
        return why
    if not is_called:
        return None
    return next((why for area, why in _AREAS_OF_THE_MACHINE.items() if name.startswith(area)), None)


def read_by_session(chain: Sequence[str]) -> str | None:
    """The read of a Spark session that a name with its attributes is, such as `spark.read`; None for any other."""
    pairs = (pair for pair in pairwise(chain) if pair[1] in _OF_SESSIONS.get(pair[0], ()))
    return next(map(".".join, pairs), None)


# ---------------------------------------------------------------------------------------------------------- SQL

_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|`[^`]*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_CALLED = re.compile(r"(?<![\w.`])([a-z_]\w*)\s*\(", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w.`])(current_date|current_timestamp|current_time|current_user|session_user)\b(?!\s*\()", re.IGNORECASE
)
_CLOCK_WORDS = "now|today|tomorrow|yesterday"
_TYPED = re.compile(
    rf"\b(?:date|timestamp|timestamp_ntz|timestamp_ltz)\s*'\s*(?:{_CLOCK_WORDS})\b"
    rf"|\bcast\s*\(\s*'\s*(?:{_CLOCK_WORDS})\s*'\s+as\s+(?:date|timestamp)"
    rf"|'\s*(?:{_CLOCK_WORDS})\s*'\s*::\s*(?:date|timestamp)"
    rf"|\bto_(?:date|timestamp)\s*\(\s*'\s*(?:{_CLOCK_WORDS})\s*'\s*\)",
    re.IGNORECASE,
)
_NOTHING_GIVEN = re.compile(r"(?<![\w.`])unix_timestamp\s*\(\s*\)", re.IGNORECASE)
_SAMPLE = re.compile(r"\btablesample\b", re.IGNORECASE)
_OF_FILES = re.compile(
    r"\b(?:from|join|table)\s+((?:parquet|delta|iceberg|csv|json|orc|text|avro|binaryfile)\s*\.\s*`)", re.IGNORECASE
)


def why_not_in_sql(found: str) -> str:
    """Why what was found in SQL is not determined."""
    name = found.removesuffix("()").lower()
    if name.endswith("`"):
        return OUTSIDE
    return SPARK.get(name) or {"unix_timestamp": CLOCK, "tablesample": TASKS}.get(name, WORDS)


def in_spark_sql(text: str, *, is_sql: bool = False) -> str | None:
    """The expression in a text that is not determined, as it is written there; None where nothing is, or where it is
    not SQL.

    Args:
        is_sql: Whether Spark takes the text as SQL for certain. Else it has to be a whole expression or query.
    """
    found = next(_in_spark_sql(text, is_sql=is_sql), None)
    return found if found is None or is_sql or _is_sql(text) else None


def _in_spark_sql(text: str, *, is_sql: bool) -> Iterator[str]:
    if (is_sql and (typed := _TYPED.search(text))) or (typed := _TYPED.search(text)):
        yield typed.group().strip()
    if files := _OF_FILES.search(text):
        yield files.group(1)
    code = _NOT_CODE.sub(" '' ", text)
    for called in _CALLED.finditer(code):
        if called.group(1).lower() in SPARK:
            yield f"{called.group(1)}()"
    if _NOTHING_GIVEN.search(code):
        yield "unix_timestamp()"
    if _SAMPLE.search(code):
        yield "TABLESAMPLE"
    if is_sql and (bare := _BARE.search(code)):
        yield bare.group(1)


def _is_sql(text: str) -> bool:
    # Imported for the few texts that may be SQL with a clock in it.
    import sqlglot

    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return False
    return not isinstance(parsed, sqlglot.exp.Command | sqlglot.exp.Alias)


_READS_WORDS = {
    *("datetime64", "Timestamp", "to_datetime", "DatetimeIndex", "Period", "period_range"),
    *("date_range", "bdate_range", "interval_range"),
}
_CASTS = {"cast", "try_cast", "astype", "to_date", "to_timestamp"}


def is_word_of_the_clock(call: ast.Call) -> bool:
    """True if a call turns a word such as `today` into an instant."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = [*call.args, *(each.value for each in call.keywords)]
    if called in _READS_WORDS or any("datetime64" in each for each in _texts(given)):
        return any(map(_is_word, _parts(given)))
    inside = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    return called in _CASTS and any(
        isinstance(each, ast.Call)
        and getattr(each.func, "attr", getattr(each.func, "id", "")) == "lit"
        and any(map(_is_word, each.args))
        for each in inside
    )


def _texts(nodes: Sequence[ast.expr]) -> Iterator[str]:
    return (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _parts(nodes: Sequence[ast.expr]) -> Iterator[ast.AST]:
    """The given values, and those inside given collections."""
    for node in nodes:
        yield from _parts(node.elts) if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]


def _is_word(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).strip().lower() in _CLOCK_WORDS.split("|")
