"""Lake table: how an author declares that a source is captured from a Delta table that others write.

What reads it is in `lake.changes_of_others`. Secrets are named in a declaration, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_SECRET = re.compile(r"password|secret|token|credential|account.?key|sas", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A Delta table of which a source captures versions. It is only read.

    Landed records have the columns of the table, `lake_version` and `lake_committed_at`, which a contract may have too.

    Attributes:
        url: Where it is: a folder, or an address such as `s3://bucket/path`.
        version: The only version that is captured; None for the newest one.
        chunk: About how many rows of a version one landed file has, as far as its own files let it.
        options: Options of the object store, such as `AWS_REGION`; none of them is secret.
        secrets: Options of the object store that are secret, such as `AWS_SECRET_ACCESS_KEY`, each with a name. Its
            value is in the environment variable of that name, or in the file that the variable with `_FILE` behind it
            names.
    """

    url: str
    version: int | None = None
    chunk: int = 1_000_000
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the declaration, for a sentence that names its table."""
        if not isinstance(self.url, str) or not self.url.strip() or re.search(r"[?#]|//[^/]*@", self.url):
            yield "the place of its table has to be a folder or an address such as 's3://bucket/path', without a user"
        if self.version is not None and not _is_number(self.version, at_least=0):
            yield f"the version of its table is {self.version!r:.60}, and has to be a number or None"
        if not _is_number(self.chunk, at_least=1):
            yield f"the chunk of its capture is {self.chunk!r:.60}, and has to be a number of rows"
        for name in self.options:
            if _SECRET.search(name):
                yield f"its capture has {name} among its options: name it among its secrets"
        for name, secret in self.secrets.items():
            if not isinstance(secret, str) or not _NAME.fullmatch(secret):
                # Whatever was written there may be the secret itself.
                yield f"the secret {name} of its capture is named by an environment variable, such as LAKE_SECRET"


def _is_number(value: object, *, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least
