//! Every model of the journal's lock-free parts, in every order of its threads.

macro_rules! models {
    ($($name:ident)*) => { $(#[test] fn $name() { flyball_loom::models::$name(); })* };
}

models! {
    a_caller_is_woken_by_the_commit_that_it_waits_for
    one_commit_wakes_every_caller_of_the_lane
    a_caller_that_waits_for_a_later_commit_is_woken_by_that_one
    a_lost_record_fails_its_caller_and_no_other
    a_lost_record_without_a_caller_is_counted_once
    a_record_that_was_kept_is_never_counted_as_lost
    a_ring_knows_its_bytes_and_takes_no_record_for_younger_than_it_is
    a_sleeping_writer_is_woken_by_a_record_or_sees_it
    a_napping_writer_is_woken_by_whoever_waits
}
