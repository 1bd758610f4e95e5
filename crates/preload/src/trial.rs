//! What the library does while CPUs are short, and whether it helps: see [`manx::wait::trial`].
//!
//! | cure | as the author wrote | with the cure | what threads lose without it |
//! | --- | --- | --- | --- |
//! | [`Cure::Spin`] | a loop spins | it yields and sleeps, or its counter is moved on: [`crate::guard::visit`] | what a wait burns after a quarter of a millisecond |
//! | [`Cure::Yield`] | a loop yields, and a yield takes a slice | it sleeps: [`crate::yields`] | the time of yields that take a millisecond: threads are away in it |
//!
//! No cure acts before the program has said that it helps. There is one answer for all loops that
//! spin, and one for all that yield: the threads of a program wait for each other, so the work of
//! one place depends on all others. Spin locks of the C library ([`crate::spin_lock`]) and mutexes
//! ([`crate::lock`]) are not asked about: they keep accounts of their own.

use crate::settings::settings;
use crate::{shortage, statistics, thread};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use manx::wait::trial::{Progress, Trial};
use platform::clock;
use preload_abi::live::Cure;
use preload_abi::options;

static TRIAL: Trial<{ Cure::ALL.len() }> = Trial::new(0, 1 << Cure::Yield as u32);
/// The time that threads burned in waits, in ticks, as far as it was counted.
static BURNED: AtomicU64 = AtomicU64::new(0);
/// The fewest CPUs that threads have had: what was answered before they had fewer is of another
/// time, and another machine.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// A thread waits where the cure would act, while CPUs are short: whether it acts now.
#[inline]
pub fn cures(cure: Cure, now_ticks: u64) -> bool {
    match settings().trial {
        // For tests, and without an end to what is waited through.
        _ if settings().short == options::Short::Always => cure == Cure::Spin,
        options::Trial::On => {
            TRIAL.drive(now_ticks, || progress(now_ticks));
            TRIAL.acts(cure as usize)
        }
        options::Trial::Off => TRIAL.acts(cure as usize),
        options::Trial::AlwaysCure => true,
    }
}

#[cold]
fn progress(now_ticks: u64) -> Progress {
    if let Some(live) = statistics::header_if_made() {
        for cure in Cure::ALL {
            let (verdict, record) = (TRIAL.verdict(cure as usize), &live.trials[cure as usize]);
            record.acts.store(u32::from(verdict.acts), Ordering::Relaxed);
            record.kept.store(verdict.kept, Ordering::Relaxed);
            record.dropped.store(verdict.dropped, Ordering::Relaxed);
            record.as_written_ns.store(verdict.as_written_ns, Ordering::Relaxed);
            record.cured_ns.store(verdict.cured_ns, Ordering::Relaxed);
        }
    }
    let cpus = shortage::fewest_cpus();
    if CPUS.swap(cpus, Ordering::Relaxed) != cpus {
        TRIAL.begin_anew();
    }
    let burned_ns = clock::ticks_to_ns(BURNED.load(Ordering::Relaxed));
    Progress {
        work_ns: clock::process_cpu_ns().saturating_sub(burned_ns),
        burned_ns,
        short_ns: shortage::lasted_ns(now_ticks),
    }
}

/// Returns whether work is measured now, so that waits are to say what they burn.
#[inline]
pub fn measures() -> bool {
    TRIAL.measures()
}

/// A thread has lost this time in a wait that is as its author wrote.
#[inline]
pub fn lost(cure: Cure, ticks: u64) {
    TRIAL.lost(cure as usize, ticks);
}

/// Makes a wait's call of the kernel, a yield or a sleep: the CPU time that it takes is burned. A
/// sleep takes some microseconds of it, and a yield that switches as much as one that does not.
#[inline]
pub fn waits_by(call: impl FnOnce()) {
    if !measures() {
        return call();
    }
    let used_ns = cpu_ns_of(call);
    thread::current().burned_until_ticks.set(clock::ticks());
    BURNED.fetch_add(clock::ns_to_ticks(used_ns), Ordering::Relaxed);
}

#[inline(always)]
fn cpu_ns_of(call: impl FnOnce()) -> u64 {
    let before_ns = clock::thread_cpu_ns();
    call();
    clock::thread_cpu_ns().saturating_sub(before_ns)
}

/// A wait of this thread used the CPU between these times, but for no longer than `most_ns`: for
/// the rest the thread was away. Waits may lie in each other, as a yield in a loop that spins: each
/// moment is counted once.
#[inline]
pub fn burned(since_ticks: u64, until_ticks: u64, most_ns: u64) {
    if measures() {
        let counted = &thread::current().burned_until_ticks;
        let ticks = until_ticks.saturating_sub(since_ticks.max(counted.replace(until_ticks)));
        BURNED.fetch_add(ticks.min(clock::ns_to_ticks(most_ns)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_burns_the_cpu_time_that_it_uses_and_not_the_time_that_it_is_away() {
        let mut inside_ns = 0;
        let spin = || {
            let before_ns = clock::thread_cpu_ns();
            while inside_ns < 1_000_000 {
                inside_ns = clock::thread_cpu_ns() - before_ns;
            }
        };
        assert!(cpu_ns_of(spin) >= inside_ns);
        let began_ns = clock::now_ns();
        let used_ns = cpu_ns_of(|| platform::thread::sleep_ns(5_000_000));
        assert!((1..clock::now_ns() - began_ns).contains(&used_ns), "{used_ns}");
    }
}
