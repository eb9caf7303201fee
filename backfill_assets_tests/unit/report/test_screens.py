"""Every document that a command answers has a page, built by a function that takes just that document."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from re import findall

import pytest

from backfill_assets import report
from backfill_assets.report.pages import PAGES


@pytest.mark.parametrize("document", PAGES)
def test_the_page_of_a_document_is_built_by_a_function_of_just_that(document: str) -> None:
    module, _, name = PAGES[document].rpartition(".")
    function = getattr(import_module(f"backfill_assets.{module}"), name)
    parameter, *others = signature(function).parameters.values()
    assert all(other.default is not other.empty for other in others)
    assert (parameter.annotation, function.__annotations__["return"]) == (document.rpartition(".")[2], "Page")
    importing, _, kind = document.rpartition(".")
    assert getattr(import_module(f"backfill_assets.{importing}"), kind).__module__ == f"backfill_assets.{importing}"


def test_every_screen_that_takes_a_document_is_in_the_list() -> None:
    """Read from the sources: a page that nothing answers would be one that no person sees."""
    package = Path(report.__file__).parents[1]
    found = {
        f"{'.'.join(path.relative_to(package).with_suffix('').parts)}.{name}"
        for path in (package / "report").rglob("*.py")
        for name in findall(r"^def (\w+_page)\(\w+: \w+\) -> Page:", path.read_text(encoding="utf-8"))
    }
    assert found - set(PAGES.values()) <= {name for name in found if name.startswith("report.run_list.")}
