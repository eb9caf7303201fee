"""Which room may import what (DESIGN: rooms and fences), read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.settings import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "backfill_assets"


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def top_level(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("deltalake", ("lake/",)),
        ("sqlalchemy", ("ledger/",)),
        ("alembic", ("ledger/",)),
        ("dagster", ("orchestration/", "definitions.py")),
        ("dagster_pyspark", ("orchestration/",)),
        ("dagster_deltalake", ("orchestration/",)),
    ],
)
def test_a_library_stays_in_its_room(library: str, rooms: tuple[str, ...]) -> None:
    outside = [
        name for name, path in modules() if not name.startswith(rooms) and library in top_level(imports_of(path))
    ]
    assert outside == []
    assert any(library in top_level(imports_of(path)) for name, path in modules() if name.startswith(rooms))


def test_planning_knows_no_engine() -> None:
    engines = {"pyspark", "deltalake", "dagster", "sqlalchemy", "pandas", "pyarrow"}
    knowing = [
        name for name, path in modules() if name.startswith("planning/") and engines & top_level(imports_of(path))
    ]
    assert knowing == []


def test_planning_imports_no_room_that_acts() -> None:
    rooms = ("landing", "ledger", "lake", "transforms", "gates", "publication", "orchestration", "domain")
    for name, path in modules():
        if name.startswith("planning/"):
            used = {i for i in imports_of(path) if i.startswith("backfill_assets.")}
            assert not [i for i in used if i.split(".")[1] in rooms], name


def test_a_domain_is_written_against_the_authors_api_alone() -> None:
    allowed = {"backfill_assets.domain", "backfill_assets.errors", "backfill_assets.transforms.context"}
    for name, path in modules():
        if name.startswith("domains/"):
            used = {i for i in imports_of(path) if i.startswith("backfill_assets.")}
            foreign = {i for i in used - allowed if not i.startswith("backfill_assets.domains.")}
            assert not foreign, f"{name} imports {foreign}"


def test_nothing_but_settings_names_a_domain() -> None:
    naming = [
        name
        for name, path in modules()
        if not name.startswith("domains/") and "enforcement_sla" in path.read_text(encoding="utf-8")
    ]
    assert naming == ["settings.py"]


def test_spark_code_is_portable_to_spark_connect() -> None:
    banned = (".rdd", "sparkContext", "SparkContext", "._jvm", "._jsc")
    using = [
        f"{name}: {word}" for name, path in modules() for word in banned if word in path.read_text(encoding="utf-8")
    ]
    assert using == []


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    long = [name for name, path in modules() if len(path.read_text(encoding="utf-8").splitlines()) > 480]
    assert long == []
