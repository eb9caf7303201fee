"""Which room may import what (docs/architecture.md), read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from backfill_assets import domain
from backfill_assets.capture.families import GROUP, families
from backfill_assets.core.next_steps import Command
from backfill_assets.core.settings import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "backfill_assets"


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path


@cache
def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@cache
def called_in(path: Path) -> frozenset[str]:
    """The names of functions and classes that a module calls."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return frozenset(called.id for called in calls if isinstance(called, ast.Name))


def top_level(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("deltalake", ("lake/", "capture/lake_tables/")),
        ("pyiceberg", ("capture/lake_tables/",)),
        ("obstore", ("files/",)),
        ("sqlalchemy", ("ledger/",)),
        ("alembic", ("ledger/",)),
        ("confusable_homoglyphs", ("core/people.py",)),
        ("dagster", ("orchestration/", "definitions.py")),
        ("dagster_pyspark", ("orchestration/",)),
        ("dagster_deltalake", ("orchestration/",)),
        ("dagster_postgres", ("orchestration/",)),
        ("dagster_shared", ("orchestration/",)),
        ("psycopg", ("orchestration/", "capture/postgres/")),
        ("typer", ("cli/",)),
        ("rich", ("cli/",)),
        ("markupsafe", ("desk/", "report/")),
        ("vl_convert", ("report/charts.py",)),
        ("starlette", ("desk/",)),
        ("uvicorn", ("desk/",)),
    ],
)
def test_a_library_stays_in_its_room(library: str, rooms: tuple[str, ...]) -> None:
    outside = [
        name for name, path in modules() if not name.startswith(rooms) and library in top_level(imports_of(path))
    ]
    assert outside == []
    assert any(library in top_level(imports_of(path)) for name, path in modules() if name.startswith(rooms))


def test_calendar_and_planning_know_no_engine() -> None:
    engines = {"pyspark", "deltalake", "dagster", "sqlalchemy", "pandas", "pyarrow"}
    pure = ("calendar/", "planning/")
    knowing = [name for name, path in modules() if name.startswith(pure) and engines & top_level(imports_of(path))]
    assert knowing == []


FLOORS = (
    ("core",),
    ("calendar",),
    ("files", "planning"),
    ("capture",),
    ("domain", "lake", "ledger"),
    ("landing", "transforms", "gates"),
    ("workspace",),
    ("candidates", "sniff", "staleness"),
    ("requests",),
    ("deliver", "upkeep"),
    ("families",),
    ("report",),
    ("application",),
    ("cli", "desk", "orchestration", "testing"),
)
"""From the lowest to the highest: a room imports rooms of lower floors, and none of its own (ADR 0018)."""

ENTRANCES = {
    "": "",
    "definitions": "core orchestration",
    "main": "application cli core desk orchestration workspace",
}
"""Modules of the package's root that belong to no floor, with what they may import."""


