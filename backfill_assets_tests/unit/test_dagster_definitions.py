"""What Dagster knows of a domain, held still: a change here is a change for operators."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import AssetKey, BackfillPolicy, Definitions, TimeWindowPartitionMapping

from backfill_assets.errors import MissingInput
from backfill_assets.orchestration.build import build_definitions
from backfill_assets.orchestration.preview import relied_upon
from backfill_assets.settings import PROJECT_ROOT, Settings
from backfill_assets_tests.orchestration_examples import environment


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    return build_definitions(Settings.from_environment(environment(tmp_path_factory.mktemp("home"))))


def test_every_table_has_its_assets_groups_and_mappings(definitions: Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    found = {
        key.to_user_string(): (
            graph.get(key).group_name,
            {
                parent.to_user_string(): (mapping.start_offset, mapping.end_offset)
                for parent in graph.get(key).parent_keys
                if isinstance(mapping := graph.get_partition_mapping(key, parent), TimeWindowPartitionMapping)
            },
        )
        for key in graph.get_all_asset_keys()
    }
    same = (0, 0)
    assert found == {
        "bronze/sales": ("bronze", {}),
        "candidate/recent_sales": ("silver", {"bronze/sales": (-2, 1)}),
        "validation/recent_sales": ("silver", {"candidate/recent_sales": same}),
        "silver/recent_sales": ("silver", {"validation/recent_sales": same}),
        "candidate/sales_monthly": ("gold", {"silver/recent_sales": same}),
        "validation/sales_monthly": ("gold", {"candidate/sales_monthly": same}),
        "gold/sales_monthly": ("gold", {"validation/sales_monthly": same}),
    }


def test_a_range_is_one_run_for_every_asset(definitions: Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    with relied_upon():
        assert {graph.get(key).backfill_policy for key in graph.get_all_asset_keys()} == {BackfillPolicy.single_run()}


def test_gates_are_checks_with_a_status_per_partition_where_people_review_and_per_load_in_bronze(
    definitions: Definitions,
) -> None:
    graph = definitions.resolve_asset_graph()
    specs = {
        (key.asset_key.to_user_string(), key.name): (spec.blocking, spec.partitions_def is not None)
        for key in graph.asset_check_keys
        if (spec := graph.get_check_spec(key))
    }
    assert {check: facts for (asset, check), facts in specs.items() if asset == "validation/recent_sales"} == {
        "schema": (True, True),
        "unique_key": (True, True),
        "plausible": (True, True),
        "usual": (False, True),
        "compared_with_accepted": (True, True),
        "warm_up": (True, True),
    }
    assert {check: facts for (asset, check), facts in specs.items() if asset == "bronze/sales"} == {
        "schema": (True, False),
        "unique_key": (True, False),
        "compared_with_accepted": (True, False),
    }
    assert {asset for asset, _ in specs} == {"bronze/sales", "validation/recent_sales", "validation/sales_monthly"}


def test_the_jobs_and_the_sensor_that_the_ui_offers(definitions: Definitions) -> None:
    assert {job.name for job in definitions.resolve_all_job_defs()} - {"__ASSET_JOB"} == {
        "sales_load",
        "recent_sales_restatement",
        "recent_sales_publication",
        "recent_sales_follow",
        "sales_monthly_restatement",
        "sales_monthly_publication",
        "sales_monthly_follow",
        "plan_recent_sales",
        "plan_sales_monthly",
        "plan_stale",
        "stage",
        "approve",
        "publish",
        "roll_back",
        "cancel",
        "recover",
    }
    sensor = definitions.resolve_sensor_def("follow")
    assert sensor.default_status.value == "RUNNING"


def test_assets_that_use_spark_share_a_pool_and_publications_do_not_wait_for_it(definitions: Definitions) -> None:
    def pool(*path: str) -> object:
        return definitions.resolve_assets_def(AssetKey(path)).op.pool

    assert pool("candidate", "recent_sales") == pool("validation", "recent_sales") == pool("bronze", "sales") == "spark"
    assert pool("silver", "recent_sales") is None


def test_definitions_load_without_a_ledger_and_say_which_reference_is_missing(tmp_path: Path) -> None:
    given = {**environment(tmp_path / "home"), "BACKFILL_DOMAIN": "backfill_assets.domains.enforcement_sla"}
    with pytest.raises(MissingInput, match="jurisdiction_calendar"):
        build_definitions(Settings.from_environment(given))
    build_definitions(Settings.from_environment({**given, "BACKFILL_REFERENCE": str(PROJECT_ROOT / "data/reference")}))
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_the_settings_that_commands_write_are_those_of_the_checkout() -> None:
    shipped = PROJECT_ROOT / "backfill_assets" / "orchestration" / "dagster.yaml"
    assert shipped.read_text() == (PROJECT_ROOT / "dagster.yaml").read_text()
