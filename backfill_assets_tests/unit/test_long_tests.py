"""What `make test` leaves out exists, and some test of every promise stays."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

import pytest

from backfill_assets.settings import PROJECT_ROOT
from backfill_assets_tests.long_tests import LEFT_OUT, ROOT

GUARANTEES = PROJECT_ROOT / "docs" / "guarantees.md"


def functions_of(module: str) -> Sequence[str]:
    """The tests of a module."""
    tree = ast.parse((PROJECT_ROOT / ROOT / module).read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def promises() -> Mapping[str, Sequence[str]]:
    """The modules that test a promise, by its number; a harness such as `faults/crashes.py` by its tests."""
    lines = re.findall(r"^\| (\d+\w?) \|.*\|(.*)\|$", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE)
    return {number: list(_modules(tested_by)) for number, tested_by in lines}


def _modules(tested_by: str) -> Sequence[str]:
    paths = [re.sub(r"/(?:test_)?(\w+)$", r"/test_\1", path) for path in re.findall(r"`(\w+/\w+)\.py`", tested_by)]
    return [f"{path}.py" for path in paths if (PROJECT_ROOT / ROOT / f"{path}.py").exists()]


@pytest.mark.parametrize("module", LEFT_OUT)
def test_what_is_left_out_exists(module: str) -> None:
    assert LEFT_OUT[module].keys() <= set(functions_of(module))


@pytest.mark.parametrize(("number", "modules"), promises().items())
def test_some_test_of_every_promise_stays(number: str, modules: Sequence[str]) -> None:
    stays = [
        test
        for module in modules
        for test in functions_of(module)
        if test not in LEFT_OUT.get(module, {}) or LEFT_OUT[module][test]
    ]
    # That landing stays within its memory takes minutes; `make test-faults` tries it.
    assert stays or number == "14"
