"""What integration tests may ask for: a PostgreSQL server, and a ledger on either database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.by_hand import Hand, open_by_hand
from backfill_assets_tests.support.kafka_broker import Broker, running_broker
from backfill_assets_tests.support.kinesis_server import KinesisServer, NoKinesis, running_kinesis
from backfill_assets_tests.support.kinesis_shop import SECRETS
from backfill_assets_tests.support.lakes import SWITCH as LAKE_SWITCH
from backfill_assets_tests.support.lakes import use_store
from backfill_assets_tests.support.ledgers import SERVER, copy_home, forget_ledgers_below, in_postgresql, url_of
from backfill_assets_tests.support.month import CARNIVAL, open_month, stock_month
from backfill_assets_tests.support.postgres_server import NoPostgres, running_server
from backfill_assets_tests.support.remembered import MEMORY
from backfill_assets_tests.support.s3_server import NoStore, Store, running_store, spark_jars
from backfill_assets_tests.support.shop import (
    Shop,
    WorkIn,
    open_shop,
    sale,
    shop_environment,
    ticking_clock,
    usual_sales,
)
from backfill_assets_tests.support.waiting_runs import add_waiting_runs

SWITCH = "BACKFILL_TEST_LEDGER"
"""`postgresql`: the homes of tests keep their ledgers, and Dagster its runs, in PostgreSQL (`make test-postgres`)."""

_numbers = count(1)
ONE_HOUR = timedelta(hours=1)


@pytest.fixture(scope="session")
def home_by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that is worked in by hand. Tests copy it."""
    home = tmp_path_factory.mktemp("hand") / "home"
    open_by_hand(home).ws.close()
    return home


@pytest.fixture
def hand(tmp_path: Path, home_by_hand: Path) -> Iterator[Hand]:
    """One of a test's own, ten minutes later."""
    opened = open_by_hand(copy_home(home_by_hand, tmp_path / "home"))
    yield opened
    opened.ws.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL, without databases of its own."""
    try:
        with running_server() as url:
            yield url
    except NoPostgres as reason:
        if os.environ.get(SWITCH):
            pytest.fail(f"{SWITCH} asks for PostgreSQL: {reason}")
        pytest.skip(f"POSTGRESQL IS NOT TESTED: {reason}")


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A running object store, without buckets of its own."""
    try:
        spark_jars()
        with running_store() as started:
            yield started
    except NoStore as reason:
        if os.environ.get(LAKE_SWITCH):
            pytest.fail(f"{LAKE_SWITCH} asks for an object store: {reason}")
        pytest.skip(f"OBJECT STORES ARE NOT TESTED: {reason}")


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running Kafka broker, without topics of its own."""
    try:
        with running_broker() as started:
            yield started
    except BackfillError as reason:
        pytest.skip(f"CAPTURES FROM KAFKA ARE NOT TESTED: {reason}")


@pytest.fixture(scope="session")
def kinesis_server() -> Iterator[KinesisServer]:
    """A running server of Kinesis, without streams of its own."""
    try:
        with running_kinesis() as started:
            yield started
    except NoKinesis as reason:
        pytest.skip(f"KINESIS IS NOT TESTED: {reason}")


@pytest.fixture
def kinesis(kinesis_server: KinesisServer, monkeypatch: pytest.MonkeyPatch) -> KinesisServer:
    """The server, with the credentials in the variables that declarations name."""
    for variable, value in SECRETS.items():
        monkeypatch.setenv(variable, value)
    return kinesis_server


@pytest.fixture(scope="session")
def careless_store() -> Iterator[Store]:
    """A store that ignores conditions."""
    try:
        with running_store("--nometa") as started:
            yield started
    except NoStore as reason:
        pytest.skip(f"OBJECT STORES ARE NOT TESTED: {reason}")


@pytest.fixture(scope="session", autouse=True)
def where_homes_keep_their_ledgers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """In files, unless the switch says otherwise: then every home of every test here has a database of its own."""
    wanted = os.environ.get(SWITCH, "sqlite")
    if wanted not in ("sqlite", "postgresql"):
        pytest.fail(f"{SWITCH} is {wanted!r}; it can be sqlite or postgresql")
    with pytest.MonkeyPatch.context() as patch:
        if wanted == "postgresql":
            patch.setenv(SERVER, request.getfixturevalue("postgres_server"))
        yield
        if in_postgresql():
            forget_ledgers_below(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def where_homes_keep_their_lakes(request: pytest.FixtureRequest) -> Iterator[None]:
    """In folders, unless the switch says otherwise: then every home of every test here has a bucket of its own."""
    wanted = os.environ.get(LAKE_SWITCH, "folder")
    if wanted not in ("folder", "s3"):
        pytest.fail(f"{LAKE_SWITCH} is {wanted!r}; it can be folder or s3")
    with pytest.MonkeyPatch.context() as patch:
        if wanted == "s3":
            use_store(patch, request.getfixturevalue("store"))
        yield


@pytest.fixture(autouse=True)
def no_ledgers_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """The databases of a test's homes go with it; a thousand of them fill a disk."""
    if not in_postgresql():
        yield
        return
    folder: Path = request.getfixturevalue("tmp_path")
    yield
    forget_ledgers_below(folder)


