//! Are CPUs short for this process now? What a thread that spins can tell of it.
//!
//! While there is room every loop spins as its author wrote, for as long as the author wrote. While
//! CPUs are short it does not spin at all: the thread that it waits for needs the CPU that it
//! burns. So everything depends on knowing which of the two it is, quickly, without a thread of our
//! own, and at no cost to threads that do not spin for long.
//!
//! A thread that has spun for a while *looks*. There are two kinds of evidence:
//!
//! | evidence | what it is | it shows |
//! | --- | --- | --- |
//! | a gap | between two readings of its own clock lies `GAP_NS` or more, and the kernel has counted one more involuntary switch of the thread | the thread was preempted while it spun: by another program, by another thread of its own, or because the quota was used up |
//! | a crowd | some readings in a row (`CROWDED_FIRST`, `CROWDED_STILL`), `READING_NS` apart, of the machine's number of runnable threads (`/proc/loadavg`), each above its number of CPUs | a thread waits for a CPU, before any thread is preempted |
//!
//! A wait that is over when its thread gets the CPU back ends without a look: the partner has run
//! in the gap. So a thread that begins a wait `GAP_NS` or more after its last look, and was
//! preempted meanwhile but has not slept, takes that for a gap too. This evidence is weak: the
//! thread may have worked meanwhile, or another command may have run for a moment and ended. So one
//! thread must find two such gaps within `PROBE_NS`; the window is then the shortest and does not
//! grow. In a thread that may run on fewer CPUs than the process had at first, or on one, one
//! preemption since its last look is enough: there are more threads than CPUs for them, as where a
//! quota is paced.
//!
//! A gap without a switch is an interrupt, or a hypervisor's doing; a single reading may be a
//! kernel thread that wakes for a moment. The crowd is asked only where the process may use all
//! CPUs of the machine: others may be crowded while ours are idle.
//!
//! Evidence makes CPUs short for a *window*. In that time no thread spins, so no thread can look.
//! When it is over, threads spin again and look again: this is the probe. A probe that finds
//! evidence within `PROBE_NS` of the window's end doubles the next window; a probe that finds none
//! brings it back to `WINDOW_NS_MIN`. So a false alarm costs milliseconds, and beside a neighbour
//! that stays the probes grow apart: each costs some hundred microseconds where the crowd is seen,
//! and a slice where only a gap tells.
//!
//! Invariants:
//! 1. Everything here runs in the trampoline too (see [`crate::guard::visit`]): system calls are
//!    made directly, nothing allocates, locks or panics.
//! 2. The words are hints. They order nothing, so they are relaxed, and a lost update costs one
//!    probe.
//! 3. The file is read, never written, and what is read is used only if it is of the form that the
//!    kernel writes: the program may have closed our descriptor and opened another file under its
//!    number.

use crate::settings::settings;
use crate::thread;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use libc::PROC_SUPER_MAGIC;
use platform::clock::{ns_to_ticks, ticks_to_ns};
use platform::file::File;
use platform::usage::Switches;
use platform::{cpu, usage};
use preload_abi::options::Short;

/// A thread that was away for this long while it spun was preempted, if the kernel counted it.
const GAP_NS: u64 = 1_000_000;
/// A thread that was away for this long before a wait reads its counts of switches, so that at a
/// later gap the last reading is recent.
const ASK_NS: u64 = 250_000;
/// How long a thread spins before it asks how many others are runnable.
const PATIENCE_NS: u64 = 100_000;
/// How far apart the process's readings are.
const READING_NS: u64 = 60_000;
/// Readings further apart than this do not belong to one crowd.
const ROW_NS: u64 = 8 * READING_NS;
/// This number of readings in a row makes a crowd. A command that runs for a moment beside the
/// program makes fewer.
const CROWDED_FIRST: u32 = 8;
/// Soon after a window, this smaller number makes a crowd.
const CROWDED_STILL: u32 = 4;
/// The first window, and the window of a process whose last probe found room.
const WINDOW_NS_MIN: u64 = 1_000_000;
/// The longest window after a crowd: its probe costs some hundred microseconds.
const WINDOW_NS_CROWD: u64 = 80_000_000;
/// The longest window after a gap: its probe may cost a slice.
const WINDOW_NS_GAP: u64 = 640_000_000;
/// Evidence within this time after a window, or within the window's own length if that is longer,
/// continues the shortage.
const PROBE_NS: u64 = 20_000_000;

