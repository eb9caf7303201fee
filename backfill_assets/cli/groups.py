"""Groups of commands: how `backfill --help` lists them, each with a summary that fits into a line of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import Command

# Values that are texts, flags, or have a parser of their own, and need no library that converts them.
#
# Typer converts every value with pydantic, which takes a tenth of a second to import. What is used here of Typer
# is not its public interface: a version that lacks it converts the values as usual, and
# `integration/cli/test_start.py` fails.

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


GROUPS: Mapping[str, Mapping[Command, str]] = {
    "Plan and publish": {
        Command.PLAN_TABLE: "plan days of a table, and write the manifest",
        Command.PLAN_WITH_DEPENDENTS: "plan days of a table with all that depends on them",
        Command.PLAN_BECAUSE: "plan everything that depends on changed or wrong days",
        Command.PLAN_STALE: "plan the partitions that are stale",
        Command.PLAN_EXPIRE: "plan that snapshots expire which a table does not keep",
        Command.RUN: "compute a planned run or set, and measure its gates",
        Command.REPORT: "show a reviewer the changed rows and the gates",
        Command.DIFF: "list every row that a run changes, before and after",
        Command.APPROVE: "approve exactly this manifest, as another person",
        Command.PUBLISH: "make a run or set visible, in one commit per table",
        Command.ROLLBACK: "restore the files that a publication replaced",
        Command.CANCEL: "cancel the unpublished part of a run or set",
        Command.FREEZE: "hold automatic work on some days of a table",
        Command.UNFREEZE: "end a freeze before its time",
        Command.SHADOW: "run a version of a table beside it; cut readers over",
        Command.FOLLOW: "recompute the tables that depend on new publications",
        Command.PROPOSE: "plan drafts for late and corrected data",
    },
    "Sources": {
        Command.SNIFF: "look at files, and print the declaration with which they land",
        Command.LAND: "land files unchanged, and build the days they touch",
        Command.LOAD: "build days of a source from landed files",
        Command.CAPTURE: "land a period of a stream, database, API or table of others",
        Command.REPLAY: "send captured, landed or published records to a topic or stream",
        Command.WITHDRAW: "withdraw a key of a source",
        Command.RESTORE: "undo withdrawals",
        Command.LOCATE: "list the landed files with records of some days",
    },
    "Look": {
        Command.STATUS: "show tables, open runs, and work that waits for a person",
        Command.HISTORY: "list the publications of a table, or versions of a partition",
        Command.RESOLVE: "show where readers find a table, now or as of a run or day",
        Command.TRACE: "follow a number to its publications, people and records",
        Command.CODE: "show the lines of a code digest, or compare two",
        Command.STALE: "list partitions that no longer follow from inputs and code",
        Command.AUDIT: "verify that tables and files match the ledger",
        Command.REPRODUCE: "compute a published run again, and compare the rows",
        Command.CHECK: "compare the domain, or rows with their present gates",
        Command.DESK: "serve read-only pages on this machine",
        Command.EXPORT: "write all runs or publications for other programs",
        Command.METRICS: "print metrics for Prometheus",
    },
    "Operate": {
        Command.DOCTOR: "check everything that the commands need",
        Command.UP: "start a Spark server that later commands use",
        Command.DOWN: "stop that server",
        Command.RECOVER: "complete or undo the unfinished work of a stopped process",
        Command.VACUUM: "remove files that are no longer needed",
        Command.ERASE: "delete row values that were kept for reviewers",
        Command.CLEAR: "let a sensor retry the work that it has given up",
        Command.INIT: "write a project of your own, which runs at once",
        Command.DEMO: "correct a wrong history, step by step",
    },
}
"""Every command once."""


class CommandGroup(PlainGroup):
    """The program, whose help lists its commands in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parses the options of the program."""
        with _refused(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with _refused(ctx):
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is Typer's
        """Writes the groups; every summary ends in its line, where the terminal has 80 columns."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(str(act), summary) for act, summary in commands.items()], col_spacing=2)


@contextmanager
def _refused(ctx: Any) -> Iterator[None]:
    """Wrong usage is refused as everything else is: a sentence, a next step, and the exit code of a refusal."""
    try:
        yield
    except typer.TyperException as error:
        found_in = getattr(error, "ctx", None)
        if found_in is not None and error.message == found_in.get_help():
            # Nothing was typed after the name of the program.
            error.exit_code = Refused.exit_code
            raise
        from backfill_assets.cli.terminal import print_error

        command = found_in.command_path if found_in else f"{ctx.command_path} {ctx.invoked_subcommand or ''}".rstrip()
        print_error(_wrong_usage(command, error.format_message()))
        raise typer.Exit(Refused.exit_code) from None


def _wrong_usage(command: str, message: str) -> Refused:
    """The mistake that the library found, whose message may end with what to do."""
    line = " ".join(message.split())
    why, _, instead = line.removeprefix("Invalid value: ").replace("Value error, ", "", 1).partition(" next: ")
    why, is_near, near = why.removesuffix(".").partition(" Did you mean ")
    if is_near:
        why, instead = why.removesuffix("."), f"did you mean {near}"
    return Refused.coded(
        "wrong_usage",
        "{command}: {why}.",
        then="{instead}",
        command=command,
        why=why[:1].lower() + why[1:],
        instead=instead or f"see {command} -h",
    )
