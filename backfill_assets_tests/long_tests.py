"""Which tests does `make test` leave to `make test-long`, so that one can run it while thinking?

Those that need a browser, a second database or many processes, and most members of families that show one promise from
many sides. Of every promise some test stays; `.ci/run` runs both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

ROOT = PurePosixPath("backfill_assets_tests")


@dataclass(frozen=True, slots=True)
class Long:
    """A test function that is left out.

    Attributes:
        module: Its module, below the tests.
        test: Its name.
        stays: The identifiers of the members of its family that stay; none if it is left out as a whole.
    """

    module: str
    test: str
    stays: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As pytest writes it, without parameters."""
        return f"{ROOT / self.module}::{self.test}"


RESUME, HOSTILE = "integration/test_resume.py", "integration/test_hostile_words.py"
FINES = "acceptance/test_traffic_fines.py"

LONG: Sequence[Long] = (
    Long("faults/test_crashes.py", "test_nothing_is_lost_wherever_it_is_killed", ("publish",)),
    Long(
        "faults/test_crashes.py",
        "test_nothing_is_lost_when_it_is_killed_at",
        (
            "land-land: its records are written beside the archive",
            "stage-stage: the files of a chunk are written and not in the ledger",
        ),
    ),
    Long(
        "integration/test_dagster_postgres.py", "test_processes_that_come_first_at_the_same_time_make_the_tables_once"
    ),
    Long("integration/test_dagster_postgres.py", "test_the_whole_way_with_ledger_and_dagster_in_one_database"),
    Long("integration/test_dagster_runs.py", "test_dependents_follow_a_publication_once"),
    Long("integration/test_dagster_runs.py", "test_a_load_of_days_with_a_gap_reports_exactly_the_days_that_landed"),
    Long(
        "integration/test_landing_land.py",
        "test_reprocessing_under_another_first_day_counts_every_import_that_it_changes",
    ),
    Long("integration/test_publication_and_inputs.py", "test_a_replay_may_take_readers_back"),
    Long("integration/test_sets_half_way.py", "test_a_set_that_is_never_published_says_so"),
    Long(FINES, "test_a_part_of_the_log_is_published_wrong_restated_right_and_brought_back"),
    Long(FINES, "test_what_was_restated_is_reproduced_from_its_manifest_alone"),
    Long(FINES, "test_a_month_of_warm_up_is_caught_and_the_declared_window_passes"),
    Long(FINES, "test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change"),
    Long(
        RESUME, "test_a_process_that_was_given_up_changes_nothing_when_it_wakes_up", ("chunk 2 of 4: -recovers-FAILED",)
    ),
    Long(RESUME, "test_of_two_processes_that_gate_a_run_the_earlier_one_is_refused", ("gates-PASSED-False",)),
    Long(RESUME, "test_who_lost_a_run_and_fails_does_not_fail_it_for_the_one_that_has_it", ("stages_half",)),
    Long(HOSTILE, "test_files_may_have_any_name_and_their_records_any_text", ("some",)),
    Long("integration/test_publication_and_inputs.py", "test_the_whole_way_is_the_same_with_the_ledger_in_postgresql"),
    Long(
        "integration/test_ledger_publications.py",
        "test_five_thousand_partitions_are_staged_gated_published_and_rolled_back",
        ("sqlite",),
    ),
    Long(
        "integration/test_leases.py",
        "test_a_process_that_stops_the_work_releases_its_lease_at_once",
        ("KeyboardInterrupt-stage", "OSError-gate"),
    ),
)


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the tests that are left out.

    Raises:
        UsageError: Of a family nothing stays, because its identifiers were changed.
    """
    by_name = {long.name: long for long in LONG}
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, _, _ = item.nodeid.partition("[")
        if name in by_name:
            found.setdefault(name, []).append(item)
    for name, members in found.items():
        stays = {f"{name}[{each}]" for each in by_name[name].stays}
        left_out = [item for item in members if item.nodeid not in stays]
        for item in left_out:
            item.add_marker("long")
        if stays and len(members) > 1 and len(left_out) == len(members):
            raise pytest.UsageError(f"of {name} nothing stays: {', '.join(sorted(stays))} is not among its tests")
