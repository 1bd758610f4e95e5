//! RocksDB's range locks as competitors: compiled against the machine's RocksDB and loaded when
//! they are wanted.
//!
//! There are two. [`RocksDb`] is its range lock manager as RocksDB lets its users have it, by a
//! transaction a range (`engines/rocksdb_ranges.cpp`); most of what an uncontended range costs
//! there is the transaction's. [`Locktree`] is what is beneath, PerconaFT's tree of ranges, called
//! without transactions (`engines/rocksdb_locktree.cpp`), by functions that RocksDB 7.8 exports
//! though no header declares them. Neither shares ranges that overlap without being the same.
//!
//! Without a C++ compiler or RocksDB's headers there are no such competitors: [`Loaded::load`] says
//! what is missing, and the experiment leaves them out with that note.

use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use manx::range::{Access, RawRangeLock, Span};

use crate::engine::compiler::Compiler;
use crate::error::Error;

/// What the linker needs.
const FLAG: &str = "-lrocksdb";

type Create = unsafe extern "C" fn(*mut c_char, usize) -> *mut c_void;
type Acquire = unsafe extern "C" fn(*mut c_void, u64, u64) -> *mut c_void;
type Unlock = unsafe extern "C" fn(*mut c_void, *mut c_void);
type Destroy = unsafe extern "C" fn(*mut c_void);

/// The functions of a loaded library, which stays for the rest of the process.
#[derive(Debug)]
struct Functions {
    create: Create,
    try_lock: Acquire,
    lock: Acquire,
    unlock: Unlock,
    destroy: Destroy,
}

/// A source in C++, and what came of it.
#[derive(Debug)]
pub struct Driver {
    source: &'static str,
    functions: OnceLock<Functions>,
    /// Held while it is loaded, so that this is done once.
    loading: Mutex<()>,
}

impl Driver {
    const fn of(source: &'static str) -> Driver {
        Driver { source, functions: OnceLock::new(), loading: Mutex::new(()) }
    }
}

/// Which of the two.
pub trait Which: Send + Sync {
    /// The name in tables.
    const NAME: &'static str;

    /// Its functions, in the end.
    fn driver() -> &'static Driver;
}

/// By transactions.
#[derive(Debug)]
pub struct Transactions;
/// The tree alone.
#[derive(Debug)]
pub struct Tree;

impl Which for Transactions {
    const NAME: &'static str = "rocksdb";

    fn driver() -> &'static Driver {
        static DRIVER: Driver = Driver::of("rocksdb_ranges.cpp");
        &DRIVER
    }
}

impl Which for Tree {
    const NAME: &'static str = "locktree";

    fn driver() -> &'static Driver {
        static DRIVER: Driver = Driver::of("rocksdb_locktree.cpp");
        &DRIVER
    }
}

/// The range lock manager as RocksDB's users have it.
pub type RocksDb = Loaded<Transactions>;
/// The tree beneath.
pub type Locktree = Loaded<Tree>;

/// How a competitor is loaded.
type Load = fn(&Compiler) -> Result<(), Error>;
/// Both, by name.
pub const COMPETITORS: [(&str, Load); 2] =
    [(Transactions::NAME, RocksDb::load), (Tree::NAME, Locktree::load)];

/// A lock of a loaded library.
#[derive(Debug)]
pub struct Loaded<W> {
    functions: &'static Functions,
    ranges: NonNull<c_void>,
    which: PhantomData<W>,
}

impl<W: Which> Loaded<W> {
    /// Compiles and loads it, unless that was done before.
    ///
    /// # Errors
    /// [`Error::Missing`]: there is no C++ compiler, no RocksDB, or it is a version that has no
    /// such lock.
    pub fn load(compiler: &Compiler) -> Result<(), Error> {
        let driver = W::driver();
        let _loading = driver.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if driver.functions.get().is_some() {
            return Ok(());
        }
        let functions = open(&compiler.library(driver.source, &[FLAG.into()], "")?)?;
        let _ = driver.functions.set(functions);
        Ok(())
    }

    /// Whether it was loaded, so that locks can be made.
    pub fn is_loaded() -> bool {
        W::driver().functions.get().is_some()
    }
}

