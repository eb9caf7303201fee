"""docs/reference/declarations.md, written from the docstrings and signatures of what an author declares (`make docs`).

A parameter has the meaning that its docstring gives, the type and the default of its signature, and an example that a
test declares (`declaration_examples`).
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.support.declaration_examples import EXAMPLES
from backfill_assets_tests.support.declarations_tried import DECLARED
from backfill_assets_tests.support.field_comments import comments_of

PAGE = PROJECT_ROOT / "docs" / "reference" / "declarations.md"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Domains": ("Domain", "Reference"),
    "Tables": ("SourceTable", "derived_table", "daily", "monthly", "reads", "reads_self", "Window", "Months"),
    "Who agrees, and how rows are published": ("Policy", "tolerance", "phases", "merge", "versioned", "RetentionRule"),
    "Gates": (
        *("unique_key", "not_null", "accepted", "expression", "row_count", "compared", "moved", "warm_up_proof"),
        *("complete", "references", "joins_once", "reconciles", "golden", "totals", "usual", "rows", "weeks", "months"),
        *("monotonic", "failing", "Breakdown"),
    ),
    "What a source declares of its records": ("days", "seconds", "Epoch", "Operations", "Debezium", "lifts"),
    "Captures": (
        *("KafkaTopic", "SchemaRegistry", "SchemaFolder", "KinesisStream", "PostgresTable", "LakeTable"),
        *("IcebergTable", "HttpApi", "Cursor", "PageNumber", "Offset", "IdRange", "NextUrl", "LinkHeader", "InBody"),
        *("InHeader", "TimeWindow", "Basic", "Token", "SftpFolder"),
    ),
    "Replays": ("KafkaReplay", "KinesisReplay"),
}
_HEAD = """# Reference of declarations

Every parameter of what is imported from `backfill_assets.domain`. [What a domain declares](../declarations.md)
explains how they work together, and [your own domain](../own-domain.md) is a complete one. `replace()` and `append()`
have no parameters. This page is written from the code by `make docs`.

Each example is declared by a test. `events` is a source table, `parsed` a function, `COLUMNS` the columns of a table.
"""
_LINE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_groups()]).rstrip("\n") + "\n"


def _groups() -> Iterator[str]:
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name in names:
            yield from _declaration(name, DECLARED[name][1])


def _declaration(name: str, made: Any) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{summary(made)}\n"
    yield "| parameter | type | default | meaning | example |\n|---|---|---|---|---|"
    meanings = documented(made)
    for parameter in inspect.signature(made).parameters.values():
        cells = (
            f"`{parameter.name}`",
            _type(parameter.annotation),
            _default(made, parameter),
            meanings.get(parameter.name, ""),
            f"`{EXAMPLES[name].get(parameter.name, '')}`",
        )
        yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"
    yield ""


def summary(made: Any) -> str:
    """What the docstring says before its sections, in one paragraph."""
    text = re.split(r"\n\n(?=(?:Args|Raises):)", inspect.cleandoc(made.__doc__ or ""))[0]
    return " ".join(text.split())


def documented(made: Any) -> Mapping[str, str]:
    """What docstrings, or comments of fields, say of each parameter, those of the classes above it as well."""
    found: dict[str, str] = {}
    for kind in made.__mro__ if isinstance(made, type) else (made,):
        text = (
            inspect.cleandoc(vars(kind).get("__doc__") or "") if isinstance(kind, type) else inspect.getdoc(kind) or ""
        )
        section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
        for name, meaning in _LINE.findall(section[1]) if section else ():
            found.setdefault(name, " ".join(meaning.split()))
    return {**found, **comments_of(made)} if isinstance(made, type) else found


def _type(annotation: object) -> str:
    """A type, and the alternatives of one that has some; not those inside of brackets."""
    whole = str(annotation)
    ends = [n for n in range(len(whole)) if whole.startswith(" | ", n) and whole[:n].count("[") == whole[:n].count("]")]
    parts = [whole[start + 3 if start else 0 : end] for start, end in itertools.pairwise([0, *ends, len(whole)])]
    return " or ".join("none" if part == "None" else f"`{part}`" for part in parts)


def _default(made: Any, parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "required"
    held = parameter.default
    if isinstance(made, type):
        of_field = next(each for each in dataclasses.fields(made) if each.name == parameter.name)
        if of_field.default_factory is not dataclasses.MISSING:
            held = of_field.default_factory()
    if held in ("", None):
        return "none"
    shown = repr(held)
    return f"`{shown}`" if len(shown) <= 60 else "see its meaning"


def main(path: Path = PAGE) -> None:
    """Writes the page."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
