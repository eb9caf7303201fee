"""Do Dagster's pages show every partition as the ledger has it? A story whose steps are launches and commands.

The acts of `story_generator`, carried out through Dagster as commands, the sensor and the launchpad carry them out;
people also launch whatever they like over days that they like, publish in phases, compute a version beside a table and
show readers that one, and let snapshots expire. After every step every partition and check of every table is compared.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from dagster import AssetCheckKey, AssetKey, DagsterInstance, PartitionsDefinition
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from backfill_assets.application import shadow
from backfill_assets.application.follow import follow
from backfill_assets.application.parts import STAGED_AND_GATED
from backfill_assets.application.plan import plan_expiry, plan_phases
from backfill_assets.application.recorder import Acting
from backfill_assets.application.recover import recover_document
from backfill_assets.application.requests import Restatement, request_of
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import LeavesOrphans
from backfill_assets.domain import Domain, RetentionRule, Table, expression
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.states import RunState
from backfill_assets.orchestration.assets import candidate_key, validation_key
from backfill_assets.orchestration.build import definitions_over
from backfill_assets.orchestration.freshness_checks import FRESH
from backfill_assets.orchestration.launch import SILENT, run_in_process
from backfill_assets.orchestration.partitions import key_of, published_key
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.orchestration.resources import Session
from backfill_assets.orchestration.tags import partition_range
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.requests.authority import approve
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.story import DOMAIN
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.faults.story_generator import BUILT, DAYS, SILVER, WAITED, Step, Story, StoryGenerator
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.orchestration_examples import failures

V2, EXPIRES = "silver.colours_v2", "gold.palette"


def with_version_and_expiry(domain: Domain) -> Domain:
    """The story with a version beside the colours, and a gold table that keeps the newest snapshots."""
    derived = []
    for table in domain.derived:
        derived.append(replace(table, keep=RetentionRule(days=2)) if table.name == EXPIRES else table)
        if table.name == "silver.colours":
            version = table.beside(V2, policy=table.policy)
            derived.append(replace(version, gates=(*table.gates, expression("some", "colours > 0"))))
    return replace(domain, derived=tuple(derived))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How many partitions of a table were green, and how many accepted, after a step."""

    table: str
    green: int
    accepted: int


