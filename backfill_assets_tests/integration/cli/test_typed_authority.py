"""Nothing that one person types, in whatever combination, changes a table that asks a second one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInvalidConfigError, JobDefinition
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.calendar.partitions import Grain, partitions_over
from backfill_assets.main import app
from backfill_assets.orchestration.launch import SILENT
from backfill_assets.orchestration.resources import PYSPARK
from backfill_assets.orchestration.tags import partition_range
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.orchestration_examples import CANDIDATE, PUBLISHED, VALIDATION, Bench, bench
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, SALES, shop_environment
from backfill_assets_tests.support.waiting_runs import RUNS, day_of, run_of

Tags = Mapping[str, str]
ASKS_NOBODY = "backfill_assets_tests.domains.example_asking_nobody"
NO_PERSON = ("", "sensor", "policy:follow", "unspecified", "\u200b")
PUBLICATION, EVERYTHING = (PUBLISHED,), (CANDIDATE, VALIDATION, PUBLISHED)
"""The assets that a launch chooses."""
SAMPLE = 8


def accepted(ws: Workspace) -> Mapping[tuple[str, str], tuple[int, str]]:
    """What readers see, by table and partition, as the ledger and the table itself say it."""
    with ws.ledger.read() as reader:
        said = {
            (table, str(day)): (version.version, version.files.digest)
            for table in (SALES, RECENT)
            for day, version in reader.versions.accepted(table, partitions_over(Grain.DAILY, DAYS)).items()
        }
    files = sorted(ws.lake.open(RECENT).file_uris())
    return {**said, ("files", RECENT): (len(files), "".join(files))}


@dataclass(frozen=True, kw_only=True)
class Colleague:
    """A user: the tags that can be entered, and the processes that can be started over one home."""

    home: Path
    folder: Path
    before: Mapping[Any, Any]
    values: Mapping[str, Sequence[str]]
    benches: Mapping[str, Bench]
    jobs: Mapping[str, JobDefinition]

    def launches(
        self,
        chosen: Sequence[AssetKey],
        given: Tags,
        *,
        name: str = "plain",
        process: str = "usual",
        config: Any = None,
    ) -> Mapping[Any, Any]:
        """Launches assets over the partition of a run that waits; what readers see afterwards."""
        made = self.benches[process]
        self.jobs[process].execute_in_process(
            instance=made.instance,
            asset_selection=list(chosen),
            tags={**partition_range((day_of(name),)), **{f"backfill/{tag}": value for tag, value in given.items()}},
            run_config={**SILENT, **(config or {})},
            raise_on_error=False,
        )
        return accepted(made.workspace)

    def changes_nothing(self, chosen: Sequence[AssetKey], given: Tags, **how: Any) -> None:
        """Launches assets, which must leave readers what they see."""
        assert self.launches(chosen, given, **how) == self.before, (chosen, given, how)

    def combinations(self) -> list[Tags]:
        """Every name, every tag with each of its values beside a name, and a sample of all combinations."""
        singles: list[Tags] = [{tag: value} for tag, found in self.values.items() for value in found]
        chance = random.Random(8)
        some = [{tag: chance.choice([None, *found]) for tag, found in self.values.items()} for _ in range(SAMPLE)]
        return [
            *({"by": "x", **single} for single in singles),
            *({tag: value for tag, value in each.items() if value is not None} for each in some),
        ]


@pytest.fixture(scope="module")
def colleague(tmp_path_factory: pytest.TempPathFactory, waiting_home: Path, spark: SparkSession) -> Iterator[Colleague]:
    folder = tmp_path_factory.mktemp("colleague")
    home = copy_home(waiting_home, folder / "home")
    (folder / "approvers.yaml").write_text('version: "1"\ngroups: {finance: [ana, x]}\n', encoding="utf-8")
    elsewhere = {
        "usual": {},
        "asking nobody": {"BACKFILL_DOMAIN": ASKS_NOBODY},
        "with approvers of its own": {"BACKFILL_REFERENCE": str(folder), "BACKFILL_DOMAIN": ASKS_NOBODY},
        "of a policy": {"BACKFILL_USER": "policy:backfill"},
        "of x": {"BACKFILL_USER": "x"},
    }
    with ExitStack() as stack:
        benches = {
            process: stack.enter_context(bench(home, BACKFILL_FIRST_DAY="2026-01-01", **variables))
            for process, variables in elsewhere.items()
        }
        ws = benches["usual"].workspace
        with ws.ledger.read() as reader:
            published = {record.table: record for record in reader.publications.records()}
        runs = [run_of(ws, "plain"), run_of(ws, "auto"), published[RECENT].run_id, "nonsense"]
        yield Colleague(
            home=home,
            folder=folder,
            before=accepted(ws),
            values={
                "because": [published[SALES].publication_id, published[RECENT].publication_id, "nonsense"],
                "by": ["ana", "x", *NO_PERSON],
                "kind": ["LIVE", "RESTATEMENT"],
                "mode": ["LIVE"],
                "transform_version": ["0.9.0", "7"],
                "run_id": runs,
                "run_id.recent_sales": runs[:1],
                "reason": ["follows"],
                "table": ["gold.sales_monthly"],
                "approved_by": ["ben"],
                "policy": ["auto"],
            },
            benches=benches,
            jobs={
                process: made.definitions().resolve_job_def("backfill_daily_tables")
                for process, made in benches.items()
            },
        )


@pytest.mark.long
def test_no_combination_of_tags_publishes_what_waits_for_another_person(colleague: Colleague) -> None:
    for given in colleague.combinations():
        colleague.changes_nothing(PUBLICATION, given)


@pytest.mark.long
def test_no_combination_of_tags_computes_anything_without_a_name(colleague: Colleague) -> None:
    for given in colleague.combinations()[::3]:
        colleague.changes_nothing(EVERYTHING, {tag: value for tag, value in given.items() if tag != "by"})
    for by in NO_PERSON:
        colleague.changes_nothing(EVERYTHING, {"by": by, "transform_version": "0.9.0"})


@pytest.mark.long
def test_no_process_and_no_config_publishes_what_waits_for_another_person(colleague: Colleague) -> None:
    follows = {"by": "x", "kind": "LIVE", "because": colleague.values["because"][0]}
    for process in colleague.benches:
        for name in RUNS:
            colleague.changes_nothing(PUBLICATION, {"by": "x"}, name=name, process=process)
        colleague.changes_nothing(PUBLICATION, follows, process=process)
    config = {"resources": {PYSPARK: {"config": {"spark_config": {"spark.app.name": "auto"}}}}}
    with pytest.raises(DagsterInvalidConfigError, match="spark_config"):
        # The launchpad offers nothing: no asset and no resource takes a config.
        colleague.changes_nothing(PUBLICATION, {"by": "x"}, config=config)


@pytest.mark.long
def test_what_one_person_can_have_computed_is_still_not_published(colleague: Colleague) -> None:
    load = colleague.values["because"][0]
    # The defective release once more, as something that follows bronze: this replaced approved rows.
    colleague.changes_nothing(EVERYTHING, {"because": load, "transform_version": "0.9.0", "by": "x"})
    colleague.changes_nothing(EVERYTHING, {"because": load, "by": "x"}, name="finance")
    colleague.changes_nothing(EVERYTHING, {"by": "x", "kind": "REPAIR"}, process="asking nobody", name="auto")


@pytest.mark.long
def test_no_flag_and_no_variable_publishes_what_waits_for_another_person(
    colleague: Colleague, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = colleague.benches["usual"].workspace
    days = ("--from", str(OUTPUT.start), "--to", str(OUTPUT.last), "--reason", "why not")
    plans = [
        ("plan", "table", RECENT, *days, *more)
        for more in (("--kind", "LIVE"), ("--mode", "replay"), ("--kind", "REPAIR"))
    ]
    waiting = [run_of(ws, name) for name in RUNS]
    agreements = [
        ("approve", waiting[0], "--by", by)
        for by in (
            " Ana ",
            "ANA",
            "\uff41\uff4e\uff41",
            "a\u200bna",
            "a n a",
            "\u0430na",
            "ANOTHER_PERSON",
            "policy:backfill",
            "\uff50olicy:x",
            "Sensor",
        )
    ]
    publications = [("publish", run_id, "--by", by) for run_id in waiting for by in ("x", "ana", "policy:backfill")]
    for variables in (
        {},
        {"BACKFILL_USER": "policy:backfill"},
        {"BACKFILL_DOMAIN": ASKS_NOBODY},
        {"BACKFILL_DOMAIN": ASKS_NOBODY, "BACKFILL_REFERENCE": str(colleague.folder)},
    ):
        for name, value in {**shop_environment(colleague.home), **variables}.items():
            monkeypatch.setenv(name, value)
        for words in (*plans, *agreements, *publications):
            result = CliRunner().invoke(app, list(words))
            assert "Traceback" not in result.output
            assert result.exit_code or words[0] == "plan", words
            assert accepted(ws) == colleague.before, (words, variables)


@pytest.mark.long
def test_what_a_second_person_has_agreed_to_is_published_by_the_same_launch(colleague: Colleague) -> None:
    ws = colleague.benches["usual"].workspace
    run_id = run_of(ws, "plain")
    operations.approve(ws, run_id, by="ben")
    after = colleague.launches(PUBLICATION, {"by": "ana", "run_id": run_id})
    changed = {key for key, value in after.items() if colleague.before[key] != value}
    assert changed == {(RECENT, str(day_of("plain"))), ("files", RECENT)}
