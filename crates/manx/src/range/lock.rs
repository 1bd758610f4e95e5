//! The default range lock: what is held (`table.rs`) and the waiters (`waiting.rs`).
//!
//! A range that lies within one block is taken at once if it is free (`take.rs`). All other
//! requests go the general way, which can wait (`waiting.rs`). What is taken is a [`Held`]; guards
//! and owners keep it until they release it.

use super::error::LockError;
use super::holder::Holder;
use super::key::Key;
use super::options::Options;
use super::raw::{Access, RawRangeLock};
use super::request::{NO_TAG, Request};
use super::slot::Held;
use super::span::Span;
use super::table::Table;
use super::take::Missed;
use super::wait_queue::WaitQueue;
use platform::futex::Deadline;
use std::slice;

/// A lock of ranges of keys: threads wait for each other only if their ranges overlap.
///
/// Ranges are half-open (`a..b`), or open at an end; exclusive or shared. A waiter may be overtaken
/// for a window ([`Options::window`]); then threads that want the same keys queue behind it. A
/// free range needs no allocation.
///
/// `SHARDS` (a power of two) is how many parts of the key space can be locked at the same time
/// without any two threads meeting; `SLOTS` how many ranges each of these can hold before it asks
/// for memory. A lock of `u64` has 57 KiB by default, 19 KiB with 32 shards of 8 slots, and 256
/// bytes with one shard of one slot.
///
/// ```
/// use manx::range::RangeLock;
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let head = file.lock(0..4096)?;
/// assert!(file.try_lock(4095..5000).is_err());
/// let tail = file.try_lock(4096..)?;
/// drop(head);
/// let readers = [file.lock_shared(0..100)?, file.lock_shared(50..150)?];
/// # drop((tail, readers));
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct RangeLock<K = u64, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    pub(super) table: Table<K, SHARDS, SLOTS>,
    pub(super) queue: WaitQueue<K>,
}

platform::os_only! {
    const _: () = assert!(size_of::<RangeLock<u64, 1, 1>>() <= 256);
    const _: () = assert!(size_of::<RangeLock>() <= 64 * 1024);
    const _: () = assert!(size_of::<RangeLock<Vec<u8>>>() <= 80 * 1024);
    const _: () = assert!(size_of::<RangeLock<u64, 32, 8>>() <= 19 * 1024);

    impl<K, const SHARDS: usize, const SLOTS: usize> Default for RangeLock<K, SHARDS, SLOTS> {
        fn default() -> Self {
            RangeLock::new()
        }
    }
}

impl<K, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    platform::const_fn! {
        /// Makes a lock without held ranges.
        pub const fn new() -> Self {
            RangeLock::with(Options::new())
        }
    }

    platform::const_fn! {
        /// Makes a lock without held ranges, with these options.
        ///
        /// ```
        /// use manx::range::{Options, RangeLock};
        ///
        /// let rows: RangeLock<u32> = RangeLock::with(Options::new().block_log2(4));
        /// assert!(rows.try_lock(0..10).is_ok());
        /// ```
        pub const fn with(options: Options) -> Self {
            RangeLock { table: Table::new(options), queue: WaitQueue::new() }
        }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A lock of strings that knows how its keys look: it is made for ranges like these. Without a
    /// sample it learns that from the first few hundred ranges that are locked, as soon as nothing
    /// is held for a moment. The best sample is some dozens of ranges, drawn at random from the
    /// ranges that will be locked. Keys without [`Key::BYTES`] have no use for it.
    ///
    /// ```
    /// use manx::range::{Options, RangeLock, Span};
    ///
    /// let row = |number: u32| format!("customers/2026/row{number:08}");
    /// let sample: Vec<_> = (0..50).map(|at| Span::new(row(at * 1000), row(at * 1000 + 10)).unwrap()).collect();
    /// let rows: RangeLock<String> = RangeLock::with_sample(Options::new(), &sample);
    /// let held = rows.lock(row(17)..row(20))?;
    /// assert!(rows.try_lock(row(19)..row(21)).is_err());
    /// # drop(held);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn with_sample(options: Options, sample: &[Span<K>]) -> Self {
        let lock = RangeLock::with(options);
        if K::BYTES {
            lock.table.common.scales.begin_with(sample);
        }
        lock
    }

    /// Takes the range. The deadline is computed only if there is something to wait for.
    #[inline(always)]
    pub(super) fn acquire(
        &self,
        span: Span<K>,
        access: Access,
        deadline: impl FnOnce() -> Option<Deadline>,
    ) -> Result<Held<K>, LockError> {
        let holder = Holder::current();
        match self.table.take_narrow(span, access, holder) {
            Ok(held) => Ok(held),
            Err(missed) => self.acquire_slow(&missed, access, holder, deadline()),
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_slow(
        &self,
        missed: &Missed<K>,
        access: Access,
        holder: Holder,
        deadline: Option<Deadline>,
    ) -> Result<Held<K>, LockError> {
        let request = Request { spans: slice::from_ref(&missed.span), access, holder, own: &[], tag: NO_TAG };
        self.lock_request(&request, deadline, missed.blocked)
    }

    /// Takes the range if that needs no waiting.
    #[inline(always)]
    pub(super) fn try_acquire(&self, span: Span<K>, access: Access) -> Result<Held<K>, LockError> {
        let holder = Holder::current();
        match self.table.take_narrow(span, access, holder) {
            Ok(held) => Ok(held),
            Err(Missed { blocked: true, .. }) => Err(LockError::WouldBlock),
            Err(Missed { span, .. }) => {
                let request =
                    Request { spans: slice::from_ref(&span), access, holder, own: &[], tag: NO_TAG };
                self.try_request(&request)
            }
        }
    }
}

/// What a raw range lock's holder keeps.
#[derive(Debug)]
pub struct RawHeld(Held<u64>);

// SAFETY: exclusion is that of the table (table.rs, Invariant 4); freeing a slot releases and
// taking acquires.
unsafe impl<const SHARDS: usize, const SLOTS: usize> RawRangeLock for RangeLock<u64, SHARDS, SLOTS> {
    type Held = RawHeld;
    const NAME: &'static str = "manx";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Self {
        RangeLock::new()
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<RawHeld> {
        self.try_acquire(span.clone(), access).ok().map(RawHeld)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> RawHeld {
        match self.acquire(span.clone(), access, || None) {
            Ok(held) => RawHeld(held),
            // Without a deadline and without looking for deadlocks, the limit alone can be in the
            // way.
            Err(error) => panic!("{error}"),
        }
    }

    #[inline]
    unsafe fn unlock(&self, held: RawHeld) {
        // SAFETY: the caller's promise.
        unsafe { self.release(held.0) };
    }
}
