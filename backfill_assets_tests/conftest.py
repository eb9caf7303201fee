"""What every test may ask for: a clock that stands still, settings in an empty folder, one Spark for the session."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import EXAMPLE_REFERENCE, PROJECT_ROOT, Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.testing import QUICK_SPARK
from backfill_assets_tests.support import long_tests
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.quick_commands import remember_commands
from backfill_assets_tests.support.quick_py4j import convert_lists_at_once, remember_java_names, remember_settings
from backfill_assets_tests.support.quick_statements import remember_statements
from backfill_assets_tests.support.quick_writers import nothing_slow_at_the_writers_turn
from backfill_assets_tests.support.s3_server import jars_setting
from backfill_assets_tests.support.searches import register_profiles

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

# What tests print goes to no terminal, also where a process of several has been told the width of one.
os.environ.pop("COLUMNS", None)
register_profiles()
remember_java_names()
remember_settings()
convert_lists_at_once()
remember_statements()
remember_commands()

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)

SPARK_ENVIRONMENT = {
    **QUICK_SPARK,
    "BACKFILL_SPARK_CONF": ";".join(
        (
            QUICK_SPARK["BACKFILL_SPARK_CONF"],
            # One session writes to folders and to stores, which no process of a user does; see `spark.spark_conf`.
            "spark.hadoop.fs.s3a.fast.upload.buffer=array",
            *jars_setting(),
        )
    ),
}
"""What a test asks Spark for, in this process and in those it starts; `test_determinism` compares it with the usual."""

TRAFFIC_FINES = PROJECT_ROOT.parent / "shared" / "datasets" / "traffic_fines"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part 2/3`: the second of three parts of the modules."""
    parser.addoption("--part", default="1/1", help="run the tests of one part of the modules, such as 2/3")


def pytest_configure(config: pytest.Config) -> None:
    """Files of recorded texts that no test compares are found by `recorded.left_over`, in any process and selection."""
    config.option.disable_unused_snapshots = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules without a long test are not even imported where only those are asked for: most of the unit tests."""
    is_needless = config.option.markexpr == "long" and not long_tests.may_have_some(collection_path)
    return True if is_needless else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks what `make test` leaves to `make test-long`, before `-m` chooses, and takes a part of what is chosen."""
    long_tests.mark(items)
    yield
    chosen = set(long_tests.in_part(items, config.getoption("--part")))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def writers_are_quick() -> Iterator[None]:
    """Of every operation in every test."""
    with nothing_slow_at_the_writers_turn():
        yield


@pytest.fixture(autouse=True)
def next_test_finds_the_session_of_all() -> Iterator[None]:
    """A session that a test has opened does not stay the active one of the process, which commands take."""
    yield
    first = SparkSession._instantiatedSession
    if first is not None and first._sc._jsc is not None and SparkSession._activeSession is not first:
        first.createDataFrame([], "nothing int")  # what makes a frame is the active one


@pytest.fixture
def clock() -> Clock:
    return lambda: NOON


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A recorded text, named as a path below `snapshots/`: `assert text == recorded(name="advice/AtWork.txt")`."""
    from backfill_assets_tests.support.recorded import TextFile

    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot.use_extension(TextFile)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    return Settings.from_environment({"BACKFILL_HOME": str(home), **home_environment(home), **SPARK_ENVIRONMENT})


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    conf = f"spark.sql.warehouse.dir={home / 'warehouse'};{SPARK_ENVIRONMENT['BACKFILL_SPARK_CONF']}"
    environment = {**SPARK_ENVIRONMENT, "BACKFILL_HOME": str(home), "BACKFILL_SPARK_CONF": conf}
    session = open_spark(Settings.from_environment(environment))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def traffic_fines() -> Path:
    if not TRAFFIC_FINES.exists():
        pytest.skip(f"the traffic fines are not at {TRAFFIC_FINES}")
    return TRAFFIC_FINES


@pytest.fixture(scope="session")
def fines_reference(traffic_fines: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference files of the traffic fines, and who may approve by the example's policy."""
    folder = tmp_path_factory.mktemp("reference")
    for path in (*(traffic_fines / "reference").iterdir(), EXAMPLE_REFERENCE / "approvers.yaml"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder
