"""Settings: the environment, read once, as one frozen value.

Every setting is a `BACKFILL_*` variable, and paths have a default below `BACKFILL_HOME`. This is the only module that
names a domain.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from backfill_assets.core.people import Sensor
from backfill_assets.core.places import (
    FROM_ENVIRONMENT,
    InvalidSetting,
    Place,
    StoreAccess,
    StoreUrl,
    is_pattern,
    place_of,
)
from backfill_assets.core.session_settings import require_tuning
from backfill_assets.core.tariff import ONE_CORE, Tariff

EXAMPLE = "backfill_assets.examples.enforcement_sla"
"""The domain of a checkout that names no other, and of the demo."""

DEFAULT_FIRST_DAY = "1999-01-01"
EARLIEST, LATEST = date(1000, 1, 1), date(9000, 1, 1)
"""The first and the last day that may be the first of the tables."""

DEFAULT_LIVE_AT = time(5)
JSON = "json"
ARCHIVE = "reference_archive"
"""The folder of every reference that was ever used."""

DEBUG, OF_TESTS = "BACKFILL_DEBUG", "BACKFILL_TEST_"
"""Variables that are no settings: one shows where an error comes from, the others are of this project's tests."""

PROJECT_ROOT = Path(__file__).resolve().parents[2]
EXAMPLE_REFERENCE = Path(__file__).resolve().parents[1] / "examples" / "enforcement_sla" / "reference"
IS_CHECKOUT = (PROJECT_ROOT / "pyproject.toml").exists()
"""True if this package runs from a checkout, not from an installed wheel."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one process."""

    #: The folder for everything that the project writes, unless another setting overrides it (`BACKFILL_HOME`).
    home: Path
    reference: Place  #: The place of reference files (`BACKFILL_REFERENCE`), a folder or `s3://bucket/prefix`.
    #: The place of the bytes of every reference that was ever used (`BACKFILL_REFERENCE_ARCHIVE`); by default below
    #: `home`, or below `reference` when that is in a store.
    reference_archive: Place
    lake: Place  #: The place of the Delta tables (`BACKFILL_LAKE`), a folder or `s3://bucket/prefix`.
    landing: Place  #: The place of landed files (`BACKFILL_LANDING`), a folder or `s3://bucket/prefix`.
    ledger_url: str  #: A SQLAlchemy URL (`BACKFILL_LEDGER_URL`).
    #: The PostgreSQL database of Dagster's runs (`BACKFILL_DAGSTER_URL`), that of the ledger by default; empty when
    #: they are in files below `home`.
    dagster_url: str
    #: The module that holds `DOMAIN` (`BACKFILL_DOMAIN`); by default the example in a checkout, and empty for an
    #: installed package.
    domain: str
    first_day: date  #: The first partition of the daily tables (`BACKFILL_FIRST_DAY`).
    user: str  #: Who is acting when `--by` is not given (`BACKFILL_USER`); empty when unknown.
    chunk_partitions: int  #: The most output partitions of a chunk (`BACKFILL_CHUNK_PARTITIONS`).
    chunk_rows: int  #: The most rows that a chunk is expected to have (`BACKFILL_CHUNK_ROWS`).
    #: How many bytes of staged and accepted files together this process compares itself; Spark's workers compare more
    #: (`BACKFILL_COMPARE_IN_SPARK_ABOVE`).
    compare_in_spark_above: int
    rollback_days: int  #: How long a replaced version can be restored (`BACKFILL_ROLLBACK_DAYS`).
    reproduction_days: int  #: How long a published run can be rebuilt from its inputs (`BACKFILL_REPRODUCTION_DAYS`).
    #: How long a finished run stays in Dagster's record that no page of an asset shows (`BACKFILL_DAGSTER_DAYS`).
    dagster_days: int
    #: How long a lease on work in progress lasts when its process does not renew it (`BACKFILL_LEASE_SECONDS`).
    lease: timedelta
    #: How far the clock of a machine may be behind the last event of the ledger (`BACKFILL_CLOCK_BEHIND_HOURS`).
    clock_behind: timedelta
    spark_master: str  #: `local[*]`, a cluster's URL (`BACKFILL_SPARK_MASTER`).
    spark_remote: str  #: A Spark Connect URL, instead of a master (`BACKFILL_SPARK_REMOTE`).
    spark_memory: str  #: The driver's heap (`BACKFILL_SPARK_MEMORY`).
    spark_shuffle_partitions: int  #: (`BACKFILL_SPARK_SHUFFLE_PARTITIONS`).
    #: What the sensor `drop` watches, with a folder per source (`BACKFILL_DROP`); None for none.
    drop: Place | None = None
    #: The sensors that may act (`BACKFILL_SENSORS`, names separated by commas); None for all. It switches none on: that
    #: is done in Dagster.
    sensors: frozenset[Sensor] | None = None
    #: When the schedule `live` takes the newest days on, every day, in UTC (`BACKFILL_LIVE_AT`).
    live_at: time = DEFAULT_LIVE_AT
    #: What computing costs, for `plan table --max-cost`: how many cores are set aside (`BACKFILL_CORES`; by default
    #: those of this machine), and the price of a core hour (`BACKFILL_CORE_HOUR_PRICE`, such as `0.05 EUR`).
    tariff: Tariff = ONE_CORE
    #: The digest of the image of the container that this runs in, which is recorded with every run
    #: (`BACKFILL_IMAGE_DIGEST`, or else `DAGSTER_CURRENT_IMAGE`); empty when there is none.
    image: str = ""
    log: str = ""  #: `json` for a line of JSON per step of a run on standard error (`BACKFILL_LOG`); else empty.
    #: Where `backfill desk` is served for readers of Dagster's pages (`BACKFILL_DESK_URL`); empty when it is not.
    desk_url: str = ""
    #: Further Spark settings that only tune, as `key=value` separated by `;` (`BACKFILL_SPARK_CONF`).
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    #: Endpoint and credentials of object stores, from the `AWS_*` variables that other programs read as well;
    #: `BACKFILL_STORAGE_OPTIONS` overrides them and adds options of delta-rs, as `key=value` separated by `;`.
    access: StoreAccess = field(default_factory=StoreAccess)

    @property
    def stores(self) -> frozenset[StoreUrl]:
        """The places in object stores that Spark reads and writes."""
        return frozenset(place for place in (self.lake, self.landing) if isinstance(place, StoreUrl))

    def require_home(self, *, with_ledger: bool = False) -> None:
        """Refuses a home that does not exist: a mistyped one would be created, and look empty.

        With the ledger in a database of its own a home may be new on every machine.

        Args:
            with_ledger: A folder that is there and holds no ledger is none either.

        Raises:
            Refused: There is no such folder, and the ledger would be in it.
        """
        if self.ledger_url != _ledger_in(self.home) or (self.home / (_LEDGER if with_ledger else "")).exists():
            return
        lacks = "it holds no ledger" if self.home.exists() else "there is no such folder"
        why = f"is {self.home}, and {lacks}"
        wanted = "the folder that holds the ledger and the tables, or land a first file, which makes this one"
        raise InvalidSetting(setting="BACKFILL_HOME", why=why, wanted=wanted)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
        """Reads the settings.

        Args:
            environment: The process environment by default.
        """
        given = os.environ if environment is None else environment
        home = _one_folder("BACKFILL_HOME", Path(home_named(given)).expanduser().resolve())
        ledger_url = given.get("BACKFILL_LEDGER_URL") or _ledger_in(home)
        reference = _place(given, "BACKFILL_REFERENCE", _reference_of(home))
        beside = home / ARCHIVE if isinstance(reference, Path) else reference / ARCHIVE
        return Settings(
            home=home,
            reference=reference,
            reference_archive=_place(given, "BACKFILL_REFERENCE_ARCHIVE", beside),
            lake=_as_written(
                "BACKFILL_LAKE", _one_folder("BACKFILL_LAKE", _place(given, "BACKFILL_LAKE", home / "lake"))
            ),
            landing=_one_folder("BACKFILL_LANDING", _place(given, "BACKFILL_LANDING", home / "landing")),
            ledger_url=ledger_url,
            dagster_url=_dagster_url(given, ledger_url),
            domain=given.get("BACKFILL_DOMAIN") or (EXAMPLE if IS_CHECKOUT else ""),
            first_day=_first_day(given),
            user=given.get("BACKFILL_USER", ""),
            chunk_partitions=_count(given, "BACKFILL_CHUNK_PARTITIONS", 5_000),
            chunk_rows=_count(given, "BACKFILL_CHUNK_ROWS", 20_000_000),
            compare_in_spark_above=_count(given, "BACKFILL_COMPARE_IN_SPARK_ABOVE", 8 << 30),
            rollback_days=_count(given, "BACKFILL_ROLLBACK_DAYS", 90, digits=5),
            reproduction_days=_count(given, "BACKFILL_REPRODUCTION_DAYS", 730, digits=5),
            dagster_days=_count(given, "BACKFILL_DAGSTER_DAYS", 90, digits=5),
            lease=timedelta(seconds=_count(given, "BACKFILL_LEASE_SECONDS", 120, digits=8)),
            clock_behind=timedelta(hours=_count(given, "BACKFILL_CLOCK_BEHIND_HOURS", 24, digits=6)),
            spark_master=given.get("BACKFILL_SPARK_MASTER") or "local[*]",
            spark_remote=given.get("BACKFILL_SPARK_REMOTE", ""),
            spark_memory=_matching(
                given, "BACKFILL_SPARK_MEMORY", "4g", r"(?ai)[1-9][0-9]*[kmgt]b?", "an amount of memory like 4g or 800m"
            ),
            spark_shuffle_partitions=_count(given, "BACKFILL_SPARK_SHUFFLE_PARTITIONS", 8),
            drop=_drop(given, home),
            sensors=_sensors(given),
            live_at=time.fromisoformat(
                _matching(
                    given, "BACKFILL_LIVE_AT", f"{DEFAULT_LIVE_AT:%H:%M}", _TIME, "a time of day in UTC like 05:00"
                )
            ),
            tariff=_tariff(given),
            image=_matching(
                given, "BACKFILL_IMAGE_DIGEST", _usual_image(given), _IMAGE, "a digest like sha256:4f1c..."
            ),
            log=_log(given),
            desk_url=_matching(given, "BACKFILL_DESK_URL", "", _ADDRESS, "an address like http://127.0.0.1:8100")
            .strip()
            .rstrip("/"),
            spark_conf=_tuning(given, "BACKFILL_SPARK_CONF"),
            access=_access(given),
        )


