//! The default range lock: what is held (`table.rs`), the waiters (`waiting.rs`), and the ways to
//! ask.

use super::error::{InvalidRange, LockError};
use super::guard::RangeGuard;
use super::holder::Holder;
use super::key::Key;
use super::options::Options;
use super::raw::{Access, RawRangeLock};
use super::request::Request;
use super::slot::Held;
use super::span::Span;
use super::table::{Missed, Table};
use super::wait_queue::WaitQueue;
use platform::futex::Deadline;
use std::slice;

/// A lock of ranges of keys: threads wait for each other only if their ranges overlap.
///
/// Ranges are half-open (`a..b`), or open at an end; exclusive or shared. A waiter may be overtaken
/// for a window ([`Options::window_ns`]); then threads that want the same keys queue behind it. A
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
    /// Takes the range. Waits until no other holder has a key of it.
    ///
    /// A thread that has a range and waits for another one can end in a deadlock with a thread that
    /// does it the other way round. It is safe to lock always in the same order, or to ask for all
    /// at once ([`RangeLock::lock_many`]). A lock can also be made that finds such circles
    /// ([`Options::detecting_deadlocks`]). A guard counts for the thread that locked it, or for the
    /// [`task`](super::task()) that this thread polled.
    ///
    /// # Errors
    /// - [`LockError::InvalidRange`] if the range has no keys.
    /// - [`LockError::TooMany`] if the lock holds as many ranges as it may
    ///   ([`Options::spill_max`]).
    /// - [`LockError::Deadlock`] if the lock looks for deadlocks, and this wait would make one.
    #[inline]
    pub fn lock<R>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError>
    where
        R: TryInto<Span<K>, Error: Into<InvalidRange>>,
    {
        self.lock_as(span(range)?, Access::Exclusive, None)
    }

    /// Shares the range. Waits until no holder has a key of it for itself.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    #[inline]
    pub fn lock_shared<R>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError>
    where
        R: TryInto<Span<K>, Error: Into<InvalidRange>>,
    {
        self.lock_as(span(range)?, Access::Shared, None)
    }

    /// Takes the range if that needs no waiting.
    ///
    /// # Errors
    /// [`LockError::WouldBlock`]: a holder has a key of it, or a waiter wants one and may not be
    /// overtaken any more. As [`RangeLock::lock`] beside that.
    #[inline]
    pub fn try_lock<R>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError>
    where
        R: TryInto<Span<K>, Error: Into<InvalidRange>>,
    {
        self.try_lock_as(span(range)?, Access::Exclusive)
    }

    /// Takes the range together with other holders that share it, if that needs no waiting.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    #[inline]
    pub fn try_lock_shared<R>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError>
    where
        R: TryInto<Span<K>, Error: Into<InvalidRange>>,
    {
        self.try_lock_as(span(range)?, Access::Shared)
    }

    /// As [`RangeLock::lock`] or [`RangeLock::lock_shared`], until `deadline` if there is one.
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    #[inline]
    pub fn lock_as(
        &self,
        span: Span<K>,
        access: Access,
        deadline: Option<Deadline>,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(span, access, || deadline)
    }

    /// The same; when to give up is asked for only if there is something to wait for.
    #[inline(always)]
    pub(super) fn lock_within(
        &self,
        span: Span<K>,
        access: Access,
        deadline: impl FnOnce() -> Option<Deadline>,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.acquire(span, access, Holder::current(), deadline)?;
        // SAFETY: just acquired, for this guard alone.
        Ok(unsafe { RangeGuard::new(self, held) })
    }

    /// As [`RangeLock::try_lock`] or [`RangeLock::try_lock_shared`].
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`] and [`RangeLock::try_lock_shared`].
    #[inline]
    pub fn try_lock_as(
        &self,
        span: Span<K>,
        access: Access,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.try_acquire(span, access, Holder::current())?;
        // SAFETY: just acquired, for this guard alone.
        Ok(unsafe { RangeGuard::new(self, held) })
    }

    #[inline(always)]
    fn acquire(
        &self,
        span: Span<K>,
        access: Access,
        holder: Holder,
        deadline: impl FnOnce() -> Option<Deadline>,
    ) -> Result<Held<K>, LockError> {
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
        let request = Request { spans: slice::from_ref(&missed.span), access, holder, own: &[], tag: 0 };
        self.lock_request(&request, deadline, missed.blocked)
    }

    #[inline(always)]
    fn try_acquire(&self, span: Span<K>, access: Access, holder: Holder) -> Result<Held<K>, LockError> {
        match self.table.take_narrow(span, access, holder) {
            Ok(held) => Ok(held),
            Err(Missed { blocked: true, .. }) => Err(LockError::WouldBlock),
            Err(Missed { span, .. }) => {
                let request = Request { spans: slice::from_ref(&span), access, holder, own: &[], tag: 0 };
                self.try_request(&request)
            }
        }
    }
}

/// Makes a span of the range that the caller names.
#[inline(always)]
pub(super) fn span<K, R>(range: R) -> Result<Span<K>, LockError>
where
    R: TryInto<Span<K>, Error: Into<InvalidRange>>,
{
    range.try_into().map_err(|bad| LockError::InvalidRange(bad.into()))
}

/// What a raw range lock's holder keeps.
#[derive(Debug)]
pub struct RawHeld(Held<u64>);

// SAFETY: it is used by the caller of `unlock`, and any thread may call that.
unsafe impl Send for RawHeld {}

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
        self.try_acquire(span.clone(), access, Holder::current()).ok().map(RawHeld)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> RawHeld {
        match self.acquire(span.clone(), access, Holder::current(), || None) {
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
