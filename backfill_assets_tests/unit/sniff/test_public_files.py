"""What is proposed for the shapes of well-known public files, and that it loads as a domain by itself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.domain import Domain
from backfill_assets.domain.domain import load_domain
from backfill_assets.report.sniffed import declared_lines, python_of
from backfill_assets.sniff.proposal import DoubtKind, Proposal
from backfill_assets.sniff.propose import propose
from backfill_assets_tests.support.public_files import SHAPES, Shape

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def proposed(shape: Shape, folder: Path) -> Proposal:
    path = folder / shape.file
    path.write_bytes(shape.write())
    return propose([path], name=f"bronze.{shape.name}", as_of=AS_OF)


def test_there_are_more_than_the_twenty_five_files_that_were_asked_for() -> None:
    assert len(SHAPES) >= 25
    assert len({shape.like for shape in SHAPES.values()}) == len(SHAPES)


@every_shape
def test_key_and_event_time_are_those_that_its_users_have(shape: Shape, tmp_path: Path) -> None:
    found = proposed(shape, tmp_path)
    assert (found.key, found.event_time, found.has_local_times) == (shape.key, shape.event_time, shape.zone)
    assert found.has_row_number == (shape.key == ())
    rejected = [doubt.records for doubt in found.doubts if doubt.rejects and doubt.kind != DoubtKind.FIRST_DAY]
    assert sum(rejected) == shape.rejected


@every_shape
def test_three_lines_at_most_are_declared_besides(shape: Shape, tmp_path: Path) -> None:
    lines = [line for line in declared_lines(proposed(shape, tmp_path)) if line.startswith("    ") and line[4] != " "]
    begun = [line.strip() for line in lines if not line.strip().startswith((")", "}"))]
    assert len(begun) <= 3
    assert len(begun) == len(shape.declared), begun
    for line, expected in zip(begun, shape.declared, strict=True):
        assert line.removesuffix(",") == expected or (expected[-1] in "({" and line.startswith(expected)), line


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = {*sys.modules}
    yield folder
    for name in {*sys.modules} - before:
        del sys.modules[name]


@every_shape
def test_what_is_printed_loads_as_a_domain(shape: Shape, tmp_path: Path, modules: Path) -> None:
    (modules / f"{shape.name}_alone.py").write_text(python_of(proposed(shape, tmp_path)), encoding="utf-8")
    domain = load_domain(f"{shape.name}_alone")
    assert [table.name for table in domain.sources] == [f"bronze.{shape.name}"]


@pytest.mark.long
def test_every_module_is_formatted_as_this_project_is(tmp_path: Path) -> None:
    ruff = pytest.importorskip("ruff")
    import subprocess

    from backfill_assets.core.settings import PROJECT_ROOT

    for shape in SHAPES.values():
        (tmp_path / f"{shape.name}.py").write_text(python_of(proposed(shape, tmp_path)), encoding="utf-8")
    binary = importlib.util.find_spec(ruff.__name__)
    assert binary is not None
    for command in (["format", "--check"], ["check"]):
        config = ["--config", str(PROJECT_ROOT / "pyproject.toml")]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *config, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def loaded(text: str) -> Domain:
    module = ModuleType("proposed")
    exec(compile(text, "proposed.py", "exec"), vars(module))
    found = module.DOMAIN
    assert isinstance(found, Domain)
    return found


def test_no_file_writes_a_line_of_the_module(tmp_path: Path) -> None:
    header = 'id,at,"x\n""""""\nimport os #",end,e\u202en'
    rows = [f'{number},2026-03-{number:02}T00:00:00Z,"a\nraise SystemExit",\\,\'"' for number in range(1, 20)]
    path = tmp_path / 'a"""\nraise SystemExit #.csv'
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    text = python_of(propose([path], as_of=AS_OF))
    (source,) = loaded(text).sources
    assert "\u202e" not in text
    assert len(source.schema) == 5
