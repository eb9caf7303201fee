"""The environment becomes one frozen value, or one sentence about what is wrong with it."""

from __future__ import annotations

import re
from datetime import date, time
from pathlib import Path

import pytest

from backfill_assets.core.clock import system_clock
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.settings import (
    DEBUG,
    PROJECT_ROOT,
    Settings,
    mistyped,
    require_settings,
    setting_names,
)
from backfill_assets.domain import Domain
from backfill_assets.domain.domain import load_domain
from backfill_assets.ledger.store import Ledger
from backfill_assets.orchestration.sensors import live_schedule
from backfill_assets.report.command_line import explained


def test_everything_is_below_the_home_by_default(tmp_path: Path) -> None:
    settings = Settings.from_environment({"BACKFILL_HOME": str(tmp_path)})
    assert settings.lake == tmp_path / "lake"
    assert settings.landing == tmp_path / "landing"
    assert settings.reference == tmp_path / "reference"
    assert settings.ledger_url == f"sqlite:///{tmp_path / 'ledger.db'}"


def test_the_home_of_a_checkout_is_its_data_folder() -> None:
    assert Settings.from_environment({}).home == PROJECT_ROOT / "data"


def test_each_part_can_be_elsewhere(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            "BACKFILL_HOME": str(tmp_path),
            "BACKFILL_REFERENCE": "/elsewhere/reference",
            "BACKFILL_LEDGER_URL": "postgresql+psycopg://ledger",
            "BACKFILL_FIRST_DAY": "2000-01-02",
            "BACKFILL_SPARK_CONF": "spark.ui.enabled=true; spark.x=a=b",
        }
    )
    assert settings.reference == Path("/elsewhere/reference")
    assert settings.ledger_url == "postgresql+psycopg://ledger"
    assert settings.first_day == date(2000, 1, 2)
    assert settings.spark_conf == {"spark.ui.enabled": "true", "spark.x": "a=b"}


@pytest.mark.parametrize("name", ["BACKFILL_HOME", "BACKFILL_LAKE", "BACKFILL_LANDING"])
@pytest.mark.parametrize("folder", ["home[1]", "home*", "ho?e", "{home}", "ho\\me"])
def test_a_folder_whose_name_spark_takes_for_a_pattern_is_refused(tmp_path: Path, name: str, folder: str) -> None:
    with pytest.raises(Refused, match=rf"{name} is .*, and Spark takes any of"):
        Settings.from_environment({"BACKFILL_HOME": str(tmp_path), name: str(tmp_path / folder)})


def test_a_lake_whose_path_delta_takes_for_another_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"BACKFILL_LAKE is .*my%20home/lake, which Delta takes for .*/my home/lake"):
        Settings.from_environment({"BACKFILL_HOME": str(tmp_path / "my%20home")})


@pytest.mark.parametrize("folder", ["my home", "my%20home", "my#home", "100%", "a:b@c"])
def test_a_home_has_its_own_ledger_whatever_it_is_called(tmp_path: Path, folder: str) -> None:
    given = {"BACKFILL_HOME": str(tmp_path / folder), "BACKFILL_LAKE": str(tmp_path / "lake")}
    settings = Settings.from_environment(given)
    Ledger.open(settings.ledger_url, clock=system_clock).close()
    assert {each.parent.name for each in tmp_path.rglob("ledger.db")} == {folder}


def test_the_address_of_the_desk_is_one() -> None:
    given = {"BACKFILL_DESK_URL": "https://desk.example:8100/audit/"}
    assert Settings.from_environment(given).desk_url == "https://desk.example:8100/audit"
    assert Settings.from_environment({}).desk_url == ""
    for wrong in ("desk.example", "javascript:alert(1)", "http://", "http://desk?x=1"):
        with pytest.raises(Refused, match=r"BACKFILL_DESK_URL is .*, which is not an address"):
            Settings.from_environment({"BACKFILL_DESK_URL": wrong})


