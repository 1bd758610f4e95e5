//! The locks under ThreadSanitizer: what a holder sees was written by the holder before it.
//!
//! `cargo xtask test` runs this with the sanitizer, and with suppressions for what the test harness
//! itself does; otherwise it is an ordinary test. Threads synchronise by atomics and by being
//! joined only, because the standard library is not instrumented.

#[allow(dead_code, reason = "the tests of manx use all of it")]
#[path = "../../../crates/manx/tests/tsan/keys.rs"]
mod keys;
#[path = "tsan/locks.rs"]
mod locks;
#[path = "tsan/ranges.rs"]
mod ranges;
#[path = "../../../crates/manx/tests/tsan/turns.rs"]
mod turns;
