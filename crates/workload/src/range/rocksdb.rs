//! RocksDB's range lock manager as a competitor: compiled against the machine's RocksDB and loaded when it is wanted.
//!
//! It is the lock that PerconaFT's `locktree` brought there: a tree of ranges, each node with a mutex, and requests that wait
//! on condition variables. It is used as RocksDB lets its users use it, by a transaction a range
//! (`engines/rocksdb_ranges.cpp`), so what is measured has the transaction's part in it, which is most of it while nobody
//! waits. Its ranges are exclusive there.
//!
//! Without a C++ compiler or RocksDB's headers there is no such competitor: [`load`] says what is missing, and whoever
//! measures leaves it out with that note.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use manx::range::{Access, RawRangeLock, Span};

use crate::engine::compiler::Compiler;
use crate::error::Error;

/// The source's name, and what the linker needs.
const NAME: &str = "rocksdb_ranges";
const FLAG: &str = "-lrocksdb";

type Create = unsafe extern "C" fn(*mut c_char, usize) -> *mut c_void;
type Acquire = unsafe extern "C" fn(*mut c_void, u64, u64) -> *mut c_void;
type Unlock = unsafe extern "C" fn(*mut c_void, *mut c_void);
type Destroy = unsafe extern "C" fn(*mut c_void);

/// The functions of the loaded library, which stays for the rest of the process.
#[derive(Debug)]
struct Functions {
    create: Create,
    try_lock: Acquire,
    lock: Acquire,
    unlock: Unlock,
    destroy: Destroy,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
/// Held while it is loaded, so that this is done once.
static LOADING: Mutex<()> = Mutex::new(());

/// Compiles and loads it, unless that was done before.
///
/// # Errors
/// [`Error::Missing`]: there is no C++ compiler, no RocksDB, or it is one that has no such lock.
pub fn load(compiler: &Compiler) -> Result<(), Error> {
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if FUNCTIONS.get().is_some() {
        return Ok(());
    }
    let functions = open(&compiler.library(NAME, &[FLAG.into()])?)?;
    let _ = FUNCTIONS.set(functions);
    Ok(())
}

/// Whether it was loaded, so that locks can be made.
pub fn is_loaded() -> bool {
    FUNCTIONS.get().is_some()
}

/// Loads the library at `path` for good.
fn open(path: &Path) -> Result<Functions, Error> {
    let remedy = crate::engine::package::of_flag(FLAG).remedy();
    let refused = |words: String| Error::missing(format!("{}: {words}", path.display()), remedy.clone());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
    // SAFETY: the library is ours, and its constructors are those of RocksDB, which any program may load.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let Some(library) = NonNull::new(library) else {
        return Err(refused(last_words()));
    };
    let find = |symbol: &CStr| {
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(library.as_ptr(), symbol.as_ptr()) };
        NonNull::new(found).ok_or_else(|| refused(last_words()))
    };
    let create = find(c"rocksdb_ranges_create")?;
    let try_lock = find(c"rocksdb_ranges_try_lock")?;
    let lock = find(c"rocksdb_ranges_lock")?;
    let unlock = find(c"rocksdb_ranges_unlock")?;
    let destroy = find(c"rocksdb_ranges_destroy")?;
    // SAFETY: the source that is part of this crate declares the functions with these types.
    Ok(unsafe {
        Functions {
            create: std::mem::transmute::<*mut c_void, Create>(create.as_ptr()),
            try_lock: std::mem::transmute::<*mut c_void, Acquire>(try_lock.as_ptr()),
            lock: std::mem::transmute::<*mut c_void, Acquire>(lock.as_ptr()),
            unlock: std::mem::transmute::<*mut c_void, Unlock>(unlock.as_ptr()),
            destroy: std::mem::transmute::<*mut c_void, Destroy>(destroy.as_ptr()),
        }
    })
}