/// The window that goes on, or the last one.
static WINDOW: Window = Window { until_ticks: AtomicU64::new(0), ticks: AtomicU64::new(0) };
/// The lengths of all windows, in ticks.
static LASTED: AtomicU64 = AtomicU64::new(0);
/// When the process last read how many threads are runnable, in ticks.
static READ: AtomicU64 = AtomicU64::new(0);
/// The descriptor of `/proc/loadavg`; -1: there is none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// CPUs of the machine; 0 if that is not known.
static ONLINE: AtomicU32 = AtomicU32::new(0);

/// CPUs on which the process might run when the guard woke; 0 if that is not known.
static ALLOWED: AtomicU32 = AtomicU32::new(0);

/// The fewest CPUs on which a thread might run since then.
static FEWEST: AtomicU32 = AtomicU32::new(0);

/// Takes over what the user wants. Called once, before there are threads.
pub fn set(short: Short) {
    WINDOW.until_ticks.store(if short == Short::Always { u64::MAX } else { 0 }, Ordering::Relaxed);
}

/// Gets ready to count runnable threads. Called when the guard wakes.
pub fn prepare() {
    if FILE.load(Ordering::Relaxed) >= 0 || settings().short != Short::Auto {
        return;
    }
    let allowed = cpu::count_if_few() as u32;
    ALLOWED.store(allowed, Ordering::Relaxed);
    FEWEST.store(allowed, Ordering::Relaxed);
    let Some(online) = online() else { return };
    ONLINE.store(online, Ordering::Relaxed);
    // In some containers the file is a daemon's (lxcfs), and to read it takes long.
    if let Ok(file) = File::open(c"/proc/loadavg").map(File::to_high_descriptor)
        && file.file_system() == Ok(PROC_SUPER_MAGIC)
    {
        FILE.store(file.into_descriptor(), Ordering::Relaxed);
    }
}

/// How many CPUs the machine has.
fn online() -> Option<u32> {
    let mut text = [0; 256];
    let length = File::open(c"/sys/devices/system/cpu/online").ok()?.read_once_at(&mut text, 0).ok()?;
    let number = |digits: &[u8]| core::str::from_utf8(digits).ok()?.parse::<u32>().ok();
    text.get(..length)?.trim_ascii().split(|&byte| byte == b',').try_fold(0, |sum, range| {
        let mut ends = range.splitn(2, |&byte| byte == b'-');
        let first = number(ends.next()?)?;
        let last = ends.next().map_or(Some(first), number)?;
        Some(sum + last.checked_sub(first)? + 1)
    })
}

/// Whether CPUs are short now.
#[inline(always)]
pub fn is_short(now_ticks: u64) -> bool {
    WINDOW.is_open(now_ticks)
}

/// For how long CPUs have been short until now, all windows together, in nanoseconds.
pub fn lasted_ns(now_ticks: u64) -> u64 {
    let until = WINDOW.until_ticks.load(Ordering::Relaxed);
    if until == u64::MAX {
        return ticks_to_ns(now_ticks);
    }
    // Of the window that goes on, the rest is still to come.
    ticks_to_ns(LASTED.load(Ordering::Relaxed).saturating_sub(until.saturating_sub(now_ticks)))
}

/// A thread that has spun since `began_ticks`, and read its clock at `last_ticks` before, looks
/// whether CPUs are short.
#[inline]
pub fn look(began_ticks: u64, last_ticks: u64, now_ticks: u64) -> bool {
    if is_short(now_ticks) {
        return true;
    }
    let away_ticks = now_ticks.saturating_sub(last_ticks);
    let spun_ticks = now_ticks.saturating_sub(began_ticks);
    if spun_ticks < ns_to_ticks(PATIENCE_NS) && away_ticks < ns_to_ticks(PATIENCE_NS) {
        return false;
    }
    look_slow(away_ticks, spun_ticks, now_ticks)
}

#[cold]
fn look_slow(away_ticks: u64, spun_ticks: u64, now_ticks: u64) -> bool {
    if settings().short != Short::Auto {
        return false;
    }
    let most_ns = if away_ticks >= ns_to_ticks(GAP_NS) && switches_since().involuntary > 0 {
        WINDOW_NS_GAP
    } else if spun_ticks >= ns_to_ticks(PATIENCE_NS) && is_crowded(now_ticks) {
        WINDOW_NS_CROWD
    } else {
        return false;
    };
    WINDOW.begin(now_ticks, most_ns);
    true
}

