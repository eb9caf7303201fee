"""SFTP folder: how an author declares that files of a source are dropped into a folder of an SFTP server.

What reads it is in `sftp`. Secrets are named in a declaration, and read when they are used.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from backfill_assets.capture.declared import is_number, unnamed_secrets
from backfill_assets.capture.sftp import FAMILY
from backfill_assets.core.wording import visible
from backfill_assets.domain.external import ServerDeclaration

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?")
_HOST_KEY = re.compile(r"(?P<kind>[a-z0-9][a-z0-9@.-]*) (?P<key>[A-Za-z0-9+/]+={0,2})")
_SECRETS = ("password", "key", "key_password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SftpFolder(ServerDeclaration):
    """A folder of an SFTP server into which the files of a source are dropped. It is only read."""

    family: ClassVar[str] = FAMILY.name

    host: str  #: The name or the address of the server.
    user: str  #: Who logs in.
    folder: str  #: The folder, as the server names it.
    #: The key that the server has to show: its kind and the key, as `ssh-keyscan` prints them behind the name of the
    #: server, such as `ssh-ed25519 AAAA...`; several while it is replaced by another one.
    host_key: str | tuple[str, ...]
    #: `password`, or `key` and, where that is encrypted, `key_password`, each with a name. Its value is in the
    #: environment variable of that name, or in the file that the variable with `_FILE` behind it names; that of `key`
    #: is the private key.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: Which files of the folder are meant, such as `orders_*.csv`; manifests are looked for beside them.
    pattern: str = "*"
    port: int = 22  #: The port of the server.

    @property
    def address(self) -> str:
        """Without the user, and with the port where it is another one than usual."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == 22 else f":{self.port}"
        return visible(f"sftp://{host}{port}/{self.folder.strip('/')}".rstrip("/"))

    @property
    def host_keys(self) -> tuple[tuple[str, str], ...]:
        """Kind and key of those that the server may show."""
        keys = (self.host_key,) if isinstance(self.host_key, str) else self.host_key
        found = (_HOST_KEY.fullmatch(each) for each in keys)
        return tuple((each["kind"], each["key"]) for each in found if each)

    def is_meant(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern)

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.host, str) or not _HOST.fullmatch(self.host):
            yield f"the host of its drop folder is {self.host!r:.60}, and has to be like 'sftp.example.org'"
        if not is_number(self.port) or self.port > 65535:
            yield f"the port of its drop folder is {self.port!r:.60}, and has to be a number up to 65535"
        for name, value in (("user", self.user), ("folder", self.folder), ("pattern", self.pattern)):
            if not isinstance(value, str) or not value or visible(value) != value:
                yield f"the {name} of its drop folder is {value!r:.60}, and has to be a text that can be printed"
        if isinstance(self.pattern, str) and "/" in self.pattern:
            yield f"the pattern of its drop folder is {self.pattern!r:.60}, and is about names without folders"
        yield from self._mistakes_of_keys()
        if self.secrets.keys() not in ({"password"}, {"key"}, {"key", "key_password"}):
            given = ", ".join(map(str, self.secrets)) or "none"
            wanted = "password, or key and its key_password"
            yield f"the secrets of its drop folder are {given:.60}, and have to be {wanted}"
        yield from unnamed_secrets(self.secrets, of="drop folder", such_as="ORDERS_PASSWORD")

    def _mistakes_of_keys(self) -> Iterator[str]:
        keys = (self.host_key,) if isinstance(self.host_key, str) else self.host_key
        are_texts = isinstance(keys, tuple) and keys and all(isinstance(each, str) for each in keys)
        if not are_texts or any(not _is_host_key(each) for each in keys):
            shown = f"{self.host_key!r:.60}"
            yield (
                f"the host_key of its drop folder is {shown}, and has to be like 'ssh-ed25519 AAAA...': what "
                "`ssh-keyscan -t ed25519 HOST` prints behind the host, once it is compared with what the server's "
                "owner says"
            )


def _is_host_key(text: str) -> bool:
    """True if a text names a kind of key, followed by a key of this kind."""
    found = _HOST_KEY.fullmatch(text)
    if not found:
        return False
    try:
        key = base64.b64decode(found["key"], validate=True)
    except binascii.Error:
        return False
    kind = found["kind"].encode()
    return key.startswith(len(kind).to_bytes(4, "big") + kind)
