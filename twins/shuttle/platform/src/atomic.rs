//! Atomic integers, flags and pointers, and fences.
//!
//! Every access is a point where another thread may go first, and every access is sequentially
//! consistent, whatever it asks for: an ordering that is too weak is not found here but by loom.

pub use shuttle::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
