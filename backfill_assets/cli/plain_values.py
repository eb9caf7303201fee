"""Values that are texts, flags, or have a parser of their own, and need no library that converts them.

Typer converts every value with pydantic, which takes a tenth of a second to import. What is used here of Typer is not
its public interface: a version that lacks it converts the values as usual, and `integration/cli/test_start.py` fails.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

try:
    from typer._coercion import RuntimeParam
except ImportError:
    PlainGroup = TyperGroup
else:

    class _Plain(RuntimeParam):
        """A value as it was given, or as its parser returns it."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 - the signature is Typer's
            parser = self.parameter_info.parser
            if parser is None or value is None:
                return value
            # Of an option that can be given several times.
            return [parser(each) for each in value] if isinstance(value, list | tuple) else parser(value)

    class PlainGroup(TyperGroup):  # type: ignore[no-redef]
        """A group that leaves to the library only what it and its commands have of other values."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parses the flags of the group."""
            _convert_plainly(self, ctx)
            return super().parse_args(ctx, args)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of this name; None without one."""
            command = super().get_command(ctx, cmd_name)
            if command is not None:
                _convert_plainly(command, ctx)
            return command

    def _convert_plainly(command: Any, ctx: Any) -> None:
        for param in command.get_params(ctx):
            described = param.type_descriptor
            if described.parameter_info.parser is not None or described.annotation in (str, bool, list[str]):
                param._runtime_param = _Plain(described.parameter_info, described.annotation)
