"""A domain in another project: merged with its definitions, or declared as a component."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    AssetSelection,
    DagsterInvalidDefinitionError,
    Definitions,
    JobDefinition,
    ResourceDefinition,
    SensorResult,
    StaticPartitionsDefinition,
    asset,
    define_asset_job,
    job,
    load_from_defs_folder,
    multiprocess_executor,
    op,
    sensor,
)
from pydantic import ValidationError

import backfill_assets
from backfill_assets import BackfillDomain, build_definitions
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.domain import Domain
from backfill_assets.orchestration.partitions import relied_upon
from backfill_assets.orchestration.tags import PREFIX
from backfill_assets_tests.domains import captured_lake, example, orders
from backfill_assets_tests.support.orchestration_examples import environment

TAKEN = (
    "publish",
    "approve",
    "follow",
    "live",
    "stage",
    "recover",
    "plan",
    "check",
    "decide",
    "load",
    "daily_tables",
    "publish_now",
)


def settings(folder: Path) -> dict[str, str]:
    return {name: value for name, value in environment(folder / "home").items() if name != "BACKFILL_DOMAIN"}


def _job(name: str) -> JobDefinition:
    @op(name=f"{name}_op")
    def does() -> None:
        return

    @job(name=name)
    def made() -> None:
        does()

    return made


def theirs() -> Definitions:
    """A project whose names are those that a backfill needs as well."""

    @asset(key=["reports", "turnover"], deps=[AssetKey(["gold", "sales_monthly"])], required_resource_keys={"session"})
    def turnover() -> None:
        return

    @sensor(name="follow_up", job_name="publish")
    def follow_up() -> SensorResult:
        return SensorResult()

    @op(name="publish_now_op")
    def _unused() -> None:
        return

    return Definitions(
        assets=[turnover],
        jobs=[_job(name) for name in TAKEN],
        sensors=[follow_up],
        resources={name: ResourceDefinition.hardcoded_resource(name) for name in ("session", "pyspark", "ledger")},
        executor=multiprocess_executor,
    )


@pytest.mark.parametrize("domain", [example.DOMAIN, example.__name__], ids=["a domain", "its module"])
def test_a_domain_merges_with_a_project_that_has_the_same_names(tmp_path: Path, domain: Domain | str) -> None:
    ours = build_definitions(domain, settings=settings(tmp_path))
    merged = Definitions.merge(theirs(), ours)
    Definitions.validate_loadable(merged)
    graph = merged.resolve_asset_graph()
    assert graph.get(AssetKey(["reports", "turnover"])).parent_keys == {AssetKey(["gold", "sales_monthly"])}
    names = {found.name for found in merged.resolve_all_job_defs()} - {"__ASSET_JOB"}
    assert set(TAKEN) < names
    assert {name for name in names - set(TAKEN) if not name.startswith(PREFIX)} == set()
    assert merged.resolve_job_def("publish").execute_in_process().success
    # Their executor is theirs, and a run of ours is one process all the same.
    assert merged.executor is multiprocess_executor
    assert merged.resolve_job_def(f"{PREFIX}daily_tables").executor_def.name == "in_process"


def test_every_name_of_ours_begins_with_the_prefix(tmp_path: Path) -> None:
    ours = build_definitions(example.__name__, settings=settings(tmp_path))
    ticking = (*(ours.sensors or ()), *(ours.schedules or ()))
    ops = {node.name for found in ours.resolve_all_job_defs() for node in found.nodes if found.name != "__ASSET_JOB"}
    assets = {found.op.name for found in ours.resolve_asset_graph().assets_defs}
    names = {*(each.name for each in ticking), *(ops - assets), *(ours.resources or {})}
    tables = {f"{name.replace('.', '_')}_table" for name in example.DOMAIN.tables}
    assert {name for name in names if not name.startswith(PREFIX)} == tables
    assert ours.executor is None


def test_a_job_over_all_assets_of_a_project_can_leave_those_of_the_domain_out(tmp_path: Path) -> None:
    @asset(partitions_def=StaticPartitionsDefinition(["north", "south"]))
    def regions() -> None:
        return

    def merged(selection: AssetSelection) -> Definitions:
        job = define_asset_job("everything", selection=selection)
        ours = build_definitions(captured_lake.__name__, settings=settings(tmp_path))
        return Definitions.merge(Definitions(assets=[regions], jobs=[job]), ours)

    with pytest.raises(DagsterInvalidDefinitionError):
        merged(AssetSelection.all()).resolve_job_def("everything")
    job = merged(AssetSelection.all() - backfill_assets.ASSETS).resolve_job_def("everything")
    assert set(job.asset_layer.selected_asset_keys) == {AssetKey("regions")}


def test_a_domain_that_is_not_the_one_of_its_package_is_refused(tmp_path: Path) -> None:
    other = type(example.DOMAIN)(
        name="other", package=orders.__name__, sources=example.DOMAIN.sources, derived=example.DOMAIN.derived
    )
    with pytest.raises(InvalidDeclaration, match="its DOMAIN is not the domain other that was given"):
        build_definitions(other, settings=settings(tmp_path))


def test_settings_of_a_project_are_named_rightly_and_once(tmp_path: Path) -> None:
    given = settings(tmp_path)
    with pytest.raises(Refused, match="BACKFILL_HOMEE is not the name of a setting"):
        build_definitions(example.__name__, settings={**given, "BACKFILL_HOMEE": "elsewhere"})
    with pytest.raises(Refused, match="BACKFILL_LAK is not the name of a setting"):
        BackfillDomain(domain=example.__name__, settings={**given, "BACKFILL_LAK": "x"}).build_defs(None)
    with pytest.raises(Refused, match=f"the definitions are those of {example.__name__}"):
        build_definitions(example.DOMAIN, settings={**given, "BACKFILL_DOMAIN": orders.__name__})
    with pytest.raises(ValidationError, match="setings"):
        BackfillDomain.model_validate({"domain": example.__name__, "setings": given})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of Dagster's components with what `dg scaffold` writes, and settings."""
    folder = tmp_path / "others"
    defs = folder / "others_project" / "defs"
    defs.mkdir(parents=True)
    for place in (folder / "others_project", defs):
        (place / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "others_project"\n'
        "[tool.dg.cli.telemetry]\nenabled = false\n"
    )
    begins = [str(Path(sys.executable).with_name("dg")), "scaffold", "defs", "backfill_assets.BackfillDomain"]
    asked = [*begins, "backfills", "--domain", example.__name__]
    subprocess.run(asked, cwd=folder, check=True, capture_output=True)
    given = "".join(f"    {name}: '{value}'\n" for name, value in settings(tmp_path).items())
    with (defs / "backfills" / "defs.yaml").open("a") as written:
        written.write(f"  settings:\n{given}")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.startswith("others_project")]:
        del sys.modules[name]


@pytest.mark.long
def test_a_component_declares_a_domain_in_yaml(project: Path) -> None:
    with relied_upon():
        loaded = load_from_defs_folder(path_within_project=project)
        keys = {key.to_user_string() for key in loaded.resolve_asset_graph().get_all_asset_keys()}
        assert {"bronze/sales", "silver/recent_sales", "gold/sales_monthly"} <= keys
        assert f"{PREFIX}decide" in {found.name for found in loaded.resolve_all_job_defs()}
        Definitions.validate_loadable(Definitions.merge(loaded, theirs()))


def test_the_package_lists_its_component_and_imports_dagster_only_when_asked() -> None:
    assert "BackfillDomain" in dir(backfill_assets)
    assert BackfillDomain.get_model_cls() is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        backfill_assets.nothing  # noqa: B018
