//! Faults that other systems have shipped, by their symptom: one file each, with the number of the case and the
//! system where it was seen. Only those that this version could have, and that no other test here shows.

#[path = "bugs/a_batch_with_known_ids_blew_up.rs"]
mod a_batch_with_known_ids_blew_up;
#[path = "bugs/a_busy_system_was_never_cleaned_up.rs"]
mod a_busy_system_was_never_cleaned_up;
#[path = "bugs/a_cancelled_migration_left_its_lock.rs"]
mod a_cancelled_migration_left_its_lock;
#[path = "bugs/a_conflict_was_told_by_its_english_text.rs"]
mod a_conflict_was_told_by_its_english_text;
#[path = "bugs/a_failing_message_came_thousands_of_times_a_second.rs"]
mod a_failing_message_came_thousands_of_times_a_second;
#[path = "bugs/a_lock_was_held_while_waiting_to_retry.rs"]
mod a_lock_was_held_while_waiting_to_retry;
#[path = "bugs/a_message_went_to_the_handler_of_another_kind.rs"]
mod a_message_went_to_the_handler_of_another_kind;
#[path = "bugs/a_payload_did_not_fit_into_its_column.rs"]
mod a_payload_did_not_fit_into_its_column;
#[path = "bugs/a_stop_cut_the_work_short.rs"]
mod a_stop_cut_the_work_short;
#[path = "bugs/a_time_zone_shifted_the_times.rs"]
mod a_time_zone_shifted_the_times;
#[path = "bugs/an_id_was_made_up_for_each_delivery.rs"]
mod an_id_was_made_up_for_each_delivery;
#[path = "bugs/each_process_counted_its_own_failures.rs"]
mod each_process_counted_its_own_failures;
#[path = "bugs/every_instance_took_up_the_same_waiting_messages.rs"]
mod every_instance_took_up_the_same_waiting_messages;
#[path = "bugs/late_copies_came_after_the_cleanup.rs"]
mod late_copies_came_after_the_cleanup;
#[path = "bugs/long_ids_were_cut_and_merged.rs"]
mod long_ids_were_cut_and_merged;
#[path = "bugs/one_bad_record_failed_the_batch.rs"]
mod one_bad_record_failed_the_batch;
#[path = "bugs/one_message_was_parked_twice.rs"]
mod one_message_was_parked_twice;
#[path = "bugs/replicas_that_started_together_fell_over_the_schema.rs"]
mod replicas_that_started_together_fell_over_the_schema;
#[path = "bugs/sqlite_refused_the_write_lock_at_once.rs"]
mod sqlite_refused_the_write_lock_at_once;
#[path = "bugs/the_copy_was_known_to_another_consumer.rs"]
mod the_copy_was_known_to_another_consumer;
#[path = "bugs/the_highest_position_hid_an_unfinished_message.rs"]
mod the_highest_position_hid_an_unfinished_message;
#[path = "bugs/the_loser_of_a_race_found_no_row.rs"]
mod the_loser_of_a_race_found_no_row;
