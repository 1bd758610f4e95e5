//! Locks of ranges of keys: as cheap as a plain lock when nobody is in the way, and in nobody's way who wants others.

pub mod baseline;
mod deadlock;
mod dump;
mod error;
mod escalate;
mod future;
mod guard;
mod holder;
mod key;
mod lock;
mod many;
mod outline;
mod owner;
mod raw;
mod request;
mod room;
mod shard;
mod slot;
mod span;
mod table;
mod waiting;
mod word;

pub use deadlock::{Deadlock, Link};
pub use dump::{Dump, HeldRange, Statistics, Waiter};
pub use error::{BadRange, LockError};
pub use future::LockFuture;
pub use guard::{RangeGuard, Unchanged};
pub use holder::Holder;
pub use key::Key;
pub use lock::{BLOCK_LOG2, Options, RangeLock, RawHeld, SPILL_MAX};
pub use many::{ManyGuard, SpanSet};
pub use owner::Owner;
pub use raw::{Access, RawRangeLock};
pub use span::{Span, Successor};
pub use waiting::WINDOW_NS;

platform::os_only! {
    mod mutex;

    pub use mutex::{RangeMutex, SharedSliceGuard, SliceGuard};
}