/// A thread that left its last wait, or its last look in it, at `left_ticks` begins another wait.
#[inline]
pub fn on_wait_begin(left_ticks: u64, now_ticks: u64) {
    let away_ticks = now_ticks.saturating_sub(left_ticks);
    if away_ticks >= ns_to_ticks(ASK_NS) && settings().short == Short::Auto {
        check_gap(away_ticks, now_ticks);
    }
}

/// Begins a window of shortage if the thread was preempted while it was away, and not long ago as
/// well.
#[cold]
fn check_gap(away_ticks: u64, now_ticks: u64) {
    // The window that goes on is as long as the evidence of others made it.
    if is_short(now_ticks) {
        return;
    }
    let since = switches_since();
    if since.involuntary > 0 && is_narrowed() {
        WINDOW.begin(now_ticks, WINDOW_NS_GAP);
    } else if away_ticks >= ns_to_ticks(GAP_NS) && since.involuntary > 0 && since.voluntary == 0 {
        let last = thread::current().gap_ticks.replace(now_ticks);
        if now_ticks.saturating_sub(last) < ns_to_ticks(PROBE_NS) {
            WINDOW.begin(now_ticks, WINDOW_NS_MIN);
        }
    }
}

/// The fewest CPUs on which a thread was seen to be allowed to run.
pub fn fewest_cpus() -> u32 {
    FEWEST.load(Ordering::Relaxed)
}

/// Whether this thread may run on fewer CPUs than the process could when the guard woke, or on one.
fn is_narrowed() -> bool {
    let now = cpu::count_if_few() as u32;
    if now < FEWEST.load(Ordering::Relaxed) {
        FEWEST.store(now, Ordering::Relaxed);
    }
    now == 1 || now < ALLOWED.load(Ordering::Relaxed)
}

/// What the kernel has counted of the thread since the thread last asked.
fn switches_since() -> Switches {
    let now = usage::of_this_thread();
    let before = thread::current().switches.replace(now);
    Switches {
        voluntary: now.voluntary.wrapping_sub(before.voluntary),
        involuntary: now.involuntary.wrapping_sub(before.involuntary),
    }
}

/// Whether more threads than there are CPUs have been runnable for a while.
fn is_crowded(now_ticks: u64) -> bool {
    let cpus = ONLINE.load(Ordering::Relaxed);
    let read_ticks = READ.load(Ordering::Relaxed);
    let due = now_ticks.saturating_sub(read_ticks) >= ns_to_ticks(READING_NS);
    if cpus == 0
        || !due
        || READ.compare_exchange(read_ticks, now_ticks, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return false;
    }
    /// Readings in a row that found a crowd, of the whole process.
    static CROWDED: AtomicU32 = AtomicU32::new(0);
    let Some(runnable) = runnable() else {
        // The descriptor is used for another file now.
        ONLINE.store(0, Ordering::Relaxed);
        return false;
    };
    let row = now_ticks.saturating_sub(read_ticks) < ns_to_ticks(ROW_NS);
    let crowded = if runnable <= cpus {
        0
    } else if row {
        CROWDED.load(Ordering::Relaxed) + 1
    } else {
        1
    };
    CROWDED.store(crowded, Ordering::Relaxed);
    if crowded < if WINDOW.is_probed(now_ticks) { CROWDED_STILL } else { CROWDED_FIRST } {
        return false;
    }
    CROWDED.store(0, Ordering::Relaxed);
    // Others' CPUs may be crowded while ours are idle.
    cpu::count_if_few() >= cpus as usize
}

/// How many threads of the machine are runnable now.
fn runnable() -> Option<u32> {
    let mut text = [0; 64];
    let length = File::borrowed(FILE.load(Ordering::Relaxed)).read_once_at(&mut text, 0).ok()?;
    parse(text.get(..length)?)
}

/// The fourth of the numbers in `0.01 0.02 0.05 2/345 678`.
fn parse(text: &[u8]) -> Option<u32> {
    /// More digits than a number of threads has.
    const DIGITS_MAX: u32 = 7;
    let (mut loads, mut length, mut number) = (0, 0u32, 0u32);
    for &byte in text {
        match byte {
            // A load: digits and a point, four characters at least.
            b' ' if loads < 3 && length >= 4 => (loads, length) = (loads + 1, 0),
            b'0'..=b'9' | b'.' if loads < 3 => length += 1,
            b'0'..=b'9' if length < DIGITS_MAX => {
                length += 1;
                number = number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
            }
            b'/' if loads == 3 && length > 0 => return Some(number),
            _ => return None,
        }
    }
    None
}

