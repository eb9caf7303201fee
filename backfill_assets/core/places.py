"""Places: where a folder of files is, a local folder or a prefix of an object store's bucket.

A place is only a name here; `files` reads and writes what is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.core.errors import Refused, sentence

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://")
_STORE = re.compile(r"s3a?://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9!_.*'()=-]+)*)/*")

_OF_PATTERNS = re.compile(r"[\\*?\[\]{}]")


@sentence
class InvalidSetting(Refused):
    """{setting} {why}."""

    setting: str
    why: str
    wanted: str = ""
    without: str = ""
    near: str = ""

    @property
    def advice(self) -> str:
        if self.without:
            return "leave {without} out of {setting}"
        if self.near:
            return "write {near}"
        return "set {setting} to {wanted}" if self.wanted else "correct {setting}, or leave it out"


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A prefix of a bucket in a store that speaks the S3 protocol; files can also be fetched from other stores."""

    bucket: str
    prefix: str = ""  #: The key below which everything is, without slashes at its ends; may be empty.
    scheme: str = "s3"  #: The store: `s3`, `gs` or `az`. A lake and a landing folder are in the first.

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    def __truediv__(self, name: str) -> StoreUrl:
        return StoreUrl(self.bucket, f"{self.prefix}/{name}".strip("/"), self.scheme)

    @property
    def name(self) -> str:
        return self.prefix.rpartition("/")[2]


Place = Path | StoreUrl


def place_of(text: str, *, variable: str) -> Place:
    """The place that a person wrote: the path of a folder, or `s3://bucket/prefix`.

    Args:
        variable: The setting, for the message.

    Raises:
        Refused: A URL of a kind that is not supported, or with characters that Spark, Delta and the store may read
            differently.
    """
    scheme = _URL.match(text)
    if scheme is None:
        return Path(text).expanduser().resolve()
    found = _STORE.fullmatch(text)
    # The text may hold a password, so it is not repeated.
    if found is None or any(part in (".", "..") for part in found[2].split("/")):
        raise InvalidSetting(
            setting=variable,
            why=f"is a URL of {scheme[1]}, and neither a folder nor s3://bucket/prefix of letters and digits",
            wanted="a folder, or to something like s3://bucket/lake; credentials are settings of their own",
        )
    return StoreUrl(found[1], found[2].strip("/"))


def is_pattern(path: str) -> bool:
    """True if Spark would read the name as a pattern of file names, and not as the name of one file."""
    return bool(_OF_PATTERNS.search(path))


def exactly(path: str) -> str:
    """A path of this machine under which Spark reads the file of this name, and no other one."""
    return _OF_PATTERNS.sub(r"\\\g<0>", path)


def for_spark(place: Place, path: str = "") -> str:
    """The address of a file or folder for Spark: object stores are read by Hadoop's s3a.

    Args:
        place: Where it is.
        path: Relative to the place; the place itself by default.
    """
    whole = place / path if path else place
    return f"s3a://{whole.bucket}/{whole.prefix}" if isinstance(whole, StoreUrl) else str(whole)
