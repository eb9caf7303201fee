"""The example domain in a home of its own, with files landed and Dagster at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from dagster import AssetKey, DagsterEventType, DagsterInstance, Definitions, ExecuteInProcessResult
from pyspark.sql import SparkSession

from backfill_assets.application.follow import follow
from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.recover import recover_document
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.crash_points import carry_on
from backfill_assets.core.settings import Settings
from backfill_assets.landing.attempt import Landing, new_lease
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.launch import SILENT, DagsterOutcome, run_in_process
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.tags import partition_range
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.follow import FollowReport, RecoveryReport
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.operations import plan, plan_load

DOMAIN = "backfill_assets_tests.domains.example"
CANDIDATE = AssetKey(["candidate", "recent_sales"])
VALIDATION = AssetKey(["validation", "recent_sales"])
PUBLISHED = AssetKey(["silver", "recent_sales"])
MONTHLY = AssetKey(["gold", "sales_monthly"])
BRONZE = AssetKey(["bronze", "sales"])
PUBLICATION = (Part.PUBLISH,)
EVERYTHING = (Part.STAGE, Part.GATE, Part.PUBLISH)


def environment(home: Path) -> Mapping[str, str]:
    """The environment of a process over this home."""
    return {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": DOMAIN,
        "BACKFILL_FIRST_DAY": "2025-01-01",
        **home_environment(home),
        **SPARK_ENVIRONMENT,
    }


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A workspace over the example domain and the Dagster instance beside it."""

    workspace: Workspace
    instance: DagsterInstance

    def land(self, spark: SparkSession, amounts: Mapping[date, int], *, name: str) -> None:
        """Lands one sale per day."""
        file = self.workspace.settings.home / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8") as lines:
            for day, amount in amounts.items():
                sale = {"sale_id": f"sale of {day}", "sold_at": f"{day}T10:00:00Z", "amount": amount}
                lines.write(json.dumps(sale) + "\n")
        work = Landing(
            ledger=self.workspace.ledger,
            open_session=lambda: spark,
            settings=self.workspace.settings,
            source=self.workspace.domain.sources[0],
            by="ann",
            quarantine=lambda _rows, _import_id: None,
            reached=carry_on,
            lease=new_lease(self.workspace.settings),
        )
        land_files(work, [FileCapture(file)], OnDuplicate.IGNORE, lambda _landed: None)

    def load(self) -> DagsterOutcome:
        """Builds every day of bronze that waits for it, as the command line does."""
        run = plan_load(self.workspace, "sales", partitions=None, by="ann", reason="it landed")
        assert run is not None
        return run_in_process(self.workspace, run.run_id, EVERYTHING, instance=self.instance, by="ann")

    def follow(self, *, by: str) -> FollowReport:
        """Follows every publication that waits for it, as the command line does."""
        recorder = DagsterRecorder(self.workspace.settings, lambda: self.instance)
        return follow(self.workspace, Acting(by=by, recorder=recorder))

    def recover(self) -> RecoveryReport:
        """Ends everything that stopped, as the command line does."""
        recorder = DagsterRecorder(self.workspace.settings, lambda: self.instance)
        return recover_document(self.workspace, Acting(by="recover", recorder=recorder), only=None, now=False)

    def plan(self, first: date, last: date, *, by: str = "ann", version: str | None = None) -> str:
        """The id of a planned run of the silver table."""
        request = PlanRequest(
            table="silver.recent_sales",
            days=DayRange.inclusive(first, last),
            reason="a test",
            by=by,
            transform_version=version,
        )
        return plan(self.workspace, request).manifest.run_id

    def definitions(self) -> Definitions:
        """What Dagster would load."""
        return definitions_over(self.workspace, lambda: Session(workspace=self.workspace), pool=None)

    def materialize(
        self, keys: Sequence[AssetKey], first: date, last: date, **launch_tags: str
    ) -> ExecuteInProcessResult:
        """Launches assets for a range, as the UI does, with tags such as `by`."""
        job = self.definitions().resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=self.instance,
            asset_selection=list(keys),
            tags={**partition_range((first, last)), **{f"backfill/{k}": v for k, v in launch_tags.items()}},
            run_config=SILENT,
            raise_on_error=False,
        )

    def materialized(self, key: AssetKey) -> set[str]:
        """The partitions of an asset that Dagster has seen materialized."""
        return self.instance.get_materialized_partitions(key)


def failures(result: ExecuteInProcessResult) -> list[str]:
    """What the failed steps say."""
    errors = [event.step_failure_data.error for event in result.get_step_failure_events()]
    return [error.message if error else "" for error in errors]


def steps(result: ExecuteInProcessResult, kind: DagsterEventType) -> set[str]:
    """The steps with an event of this kind."""
    return {event.step_key or "" for event in result.all_events if event.event_type is kind}


@contextmanager
def bench(home: Path, **elsewhere: str) -> Iterator[Bench]:
    """A bench in an empty folder, with settings of its own."""
    settings = Settings.from_environment({**environment(home), **elsewhere})
    workspace = Workspace.open(settings)
    with open_record(settings) as instance:
        yield Bench(workspace=workspace, instance=instance)
    workspace.close()
