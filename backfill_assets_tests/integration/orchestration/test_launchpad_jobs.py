"""The jobs of the launchpad do what the commands do, and grant no more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from dagster import (
    AssetCheckKey,
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInvalidConfigError,
    DagsterInvariantViolationError,
    ExecuteInProcessResult,
)

from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.assets import candidate_key, validation_key
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.dagster_internals import AssetCheckExecutionRecordStatus
from backfill_assets.orchestration.next_steps import DECIDE, PLAN
from backfill_assets.orchestration.partitions import published_key
from backfill_assets.orchestration.resources import Session
from backfill_assets_tests.faults.dagster_status_oracle import DagsterStatusOracle
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.faults.story_generator import BUILT, DAYS, StoryGenerator
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.dagster_history import latest_check
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.orchestration_examples import failures

Result = ExecuteInProcessResult
DAY = BUILT[2].isoformat()
TYPED = {"first_day": DAY, "last_day": DAY, "reason": "it is wrong", "requester": "ann"}
TABLE = "silver.turnover"


@dataclass(frozen=True, kw_only=True)
class Launchpad:
    """A home on which everything is built, and a person before its launchpad."""

    oracle: DagsterStatusOracle

    def launch(
        self, job: str, chosen: str, typed: Mapping[str, object], given: Mapping[str, str] | None = None
    ) -> Result:
        """Launches a job with an entry, what was typed there, and tags."""
        ws = self.oracle.ws
        found = definitions_over(ws, lambda: Session(workspace=ws), pool=None).resolve_job_def(job)
        return found.execute_in_process(
            instance=self.oracle.instance,
            run_config={chosen: dict(typed)},
            tags=dict(given or {}),
            raise_on_error=False,
        )

    def plan(self, chosen: str = TABLE, /, **typed: object) -> Result:
        """Asks for new rows."""
        return self.launch(PLAN, chosen, typed)

    def decide(self, chosen: str, /, **typed: object) -> Result:
        """Decides what becomes of a run or a set."""
        return self.launch(DECIDE, chosen, typed)

    def refusal(self, chosen: str, /, **typed: object) -> str:
        """The one sentence with which a decision fails."""
        (said,) = failures(self.decide(chosen, **typed))
        return said

    def newest(self, table: str = TABLE) -> RunRecord:
        """The newest run of a table."""
        with self.oracle.ws.ledger.read() as reader:
            return reader.runs.records(table=table, limit=1)[0]

    def events(self) -> int:
        """How many events the ledger has."""
        with self.oracle.ws.ledger.read() as reader:
            return len(list(reader.events.entries()))

    def log(self, result: ExecuteInProcessResult) -> list[str]:
        """What the job wrote into the log of its Dagster run."""
        return [entry.user_message for entry in self.oracle.instance.all_logs(result.run_id) if entry.level == 20]


@pytest.fixture(scope="module")
def launchpad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launchpad]:
    home = tmp_path_factory.mktemp("launchpad") / "home"
    generator = StoryGenerator(home=home, chance=random.Random(1))
    with open_record(generator.ws.settings) as instance, without_spark(generator.compute):
        oracle = DagsterStatusOracle(home=home, chance=generator.chance, compute=generator.compute, instance=instance)
        oracle.begin()
        oracle.compute.land(oracle.ws, {BUILT[2]: (20, 1)}, by="ana")
        oracle.load(oracle.ws)
        yield Launchpad(oracle=oracle)
        assert list(oracle.look()) == []
        oracle.ws.close()
    generator.ws.close()


@pytest.mark.long
def test_reversed_days_are_refused_before_there_is_a_run_in_every_entry_that_has_days(launchpad: Launchpad) -> None:
    instance = launchpad.oracle.instance
    before, events = instance.get_runs_count(), launchpad.events()
    ws = launchpad.oracle.ws
    with_days = [table.name for table in ws.domain.derived]
    assert with_days
    for name in with_days:
        reversed_days = {**TYPED, "first_day": BUILT[3].isoformat()}
        said = f"the range is reversed: it starts on {BUILT[3]} and ends on {DAY}. Type a last_day"
        with pytest.raises(DagsterInvariantViolationError, match=said):
            launchpad.plan(name, **reversed_days)
    assert instance.get_runs_count() == before
    assert launchpad.events() == events


@pytest.mark.long
def test_why_a_launch_fails_stands_in_the_lists_of_runs(launchpad: Launchpad) -> None:
    result = launchpad.decide("publish", id="no-such-run", publisher="ben")
    run = launchpad.oracle.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert "no-such-run" in run.tags[tags.WHY]
    assert not tags.WHY.startswith((".", "dagster/")), "pages hide such tags"


@pytest.mark.long
def test_a_release_goes_from_the_plan_to_readers_and_back_in_the_launchpad(launchpad: Launchpad) -> None:
    planned = launchpad.plan(**TYPED)
    assert planned.success
    run = launchpad.newest()
    assert (run.state, run.manifest.requested_by, run.manifest.reason) == (RunState.PASSED, "ann", "it is wrong")
    said = launchpad.log(planned)
    assert f"- **run** {run.run_id}" in said[0].replace("\\", "")
    assert f"- **output range** {DAY}, 1 day" in said[0]
    assert f"| bronze.orders | {DAY}..{BUILT[3]}, 2 days | {BUILT[3]}, 1 day |" in said[0]
    assert "- **dependents** gold.palette " in said[0]
    assert said[-2:] == [f"{run.run_id} is PASSED.", f"Next: the job backfill_decide (approve {run.run_id})"]

    assert "is not approved" in launchpad.refusal("publish", id=run.run_id, publisher="ben")
    agreed = launchpad.decide("approve", id=run.run_id, approver="ben", note="seen")
    assert agreed.success
    first, whole, *_ = launchpad.log(agreed)
    assert first == f"ben approved {run.run_id}."
    assert all(part in whole for part in ("ben", "ann", "it is wrong", TABLE, DAY)), whole
    given = launchpad.oracle.instance.get_run_by_id(agreed.run_id)
    assert given is not None
    seen = {name: value for name, value in given.tags.items() if name.startswith("backfill/")}
    assert seen == {tags.ON: run.run_id, tags.CHOSEN: "approve", tags.BY: "ben"}
    approved = launchpad.newest()
    assert approved.approved_by == "ben"
    published = launchpad.decide("publish", id=run.run_id, publisher="ben")
    assert published.success
    assert launchpad.log(published)[-1].startswith("Next: the sensor backfill_follow computes again what depends on it")
    assert launchpad.newest().state is RunState.PUBLISHED
    key = published_key(launchpad.oracle.ws.domain.table(TABLE))
    assert DAY in launchpad.oracle.instance.get_materialized_partitions(key)
    # The table carries the gates that let it be published, and the number of its rows.
    gates = {gate.name: AssetCheckKey(key, gate.name) for gate in launchpad.oracle.ws.domain.table(TABLE).gates}
    checked = launchpad.oracle.instance.event_log_storage.get_latest_asset_check_execution_by_key([*gates.values()])
    assert set(checked) == set(gates.values())
    assert {each.status for each in checked.values()} == {AssetCheckExecutionRecordStatus.SUCCEEDED}
    (shown,) = launchpad.oracle.instance.fetch_materializations(AssetRecordsFilter(asset_key=key), limit=1).records
    assert shown.asset_materialization is not None
    assert "dagster/row_count" in shown.asset_materialization.metadata

    assert launchpad.decide("roll_back", id=run.run_id, by="ben", reason="second thoughts").success
    assert launchpad.newest().state is RunState.ROLLED_BACK
    # What a rollback brings back has the numbers and the version of the content that its publication had.
    (back,) = launchpad.oracle.instance.fetch_materializations(
        AssetRecordsFilter(asset_key=key, asset_partitions=[DAY]), limit=1
    ).records
    assert back.asset_materialization is not None
    with launchpad.oracle.ws.ledger.read() as reader:
        accepted = reader.versions.accepted(TABLE)[BUILT[2]]
    assert (back.asset_materialization.tags or {})["dagster/data_version"] == accepted.checksum
    assert back.asset_materialization.metadata["dagster/partition_row_count"].value == accepted.rows
    assert str(launchpad.oracle.ws.settings.home) not in str(back.asset_materialization.metadata)


@pytest.mark.long
def test_what_is_stale_becomes_a_set_that_is_staged_and_can_be_cancelled(launchpad: Launchpad) -> None:
    assert launchpad.plan("stale", reason="orders came late", requester="ann").success
    set_id = launchpad.newest().request_id
    assert set_id is not None
    assert launchpad.newest().state is RunState.PASSED
    assert launchpad.plan("planned", id=set_id, by="ann").success
    assert launchpad.decide("approve", id=set_id, approver="ben").success
    assert launchpad.decide("cancel", id=set_id, by="ann", reason="not wanted").success
    assert launchpad.newest().state is RunState.CANCELLED
    assert launchpad.decide("recover", by="ann").success


@pytest.mark.long
def test_a_table_and_what_depends_on_it_become_a_set_that_waits_for_one_approval(launchpad: Launchpad) -> None:
    planned = launchpad.plan("with_dependents", **TYPED, table=TABLE)
    assert planned.success
    set_id = launchpad.newest().request_id
    assert launchpad.log(planned)[-1] == f"Next: the job backfill_decide (approve {set_id})"
    with launchpad.oracle.ws.ledger.read() as reader:
        members = reader.sets.get(set_id or "").manifest.members
        states = {member.table: reader.runs.get(member.run_id).state for member in members}
    assert states == {TABLE: RunState.PASSED, "gold.palette": RunState.PASSED}


@pytest.mark.long
def test_wrong_or_missing_config_is_refused_before_anything_starts(launchpad: Launchpad) -> None:
    before, runs = launchpad.events(), len(launchpad.oracle.instance.get_runs())
    for name, typed in (
        (TABLE, {key: value for key, value in TYPED.items() if key != "requester"}),
        (TABLE, {**TYPED, "transform_version": "9.9.9"}),
        (TABLE, {**TYPED, "mode": "live"}),
        (TABLE, {**TYPED, "first_day": "Monday"}),
        (TABLE, {**TYPED, "last_day": "2025-05-40"}),
        (TABLE, {**TYPED, "last_day": ""}),
        # No table here reads a reference.
        (TABLE, {**TYPED, "references": "as-recorded"}),
        (TABLE, {**TYPED, "spark_conf": {"spark.sql.ansi.enabled": "false"}}),
        ("bronze.orders", TYPED),
        ("with_dependents", {**TYPED, "table": TABLE, "transform_version": "2.0.0"}),
        ("stale", {"reason": "why", "requester": "ann", "table": "bronze.orders"}),
        ("approve", {"id": "x"}),
        ("approve", {"id": "x", "approver": None}),
        ("approve", {"id": "x", "approver": "ben", "requester": "ann"}),
        ("publish", {"publisher": "ben"}),
        ("roll_back", {"id": "x", "by": "ben"}),
        ("cancel", {"id": "x", "reason": "why not"}),
        ("leave", {"id": "x", "reason": "too small"}),
        ("leave", {"id": "x", "owner": "cleo", "reason": "too small", "percent": 100}),
        ("recover", {}),
    ):
        for job in (PLAN, DECIDE):
            with pytest.raises(DagsterInvalidConfigError):
                launchpad.launch(job, name, typed)
    assert (launchpad.events(), len(launchpad.oracle.instance.get_runs())) == (before, runs)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"requester": " "}, "the requester has no name"),
        ({"requester": "sensor"}, "that name is reserved for the system"),
        ({"requester": "policy:follow"}, "that name is reserved for the system"),
        ({"requester": "ANOTHER_PERSON"}, "that word is a placeholder"),
        ({"reason": " "}, "the reason is empty. Next: say the reason"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_sentence(
    launchpad: Launchpad, typed: dict[str, object], said: str
) -> None:
    before = launchpad.events()
    result = launchpad.plan(**{**TYPED, **typed})
    (sentence,) = failures(result)
    assert said in sentence
    assert launchpad.events() == before
    kept = launchpad.oracle.instance.all_logs(result.run_id, of_type=DagsterEventType.STEP_FAILURE)
    (failed,) = [entry.get_dagster_event().step_failure_data for entry in kept]
    assert failed.error is not None
    assert (failed.error.message, failed.error.stack) == (sentence, [])


@pytest.mark.long
def test_a_careless_colleague_in_the_launchpad_publishes_nothing_that_one_person_asked_for(
    launchpad: Launchpad,
) -> None:
    ws = launchpad.oracle.ws
    assert launchpad.plan(**TYPED).success
    run_id = launchpad.newest().run_id
    with ws.ledger.read() as reader:
        before = reader.versions.accepted(TABLE)
    for name in (
        "ann",
        "Ann ",
        "ANN",
        "a n n",
        "\uff41nn",
        "\u0430nn",
        "sensor",
        "policy:auto",
        "ANOTHER_PERSON",
        "recover",
    ):
        assert launchpad.refusal("approve", id=run_id, approver=name)
        assert launchpad.refusal("publish", id=run_id, publisher=name)
    # Tags grant nothing, neither of the job nor of a launch of the table's asset.
    typed = {"backfill/by": "ben", "backfill/approved_by": "ben", tags.RUN_ID: run_id, tags.ON: run_id}
    assert not launchpad.launch(DECIDE, "publish", {"id": run_id, "publisher": "ben"}, typed).success
    # Nobody owns a difference of a table that tolerates none.
    assert "cannot be left as they are" in launchpad.refusal("leave", id=run_id, owner="ben", reason="too small")
    with ws.ledger.read() as reader:
        assert reader.versions.accepted(TABLE) == before
        assert reader.runs.get(run_id).approved_by is None
    assert launchpad.decide("cancel", id=run_id, by="ann", reason="not wanted").success


@pytest.mark.long
def test_the_run_of_a_job_is_no_attempt_of_the_manifest_that_it_is_about(launchpad: Launchpad) -> None:
    result = launchpad.plan(**TYPED)
    run_id = launchpad.newest().run_id
    given = launchpad.oracle.instance.get_run_by_id(result.run_id)
    assert given is not None
    assert (given.tags[tags.ON], given.tags[tags.BY]) == (run_id, "ann")
    assert tags.RUN_ID not in given.tags
    operations.cancel(launchpad.oracle.ws, run_id, by="ann", reason="not wanted")


def blocked(launchpad: Launchpad) -> tuple[str, RunRecord]:
    """A day that is too large is planned: what the job says, and the run."""
    oracle, day = launchpad.oracle, DAYS[4].isoformat()
    oracle.compute.land(oracle.ws, {DAYS[4]: (5_000, 1)}, by="ana")
    oracle.load(oracle.ws)
    (said,) = failures(launchpad.plan(**{**TYPED, "first_day": day, "last_day": day}))
    return said, launchpad.newest()


@pytest.mark.long
def test_a_blocked_run_fails_the_job_and_names_the_report(launchpad: Launchpad) -> None:
    said, run = blocked(launchpad)
    assert run.state is RunState.BLOCKED
    assert said.strip().endswith(f"{run.run_id} is blocked by a gate. Next: backfill report {run.run_id}")


@pytest.mark.long
def test_a_reviewer_reads_numbers_the_worst_partitions_and_the_report_at_the_validation(launchpad: Launchpad) -> None:
    instance, day = launchpad.oracle.instance, DAYS[4].isoformat()
    _, run = blocked(launchpad)
    table = launchpad.oracle.ws.domain.derived_table(TABLE)
    (record,) = instance.fetch_materializations(
        AssetRecordsFilter(asset_key=validation_key(table), asset_partitions=[day]), limit=1
    ).records
    assert record.asset_materialization is not None
    metadata = record.asset_materialization.metadata
    numbers = {name: metadata[name].value for name in ("run_id", "rows", "changed", "violations")}
    assert numbers == {"run_id": run.run_id, "rows": 1, "changed": 1, "violations": 1}
    # The content is the version of the data.
    assert (record.asset_materialization.tags or {})["dagster/data_version"] == metadata["checksum"].value
    assert f"| {day} | 1 |" in str(metadata["worst partitions"].value)
    assert str(metadata["in short"].value).startswith("#### Verdict")
    assert metadata["report"].value == f"backfill report {run.run_id}"
    assert (metadata["candidate"].value, metadata["published"].value) == (candidate_key(table), published_key(table))
    found = latest_check(instance, AssetCheckKey(validation_key(table), "plausible"), day)
    evaluation = found.event.get_dagster_event().asset_check_evaluation_data
    # Keys and values of rows can be erased from the ledger, so that Dagster names the command and keeps none.
    assert evaluation.metadata["rows that fail"].value == f"backfill report {run.run_id}"
    assert evaluation.metadata["violations"].value == 1
