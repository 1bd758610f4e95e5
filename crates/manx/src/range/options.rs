//! What a lock is made with.

/// Positions of a block are two to the power of so many, unless something else is said: pages of 16 KiB of a file.
pub const BLOCK_LOG2: u32 = 14;
/// So many ranges may be held beside those that a lock has room for, unless something else is said.
pub const SPILL_MAX: u32 = 1 << 20;

/// How a lock is to be made. See [`RangeLock::with`](super::RangeLock::with).
///
/// ```
/// use manx::range::{RangeLock, Options};
///
/// // Records by number, a few thousand of them: blocks of 16, or all would be in one.
/// static RECORDS: RangeLock<u32> = RangeLock::with(Options::new().block_log2(4).window_ns(100_000));
/// assert!(RECORDS.try_lock(0..10).is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Options {
    /// A block has two to the power of so many positions.
    pub(super) block_log2: u32,
    /// How long waiters may be overtaken; `None`: as long as their epochs say, or the default.
    pub(super) window_ns: Option<u64>,
    /// The most slots on the heap.
    pub(super) spill_max: u32,
    /// Whether it is recorded since when ranges are held.
    pub(super) recorded: bool,
    /// Whether owners that would wait for each other are told.
    pub(super) detects: bool,
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
        }
    }

    /// Ranges within the same 2^`block_log2` positions are looked after together; those of different blocks are in
    /// nobody's way. Best are blocks somewhat larger than the usual range. [`BLOCK_LOG2`] unless said; at most 63.
    pub const fn block_log2(mut self, block_log2: u32) -> Options {
        self.block_log2 = if block_log2 > 63 { 63 } else { block_log2 };
        self
    }

    /// How long a waiter may be overtaken, in nanoseconds: 0 for the order of arrival. Unless said, that is what the
    /// epoch says that it is in ([`crate::slo`]), or [`WINDOW_NS`](super::WINDOW_NS).
    pub const fn window_ns(mut self, window_ns: u64) -> Options {
        self.window_ns = Some(window_ns);
        self
    }

    /// So many ranges may be held beside those that the lock has room for; [`SPILL_MAX`] unless said. Memory is taken for eight at
    /// a time, and for wide ranges from the first on: with fewer than eight no wide range can be held.
    pub const fn spill_max(mut self, ranges: u32) -> Options {
        self.spill_max = ranges;
        self
    }

    /// Records since when ranges are held. It costs a look at the clock each time.
    pub const fn recorded(mut self) -> Options {
        self.recorded = true;
        self
    }

    /// Looks for circles of threads and owners that wait for each other (a guard counts for the thread that locked it), and tells the one who would close one ([`LockError::Deadlock`](super::LockError::Deadlock)).
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
