//! Time: nanoseconds by the kernel's clocks, and ticks where a look must cost next to nothing.
//!
//! A *tick* is a unit of the cheapest clock that can be trusted. On x86-64 that is the time-stamp
//! counter if the CPU says that it is invariant and the kernel itself keeps time by it; on AArch64
//! the virtual counter; otherwise nanoseconds of the monotonic clock, by a direct system call.
//! [`init`] decides. [`ticks`] may be called from anywhere, a signal handler or a trampoline
//! included: it takes no lock, calls no symbol of another library and leaves `errno` alone.
//!
//! Invariants:
//! 1. `TICKS_PER_SECOND`, and the ratios that follow from it, are written before `SOURCE` says that
//!    the counter is used, and never changed again, so a thread that reads the counter converts
//!    with its true rate.
//! 2. Ticks taken before [`init`] and after it are not comparable. A program that keeps ticks
//!    calls it first.

use crate::atomic::{AtomicU8, AtomicU64, Ordering};
pub use crate::duration::duration_ns;
use crate::syscall::syscall2;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// [`init`] has not decided yet: [`ticks`] asks the kernel's monotonic clock.
const UNDECIDED: u8 = 0;
/// [`ticks`] reads the CPU's counter.
const COUNTER: u8 = 1;
/// [`ticks`] asks the kernel's monotonic clock for good.
const KERNEL: u8 = 2;

static SOURCE: AtomicU8 = AtomicU8::new(UNDECIDED);
static TICKS_PER_SECOND: AtomicU64 = AtomicU64::new(SECOND_NS);
/// What to multiply by, in units of 2^-32, rounded up: a division costs ten times as much.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(ratio(SECOND_NS, SECOND_NS));
static TICKS_PER_NS: AtomicU64 = AtomicU64::new(ratio(SECOND_NS, SECOND_NS));

/// Nanoseconds of the monotonic clock, which starts at some time in the past and never steps back.
///
/// ```
/// let before = platform::clock::now_ns();
/// assert!(platform::clock::now_ns() >= before);
/// ```
#[inline]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, as the system's clock has it; may step back when it is set.
pub fn unix_time_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// The CPU time that the calling thread has used, in nanoseconds. Like [`process_cpu_ns`] it is
/// asked of the kernel directly, so it may be called where [`ticks`] may.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    ask(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time that all threads of the process have used, in nanoseconds. The kernel visits each
/// of them.
#[inline]
pub fn process_cpu_ns() -> u64 {
    ask(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec. These clocks exist on every Linux; if one did not, the time
    // is 0.
    unsafe { libc::clock_gettime(clock, &mut time) };
    nanoseconds(&time)
}

#[inline(always)]
pub(crate) fn nanoseconds(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(SECOND_NS).wrapping_add(time.tv_nsec as u64)
}

/// `ns` nanoseconds as the kernel wants to be told.
#[inline(always)]
pub(crate) const fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / SECOND_NS) as libc::time_t, tv_nsec: (ns % SECOND_NS) as libc::c_long }
}

/// The time in ticks. See [`ticks_per_second`].
///
/// ```
/// use platform::clock;
///
/// clock::init();
/// let before = clock::ticks();
/// assert!(clock::ticks() >= before);
/// ```
#[inline]
pub fn ticks() -> u64 {
    // Relaxed: by Invariant 2 the reader was told by other means that `init` has run, or does not
    // care.
    if SOURCE.load(Ordering::Relaxed) == COUNTER {
        return counter();
    }
    ask(libc::CLOCK_MONOTONIC)
}

/// Asks the kernel, not the C library.
#[inline]
fn ask(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let place = (&raw mut time).addr();
    // SAFETY: the kernel writes one timespec. These clocks exist on every Linux; if one did not,
    // the time is 0.
    unsafe { syscall2(libc::SYS_clock_gettime, clock as usize, place) };
    nanoseconds(&time)
}

/// How many ticks there are in a second: 10⁹ until [`init`] has found a counter.
#[inline]
pub fn ticks_per_second() -> u64 {
    TICKS_PER_SECOND.load(Ordering::Relaxed)
}

/// A stretch of ticks in nanoseconds; exact to about 0.1 %.
///
/// ```
/// use platform::clock;
///
/// assert_eq!(clock::ticks_to_ns(clock::ticks_per_second()), clock::SECOND_NS);
/// ```
#[inline]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, NS_PER_TICK.load(Ordering::Relaxed))
}

/// A stretch of nanoseconds in ticks; exact to about 0.1 %.
#[inline]
pub fn ns_to_ticks(ns: u64) -> u64 {
    scale(ns, TICKS_PER_NS.load(Ordering::Relaxed))
}

