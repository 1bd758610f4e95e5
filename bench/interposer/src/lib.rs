//! libmanx_interposer.so: the locks of papers and peers beneath programs that know only
//! `pthread_mutex_t`.
//!
//! For benchmarks only. Preloaded into a database, the library takes the place of the C library's
//! mutexes and condition variables. Which lock it is, the variable [`locks::VARIABLE`] says, so all
//! competitors pay the same for being interposed. LiTL (Guiroux, Lachaize and Quéma, "Multicore
//! locks: the case is not closed yet", USENIX ATC 2016) does the same and is what LibASL was
//! measured with; three things are decided differently here:
//!
//! | | LiTL | here, and why |
//! | --- | --- | --- |
//! | the lock of a mutex | in a hash table, by the mutex's address | a pointer inside the mutex ([`object`]): one load instead of a look-up, the same for each lock |
//! | condition variables | the C library's, for which each holder locks the C library's mutex too | a variable of our own ([`cond`]): no second lock, whose two atomic operations would be a third of a short section |
//! | recursive and error-checking mutexes | by the lock, with an owner | the same: SQLite's connections have recursive mutexes, and these are what its threads contend for |
//!
//! Mutexes that are shared between processes, robust, or with a priority protocol go to the C
//! library ([`object::Mutex::kind`]). Not replaced: C11's `mtx_t`, readers-writer locks, spin
//! locks, and calls that never come here (from inside of the C library, or `RTLD_DEEPBIND`). A wait
//! for a condition is no cancellation point. A program whose `malloc` locks pthread mutexes may
//! call us from inside of our own first allocation in a thread; none of the measured programs does.
//!
//! A lock is one line of the table in [`locks`].

mod arena;
pub mod cond;
#[cfg(not(test))]
mod exports;
pub mod locks;
pub mod mutex;
pub mod object;
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
mod real;
pub mod side;
