//! What threads see of these range locks can be explained by one order of their calls.

#[path = "../../../crates/manx/tests/common/histories.rs"]
mod histories;

use baselines::range::{IntervalTree, Map, SkipList};
use histories::{Failure, KEYS, histories_are_linearizable};
use manx::range::RawRangeLock;

#[test]
fn map() {
    histories_are_linearizable(|| Map::with_space(KEYS), Failure::WhileHeld);
}

#[test]
fn interval_tree() {
    histories_are_linearizable(|| IntervalTree::with_space(KEYS), Failure::WhileHeld);
}

#[test]
fn skip_list() {
    histories_are_linearizable(|| <SkipList as RawRangeLock>::with_space(KEYS), Failure::WhileGivenBack);
}
