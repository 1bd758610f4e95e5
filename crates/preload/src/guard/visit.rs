//! One round of a busy-wait loop, spent waiting as `wait`'s adaptive policy would have it: spin a little,
//! yield for a while, then sleep in growing steps (Andreoli and Cucinotta, section II-B).
//!
//! The loop goes on in a copy that says when a wait ends (`spinloop::copy`), so rounds are counted within
//! one wait and never across two: [`Thread::waiting`] is zero when a wait begins.
//!
//! How long spinning is right differs from loop to loop, so each site learns its own bound from how its
//! waits end. A wait that was over within a few yields would have been better spun: the bound doubles, up
//! to [`SPINS_MAX`]. A wait in which somebody else ran during a yield, or that came to sleep, was not:
//! the bound halves, down to the option's number. So a spinlock with short holds stays as fast as it
//! was, and turns to yielding as soon as its holder may be one of those that are not running. Who asks for no
//! spinning at all (`spins=0`) gets none.
//!
//! This code runs in a trampoline that saves the general and the xmm registers only, and signal handlers may
//! interrupt it and wait themselves. Invariants:
//! 1. From [`visit`] on, everything called is compiled into this library, and nothing of it uses other
//!    registers, allocates, locks, or can panic (see [`super::trampoline`]).
//! 2. `errno` is not touched: system calls are made directly.
//! 3. Nothing here has a destructor to run, and [`visit`] is `extern "C-unwind"`: a thread that is cancelled
//!    asynchronously unwinds from any instruction of it, through the trampoline, into the loop's function.
//! 4. A signal handler that visits a site in the middle of a visit may spoil this thread's counts, never
//!    more: every field of [`Thread`] is valid by itself.

use super::site::Site;
use crate::settings::SETTINGS;
use crate::thread::{self, Thread};
use core::sync::atomic::Ordering;
use manx::wait::{Action, Adaptive};
use platform::{clock, thread as os};
use preload_abi::live::How;

/// The largest bound that a site learns, in rounds: some microseconds, as long as a sleep and a wake-up
/// take. Waits that take longer than that do not raise it.
pub const SPINS_MAX: u32 = 512;
/// A wait that ended within so many yields might have been spun.
const FEW_YIELDS: u32 = 8;

/// In [`Thread::met`]: the thread's scheduling class is known.
const CLASS_KNOWN: u32 = 1;
/// In [`Thread::met`]: it is a real-time class, in which yields do not let lower threads run.
const REAL_TIME: u32 = 2;
/// In [`Thread::met`]: somebody else ran during a yield, or the wait came to sleep.
const OTHERS_RAN: u32 = 4;

/// Waits for one round of the loop at `site`.
pub extern "C-unwind" fn visit(site: &'static Site) {
    let thread = thread::current();
    thread.rounds.set(0);
    let now = clock::ticks();
    let here = core::ptr::from_ref(site).addr();
    if thread.waiting.get() == here {
        thread.round.set(thread.round.get().saturating_add(1));
    } else {
        settle(thread);
        begin(thread, site, now);
    }
    let policy = Adaptive {
        spins: bound(site),
        yields: SETTINGS.yields.load(Ordering::Relaxed),
        step_ns: SETTINGS.step_ns.load(Ordering::Relaxed),
        ceiling_ns: SETTINGS.ceiling_ns.load(Ordering::Relaxed),
    };
    let round = thread.round.get();
    let left = match policy.action(round) {
        Action::Spin => now,
        Action::Yield if is_real_time(thread) => {
            let slept = policy.action(round.saturating_add(policy.yields));
            sleep_once(site, thread, slept)
        }
        Action::Yield => yield_once(site, thread, now),
        sleep => sleep_once(site, thread, sleep),
    };
    thread.left_ticks.set(left);
}

/// A new wait begins.
fn begin(thread: &Thread, site: &Site, now: u64) {
    let here = core::ptr::from_ref(site).addr();
    thread.waiting.set(here);
    thread.site.set(here);
    thread.began_ticks.set(now);
    thread.counted_ticks.set(now);
    thread.left_ticks.set(now);
    // Rounds that the copy has spun by itself count as well.
    thread.round.set(u32::try_from(site.unseen_rounds()).unwrap_or(u32::MAX));
    thread.counted_rounds.set(0);
    thread.yields.set(0);
    thread.sleeps.set(0);
    thread.met.set(0);
    if let Some(record) = site.record() {
        record.waits.fetch_add(1, Ordering::Relaxed);
        record.visits.fetch_add(1, Ordering::Relaxed);
        thread.counted_rounds.set(1);
    }
}

