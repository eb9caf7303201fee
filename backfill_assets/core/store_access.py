"""Store access: endpoint and credentials of an object store, from one block for the file port, delta-rs and Spark.

The block holds secrets. It is handed to libraries and never shown: not by `repr`, in a message, a log or the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from backfill_assets.core.places import InvalidSetting, StoreUrl

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
"""How long a store that does not answer, or answers that it cannot (503), is asked again."""

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
