"""Which tests does `make test` leave to `make test-long`, so that one can run it while thinking?

Those marked as long, most members of families that show one promise from many sides, and most tests with a second
database. Of every promise its central tests stay (`unit/test_long_tests.py`); `.ci/run` runs one of 61 parts of the
others, by the hour of the commit. Those in `browser` need Chromium, and take turns where they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest

ROOT = PurePosixPath("backfill_assets_tests")
PAGES = f"{ROOT}/browser/"
TURNS_OF_PAGES = 4
HAND = 6
"""Tests of a module that are dealt to a part together."""

STAY: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "faults/test_crashes.py": {
        "test_nothing_is_lost_wherever_it_is_killed": ("publish",),
    },
    "faults/test_interleavings.py": {
        "test_in_every_order_of_the_phases_nothing_is_amiss": (
            "backfill x live",
            "restage x cancel",
            "vacuum x foreign restore",
        ),
        "test_without_any_one_guard_something_is_amiss": (
            "compare",
            "fence",
            "approval",
            "leases",
            "vacuum-open-publications",
            "asked-once",
        ),
    },
    "integration/upkeep/test_repair.py": {
        "test_a_lost_file_of_each_mode_comes_back_as_recorded_without_a_new_agreement": ("merge, keys stay-removed",),
        "test_the_next_steps_of_an_audit_lead_to_a_home_without_problems": ("landed file-changed",),
        "test_a_lost_accepted_file_is_repaired_by_what_the_audit_says": ("truncated",),
    },
    "integration/requests/test_lineage.py": {
        "test_wherever_a_publication_stops_its_lineage_is_there_once_and_explained": (
            "swap: the lineage of the run is in lineage.runs, its table is as it was",
        ),
        "test_lineage_that_was_changed_by_another_program_is_found": ("edited",),
    },
    "integration/upkeep/test_broken_tables.py": {
        "test_a_damaged_table_keeps_no_other_one_from_being_looked_after": ("a log of garbage", "gone"),
    },
    "integration/landing/test_corrected_declarations.py": {
        "test_what_was_declared_wrongly_is_corrected_by_the_command_that_every_screen_names": ("a misspelt name",),
    },
    "integration/landing/test_again.py": {
        "test_a_process_that_is_killed_on_the_way_has_changed_nothing_and_the_same_command_goes_on": (
            "land: its rejected records are in the quarantine",
        ),
    },
    "integration/landing/test_contracts.py": {
        "test_a_lift_that_breaks_its_contract_is_refused_before_anything_is_published": (
            "failing-its function failed: KeyError: 'nett'",
        ),
    },
    "integration/orchestration/test_launchpad_jobs.py": {
        "test_what_cannot_be_planned_is_refused_in_one_sentence": (
            "typed0-the requester has no name",
            "typed4-the reason is empty. Next: say the reason",
        ),
    },
    "integration/orchestration/test_colours.py": {
        "test_after_every_step_every_partition_is_green_where_it_is_accepted_and_none_is_red": ("short",),
    },
    "integration/orchestration/test_sensor_jobs.py": {
        "test_whatever_was_killed_is_ended_by_the_sensor_once_and_not_while_it_may_be_at_work": (
            "killed_staging-FAILED",
            "killed_set-PUBLISHED",
        ),
    },
    "integration/requests/test_follow.py": {
        "test_whatever_is_published_undone_and_killed_the_month_ends_as_the_sum_of_its_days": ("0",),
    },
    "integration/gates/test_gates.py": {
        "test_accepted_rows_of_equal_partitions_need_not_be_read": ("0",),
        "test_one_pass_measures_what_a_plain_reading_counts": ("0",),
        "test_rows_that_differ_have_other_checksums": ("left0-right0",),
    },
    "integration/cli/test_hostile_words.py": {
        "test_a_manifest_that_cannot_be_read_is_one_sentence": (
            "<lambda>-a manifest of format 99; this code reads format 1",
            "<lambda>-it lacks 'target'",
        ),
        "test_no_word_of_a_statement_withdraws_anything_or_shows_a_traceback": ("0", "21", "27"),
        "test_no_word_of_any_command_changes_anything_or_shows_a_traceback": ("0", "3", "12", "21"),
        "test_reasons_and_names_are_one_line_of_text_however_they_arrive": ("0", "2", "5"),
        "test_what_is_stored_is_shown_as_it_was_typed": ("'; DROP TABLE runs;--", "<script>alert(1)</script>"),
    },
    "faults/test_fencing.py": {
        "test_a_publisher_that_slept_cannot_publish_over_newer_work_and_says_why": ("SWAP_INTENDED",),
    },
    "integration/candidates/test_pilot.py": {
        "test_a_row_outside_that_differs_is_lost_or_added_is_found_in_its_partition": ("tenant=acme",),
        "test_a_key_that_enters_or_leaves_the_scope_is_neither_lost_nor_there_twice_and_is_found": ("False",),
    },
    "integration/landing/test_statements.py": {
        "test_days_that_a_complete_extract_lacks_are_empty_unless_it_is_of_some_rows": ("where1-unexplained1",),
        "test_after_an_extract_bronze_is_what_it_is_where_only_the_extract_landed": ("0",),
    },
    "integration/core/test_leases.py": {
        "test_a_process_that_stops_the_work_releases_its_lease_at_once": ("KeyboardInterrupt-stage",),
    },
    "integration/candidates/test_plan_is_run.py": {
        "test_a_run_is_not_measured_by_other_gates_than_were_agreed": ("False",),
    },
    "integration/requests/test_errors_of_functions.py": {
        "test_a_transform_with_an_action_is_refused_with_its_name_and_the_action": (
            "collect-<lambda>",
            "write-<lambda>",
        ),
        "test_an_error_of_python_in_a_worker_is_one_of_the_function_whose_message_the_ledger_does_not_keep": ("udf",),
    },
    "integration/requests/test_publication_and_inputs.py": {
        "test_an_event_dated_a_year_ahead_fills_no_year": ("True",),
    },
    "integration/testing/test_checks.py": {
        "test_a_table_without_a_mistake_passes": ("check_staging_twice", "check_warm_up", "check_no_outside_effects"),
    },
    "integration/requests/test_same_command_again.py": {
        "test_a_publication_is_published_by_the_same_command": ("lost",),
        "test_a_rollback_is_done_by_the_same_command": ("lost",),
        "test_a_rollback_with_dependents_is_completed_by_the_same_command": ("gold.sales_monthly-landed",),
        "test_a_set_is_published_and_rolled_back_by_the_same_commands": ("gold.sales_monthly-lost",),
        "test_landed_days_are_built_by_the_same_command": ("lost",),
    },
    "integration/cli/test_start.py": {
        "test_what_the_ledger_knows_is_shown_without_what_moves_rows": ("asked0",),
    },
    "integration/candidates/test_resume.py": {
        "test_a_process_that_was_given_up_changes_nothing_when_it_wakes_up": ("chunk 2 of 4: -recovers-FAILED",),
        "test_who_lost_a_run_and_fails_does_not_fail_it_for_the_one_that_has_it": ("stages_half",),
    },
    "integration/gates/test_seam_proof.py": {
        "test_rows_that_a_run_in_chunks_gets_wrong_are_caught_after_it_died_and_went_on": ("back",),
    },
    "integration/lake/test_swap.py": {
        "test_of_rivals_for_the_same_partitions_exactly_one_wins_each_round": ("folder-0", "folder-1", "store-0"),
    },
    "integration/landing/test_not_known_keys_in_runs.py": {
        "test_a_run_whose_inputs_are_what_is_accepted_goes_on_when_the_key_is_known": ("keep",),
    },
    "integration/lake/test_staged_and_never_published.py": {
        "test_a_cancelled_first_try_leaves_no_columns_behind": ("another partition column",),
    },
    "integration/capture/postgres/test_columns.py": {
        "test_changes_that_do_not_have_the_columns_or_rows_of_now_are_refused_and_a_snapshot_goes_on": (
            "statements6-the publication {slot} leaves out rows or columns",
        ),
        "test_what_leaves_the_values_as_they_are_is_captured": ("statements0",),
        "test_whatever_happens_to_the_columns_captured_rows_are_the_selected_ones_or_the_capture_is_refused": ("1",),
    },
    "integration/cli/test_eighty_columns.py": {
        "test_no_line_is_longer_than_the_terminal_and_nothing_is_left_out": ("status RUN",),
    },
    "integration/gates/test_gates_by_reference.py": {
        "test_a_row_that_is_known_names_each_value_that_differs": ("nobody",),
        "test_rows_and_sums_of_a_group_are_what_was_delivered": ("orphan-found2",),
    },
    "integration/gates/test_gates_of_inputs.py": {
        "test_a_sum_that_is_not_that_of_the_input_is_named_with_both": ("orphan-found2",),
    },
    "integration/gates/test_named_gates.py": {
        "test_a_defect_is_found_by_the_gate_of_its_kind_and_by_no_other": ("orphan",),
    },
    "integration/gates/test_gates_over_partitions.py": {
        "test_a_value_that_falls_within_a_run_is_named_and_nothing_else_is": ("orphan",),
    },
    "integration/landing/test_repeated_hours.py": {
        "test_every_time_is_the_one_that_is_declared_or_rejected": ("Europe/Berlin-second",),
    },
    "integration/ledger/test_row_digests.py": {
        "test_an_edit_of_any_column_is_found": ("samples",),
    },
    "integration/ledger/test_views.py": {
        "test_a_text_that_a_spreadsheet_would_compute_is_a_text_in_csv": ("sqlite-=1+1",),
    },
    "integration/requests/test_early_cutoff.py": {
        "test_an_equal_partition_that_a_foreign_writer_touched_refuses_the_whole_publication": ("False",),
    },
    "integration/requests/test_loosened.py": {
        "test_readers_are_cut_over_to_a_version_with_looser_safeguards_by_two_people_under_any_policy": (
            "without_plausible",
        ),
        "test_a_loosened_policy_lets_nobody_alone_change_agreed_rows": ("no approval-nothing",),
    },
    "integration/requests/test_repair_alone.py": {
        "test_the_ledger_itself_refuses_what_no_repair_may_publish_alone": ("another release",),
    },
    "integration/transforms/test_ties.py": {
        "test_what_is_allowed_gives_equal_rows_from_rows_in_any_order": ("row_number of elements",),
    },
}
"""By module and test: the members of its family that stay, by their identifiers."""

ON_SQLITE_ONLY = (
    "integration/requests/test_cancellation.py",
    *(
        f"integration/ledger/test_{name}.py"
        for name in ("chain", "interleavings", "migrations", "publications", "runs", "staging")
    ),
)
"""Modules that try both databases, and whose tests with PostgreSQL are left out but for `ON_POSTGRESQL_TOO`."""

ON_POSTGRESQL_TOO = (
    "test_every_row_of_an_earlier_revision_is_there_after_the_upgrade[postgresql]",
    "test_processes_that_open_and_write_at_once_make_one_chain[postgresql]",
)


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the tests that are left out and are not marked where they are written.

    Raises:
        UsageError: Of a family nothing stays, because its identifiers were changed.
    """
    stays = {f"{ROOT / module}::{test}": ids for module, tests in STAY.items() for test, ids in tests.items()}
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, _, parameters = item.nodeid.partition("[")
        on_sqlite_only = name.partition("::")[0].endswith(ON_SQLITE_ONLY) and item.name not in ON_POSTGRESQL_TOO
        if "postgresql" in parameters and on_sqlite_only:
            item.add_marker("long")
        if name in stays:
            found.setdefault(name, []).append(item)
    for name, members in found.items():
        left_out = [item for item in members if item.nodeid not in {f"{name}[{each}]" for each in stays[name]}]
        for item in left_out:
            item.add_marker("long")
        if len(members) > 1 and len(left_out) == len(members):
            raise pytest.UsageError(f"of {name} nothing stays: {', '.join(stays[name])} is not among its tests")


