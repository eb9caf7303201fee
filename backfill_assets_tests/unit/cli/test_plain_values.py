"""A command that is declared plain has values that need no conversion: anything else would stay a text."""

from __future__ import annotations

import pytest
from typer.main import get_command

from backfill_assets.cli.plain_values import PlainCommand
from backfill_assets.main import app

COMMANDS = {name: each for name, each in get_command(app).commands.items() if isinstance(each, PlainCommand)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_values_of_a_plain_command_are_texts_and_flags_or_have_a_parser(name: str) -> None:
    described = [param.type_descriptor for param in COMMANDS[name].params if hasattr(param, "type_descriptor")]
    assert described
    converted = [each.annotation for each in described if each.parameter_info.parser is None]
    assert set(map(str, converted)) <= {str(str), str(bool), str(list[str])}
