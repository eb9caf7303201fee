"""What a person sees in Dagster's pages: runs that commands made, the assets, and a status for every partition."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from urllib.error import HTTPError

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.parts import STAGED_AND_GATED
from backfill_assets.core.spark_server import free_port
from backfill_assets.orchestration.launch import run_in_process
from backfill_assets_tests.support.orchestration_examples import bench, environment
from backfill_assets_tests.support.servers import ask, dagster

SILVER = "silver.recent_sales"
FIRST = date(2025, 1, 1)
TOO_MUCH = date(2025, 1, 10)

RUNS = """
{
  runsOrError {
    ... on Runs {
      results { jobName status tags { key value } repositoryOrigin { repositoryName repositoryLocationName } }
    }
  }
}
"""
LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { name } } } }"
PLOTTED = """
query Plotted($key: AssetKeyInput!) {
  assetOrError(assetKey: $key) {
    ... on Asset {
      assetMaterializations(partitions: ["2025-01-10"], limit: 1) {
        metadataEntries { label ... on IntMetadataEntry { intValue } }
      }
    }
  }
}
"""
LATEST = "query Latest($keys: [AssetKeyInput!]!) { assetsLatestInfo(assetKeys: $keys) { latestRun { status } } }"
REPORT = """
mutation Report($params: ReportRunlessAssetEventsParams!) {
  reportRunlessAssetEvents(eventParams: $params) { __typename ... on PythonError { message } }
}
"""
VALID = """
query Valid($job: String!, $config: RunConfigData) {
  isPipelineConfigValid(
    mode: "default"
    runConfigData: $config
    pipeline: {
      repositoryLocationName: "backfill_assets", repositoryName: "__repository__", pipelineName: $job
    }
  ) { __typename ... on RunConfigValidationInvalid { errors { message } } }
}
"""
ASSET = """
query Asset($path: [String!]!) {
  assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode {
      assetPartitionStatuses { ... on TimePartitionStatuses { ranges { startKey endKey status } } }
      assetChecksOrError {
        ... on AssetChecks {
          checks {
            name
            blocking
            executionForLatestMaterialization { status partition evaluation { success description } }
            partitionStatuses {
              ... on AssetCheckTimePartitionStatuses { ranges { startKey endKey status } }
            }
          }
        }
      }
    }
  }
}
"""

EXECUTIONS = """
query Executions($assetKey: AssetKeyInput!, $name: String!, $day: String!) {
  assetCheckExecutions(assetKey: $assetKey, checkName: $name, limit: 1, partition: $day) {
    runId
    evaluation { success partition description metadataEntries { label } targetMaterialization { runId } }
  }
}
"""


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Dagster's web server with the checkout's settings, over a home where commands have loaded and staged."""
    home = tmp_path_factory.mktemp("ui") / "home"
    with bench(home) as made:
        days = [FIRST + timedelta(days=n) for n in range(15)]
        made.land(spark, {day: 5_000 if day == TOO_MUCH else 10 for day in days}, name="sales")
        assert made.load().succeeded
        run_id = made.plan(date(2025, 1, 3), date(2025, 1, 12))
        run_in_process(made.workspace, run_id, STAGED_AND_GATED, instance=made.instance, by="ann")
    folder = tmp_path_factory.mktemp("dagster_home")
    program = (sys.executable, "-m", "dagster_webserver")
    with dagster(*program, port=free_port(), environment=environment(home), folder=folder) as address:
        yield address


@pytest.mark.long
def test_runs_of_commands_are_there_with_their_manifest_reason_and_requester(url: str) -> None:
    runs = ask(url, RUNS)["runsOrError"]["results"]
    assert [(run["jobName"], run["status"]) for run in runs] == [
        ("backfill_daily_tables", "FAILURE"),
        ("backfill_load", "SUCCESS"),
    ]
    origin = {"repositoryName": "__repository__", "repositoryLocationName": "backfill_assets"}
    # The Timeline and the pages of jobs show runs of a location that is loaded, and no others.
    assert all(run["repositoryOrigin"] == origin for run in runs)
    assert ask(url, LOCATIONS)["workspaceOrError"]["locationEntries"] == [{"name": "backfill_assets"}]
    tags = {tag["key"]: tag["value"] for tag in runs[0]["tags"]}
    assert tags["backfill/run_id"].startswith("recent_sales-")
    assert (tags["backfill/by"], tags["backfill/reason"]) == ("ann", "a test")
    assert tags["dagster/asset_partition_range_start"] == "2025-01-03"


@pytest.mark.long
def test_a_failed_gate_shows_on_its_days_and_a_passed_one_on_all(url: str) -> None:
    asset = ask(url, ASSET, path=["validation", "recent_sales"])["assetNodeOrError"]
    checks = {
        check["name"]: [
            (found["startKey"], found["endKey"], found["status"]) for found in check["partitionStatuses"]["ranges"]
        ]
        for check in asset["assetChecksOrError"]["checks"]
    }
    assert checks["schema"] == [("2025-01-03", "2025-01-12", "SUCCEEDED")]
    assert checks["plausible"] == [
        ("2025-01-03", "2025-01-08", "SUCCEEDED"),
        ("2025-01-09", "2025-01-12", "FAILED"),
    ]
    latest = {
        check["name"]: check["executionForLatestMaterialization"] for check in asset["assetChecksOrError"]["checks"]
    }
    assert (latest["plausible"]["status"], latest["plausible"]["partition"]) == ("FAILED", None)
    said = latest["plausible"]["evaluation"]["description"]
    assert said.startswith(
        "4 of 10 days failed: 2025-01-09..2025-01-12, 4 days. Keys of rows that fail: backfill report"
    )
    assert latest["schema"]["evaluation"] == {"success": True, "description": "10 days passed."}
    assert asset["assetPartitionStatuses"]["ranges"] == [
        {"startKey": "2025-01-03", "endKey": "2025-01-12", "status": "MATERIALIZED"}
    ]


