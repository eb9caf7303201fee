"""YAML without constructs that a reviewer can overlook: duplicate keys and aliases.

Apart from `references`, because most commands read no reference and should not import the library.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


def parse_yaml(content: bytes) -> Any:
    """The document of a reference file.

    Raises:
        ValueError: It is not YAML, names a key twice or has an alias; with the position in the file.
    """
    try:
        return yaml.load(content, Loader=_StrictLoader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def line_of_entry(content: bytes, member: str, number: int) -> int | None:
    """In which line of a document that was parsed an entry of a list begins; the first line is 1.

    None where the document does not name the list itself, so that a parser has made it of something else.

    Args:
        member: The name of the list.
        number: Of the entry; the first is 1.
    """
    root: Any = yaml.compose(content, Loader=_StrictLoader)
    members = root.value if isinstance(root, yaml.MappingNode) else []
    entries = next((value.value for key, value in members if key.value == member), ())
    return int(entries[number - 1].start_mark.line) + 1 if number <= len(entries) else None


class _StrictLoader(yaml.SafeLoader):
    """Refuses aliases and duplicate keys.

    With aliases a few lines could represent millions of values, and an edit in one place would change another.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node, unless it is an alias."""
        if self.check_event(yaml.events.AliasEvent):
            mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases (*name) are not read; write the value out", mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, unless it names a key twice."""
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is given twice", key.start_mark
                )
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep=deep)
