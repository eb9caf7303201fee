"""One restatement is the same wherever it is computed and wherever the lake is.

A quick run takes a twentieth of the cases and four days; a thorough one (`make test-cluster`) all of them and a
quarter. Landed is what these days are computed from: 250 days before them, as the policy tracks a clock, and the days
around.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.clusters import connect, standalone
from backfill_assets_tests.support.s3_server import Store, spark_jars
from backfill_assets_tests.support.searches import is_thorough

Computing = Callable[[Path, Sequence[Path]], AbstractContextManager[Mapping[str, str]]]


@contextmanager
def this_machine(_folder: Path, _jars: Sequence[Path]) -> Iterator[Mapping[str, str]]:
    yield {}


WAYS: Mapping[str, Computing] = {
    "local and S3": this_machine,
    "standalone and S3": standalone,
    "Connect and S3": connect,
}


@pytest.fixture(scope="module")
def asked(traffic_fines: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """The file of the events, and the first and the last day that are restated."""
    first, end = (date(2005, 10, 23), date(2006, 10, 3)) if is_thorough() else (date(2005, 11, 1), date(2006, 7, 18))
    between = [
        ("event_time", sign, datetime.combine(day, time(), tzinfo=UTC)) for sign, day in ((">=", first), ("<", end))
    ]
    table = pq.read_table(traffic_fines / "events.parquet", filters=between)
    if not is_thorough():
        number = pc.cast(pc.utf8_slice_codeunits(table["case_id"], 1), pa.int64())
        table = table.filter(pc.equal(pc.subtract(number, pc.multiply(pc.divide(number, 20), 20)), 11))
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(table, path)
    return (str(path), "2006-07-01", "2006-09-30") if is_thorough() else (str(path), "2006-07-13", "2006-07-16")


def restated(home: Path, reference: Path, asked: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, Any]:
    """What came out, computed by a process of its own."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "AWS_"))}
    settings = {"BACKFILL_HOME": str(home), "BACKFILL_REFERENCE": str(reference), **SPARK_ENVIRONMENT, **environment}
    done = subprocess.run(
        [sys.executable, "-m", "backfill_assets_tests.support.one_restatement", *asked],
        env={**given, **settings},
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def in_a_folder(
    asked: Sequence[str], fines_reference: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Any]:
    """What comes out on this machine, over a local folder."""
    found = restated(tmp_path_factory.mktemp("folder"), fines_reference, asked, {})
    assert found["problems"] == []
    assert len(found["3.1.0"]["checksums"]) == (92 if is_thorough() else 4)
    assert found["2.4.1"]["checksums"] != found["3.1.0"]["checksums"]
    assert found["3.1.0"]["sample"] != []
    return found


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_verdicts_and_samples_wherever_it_is_computed(
    way: str,
    store: Store,
    in_a_folder: Mapping[str, Any],
    asked: Sequence[str],
    fines_reference: Path,
    tmp_path: Path,
) -> None:
    bucket = store.make_bucket(f"lake-{way.split()[0].lower()}")
    lake = {"BACKFILL_LAKE": f"s3://{bucket}/lake", **store.environment}
    with WAYS[way](tmp_path, sorted(spark_jars().glob("*.jar"))) as computing:
        found = restated(tmp_path / "home", fines_reference, asked, {**lake, **computing})
    assert found == in_a_folder
