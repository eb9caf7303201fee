"""Commands whose values are texts, flags, or have a parser of their own, and need no library that converts them.

Typer converts every value with pydantic, which takes a tenth of a second to import. What is used here of Typer is not
its public interface: a version that lacks it converts the values as usual, and `integration/cli/test_start.py` fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

try:
    from typer._coercion import RuntimeParam
except ImportError:
    PlainCommand, PlainGroup = TyperCommand, TyperGroup
else:

    class _Plain(RuntimeParam):
        """A value as it was given, or as its parser returns it."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 - the signature is Typer's
            parser = self.parameter_info.parser
            return value if parser is None else parser(value)

    def _convert_plainly(params: Iterable[Any]) -> None:
        for param in params:
            described = param.type_descriptor
            param._runtime_param = _Plain(described.parameter_info, described.annotation)

    class PlainCommand(TyperCommand):  # type: ignore[no-redef]
        """A command of plain values."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parses the command line, without libraries."""
            _convert_plainly(self.get_params(ctx))
            return super().parse_args(ctx, args)

    class PlainGroup(TyperGroup):  # type: ignore[no-redef]
        """A group whose own flags are plain values; its commands are as they are declared."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Parses the command line, without libraries as far as there are flags alone."""
            _convert_plainly(param for param in self.get_params(ctx) if param.type_descriptor.annotation is bool)  # type: ignore[attr-defined]
            return super().parse_args(ctx, args)
