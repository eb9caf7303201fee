"""Which tests does `make test` leave to `make test-long`, so that one can run it while thinking?

Those that need a browser, a second database or many processes, and most members of families that show one promise from
many sides. Of every promise some test stays; `.ci/run` runs both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pytest

ROOT = PurePosixPath("backfill_assets_tests")

LEFT_OUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "acceptance/test_traffic_fines.py": {
        "test_a_part_of_the_log_is_published_wrong_restated_right_and_brought_back": (),
        "test_what_was_restated_is_reproduced_from_its_manifest_alone": (),
        "test_a_month_of_warm_up_is_caught_and_the_declared_window_passes": (),
        "test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change": (),
    },
    "faults/test_crashes.py": {
        "test_nothing_is_lost_wherever_it_is_killed": ("publish",),
        "test_nothing_is_lost_when_it_is_killed_at": (
            "stage-stage: the files of a chunk are written and not in the ledger",
        ),
    },
    "faults/test_fuzz.py": {
        "test_every_record_of_hostile_files_is_accounted_for": ("some",),
    },
    "faults/test_interleavings.py": {
        "test_in_every_order_of_the_phases_nothing_is_amiss": (
            "backfill x live",
            "backfill x recover",
            "rollback x equal",
            "vacuum x foreign restore",
            "restage x cancel",
        ),
    },
    "integration/test_cancellation.py": {
        "test_a_report_says_when_a_run_goes_back_to_an_earlier_release": (),
    },
    "integration/test_dagster_postgres.py": {
        "test_processes_that_come_first_at_the_same_time_make_the_tables_once": (),
        "test_the_whole_way_with_ledger_and_dagster_in_one_database": (),
    },
    "integration/test_dagster_runs.py": {
        "test_dependents_follow_a_publication_once": (),
        "test_a_load_of_days_with_a_gap_reports_exactly_the_days_that_landed": (),
    },
    "integration/test_early_cutoff.py": {
        "test_a_run_that_only_verified_is_superseded_with_what_it_verified": (),
        "test_a_source_day_that_holds_the_same_rows_is_not_swapped": (),
    },
    "integration/test_hostile_words.py": {
        "test_files_may_have_any_name_and_their_records_any_text": ("some",),
    },
    "integration/test_landing_formats.py": {
        "test_lines_keep_their_numbers_across_the_splits_of_a_large_file": (),
    },
    "integration/test_landing_land.py": {
        "test_reprocessing_under_another_first_day_counts_every_import_that_it_changes": (),
        "test_a_correction_lands_old_content_again_and_its_records_win": (),
        "test_days_of_an_import_whose_reprocessing_stopped_cannot_be_built": (),
        "test_the_same_content_again_is_refused_when_that_was_asked_for": (),
    },
    "integration/test_leases.py": {
        "test_a_process_that_stops_the_work_releases_its_lease_at_once": (
            "KeyboardInterrupt-stage",
            "OSError-gate",
        ),
    },
    "integration/test_ledger_publications.py": {
        "test_five_thousand_partitions_are_staged_gated_published_and_rolled_back": (),
    },
    "integration/test_publication.py": {
        "test_a_dry_run_and_a_reconciliation_block_no_other_run_and_are_not_found_to_be_published": (),
    },
    "integration/test_publication_and_inputs.py": {
        "test_a_replay_may_take_readers_back": (),
        "test_a_run_whose_inputs_moved_on_is_published_where_readers_see_nothing_newer": (),
        "test_a_late_sale_moves_bronze_and_what_a_restatement_computes": (),
        "test_a_day_without_sales_is_declared_empty_by_a_person_and_counts_as_built": (),
        "test_an_event_dated_a_year_ahead_fills_no_year": ("True",),
        "test_the_whole_way_is_the_same_with_the_ledger_in_postgresql": (),
    },
    "integration/test_reproduce.py": {
        "test_a_sample_is_spread_over_the_run_with_both_ends_in_it": (),
        "test_after_one_byte_of_the_transforms_module_changed_it_is_refused": (),
        "test_what_differs_is_said_even_when_the_published_files_are_gone": (),
    },
    "integration/test_resume.py": {
        "test_a_process_that_was_given_up_changes_nothing_when_it_wakes_up": ("chunk 2 of 4: -recovers-FAILED",),
        "test_of_two_processes_that_gate_a_run_the_earlier_one_is_refused": ("gates-PASSED-False",),
        "test_who_lost_a_run_and_fails_does_not_fail_it_for_the_one_that_has_it": ("stages_half",),
        "test_staging_waits_as_long_as_the_manifest_asks": (),
        "test_the_rows_staged_so_far_are_only_counted_where_the_manifest_limits_them": ("100-5",),
    },
    "integration/test_seam_proof.py": {
        "test_a_window_short_by_one_day_is_caught_in_chunks_of_a_hundred_days": ("120 days",),
        "test_a_seam_whose_checksum_is_not_known_is_computed_by_the_gate": (),
        "test_where_the_key_is_not_unique_the_proof_says_that_it_is_not_usable": (),
        "test_rows_that_a_run_in_chunks_gets_wrong_are_caught_after_it_died_and_went_on": ("back",),
    },
    "integration/test_sets.py": {
        "test_a_set_is_approved_by_a_person_who_may_approve_every_run_of_it": (),
    },
    "integration/test_sets_half_way.py": {
        "test_a_rollback_that_stopped_half_way_can_be_given_up": (),
        "test_a_set_that_is_never_published_says_so": (),
        "test_a_set_whose_first_table_changed_is_refused_with_nothing_changed": (),
    },
    "integration/test_stale.py": {
        "test_an_older_run_that_is_published_late_and_found_equal_leaves_a_fresh_partition_fresh": (),
    },
    "integration/test_vacuum.py": {
        "test_past_the_rollback_horizon_a_published_run_can_still_be_reproduced": (),
    },
    "integration/test_warm_up_proof.py": {
        "test_an_author_can_opt_out_or_only_be_warned": (),
        "test_a_dry_run_is_proven_too": (),
        "test_a_look_ahead_that_is_too_short_blocks_the_run_as_well": (),
    },
}
"""By module and test: the members of its family that stay, by their identifiers; none if it is left out as a whole."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the tests that are left out.

    Raises:
        UsageError: Of a family nothing stays, because its identifiers were changed.
    """
    stays = {f"{ROOT / module}::{test}": ids for module, tests in LEFT_OUT.items() for test, ids in tests.items()}
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, _, _ = item.nodeid.partition("[")
        if name in stays:
            found.setdefault(name, []).append(item)
    for name, members in found.items():
        left_out = [item for item in members if item.nodeid not in {f"{name}[{each}]" for each in stays[name]}]
        for item in left_out:
            item.add_marker("long")
        if stays[name] and len(members) > 1 and len(left_out) == len(members):
            raise pytest.UsageError(f"of {name} nothing stays: {', '.join(stays[name])} is not among its tests")