/// Loads the library at `path` for good.
fn open(path: &Path) -> Result<Functions, Error> {
    let remedy = crate::engine::package::of_flag(FLAG).remedy();
    let refused = |words: String| Error::missing(format!("{}: {words}", path.display()), remedy.clone());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
    // SAFETY: the library is ours, and its constructors are those of RocksDB, which any program may
    // load.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let Some(library) = NonNull::new(library) else {
        return Err(refused(last_words()));
    };
    let find = |symbol: &CStr| {
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(library.as_ptr(), symbol.as_ptr()) };
        NonNull::new(found).ok_or_else(|| refused(last_words()))
    };
    let create = find(c"ranges_create")?;
    let try_lock = find(c"ranges_try_lock")?;
    let lock = find(c"ranges_lock")?;
    let unlock = find(c"ranges_unlock")?;
    let destroy = find(c"ranges_destroy")?;
    // SAFETY: the sources that are part of this crate declare the functions with these types.
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
    // SAFETY: dlerror returns null or a string that is valid until this thread's next call of the
    // loader.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "a function is missing".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

// SAFETY: RocksDB's transactions and the tree's owners may be made and ended in any thread, and its
// lock manager and the tree are for many at once; what the C++ sources keep beside is each thread's
// own, or under a mutex.
unsafe impl<W: Which> Send for Loaded<W> {}
// SAFETY: as above.
unsafe impl<W: Which> Sync for Loaded<W> {}

/// A transaction, or an owner, that holds a range.
#[derive(Debug)]
pub struct Held(NonNull<c_void>);

// SAFETY: it may be ended in another thread than it was begun in, as long as one at a time uses it.
unsafe impl Send for Held {}

/// The first key and the last one. A range up to the lowest key has none; it takes that key, which
/// is more than it must.
fn ends(span: &Span<u64>) -> (u64, u64) {
    let last = span.end().map_or(u64::MAX, |end| end.saturating_sub(1));
    (span.start().copied().unwrap_or(0), last)
}

// SAFETY: RocksDB gives no two transactions, and the tree no two owners, exclusive locks of ranges
// that overlap, and their mutexes order what the holders do.
unsafe impl<W: Which> RawRangeLock for Loaded<W> {
    type Held = Held;

    const NAME: &'static str = W::NAME;
    const SHARES: bool = false;

    /// # Panics
    /// If it was not loaded ([`Loaded::load`]), or if RocksDB cannot open a database in memory.
    fn with_space(_space: u64) -> Loaded<W> {
        let functions = W::driver().functions.get().expect("RocksDB's lock is loaded before one is made");
        let mut why: [c_char; 256] = [0; 256];
        // SAFETY: the function writes a string of at most `why.len()` bytes.
        let ranges = unsafe { (functions.create)(why.as_mut_ptr(), why.len()) };
        let Some(ranges) = NonNull::new(ranges) else {
            // SAFETY: the function ended the string with a zero, or left the zeroes that were
            // there.
            let why = unsafe { CStr::from_ptr(why.as_ptr()) };
            panic!("RocksDB makes no lock: {}", why.to_string_lossy());
        };
        Loaded { functions, ranges, which: PhantomData }
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
        // SAFETY: `held` came from this lock, as the caller promises, and is given back once, since
        // it is consumed.
        unsafe { (self.functions.unlock)(self.ranges.as_ptr(), held.0.as_ptr()) };
    }
}

impl<W> Drop for Loaded<W> {
    fn drop(&mut self) {
        // SAFETY: no other thread has the lock any more, and what was held of it cannot be used
        // without it.
        unsafe { (self.functions.destroy)(self.ranges.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A lock; none, and the test is skipped, where there is no RocksDB.
    fn lock<W: Which>() -> Option<Loaded<W>> {
        match Loaded::<W>::load(&Compiler::from_environment().unwrap()) {
            Ok(()) => Some(Loaded::with_space(1000)),
            Err(error @ Error::Missing { .. }) => {
                testing::skip(error);
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn span(start: u64, end: u64) -> Span<u64> {
        Span::new(start, end).unwrap()
    }

    #[test]
    fn overlapping_ranges_exclude_each_other_and_others_do_not() {
        exclude::<Transactions>();
        exclude::<Tree>();
    }

    fn exclude<W: Which>() {
        let Some(lock) = lock::<W>() else { return };
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
        count::<Transactions>();
        count::<Tree>();
    }

    fn count<W: Which>() {
        let Some(lock) = lock::<W>() else { return };
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
        give_back::<Transactions>();
        give_back::<Tree>();
    }

    fn give_back<W: Which>() {
        let Some(lock) = lock::<W>() else { return };
        let second = Loaded::<W>::with_space(1000);
        // More than a thread keeps for itself, so that some come back by way of the lock's own
        // list.
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
