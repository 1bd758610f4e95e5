//! How far a proof goes.

#![allow(dead_code, reason = "each proof uses a part of it")]

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
