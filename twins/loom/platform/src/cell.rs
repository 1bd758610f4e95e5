//! Shared memory whose users keep order among themselves; loom reports two that do not.

pub use loom::cell::UnsafeCell;
