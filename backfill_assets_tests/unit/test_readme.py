"""The README says what is true: its example is a domain, its commands and make targets exist."""

from __future__ import annotations

import re
from typing import Any

import typer

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import Domain
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app

README = (PROJECT_ROOT / "README.md").read_text(encoding="utf-8")
CLI_PAGE = (PROJECT_ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def commands() -> set[str]:
    command = typer.main.get_command(app)
    return set(command.list_commands(None))  # type: ignore[attr-defined]


def test_the_example_of_ones_own_domain_is_a_domain() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    defined: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), defined)
    domain = defined["DOMAIN"]
    assert isinstance(domain, Domain)
    assert list(domain.tables) == ["bronze.orders", "silver.orders_of_the_week"]


def test_every_command_of_the_readme_exists_and_every_command_is_in_it() -> None:
    mentioned = set(re.findall(r"backfill ([a-z]+)\b", " ".join(re.findall(r"`+[^`]+`+", README))))
    listed = set(re.findall(r"^\| `([a-z]+)", README, flags=re.MULTILINE)) - {"backfill"}
    assert mentioned <= commands() | {"assets"}
    assert commands() - {"status", "history", "audit"} <= listed | {"status"}
    assert all(f"`{name}" in README for name in commands())


def test_every_command_has_its_json_documented() -> None:
    headings = " ".join(re.findall(r"^## (.*)$", CLI_PAGE, flags=re.MULTILINE))
    assert [name for name in sorted(commands()) if name not in headings] == []


def test_every_state_of_a_run_is_explained() -> None:
    assert [state for state in RunState if f"| `{state}` |" not in README] == []


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (PROJECT_ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", README, flags=re.MULTILINE)):
        name = target[0] or target[1]
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), name
