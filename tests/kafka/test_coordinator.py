"""What the driver of an app promises where the log matters, on Kafka too: the same tests, in threads."""

from __future__ import annotations

from tests.runtime.driver.test_coordinator import (
    test_a_second_driver_takes_over_and_the_first_ends,
    test_a_slot_of_an_older_attempt_does_nothing,
    test_a_slot_that_fails_starts_again_as_a_new_attempt_and_nothing_counts_twice,
    test_a_start_that_goes_no_further_does_not_fence_the_driver_that_runs,
    test_a_stop_from_outside_ends_the_app_in_order,
    test_a_writer_of_the_last_plan_is_fenced_before_new_slots_open_tasks,
    test_caught_up_means_that_internal_topics_are_drained_too,
    test_each_start_goes_on_where_the_last_one_ended_with_any_number_of_slots,
    test_positions_and_topics_of_an_app_are_written_by_its_plan_before_any_slot_runs,
)

__all__ = [
    "test_a_second_driver_takes_over_and_the_first_ends",
    "test_a_slot_of_an_older_attempt_does_nothing",
    "test_a_slot_that_fails_starts_again_as_a_new_attempt_and_nothing_counts_twice",
    "test_a_start_that_goes_no_further_does_not_fence_the_driver_that_runs",
    "test_a_stop_from_outside_ends_the_app_in_order",
    "test_a_writer_of_the_last_plan_is_fenced_before_new_slots_open_tasks",
    "test_caught_up_means_that_internal_topics_are_drained_too",
    "test_each_start_goes_on_where_the_last_one_ended_with_any_number_of_slots",
    "test_positions_and_topics_of_an_app_are_written_by_its_plan_before_any_slot_runs",
]
