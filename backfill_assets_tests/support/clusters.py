"""Clusters of a test: a standalone master with two workers, and a server of Spark Connect, from the installed PySpark.

Each listens on a free port of loopback, and ends with the test that started it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from backfill_assets.core.spark_server import free_port
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT

SPARK = Path(pyspark.__file__).parent
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
COMPARE_THERE = {"BACKFILL_COMPARE_IN_SPARK_ABOVE": "1"}
"""Whatever is compared is compared by Spark's workers."""
STARTS_WITHIN_S = 90
TESTS_CONF = SPARK_ENVIRONMENT["BACKFILL_SPARK_CONF"]
OF_SESSION = ";".join(setting for setting in TESTS_CONF.split(";") if setting.startswith("spark.sql."))
"""Of what tests ask Spark for, what a session on a server can have of its own; the jars are the server's."""
JAVA = "-Duser.timezone=UTC -Duser.language=en"


@contextmanager
def standalone(folder: Path, _jars: Sequence[Path]) -> Iterator[Mapping[str, str]]:
    """A master with two workers; returns the settings of a process that computes there."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    of_spark = str(SPARK / "bin" / "spark-class")
    master = (of_spark, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))
    with ExitStack() as stack:
        stack.enter_context(_process([*master, "--webui-port", "0"], folder / "master.log"))
        _await(port, folder / "master.log")
        for number in (1, 2):
            worker = (of_spark, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / f"worker-{number}"))
            stack.enter_context(_process([*worker, *size, url], folder / f"worker-{number}.log"))
        conf = (TESTS_CONF, "spark.driver.host=127.0.0.1", "spark.executor.memory=1536m")
        yield {"BACKFILL_SPARK_MASTER": url, **LOOPBACK, **COMPARE_THERE, "BACKFILL_SPARK_CONF": ";".join(conf)}


@contextmanager
def connect(folder: Path, jars: Sequence[Path]) -> Iterator[Mapping[str, str]]:
    """A server of Spark Connect, started as docs/scale.md says; returns the settings of who computes there."""
    port = free_port()
    server = (
        *(str(SPARK / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-memory", "3g", "--driver-java-options", JAVA),
        *(
            "--conf",
            "spark.connect.grpc.binding.address=127.0.0.1",
            "--conf",
            f"spark.connect.grpc.binding.port={port}",
        ),
        *("--conf", "spark.ui.enabled=false", "--jars", ",".join(map(str, jars)), "spark-internal"),
    )
    with _process(server, folder / "connect.log"):
        _await(port, folder / "connect.log")
        remote = f"sc://127.0.0.1:{port}"
        yield {"BACKFILL_SPARK_REMOTE": remote, **COMPARE_THERE, "BACKFILL_SPARK_CONF": OF_SESSION}


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **LOOPBACK}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _await(port: int, log: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nothing answers on port {port}:\n{log.read_text(errors='replace')[-2000:]}")
