//! Ids and snapshots under loom where snapshots spin: every order of steps that the memory model
//! allows.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_loom;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/txn.rs"]
mod txn;

use baselines_loom::txn::SPIN;
use common::check;
use txn::{allocation, half_a_commit, two_writers};

#[test]
fn a_snapshot_never_sees_half_a_commit() {
    check(3, || half_a_commit(SPIN));
}

#[test]
fn ends_at_once_are_all_published() {
    check(2, || two_writers(SPIN));
}

#[test]
fn an_id_is_hidden_from_the_moment_it_is_taken() {
    check(3, || allocation(SPIN));
}
