//! Atomic integers, flags and pointers, and fences.
//!
//! Loom takes sequentially consistent accesses as acquire and release, so what needs more (Dekker's
//! pattern) has explicit fences.

pub use loom::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