def test_a_price_of_a_core_hour_that_is_none_is_refused_with_one_that_is() -> None:
    for wrong in ("cheap", "0,05 EUR", "0.05 euro", "-1"):
        with pytest.raises(Refused, match=r"BACKFILL_CORE_HOUR_PRICE is .*, which is not a price") as refusal:
            Settings.from_environment({"BACKFILL_CORE_HOUR_PRICE": wrong})
        assert explained(refusal.value).endswith(
            "Next: set BACKFILL_CORE_HOUR_PRICE to what a core hour costs, such as 0.05 EUR, or leave it out"
        )


def test_the_schedule_of_every_day_begins_at_a_time_that_is_one() -> None:
    assert Settings.from_environment({}).live_at == time(5)
    given = Settings.from_environment({"BACKFILL_LIVE_AT": "23:05"})
    assert live_schedule(given.live_at).cron_schedule == "5 23 * * *"
    for wrong in ("5", "24:00", "05:60", "5:00", "05:00:00", "05:00Z", "\u0660\u0665:00"):
        with pytest.raises(Refused, match=r"BACKFILL_LIVE_AT is .*, which is not a time of day in UTC like 05:00"):
            Settings.from_environment({"BACKFILL_LIVE_AT": wrong})


def test_dagsters_runs_are_beside_the_ledger_by_default() -> None:
    def dagster_url(**given: str) -> str:
        return Settings.from_environment(given).dagster_url

    assert dagster_url() == ""
    assert dagster_url(BACKFILL_LEDGER_URL="sqlite:////srv/ledger.db") == ""
    one = "postgresql+psycopg://me@one/ledger"
    assert dagster_url(BACKFILL_LEDGER_URL=one) == one
    assert dagster_url(BACKFILL_LEDGER_URL=one, BACKFILL_DAGSTER_URL="sqlite") == ""
    assert dagster_url(BACKFILL_LEDGER_URL=one, BACKFILL_DAGSTER_URL="postgres://two/runs") == "postgres://two/runs"
    assert dagster_url(BACKFILL_DAGSTER_URL="postgresql://two/runs") == "postgresql://two/runs"


