"""Spark sessions: how they are opened, and the check that their settings give rows the intended meaning.

The settings that determine the meaning of rows are fixed in `session_settings`. The settings here make thousands of
small partition files cheap on one machine; `BACKFILL_SPARK_CONF` overrides them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from backfill_assets.core import java_classes
from backfill_assets.core.errors import Refused
from backfill_assets.core.local_files import umask_of
from backfill_assets.core.session_settings import (
    DRIVER,
    JAVA,
    JAVA_OPTIONS,
    MEANING,
    OF_READERS,
    SOUND,
    ChangedSession,
    wrong_settings,
)
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_server import NAME, Found, SparkServer, end_abandoned, look, new_session
from backfill_assets.core.tariff import ProcessorClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as RemoteSession

_COMPILER = " ".join(
    f"-XX:Tier4{name}={count}"
    for name, count in {
        "InvocationThreshold": 50_000,
        "MinInvocationThreshold": 6_000,
        "CompileThreshold": 150_000,
        "BackEdgeThreshold": 400_000,
    }.items()
)
"""Java's optimizing compiler begins at ten times the counts that are its defaults: a command of a few rows ends before
its work would be paid back, and takes a quarter less of the processors; what runs for every row soon reaches it."""


def spark_conf(settings: Settings) -> Mapping[str, str]:
    """Every Spark setting of a new session; of one on a server, those that a session can have of its own."""
    tuning = {
        "spark.app.name": "backfill_assets",
        "spark.driver.memory": settings.spark_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(settings.spark_shuffle_partitions),
        # Python would tell Java the line of every call on a column or frame, to add it to Spark's messages; that is a
        # third of all calls between the two, and messages are shown without it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Above 32 paths Spark lists files in a job with one task per path; listing them in the driver is 20 x faster
        # for a few thousand local files.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        # Reading hundreds of one-day files: opening one costs much less than 4 MiB of scanning on a local disk.
        "spark.sql.files.openCostInBytes": "262144",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.autoBroadcastJoinThreshold": "33554432",
        # Spark gives a shuffle of less than 2 MiB to one core; such a shuffle may be exploded into a million rows.
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "131072",
    }
    if settings.spark_remote:
        of_session = {name: value for name, value in tuning.items() if name.startswith("spark.sql.")}
        return {**of_session, **settings.spark_conf, **MEANING, **SOUND}
    started = {
        "spark.master": settings.spark_master,
        # A restatement with its gates takes about 80 generated classes. Spark keeps 100 of them, so a session that runs
        # several tables in turns would compile theirs again every time.
        "spark.sql.codegen.cache.maxEntries": "500",
        # Hadoop sets the rights of some files itself, without asking the umask of its process.
        "spark.hadoop.fs.permissions.umask-mode": f"{umask_of(settings.home):03o}",
    }
    java = {**JAVA_OPTIONS, DRIVER: " ".join([JAVA_OPTIONS[DRIVER], _COMPILER, java_classes.options()]).rstrip()}
    if not settings.stores:
        # Without a file of CRCs beside every file: a process is started to set the permissions of each. Files are
        # verified by their sha256. Hadoop's access to stores needs its usual local file system for what it buffers.
        started["spark.hadoop.fs.file.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"
    # What is not Spark's own it takes at its start by another name only.
    sound = {name if name.startswith("spark.") else f"{OF_READERS}{name}": value for name, value in SOUND.items()}
    return {**tuning, **started, **settings.spark_conf, **java, **MEANING, **sound}


def open_spark(settings: Settings) -> SparkSession:
    """The process's Spark session, opened if there is none yet: on the server of the home, where one can be used."""
    from pyspark.sql import SparkSession

    if (session := session_on_server(settings)) is not None:
        return session
    builder = SparkSession.builder
    if not settings.spark_remote and settings.spark_master.startswith("local"):
        # Otherwise the first Python on the path, which may have no pyarrow, would work for this session.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.spark_remote:
        builder = builder.remote(settings.spark_remote)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def found_server(settings: Settings) -> Found | None:
    """The server that was started for the home, and whether this process can use it; None without one."""
    return None if settings.spark_remote else look(settings, spark_conf(settings))


