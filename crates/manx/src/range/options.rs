//! What a lock is made with.

use platform::clock::duration_ns;
use std::time::Duration;

/// The default size of a block, as the binary logarithm of its number of positions: pages of 16 KiB
/// of a file.
pub const BLOCK_LOG2: u32 = 14;
/// The default maximum number of ranges that may be held beside the ranges that a lock has room
/// for.
pub const SPILL_MAX: u32 = 1 << 20;

/// How a lock is to be made. See [`RangeLock::with`](super::RangeLock::with).
///
/// ```
/// use manx::range::{Options, RangeLock};
/// use std::time::Duration;
///
/// // Records by number, a few thousand of them: blocks of 16, or all would be in one.
/// const OPTIONS: Options = Options::new().block_log2(4).window(Duration::from_micros(100));
/// static RECORDS: RangeLock<u32> = RangeLock::with(OPTIONS);
/// assert!(RECORDS.try_lock(0..10).is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Options {
    /// The binary logarithm of a block's size in positions.
    pub(super) block_log2: u32,
    /// How long waiters may be overtaken; `None`: as long as their epochs say, or the default.
    pub(super) window_ns: Option<u64>,
    /// The most slots on the heap.
    pub(super) spill_max: u32,
    /// Whether it is recorded since when ranges are held.
    pub(super) recorded: bool,
    /// Whether the lock looks for deadlocks before a holder waits.
    pub(super) detects: bool,
    /// The user has set the size of a block, so the lock does not learn it.
    pub(super) block_size_is_set: bool,
}

impl Options {
    /// What [`RangeLock::new`](super::RangeLock::new) takes.
    pub const fn new() -> Options {
        Options {
            block_log2: BLOCK_LOG2,
            window_ns: None,
            spill_max: SPILL_MAX,
            recorded: false,
            detects: false,
            block_size_is_set: false,
        }
    }

    /// Sets the size of a block to 2^`block_log2` positions. Ranges within one block are looked
    /// after together; ranges of different blocks are not in each other's way. Blocks somewhat
    /// larger than the usual range are best. The default is [`BLOCK_LOG2`], the maximum is 63.
    ///
    /// A lock of strings ([`Key::BYTES`](super::Key::BYTES)) learns the size of its blocks and the
    /// bytes that count. This option turns that off: then the first eight bytes of a key are its
    /// position.
    pub const fn block_log2(mut self, block_log2: u32) -> Options {
        self.block_log2 = if block_log2 > 63 { 63 } else { block_log2 };
        self.block_size_is_set = true;
        self
    }

    /// Sets for how long a waiter may be overtaken; zero is the order of arrival, and
    /// [`Duration::MAX`] is for ever.
    ///
    /// Without this option the window is that of the waiter's epoch ([`crate::slo`]). Outside of
    /// any epoch it is [`WINDOW`](super::WINDOW), or half a millisecond for each thread that waits
    /// already, if that is longer.
    ///
    /// ```
    /// use manx::range::{Options, RangeLock};
    /// use std::time::Duration;
    ///
    /// let in_order: RangeLock = RangeLock::with(Options::new().window(Duration::ZERO));
    /// assert!(in_order.try_lock(0..10).is_ok());
    /// ```
    pub const fn window(mut self, window: Duration) -> Options {
        self.window_ns = Some(duration_ns(window));
        self
    }

    /// Sets the maximum number of ranges that may be held beside the ranges that the lock has room
    /// for. The default is [`SPILL_MAX`]. Memory is taken for eight at a time, and for wide ranges
    /// from the first on: with fewer than eight no wide range can be held.
    ///
    /// ```
    /// use manx::range::{LockError, Options, RangeLock};
    ///
    /// let lock: RangeLock<u64, 1, 1> = RangeLock::with(Options::new().spill_max(0));
    /// let only = lock.lock(0..1)?;
    /// assert_eq!(lock.lock(1..2).err(), Some(LockError::TooMany { limit: 0 }));
    /// # drop(only);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub const fn spill_max(mut self, ranges: u32) -> Options {
        self.spill_max = ranges;
        self
    }

    /// Records since when ranges are held. It costs a look at the clock each time.
    ///
    /// ```
    /// use manx::range::{Options, RangeLock};
    ///
    /// let lock: RangeLock = RangeLock::with(Options::new().recorded());
    /// let guard = lock.lock(0..10)?;
    /// assert!(lock.dump().held[0].held.is_some());
    /// # drop(guard);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub const fn recorded(mut self) -> Options {
        self.recorded = true;
        self
    }

    /// Looks for circles of threads, [tasks](super::task()) and owners that wait for each other. (A
    /// guard counts for the thread or the task that locked it.) The caller that would close a
    /// circle gets an error ([`LockError::Deadlock`](super::LockError::Deadlock)).
    ///
    /// ```
    /// use manx::range::{LockError, Options, RangeLock};
    ///
    /// let lock: RangeLock = RangeLock::with(Options::new().detecting_deadlocks());
    /// let guard = lock.lock(0..10)?;
    /// // The thread would wait for itself.
    /// assert!(matches!(lock.lock(5..15), Err(LockError::Deadlock(_))));
    /// # drop(guard);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub const fn detecting_deadlocks(mut self) -> Options {
        self.detects = true;
        self
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}
