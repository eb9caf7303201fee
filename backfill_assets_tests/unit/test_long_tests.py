"""What `make test` leaves out exists, the page of promises names modules that exist, and central tests stay."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.support.long_tests import (
    ON_POSTGRESQL_TOO,
    ON_SQLITE_ONLY,
    ROOT,
    STAY,
    in_part,
    may_have_some,
)

GUARANTEES = (PROJECT_ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")

CENTRAL: Mapping[str, Sequence[str]] = {
    "1": (
        "integration/requests/test_dying_and_reading.py::test_a_reader_in_another_process_never_sees_a_mixture",
        "integration/requests/test_sets_with_gaps.py::test_one_table_of_a_set_is_one_run_and_one_commit_whatever_gaps_it_has",
    ),
    "2": ("integration/lake/test_swap.py::test_every_declared_partition_changes_and_no_other",),
    "3": (
        "integration/requests/test_publication.py::test_a_gate_result_counts_only_for_the_files_it_measured",
        "integration/requests/test_authority.py::test_an_approval_satisfies_the_pinned_and_the_present_groups",
        "integration/gates/test_breakdowns.py::test_an_approval_from_before_the_numbers_were_known_does_not_comment_on_them",
    ),
    "4": ("faults/test_crashes.py::test_nothing_is_lost_wherever_it_is_killed",),
    "5": ("faults/test_fencing.py::test_a_publisher_that_slept_cannot_publish_over_newer_work_and_says_why",),
    "6": ("integration/ledger/test_many_runs_at_once.py::test_twenty_runs_at_once_end_published_or_refused_in_words",),
    "7": (
        "integration/requests/test_sets_half_way.py::test_a_set_killed_between_its_tables_is_completed_by_recover",
        "integration/requests/test_sets_half_way.py::test_a_set_that_cannot_be_completed_is_reversed_by_recover",
        "integration/requests/test_rollback_of_sets.py"
        "::test_the_rollback_of_what_had_changed_nothing_says_so_and_its_set_can_be_published_again",
        "integration/requests/test_phases.py::test_a_phase_that_fails_stops_those_after_it_and_leaves_those_before_it",
    ),
    "8": ("integration/requests/test_publication.py::test_a_rollback_brings_back_exactly_the_files_from_before",),
    "9": (
        "integration/candidates/test_resume.py"
        "::test_a_run_that_stopped_between_chunks_is_resumed_with_the_checksums_of_one_that_did_not",
    ),
    "9a": (
        "integration/transforms/test_session_settings.py::test_a_transform_that_changes_a_setting_is_refused_by_name",
    ),
    "9b": ("unit/domain/test_code.py::test_an_edit_moves_the_tables_that_reach_the_module_and_no_others",),
    "9c": (
        "unit/transforms/test_determined.py"
        "::test_what_spark_computes_otherwise_another_time_is_refused_however_it_is_written",
    ),
    "9d": (
        "integration/transforms/test_ties.py::test_a_tie_is_refused_before_rows_are_computed_with_its_line_and_what_to_write",
        "integration/transforms/test_ties.py::test_no_generated_transform_whose_rows_differ_is_allowed",
    ),
    "10": ("integration/landing/test_land.py::test_a_killed_landing_loses_nothing_and_the_file_lands_afterwards",),
    "10a": (
        "faults/test_fuzz_values.py::test_every_landed_value_is_the_value_that_was_written_or_its_record_is_rejected",
    ),
    "10b": (
        "integration/landing/test_not_known_keys_in_runs.py"
        "::test_what_reads_such_a_day_is_refused_until_a_newer_record_of_the_key_is_accepted",
    ),
    "11": (
        "integration/upkeep/test_tampering.py::test_an_edited_event_is_found",
        "integration/upkeep/test_tampering.py::test_bytes_of_a_published_file_that_changed_are_found",
    ),
    "11a": (
        "integration/ledger/test_clocks.py::test_at_every_instant_that_version_was_seen_which_the_order_of_events_says",
    ),
    "12": ("unit/upkeep/test_retention.py::test_nothing_that_may_be_needed_is_ever_removed_and_everything_else_is",),
    "13": ("integration/cli/test_hostile_words.py::test_no_word_of_any_command_changes_anything_or_shows_a_traceback",),
    "14": (),
    "15": ("integration/ledger/test_migrations.py::test_every_row_of_an_earlier_revision_is_there_after_the_upgrade",),
    "16": ("integration/requests/test_follow.py::test_a_manifest_is_a_follow_up_by_the_outbox_alone",),
    "17": (
        "integration/requests/test_rollback_with_dependents.py"
        "::test_a_rollback_that_would_leave_gold_without_its_silver_is_refused_and_names_it",
    ),
    "18": (
        "integration/requests/test_sets_publish_what_they_read.py"
        "::test_gold_that_was_computed_from_other_silver_is_not_published_and_running_the_set_repairs_it",
    ),
    "19": (
        "integration/gates/test_seam_proof.py"
        "::test_rows_that_a_run_in_chunks_gets_wrong_are_caught_after_it_died_and_went_on",
    ),
    "20": (
        "integration/upkeep/test_broken_tables.py"
        "::test_a_publication_of_a_damaged_table_stays_open_and_everything_else_is_recovered",
    ),
    "21": ("unit/calendar/test_windows.py::test_the_plan_and_its_stages_read_exactly_the_window_of_each_input",),
    "22": (
        "integration/orchestration/test_colours.py"
        "::test_after_every_step_every_partition_is_green_where_it_is_accepted_and_none_is_red",
    ),
    "23": (
        "unit/desk/test_desk.py::test_no_page_opens_a_writing_transaction",
        "integration/desk/test_desk.py::test_hostile_words_stay_words",
    ),
    "24": (
        "unit/domain/test_contracts.py::test_a_change_that_no_rule_explains_is_refused_with_the_column_and_both_versions",
        "integration/lake/test_table_schemas.py::test_one_commit_exchanges_the_files_and_changes_the_schema",
    ),
    "25": (
        "integration/requests/test_reference_semantics.py::test_a_correction_of_inputs_as_recorded_keeps_the_truth_of_its_time",
        "integration/requests/test_reference_semantics.py"
        "::test_dependents_whose_references_were_chosen_do_not_follow_by_themselves",
    ),
    "26": (
        "unit/staleness/test_proposals.py::test_in_any_order_no_two_open_ones_meet_and_every_changed_day_is_in_one_place",
        "integration/staleness/test_propose.py::test_a_newer_file_replaces_the_draft_and_the_last_one_is_published",
    ),
    "27": (
        "integration/landing/test_statements.py"
        "::test_after_an_extract_bronze_is_what_it_is_where_only_the_extract_landed",
    ),
    "28": (
        "integration/landing/test_statements.py"
        "::test_after_an_extract_bronze_is_what_it_is_where_only_the_extract_landed",
    ),
    "29": (
        "integration/orchestration/test_sensor_jobs.py::test_what_a_person_has_approved_is_published_once_in_the_name_of_no_person",
    ),
    "30": (
        "integration/files/test_files.py::test_a_store_that_ignores_conditions_is_refused",
        "integration/lake/test_swap.py::test_of_rivals_for_the_same_partitions_exactly_one_wins_each_round",
        "integration/lake/test_lake_on_a_store.py"
        "::test_a_table_is_published_undone_recovered_reproduced_and_audited_in_a_store",
    ),
    "31": (
        "integration/lake/test_checksums.py::test_checksums_are_equal_if_and_only_if_the_rows_are",
        "integration/requests/test_early_cutoff.py::test_a_value_that_moves_inside_a_nested_column_is_published",
    ),
    "32": ("unit/domain/test_column_types.py::test_a_type_is_allowed_or_refused_with_the_way_out",),
    "33": ("integration/core/test_full_disk.py::test_a_ledger_is_read_where_nothing_can_be_written",),
    "34": ("integration/core/test_private_files.py::test_who_may_use_what_a_command_makes_is_who_may_use_the_home",),
    "35": (
        "unit/requests/test_scope.py::test_everything_stale_that_is_asked_for_is_built_or_left_out_with_a_reason",
        "integration/planning/test_nothing_less.py::test_a_range_of_which_a_part_lacks_its_input_is_refused_and_counted",
    ),
    "36": (
        "faults/test_single_actor_attack.py::test_one_person_changes_what_policies_grant_and_nothing_else",
        "unit/planning/test_late_events.py::test_what_corrects_takes_back_or_restores_is_for_a_person",
        "integration/requests/test_live.py::test_what_a_person_has_rolled_back_is_not_published_again_without_one",
    ),
    "37": (
        "integration/requests/test_append.py"
        "::test_partitions_are_added_and_what_was_accepted_is_refused_also_where_it_is_empty",
    ),
    "38": ("integration/candidates/test_merge.py::test_merged_rows_are_those_of_a_model_whether_keys_move_or_stay",),
    "39": (
        "integration/requests/test_lineage.py"
        "::test_at_no_moment_of_a_publication_does_a_reader_see_rows_without_lineage",
        "integration/requests/test_lineage.py::test_of_many_processes_each_run_is_appended_once",
    ),
    "40": (
        "integration/candidates/test_own_past.py"
        "::test_a_late_event_is_restated_from_the_snapshot_before_it_and_stops_where_the_state_is_equal",
    ),
    "41": (
        "integration/capture/test_kafka.py::test_what_was_written_is_landed_and_built_once_and_the_same_again",
        "integration/capture/postgres/test_captured.py"
        "::test_a_snapshot_and_the_changes_after_it_are_the_table_and_are_captured_once",
        "integration/capture/postgres/test_captured.py"
        "::test_at_every_position_under_four_writers_captured_rows_are_the_selected_ones",
        "unit/capture/test_streams.py"
        "::test_pieces_are_what_is_not_captured_in_order_each_once_and_cut_where_every_capture_cuts",
    ),
    "42": (
        "integration/requests/test_freeze.py"
        "::test_what_a_publication_asks_for_waits_says_so_and_is_planned_once_when_the_freeze_ends_by_itself",
    ),
    "43": (
        "integration/candidates/test_pilot.py"
        "::test_a_row_outside_that_differs_is_lost_or_added_is_found_in_its_partition",
    ),
    "44": (
        "integration/deliver/test_replayed_state.py::test_a_delete_without_an_event_time_deletes_its_key",
        "integration/deliver/test_kafka_out.py"
        "::test_what_was_captured_is_sent_once_as_it_was_with_headers_and_the_topic_is_deleted_when_it_is_closed",
    ),
    "45": (
        "integration/requests/test_versioned.py"
        "::test_readers_see_a_version_once_they_are_cut_over_and_the_earlier_table_again_after_a_rollback",
        "integration/requests/test_shadow.py"
        "::test_a_version_catches_up_follows_live_days_is_compared_and_takes_its_place_with_its_columns",
    ),
    "46": (
        "unit/planning/test_kept.py::test_what_expires_once_never_stays_when_newer_ones_are_accepted",
        "integration/requests/test_expiry.py::test_what_a_table_does_not_keep_goes_and_comes_back_and_goes_again",
        "integration/requests/test_expiry.py"
        "::test_a_late_event_is_restated_from_the_kept_snapshot_before_it_and_what_has_expired_stays_so",
    ),
    "47": (
        "integration/upkeep/test_check_rows.py"
        "::test_a_gate_that_is_new_is_named_without_making_rows_stale_and_a_check_measures_them",
        "integration/ledger/test_checks.py"
        "::test_a_version_was_measured_with_the_gates_of_its_run_and_of_later_checks_of_it",
    ),
}
"""The tests of each promise that are never left out as a whole. That landing stays within its memory takes minutes, and
is tried by `make test-faults` alone."""


def functions_of(module: str) -> Mapping[str, bool]:
    """The tests of a module, each with whether it is marked as long."""
    tree = ast.parse((PROJECT_ROOT / ROOT / module).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return {each.name: "pytest.mark.long" in map(ast.unparse, each.decorator_list) for each in functions}


def modules_named(text: str) -> Iterator[tuple[str, Sequence[PurePosixPath]]]:
    """The modules that a text names, each with the files that are there; a harness has a module of tests beside it."""
    for name in re.findall(r"`([\w/]+\.py)`", text):
        path = PurePosixPath(name)
        places = (path, ROOT / path, ROOT / path.with_name(f"test_{path.name}"))
        yield name, [place for place in places if (PROJECT_ROOT / place).is_file()]


def promises() -> Mapping[str, str]:
    """What names the tests of each promise, by its number."""
    return dict(re.findall(r"^\| (\d+\w?) \|.*\|(.*)\|$", GUARANTEES, re.MULTILINE))


@pytest.mark.parametrize("module", STAY)
def test_families_of_which_some_members_stay_exist_and_are_not_left_out_as_a_whole(module: str) -> None:
    functions = functions_of(module)
    assert [name for name in STAY[module] if functions.get(name, True)] == []


def test_what_stays_on_postgresql_exists() -> None:
    for name in ON_POSTGRESQL_TOO:
        test, _, identifier = name.rstrip("]").partition("[")
        assert test in {found for module in ON_SQLITE_ONLY for found in functions_of(module)}
        assert identifier == "postgresql"


def test_every_module_that_the_page_names_exists() -> None:
    named = dict(modules_named(GUARANTEES))
    assert [name for name, found in named.items() if not found] == []
    assert len(named) > 40


def test_every_promise_has_its_central_tests() -> None:
    assert CENTRAL.keys() == promises().keys()
    assert [number for number, tests in CENTRAL.items() if not tests] == ["14"]


@pytest.mark.parametrize(("number", "test"), [(number, test) for number, tests in CENTRAL.items() for test in tests])
def test_a_central_test_is_named_by_its_promise_and_stays(number: str, test: str) -> None:
    module, _, name = test.partition("::")
    assert ROOT / module in [place for _, places in modules_named(promises()[number]) for place in places]
    assert functions_of(module)[name] is False


def test_every_test_is_in_one_part_and_parts_are_equally_long() -> None:
    items = [an_item(f"{module}.py::test[{n}]") for module in "abcdefgh" for n in range(100)]
    parts = [in_part(items, f"{number}/7") for number in range(1, 8)]
    assert sorted(item.nodeid for part in parts for item in part) == sorted(item.nodeid for item in items)
    assert max(map(len, parts)) - min(map(len, parts)) <= 6
    with pytest.raises(pytest.UsageError, match="--part is '5/4'"):
        in_part(items, "5/4")


@pytest.mark.parametrize("parts", [1, 3, 61])
def test_modules_of_pages_take_turns_that_are_shorter_than_all_parts(parts: int) -> None:
    items = [an_item(f"{ROOT}/browser/test_{name}.py::test[{n}]") for name in "abcdef" for n in range(9)]
    taken = [in_part(items, f"{number}/{parts}") for number in range(1, parts + 1)]
    assert {item.nodeid for part in taken[:4] for item in part} == {item.nodeid for item in items}
    assert all(len(part) < len(items) for part in taken) or parts == 1


def test_modules_without_a_long_test_need_not_be_imported_where_only_those_are_asked_for() -> None:
    tests = PROJECT_ROOT / ROOT
    some = [*STAY, *ON_SQLITE_ONLY, "acceptance/test_cli.py", "support/long_tests.py", "unit"]
    assert [each for each in some if not may_have_some(tests / each)] == []
    assert not may_have_some(tests / "unit" / "calendar" / "test_windows.py")


def an_item(nodeid: str) -> pytest.Item:
    return cast(pytest.Item, SimpleNamespace(nodeid=nodeid))