/// What the loader said last, in this thread.
fn last_words() -> String {
    // SAFETY: dlerror returns null or a string that is valid until this thread's next call of the loader.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "a function is missing".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// A lock of its manager.
#[derive(Debug)]
pub struct RocksDb {
    functions: &'static Functions,
    ranges: NonNull<c_void>,
}

// SAFETY: RocksDB's transactions may be made and ended in any thread, and its lock manager is for many at once; the
// lists in the C++ source are each thread's own, or under a mutex.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

/// A transaction that holds a range.
#[derive(Debug)]
pub struct Held(NonNull<c_void>);

// SAFETY: a transaction may be ended in another thread than it was begun in, as long as one at a time uses it.
unsafe impl Send for Held {}

/// The first key and the last one. A range up to the lowest key has none; it takes that key, which is more than it must.
fn ends(span: &Span<u64>) -> (u64, u64) {
    let last = span.end().map_or(u64::MAX, |end| end.saturating_sub(1));
    (span.start().copied().unwrap_or(0), last)
}

// SAFETY: RocksDB gives no two transactions exclusive locks of ranges that overlap, and its mutexes order what their
// holders do.
unsafe impl RawRangeLock for RocksDb {
    type Held = Held;

    const NAME: &'static str = "rocksdb";
    const SHARES: bool = false;

    /// # Panics
    /// If [`load`] was not called, or failed, or if RocksDB cannot open a database in memory.
    fn with_space(_space: u64) -> RocksDb {
        let functions = FUNCTIONS.get().expect("RocksDB's lock is loaded before one is made");
        let mut why: [c_char; 256] = [0; 256];
        // SAFETY: the function writes a string of at most so many bytes.
        let ranges = unsafe { (functions.create)(why.as_mut_ptr(), why.len()) };
        let Some(ranges) = NonNull::new(ranges) else {
            // SAFETY: the function ended the string with a zero, or left the zeroes that were there.
            let why = unsafe { CStr::from_ptr(why.as_ptr()) };
            panic!("RocksDB opens no database: {}", why.to_string_lossy());
        };
        RocksDb { functions, ranges }
    }

    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<Held> {
        let (first, last) = ends(span);
        // SAFETY: the lock exists as long as `self`, and first ≤ last, since spans are not empty.
        NonNull::new(unsafe { (self.functions.try_lock)(self.ranges.as_ptr(), first, last) }).map(Held)
    }

    fn lock(&self, span: &Span<u64>, _access: Access) -> Held {
        let (first, last) = ends(span);
        // SAFETY: as for `try_lock`.
        let held = unsafe { (self.functions.lock)(self.ranges.as_ptr(), first, last) };
        Held(NonNull::new(held).expect("a wait without an end returns with the range"))
    }

    unsafe fn unlock(&self, held: Held) {
        // SAFETY: `held` came from this lock, as the caller promises, and is given back once, since it is consumed.
        unsafe { (self.functions.unlock)(self.ranges.as_ptr(), held.0.as_ptr()) };
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nobody else has the lock any more, and what was held of it cannot be used without it.
        unsafe { (self.functions.destroy)(self.ranges.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A lock, or `None` with the reason checked, where there is no RocksDB.
    fn lock() -> Option<RocksDb> {
        match load(&Compiler::from_environment().unwrap()) {
            Ok(()) => Some(RocksDb::with_space(1000)),
            Err(error) => {
                assert!(matches!(error, Error::Missing { .. }), "{error}");
                None
            }
        }
    }

    fn span(start: u64, end: u64) -> Span<u64> {
        Span::new(start, end).unwrap()
    }

    #[test]
    fn overlapping_ranges_exclude_each_other_and_others_do_not() {
        let Some(lock) = lock() else { return };
        let exclusive = Access::Exclusive;
        let held = lock.lock(&span(10, 20), exclusive);
        for hindered in [span(10, 20), span(19, 30), span(0, 11), span(15, 16), Span::all(), Span::from(19)] {
            assert!(lock.try_lock(&hindered, exclusive).is_none(), "{hindered}");
        }
        let others =
            [Span::to(10), span(20, 21), Span::from(21)].map(|span| lock.try_lock(&span, exclusive).unwrap());
        // SAFETY: all of them are this lock's.
        unsafe {
            lock.unlock(held);
            others.into_iter().for_each(|held| lock.unlock(held));
            let all = lock.try_lock(&Span::all(), exclusive).expect("everything was given back");
            lock.unlock(all);
            let highest =
                lock.try_lock(&Span::from(u64::MAX), exclusive).expect("the highest key can be locked");
            lock.unlock(highest);
        }
    }

    #[test]
    fn neighbours_share_nothing_and_no_count_is_lost() {
        let Some(lock) = lock() else { return };
        const KEYS: u64 = 8;
        const ROUNDS: u64 = 2000;
        let counts: [AtomicU64; KEYS as usize] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (lock, counts) = (&lock, &counts);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let start = (round * 3 + thread) % KEYS;
                        let end = (start + 1 + round % 3).min(KEYS);
                        let held = lock.lock(&span(start, end), Access::Exclusive);
                        for count in &counts[start as usize..end as usize] {
                            // Two steps, so that a lock that does not exclude loses some.
                            let before = count.load(Ordering::Relaxed);
                            count.store(before + 1, Ordering::Relaxed);
                        }
                        // SAFETY: it was locked above.
                        unsafe { lock.unlock(held) };
                    }
                });
            }
        });
        let widths = (0..4 * ROUNDS).map(|at| {
            let (thread, round) = (at / ROUNDS, at % ROUNDS);
            (1 + round % 3).min(KEYS - (round * 3 + thread) % KEYS)
        });
        assert_eq!(counts.map(AtomicU64::into_inner).iter().sum::<u64>(), widths.sum::<u64>());
    }

    #[test]
    fn what_one_thread_locks_another_gives_back_and_a_second_lock_knows_nothing_of_it() {
        let Some(lock) = lock() else { return };
        let second = RocksDb::with_space(1000);
        // More than a thread keeps for itself, so that some come back by way of the lock's own list.
        for start in 0..200 {
            let held = lock.lock(&span(start, start + 1), Access::Exclusive);
            let other = second.try_lock(&span(start, start + 1), Access::Exclusive).expect("another lock");
            std::thread::scope(|scope| {
                // SAFETY: each goes back to the lock that it came from.
                scope.spawn(|| unsafe { lock.unlock(held) });
            });
            // SAFETY: as above.
            unsafe { second.unlock(other) };
        }
        let all = lock.try_lock(&Span::all(), Access::Exclusive).expect("everything was given back");
        // SAFETY: it was locked above.
        unsafe { lock.unlock(all) };
    }
}
