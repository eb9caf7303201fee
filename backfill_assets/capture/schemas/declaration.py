"""Schema sources: how an author declares where the schemas of a topic's values are, and what one is.

Values are read in `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from backfill_assets.capture.declared import unnamed_secrets, wrong_time

_SECRETS = ("user", "password", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """A registry that has the schemas of values in Confluent's wire format: Avro, Protobuf or JSON Schema."""

    url: str  #: Where it is, such as `https://registry:8081`; of Apicurio with `/apis/ccompat/v7`.
    #: `user` and `password`, or `token`, each with a name. Its value is in the environment variable of that name, or in
    #: the file that the variable with `_FILE` behind the name names.
    secrets: Mapping[str, str] = field(default_factory=dict)
    answers_within: timedelta = timedelta(seconds=30)  #: How long it may say nothing before a command stops.
    #: By the id of a schema, the version of the contract that records with it are in. With it, records of other schemas
    #: are rejected; without it a file is in the version that its columns are of.
    versions: Mapping[int, int] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.url, str) or not re.fullmatch(r"https?://[^\s@?#]+", self.url):
            # Not what was written: a URL may have a password in it.
            yield "the url of its registry has to be like 'https://registry:8081', without a user"
        yield from wrong_time("answers_within", self.answers_within, of="registry", positive=True)
        for name in self.secrets:
            if name not in _SECRETS:
                yield f"its registry has {name} among its secrets, and has user and password, or token"
        yield from unnamed_secrets(self.secrets, of="registry", such_as="REGISTRY_TOKEN")
        yield from _mistakes_in(self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFolder:
    """A folder that has the schemas of values in Confluent's wire format, each by its id."""

    #: The folder, with files such as `7.avsc`, `8.proto` and `9.json`. A schema cannot refer to another one.
    path: Path
    versions: Mapping[int, int] = field(default_factory=dict)  #: As of a registry.

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.path, Path) or not self.path.is_absolute():
            yield "the folder of its schemas has to be an absolute path, such as Path(__file__).parent / 'schemas'"
        yield from _mistakes_in(self.versions)


def _mistakes_in(versions: object) -> Iterator[str]:
    if not isinstance(versions, Mapping) or not all(
        isinstance(each, int) and not isinstance(each, bool) for pair in versions.items() for each in pair
    ):
        yield "versions of its schemas has to be a mapping from ids to versions of the contract"


class BrokenValue(Exception):
    """A value, or its schema, cannot be read; the message says why, without the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema."""

    kind: str  #: `AVRO`, `PROTOBUF` or `JSON`.
    text: str  #: As it was registered.
    #: The schemas that it refers to, by the name under which it does.
    references: Mapping[str, Schema] = field(default_factory=dict)


Decode = Callable[[bytes], Any]
"""Reads the bytes behind the header of a value, as a value that `json_of` writes."""
