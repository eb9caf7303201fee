"""Nothing outside the manifest changes rows: not the launchpad, not a session opened before, not a transform."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster import DagsterInvalidConfigError
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.candidates import compute
from backfill_assets.core import session_settings
from backfill_assets.core.errors import ContractBroken, WrongSession
from backfill_assets.core.session_settings import JAVA, MEANING, session_digest
from backfill_assets.core.spark import java_properties
from backfill_assets.domain import Release, TransformContext
from backfill_assets.ledger.provenance import DerivedProvenance, SourceProvenance
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.resources import Session
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.transforms.apply import apply_transform
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def over(shop: Shop, session: SparkSession) -> Workspace:
    """The workspace, with a session of the user."""
    return replace(shop.ws, open_session=lambda: session)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (ZONE, "Europe/Rome", "'UTC'"),
        ("spark.sql.ansi.enabled", "false", "'true'"),
        ("spark.sql.legacy.castComplexTypesToString.enabled", "true", "Spark's own default"),
    ],
)
def test_a_session_that_was_there_before_is_refused_before_anything_is_computed(
    shop: Shop, spark: SparkSession, name: str, value: str, expected: str
) -> None:
    before, published = shop.planned(), operations.find_run(shop.ws, RECENT, tuple(OUTPUT), states=[RunState.PUBLISHED])
    assert published is not None
    other = spark.newSession()
    ws = over(shop, other)
    other.conf.set(name, value)
    sentence = f"this Spark session gives rows another meaning: {name} is '{value}' where {expected} is expected"
    for act in (
        lambda: operations.stage(ws, before, actor="ana"),
        lambda: operations.gate(ws, published.run_id, actor="ana"),
        lambda: operations.reproduce(ws, published.run_id, by="ana"),
        lambda: check(ws, Acting(by="ana", recorder=Unrecorded()), RECENT),
    ):
        with pytest.raises(WrongSession) as refusal:
            act()
        assert refusal.value.message.startswith(sentence)
    assert operations.state_of(shop.ws, before) is RunState.PLANNED
    assert operations.state_of(shop.ws, published.run_id) is RunState.PUBLISHED


def test_a_session_that_is_only_tuned_otherwise_is_taken(shop: Shop, spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "3")
    assert operations.stage(over(shop, other), shop.planned(), actor="ana")
    assert java_properties(other).items() >= JAVA.items()


@pytest.mark.parametrize("how", ["its session", "a session of its own"])
def test_a_transform_that_changes_a_setting_is_refused_by_name(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    table = shop.ws.domain.derived_table(RECENT)
    honest: Callable[..., DataFrame] = table.release(None).function

    def sly(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        session = ctx.spark if how == "its session" else ctx.spark.newSession()
        session.sql("SET TIME ZONE 'Europe/Rome'")
        rows = honest(sales=sales, ctx=ctx)
        return rows if how == "its session" else session.createDataFrame([], rows.schema)

    monkeypatch.setattr(
        compute,
        "apply_transform",
        lambda table, release, *rest: apply_transform(table, Release(version=release.version, function=sly), *rest),
    )
    run_id = shop.planned()
    with pytest.raises(
        ContractBroken, match=f"of {RECENT} left a Spark session that gives rows another meaning: {ZONE}"
    ):
        operations.stage(over(shop, spark.newSession()), run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED


def test_a_launch_in_dagster_can_configure_no_resource(shop: Shop) -> None:
    definitions = definitions_over(shop.ws, lambda: Session(workspace=shop.ws), pool=None)
    job = definitions.resolve_implicit_global_asset_job_def()
    assert len(job.resource_defs) > 3
    own = {key: each for key, each in job.resource_defs.items() if key != "io_manager"}
    for resource in own:
        for config in ({"spark_config": {ZONE: "Europe/Rome"}}, {"url": "/elsewhere"}):
            with pytest.raises(DagsterInvalidConfigError):
                job.execute_in_process(run_config={"resources": {resource: {"config": config}}})


def test_settings_that_a_later_release_fixes_otherwise_make_what_was_computed_before_stale(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = shop.planned()
    with shop.ws.ledger.read() as reader:
        version = next(iter(reader.versions.accepted(RECENT, tuple(OUTPUT)).values()))
        loaded = next(iter(reader.versions.accepted(SALES, tuple(OUTPUT)).values()))
    assert isinstance(version.provenance, DerivedProvenance)
    assert isinstance(loaded.provenance, SourceProvenance)
    assert version.provenance.session == loaded.provenance.session == session_digest()
    before = session_digest()
    monkeypatch.setattr(session_settings, "MEANING", {**MEANING, "spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
    found = {
        table.table: {(reason.cause, reason.was, reason.now) for each in table.ranges for reason in each.reasons}
        for table in operations.stale_tables(shop.ws)
    }
    changed = (Cause.SESSION_CHANGED, before[:12], session_digest()[:12])
    assert changed in found[SALES]
    assert changed in found[RECENT]
    with pytest.raises(ContractBroken, match="planned with other session settings"):
        operations.stage(shop.ws, planned, actor="ana")


def test_a_session_does_not_read_a_page_whose_checksum_does_not_match(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"amount": [100.0, 200.0, 300.0]})
    pq.write_table(table, path, write_page_checksum=True, compression="NONE", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[content.index(struct.pack("<d", 200.0)) + 6] ^= 0x10
    path.write_bytes(content)
    for session in (spark, spark.newSession()):
        with pytest.raises(Exception, match="Encountered error while reading file"):
            session.read.parquet(str(path)).collect()