@pytest.mark.long
def test_the_page_of_a_gate_says_for_a_day_what_was_found(url: str) -> None:
    for day, success, said in (("2025-01-05", True, "0 of "), ("2025-01-10", False, "1 of ")):
        asked = {"assetKey": {"path": ["validation", "recent_sales"]}, "name": "plausible", "day": day}
        (found,) = ask(url, EXECUTIONS, **asked)["assetCheckExecutions"]
        assert (found["evaluation"]["success"], found["evaluation"]["partition"]) == (success, day)
        assert said in found["evaluation"]["description"]
        labels = {entry["label"] for entry in found["evaluation"]["metadataEntries"]}
        assert labels == ({"violations"} if success else {"violations", "observed", "rows that fail"})
        assert found["evaluation"]["targetMaterialization"]["runId"] == found["runId"]


@pytest.mark.long
def test_the_table_that_readers_know_is_not_materialized_by_staging(url: str) -> None:
    published = ask(url, ASSET, path=["silver", "recent_sales"])["assetNodeOrError"]
    assert published["assetPartitionStatuses"]["ranges"] == []
    bronze = ask(url, ASSET, path=["bronze", "sales"])["assetNodeOrError"]
    assert bronze["assetPartitionStatuses"]["ranges"] == [
        {"startKey": "2025-01-01", "endKey": "2025-01-15", "status": "MATERIALIZED"}
    ]


@pytest.mark.long
def test_a_materialization_that_is_reported_by_hand_is_refused_and_paints_nothing(url: str) -> None:
    reported = {"eventType": "ASSET_MATERIALIZATION", "partitionKeys": ["2025-01-05"], "description": "trust me"}
    key = {"path": ["silver", "recent_sales"]}
    with pytest.raises(HTTPError) as refused:
        ask(url, REPORT, params={**reported, "assetKey": key})
    found = json.load(refused.value)["data"]["reportRunlessAssetEvents"]
    assert found["__typename"] == "PythonError", "its message is what the page shows"
    assert "silver.recent_sales shows what the ledger has accepted" in found["message"]
    assert ask(url, ASSET, **key)["assetNodeOrError"]["assetPartitionStatuses"]["ranges"] == []


@pytest.mark.long
def test_the_launchpad_names_what_is_missing_or_wrong_before_anything_starts(url: str) -> None:
    asked = {"first_day": "2025-01-03", "last_day": "2025-01-04", "reason": "a test", "requester": "ann"}
    for job, typed, wrong in (
        ("plan", {SILVER: asked}, None),
        ("plan", {SILVER: {**asked, "transform_version": "0.9.0", "mode": "dry-run"}}, None),
        ("plan", {SILVER: {**asked, "transform_version": "7"}}, "not in enum type release 1.0.0 or 0.9.0 got 7"),
        ("plan", {SILVER: {**asked, "last_day": "2025-01-40"}}, "last_day not in enum type day from 2025-01-01 to"),
        ("plan", {}, "Must specify a field at the root"),
        ("decide", {"approve": {"id": "x"}}, 'Missing required config entry "approver"'),
        # A link leaves names open.
        ("decide", {"approve": {"id": "x", "approver": None}}, "approver"),
        ("decide", {"publish": {"id": "x", "publisher": "ben", "approved_by": "ben"}}, "approved_by"),
    ):
        found = ask(url, VALID, job=f"backfill_{job}", config=typed)["isPipelineConfigValid"]
        messages = [error["message"] for error in found.get("errors", [])]
        assert len(messages) == (wrong is not None)
        assert (wrong or "") in "".join(messages)


@pytest.mark.long
def test_a_blocked_run_leaves_the_table_as_it_was_and_without_a_headline(url: str) -> None:
    latest = ask(url, LATEST, keys=[{"path": ["silver", "recent_sales"]}, {"path": ["bronze", "sales"]}])
    assert [each["latestRun"] for each in latest["assetsLatestInfo"]] == [None, None]


@pytest.mark.long
def test_the_numbers_of_a_partition_are_numbers_that_pages_plot(url: str) -> None:
    found = ask(url, PLOTTED, key={"path": ["validation", "recent_sales"]})["assetOrError"]
    (last,) = found["assetMaterializations"]
    numbers = {entry["label"]: entry["intValue"] for entry in last["metadataEntries"] if "intValue" in entry}
    # One row breaks two gates.
    of_a_new_day = {"rows": 1, "dagster/partition_row_count": 1, "added": 1, "changed": 0, "removed": 0, "unchanged": 0}
    assert numbers == {**of_a_new_day, "violations": 2}
