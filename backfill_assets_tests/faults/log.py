"""What did readers of a table see at every version? Read from the log's own text, without the library that wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from backfill_assets.core.identity import EMPTY_FILE_SET, digest_of_paths

Files = Mapping[str, frozenset[tuple[str, int]]]
"""Paths and sizes, by partition value; partitions without files are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One version of a table: who wrote it, and what readers saw before and after."""

    version: int
    said: Mapping[str, object]
    before: Files
    after: Files

    @property
    def publication_id(self) -> str | None:
        found = self.said.get("publication_id")
        return None if found is None else str(found)

    @property
    def is_foreign(self) -> bool:
        return not {"publication_id", "gave_up", "created_by"} & self.said.keys()

    @property
    def changed(self) -> frozenset[str]:
        """The partitions whose files are others than before."""
        every = self.before.keys() | self.after.keys()
        return frozenset(value for value in every if self.before.get(value) != self.after.get(value))


def digest_of(files: Files, value: str) -> str:
    """The file set digest of a partition."""
    held = files.get(value)
    return digest_of_paths(held) if held else EMPTY_FILE_SET.digest


def read_log(table: Path) -> list[Commit]:
    """Every commit of a table, oldest first."""
    commits: list[Commit] = []
    live: dict[str, tuple[str, int]] = {}
    before: Files = {}
    for path in sorted((table / "_delta_log").glob("[0-9]*.json")):
        said: Mapping[str, object] = {}
        for action in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "remove" in action:
                live.pop(unquote(action["remove"]["path"]), None)
            elif "add" in action:
                added = action["add"]
                (value,) = added["partitionValues"].values()
                live[unquote(added["path"])] = (value, added["size"])
            elif "commitInfo" in action:
                said = action["commitInfo"]
        after = _by_partition(live)
        commits.append(Commit(version=int(path.stem), said=said, before=before, after=after))
        before = after
    return commits


def _by_partition(live: Mapping[str, tuple[str, int]]) -> Files:
    found: dict[str, set[tuple[str, int]]] = {}
    for path, (value, size) in live.items():
        found.setdefault(value, set()).add((path, size))
    return {value: frozenset(files) for value, files in found.items()}
