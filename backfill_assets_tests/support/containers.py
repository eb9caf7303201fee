"""deploy/container/compose.yaml outside a container: the same commands, with folders and ports of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from backfill_assets.core.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "deploy" / "container"
COMPOSE = FOLDER / "compose.yaml"
DOCKERFILE = FOLDER / "Dockerfile"


def services() -> Mapping[str, Mapping[str, Any]]:
    """The services by name, with what they share filled in."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


def image_environment() -> Mapping[str, str]:
    """What the image sets, without the PATH, which here is that of the tests."""
    lines = DOCKERFILE.read_text(encoding="utf-8").partition("\nENV ")[2].partition("\nUSER ")[0].split("\\\n")
    pairs = (line.strip().partition("=") for line in lines)
    return {name: value for name, _, value in pairs if name != "PATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What stands here for what is there."""

    replaced: Mapping[str, str]  #: Texts of the file and the image by what they are here; longer ones first.
    variables: Mapping[str, str]  #: What `.env` would hold.

    def text(self, given: str) -> str:
        """A word of a command, or a value of the environment."""
        for name, value in self.variables.items():
            head, found, rest = given.partition(f"${{{name}:")
            if found:
                given = head + value + rest.partition("}")[2]
        for there, here in self.replaced.items():
            given = given.replace(there, here)
        return given

    def command(self, service: str) -> Sequence[str]:
        """What the service runs."""
        return [self.text(word) for word in services()[service]["command"]]

    def environment(self, service: str) -> Mapping[str, str]:
        """What it is given."""
        both = {**image_environment(), **services()[service]["environment"]}
        return {name: self.text(value) for name, value in both.items()}

    def workspace(self, folder: Path) -> Path:
        """The workspace that the image holds, in a folder of this machine."""
        path = folder / "workspace.yaml"
        path.write_text(self.text((FOLDER / "workspace.yaml").read_text(encoding="utf-8")), encoding="utf-8")
        return path
