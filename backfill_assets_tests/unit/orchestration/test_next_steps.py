"""What is next in Dagster: a job that exists, with a configuration that needs nothing but what a person fills in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dagster_webserver
import pytest
import yaml
from dagster import DagsterInvalidConfigError, DagsterRun, Definitions, validate_run_config

from backfill_assets.calendar.partitions import days_in, days_named
from backfill_assets.core.next_steps import (
    ANOTHER_PERSON,
    NAME,
    WHY,
    Command,
    Invocation,
    do,
    step,
    to_comment,
    to_undo,
)
from backfill_assets.core.settings import EXAMPLE_REFERENCE, Settings
from backfill_assets.orchestration.build import definitions_of
from backfill_assets.orchestration.dagster_internals import LOCATION, origin_of, place_of
from backfill_assets.orchestration.next_steps import in_dagster, launchpad_of, linked
from backfill_assets_tests.support.orchestration_examples import environment

RUN = "case_sla_daily-20250501-0a"
SILVER = "silver.case_sla_daily"
DAYS = {"first": date(2025, 5, 1), "last": date(2025, 5, 31)}
ASKED = [
    do(Command.RUN, RUN),
    do(Command.APPROVE, RUN, by=ANOTHER_PERSON),
    to_comment(RUN),
    do(Command.PUBLISH, "set.1", by=NAME),
    to_undo(RUN),
    do(Command.ROLLBACK, "set.1", with_dependents=True, by=NAME, reason=WHY),
    do(Command.CANCEL, RUN, by=NAME, reason=WHY),
    do(Command.CANCEL, RUN, leave=True, by=NAME, reason=WHY),
    do(Command.RECOVER),
    do(Command.RECOVER, RUN),
    do(Command.PLAN_STALE, SILVER, by=NAME, reason=WHY),
    do(Command.PLAN_TABLE, SILVER, **DAYS, reason=WHY, by=NAME),
    do(Command.PLAN_TABLE, SILVER, references="as-recorded", **DAYS, reason=WHY, by=NAME),
    do(Command.PLAN_WITH_DEPENDENTS, SILVER, **DAYS, reason=WHY, by=NAME),
    do(Command.CHECK, SILVER, **DAYS).also(("gate", "unique_key"), ("gate", "sla_states")),
    do(
        Command.PLAN_TABLE,
        SILVER,
        days=days_in(days_named(day) for day in ("2025-07", "2025-09-01", "2025-09-02", "2025-10")),
    ),
]


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    given = {
        **environment(tmp_path_factory.mktemp("home")),
        "BACKFILL_DOMAIN": "backfill_assets.examples.enforcement_sla",
        "BACKFILL_REFERENCE": str(EXAMPLE_REFERENCE),
    }
    return definitions_of(Settings.from_environment(given))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_link_fills_in_a_launchpad_in_which_only_a_persons_words_are_missing(
    definitions: Definitions, asked: Invocation
) -> None:
    found = launchpad_of(asked)
    assert found is not None
    link = urlsplit(found.link(LOCATION))
    assert link.path == f"/locations/backfill_assets/jobs/{found.job}/playground/setup"
    (text,) = parse_qs(link.query, strict_parsing=True)["config"]
    config = yaml.safe_load(text)
    assert config == {found.chosen: dict(found.entries)}
    ((_, typed),) = config.items()
    job = definitions.resolve_job_def(found.job)
    left_open = [name for name, value in typed.items() if value is None]
    persons = {"by", "approver", "publisher", "requester", "owner"}
    assert set(left_open) <= {*persons, "reason", "note"}
    assert persons & set(left_open), "a link names no person"
    with pytest.raises(DagsterInvalidConfigError):
        validate_run_config(job, config)
    validate_run_config(job, {found.chosen: {**typed, **dict.fromkeys(left_open, "ben")}})


@pytest.mark.parametrize(
    "asked",
    [
        do(Command.PLAN_STALE, SILVER, **DAYS, reason=WHY, by=NAME),
        do(Command.PLAN_TABLE, SILVER, reason=WHY, by=NAME),
        do(Command.RECOVER, RUN, now=True, by=NAME),
        do(Command.FOLLOW),
        do(Command.REPORT, RUN),
        do(Command.UNFREEZE, "freeze-1", by=NAME, reason=WHY),
    ],
    ids=str,
)
def test_what_no_job_does_in_full_stays_a_command(asked: Invocation) -> None:
    assert launchpad_of(asked) is None
    assert in_dagster(step(asked)).startswith(f"backfill {asked.command}")


def test_a_next_step_names_the_job_and_what_it_is_about() -> None:
    assert in_dagster(step("let another person approve it: ", do(Command.APPROVE, RUN, by=ANOTHER_PERSON))) == (
        f"let another person approve it: the job backfill_decide (approve {RUN})"
    )
    assert in_dagster(step("stage it again: ", do(Command.RUN, RUN))) == (
        f"stage it again: the job backfill_plan (planned {RUN})"
    )
    assert in_dagster(step(do(Command.PLAN_TABLE, SILVER, **DAYS, reason=WHY, by=NAME), " once more")) == (
        f"the job backfill_plan ({SILVER} 2025-05-01..2025-05-31) once more"
    )
    assert in_dagster(step(do(Command.RECOVER), ", which completes it")) == (
        "the job backfill_decide (recover), which completes it"
    )


def test_a_link_is_of_the_code_location_of_its_run_and_there_is_none_for_a_run_of_none() -> None:
    following = step("first ", do(Command.REPORT, RUN), ", then ", do(Command.PUBLISH, RUN, by=NAME))
    of_location = DagsterRun(job_name="backfill_decide", run_id="1", remote_job_origin=origin_of("backfill_decide"))
    of_none = DagsterRun(job_name="backfill_decide", run_id="1")
    assert (place_of(of_location), place_of(of_none)) == (LOCATION, "")
    (link,) = linked(following, of_location).values()
    assert str(link.value).startswith("/locations/backfill_assets/jobs/backfill_decide/playground/setup?config=publish")
    assert (linked(following, of_none), linked(None, of_location), linked(step("wait"), of_location)) == ({}, {}, {})


@pytest.fixture(scope="module")
def bundle() -> Iterator[str]:
    """The code of the installed Dagster's pages."""
    folder = Path(str(dagster_webserver.__file__)).parent / "webapp" / "build"
    yield "\n".join(file.read_text(errors="replace") for file in folder.rglob("*.js"))


def test_the_installed_pages_have_a_launchpad_that_an_address_fills_in(bundle: str) -> None:
    # It is not documented: a browser test follows such a link (`make test-ui`).
    assert "/locations/:repoPath/jobs/:pipelinePath/playground/setup" in bundle
    assert re.search(r'"string"==typeof (\w+)\.config&&\(\w+\.runConfigYaml=\1\.config\)', bundle)
