//! The number of CPUs that is reported to the program now.
//!
//! The options are read once. If they leave the count to us it is looked up when it is first asked
//! for, since most programs never ask, and again when it is asked for after [`FRESH_NS`]: quotas
//! change while programs run, and some runtimes ask each second. A look-up reads a dozen small
//! files, in about 100 µs; in between an answer costs a look at the clock.
//!
//! The affinity that counts is the affinity with which the program was started. What it has done to
//! its threads since, such as binding the asking thread to a single CPU, says nothing about how
//! many threads it may start.
//!
//! No descriptor is kept open for it, though that would be cheaper: programs close descriptors that
//! they do not know, count them, and hand them on.
//!
//! Invariants:
//! 1. What a look-up allocates lies in memory of its own ([`crate::arena::with_scratch`]), so it
//!    waits for no thread: not for a thread that is in our arena (a signal handler's own thread may
//!    be there), nor for a thread that a fork has left behind.
//! 2. While a thread looks up, its signals are blocked, so no handler meets it there.
//! 3. A thread that finds the count too old and moves `LOOKED_UP_NS` on looks the count up; others
//!    take the old count meanwhile. If the thread that moved it is gone, another thread looks the
//!    count up after [`FRESH_NS`].

use super::paced;
use crate::{arena, process, selection};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use manx::cpu::{CpuBudget, CpuSet, LimitKind, Rounding};
use platform::signal::{Change, FROM_OUTSIDE, change_mask};
use platform::{clock, cpu};
use preload_abi::OPTIONS_VARIABLE;
use preload_abi::cpus::{Cpus, Place, Places};
use preload_abi::options::Options;

/// For this time a count is not looked up again.
pub const FRESH_NS: u64 = clock::SECOND_NS / 10;

/// What the options say: [`UNREAD`], [`KEEP`], [`AUTO`], or a count.
static WANTED: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = 0;
const KEEP: u32 = u32::MAX;
const AUTO: u32 = u32::MAX - 1;
const _: () = assert!(Cpus::MAX < AUTO);

/// Whether the options say so of affinity masks, of configured CPUs, and of online CPUs whoever
/// asks. Written before `WANTED`.
static MASKS: AtomicU32 = AtomicU32::new(0);
static CONFIGURED: AtomicU32 = AtomicU32::new(0);
static ONLINE: AtomicU32 = AtomicU32::new(0);

/// The affinity that the program was started with, a bit for each CPU. Written before `WANTED`.
static AFFINITY_AT_START: [AtomicU64; cpu::COUNT_MAX / 64] =
    [const { AtomicU64::new(0) }; cpu::COUNT_MAX / 64];

/// The CPU on which the program was started, or asked first. Written before `WANTED`.
static FIRST_CPU: AtomicU32 = AtomicU32::new(0);

/// What was last looked up, rounded down, and above [`UP_SHIFT`] rounded up; 0: nothing yet.
static COUNT: AtomicU32 = AtomicU32::new(0);
const UP_SHIFT: u32 = 16;
const _: () = assert!(Cpus::MAX < 1 << UP_SHIFT);
/// When that began.
static LOOKED_UP_NS: AtomicU64 = AtomicU64::new(0);

/// How a caller gets from a fraction of CPUs to a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// Down, as all callers do that know nothing of quotas.
    Down,
    /// Up.
    Up,
}

/// The number of CPUs that is reported to the program, at least 1; `None` if the program gets the C
/// library's answers.
pub fn count(rounds: Rounds) -> Option<usize> {
    match wanted() {
        KEEP => None,
        AUTO => current().map(|both| match rounds {
            Rounds::Down => both & ((1 << UP_SHIFT) - 1),
            Rounds::Up => both >> UP_SHIFT,
        } as usize),
        count => Some(count as usize),
    }
}

/// Whether that number is also the answer where the program asks for configured CPUs.
pub fn also_configured() -> bool {
    // Relaxed: `wanted` has acquired what was written before the options counted as read.
    wanted() != KEEP && CONFIGURED.load(Ordering::Relaxed) != 0
}

/// Whether that number is the answer to each caller that asks for online CPUs.
pub fn also_online() -> bool {
    // Relaxed: as above.
    wanted() != KEEP && ONLINE.load(Ordering::Relaxed) != 0
}

/// Whether that number also bounds each affinity mask that the program asks for.
pub fn also_affinity() -> bool {
    // Relaxed: as above.
    wanted() != KEEP && MASKS.load(Ordering::Relaxed) != 0
}

/// The first of the CPUs that a program is told of. The kernel chose it for this program, so
/// programs that are told of a part of the machine are not all told of the same part.
pub fn first_cpu() -> usize {
    // Relaxed: as above.
    FIRST_CPU.load(Ordering::Relaxed) as usize
}