/// `times / over` in units of 2^-32, rounded up.
const fn ratio(times: u64, over: u64) -> u64 {
    let over = if over == 0 { 1 } else { over };
    (((times as u128) << 32).div_ceil(over as u128)) as u64
}

/// `value` times `units` times 2^-32, and at most `u64::MAX`.
#[inline]
const fn scale(value: u64, units: u64) -> u64 {
    let product = (value as u128 * units as u128) >> 32;
    if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
}

/// The counter and the clock when [`note_start`] was called; 0: it was not.
#[cfg(target_arch = "x86_64")]
static START_TICKS: AtomicU64 = AtomicU64::new(0);
#[cfg(target_arch = "x86_64")]
static START_NS: AtomicU64 = AtomicU64::new(0);

/// Notes the time, for about a microsecond. If [`init`] is called later than 0.15 ms and sooner
/// than a second after this, it need not wait to see how fast the counter counts.
pub fn note_start() {
    #[cfg(target_arch = "x86_64")]
    if START_NS.load(Ordering::Relaxed) == 0 {
        let (ticks, ns) = ticks_and_ns();
        START_TICKS.store(ticks, Ordering::Relaxed);
        // Release: the ticks are written before.
        START_NS.store(ns, Ordering::Release);
    }
}

/// Decides what [`ticks`] counts. Costs about 0.2 ms the first time, unless [`note_start`] was
/// called in time, and nothing afterwards; threads may race here.
pub fn init() {
    if SOURCE.load(Ordering::Acquire) == UNDECIDED {
        decide(&SOURCE, counter_rate);
    }
}

#[cold]
fn decide(source: &AtomicU8, counter_rate: impl FnOnce() -> Option<u64>) {
    let Some(rate) = counter_rate() else {
        // The exchange fails if another thread has found a counter meanwhile. The answer is kept,
        // because the question opens a file.
        let _ = source.compare_exchange(UNDECIDED, KERNEL, Ordering::Relaxed, Ordering::Relaxed);
        return;
    };
    // The first thread decides the rate; a later one acquires that rate. In both cases the rate was
    // written before the release below (Invariant 1).
    let _ = TICKS_PER_SECOND.compare_exchange(SECOND_NS, rate, Ordering::AcqRel, Ordering::Acquire);
    let rate = TICKS_PER_SECOND.load(Ordering::Relaxed);
    NS_PER_TICK.store(ratio(SECOND_NS, rate), Ordering::Relaxed);
    TICKS_PER_NS.store(ratio(rate, SECOND_NS), Ordering::Relaxed);
    source.store(COUNTER, Ordering::Release);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; `init` is the judge of what it counts.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets every process read the virtual counter.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags))
    };
    ticks
}

/// The counter's rate in ticks a second, or `None` if it is not to be trusted.
#[cfg(target_arch = "aarch64")]
fn counter_rate() -> Option<u64> {
    let rate: u64;
    // SAFETY: Linux lets every process read the counter's frequency.
    unsafe {
        core::arch::asm!("mrs {}, cntfrq_el0", out(reg) rate, options(nostack, nomem, preserves_flags))
    };
    // Exactly 10⁹ (ARMv9) would look like "not yet decided"; the kernel's clock is as good then.
    (rate != 0 && rate != SECOND_NS).then_some(rate)
}

/// The counter's rate in ticks a second, or `None` if it is not to be trusted.
#[cfg(target_arch = "x86_64")]
fn counter_rate() -> Option<u64> {
    if !is_invariant() || !kernel_trusts_it() {
        return None;
    }
    // Acquire: pairs with the release in `note_start`. What was noted long ago may be from another
    // machine: a process can be frozen and moved.
    let (noted_ns, now) = (START_NS.load(Ordering::Acquire), ticks_and_ns());
    let is_young = noted_ns != 0 && now.1.wrapping_sub(noted_ns) < SECOND_NS;
    let (first_ticks, first_ns) =
        if is_young { (START_TICKS.load(Ordering::Relaxed), noted_ns) } else { now };
    while now_ns().wrapping_sub(first_ns) < CALIBRATION_NS {
        crate::cpu::pause();
    }
    let (last_ticks, last_ns) = ticks_and_ns();
    let ticks = u128::from(last_ticks.wrapping_sub(first_ticks)) * u128::from(SECOND_NS);
    let rate = (ticks / u128::from(last_ns.wrapping_sub(first_ns)).max(1)) as u64;
    // A counter that is slower than 1 MHz or faster than 16 GHz was not measured but missed.
    (1_000_000..1 << 34).contains(&rate).then_some(if rate == SECOND_NS { rate + 1 } else { rate })
}

