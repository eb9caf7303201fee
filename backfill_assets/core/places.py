"""Places: where a folder of files is, a local folder or a prefix of an object store's bucket, and how that store is
reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from backfill_assets.core.errors import Refused, sentence

# Places: where a folder of files is, a local folder or a prefix of an object store's bucket.
#
# A place is only a name here; `files` reads and writes what is in it.

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


# Store access: endpoint and credentials of an object store, from one block for the file port, delta-rs and Spark.
#
# The block holds secrets. It is handed to libraries and never shown: not by `repr`, in a message, a log or the
# ledger.

FROM_ENVIRONMENT = (
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ALLOW_HTTP",
)
"""The settings of a store, named as other programs name them; `BACKFILL_STORAGE_OPTIONS` may hold any of them."""

PATIENCE = timedelta(seconds=60)
"""The time for which a store that does not answer, or answers that it cannot (503), is asked again."""

MOST_RETRIES = 1_000
"""More than fit into the patience: it is the time that ends them."""

FIRST_PAUSE = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=2)
"""A store that is back is asked soon."""

_PROVIDERS = "org.apache.hadoop.fs.s3a"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """The access to an object store; what is empty is left to the libraries' own chains (roles, instance profiles)."""

    endpoint: str = ""  #: The URL of the store; empty for Amazon's.
    region: str = ""  #: Empty for the libraries' default.
    access_key: str = field(default="", repr=False)  #: The id of a key; empty for none.
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    #: Options that only delta-rs knows.
    further: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @staticmethod
    def of(options: Mapping[str, str]) -> StoreAccess:
        """The access that options describe.

        Args:
            options: Names like `AWS_ACCESS_KEY_ID`, in capitals or not, and further options of delta-rs.

        Raises:
            Refused: A key without its secret, or an endpoint that is no URL; the values are not repeated.
        """
        given = {name.upper(): value for name, value in options.items() if value}
        endpoint = given.pop("AWS_ENDPOINT_URL", given.pop("AWS_ENDPOINT", "")).rstrip("/")
        region = given.pop("AWS_REGION", given.pop("AWS_DEFAULT_REGION", ""))
        access, secret = given.pop("AWS_ACCESS_KEY_ID", ""), given.pop("AWS_SECRET_ACCESS_KEY", "")
        if bool(access) != bool(secret):
            raise InvalidSetting(
                setting="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                why="are not both set",
                wanted="a key and its secret, or to nothing to use the role of this machine",
            )
        allows_http = given.pop("AWS_ALLOW_HTTP", "").lower() in ("true", "1", "yes")
        if endpoint and not endpoint.startswith(("https://", "http://")):
            like = "something like https://store.example:9000"
            raise InvalidSetting(setting="AWS_ENDPOINT_URL", why="is not a URL", wanted=like)
        if "@" in endpoint:
            raise InvalidSetting(
                setting="AWS_ENDPOINT_URL",
                why="holds a user's name or password",
                wanted="a URL without these, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the credentials",
            )
        if endpoint.startswith("http://") and not allows_http:
            raise InvalidSetting(
                setting="AWS_ENDPOINT_URL",
                why="has no encryption (http)",
                wanted="a URL of https, or AWS_ALLOW_HTTP to true where no one can listen in",
            )
        token = given.pop("AWS_SESSION_TOKEN", "")
        return StoreAccess(
            endpoint=endpoint,
            region=region,
            access_key=access,
            secret_key=secret,
            session_token=token,
            further={name: value for name, value in options.items() if name.upper() in given},
        )

    def for_delta(self) -> Mapping[str, str]:
        known = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region or ("us-east-1" if self.endpoint else ""),
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_ALLOW_HTTP": "true" if self.endpoint.startswith("http://") else "",
        }
        return {**{name: value for name, value in known.items() if value}, **self.further}

    def for_delta_with_patience(self) -> Mapping[str, str]:
        """Options of delta-rs, which by itself gives up a store that answers 503 after ten tries, in some seconds."""
        patience = {
            "max_retries": str(MOST_RETRIES),
            "retry_timeout": f"{PATIENCE.total_seconds():.0f}s",
            "backoff_config.init_backoff": f"{FIRST_PAUSE.total_seconds() * 1000:.0f}ms",
            "backoff_config.max_backoff": f"{LONGEST_PAUSE.total_seconds() * 1000:.0f}ms",
        }
        return {**patience, **self.for_delta()}

    def for_spark(self, store: StoreUrl) -> Mapping[str, str]:
        """Options of Hadoop's s3a for one bucket.

        They are set on the open session, which hands them to the driver, the executors and a server of Spark Connect:
        what is given at the start of a JVM is shown by the list of processes.
        """
        known = {
            "endpoint": self.endpoint,
            "endpoint.region": self.region or ("us-east-1" if self.endpoint else ""),
            "path.style.access": "true" if self.endpoint else "",
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "session.token": self.session_token,
        }
        if self.access_key:
            simple = "TemporaryAWSCredentialsProvider" if self.session_token else "SimpleAWSCredentialsProvider"
            known["aws.credentials.provider"] = f"{_PROVIDERS}.{simple}"
        return {f"fs.s3a.bucket.{store.bucket}.{name}": value for name, value in known.items() if value}
