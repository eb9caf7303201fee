"""The site that `make docs-site` builds: every page has its place, and links lead where they do in the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
import yaml

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.html import MEANINGS
from backfill_assets_tests.support.glossary_page import PAGE, filled
from backfill_assets_tests.unit.test_docs import DOCS


def _hook() -> Any:
    spec = spec_from_file_location("site_hook", PROJECT_ROOT / "tools" / "site.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = _hook()


def pages(nav: Any) -> Iterator[str]:
    """The pages of a navigation, at any depth."""
    match nav:
        case str():
            yield nav
        case list():
            for each in nav:
                yield from pages(each)
        case dict():
            for each in nav.values():
                yield from pages(each)


def test_every_page_has_one_place_in_the_navigation() -> None:
    found = sorted(pages(yaml.safe_load((PROJECT_ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    of_docs = [path.relative_to(DOCS).as_posix() for path in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"))]
    assert found == sorted([*of_docs, *SITE.ELSEWHERE.values(), SITE.DECISIONS])


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        ("own-domain.md", "[d](declarations.md#x)", "[d](declarations.md#x)"),
        ("README.md", "[first](../README.md#your-first-restatement)", "[first](start.md#your-first-restatement)"),
        ("README.md", "[decisions](adr/)", "[decisions](decisions.md)"),
        ("start.md", "![picture](docs/images/report.png)", "![picture](images/report.png)"),
        (
            "start.md",
            "[costs](benchmarks/RESULTS.md) and [all](docs/README.md)",
            "[costs](costs.md) and [all](README.md)",
        ),
        ("costs.md", "[why](../docs/adr/0016-seams.md)", "[why](adr/0016-seams.md)"),
        ("adr/0016-seams.md", "[see](0033-proof-at-both-ends.md)", "[see](0033-proof-at-both-ends.md)"),
        ("containers.md", "[gone](nowhere.md)", "[gone](nowhere.md)"),
        ("containers.md", "the [file](../deploy/container/Dockerfile)", "the file"),
        (
            "start.md",
            "[Dagster](https://dagster.io), [here](#install)",
            "[Dagster](https://dagster.io), [here](#install)",
        ),
        ("start.md", "```sh\n[d](docs/dagster.md)\n```", "```sh\n[d](docs/dagster.md)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site_or_is_only_its_text(page: str, text: str, shown: str) -> None:
    assert SITE.linked(text, page) == shown


def test_the_build_is_strict_and_not_quiet() -> None:
    """Quiet, mkdocs counts no warnings, and ends well with links that lead nowhere."""
    (build,) = (line for line in (PROJECT_ROOT / "Makefile").read_text().splitlines() if "mkdocs build" in line)
    assert "--strict" in build and not {"--quiet", "-q"} & set(build.split())


def test_decisions_are_listed_with_their_titles() -> None:
    listed = SITE.decisions().splitlines()
    assert "16. [The window is proven at seams](adr/0016-seams.md)" in listed
    assert len(listed) - listed.count("") - 2 == len(list((DOCS / "adr").glob("*.md")))


def test_the_glossary_has_the_words_of_reports_as_they_explain_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "write it with `make docs`"
    rows = page.splitlines()
    assert [f"| {word} | {means} |" for word, means in MEANINGS.items() if f"| {word} | {means} |" not in rows] == []
    for word in ("manifest", "chunk", "warm-up", "seam", "set", "candidate", "restatement"):
        assert any(row.startswith(f"| {word} | ") for row in rows), word