def session_on_server(settings: Settings) -> SparkSession | None:
    """The process's session on the server of the home; None where it computes elsewhere, now or before."""
    if _chosen.is_elsewhere:
        return None
    session = _chosen.sessions.get(settings.home)
    if session is None or session.is_stopped:
        found = found_server(settings)
        if found is None or found.fit is None:
            # A process has one kind of Spark: what began without the server goes on without it.
            _chosen.is_elsewhere = True
            return None
        session = _chosen.sessions[settings.home] = _opened_on(found.fit)
        _chosen.servers[settings.home] = found.fit.number
    return cast("SparkSession", session)


def compute_apart() -> None:
    """Lets this process compute in a Spark of its own: a server imports modules that other processes have given it."""
    _chosen.is_elsewhere = True


def _opened_on(server: SparkServer) -> RemoteSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as Remote

    class WhileItRuns(DefaultPolicy):
        """Tries again as usual, but not for minutes when the process is gone."""

        def can_retry(self, exception: BaseException) -> bool:
            return server.is_running and bool(super().can_retry(exception))

    from pyspark.sql import SparkSession

    end_abandoned(server)
    opened: object = SparkSession.builder.remote(server.url(new_session(server))).getOrCreate()
    assert isinstance(opened, Remote)
    opened.client.set_retry_policies([WhileItRuns()])
    if java_properties(cast("SparkSession", opened))[NAME] != server.name:
        raise Refused.coded(
            "not_our_server",
            "what answers at {address} is not the Spark server that was started there for {home}.",
            then="[down]; then the command again",
            address=server.address,
            home=server.home,
        )
    return opened


@dataclass(slots=True)
class _Chosen:
    """The sessions on servers that this process computes with."""

    sessions: dict[Path, RemoteSession] = field(default_factory=dict)  #: Its sessions on servers, by home.
    servers: dict[Path, int] = field(default_factory=dict)  #: The processes of these servers, by home.
    is_elsewhere: bool = False  #: True if it began without a server.


_chosen = _Chosen()


def processor_clock(settings: Settings) -> ProcessorClock:
    """A clock of the processors that compute for this process from now on."""
    roots: tuple[int, ...] = ()
    if not settings.spark_remote and settings.spark_master.startswith("local"):
        server = _chosen.servers.get(settings.home)
        roots = (os.getpid(), *([server] if server else []))
    return ProcessorClock(roots=roots, cores=settings.tariff.cores)


def give_access(spark: SparkSession, settings: Settings) -> None:
    """Lets a session reach the stores of the lake and of landed files; does nothing when both are local folders.

    They are settings of the open session, which hands them to every job: what is given to a JVM when it starts is shown
    by the list of processes. Over Spark Connect they reach the server in the same way.
    """
    for store in settings.stores:
        for name, value in settings.access.for_spark(store).items():
            spark.conf.set(name, value)


def require_meaning(spark: SparkSession) -> None:
    """Refuses a session whose settings could change the meaning of rows.

    Raises:
        WrongSession: A setting does not have the required value; the message states both.
    """
    wrong = next(wrong_settings(spark.conf.getAll, java_properties(spark)), None)
    if wrong is not None:
        raise ChangedSession(setting=wrong.name, why=str(wrong))


@lru_cache(maxsize=1)
def java_properties(spark: SparkSession) -> Mapping[str, str]:
    """The properties of the driver's Java that rows depend on, and the name of a server; these do not change.

    Spark replaces `${system:...}` when it parses an expression, so nothing is run for it, and it works over Spark
    Connect, where it is one request.
    """
    from pyspark.sql import functions as F

    names = (*JAVA, NAME)
    asked = spark.range(0).select(*(F.expr(f"1 AS `${{system:{name}}}`") for name in names))
    return dict(zip(names, asked.columns, strict=True))
