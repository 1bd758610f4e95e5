//! What the library was asked to do, in a form that hot paths can read.
//!
//! Written once, before the first site is repaired; read with relaxed loads ever after. The values
//! are those of [`preload_abi::options::Options`], with times already in ticks.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use preload_abi::options::{Guard, Lock, Options, Short};

/// The numbers of the adaptive wait.
pub struct Settings {
    /// Rounds before the first yield.
    pub spins: AtomicU32,
    /// Yields before the first sleep.
    pub yields: AtomicU32,
    /// By how much each sleep is longer than the last, in nanoseconds.
    pub step_ns: AtomicU64,
    /// The longest sleep, in nanoseconds.
    pub ceiling_ns: AtomicU64,
    /// A yield that took this long let another thread run, in ticks.
    pub slow_yield_ticks: AtomicU64,
    /// A wait that is over within this time was a short one, in ticks.
    pub short_wait_ticks: AtomicU64,
    /// [`Guard`]
    guard: AtomicU32,
    /// [`Lock`]
    lock: AtomicU32,
    /// [`Short`]
    short: AtomicU32,
    /// How many times as long a thread on a little CPU is to take, in thousandths.
    pub dilation: AtomicU32,
    verbose: AtomicBool,
    cache: AtomicBool,
    perf_map: AtomicBool,
}

/// How long a yield takes, at least, if another thread ran meanwhile.
const SLOW_YIELD_NS: u64 = 20_000;
/// The longest wait that spinning would have been right for: a few times the cost of a yield.
const SHORT_WAIT_NS: u64 = 10_000;

/// The settings of this process.
pub static SETTINGS: Settings = Settings {
    spins: AtomicU32::new(10),
    yields: AtomicU32::new(1000),
    step_ns: AtomicU64::new(100_000),
    ceiling_ns: AtomicU64::new(1_000_000),
    slow_yield_ticks: AtomicU64::new(SLOW_YIELD_NS),
    short_wait_ticks: AtomicU64::new(SHORT_WAIT_NS),
    guard: AtomicU32::new(Guard::Off as u32),
    lock: AtomicU32::new(Lock::Glibc as u32),
    short: AtomicU32::new(Short::Auto as u32),
    dilation: AtomicU32::new(1000),
    verbose: AtomicBool::new(false),
    cache: AtomicBool::new(false),
    perf_map: AtomicBool::new(false),
};

impl Settings {
    /// Takes over the numbers of the options.
    pub fn set(&self, options: &Options<'_>, ticks: impl Fn(u64) -> u64) {
        self.spins.store(options.spins, Ordering::Relaxed);
        self.yields.store(options.yields, Ordering::Relaxed);
        self.step_ns.store(u64::from(options.step_us) * 1000, Ordering::Relaxed);
        self.ceiling_ns.store(u64::from(options.ceiling_us) * 1000, Ordering::Relaxed);
        self.slow_yield_ticks.store(ticks(SLOW_YIELD_NS), Ordering::Relaxed);
        self.short_wait_ticks.store(ticks(SHORT_WAIT_NS), Ordering::Relaxed);
        self.verbose.store(options.verbose, Ordering::Relaxed);
        self.cache.store(options.cache, Ordering::Relaxed);
        self.perf_map.store(options.perf_map, Ordering::Relaxed);
        self.dilation.store(options.dilation, Ordering::Relaxed);
        self.short.store(options.short as u32, Ordering::Relaxed);
        self.lock.store(options.lock as u32, Ordering::Relaxed);
        self.guard.store(options.guard as u32, Ordering::Release);
    }

    /// What the program's mutexes are to be; the C library's until options have been read.
    pub fn lock(&self) -> Lock {
        Lock::from_number(self.lock.load(Ordering::Relaxed)).unwrap_or(Lock::Glibc)
    }
}

/// How the guard works.
pub fn guard() -> Guard {
    Guard::from_number(SETTINGS.guard.load(Ordering::Acquire)).unwrap_or(Guard::Off)
}

/// Whether CPUs are said to be short, or not to be.
pub fn short() -> Short {
    Short::from_number(SETTINGS.short.load(Ordering::Relaxed)).unwrap_or(Short::Auto)
}

/// Whether to say on standard error what could not be done.
pub fn verbose() -> bool {
    SETTINGS.verbose.load(Ordering::Relaxed)
}

/// Whether what a search found may be kept in the user's cache folder.
pub fn cache() -> bool {
    SETTINGS.cache.load(Ordering::Relaxed)
}

/// Whether the copies of loops are named in a map for `perf`.
pub fn perf_map() -> bool {
    SETTINGS.perf_map.load(Ordering::Relaxed)
}
