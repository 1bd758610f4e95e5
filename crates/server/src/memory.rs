//! How much memory the server uses, and whether that is more than it may.
//!
//! Asking the allocator takes some 50 µs, and a write takes one. So the allocator is asked now and
//! then, and in between each transaction adds what its writes take. What commits have written over
//! and what is about to be freed does not count: it is gone a moment later, and evicting more would
//! not free it sooner. Nor does what was allocated for bytes of clients that have not come: no page
//! of memory is there yet.

use crate::options::Options;
use manx::txn::Store;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The allocator is asked at most once in this time.
const ASKED_MS: u64 = 20;

/// What an entry takes beside the bytes of its name and its value: counts, two places in tables,
/// and a version.
const ENTRY_BYTES: i64 = 224;

/// What a change from a value to another, or to none, adds to the memory of a name's entry.
pub(crate) fn growth(name: &[u8], before: Option<usize>, after: Option<usize>) -> i64 {
    let bytes = |value: Option<usize>| value.map_or(0, |value| ENTRY_BYTES + (name.len() + value) as i64);
    bytes(after) - bytes(before)
}

/// See [the module](self). All is Relaxed: figures that others change at any time.
pub(crate) struct Memory {
    /// What it may use, if that is limited.
    pub(crate) bytes_max: Option<u64>,
    allocated_bytes: Option<fn() -> u64>,
    /// What the writes so far have added …
    written_bytes: AtomicI64,
    /// … and how much more was allocated than that when the allocator was asked.
    beside_bytes: AtomicI64,
    /// Of arguments that are being received, what has not come.
    missing_bytes: AtomicI64,
    peak_bytes: AtomicU64,
    since: Instant,
    asked_ms: AtomicU64,
}

impl Memory {
    pub(crate) fn new(options: &Options) -> Memory {
        Memory {
            bytes_max: options.memory_bytes_max,
            allocated_bytes: options.allocated_bytes,
            written_bytes: AtomicI64::new(0),
            beside_bytes: AtomicI64::new(0),
            missing_bytes: AtomicI64::new(0),
            peak_bytes: AtomicU64::new(0),
            since: Instant::now(),
            asked_ms: AtomicU64::new(0),
        }
    }

    /// A transaction's writes have added this.
    #[inline]
    pub(crate) fn wrote(&self, bytes: i64) {
        self.written_bytes.fetch_add(bytes, Relaxed);
    }

    /// Adds this number of bytes to what is allocated for bytes of clients that have not come. The
    /// caller reports them before it allocates, and after it has freed: a server that counts too
    /// much as used evicts keys.
    pub(crate) fn misses(&self, bytes: i64) {
        self.missing_bytes.fetch_add(bytes, Relaxed);
    }

    /// How much is used, as far as is known.
    pub(crate) fn used_bytes(&self) -> u64 {
        let used = self.beside_bytes.load(Relaxed) + self.written_bytes.load(Relaxed);
        u64::try_from(used).unwrap_or(0)
    }

    /// The most that has been used, as far as is known.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Relaxed)
    }

    /// Whether more is used than may be.
    #[inline]
    pub(crate) fn is_full(&self, store: &Store) -> bool {
        let Some(bytes_max) = self.bytes_max else { return false };
        self.used_bytes() > bytes_max && {
            self.ask_again(store);
            self.used_bytes() > bytes_max
        }
    }

    /// Asks the allocator, unless it was asked a moment ago.
    fn ask_again(&self, store: &Store) {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let asked_ms = self.asked_ms.load(Relaxed);
        let is_due = now_ms >= asked_ms + ASKED_MS;
        // One thread asks.
        if is_due && self.asked_ms.compare_exchange(asked_ms, now_ms, Relaxed, Relaxed).is_ok() {
            self.ask(store);
        }
    }

    /// Asks the allocator.
    pub(crate) fn ask(&self, store: &Store) {
        if let Some(allocated_bytes) = self.allocated_bytes {
            let written = self.written_bytes.load(Relaxed);
            let garbage = store.stats().garbage_bytes as i64;
            // A connection reports memory before it allocates it, and after it has freed it. If
            // that happens during this question, one of the two figures has it.
            let missing_before = self.missing_bytes.load(Relaxed);
            let allocated = i64::try_from(allocated_bytes()).unwrap_or(i64::MAX);
            let missing = self.missing_bytes.load(Relaxed).max(missing_before);
            self.beside_bytes.store(allocated - missing - garbage - written, Relaxed);
        }
        self.peak_bytes.fetch_max(self.used_bytes(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    #[test]
    fn between_two_questions_writes_are_added() {
        let store = Store::in_memory(manx::txn::Options::default());
        let options =
            Options { memory_bytes_max: Some(1_000), allocated_bytes: Some(|| 900), ..Options::default() };
        let memory = Memory::new(&options);
        memory.ask(&store);
        assert_eq!((memory.used_bytes(), memory.is_full(&store)), (900, false));
        memory.wrote(101);
        assert_eq!(memory.used_bytes(), 1_001);
        // What was added was also freed: the allocator knows.
        memory.ask(&store);
        assert_eq!((memory.used_bytes(), memory.is_full(&store)), (900, false));
        memory.wrote(-2_000);
        assert_eq!((memory.used_bytes(), memory.peak_bytes()), (0, 900));
        // Some of what the allocator tells of is not there yet.
        memory.misses(300);
        memory.ask(&store);
        assert_eq!(memory.used_bytes(), 600);
        memory.misses(-300);
        memory.ask(&store);
        assert_eq!(memory.used_bytes(), 900);
    }

    #[test]
    fn what_comes_or_goes_while_the_allocator_is_asked_is_not_counted() {
        static ALLOCATED: AtomicU64 = AtomicU64::new(0);
        static MEMORY: OnceLock<Memory> = OnceLock::new();
        /// What the client does when the allocator has been asked.
        static CHANGE: AtomicI64 = AtomicI64::new(0);
        let store = Store::in_memory(manx::txn::Options::default());
        let options = Options {
            allocated_bytes: Some(|| {
                let (memory, change) = (MEMORY.get().unwrap(), CHANGE.load(Relaxed));
                if change > 0 {
                    memory.misses(change);
                    ALLOCATED.fetch_add(change as u64, Relaxed) + change as u64
                } else {
                    let before = ALLOCATED.fetch_sub(change.unsigned_abs(), Relaxed);
                    memory.misses(change);
                    before
                }
            }),
            ..Options::default()
        };
        let memory = MEMORY.get_or_init(|| Memory::new(&options));
        ALLOCATED.store(100, Relaxed);
        for change in [1_000, -1_000] {
            CHANGE.store(change, Relaxed);
            memory.ask(&store);
            assert_eq!(memory.used_bytes(), 100, "{change}");
        }
    }

    #[test]
    fn without_an_allocator_that_counts_writes_are_all_that_is_known() {
        let store = Store::in_memory(manx::txn::Options::default());
        let memory = Memory::new(&Options { memory_bytes_max: Some(1_000), ..Options::default() });
        memory.wrote(growth(b"key", None, Some(700)));
        assert!(!memory.is_full(&store));
        memory.wrote(growth(b"key", Some(700), Some(800)));
        assert!(memory.is_full(&store));
        memory.wrote(growth(b"key", Some(800), None));
        assert_eq!((memory.used_bytes(), memory.is_full(&store)), (0, false));
        let unlimited = Memory::new(&Options::default());
        unlimited.wrote(i64::MAX);
        assert!(!unlimited.is_full(&store));
    }
}
