//! How far a proof goes, and the threads of a model.

#![allow(dead_code, reason = "each proof uses a part of it")]

use loom::thread::{self, JoinHandle};
use std::ops::Deref;

/// The most steps of an execution: a proof that takes more loops for ever.
const BRANCHES_MAX: usize = 20_000;

/// Runs `test` in every order with at most `preemptions` preemptions; one more if `MANX_FULL` is
/// set.
pub fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let more = usize::from(std::env::var_os("MANX_FULL").is_some());
    check_no_more(preemptions + more, test);
}

/// The same, and never more: for tests of four threads, or of many steps.
pub fn check_no_more(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = BRANCHES_MAX;
    builder.check(test);
}

/// Runs this in a thread that shares `shared`, a handle of any kind.
pub fn spawn<H, T>(shared: &H, run: impl FnOnce(&H::Target) -> T + 'static) -> JoinHandle<T>
where
    H: Clone + Deref + 'static,
    T: 'static,
{
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Waits for all of these threads.
pub fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) {
    threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
}
