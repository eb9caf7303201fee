"""README and docs/: commands, make targets, links and the example domain are real, and nothing is said twice."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import Domain
from backfill_assets.ledger.states import RunState
from backfill_assets_tests.support.commands import command_of, commands, explained_in

README = PROJECT_ROOT / "README.md"
DOCS = PROJECT_ROOT / "docs"
PAGES = (README, *(PROJECT_ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")), *sorted(DOCS.glob("*.md")))
COMMANDS = commands()
TITLES = {each: set(re.findall(r"^#+ (.*)$", each.read_text(encoding="utf-8"), flags=re.MULTILINE)) for each in PAGES}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def own_domain() -> str:
    """The first example of docs/own-domain.md."""
    return examples_of("own-domain.md")[0]


def examples_of(page: str) -> list[str]:
    """The examples in Python of a page."""
    return re.findall(r"```python\n(.*?)```", text_of(DOCS / page), flags=re.DOTALL)


def typed(page: Path) -> Iterator[list[str]]:
    """The words of every command in the shell examples of a page, after `backfill`."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", text_of(page), flags=re.DOTALL | re.MULTILINE):
        lines = block.replace("\\\n", " ").splitlines()
        for line in (each for each in lines if re.match(r"(\.venv/bin/)?backfill ", each)):
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                command, words = words[:end], words[end + 1 :]
                if command and command[0].removeprefix(".venv/bin/") == "backfill":
                    yield command[1:]


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in TITLES[page]}


def paragraphs(page: Path) -> Iterator[str]:
    """Sentences of a page that are long enough that two pages do not have the same by chance."""
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=[|\-])", prose):
        for sentence in re.split(r"(?<=[.:;])\s", " ".join(paragraph.split())):
            if len(sentence) > 60:
                yield sentence


def test_the_readme_is_two_screens() -> None:
    assert len(text_of(README).splitlines()) <= 150


def test_the_example_of_ones_own_domain_is_a_domain() -> None:
    defined: dict[str, Any] = {}
    exec(compile(own_domain(), "own-domain.md", "exec"), defined)
    domain = defined["DOMAIN"]
    assert isinstance(domain, Domain)
    assert list(domain.tables) == ["bronze.orders", "silver.orders_of_the_week"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_an_example_is_one_that_the_command_line_takes(page: Path) -> None:
    for words in typed(page):
        name, rest = command_of(words)
        # Reads and converts every word; what is missing or unknown raises.
        COMMANDS[name].make_context(name, rest)


def test_the_examples_are_found() -> None:
    assert [words[0] for words in typed(README)][:3] == ["desk", "status", "plan"]
    assert sum(1 for page in PAGES for _ in typed(page)) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_mentions_exists(page: Path) -> None:
    mentioned = {command_of([*words])[0] for words in re.findall(r"`backfill ([a-z]+)(?: ([a-z-]+))?", text_of(page))}
    assert mentioned - {"plan"} <= set(COMMANDS)


def test_every_command_is_explained_once() -> None:
    rows = re.findall(r"^\| (`.*?) \|", text_of(DOCS / "commands.md"), flags=re.MULTILINE)
    explained = [name for row in rows for name in explained_in(row)]
    assert sorted(explained) == sorted(COMMANDS)


def test_every_command_has_its_json_documented() -> None:
    headings = " ".join(re.findall(r"^## (.*)$", text_of(DOCS / "cli.md"), flags=re.MULTILINE))
    assert [name for name in sorted(COMMANDS) if name not in headings] == []


def test_every_state_of_a_run_is_explained() -> None:
    page = text_of(DOCS / "states.md")
    assert [state for state in RunState if f"| `{state}` |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_of_a_page_exists(page: Path) -> None:
    makefile = text_of(PROJECT_ROOT / "Makefile")
    for target in re.findall(r"`make ([a-z0-9-]+)|^make ([a-z0-9-]+)", text_of(page), flags=re.MULTILINE):
        name = target[0] or target[1]
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), name


def test_the_readme_names_the_command_that_tests_everything() -> None:
    assert re.search(r"^make test\b", text_of(README), flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text_of(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = text_of(DOCS / "README.md")
    assert [
        page.name
        for page in PAGES
        if page.parent == DOCS and page != DOCS / "README.md" and f"({page.name})" not in contents
    ] == []


def test_no_two_pages_have_a_sentence_in_common() -> None:
    where: dict[str, set[str]] = {}
    for page in PAGES:
        for sentence in paragraphs(page):
            where.setdefault(sentence, set()).add(page.relative_to(PROJECT_ROOT).as_posix())
    assert {sentence: pages for sentence, pages in where.items() if len(pages) > 1} == {}