@dataclass(kw_only=True)
class DagsterStatusOracle(StoryGenerator):
    """A story generator whose every act is recorded by Dagster, and people who launch assets in its pages."""

    instance: DagsterInstance
    looks: list[Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ws = replace(self.ws, domain=with_version_and_expiry(DOMAIN))
        self.acting = Acting(by="ben", recorder=DagsterRecorder(self.ws.settings, lambda: self.instance))

    def begin(self) -> None:
        """Every day has landed, and all tables are published."""
        self.compute.land(self.ws, dict.fromkeys(DAYS, (10, 1)), by="ana")
        self.load(self.ws)
        for table in (*SILVER, V2):
            request = PlanRequest(table=table, days=DayRange.inclusive(BUILT[0], BUILT[-1]), reason="first", by="ana")
            run_id = operations.plan(self.ws, request).manifest.run_id
            self._carry(self.ws, run_id)
            operations.approve(self.ws, run_id, by="ben")
            Restatement(self.ws, run_id).publish(self.acting)
        self.follow(self.ws)

    # ------------------------------------------------------------------------------------- what commands do, recorded

    def load(self, ws: Workspace, what: str = "load") -> str:
        run = operations.plan_load(ws, "bronze.orders", partitions=None, by="ana", reason="landed")
        if run is not None:
            Restatement(ws, run.run_id).stage(self.acting)
        return what

    def publish(self, ws: Workspace) -> str:
        chosen = self._pick(RunState.PASSED, RunState.ROLLED_BACK)
        Restatement(ws, chosen).publish(self.acting)
        return f"publish {chosen}"

    def all_the_way(self, ws: Workspace) -> str:
        name = (self.plan_set(ws) if self.chance.random() < 0.6 else self.plan(ws)).removeprefix("plan ")
        if not name.startswith("plan:"):
            for run_id in self._runs_of(name):
                self._carry(ws, run_id)
            operations.approve(ws, name, by="ben")
            Restatement(ws, name).publish(self.acting)
        return f"plan, run, approve and publish {name}"

    def roll_back(self, ws: Workspace) -> str:
        chosen = self._pick(RunState.PUBLISHED)
        try:
            Restatement(ws, chosen).rollback(self.acting, reason="second thoughts", with_dependents=False)
        except LeavesOrphans:
            Restatement(ws, chosen).rollback(self.acting, reason="second thoughts", with_dependents=True)
        return f"roll back {chosen}"

    def follow(self, ws: Workspace) -> str:
        return f"follow {[each.run_id for each in follow(ws, self.acting).followed]}"

    def recover(self, ws: Workspace) -> str:
        """What dead processes left is ended, in Dagster's record as well."""
        self.time.at += WAITED
        found = recover_document(ws, replace(self.acting, by="ops"), only=None, now=False)
        self.killed = False
        return f"recover {[each.outcome for each in found.recovered]}"

    def launch(self, ws: Workspace) -> str:
        """A person launches some assets of a table over some days."""
        table = ws.domain.derived_table(self.chance.choice((*SILVER, "gold.palette")))
        keys = [candidate_key(table), validation_key(table), published_key(table)]
        chosen = self.chance.choice([keys, keys, keys[:2], keys[2:], keys[1:]])
        days = self._some_days()
        # A launch without a name is refused.
        given = {"backfill/by": "uma"} if self.chance.random() < 0.8 else {}
        job = definitions_over(ws, lambda: Session(workspace=ws), pool=None).resolve_implicit_global_asset_job_def()
        # As the button of a page does it: with every check of the assets.
        checks = {key for key in job.asset_layer.asset_graph.asset_check_keys if key.asset_key in chosen}
        result = job.get_subset(asset_selection=set(chosen), asset_check_selection=checks).execute_in_process(
            instance=self.instance,
            tags={**partition_range((days.start, days.last)), **given},
            run_config=SILENT,
            raise_on_error=False,
        )
        ended = "succeeded" if result.success else f"failed: {failures(result)}"
        return f"launch {[key.to_user_string() for key in chosen]} over {days}, which {ended}"

    def phase(self, ws: Workspace) -> str:
        """A change of a table is planned in phases, and the first of them published."""
        request = PlanRequest(table=self.chance.choice(SILVER), days=self._some_days(), reason="in phases", by="ana")
        set_id = plan_phases(ws, request, AskedPhases(count=2, terms=Phases())).manifest.set_id
        for run_id in self._runs_of(set_id):
            self._carry(ws, run_id)
        operations.approve(ws, set_id, by="ben")
        Restatement(ws, set_id).publish(self.acting)
        return f"plan {set_id} in phases, and publish the first"

    def cut_over(self, ws: Workspace) -> str:
        """Readers are shown the other version of a table, or again the one that they were shown before."""
        with ws.ledger.read() as tx:
            asked = V2 if tx.acts.shown("silver.colours") != V2 else "silver.colours"
        act_id = shadow.cut_over(ws, asked, by="ana", reason="it is better").act.act_id
        approve(ws, act_id, by="ben", note="agreed")
        request_of(ws, act_id).publish(self.acting)
        if self.chance.random() < 0.5:
            request_of(ws, act_id).rollback(self.acting, reason="second thoughts", with_dependents=False)
            return f"show {asked}, and undo it"
        return f"show {asked}"

    def beside(self, ws: Workspace) -> str:
        """Days of the version are computed and published beside what readers are shown."""
        request = PlanRequest(table=V2, days=self._some_days(), reason="beside", by="ana")
        run_id = operations.plan(ws, request).manifest.run_id
        self._carry(ws, run_id)
        operations.approve(ws, run_id, by="ben")
        Restatement(ws, run_id).publish(self.acting)
        return f"publish {run_id} beside"

    def expire(self, ws: Workspace) -> str:
        """The snapshots that gold does not keep expire."""
        run_id = plan_expiry(ws, EXPIRES, reason="retention", by="ana").manifest.run_id
        operations.approve(ws, run_id, by="ben")
        Restatement(ws, run_id).publish(self.acting)
        return f"let {run_id} expire"

    @property
    def acts(self) -> Mapping[str, int]:
        """Those of a story generator, launches, and what few tables have."""
        return {**super().acts, "recover": 5, "launch": 8, "phase": 3, "cut_over": 2, "beside": 2, "expire": 3}

    def _carry(self, ws: Workspace, run_id: str) -> None:
        outcome = run_in_process(ws, run_id, STAGED_AND_GATED, instance=self.instance, by="ana")
        if outcome.error is not None:
            raise outcome.error

    # ----------------------------------------------------------------------------------------------- what pages show

    def look(self, most_runs: int = 4) -> Iterator[str]:  # noqa: ARG002 - as a story generator has it
        """Where a page is not as the ledger has it."""
        for run in self.instance.get_runs():
            if not run.is_finished:
                # As run monitoring does with a run whose process is gone.
                self.instance.report_run_failed(run)
        with self.ws.ledger.read() as reader:
            accepted = {table: reader.versions.accepted(table) for table in self.ws.domain.tables}
        graph = definitions_over(self.ws, lambda: Session(workspace=self.ws), pool=None).resolve_asset_graph()
        for name, versions in accepted.items():
            said = {key_of(partition) for partition in versions}
            key = published_key(self.ws.domain.table(name))
            green, red = colours(self.instance, key, graph.get(key).partitions_def)
            self.looks.append(Look(table=name, green=len(green), accepted=len(said)))
            # What a dead process had half done is shown by `recover`; red it is at no time.
            if red or (green != said and not self.killed):
                yield f"{name} is green for {sorted(green)} and red for {sorted(red)}; accepted are {sorted(said)}"
            if not self.killed:
                yield from self._checks(self.ws.domain.table(name), versions)

    def _checks(self, table: Table, accepted: Mapping[date, PartitionVersion]) -> Iterator[str]:
        """Where a check of a table is not what the gates found in the rows that readers see."""
        with self.ws.ledger.read() as tx:
            found = [
                result
                for run_id in {version.run_id for version in accepted.values()}
                for result in tx.candidates.gate_results(run_id)
                if (version := accepted.get(result.partition)) and version.run_id == run_id
            ]
        expected = {
            gate.name: "SUCCEEDED" if all(own) else "FAILED"
            for gate in table.gates
            if (own := [result.passed for result in found if result.gate == gate.name])
        }
        key, names = published_key(table), [gate.name for gate in table.gates]
        shown = {name: status for name in names if (status := check_status(self.instance, AssetCheckKey(key, name)))}
        if shown != expected:
            yield f"the checks of {table.name} show {shown}, and readers see {expected}"
        fresh = check_status(self.instance, AssetCheckKey(key, FRESH))
        if fresh not in (None, "SUCCEEDED", "FAILED"):
            yield f"the check {FRESH} of {table.name} shows {fresh}"

    def end(self) -> Iterator[str]:
        """Whatever was left is ended; then the pages are right once more."""
        self.recover(self.ws)
        self.follow(self.ws)
        yield from self.look()


def check_status(instance: DagsterInstance, key: AssetCheckKey) -> str | None:
    """What pages show of a check; None for "Not evaluated"."""
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    loading = LoadingContextForTest(instance)
    if record is None or not asyncio.run(record.targets_latest_materialization(loading)):
        return None
    return asyncio.run(record.resolve_status(loading)).value


def colours(
    instance: DagsterInstance, key: AssetKey, partitions: PartitionsDefinition | None
) -> tuple[set[str], set[str]]:
    """The partitions of an asset that its pages show green, and those that they show red."""
    cached = get_and_update_asset_status_cache_value(instance, key, partitions)
    if cached is None or partitions is None:
        return set(), set()
    return (
        set(cached.deserialize_materialized_partition_subsets(partitions).get_partition_keys()),
        set(cached.deserialize_failed_partition_subsets(partitions).get_partition_keys()),
    )


def compare_with_dagster(seed: int, steps: int, folder: Path) -> tuple[Story, Sequence[Look]]:
    """The story of a seed, up to the first step after which a page is not as the ledger has it."""
    generator = StoryGenerator(home=folder / "home", chance=random.Random(seed))
    settings = generator.ws.settings
    with open_record(settings) as instance, without_spark(generator.compute):
        oracle = DagsterStatusOracle(
            home=folder / "home", chance=generator.chance, compute=generator.compute, instance=instance
        )
        oracle.begin()
        taken: list[Step] = []
        violations = list(oracle.look())
        for number in range(1, steps + 1):
            if violations:
                break
            step, violations = oracle.step(number)
            taken.append(step)
            violations += list(oracle.look())
        violations = violations or list(oracle.end())
        oracle.ws.close()
    generator.ws.close()
    return Story(seed=seed, steps=tuple(taken), violations=tuple(violations)), oracle.looks
