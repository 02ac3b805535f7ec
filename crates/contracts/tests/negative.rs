//! The checks fail where the law is broken: each fault of a store is found by the check that is there for it.

mod faulty;

use faulty::{Fault, On};
use semel_contracts::store::checks;

/// A fault, and checks that must find it. Others may find it too.
const FOUND_BY: [(Fault, &[&str]); 18] = [
    (
        Fault::PoolsDroppedLanes,
        &["claims/uncommitted_claims_vanish", "cancellation/dropped_at_random_moments", "proof/a_panic_leaves_nothing"],
    ),
    (
        Fault::SaysFreshForDuplicates,
        &["claims/a_repeat_is_a_duplicate", "twins/twins_through_eight_lanes", "consumer/twelve_hundred_and_three"],
    ),
    (Fault::SaysDuplicateForConflicts, &["claims/other_content_is_a_conflict", "batches/verdicts_come_in_order"]),
    (Fault::ComparesAllVersions, &["claims/fingerprints_of_other_versions_match"]),
    (
        Fault::ClaimsInAnotherTransaction,
        &["claims/an_error_leaves_nothing", "cancellation/dropped_after_each_poll", "proof/a_deferred_constraint"],
    ),
    (Fault::FoldsIds, &["identity/lookalikes_are_different"]),
    (Fault::CutsIds, &["identity/long_ids"]),
    (
        Fault::TrustsCommit,
        &["proof/a_raw_commit", "proof/a_raw_rollback_and_begin", "proof/a_leaked_nested_transaction"],
    ),
    (Fault::LosesWaiting, &["inbox/due_in_order", "consumer/the_next_run_takes_up"]),
    (Fault::LosesDeadLetters, &["dead_letters/a_letter_is_read_back", "consumer/one_poison_message"]),
    (Fault::FinishesNothing, &["inbox/finishing_stamps_anew", "inbox/workers_race"]),
    (Fault::ClosesNothing, &["records/attempts", "consumer/careful_attempts"]),
    (Fault::HoldsNoKeys, &["keys/held_keys_are_told", "policies/hold_over_runs"]),
    (Fault::HasNoFloor, &["floor/the_floor_is_monotone", "floor/stale_below_the_floor"]),
    (Fault::SweepsForEver, &["retention/bounded_steps", "retention/a_page_of_what_must_stay"]),
    (Fault::LooksAway, &["claims/looking_writes_nothing"]),
    (Fault::TakesChangedSetups, &["schema/a_changed_setup"]),
    (Fault::DiscardsNothing, &["dead_letters/discarding"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_found() {
    let checks = checks::<On>();
    for (fault, names) in FOUND_BY {
        for name in names {
            let check =
                checks.iter().find(|check| check.name() == *name).unwrap_or_else(|| panic!("there is no check {name}"));
            let fails = check.run(&On(fault)).await;
            assert!(fails.is_err(), "{name} passes on a store with the fault {fault:?}");
        }
    }
}

/// Or else the checks above might fail for another reason.
#[tokio::test(flavor = "multi_thread")]
async fn the_wrapper_itself_has_no_fault() {
    for check in checks::<On>() {
        let passes = check.run(&On(Fault::None)).await;
        assert_eq!(passes, Ok(()), "{check}");
    }
}