def may_have_some(path: Path) -> bool:
    """Whether a module of tests marks some as long, or is named here; anything else than a module of tests may."""
    if not path.name.startswith("test_") or path.suffix != ".py":
        return True
    named = path.as_posix()
    return named.endswith((*STAY, *ON_SQLITE_ONLY)) or "mark.long" in path.read_text(encoding="utf-8")


def in_part(items: Sequence[pytest.Item], part: str) -> list[pytest.Item]:
    """The tests of one part, such as `2/3`: each module is dealt out by the half dozen, so that parts are equally long.
    Those of pages wait for a browser and for Dagster: their modules take turns by themselves, a quarter in each part.

    Raises:
        UsageError: There is no such part.
    """
    number, _, parts = part.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise pytest.UsageError(f"--part is {part!r}, and has to be a part such as 2/3")
    pages = sorted({_module(item) for item in items if _module(item).startswith(PAGES)})
    turns = min(TURNS_OF_PAGES, int(parts))
    chosen: list[pytest.Item] = []
    before: Counter[str] = Counter()
    hands = -1
    for item in items:
        module = _module(item)
        if module in pages:
            if pages.index(module) % turns == (int(number) - 1) % turns:
                chosen.append(item)
            continue
        hands += before[module] % HAND == 0
        before[module] += 1
        if hands % int(parts) == int(number) - 1:
            chosen.append(item)
    return chosen


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