/// Rounds before the first yield at this site.
pub fn bound(site: &Site) -> u32 {
    match site.spins.load(Ordering::Relaxed) {
        0 => SETTINGS.spins.load(Ordering::Relaxed),
        learnt => learnt,
    }
}

/// Whether yields are useless to this thread; asked once a wait, before its first yield.
fn is_real_time(thread: &Thread) -> bool {
    let met = thread.met.get();
    if met & CLASS_KNOWN != 0 {
        return met & REAL_TIME != 0;
    }
    let real_time = os::scheduling_class().yields_only_to_equals();
    thread.met.set(met | CLASS_KNOWN | if real_time { REAL_TIME } else { 0 });
    real_time
}

/// Yields, and returns until when. What happened so far is counted first, so that a look from outside sees
/// long waits while they last, and the waits of threads that end.
fn yield_once(site: &Site, thread: &Thread, before: u64) -> u64 {
    count(site, thread);
    os::yield_now();
    let after = clock::ticks();
    if after.wrapping_sub(before) > SETTINGS.slow_yield_ticks.load(Ordering::Relaxed) {
        thread.met.set(thread.met.get() | OTHERS_RAN);
    }
    thread.yields.set(thread.yields.get().saturating_add(1));
    after
}

/// Sleeps, and returns until when; counted like a yield.
fn sleep_once(site: &Site, thread: &Thread, action: Action) -> u64 {
    thread.met.set(thread.met.get() | OTHERS_RAN);
    thread.sleeps.set(thread.sleeps.get().saturating_add(1));
    count(site, thread);
    if let Action::Sleep { ns } = action {
        os::sleep_ns(ns);
    }
    clock::ticks()
}

/// The thread's last wait is over: its site learns from it, and what was not yet counted is.
fn settle(thread: &Thread) {
    // SAFETY: either zero or the address of a site, whose memory is never given back (Invariant 1 of
    // `site`).
    let Some(site) = (unsafe { (thread.site.get() as *const Site).as_ref() }) else { return };
    learn(site, thread);
    count(site, thread);
}

/// See the module's text.
fn learn(site: &Site, thread: &Thread) {
    let (bound, round) = (bound(site), thread.round.get());
    let lasted = thread.left_ticks.get().wrapping_sub(thread.began_ticks.get());
    if thread.met.get() & OTHERS_RAN != 0 {
        let floor = SETTINGS.spins.load(Ordering::Relaxed);
        if bound > floor {
            site.set_spins((bound / 2).max(floor));
        }
    } else if bound > 0
        && round >= bound
        && round - bound < FEW_YIELDS
        && bound < SPINS_MAX
        && lasted < SETTINGS.short_wait_ticks.load(Ordering::Relaxed)
    {
        site.set_spins((bound * 2).clamp(1, SPINS_MAX));
    }
    if site.is(How::Trap) {
        let short = site.short.load(Ordering::Relaxed);
        let next = if round == 0 { short.saturating_add(1) } else { short.saturating_sub(8) };
        site.short.store(next, Ordering::Relaxed);
    }
}

/// Adds what is not yet counted to the site's statistics.
fn count(site: &Site, thread: &Thread) {
    let Some(record) = site.record() else { return };
    let rounds = thread.round.get().wrapping_add(1);
    let left = thread.left_ticks.get();
    let add = |counter: &core::sync::atomic::AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
    add(&record.visits, u64::from(rounds.wrapping_sub(thread.counted_rounds.replace(rounds))));
    add(&record.yields, u64::from(thread.yields.replace(0)));
    add(&record.sleeps, u64::from(thread.sleeps.replace(0)));
    add(&record.waited_ticks, left.wrapping_sub(thread.counted_ticks.replace(left)));
    record.longest_ticks.fetch_max(left.wrapping_sub(thread.began_ticks.get()), Ordering::Relaxed);
}
