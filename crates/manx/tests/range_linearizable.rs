//! What threads see of the default range lock can be explained by one order of their calls; and a
//! history that cannot be explained is found.

#[path = "common/histories.rs"]
mod histories;

use histories::{Call, Failure, What, histories_are_linearizable, is_linearizable};
use manx::range::{Access, Options, RangeLock, Span};

/// The lock whose ranges are all in one shard looks for what is in the way and takes in one step,
/// and gives back in one.
#[test]
fn range_lock_in_one_shard() {
    histories_are_linearizable(RangeLock::<u64, 1, 2>::new, Failure::WhileHeld);
}

#[test]
fn range_lock_within_a_block() {
    histories_are_linearizable(RangeLock::<u64>::new, Failure::WhileHeld);
}

/// Here a range is in several shards or wide, and is given back shard by shard.
#[test]
fn range_lock_over_several_shards() {
    let make = || RangeLock::<u64, 4, 1>::with(Options::new().block_log2(0));
    histories_are_linearizable(make, Failure::WhileGivenBack);
}

// The search finds what is wrong.

fn attempt(began: u64, ended: u64, keys: (u64, u64), had: bool) -> Call {
    let span = Span::new(keys.0, keys.1).expect("it has a key");
    Call { began, ended, what: What::Try { span, access: Access::Exclusive, had } }
}

fn unlock(began: u64, ended: u64, taken: usize) -> Call {
    Call { began, ended, what: What::Unlock { taken } }
}

#[test]
fn two_holders_are_not_explained() {
    let both = [attempt(0, 2, (0, 4), true), attempt(1, 3, (3, 5), true)];
    assert!(!is_linearizable(&both, Failure::WhileGivenBack));
    let strangers = [attempt(0, 2, (0, 3), true), attempt(1, 3, (3, 5), true)];
    assert!(is_linearizable(&strangers, Failure::WhileHeld));
}

#[test]
fn a_failure_without_a_reason_is_not_explained() {
    let late = [attempt(0, 1, (0, 4), true), unlock(2, 3, 0), attempt(4, 5, (0, 4), false)];
    assert!(!is_linearizable(&late, Failure::WhileGivenBack));
    let meanwhile = [attempt(0, 1, (0, 4), true), unlock(2, 4, 0), attempt(3, 5, (0, 4), false)];
    assert!(is_linearizable(&meanwhile, Failure::WhileHeld));
}

/// A range that is given back part by part: the one part is free, and later the other is not yet.
#[test]
fn parts_that_are_given_back_one_after_the_other_are_explained_where_that_is_said() {
    let parts = [
        attempt(0, 1, (0, 4), true),
        unlock(2, 9, 0),
        attempt(3, 4, (0, 2), true),
        attempt(5, 6, (2, 4), false),
    ];
    assert!(!is_linearizable(&parts, Failure::WhileHeld));
    assert!(is_linearizable(&parts, Failure::WhileGivenBack));
}