/// How long the counter is compared with the kernel's clock. Each end is known to some 20 ns.
#[cfg(target_arch = "x86_64")]
const CALIBRATION_NS: u64 = 150_000;

/// The counter runs at one rate whatever the CPU does (CPUID 8000_0007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
}

/// The kernel keeps time by the counter, so it has found that it agrees on all CPUs.
#[cfg(target_arch = "x86_64")]
fn kernel_trusts_it() -> bool {
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut name = [0; 8];
    let Ok(file) = crate::file::File::open(path) else { return false };
    file.read_at(&mut name, 0) == Ok(4) && name.starts_with(b"tsc\n")
}

/// A reading of the counter and the clock at the same moment, as nearly as eight tries could make
/// it.
#[cfg(target_arch = "x86_64")]
fn ticks_and_ns() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = counter();
        let ns = now_ns();
        let width = counter().wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), ns);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_agree() {
        init();
        init();
        // The clock is read outside and inside of the counter at both ends, so that it does not
        // matter when this thread runs: the counted time lies between the two, but for the rate's
        // error.
        let outer_began_ns = now_ns();
        let began_ticks = ticks();
        let inner_began_ns = now_ns();
        crate::thread::sleep_ns(20_000_000);
        let inner_ns = now_ns() - inner_began_ns;
        let ticks = ticks() - began_ticks;
        let outer_ns = now_ns() - outer_began_ns;
        let ns = ticks_to_ns(ticks);
        let range = inner_ns - inner_ns / 100..=outer_ns + outer_ns / 100;
        assert!(range.contains(&ns), "{ns} ns by the counter, {range:?} by the clock");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_rate_can_be_told_from_the_start_on() {
        let Some(measured) = counter_rate() else { return };
        note_start();
        crate::thread::sleep_ns(2_000_000);
        let (start_ticks, start_ns) = (START_TICKS.load(Ordering::Relaxed), START_NS.load(Ordering::Relaxed));
        note_start();
        assert_eq!(START_TICKS.load(Ordering::Relaxed), start_ticks, "it is noted once");
        let (ticks, ns) = ticks_and_ns();
        let known = u128::from(ticks - start_ticks) * u128::from(SECOND_NS) / u128::from(ns - start_ns);
        assert!(measured.abs_diff(known as u64) < measured / 100, "{measured}, {known}");
        assert!(counter_rate().is_some_and(|rate| rate.abs_diff(measured) < measured / 100));
    }

    #[test]
    fn that_there_is_no_counter_is_decided_once() {
        let source = AtomicU8::new(UNDECIDED);
        decide(&source, || None);
        assert_eq!(source.load(Ordering::Relaxed), KERNEL);
        let source = AtomicU8::new(COUNTER);
        decide(&source, || None);
        assert_eq!(source.load(Ordering::Relaxed), COUNTER, "another thread has found one");
    }

    #[test]
    fn conversion_neither_overflows_nor_loses() {
        assert_eq!(scale(u64::MAX, ratio(3, 2)), u64::MAX);
        assert_eq!(scale(u64::MAX, ratio(SECOND_NS, SECOND_NS)), u64::MAX);
        assert_eq!(scale(10, ratio(3_000_000_000, SECOND_NS)), 30);
        assert_eq!(scale(2_500_000_001, ratio(SECOND_NS, 2_500_000_001)), SECOND_NS);
        assert_eq!(scale(7, ratio(1, 0)), 7);
        assert_eq!(ns_to_ticks(SECOND_NS), ticks_per_second());
    }

    #[test]
    fn a_time_is_told_to_the_kernel_and_back() {
        for ns in [0, 1, SECOND_NS - 1, SECOND_NS, 3 * SECOND_NS + 5] {
            assert_eq!(nanoseconds(&timespec(ns)), ns);
        }
    }

    #[test]
    fn working_uses_cpu_time_and_sleeping_does_not() {
        let before_ns = thread_cpu_ns();
        while thread_cpu_ns() - before_ns < 1_000_000 {
            crate::cpu::pause();
        }
        let worked_ns = thread_cpu_ns();
        let began_ns = now_ns();
        crate::thread::sleep_ns(5_000_000);
        assert!(thread_cpu_ns() - worked_ns < now_ns() - began_ns);
    }

    #[test]
    fn the_system_clock_is_past_2020() {
        assert!(unix_time_ns() > 50 * 365 * 86_400 * SECOND_NS);
    }
}