class _Asked(dict[str, str]):
    """An environment without variables that keeps the names it was asked for."""

    def get(self, name: str, default: Any = None) -> Any:
        self[name] = ""
        return default


@cache
def setting_names() -> frozenset[str]:
    """The names of all settings: those that `from_environment` reads."""
    asked = _Asked()
    Settings.from_environment(asked)
    return frozenset(asked)


def require_settings(given: Mapping[str, object]) -> None:
    """Refuses a mapping of settings with a name that is none, or a value that is not a text.

    Raises:
        InvalidSetting: Names the first one, and the setting that was probably meant.
    """
    if not isinstance(given, Mapping):
        why = f"are {given!r:.60}, which is not a mapping of texts by the names of settings"
        raise InvalidSetting(setting="the settings", why=why, wanted="a mapping such as {'BACKFILL_HOME': 'data'}")
    for name, value in given.items():
        if name not in setting_names():
            near = _near(f"{name}")
            meant = f"; {near} is one" if near else ""
            raise InvalidSetting(setting=f"{name}", why=f"is not the name of a setting{meant}", near=near)
        if not isinstance(value, str):
            why = f"is {value!r:.60}, which is not a text"
            raise InvalidSetting(setting=name, why=why, wanted=f"a text, such as {str(value)!r:.60}")