def test_a_place_for_dagsters_runs_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(Refused, match="BACKFILL_DAGSTER_URL is neither") as refusal:
        Settings.from_environment({"BACKFILL_DAGSTER_URL": "mysql://me:secret@host/runs"})
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("BACKFILL_SPARK_MEMORY", "lots", "BACKFILL_SPARK_MEMORY is 'lots', which is not an amount of memory like 4g"),
        ("BACKFILL_SPARK_MEMORY", "0g", "BACKFILL_SPARK_MEMORY is '0g', which is not an amount of memory like 4g"),
        ("BACKFILL_FIRST_DAY", "yesterday", "BACKFILL_FIRST_DAY is 'yesterday', which is not a date"),
        ("BACKFILL_FIRST_DAY", "0001-01-01", "BACKFILL_FIRST_DAY is '0001-01-01', which is not a date"),
        ("BACKFILL_FIRST_DAY", "9999-12-30", "BACKFILL_FIRST_DAY is '9999-12-30', which is not a date"),
        ("BACKFILL_CHUNK_PARTITIONS", "0", "BACKFILL_CHUNK_PARTITIONS is '0'"),
        ("BACKFILL_DAGSTER_DAYS", "0", "BACKFILL_DAGSTER_DAYS is '0', which is not a whole number from 1 to 99,999"),
        ("BACKFILL_ROLLBACK_DAYS", "999999", "BACKFILL_ROLLBACK_DAYS is '999999'"),
        ("BACKFILL_LEASE_SECONDS", "9" * 20, "which is not a whole number from 1 to 99,999,999"),
        ("BACKFILL_SPARK_SHUFFLE_PARTITIONS", "many", "BACKFILL_SPARK_SHUFFLE_PARTITIONS is 'many'"),
        ("BACKFILL_SPARK_CONF", '{"spark.x": "-Da=b"}', "write spark.NAME=value;spark.NAME=value"),
        ("BACKFILL_SPARK_CONF", "spark.ui", "BACKFILL_SPARK_CONF holds 'spark.ui', which is not key=value"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(name: str, value: str, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        Settings.from_environment({name: value})
    assert sentence in refusal.value.message
    assert explained(refusal.value).endswith(f"Next: correct {name}, or leave it out")


def test_a_mistake_in_a_declaration_ends_with_where_to_correct_it() -> None:
    with pytest.raises(InvalidDeclaration) as refusal:
        Domain(name="Two words", package="x", sources=(), derived=())
    assert "Next: correct the declaration in the module that BACKFILL_DOMAIN names" in explained(refusal.value)


@pytest.mark.parametrize("inside", ["lake", "landing/drop", "reference", "."])
def test_a_drop_folder_in_what_others_write_or_around_it_is_refused(tmp_path: Path, inside: str) -> None:
    given = {"BACKFILL_HOME": str(tmp_path)}
    with pytest.raises(Refused, match=r"BACKFILL_DROP is .*: one lies in the other"):
        Settings.from_environment({**given, "BACKFILL_DROP": str(tmp_path / inside)})
    beside = Settings.from_environment({**given, "BACKFILL_DROP": str(tmp_path / "landing-drop")})
    assert beside.drop == tmp_path / "landing-drop"


def test_every_setting_is_documented() -> None:
    source = (PROJECT_ROOT / "backfill_assets" / "core" / "settings.py").read_text(encoding="utf-8")
    page = (PROJECT_ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    settings = set(re.findall(r"BACKFILL_[A-Z_]*[A-Z]\b", source))
    assert len(settings) > 10
    assert [name for name in sorted(settings) if f"`{name}`" not in page] == []


def test_the_reference_domain_loads_by_default() -> None:
    assert isinstance(load_domain(Settings.from_environment({}).domain), Domain)


def test_an_installed_package_has_no_domain_and_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backfill_assets.core.settings.IS_CHECKOUT", False)
    with pytest.raises(InvalidDeclaration, match="BACKFILL_DOMAIN is not set") as refusal:
        load_domain(Settings.from_environment({}).domain)
    assert refusal.value.exit_code == 1


def test_a_domain_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(InvalidDeclaration, match=r"nobody\.at_home"):
        load_domain("nobody.at_home")
    with pytest.raises(InvalidDeclaration, match="defines no DOMAIN"):
        load_domain("backfill_assets.core.errors")


def test_every_setting_that_is_read_is_documented_and_the_other_way_round() -> None:
    page = (PROJECT_ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    documented = {
        name for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert documented - {DEBUG, "DAGSTER_HOME"} == setting_names()


@pytest.mark.parametrize("name", sorted(setting_names()))
def test_a_mistyped_name_in_a_mapping_of_ours_is_refused_with_the_one_that_was_meant(name: str) -> None:
    for mistyped_name in (f"{name}E", name[:-1], name.lower(), name.replace("_", "__", 1), name[:3] + name[4:]):
        with pytest.raises(InvalidSetting, match=f"{mistyped_name} is not the name of a setting") as refused:
            require_settings({mistyped_name: "anything"})
        assert f"; {name} is one" in str(refused.value)
        assert f"write {name}" in explained(refused.value)
    require_settings({name: "anything"})


def test_a_name_that_is_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(InvalidSetting, match="COLOUR is not the name of a setting") as refused:
        require_settings({"COLOUR": "red"})
    assert "correct COLOUR, or leave it out" in explained(refused.value)


@pytest.mark.parametrize("value", [4, None, Path("data"), ["data"]])
def test_a_setting_is_a_text(value: object) -> None:
    with pytest.raises(InvalidSetting, match=r"BACKFILL_HOME is .*, which is not a text"):
        require_settings({"BACKFILL_HOME": value})


def test_of_an_environment_that_others_share_only_what_looks_like_a_setting_is_mistyped() -> None:
    found = {"BACKFILL_HOMEE": "x", "BACKFIL_LAKE": "x", "backfill_user": "x", "BACKFILL_COLOUR_OF_OTHERS": "x"}
    others = {"PATH": "/bin", "HOMEE": "x", "BACKFILL_HOME": "x", DEBUG: "1", "BACKFILL_TEST_LAKE": "s3"}
    wanted = {"BACKFILL_HOMEE": "BACKFILL_HOME", "BACKFIL_LAKE": "BACKFILL_LAKE", "backfill_user": "BACKFILL_USER"}
    assert mistyped({**found, **others}) == {**wanted, "BACKFILL_COLOUR_OF_OTHERS": ""}
