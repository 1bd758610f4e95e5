//! Atomic integers, flags and pointers, and fences: the model checker's.
//!
//! Loom takes sequentially consistent accesses as acquire and release, so what needs more (Dekker's
//! pattern) has explicit fences. Under shuttle every access is sequentially consistent, whatever it
//! asks for: an ordering that is too weak is found by loom.

pub use crate::checker::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