def mistyped(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that look like settings and are none, with the setting that was probably meant; empty for none."""
    looks = (name for name in environment if re.match(r"BACK_?FIL", name, re.IGNORECASE))
    unknown = (name for name in looks if name not in {*setting_names(), DEBUG} and not name.startswith(OF_TESTS))
    return {name: _near(name) for name in sorted(unknown)}


def _near(name: str) -> str:
    return next(iter(get_close_matches(name.upper(), sorted(setting_names()), n=1, cutoff=0.85)), "")


_LEDGER = "ledger.db"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_IMAGE = r"[\x21-\x7e]{1,300}"
_ADDRESS = r"\s*(https?://[^\s/?#]+(/[^\s?#]*)?\s*)?"


def _ledger_in(home: Path) -> str:
    return f"sqlite:///{home / _LEDGER}"


def home_named(environment: Mapping[str, str] | None = None) -> str | Path:
    """The home as the environment names it."""
    return (os.environ if environment is None else environment).get("BACKFILL_HOME") or default_home()


def _reference_of(home: Path) -> Path:
    """The folder of references in a home; that of the example for the home of a checkout in which none are yet."""
    own = home / "reference"
    return EXAMPLE_REFERENCE if IS_CHECKOUT and home == PROJECT_ROOT / "data" and not own.exists() else own


def default_home() -> Path:
    """`data/` of the checkout this package runs from, else `data/` of the working directory."""
    return (PROJECT_ROOT if IS_CHECKOUT else Path.cwd()) / "data"


def _place(given: Mapping[str, str], name: str, default: Place) -> Place:
    return place_of(given[name], variable=name) if given.get(name) else default


P = TypeVar("P", bound=Place)


def _one_folder(name: str, place: P) -> P:
    """A place whose name stands for itself: Spark would read another folder that has a name like it."""
    if isinstance(place, Path) and is_pattern(str(place)):
        why = f"is {place}, and Spark takes any of * ? [ ] {{ }} and the backslash in a name for a pattern"
        raise InvalidSetting(setting=name, why=why, wanted="a folder without these characters in its path")
    return place


def _as_written(name: str, place: P) -> P:
    """A place that is not the address of another one: delta-rs writes in one folder and reads in the other."""
    if isinstance(place, Path) and (other := unquote(str(place))) != str(place):
        why = f"is {place}, which Delta takes for the address of {other}"
        raise InvalidSetting(setting=name, why=why, wanted="a folder without % in its path")
    return place


def _drop(given: Mapping[str, str], home: Path) -> Place | None:
    """Files leave it when they have landed: nothing else may live in it, nor may it lie in what others write."""
    if not given.get("BACKFILL_DROP"):
        return None
    drop = place_of(given["BACKFILL_DROP"], variable="BACKFILL_DROP")
    for name, usual in (
        ("BACKFILL_LANDING", "landing"),
        ("BACKFILL_LAKE", "lake"),
        ("BACKFILL_REFERENCE", "reference"),
        ("BACKFILL_REFERENCE_ARCHIVE", ARCHIVE),
    ):
        other = _place(given, name, home / usual)
        if _lies_in(drop, other) or _lies_in(other, drop):
            why = f"is {drop}, and {name} is {other}: one lies in the other"
            raise InvalidSetting(setting="BACKFILL_DROP", why=why, wanted="a folder of its own")
    return drop


def _lies_in(place: Place, other: Place) -> bool:
    if isinstance(place, Path) and isinstance(other, Path):
        return place.is_relative_to(other)
    return isinstance(place, StoreUrl) and isinstance(other, StoreUrl) and f"{place}/".startswith(f"{other}/")


def _access(given: Mapping[str, str]) -> StoreAccess:
    usual = {name: given[name] for name in FROM_ENVIRONMENT if given.get(name)}
    return StoreAccess.of({**usual, **_pairs(given, "BACKFILL_STORAGE_OPTIONS")})


def _dagster_url(given: Mapping[str, str], ledger_url: str) -> str:
    asked = given.get("BACKFILL_DAGSTER_URL") or ledger_url
    if re.match(r"postgres(ql)?(\+\w+)?://", asked):
        return asked
    if asked in (ledger_url, "sqlite"):
        return ""
    # The text may hold a password, so it is not repeated.
    raise InvalidSetting(
        setting="BACKFILL_DAGSTER_URL",
        why="is neither the URL of a PostgreSQL database nor `sqlite`",
        wanted="something like postgresql://user@host/database",
    )


def _first_day(given: Mapping[str, str]) -> date:
    name = "BACKFILL_FIRST_DAY"
    text = given.get(name) or DEFAULT_FIRST_DAY
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not EARLIEST <= day <= LATEST:
        why = f"is {text!r}, which is not a date like 2024-10-01, from {EARLIEST} to {LATEST}"
        raise InvalidSetting(setting=name, why=why)
    return day


def _matching(given: Mapping[str, str], name: str, default: str, pattern: str, what: str) -> str:
    text = given.get(name) or default
    if text and not re.fullmatch(pattern, text):
        raise InvalidSetting(setting=name, why=f"is {text[:100]!r}, which is not {what}")
    return text


def _count(given: Mapping[str, str], name: str, default: int, *, digits: int = 12) -> int:
    what = f"a whole number from 1 to {10**digits - 1:,}"
    return int(_matching(given, name, str(default), f"0*[1-9][0-9]{{0,{digits - 1}}}", what))


def _tariff(given: Mapping[str, str]) -> Tariff:
    cores, text = _count(given, "BACKFILL_CORES", os.cpu_count() or 1), given.get("BACKFILL_CORE_HOUR_PRICE", "")
    if not text:
        return Tariff(cores=cores)
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?: ([A-Z]{3}))?", text, flags=re.ASCII)
    if not found:
        why = f"is {text[:100]!r}, which is not a price"
        wanted = "what a core hour costs, such as 0.05 EUR, or leave it out"
        raise InvalidSetting(setting="BACKFILL_CORE_HOUR_PRICE", why=why, wanted=wanted)
    return Tariff(cores=cores, price=Decimal(found[1]), currency=found[2] or "")


def _usual_image(given: Mapping[str, str]) -> str:
    """The image by the usual name of Dagster's launchers; it is not checked here, and may be anything."""
    named = given.get("DAGSTER_CURRENT_IMAGE", "")
    return named if re.fullmatch(_IMAGE, named) else ""


def _log(given: Mapping[str, str]) -> str:
    text = given.get("BACKFILL_LOG", "")
    if text not in ("", JSON):
        raise InvalidSetting(setting="BACKFILL_LOG", why=f"is {text!r}, and it can be {JSON}, or not be set")
    return text


def _sensors(given: Mapping[str, str]) -> frozenset[Sensor] | None:
    text = given.get("BACKFILL_SENSORS")
    if text is None:
        return None
    names = {name.strip() for name in text.split(",")} - {""}
    if unknown := names - set(Sensor):
        raise InvalidSetting(
            setting="BACKFILL_SENSORS",
            why=f"names {', '.join(sorted(unknown))}, and the sensors are {', '.join(Sensor)}",
            wanted="some of these, separated by commas, or to nothing to leave all of them out",
        )
    return frozenset(map(Sensor, names))


def _tuning(given: Mapping[str, str], name: str) -> Mapping[str, str]:
    pairs = _pairs(given, name)
    for key in pairs:
        if not key.startswith("spark."):
            why = f"holds {key!r}, which is not of Spark: write spark.NAME=value;spark.NAME=value"
            raise InvalidSetting(setting=name, why=why)
    require_tuning(pairs, variable=name)
    return pairs


def _pairs(given: Mapping[str, str], name: str) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in given.get(name, "").split(";"))):
        key, separator, value = part.partition("=")
        if not separator or not key.strip():
            raise InvalidSetting(setting=name, why=f"holds {part!r}, which is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs
