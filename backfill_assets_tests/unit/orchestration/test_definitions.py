"""What Dagster knows of a domain, held still: a change here is a change for operators."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest
import yaml
from dagster import AssetKey, BackfillPolicy, Definitions, TimeWindowPartitionMapping
from pyspark.sql.types import DateType, StructField, StructType

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.people import Sensor
from backfill_assets.core.settings import EXAMPLE_REFERENCE, PROJECT_ROOT, Settings
from backfill_assets.domain import Domain
from backfill_assets.examples.enforcement_sla import DOMAIN as ENFORCEMENT
from backfill_assets.examples.enforcement_sla.sources import case_events as CASE_EVENTS
from backfill_assets.landing.imports import contract_of
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.imports import ImportCounts, ImportDay
from backfill_assets.orchestration import metadata
from backfill_assets.orchestration.build import definitions_of, definitions_over
from backfill_assets.orchestration.captured import before_bronze, captured_assets
from backfill_assets.orchestration.dagster_internals import LOCATION, origin_of
from backfill_assets.orchestration.events import evaluations, summaries
from backfill_assets.orchestration.metadata import REPORT, report_link
from backfill_assets.orchestration.partitions import ENDED_AFTER, OfferedDays, offered_days, relied_upon
from backfill_assets.orchestration.resources import Session
from backfill_assets.planning.safeguards import Policy
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import captured_lake
from backfill_assets_tests.domains.example import DOMAIN
from backfill_assets_tests.domains.orders import DOMAIN as ORDERS
from backfill_assets_tests.support.orchestration_examples import environment


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    return definitions_of(Settings.from_environment(environment(tmp_path_factory.mktemp("home"))))


def test_a_code_location_whose_first_day_is_still_to_come_is_loaded(tmp_path: Path) -> None:
    later = {**environment(tmp_path), "BACKFILL_FIRST_DAY": "2206-01-01"}
    Definitions.validate_loadable(definitions_of(Settings.from_environment(later)))


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
        "candidate/recent_sales": ("silver_candidates", {"bronze/sales": (-2, 1)}),
        "validation/recent_sales": ("silver_validations", {"candidate/recent_sales": same}),
        "silver/recent_sales": ("silver", {"validation/recent_sales": same}),
        "candidate/sales_monthly": ("gold_candidates", {"silver/recent_sales": same}),
        "validation/sales_monthly": ("gold_validations", {"candidate/sales_monthly": same}),
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
    published = {"silver/recent_sales", "gold/sales_monthly"}
    assert {asset for asset, _ in specs} == {
        "bronze/sales",
        "validation/recent_sales",
        "validation/sales_monthly",
        *published,
    }


def test_the_jobs_and_the_sensors_that_the_ui_offers(definitions: Definitions) -> None:
    assert {job.name for job in definitions.resolve_all_job_defs()} - {"__ASSET_JOB"} == {
        "backfill_plan",
        "backfill_decide",
        "backfill_check",
        "backfill_load",
        "backfill_daily_tables",
        "backfill_monthly_tables",
        "backfill_publish_approved",
        "backfill_recover_stopped",
        "backfill_land_dropped",
        "backfill_live",
    }
    ticking = (*(definitions.sensors or ()), *(definitions.schedules or ()))
    switches = {each.name: each.default_status.value for each in ticking}
    running = {name for name, switch in switches.items() if switch == "RUNNING"}
    assert running == {"backfill_follow", "backfill_propose", "backfill_fresh"}, (
        "what acts with authority is off until a person switches it on"
    )
    assert switches.keys() == {f"backfill_{sensor}" for sensor in Sensor}


def test_a_sensor_targets_what_it_may_start_and_nothing_else(definitions: Definitions) -> None:
    targets = {each.name: {target.job_name for target in each.targets} for each in definitions.sensors or ()}
    assert targets == {
        # No load: what has landed is built by a person, a command or the LIVE path.
        "backfill_follow": {"backfill_daily_tables", "backfill_monthly_tables"},
        "backfill_propose": set(),
        "backfill_fresh": set(),
        "backfill_publish": {"backfill_publish_approved"},
        "backfill_recover": {"backfill_recover_stopped"},
        "backfill_drop": {"backfill_land_dropped"},
    }


def test_a_domain_with_more_tables_has_no_more_jobs(tmp_path: Path) -> None:
    given = {**environment(tmp_path / "home"), "BACKFILL_REFERENCE": str(EXAMPLE_REFERENCE)}
    large = Settings.from_environment({**given, "BACKFILL_DOMAIN": "backfill_assets_tests.domains.story"})
    small = Settings.from_environment({**given, "BACKFILL_DOMAIN": "backfill_assets_tests.domains.contract"})
    of_large, of_small = ({job.name for job in definitions_of(each).resolve_all_job_defs()} for each in (large, small))
    assert of_large - of_small <= {"backfill_monthly_tables"}
    assert len(of_small - {"__ASSET_JOB"}) == 9


def test_assets_that_use_spark_share_a_pool_and_publications_do_not_wait_for_it(definitions: Definitions) -> None:
    def pool(*path: str) -> object:
        return definitions.resolve_assets_def(AssetKey(path)).op.pool

    assert pool("candidate", "recent_sales") == pool("validation", "recent_sales") == pool("bronze", "sales") == "spark"
    assert pool("silver", "recent_sales") is None


def test_definitions_load_without_a_ledger_and_say_which_reference_is_missing(tmp_path: Path) -> None:
    given = {**environment(tmp_path / "home"), "BACKFILL_DOMAIN": "backfill_assets.examples.enforcement_sla"}
    with pytest.raises(MissingInput, match="jurisdiction_calendar"):
        definitions_of(Settings.from_environment(given))
    definitions_of(Settings.from_environment({**given, "BACKFILL_REFERENCE": str(EXAMPLE_REFERENCE)}))
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_the_settings_that_commands_write_are_those_of_the_checkout() -> None:
    shipped = PROJECT_ROOT / "backfill_assets" / "orchestration" / "dagster.yaml"
    assert shipped.read_text() == (PROJECT_ROOT / "dagster.yaml").read_text()


def test_the_table_that_readers_know_carries_the_gates_that_let_it_be_published(definitions: Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    gates = {
        asset: {key.name for key in graph.asset_check_keys if key.asset_key.to_user_string() == asset}
        for asset in ("silver/recent_sales", "validation/recent_sales")
    }
    assert gates["silver/recent_sales"] - {"fresh"} == gates["validation/recent_sales"] != set()


def test_a_captured_source_is_drawn_after_its_captures_and_these_after_the_asset_of_the_project(tmp_path: Path) -> None:
    package = "backfill_assets_tests.domains.captured_lake"
    settings = Settings.from_environment({**environment(tmp_path / "home"), "BACKFILL_DOMAIN": package})
    graph = definitions_of(settings).resolve_asset_graph()
    captured, bronze = AssetKey(["captured", "sales"]), AssetKey(["bronze", "sales"])
    assert graph.get(bronze).parent_keys == {captured}
    assert graph.get(captured).parent_keys == set() and not graph.get(captured).is_executable

    raw = AssetKey(["raw", "sales"])
    source = replace(captured_lake.plain, upstream=("raw", "sales"))
    (spec,) = captured_assets(Domain(name="captured", package=package, sources=(source,), derived=()))
    assert [dep.asset_key for dep in spec.deps] == [raw]
    assert [dep.asset_key for dep in before_bronze(source)] == [captured]
    assert [dep.asset_key for dep in before_bronze(replace(source, capture=None))] == [raw]


def test_a_description_begins_with_what_the_table_is(definitions: Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    for table in DOMAIN.tables.values():
        said = graph.get(AssetKey(table.name.split("."))).description or ""
        assert said.startswith(metadata.prose(table.description)[:40]), table.name
        assert "\n    " not in said


def test_an_asset_says_what_it_is_who_owns_it_and_where_its_code_is(definitions: Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    parts = {key.to_user_string(): graph.get(key).tags["backfill/part"] for key in graph.get_all_asset_keys()}
    assert {asset: part for asset, part in parts.items() if "sales_monthly" in asset} == {
        "candidate/sales_monthly": "candidate",
        "validation/sales_monthly": "validation",
        "gold/sales_monthly": "published",
    }
    assert graph.get(AssetKey(["gold", "sales_monthly"])).kinds == {"delta", "gold"}
    for asset in (["candidate", "recent_sales"], ["silver", "recent_sales"]):
        (place,) = graph.get(AssetKey(asset)).metadata["dagster/code_references"].code_references
        assert place.file_path.endswith("domains/example/__init__.py")
        assert "def recent_sales" in "".join(Path(place.file_path).read_text().splitlines()[place.line_number - 1 :])
    for key in graph.get_all_asset_keys():
        assert not {"Args:", "Returns:"} & set((graph.get(key).description or "").split())


def test_columns_are_described_by_the_comments_of_the_schema_and_owners_are_the_groups_that_approve() -> None:
    day = StructField("day", DateType(), nullable=False, metadata={"comment": "UTC day of the sale."})
    table = replace(DOMAIN.sources[0], schema=StructType([day, *DOMAIN.sources[0].schema]))
    (first, *_) = metadata.row_metadata(table)["dagster/column_schema"].columns
    assert (first.name, first.description) == ("day", "UTC day of the sale.")
    owned = replace(DOMAIN.sources[0], policy=Policy(approvers=("finance team",)))
    assert metadata.owners(owned) == ["team:finance_team"]
    assert metadata.prose("What.\n\n    Grain: a row.\n    ") == "What.\n\nGrain: a row."
    assert metadata.prose("What.\n\nGrain: a row.\n\nArgs:\n    x: y\n\nReturns:\n    z") == "What.\n\nGrain: a row."


@pytest.mark.parametrize("domain", [ENFORCEMENT, ORDERS], ids=lambda domain: domain.name)
def test_every_column_of_a_domain_to_copy_is_described(domain: Domain) -> None:
    for table in domain.tables.values():
        columns = metadata.row_metadata(table)["dagster/column_schema"].columns
        assert [column.name for column in columns if not column.description] == [], table.name


def test_what_a_column_is_said_to_be_makes_no_other_contract() -> None:
    silent = replace(
        CASE_EVENTS, schema=StructType([StructField(f.name, f.dataType, f.nullable) for f in CASE_EVENTS.schema])
    )
    assert contract_of(silent) == contract_of(CASE_EVENTS)
    fewer = replace(silent, schema=StructType(silent.schema.fields[:-1]))
    assert contract_of(fewer) != contract_of(CASE_EVENTS)


def test_a_report_is_linked_where_the_desk_is_served_and_a_command_elsewhere() -> None:
    settings = Settings.from_environment({"BACKFILL_DESK_URL": "http://desk.example/"})
    found = {label: link.value for label, link in report_link(settings, "sales-20250101-0a").items()}
    assert found == {
        "report": "http://desk.example/reports/sales-20250101-0a",
        "at the desk": "http://desk.example/runs/sales-20250101-0a",
    }
    assert report_link(settings, "set.1")["at the desk"].value == "http://desk.example/sets/set.1"
    (command,) = report_link(Settings.from_environment({}), "sales-20250101-0a").values()
    assert command.value == "backfill report sales-20250101-0a"


def test_a_failed_check_links_to_the_report_and_the_desk_and_a_passed_one_does_not() -> None:
    links = report_link(Settings.from_environment({"BACKFILL_DESK_URL": "http://desk.example"}), "bf-1")
    results = [
        GateResult(
            run_id="bf-1",
            partition=date(2025, 1, day),
            gate="unique_key",
            blocking=True,
            passed=not violating,
            digest="d",
            finding=Finding.SHARED_KEYS,
            observed={"rows": 9, "violating_rows": violating},
        )
        for day, violating in ((1, 0), (2, 4))
    ]
    key = AssetKey("validation")
    passed, failed = evaluations(key, results, {}, links=links)
    (of_run,) = summaries(key, Grain.DAILY, results, links=links)
    (of_good,) = summaries(key, Grain.DAILY, results[:1], links=links)
    addresses = {"http://desk.example/reports/bf-1", "http://desk.example/runs/bf-1"}
    found = [
        {str(value.value) for value in each.metadata.values()} & addresses for each in (passed, failed, of_run, of_good)
    ]
    assert found == [set(), addresses, addresses, set()]
    assert failed.metadata["rows that fail"].value == "http://desk.example/reports/bf-1"


def test_a_check_of_the_usual_has_the_value_and_the_band_as_numbers() -> None:
    observed = {"measure": "rows", "value": "5", "usual": "100", "low": "64", "high": "144.5", "far": "low"}
    found = {
        passed: evaluations(
            AssetKey("validation"),
            [
                GateResult(
                    run_id="bf-1",
                    partition=date(2025, 1, 1),
                    gate="usual_rows",
                    blocking=False,
                    passed=passed,
                    digest="d",
                    finding=Finding.AS_USUAL if passed else Finding.FAR_FROM_USUAL,
                    observed=observed,
                )
            ],
            {},
            links={},
        )
        for passed in (True, False)
    }
    for (each,) in found.values():
        numbers = {name: each.metadata[name].value for name in ("value", "usual", "low", "high")}
        assert numbers == {"value": 5, "usual": 100, "low": 64, "high": 144.5}


@pytest.mark.parametrize(
    ("observed", "named"),
    [
        ({"rows": 9, "violating_rows": 4}, True),
        ({"rows": 9, "failing_rows": 2}, True),
        ({"rows": 9, "rows_without_a_required_value": 1}, True),
        ({"rows": 9, "added": 0, "removed": 2, "changed": 0}, True),
        # A row count, files with other columns, a proof that failed elsewhere, and a measure that moved name no rows.
        ({"rows": 9, "at_least": 10, "at_most": None}, False),
        ({"rows": 9, "rows_without_a_required_value": 0}, False),
        ({"shown_by": "2025-01-02"}, False),
        ({"percent": 5, "at_least": 0, "groups": 3, "moved_groups": 1}, False),
    ],
)
def test_keys_of_rows_are_only_announced_where_a_gate_names_rows(observed: dict[str, object], named: bool) -> None:
    failed = GateResult(
        run_id="bf-1",
        partition=date(2025, 1, 1),
        gate="any",
        blocking=True,
        passed=False,
        digest="d",
        finding=Finding.COLUMNS,
        observed=observed,
    )
    links = report_link(Settings.from_environment({}), "bf-1")
    (of_run,) = summaries(AssetKey("validation"), Grain.DAILY, [failed], links=links)
    what = "Keys of rows that fail" if named else "The report"
    assert of_run.description == f"1 of 1 day failed: 2025-01-01, 1 day. {what}: backfill report bf-1"
    (of_day,) = evaluations(AssetKey("validation"), [failed], {}, links=links)
    assert ("rows that fail" in of_day.metadata, REPORT in of_day.metadata) == (named, not named)


def test_partitions_are_those_of_the_data_and_a_run_of_others_extends_them(tmp_path: Path) -> None:
    settings = Settings.from_environment({**environment(tmp_path / "home"), "BACKFILL_FIRST_DAY": "1999-01-01"})
    ws = Workspace.open(settings)
    today = ws.clock().date()
    assert offered_days(ws) == OfferedDays(first=date(1999, 1, 1), asked_on=today)
    assert not (tmp_path / "home" / "ledger.db").exists()
    offered = LandedFile(
        source="bronze.sales",
        family="file",
        range_from="0",
        range_to="1",
        sha256="0" * 64,
        original_path="a.jsonl",
        stored_path="sales/a.jsonl",
        size_bytes=1,
        format="jsonl",
        compression="",
    )
    with ws.ledger.write() as tx:
        import_id = tx.imports.begin(offered, actor="ann").import_id
        tx.imports.finish(
            import_id,
            counts=ImportCounts(landed=1, accepted=1),
            days=[ImportDay(import_id=import_id, event_date=date(2025, 3, 9), events=1, displaced=0)],
            schema_versions=[1],
            ignored_columns=[],
            actor="ann",
        )
    last = date(2025, 3, 9)
    assert offered_days(ws) == OfferedDays(first=date(2025, 3, 1), last=date(2025, 3, 31), asked_on=today)
    # What goes on ends today, although nothing has landed for a while.
    on_time = replace(ws, clock=lambda: datetime.combine(last + ENDED_AFTER, time(12), tzinfo=UTC))
    assert offered_days(on_time) == OfferedDays(first=date(2025, 3, 1), asked_on=last + ENDED_AFTER)
    key = AssetKey(["bronze", "sales"])
    run = DayRange.inclusive(date(2024, 5, 2), date(2025, 4, 1))
    for over, start, end in ((None, "2025-03-01", "2025-03-31"), (run, "2024-05-02", "2025-04-01")):
        made = definitions_over(ws, lambda: Session(workspace=ws), pool=None, over=over)
        partitions = made.resolve_asset_graph().get(key).partitions_def
        assert partitions is not None
        assert partitions.get_first_partition_key() == start
        assert partitions.get_last_partition_key() == end
    ws.close()


def test_the_code_location_has_one_name(tmp_path: Path) -> None:
    workspace = yaml.safe_load((PROJECT_ROOT / "workspace.yaml").read_text())
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())
    (module,) = workspace["load_from"]
    assert {
        module["python_module"]["location_name"],
        project["tool"]["dagster"]["code_location_name"],
        project["tool"]["dg"]["project"]["code_location_name"],
    } == {LOCATION}
    assert origin_of("stage").repository_origin.code_location_origin.location_name == LOCATION