@pytest.fixture(scope="session", autouse=True)
def homes_are_remembered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """By all workers together, where several run the tests."""
    root = tmp_path_factory.getbasetemp()
    MEMORY.folder = (root.parent if os.environ.get("PYTEST_XDIST_WORKER") else root) / "remembered"
    MEMORY.is_trusted = True
    yield
    MEMORY.folder = None


@pytest.fixture(autouse=True)
def acts_are_carried_out_where_code_is_replaced(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that replaces code gets nothing that other code has made."""
    MEMORY.is_trusted = "monkeypatch" not in request.fixturenames
    yield
    MEMORY.is_trusted = True


@pytest.fixture
def work_in() -> Iterator[WorkIn]:
    """For a test that types commands. It replaces no code, so that acts are remembered beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)

        def enter(home: Path) -> None:
            for name, value in shop_environment(home).items():
                patch.setenv(name, value)

        yield enter


@pytest.fixture(scope="session")
def empty_database(postgres_server: str) -> str:
    """The name of a PostgreSQL database that holds an empty ledger; others are copied from it."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty_ledger")
    Ledger.open(url_of(postgres_server, "empty_ledger"), clock=lambda: NOON).close()
    return "empty_ledger"


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that holds an empty ledger; others are copied from it."""
    file = tmp_path_factory.mktemp("ledger") / "empty.db"
    Ledger.open(f"sqlite:///{file}", clock=lambda: NOON).close()
    return file


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database; of one with an empty ledger, for a test that asks for `ledger`."""
    name = f"test_{next(_numbers)}"
    template = request.getfixturevalue("empty_database") if "ledger" in request.fixturenames else "template1"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        yield url_of(postgres_server, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that is not there yet, or is empty for a test that asks for `ledger`; once per database."""
    if request.param == "sqlite":
        file = tmp_path / "deep" / "ledger.db"
        if "ledger" in request.fixturenames:
            file.parent.mkdir()
            shutil.copy(request.getfixturevalue("empty_file"), file)
        return f"sqlite:///{file}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def ledger(ledger_url: str, clock: Clock) -> Iterator[Ledger]:
    opened = Ledger.open(ledger_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def stocked_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A shop's home in which January has landed. Tests copy it, because landing takes seconds."""
    home = tmp_path_factory.mktemp("stocked") / "home"
    shop = open_shop(home, clock=ticking_clock(NOON), spark=spark)
    shop.land("january.jsonl", usual_sales())
    shop.ws.close()
    return home


@pytest.fixture(scope="session")
def published_home(tmp_path_factory: pytest.TempPathFactory, stocked_home: Path, spark: SparkSession) -> Path:
    """The stocked home with the earlier release published. Tests copy it."""
    home = tmp_path_factory.mktemp("published") / "home"
    copy_home(stocked_home, home)
    shop = open_shop(home, clock=ticking_clock(NOON + ONE_HOUR), spark=spark)
    shop.published(version="0.9.0")
    shop.ws.close()
    return home


@pytest.fixture(scope="session")
def month_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A shop's home with February in silver and gold. Tests copy it."""
    home = tmp_path_factory.mktemp("month") / "home"
    stock_month(home, spark)
    return home


@pytest.fixture
def shop(tmp_path: Path, stocked_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """A shop of the test's own in which January has landed, two hours later."""
    yield from _opened(copy_home(stocked_home, tmp_path / "home"), spark)


@pytest.fixture
def published_shop(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """One in which 0.9.0 is published for the third to the ninth as well."""
    yield from _opened(copy_home(published_home, tmp_path / "home"), spark)


def _opened(home: Path, spark: SparkSession) -> Iterator[Shop]:
    opened = open_shop(home, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


@pytest.fixture
def month(tmp_path: Path, month_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """One with February in silver and gold."""
    opened = open_month(copy_home(month_home, tmp_path / "home"), spark=spark, hours=13)
    yield opened
    opened.ws.close()


@pytest.fixture
def late(month: Shop) -> Shop:
    """The month after one more sale of CARNIVAL has come in."""
    month.land("late.jsonl", [sale(CARNIVAL, amount=5, sale_id="late")])
    return month


@pytest.fixture(scope="session")
def waiting_home(tmp_path_factory: pytest.TempPathFactory, published_home: Path, spark: SparkSession) -> Path:
    """The published home with runs that wait to be approved. Tests copy it."""
    home = tmp_path_factory.mktemp("waiting") / "home"
    copy_home(published_home, home)
    add_waiting_runs(home, spark)
    return home