/// Whether any answer is ours.
pub fn is_wanted() -> bool {
    wanted() != KEEP
}

/// What the options say. The first call reads them; if two do so at once, both read the same.
fn wanted() -> u32 {
    // Acquire: pairs with the release in `read`, so the places are known with it.
    match WANTED.load(Ordering::Acquire) {
        UNREAD => read(),
        known => known,
    }
}

#[cold]
fn read() -> u32 {
    if !process::has_environment() {
        // Too early to know what is wanted: for now the C library's answers stand.
        return KEEP;
    }
    let options = Options::parse(process::variable(OPTIONS_VARIABLE.as_bytes()).unwrap_or(b""));
    let selected = selection::process(&options);
    let (wanted, also) =
        if selected { (encode(options.cpus), options.cpus_also) } else { (KEEP, Places::NONE) };
    let mut allowed = cpu::allowed().map(u64::to_le_bytes);
    paced::tell_all(allowed.as_flattened_mut());
    for (word, allowed) in AFFINITY_AT_START.iter().zip(allowed) {
        word.store(u64::from_le_bytes(allowed), Ordering::Relaxed);
    }
    FIRST_CPU.store(cpu::current() as u32, Ordering::Relaxed);
    MASKS.store(u32::from(also.has(Place::Affinity)), Ordering::Relaxed);
    CONFIGURED.store(u32::from(also.has(Place::Configured)), Ordering::Relaxed);
    ONLINE.store(u32::from(also.has(Place::Online)), Ordering::Relaxed);
    WANTED.store(wanted, Ordering::Release);
    wanted
}

fn encode(cpus: Cpus) -> u32 {
    match cpus {
        Cpus::Keep => KEEP,
        Cpus::Auto => AUTO,
        Cpus::Count(count) => count.clamp(1, Cpus::MAX),
    }
}

/// Both counts, looked up now or a moment ago; `None` if that cannot be done.
fn current() -> Option<u32> {
    let now_ns = clock::now_ns();
    // Relaxed, here and below: a count is a number by itself, and of two that are close in time
    // either will do.
    let (known, before_ns) = (COUNT.load(Ordering::Relaxed), LOOKED_UP_NS.load(Ordering::Relaxed));
    if known != 0 {
        if now_ns.saturating_sub(before_ns) < FRESH_NS {
            return Some(known);
        }
        // Invariant 3.
        let moved =
            LOOKED_UP_NS.compare_exchange(before_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !moved {
            return Some(known);
        }
    }
    let Some(found) = look_up() else { return (known != 0).then_some(known) };
    COUNT.store(found, Ordering::Relaxed);
    if known == 0 {
        LOOKED_UP_NS.store(now_ns, Ordering::Relaxed);
    }
    Some(found)
}

/// Looks both counts up; `None` if there is no memory to do it in, or nothing tells.
#[cold]
fn look_up() -> Option<u32> {
    let mask = change_mask(Change::Block, FROM_OUTSIDE);
    // Nothing that was allocated outlives the closure.
    let found = arena::with_scratch(|| {
        let words = AFFINITY_AT_START.each_ref().map(|word| word.load(Ordering::Relaxed));
        let affinity = CpuSet::from_words(words);
        let known = Some(&affinity).filter(|affinity| !affinity.is_empty());
        let budget = CpuBudget::detect("/".as_ref(), known);
        // A budget of an unknown source changes nothing.
        let is_known = !matches!(budget.source(), LimitKind::Unknown);
        let bounded = |count: usize| u32::try_from(count).unwrap_or(Cpus::MAX).clamp(1, Cpus::MAX);
        let (down, up) = (bounded(budget.count(Rounding::Floor)), bounded(budget.count(Rounding::Ceil)));
        is_known.then_some(up << UP_SHIFT | down)
    });
    change_mask(Change::Set, mask);
    found.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_options_are_told_apart() {
        assert_eq!(encode(Cpus::Count(3)), 3);
        let all = [encode(Cpus::Keep), encode(Cpus::Auto), encode(Cpus::Count(Cpus::MAX)), UNREAD];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one));
        }
    }

    #[test]
    fn the_count_that_is_looked_up_is_the_budget() {
        wanted();
        let budget = CpuBudget::now();
        let both = (budget.count(Rounding::Ceil) << UP_SHIFT | budget.count(Rounding::Floor)) as u32;
        assert_eq!(look_up(), Some(both));
        assert_eq!(current(), Some(both));
        assert_eq!(current(), Some(both), "and once more, from memory");
        assert_eq!(count(Rounds::Down), Some(budget.count(Rounding::Floor)));
        assert_eq!(count(Rounds::Up), Some(budget.count(Rounding::Ceil)));
    }
}