/// A stretch of time in which CPUs are short.
struct Window {
    /// When the window ends.
    until_ticks: AtomicU64,
    /// The length of the window. A window that begins soon after it is twice as long. Weak evidence
    /// leaves here the length that stronger evidence made before.
    ticks: AtomicU64,
}

impl Window {
    #[inline(always)]
    fn is_open(&self, now_ticks: u64) -> bool {
        let until = self.until_ticks.load(Ordering::Relaxed);
        now_ticks < until && is_plausible(until, now_ticks)
    }

    /// Whether the window has ended a short time ago.
    fn is_probed(&self, now_ticks: u64) -> bool {
        let until = self.until_ticks.load(Ordering::Relaxed);
        let last = self.ticks.load(Ordering::Relaxed);
        until != 0 && now_ticks.saturating_sub(until) < last.max(ns_to_ticks(PROBE_NS))
    }

    /// Begins another window, of `most_ns` at most.
    fn begin(&self, now_ticks: u64, most_ns: u64) {
        let until = self.until_ticks.load(Ordering::Relaxed);
        let last = if self.is_probed(now_ticks) { self.ticks.load(Ordering::Relaxed) } else { 0 };
        let (least, most) = (ns_to_ticks(WINDOW_NS_MIN), ns_to_ticks(most_ns));
        let ticks = last.saturating_mul(2).max(least).min(most);
        let next = now_ticks.saturating_add(ticks);
        // One of the threads that find the same evidence begins the window.
        if self.until_ticks.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            LASTED.fetch_add(ticks - until.saturating_sub(now_ticks).min(ticks), Ordering::Relaxed);
            // Weak evidence does not replace the length that stronger evidence has made.
            let learnt = if most_ns == WINDOW_NS_MIN { ticks.max(last) } else { ticks };
            self.ticks.store(learnt, Ordering::Relaxed);
        }
    }
}

/// Whether a window may end at `until`. No window is longer, unless the user says so: the clock was
/// set back, as when a machine is suspended or a process restored.
#[cold]
fn is_plausible(until: u64, now_ticks: u64) -> bool {
    until == u64::MAX || until - now_ticks <= ns_to_ticks(2 * WINDOW_NS_GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_and_weak_evidence_does_not_forget_what_a_strong_one_has_taught() {
        let window = Window { until_ticks: AtomicU64::new(0), ticks: AtomicU64::new(0) };
        let until = || window.until_ticks.load(Ordering::Relaxed);
        let (short, long) = (ns_to_ticks(WINDOW_NS_MIN), ns_to_ticks(WINDOW_NS_GAP));
        let mut now = long;
        let mut lengths = Vec::new();
        for _ in 0..12 {
            window.begin(now, WINDOW_NS_GAP);
            assert!(window.is_open(now) && !window.is_open(until()));
            lengths.push(until() - now);
            now = until() + 1;
        }
        assert_eq!((lengths[0], lengths[1], lengths[11]), (short, 2 * short, long));
        window.begin(now, WINDOW_NS_MIN);
        assert_eq!(until() - now, short);
        now = until() + 1;
        window.begin(now, WINDOW_NS_GAP);
        assert_eq!(until() - now, long);
        // Nothing for a long time: it begins anew.
        now = until() + 2 * long;
        window.begin(now, WINDOW_NS_GAP);
        assert_eq!(until() - now, short);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_window() {
        let window = Window { until_ticks: AtomicU64::new(0), ticks: AtomicU64::new(0) };
        let now = 1000 * ns_to_ticks(WINDOW_NS_GAP);
        window.begin(now, WINDOW_NS_GAP);
        assert!(window.is_open(now) && !window.is_open(1));
        window.until_ticks.store(u64::MAX, Ordering::Relaxed);
        assert!(window.is_open(1), "the user says so");
    }

    #[test]
    fn only_the_kernels_form_is_read() {
        assert_eq!(parse(b"0.00 0.01 0.05 3/345 678\n"), Some(3));
        assert_eq!(parse(b"12.50 10.01 9.05 128/3450 678\n"), Some(128));
        for text in [
            &b""[..],
            b"0.00 0.01 0.05",
            b"0.00 0.01 0.05 /345 1",
            b"0.00 0.01 0.05 x/345 1",
            b"a b c 1/2 3",
            b"0.00 0.01 0.05 12345678/1 1",
        ] {
            assert_eq!(parse(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