def floor_of(room: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


FAMILIES = tuple(
    f"capture/{each.value.partition(':')[0].rpartition('.')[2]}/" for each in entry_points(group=GROUP) if each.dist
)
"""The folders of families of sources: plug-ins, above all rooms that act."""


def room_of(name: str) -> str:
    """`planning` for `planning/graph.py`, `errors` for `errors.py`, nothing for the package itself."""
    if name.startswith(FAMILIES):
        return "families"
    return name.partition("/")[0].removesuffix(".py").replace("__init__", "")


def rooms_used(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "backfill_assets":
            # The version of the package is in no room.
            names = [f"backfill_assets.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("backfill_assets."))


@pytest.mark.long
def test_rooms_import_only_rooms_of_lower_floors() -> None:
    upward = []
    for name, path in modules():
        room = room_of(name)
        if room == "examples":  # checked more strictly below
            continue
        for used in rooms_used(path):
            if used == room:
                continue
            allowed = used in ENTRANCES[room].split() if room in ENTRANCES else floor_of(used) < floor_of(room)
            if not allowed:
                upward.append(f"{name} imports {used}")
    assert upward == []


ACTING = (
    *("landing", "transforms", "gates", "lake", "candidates", "staleness"),
    *("requests", "deliver", "upkeep"),
)
"""Rooms that act: command line and Dagster ask `application` for what they do, and know only the types of answers."""


def test_command_line_desk_and_dagster_act_through_the_application() -> None:
    found = {
        (name, module.removeprefix("backfill_assets."))
        for name, path in modules()
        if name.startswith(("cli/", "desk/", "orchestration/"))
        for module in imported_when_run(path)
        if module.startswith(tuple(f"backfill_assets.{room}." for room in ACTING))
    }
    # Dagster's resource of a table needs to know where the table is.
    assert found == {("orchestration/resources.py", "lake.tables")}


def run_tree(path: Path) -> ast.Module:
    """The source of a module without what it imports for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    return tree


def imported_when_run(path: Path) -> set[str]:
    """What a module imports, except for the types alone."""
    return {node.module for node in ast.walk(run_tree(path)) if isinstance(node, ast.ImportFrom) and node.module}


def dotted(name: str) -> str:
    """`backfill_assets.planning.graph` for `planning/graph.py`."""
    return ".".join(("backfill_assets", *Path(name).with_suffix("").parts)).removesuffix(".__init__")


def declarations_of_families() -> set[str]:
    """The names of families' classes and of what authors write within them."""
    return {name for each in families() for name in (*each.streams, *each.servers, *each.replays, *each.parts)}


def test_nothing_but_its_own_folder_names_a_family() -> None:
    """They are plug-ins, found by their entry points: the heart asks the registry (`capture.families`)."""
    # These names of parts are words of other rooms as well.
    classes = declarations_of_families() - {"Offset", "Token", "Cursor", "Basic"}
    packages = {f"backfill_assets.{each.rstrip('/').replace('/', '.')}" for each in FAMILIES}
    named = re.compile(rf"\b({'|'.join(sorted(classes | set(map(re.escape, packages))))})\b")
    naming = {
        f"{name}: {found[0]}"
        for name, path in modules()
        if not name.startswith((*FAMILIES, "examples/"))
        for found in named.finditer(path.read_text(encoding="utf-8"))
    }
    # Authors import declarations from one place: for type checkers it names them, when run it asks the registry.
    assert {each for each in naming if not each.startswith("domain/__init__.py: ")} == set()
    assert declarations_of_families() < set(domain.__all__)
    assert not any(module.startswith(tuple(packages)) for module in imported_when_run(PACKAGE / "domain/__init__.py"))


@pytest.mark.parametrize("room", [room for rooms in FLOORS for room in rooms if room not in ("workspace", "families")])
def test_no_room_has_an_import_cycle(room: str) -> None:
    """Imports inside functions count: what needs one to break a cycle is in the wrong module."""
    own = {dotted(name): path for name, path in modules() if name.startswith(f"{room}/")}
    graph: dict[str, set[str]] = {module: set() for module in own}
    for module, path in own.items():
        for node in ast.walk(run_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[module].update(each if each in own else node.module for each in named)
            elif isinstance(node, ast.Import):
                graph[module].update(alias.name for alias in node.names)
        graph[module] &= own.keys()
    assert any(graph.values())
    TopologicalSorter(graph).prepare()


def test_a_domain_is_written_against_the_authors_api_alone() -> None:
    # Beside it in `examples/` are the broker and the topic of the demo, which are no domain.
    for name, path in modules():
        if name.startswith("examples/enforcement_sla/"):
            used = {i for i in imports_of(path) if i.startswith("backfill_assets.")}
            foreign = {
                i for i in used if i != "backfill_assets.domain" and not i.startswith("backfill_assets.examples.")
            }
            assert not foreign, f"{name} imports {foreign}"


def test_nothing_but_settings_names_a_domain() -> None:
    naming = [
        name
        for name, path in modules()
        if not name.startswith("examples/") and "enforcement_sla" in path.read_text(encoding="utf-8")
    ]
    assert naming == ["core/settings.py"]


def test_spark_code_is_portable_to_spark_connect() -> None:
    banned = (".rdd", "sparkContext", "SparkContext", "._jvm", "._jsc")
    using = [
        f"{name}: {word}" for name, path in modules() for word in banned if word in path.read_text(encoding="utf-8")
    ]
    # It lists what authors may not use.
    assert using == ["transforms/undetermined.py: sparkContext"]


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """A module is as large as its subject, so that a question is answered in one file; beyond this it has two."""
    long = [name for name, path in modules() if len(path.read_text(encoding="utf-8").splitlines()) > 900]
    assert long == []


def test_a_field_is_described_on_its_own_line() -> None:
    """By a comment that begins with `#:`, and not again in a list in the docstring of its class."""
    lists = [name for name, path in modules() if re.search(r"^ +Attributes:$", path.read_text("utf-8"), re.MULTILINE)]
    assert lists == []


PROSE = re.compile(r"^_*(sentence|meaning|(\w+_)?described|(\w+_)?in_words)$")
WORDED_ITSELF = {("core/errors.py", "sentence")}
ROOMS_OF_FACTS = {room for floor in FLOORS for room in floor if floor_of(room) < floor_of("report")}


@pytest.mark.long
def test_rooms_below_the_report_keep_no_prose_in_data() -> None:
    """Records have values, and `report.words` has their words; the docstring of an error is its sentence."""
    named = [
        f"{name}:{node.lineno} {word}"
        for name, path in modules()
        if room_of(name) in ROOMS_OF_FACTS
        for node, word in names_given(ast.parse(path.read_text(encoding="utf-8")))
        if PROSE.match(word) and (name, word) not in WORDED_ITSELF
    ]
    assert named == []


def names_given(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | ast.AnnAssign | ast.Attribute, str]]:
    """Functions and properties, fields of classes, and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=word):
                yield node, word
            case ast.AnnAssign(target=ast.Name(id=word)):
                yield node, word
            case ast.Attribute(attr=word):
                yield node, word


@pytest.mark.long
def test_only_the_edge_writes_commands() -> None:
    """What to do next is a value of `core.next_steps`; the help of the command line speaks of its own commands."""
    written = [
        f"{name}:{node.lineno}"
        for name, path in modules()
        if name != "report/command_line.py"
        for node in spoken(ast.parse(path.read_text(encoding="utf-8")), is_cli=name.startswith("cli/"))
        if (COMMAND if name.startswith("cli/") else COMMAND_OR_OPTION).search(ast.unparse(node))
    ]
    assert written == []
    for text in ('f"backfill run {run_id}"', 'f"backfill {command} {run_id}"'):
        assert COMMAND.search(ast.unparse(ast.parse(text)))
    for text in ('"leave --mode out"', '"--mode is not given"'):
        assert COMMAND_OR_OPTION.search(ast.unparse(ast.parse(text)))


def test_no_full_stop_follows_a_next_step() -> None:
    """A next step ends with a command, which is copied to where it is carried out."""
    stopped = [
        f"{name}: {place[0]}"
        for name, path in modules()
        if "command_line import" in (source := path.read_text(encoding="utf-8")) or "next_steps import" in source
        for place in STOPPED_STEP.finditer(source)
    ]
    assert stopped == []
    assert STOPPED_STEP.search('f" Next: {words_of(following)}."') and STOPPED_STEP.search('f"{words_of(do(X, a))}. "')


STOPPED_STEP = re.compile(r"(words_of|in_dagster)\([^{}]*\)\}\.")


COMMAND = re.compile(rf"\bbackfill ({'|'.join(Command)})\b|(^f['\"]|[:;`] ?)backfill {{")
COMMAND_OR_OPTION = re.compile(rf"{COMMAND.pattern}|(^|[\s'\"])--[a-z]")


def spoken(tree: ast.AST, *, is_cli: bool) -> Iterator[ast.Constant | ast.JoinedStr]:
    """The texts of a module without its docstrings, and without the help of options."""
    silent: set[ast.AST] = set()
    for node in ast.walk(tree):
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or (
            is_cli and isinstance(node, ast.keyword) and node.arg == "help"
        ):
            silent.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in silent:
            yield node


OF_RUNS_ALONE = {
    "application/plan_load.py": "Frozen: a load that is not planned while its days are frozen",
    "requests/table_acts.py": "Frozen: a cut-over, which is no run",
}
"""Modules that raise an error which stands in the way of a publication for something else."""


def test_one_module_decides_whether_a_run_or_a_set_may_be_published() -> None:
    """Others ask it: publish raises the first obstacle, sensors wait, and the next step follows from them."""
    raised = {
        alias.name
        for node in ast.walk(ast.parse((PACKAGE / "requests/obstacles.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "backfill_assets.requests.errors"
        for alias in node.names
    }
    elsewhere = {
        name
        for name, path in modules()
        if name != "requests/obstacles.py" and "backfill_assets.requests.errors" in imports_of(path)
        if called_in(path) & raised
    }
    assert len(raised) > 20
    assert elsewhere == set(OF_RUNS_ALONE)


ADVISING = {
    "application/follow.py": "what a follow-up waits for that could not be published",
    "application/live.py": "the same of a LIVE run, in the text of a tick",
    "application/recover.py": "what is left to do about work that could not be ended",
}
"""Modules of the way in that say what a person can do next; all others leave that to the frontends."""


def test_only_some_modules_of_the_way_in_say_what_to_do_next() -> None:
    asking = {
        name
        for name, path in modules()
        if name.startswith("application/")
        and (
            any(each.startswith("backfill_assets.report.what_next") for each in imports_of(path))
            or any(isinstance(each, ast.Attribute) and each.attr == "next_step" for each in ast.walk(run_tree(path)))
        )
    }
    assert asking == set(ADVISING)


def test_the_application_decides_nothing_by_what_reports_say() -> None:
    """Reports show what lower rooms decide, and sensors act by these rooms; `look` only shows."""
    deciding = {
        f"{name} {found}"
        for name, path in modules()
        if name.startswith("application/") and name != "application/look.py"
        for found in decided_by_reports(path.read_text(encoding="utf-8"))
    }
    assert deciding == set()


@pytest.mark.parametrize(
    "decision",
    [
        "if is_over(run): stop()",
        "left = [run for run in runs if not is_over(run)]",
        "for each in map(is_over, runs):\n        if each.state: stop()",
        "found = is_over(run)\n    if found.state is DONE: stop()",
        "said = 'no' if (found := is_over(run)).state else 'yes'",
        "match is_over(run):\n        case True: stop()",
    ],
)
def test_a_decision_by_what_a_report_says_is_found(decision: str) -> None:
    module = f"from backfill_assets.report.runs import is_over\ndef act(run, runs):\n    {decision}\n"
    assert set(decided_by_reports(module)) == {"is_over"}


def decided_by_reports(source: str) -> Iterator[str]:
    """The functions of `report` whose answer is a condition: called in one, or bound to a name of which one asks."""
    tree = ast.parse(source)
    reports = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("backfill_assets.report")
        for alias in node.names
        if alias.name[0].islower()
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            bound = {name: asked for name, value in bindings(function) for asked in names_in(value) & reports}
            for condition in conditions(function):
                yield from names_in(condition) & reports
                asked_of = (each.value for each in ast.walk(condition) if isinstance(each, ast.Attribute))
                yield from (bound[each.id] for each in asked_of if isinstance(each, ast.Name) and each.id in bound)


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def bindings(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(ast.Name(id=name), value=value):
                yield name, value
            case (
                ast.For(target=ast.Name(id=name), iter=value) | ast.comprehension(target=ast.Name(id=name), iter=value)
            ):
                yield name, value


def conditions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.If(test=asked) | ast.IfExp(test=asked) | ast.While(test=asked) | ast.Match(subject=asked):
                yield asked
            case ast.comprehension(ifs=asked_of_each):
                yield from asked_of_each
            case ast.FunctionDef(returns=ast.Name(id="bool")):
                yield from (each for each in ast.walk(node) if isinstance(each, ast.Return))


READS_OF_ROWS = re.compile(r"\.(collect|first|toPandas|toLocalIterator|toArrow|to_pylist|to_pandas|to_pydict)\(\)")

COUNTS = {
    "candidates/compute.py": "numbers of changes, rows and days, by partition",
    "candidates/stage.py": "rows and checksums",
    "capture/lake_tables/delta.py": "paths and row counts of the files of a table",
    "core/java_classes.py": "made-up rows that Java's classes are loaded for",
    "transforms/workers.py": "the digest of code, no rows",
    "lake/checksums.py": "rows and checksums by partition",
    "lake/log_evidence.py": "paths, sizes and actions of a log; least and greatest values, which are only compared",
    "lake/append.py": "the lineage of runs, which is part of their manifests",
    "lake/tables.py": "paths and sizes of files",
    "landing/parquet.py": "UUIDs, which are written to a file again as their texts",
    "landing/formats.py": "lines by split",
    "landing/bronze.py": "records by import",
    "landing/statements.py": "the state of a key that a person typed",
    "landing/attempt.py": "ids of imports, by which rows are written to files again",
    "ledger/queries.py": "rows of the ledger",
    "testing/kit.py": "made-up rows of a test, which are compared in its process",
    "upkeep/audit_checks.py": "results of gates and rejected records, of which only numbers and digests are compared",
    "transforms/spark_plan.py": "the plan of rows, which has none of them",
    "upkeep/doctor.py": "the time of the session",
    "sniff/sample.py": "first rows of a file of a person; `report/sniffed.py` cuts and escapes their texts",
}
"""Modules that read counts, names and digests out of rows, and no value that is stored in the ledger or shown."""

ROW_VALUES = "backfill_assets.lake.row_values"


def test_values_of_rows_are_read_for_people_by_one_module() -> None:
    reading = {name for name, path in modules() if READS_OF_ROWS.search(path.read_text(encoding="utf-8"))}
    through = {name for name, path in modules() if ROW_VALUES in imports_of(path)}
    assert reading - through == {*COUNTS, "lake/row_values.py"}


@pytest.mark.parametrize("record", ["SampledRow", "FailingKey", "BreakdownCell", "PartitionCell", "Values"])
def test_what_holds_values_of_rows_is_made_of_their_texts(record: str) -> None:
    making = {name for name, path in modules() if record in called_in(path)}
    typed_by_a_person, stored = {"landing/statements.py"}, {"ledger/findings.py"}
    through = {name for name, path in modules() if ROW_VALUES in imports_of(path)}
    assert making - through - typed_by_a_person - stored == set()
    assert making & through


def test_the_texts_of_records_that_people_read_are_cut_by_one_module() -> None:
    """`landing.conformed` cuts a text of theirs again; `landing.times` and `landing.values` cut dates and numbers."""
    cutting = [name for name, path in modules() if "F.substring(" in path.read_text(encoding="utf-8")]
    assert cutting == ["lake/row_values.py", "landing/conformed.py", "landing/times.py", "landing/values.py"]
