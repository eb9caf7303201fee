"""Which tests does `make test` leave to `make test-long`, so that one can run it while thinking?

Most tests with a second database or with many processes, and most members of families that show one promise from many
sides. Of every promise its central tests stay (`unit/test_long_tests.py`); `.ci/run` runs both. Those in `browser` need
Chromium, and are run by `make test-ui` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pytest

ROOT = PurePosixPath("backfill_assets_tests")

LEFT_OUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "acceptance/test_cli.py": {
        "test_a_run_over_a_target_that_changed_is_refused_and_can_run_again": (),
    },
    "acceptance/test_dg.py": {
        "test_dg_lists_the_definitions_of_the_settings_domain": (),
        "test_dg_checks_the_definitions": (),
        "test_dg_check_fails_with_the_sentence_of_a_domain_that_cannot_be_loaded": (),
        "test_dg_dev_serves_the_code_location_under_the_name_that_runs_of_commands_have": (),
    },
    "acceptance/test_traffic_fines.py": {
        "test_a_part_of_the_log_is_published_wrong_restated_right_and_brought_back": (),
        "test_what_was_restated_is_reproduced_from_its_manifest_alone": (),
        "test_a_month_of_warm_up_is_caught_and_the_declared_window_passes": (),
        "test_one_corrected_event_moves_only_the_days_and_months_whose_rows_really_change": (),
    },
    "acceptance/test_traffic_fines_extract.py": {
        "test_a_year_of_the_log_is_replaced_by_an_extract_that_lacks_moves_and_adds_some_of_it": (),
    },
    "browser/test_story.py": {
        "test_the_report_was_read_approved_by_another_person_and_rolled_back_in_the_browser": (),
        "test_a_number_is_followed_to_every_run_that_ever_computed_it": (),
        "test_a_month_is_called_a_month": (),
        "test_the_calendar_has_a_year_of_every_table": (),
        "test_no_page_of_the_desk_asks_the_network": (),
        "test_the_same_story_by_commands_leaves_the_same_ledger_and_the_same_runs_in_dagster": (),
    },
    "faults/test_crashes.py": {
        "test_nothing_is_lost_wherever_it_is_killed": ("publish",),
        "test_nothing_is_lost_when_it_is_killed_at": (
            "land an extract-land: the keys that a statement is about are written beside the archive",
        ),
    },
    "faults/test_fencing.py": {
        "test_a_recovery_that_slept_does_not_close_what_another_one_has_closed": (),
    },
    "faults/test_fuzz.py": {
        "test_every_record_of_hostile_files_is_accounted_for": ("few",),
        "test_the_accounts_of_a_source_that_changes_its_mind_close_after_whatever_is_done": ("few",),
    },
    "faults/test_interleavings.py": {
        "test_in_every_order_of_the_phases_nothing_is_amiss": (
            "backfill x live",
            "restage x cancel",
            "vacuum x foreign restore",
        ),
    },
    "faults/test_stories.py": {
        "test_after_every_step_documents_answer_and_readers_see_what_the_ledger_says_and_nothing_is_stuck": (),
    },
    "integration/test_breakdowns.py": {
        "test_what_moved_too_far_waits_for_a_written_comment": (),
        "test_a_policy_cannot_comment": (),
        "test_a_set_needs_the_comment_of_each_of_its_runs": (),
        "test_a_breakdown_is_kept_with_its_run_and_can_be_erased": (),
        "test_days_that_are_new_are_no_move": (),
    },
    "integration/test_cancellation.py": {
        "test_a_report_says_when_a_run_goes_back_to_an_earlier_release": (),
        "test_a_report_warns_of_the_days_on_its_borders_that_keep_another_release": (),
        "test_a_report_says_when_the_inputs_of_a_run_have_changed_since_it_was_planned": (),
    },
    "integration/test_cited_proofs.py": {
        "test_a_published_proof_is_cited_and_nothing_is_computed_again": ("days between others",),
    },
    "integration/test_containers.py": {
        "test_every_command_of_the_compose_file_runs_and_a_run_is_executed_where_the_code_is": (),
    },
    "integration/test_clusters.py": {
        "test_the_same_rows_and_the_same_verdicts_wherever_it_is_computed": (),
    },
    "integration/test_contracts.py": {
        "test_a_contract_that_forgets_the_one_before_lands_nothing": (),
        "test_a_column_is_added_one_renamed_and_one_widened_with_days_before_each": ("three days",),
        "test_a_correction_of_an_old_day_is_built_in_the_present_contract_and_rolled_back": (),
        "test_a_lift_that_changes_values_makes_what_was_built_before_stale": (),
        "test_check_names_what_was_built_before_and_what_would_have_to_be_restated": (),
        "test_files_name_their_version_record_by_record_or_by_their_columns": (),
        "test_a_derived_table_takes_one_column_more_and_its_old_partitions_are_named": (),
        "test_a_reprocessed_file_is_kept_in_the_present_contract": (),
    },
    "integration/test_dagster_colours.py": {
        "test_after_every_step_every_partition_is_green_where_it_is_accepted_and_none_is_red": ("short",),
    },
    "integration/test_dagster_postgres.py": {
        "test_processes_that_come_first_at_the_same_time_make_the_tables_once": (),
        "test_the_whole_way_with_ledger_and_dagster_in_one_database": (),
        "test_old_runs_go_and_pages_are_as_they_were": (),
    },
    "integration/test_dagster_prune.py": {
        "test_runs_that_no_page_shows_go_and_pages_are_as_they_were": (),
    },
    "integration/test_dagster_acts.py": {
        "test_what_is_stale_becomes_a_set_that_is_staged_and_can_be_cancelled": (),
    },
    "integration/test_dagster_runs.py": {
        "test_dependents_follow_a_publication_once": (),
        "test_a_load_of_days_with_a_gap_reports_exactly_the_days_that_landed": (),
        "test_later_launches_find_the_run_that_an_earlier_one_has_staged": (),
        "test_a_bronze_day_on_which_nothing_landed_is_only_built_when_declared_empty": (),
    },
    "integration/test_dagster_storage.py": {
        "test_a_long_run_leaves_a_fifth_of_what_dagster_would_keep_of_each_partition": (),
    },
    "integration/test_desk.py": {
        "test_only_the_landed_files_within_the_window_are_behind_a_row": (),
    },
    "integration/test_doctor.py": {
        "test_a_bucket_that_is_not_there_is_named_and_the_rest_is_tried": (),
        "test_a_store_is_tried_with_spark_as_well_and_nothing_is_left": (),
        "test_a_store_that_ignores_conditions_is_named": (),
    },
    "integration/test_drop.py": {
        "test_a_bad_file_is_given_up_with_its_sentence_and_tried_again_when_it_is_replaced_or_cleared": (),
        "test_ten_thousand_files_are_taken_some_at_a_time_and_a_cursor_may_say_anything": (),
        "test_without_a_person_or_a_folder_nothing_lands": (),
        "test_a_file_that_kills_its_process_three_times_is_given_up_and_the_others_land": (),
    },
    "integration/test_dying_and_reading.py": {
        "test_a_run_whose_process_died_while_staging_is_failed_by_recover_and_can_run_again": (),
        "test_while_a_publication_is_open_another_one_on_the_table_is_refused": (),
        "test_a_kill_in_a_rollback_ends_as_a_whole_rollback_or_none": (),
    },
    "integration/test_early_cutoff.py": {
        "test_a_run_that_only_verified_is_superseded_with_what_it_verified": (),
        "test_a_source_day_that_holds_the_same_rows_is_not_swapped": (),
        "test_a_damaged_partition_is_seen_as_drift_and_replaced": (),
        "test_an_equal_partition_that_another_run_replaced_meanwhile_refuses_the_whole_publication": (),
        "test_a_run_that_changes_nothing_commits_nothing_notifies_no_dependent_and_cannot_be_undone": (),
    },
    "integration/test_enforcement_demo_events.py": {
        "test_the_defect_moves_some_rows_of_every_jurisdiction_and_leaves_most_alone": (),
        "test_there_are_enough_rows_in_every_state_and_jurisdiction_but_few_enough_for_a_demo": (),
        "test_the_defect_moves_monthly_figures_that_a_regulator_would_read": (),
    },
    "integration/test_enforcement_sla_by_the_rules.py": {
        "test_the_defective_release_gives_the_same_reading_with_utc_dates": (),
        "test_the_order_and_the_partitions_of_the_input_change_nothing": (),
        "test_the_two_releases_differ_where_the_dates_differ_and_nowhere_else": (),
    },
    "integration/test_enforcement_sla_traffic_fines.py": {
        "test_a_week_of_rows_is_equal_in_every_column": ("3.1.0",),
        "test_the_rows_of_every_day_clock_and_state_are_equal_in_number": ("3.1.0",),
        "test_the_monthly_figures_are_equal_and_the_rate_is_their_quotient": ("3.1.0",),
    },
    "integration/test_failing_machines.py": {
        "test_a_staged_file_that_was_cut_is_not_published_and_only_its_chunk_is_staged_again": (),
        "test_a_damaged_input_ends_staging_in_words_and_changes_nothing": (),
        "test_a_commit_that_landed_and_was_reported_as_lost_to_another_writer_counts": (),
        "test_a_full_disk_ends_staging_in_words_and_it_goes_on_when_there_is_room": (),
        "test_a_ledger_that_is_locked_too_long_is_reported_and_nothing_is_lost": (),
    },
    "integration/test_follow_replay.py": {
        "test_every_affected_month_is_asked_for_once_none_is_missed_and_none_is_stuck": ("short",),
    },
    "integration/test_gates.py": {
        "test_rows_that_differ_have_other_checksums": ("left0-right0",),
    },
    "integration/test_hostile_words.py": {
        "test_files_may_have_any_name_and_their_records_any_text": (),
        "test_a_link_to_a_file_is_landed_as_the_file": (),
        "test_no_word_of_a_statement_withdraws_anything_or_shows_a_traceback": ("0", "21", "27"),
        "test_no_word_of_any_command_changes_anything_or_shows_a_traceback": (
            "0",
            "2",
            "3",
            "6",
            "8",
            "12",
            "15",
            "21",
        ),
    },
    "integration/test_identity.py": {
        "test_a_manifest_names_the_runs_whose_accepted_rows_it_replaces": (),
        "test_versions_are_recorded_when_a_run_is_planned_and_staged_and_compared_when_it_is_reproduced": (),
    },
    "integration/test_interleavings_on_postgresql.py": {
        "test_in_random_orders_nothing_is_amiss_with_the_ledger_in_postgresql": (),
        "test_in_every_order_of_the_phases_nothing_is_amiss_with_the_ledger_in_postgresql": (),
    },
    "integration/test_landing_changes.py": {
        "test_a_feed_in_any_order_of_arrival_is_what_its_own_order_says": (),
        "test_a_truncate_that_is_delivered_twice_counts_once": (),
    },
    "integration/test_landing_compacted.py": {
        "test_a_process_that_dies_while_it_compacts_and_files_that_are_damaged_or_gone_change_no_account": (),
    },
    "integration/test_landing_formats.py": {
        "test_lines_keep_their_numbers_across_the_splits_of_a_large_file": (),
        "test_a_header_alone_is_a_file_without_records": (),
    },
    "integration/test_landing_land.py": {
        "test_reprocessing_counts_an_import_again_in_its_place": (),
        "test_pending_days_are_those_that_landed_files_touch_and_the_gaps_between": (),
        "test_reprocessing_under_another_first_day_counts_every_import_that_it_changes": (),
        "test_a_correction_lands_old_content_again_and_its_records_win": (),
        "test_days_of_an_import_whose_reprocessing_stopped_cannot_be_built": (),
        "test_the_same_content_again_is_refused_when_that_was_asked_for": (),
        "test_a_later_file_supersedes_records_where_they_were_accepted": (),
        "test_a_key_that_left_a_day_is_gone_from_it_even_when_no_other_record_of_the_file_has_that_day": (),
        "test_a_file_without_records_lands": (),
        "test_an_import_that_stops_with_an_error_is_failed_and_lands_when_it_is_tried_again": (),
    },
    "integration/test_landing_statements.py": {
        "test_a_preview_says_what_would_be_withdrawn_and_keeps_nothing": (),
        "test_too_much_is_refused_unless_a_person_confirms_it": (),
        "test_after_an_extract_bronze_is_what_it_is_where_only_the_extract_landed": ("0",),
        "test_the_same_extract_again_changes_nothing_until_something_else_lands": (),
        "test_a_rejected_record_withdraws_nothing_and_one_without_key_refuses_the_extract": (),
        "test_one_key_is_withdrawn_restored_and_lands_again": (),
        "test_an_extract_of_a_part_leaves_the_rest_alone": (),
        "test_a_key_with_several_versions_is_withdrawn_once_and_touches_all_their_days": (),
    },
    "integration/test_landing_together.py": {
        "test_files_of_one_call_are_what_they_are_one_after_the_other": (),
        "test_a_file_that_is_found_bad_while_all_are_counted_stops_those_after_it_and_none_before_it": (),
    },
    "integration/test_leases.py": {
        "test_a_process_that_stops_the_work_releases_its_lease_at_once": ("KeyboardInterrupt-stage",),
        "test_a_staged_run_waits_for_its_gates_through_every_recovery": (),
    },
    "integration/test_ledger_publications.py": {
        "test_five_thousand_partitions_are_staged_gated_published_and_rolled_back": (),
    },
    "integration/test_live.py": {
        "test_the_newest_days_are_published_by_policy_once_and_by_the_same_code": (),
        "test_where_the_policy_asks_for_a_person_the_run_waits_and_nothing_is_planned_beside_it": (),
        "test_a_blocked_day_stops_what_comes_after_it_and_is_listed_until_it_is_cancelled": (),
    },
    "integration/test_many_changes.py": {
        "test_a_feed_in_pieces_in_any_order_and_twice_is_what_its_own_order_says": ("short",),
    },
    "integration/test_nothing_left.py": {
        "test_a_day_whose_only_sale_is_withdrawn_is_built_reproduced_and_undone": (),
        "test_what_reads_days_without_rows_is_computed_in_chunks_and_proven_where_they_meet": (),
    },
    "integration/test_plan_is_run.py": {
        "test_a_run_is_not_measured_by_other_gates_than_were_agreed": ("False",),
    },
    "integration/test_propose.py": {
        "test_a_draft_that_a_person_has_begun_keeps_its_partitions": (),
        "test_a_draft_ends_when_a_person_has_restated_its_days": (),
        "test_a_day_within_the_lateness_that_meets_an_older_one_is_proposed_with_it": (),
        "test_the_rest_is_proposed_beside_what_is_approved": (),
    },
    "integration/test_publication.py": {
        "test_a_dry_run_and_a_reconciliation_block_no_other_run_and_are_not_found_to_be_published": (),
        "test_an_empty_target_partition_that_got_rows_meanwhile_is_refused": (),
        "test_the_same_manifest_gives_the_same_checksums_again": (),
        "test_a_restatement_leaves_other_partitions_untouched_byte_for_byte": (),
        "test_a_run_reads_the_input_it_was_planned_with_even_after_the_input_moved_on": (),
    },
    "integration/test_publication_and_inputs.py": {
        "test_a_long_time_without_events_is_asked_about_where_files_land": (),
        "test_a_replay_may_take_readers_back": (),
        "test_a_run_whose_inputs_moved_on_is_published_where_readers_see_nothing_newer": (),
        "test_a_late_sale_moves_bronze_and_what_a_restatement_computes": (),
        "test_a_day_without_sales_is_declared_empty_by_a_person_and_counts_as_built": (),
        "test_an_event_dated_a_year_ahead_fills_no_year": ("True",),
        "test_the_whole_way_is_the_same_with_the_ledger_in_postgresql": (),
        "test_a_word_given_before_events_landed_does_not_replace_them": (),
        "test_a_declared_empty_day_is_not_published_once_an_event_of_then_has_landed": (),
        "test_a_run_that_read_older_inputs_cannot_take_readers_back": (),
    },
    "integration/test_reading_changes.py": {
        "test_a_late_delete_is_stale_where_either_reader_reads_it_and_is_undone_as_a_set": (),
        "test_a_late_version_that_decides_nothing_moves_only_who_reads_changes": (),
        "test_a_truncate_ends_every_order_for_both_readers": (),
    },
    "integration/test_reference_semantics.py": {
        "test_a_corrected_version_is_one_that_was_used_before_or_a_file": (),
        "test_rows_with_chosen_references_are_not_stale_and_say_on_whose_word": (),
        "test_a_proposal_takes_the_present_references_and_says_which_take_the_place_of_which": (),
        "test_what_a_change_reaches_as_recorded_follows_from_the_earlier_windows": (),
        "test_every_semantics_is_reproduced_and_undone": (),
        "test_what_is_stale_for_another_reason_as_well_is_left_to_a_person": (),
    },
    "integration/test_reproduce.py": {
        "test_a_sample_is_spread_over_the_run_with_both_ends_in_it": (),
        "test_after_one_byte_of_the_transforms_module_changed_it_is_refused": (),
        "test_what_differs_is_said_even_when_the_published_files_are_gone": (),
        "test_a_run_is_rebuilt_from_its_own_inputs_and_release_after_both_have_moved_on": (),
    },
    "integration/test_resume.py": {
        "test_a_process_that_was_given_up_changes_nothing_when_it_wakes_up": ("chunk 2 of 4: -recovers-FAILED",),
        "test_of_two_processes_that_gate_a_run_the_earlier_one_is_refused": (),
        "test_who_lost_a_run_and_fails_does_not_fail_it_for_the_one_that_has_it": ("stages_half",),
        "test_staging_waits_as_long_as_the_manifest_asks": (),
        "test_the_rows_staged_so_far_are_only_counted_where_the_manifest_limits_them": (),
        "test_only_the_chunk_whose_staged_file_is_damaged_is_computed_again": (),
        "test_a_run_of_six_chunks_killed_twice_is_resumed_with_equal_checksums_and_no_chunk_done_twice": (),
    },
    "integration/test_rollback_of_sets.py": {
        "test_a_set_is_rolled_back_after_what_one_of_its_tables_had_found_equal_was_undone": (),
        "test_a_set_of_which_one_table_was_wholly_equal_is_rolled_back_and_published_again_and_again": (),
    },
    "integration/test_rollback_with_dependents.py": {
        "test_what_has_an_earlier_version_again_takes_nothing_along": (),
        "test_gold_of_a_set_is_not_taken_out_of_it": (),
    },
    "integration/test_samples.py": {
        "test_a_reviewer_reads_rows_until_they_are_erased": (),
    },
    "integration/test_seam_proof.py": {
        "test_a_window_short_by_one_day_is_caught_in_chunks_of_a_hundred_days": (),
        "test_a_seam_whose_checksum_is_not_known_is_computed_by_the_gate": (),
        "test_where_the_key_is_not_unique_the_proof_says_that_it_is_not_usable": (),
        "test_rows_that_a_run_in_chunks_gets_wrong_are_caught_after_it_died_and_went_on": ("back",),
        "test_where_nothing_lies_between_two_others_a_longer_window_is_the_proof": (),
        "test_a_run_whose_days_have_gaps_has_seams_where_they_are_consecutive": (),
        "test_a_run_that_an_earlier_release_planned_is_proven_as_it_was_agreed": (),
    },
    "integration/test_sets.py": {
        "test_the_runs_of_a_set_are_reproduced_one_by_one": (),
        "test_a_late_sale_moves_exactly_what_rests_on_it_in_both_tables": (),
        "test_what_did_not_change_is_verified_in_every_table_of_the_set": (),
        "test_everything_stale_is_one_set_and_afterwards_nothing_is": (),
        "test_a_set_is_approved_by_a_person_who_may_approve_every_run_of_it": (),
    },
    "integration/test_sets_half_way.py": {
        "test_a_rollback_that_stopped_half_way_can_be_given_up": (),
        "test_a_set_that_is_never_published_says_so": (),
        "test_the_versions_of_a_set_are_those_of_the_whole_set": (),
        "test_a_set_whose_first_table_changed_is_refused_with_nothing_changed": (),
        "test_what_a_set_found_equal_is_undone_with_it": (),
        "test_days_that_were_not_loaded_are_loaded_range_by_range": (),
        "test_sales_that_landed_and_are_not_loaded_are_named_before_anything_is_planned": (),
        "test_a_set_is_rolled_back_as_a_whole_or_not_at_all": (),
    },
    "integration/test_sets_publish_what_they_read.py": {
        "test_the_rows_that_are_kept_of_a_set_are_erased_by_its_name": (),
        "test_running_a_set_that_is_ready_stages_nothing_again": (),
        "test_a_run_of_a_set_is_shown_where_another_run_of_the_set_cannot_be_read": (),
    },
    "integration/test_sets_with_gaps.py": {
        "test_a_dagster_run_names_the_range_from_the_first_to_the_last_partition_of_its_manifest": (),
        "test_a_launch_over_gaps_says_what_to_launch_before_anything_is_computed": (),
    },
    "integration/test_stale.py": {
        "test_a_correction_is_stale_first_in_bronze_and_then_where_windows_reach_it": (),
        "test_an_older_run_that_is_published_late_and_found_equal_leaves_a_fresh_partition_fresh": (),
        "test_an_earlier_version_is_stale_and_a_restatement_rebuilds_it": (),
        "test_a_gap_that_was_not_named_is_listed_as_left_out_even_when_nothing_else_is_stale": (),
        "test_never_built_is_what_could_be_built_of_the_days_that_were_asked_about": (),
    },
    "integration/test_tampering.py": {
        "test_publication_reads_no_bytes_of_files_that_were_not_touched_since_they_were_staged": (),
    },
    "integration/test_typed_authority.py": {
        "test_no_process_and_no_config_publishes_what_waits_for_another_person": (),
        "test_no_combination_of_tags_computes_anything_without_a_name": (),
        "test_what_one_person_can_have_computed_is_still_not_published": (),
    },
    "integration/test_vacuum.py": {
        "test_past_the_rollback_horizon_a_published_run_can_still_be_reproduced": (),
        "test_quarantined_records_stay_as_people_read_them": (),
        "test_a_table_with_an_open_publication_is_left_alone_and_that_is_said": (),
        "test_others_write_while_a_vacuum_looks_at_the_tables": (),
        "test_a_run_that_was_rolled_back_can_be_published_again_within_the_horizon_only": (),
        "test_a_process_that_dies_before_removing_leaves_files_for_the_next_one": (),
    },
    "integration/test_warm_up_proof.py": {
        "test_an_author_can_opt_out_or_only_be_warned": (),
        "test_a_dry_run_is_proven_too": (),
        "test_a_look_ahead_that_is_too_short_blocks_the_run_as_well": (),
        "test_the_example_of_the_readme_is_proven": (),
    },
    "integration/test_windows_per_input.py": {
        "test_a_slow_dimension_has_no_warm_up_of_its_own": (),
        "test_the_proof_reads_each_input_longer_by_its_own_measure": (),
        "test_a_corrected_day_of_the_dimension_restates_exactly_that_day": (),
        "test_a_corrected_sale_reaches_the_31_days_that_read_it": (),
    },
    "integration/test_work_log.py": {
        "test_a_command_writes_lines_in_place_of_its_progress": (),
    },
}
"""By module and test: the members of its family that stay, by their identifiers; none if it is left out as a whole."""

ON_SQLITE_ONLY = tuple(
    f"integration/test_{name}.py"
    for name in ("cancellation", "ledger_migrations", "ledger_publications", "ledger_runs", "ledger_staging")
)
"""Modules that try both databases, and whose tests with PostgreSQL are left out but for `ON_POSTGRESQL_TOO`."""

ON_POSTGRESQL_TOO = ("test_every_row_of_an_earlier_revision_is_there_after_the_upgrade[0001-postgresql]",)


def mark(items: Iterable[pytest.Item]) -> None:
    """Marks the tests that are left out.

    Raises:
        UsageError: Of a family nothing stays, because its identifiers were changed.
    """
    stays = {f"{ROOT / module}::{test}": ids for module, tests in LEFT_OUT.items() for test, ids in tests.items()}
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
        if stays[name] and len(members) > 1 and len(left_out) == len(members):
            raise pytest.UsageError(f"of {name} nothing stays: {', '.join(stays[name])} is not among its tests")
