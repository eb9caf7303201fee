"""Sniff by address: what families of sources that can be looked at have in common.

Nothing is recorded, and nothing secret is printed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from backfill_assets.capture.declared import secrets_named
from backfill_assets.core.places import StoreAccess
from backfill_assets.sniff.proposal import Doubt, Proposal
from backfill_assets.sniff.propose import propose

_FILE = re.compile(r"\.(csv|tsv|txt|json|jsonl|ndjson|geojson|parquet|avro|xlsx|zip|gz|zst|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The way in which the content behind an address is reached."""

    settings: Mapping[str, str] = field(default_factory=dict)  #: Settings of a client.
    #: Secret settings of it, or secret headers of an API, each with the name of an environment variable.
    secrets: Mapping[str, str] = field(default_factory=dict)
    home: Path  #: The folder in which no secret may be.
    access: StoreAccess = field(default_factory=StoreAccess)  #: How stores that speak the protocol of S3 are reached.

    @property
    def given(self) -> Mapping[str, str]:
        """The values of the secrets."""
        return secrets_named(self.secrets, home=self.home)


class Sniffs(Protocol):
    """The module `sniff` of a family of sources."""

    def sniffed(self, given: str | Path, name: str, reached: Reached, *, as_of: datetime) -> Proposal | None:
        """Proposes the source that is captured from an address, a file or a folder; None if this family has none such.

        Args:
            given: An address as a text, or a path.
            name: The table; empty for one that is called like what is given.
            reached: How an address is reached.
            as_of: The present.

        Raises:
            Refused: The address cannot be used.
            Retryable: It does not answer.
            UnreadableFile: It has no records.
        """

    def doubts_of(self, file: Path, found: Proposal) -> Sequence[Doubt]:
        """The doubts about a file whose records may have come from such a source."""


def is_of_a_file(address: str) -> bool:
    """True if an address ends in the name of a file, so that it is fetched and landed."""
    return _FILE.search(urlsplit(address).path) is not None


def propose_of(content: bytes, file: str, name: str, *, as_of: datetime) -> Proposal:
    """The source table of some bytes, as those of a file of this name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(content)
        return propose([path], name=name, as_of=as_of)
