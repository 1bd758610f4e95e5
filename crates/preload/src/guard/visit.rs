//! One round of a wait, spent as the moment asks for.
//!
//! While there is room for all threads ([`crate::shortage`]) a visit only looks whether there still
//! is, and lets the loop spin on as its author wrote. It does so while CPUs are short, too, until
//! the running program has said that it does more work with the cure ([`crate::trial`]). Only a
//! wait that has lasted for `LONG_NS`, longer than any thread of a gang that runs needs, sleeps for
//! an eighth of its time (`rescue`). What the cure does depends on how the loop ends by itself:
//!
//! | the loop ends | the visit |
//! | --- | --- |
//! | never | waits adaptively: spin a little, yield for a while, then sleep in growing steps (Andreoli and Cucinotta, section II-B) |
//! | after a number of rounds, and then blocks | moves the counter on: the same as if the rounds had been run at once and had seen nothing |
//! | the same, but the thread was back within 5 µs 16 times in a row: it does not block | waits as at a hint until its author's time is over, if more than 50 µs of it are left |
//! | after a number of rounds, with an error | sleeps in small steps until the time is over that the rounds would have taken, and then moves the counter on |
//! | after a time | sleeps in small steps: rounds do not count |
//! | unknown, since its callers poll (`spinloop::Kind::Poll`) | yields, or sleeps for half of the time (`poll_on`); a real-time thread polls on |
//! | unknown, since only a hint is copied | waits adaptively, by numbers of its own: 32 visits, 120 yields, then sleeps in growing steps, for half of the time at most (`wait_at_hint`) |
//!
//! The loop goes on in a copy that says when a wait ends (`spinloop::copy`), so rounds are counted
//! within one wait and never across two: [`Thread::waiting`] is zero when a wait begins. A hint's
//! copy does not say so. There a wait is a row of visits that follow each other closely
//! (`CLOSELY_NS`).
//!
//! How long spinning is right while CPUs are short differs from loop to loop, so each site learns
//! its own bound from how its waits end. A wait that was over within a few yields would have been
//! better spun: the bound doubles, up to [`SPINS_MAX`]. A wait in which another thread ran during a
//! yield, or that came to sleep, would not: the bound halves, down to the option's number. So a
//! spinlock with short holds stays as fast as it was, and turns to yielding as soon as its holder
//! may be a thread that does not run. `spins=0` asks for no spinning at all.
//!
//! This code runs in a trampoline that saves the general and the xmm registers only, and signal
//! handlers may interrupt it and wait themselves. Invariants:
//! 1. From [`visit`] on, everything called is compiled into this library, and nothing of it uses
//!    other registers, allocates, locks, or can panic (see [`super::trampoline`]).
//! 2. `errno` is not touched: system calls are made directly.
//! 3. Nothing here has a destructor to run, and [`visit`] is `extern "C-unwind"`: a thread that is
//!    cancelled asynchronously unwinds from any instruction of it, through the trampoline, into the
//!    loop's function.
//! 4. A signal handler that visits a site in the middle of a visit may spoil this thread's counts,
//!    never more: every field of [`Thread`] is valid by itself.
//! 5. A counter is moved on only as far as the loop itself would count before it leaves
//!    ([`Counter::missing`]).
//! 6. It is moved on only once the thread has gone from pivot to pivot inside the copy: what was
//!    proven of a round (`spinloop::proof`) is not true of the way on which a thread comes in.
//! 7. A bound in memory is read as the loop reads it, but before the loop has looked whether its
//!    wait is over. By then the memory may have been given back, so the kernel reads it, and such a
//!    read never faults.

use super::registers::Registers;
use crate::settings::settings;
use crate::shortage;
use crate::site::Site;
use crate::thread::{self, Thread};
use crate::trial;
use core::sync::atomic::Ordering;
use core::time::Duration;
use manx::wait::{Action, Adaptive};
use platform::clock::ns_to_ticks;
use platform::{clock, thread as os};
use preload_abi::live::Cure;
use spinloop::{Bound, Counter, Kind, Place};

/// The largest bound that a site learns, in rounds: some microseconds, as long as a sleep and a
/// wake-up take. Waits that take longer than that do not raise it.
pub const SPINS_MAX: u32 = 512;
/// How many rounds a wait spins before its first visit where it is not cured, a few microseconds:
/// most waits of programs that wait well never come to a visit.
pub const UNSEEN_ROUNDS: u64 = 200;
/// A wait that ended within this number of yields might have been spun.
const FEW_YIELDS: u32 = 8;
/// A yield that took this long let another thread run.
const SLOW_YIELD_NS: u64 = 20_000;
/// The longest wait that spinning would have been right for: a few times the cost of a yield.
const SHORT_WAIT_NS: u64 = 10_000;
/// A thread that is back at its loop within this time did not block.
const BACK_NS: u64 = 5_000;
/// After this number of such returns in a row the loop is taken for a loop that does not block.
const BACKS: u32 = 16;
/// How far apart visits are while there is room, and the fewest and the most rounds between them.
const STRIDE_NS: u64 = 3_000;
const STRIDE_ROUNDS_MIN: u64 = 8;
const STRIDE_ROUNDS_FIRST: u64 = 64;
const STRIDE_ROUNDS_MAX: u64 = 4096;
/// Between two visits a thread spins for no longer than this: it was away for the rest.
const AWAY_NS: u64 = 2 * STRIDE_NS;
/// How long a wait with a bound sleeps at a time.
const STEP_NS: u64 = 50_000;
/// What a wait burns after this time is lost.
const LOSING_NS: u64 = 250_000;
/// A wait of this length is long: a slice and a tick. Sleeps in shorter waits take the threads of a
/// gang to one CPU, where they stay: LLVM's OpenMP, two threads beside one neighbour, 0.22 of the
/// operations with 1 ms, 0.96 with 6 ms.
const LONG_NS: u64 = 6_000_000;
/// A long wait sleeps for this part of its time so far …
const PART: u64 = 8;
/// … and for no longer than this.
const PART_NS_MAX: u64 = 1_000_000;
/// At a hint, a thread that comes back within this time, for each round that passed unseen, still
/// waits.
const CLOSELY_NS: u64 = 5_000;
/// Of the rounds that passed unseen, no more than these are taken into account: between two waits a
/// thread works.
const CLOSELY_ROUNDS: u64 = 4;
/// How a thread waits at a hint. It may be one of many threads that look for work, and no thread
/// wakes it. Work that comes while it sleeps is done late, or by others: so it yields first, which
/// costs nothing if no other thread wants the CPU. If there is no work, the yields of all these
/// threads take time from threads that have some: so it yields less often than at a loop that waits
/// for one thing. ONNX Runtime, 4 threads on 2 CPUs: 8 yields 2.7 ms, 24 yields 2.3 ms, 120 yields
/// 1.05 ms; in pairs, 400 yields are too many (p99 7 ms in place of 2.8 ms).
const HINT: Adaptive = Adaptive::of_ns(32, 120, STEP_NS, 400_000);
/// A thread that polls does so this often before it yields: a call takes as long as dozens of
/// rounds of a loop.
const POLLS: u32 = 4;
/// A yield that takes this long has let a thread run that does not poll.
const LONG_YIELD_NS: u64 = 1_000_000;
/// After such a yield the thread sleeps, in place of yielding, for this time.
const NO_YIELDS_NS: u64 = 20_000_000;
/// A thread that goes on as its author wrote runs this number of rounds between its sleeps, and one
/// more.
const TIMED_ROUNDS: u64 = 15;

/// In [`Thread::flags`]: the thread's scheduling class is known.
const CLASS_KNOWN: u32 = 1;
/// In [`Thread::flags`]: it is a real-time class, in which yields do not let lower threads run.
const REAL_TIME: u32 = 2;
/// In [`Thread::flags`]: another thread ran during a yield, or the wait came to sleep.
const OTHERS_RAN: u32 = 4;
/// In [`Thread::flags`]: the wait's counter was moved on.
const MOVED_ON: u32 = 8;
/// In [`Thread::flags`]: the wait was cured ([`adapt`]).
const WAS_CURED: u32 = 16;
/// In [`Thread::flags`], from this bit on: how often in a row the thread came back to the loop
/// right after its counter was moved on.
const BACK_SHIFT: u32 = 8;

/// Waits for one round of the loop at `site`. The loop goes on with these registers.
pub extern "C-unwind" fn visit(site: &'static Site, registers: &mut Registers) {
    let thread = thread::current();
    let stride = thread.stride.get();
    let passed = rounds_passed(stride, thread.rounds.replace(0));
    let now = clock::ticks();
    let kind = site.kind();
    if matches!(kind, Kind::Poll) && is_within_a_round(site, thread, now) {
        return;
    }
    let goes_on = match kind {
        Kind::Hint | Kind::Poll => goes_on_at_hint(site, thread, passed, now),
        _ => thread.waiting.get() == core::ptr::from_ref(site).addr(),
    };
    if goes_on {
        let rounds = u32::try_from(passed).unwrap_or(u32::MAX);
        thread.round.set(thread.round.get().saturating_add(rounds));
    } else {
        settle(thread);
        shortage::on_wait_begin(thread.left_ticks.get(), now);
        begin(thread, site, now);
    }
    thread.stride.set(0);
    let last = thread.left_ticks.get();
    let short = shortage::is_short(now) || shortage::look(thread.began_ticks.get(), last, now);
    if goes_on {
        trial::burned(last, now, AWAY_NS);
    }
    let cured = short && trial::cures(Cure::Spin, now);
    if !goes_on {
        site.set_unseen_rounds(if cured { u64::from(bound(site)) } else { UNSEEN_ROUNDS });
    }
    let left = if cured {
        cure(site, thread, registers, now, goes_on, passed)
    } else if short
        && is_long(thread, now)
        && let Some(left) = rescue(site, thread, registers, now, passed)
    {
        left
    } else {
        if short && goes_on && now.wrapping_sub(thread.began_ticks.get()) >= ns_to_ticks(LOSING_NS) {
            trial::lost(Cure::Spin, now.wrapping_sub(last).min(ns_to_ticks(AWAY_NS)));
        }
        spin_on(thread, goes_on, stride, now.wrapping_sub(last));
        now
    };
    thread.left_ticks.set(left);
}

/// Spends a round while CPUs are short and the cure acts, and returns until when. A function of its
/// own: the test that walks the machine code tells one table of jumps from the next by their
/// functions.
#[inline(never)]
fn cure(
    site: &'static Site,
    thread: &Thread,
    registers: &mut Registers,
    now: u64,
    goes_on: bool,
    passed: u64,
) -> u64 {
    match site.kind() {
        Kind::Unbounded => adapt(
            site,
            thread,
            now,
            Adaptive::of_ns(
                bound(site),
                settings().yields,
                u64::from(settings().sleep_step_us) * 1000,
                u64::from(settings().sleep_max_us) * 1000,
            ),
        ),
        Kind::Hint => wait_at_hint(site, thread, now),
        // A real-time thread polls on: the user gave it its CPU, and it may poll a device.
        Kind::Poll if is_real_time(thread) => now,
        Kind::Poll => poll_on(site, thread, now),
        // By Invariant 6.
        Kind::Counted(_) if !goes_on => now,
        Kind::Counted(counter) => {
            time_rounds(thread, now.wrapping_sub(thread.left_ticks.get()), passed);
            count_on(site, thread, counter, registers, now)
        }
        Kind::Timed => sleep_once(site, thread, STEP_NS),
    }
}

/// Spends a round of a long wait while CPUs are short and the cure does not act. Whatever the loop
/// is, sleeps for a part of the time that it has waited make it little longer. `None`: it is to
/// spin on.
#[inline(always)]
fn rescue(
    site: &'static Site,
    thread: &Thread,
    registers: &mut Registers,
    now: u64,
    passed: u64,
) -> Option<u64> {
    let waited = now.wrapping_sub(thread.began_ticks.get());
    let ns = match site.kind() {
        Kind::Counted(_) => return Some(cure(site, thread, registers, now, true, passed)),
        // It may work, and not wait: then all its sleeps together are to be a part of its time.
        Kind::Hint | Kind::Poll if thread.slept_ticks.get() > waited / PART => return None,
        Kind::Hint | Kind::Poll => STEP_NS,
        _ => (clock::ticks_to_ns(waited) / PART).min(PART_NS_MAX),
    };
    if is_real_time(thread) {
        return None;
    }
    let after = sleep_once(site, thread, ns);
    thread.slept_ticks.set(thread.slept_ticks.get().saturating_add(after.wrapping_sub(now)));
    Some(after)
}

/// Whether the wait has lasted so long that its author's way is of no use: longer than a thread
/// needs to come to its CPU if it is the next one there.
fn is_long(thread: &Thread, now: u64) -> bool {
    now.wrapping_sub(thread.began_ticks.get()) >= ns_to_ticks(LONG_NS)
}

/// How many rounds have passed since the last visit, which asked for `stride` more without one,
/// when `left` of them are left: a copy counts down until it is below zero. A copy that does not
/// count has left all of them.
fn rounds_passed(stride: u64, left: u64) -> u64 {
    if left == u64::MAX { stride.saturating_add(1) } else { stride.saturating_sub(left).max(1) }
}

/// Returns whether a function by which threads poll was called by another one, a moment ago.
fn is_within_a_round(site: &Site, thread: &Thread, now: u64) -> bool {
    // SAFETY: as in `settle`.
    let last = unsafe { (thread.site.get() as *const Site).as_ref() };
    last.is_some_and(|last| !core::ptr::eq(last, site) && matches!(last.kind(), Kind::Poll))
        && now.wrapping_sub(thread.left_ticks.get()) < ns_to_ticks(CLOSELY_NS)
}

/// Whether a thread that comes to a hint still waits for what it waited for.
fn goes_on_at_hint(site: &Site, thread: &Thread, passed: u64, now: u64) -> bool {
    let here = core::ptr::from_ref(site).addr();
    let closely = ns_to_ticks(CLOSELY_NS).saturating_mul(passed.min(CLOSELY_ROUNDS));
    thread.site.get() == here && now.wrapping_sub(thread.left_ticks.get()) < closely
}

/// There is room: the loop spins on without a visit, for about [`STRIDE_NS`].
fn spin_on(thread: &Thread, goes_on: bool, stride: u64, took_ticks: u64) {
    let wanted = ns_to_ticks(STRIDE_NS);
    let next = match (goes_on && stride > 0, took_ticks) {
        (true, took) if took < wanted / 2 => stride * 2,
        (true, took) if took > wanted * 2 => stride / 2,
        (true, _) => stride,
        (false, _) => STRIDE_ROUNDS_FIRST,
    };
    let next = next.clamp(STRIDE_ROUNDS_MIN, STRIDE_ROUNDS_MAX);
    thread.stride.set(next);
    thread.rounds.set(next);
}

/// Spends a round of a wait without a bound, or with an unknown bound, while CPUs are short.
fn adapt(site: &Site, thread: &Thread, now: u64, policy: Adaptive) -> u64 {
    // Rounds spun while there was room do not count, or the first visit of a shortage would sleep.
    let round = thread.short_round.get();
    thread.short_round.set(round.saturating_add(1));
    thread.flags.set(thread.flags.get() | WAS_CURED);
    match policy.action(round) {
        Action::Spin => now,
        Action::Yield if is_real_time(thread) => sleep_by(site, thread, policy.yields(0).action(round)),
        Action::Yield => yield_once(site, thread, now),
        sleep => sleep_by(site, thread, sleep),
    }
}

/// Spends a visit at a hint while CPUs are short.
///
/// A thread that waits and a thread that works, with a hint in each round of its work, look alike.
/// So the thread never sleeps for longer than it has been awake since its row of visits began:
/// then its work takes twice as long at most. In between it goes on as its author wrote, and visits
/// in a few rounds only, because a visit takes longer than a hint.
fn wait_at_hint(site: &Site, thread: &Thread, now: u64) -> u64 {
    let slept = thread.slept_ticks.get();
    let awake = now.wrapping_sub(thread.began_ticks.get()).saturating_sub(slept);
    let sleeps = matches!(HINT.action(thread.short_round.get()), Action::Sleep(_));
    if sleeps && awake < slept.saturating_add(ns_to_ticks(STEP_NS)) {
        thread.stride.set(TIMED_ROUNDS);
        thread.rounds.set(TIMED_ROUNDS);
        return now;
    }
    let after = adapt(site, thread, now, HINT);
    if sleeps {
        thread.slept_ticks.set(slept.saturating_add(after.wrapping_sub(now)));
    }
    after
}

/// A thread polls while CPUs are short.
///
/// Nothing says when its wait is over: two that send each other a word make one row of calls,
/// however many waits that are. So nothing here grows with the row. If the others poll as well,
/// they yield, too, and yields alone hand the CPU to the one that is waited for. Beside a thread
/// that works, a yield is lost for a slice. Then the thread sleeps, because the kernel runs a
/// thread that wakes soon, and polls for as long as it has slept: so the row takes twice as long at
/// most.
fn poll_on(site: &Site, thread: &Thread, now: u64) -> u64 {
    let round = thread.short_round.get();
    thread.short_round.set(round.saturating_add(1));
    if round < POLLS {
        return now;
    }
    if now >= thread.no_yields_until_ticks.get() {
        let after = yield_once(site, thread, now);
        if after.wrapping_sub(now) >= ns_to_ticks(LONG_YIELD_NS) {
            thread.no_yields_until_ticks.set(after.saturating_add(ns_to_ticks(NO_YIELDS_NS)));
        }
        return after;
    }
    let slept = thread.slept_ticks.get();
    let polled = now.wrapping_sub(thread.began_ticks.get()).saturating_sub(slept);
    if polled < slept.saturating_add(ns_to_ticks(STEP_NS)) {
        return now;
    }
    let after = sleep_once(site, thread, STEP_NS);
    thread.slept_ticks.set(slept.saturating_add(after.wrapping_sub(now)));
    after
}

/// A wait that is bounded by a counter, while CPUs are short.
fn count_on(site: &Site, thread: &Thread, counter: &Counter, registers: &mut Registers, now: u64) -> u64 {
    let value = read(counter.place, counter.bits, registers);
    let Some(bound) = bound_of(counter, registers) else { return now };
    let Some(missing) = counter.missing(value, bound) else { return now };
    // What should block does not always: a mutex may be free. A server's threads spin for a million
    // rounds, take a mutex that is held only while they are to sleep for long, and spin again.
    let blocks = counter.blocks && thread.flags.get() >> BACK_SHIFT < BACKS;
    if !blocks
        && let Some(left_ticks) = time_left(thread, missing)
        && (!counter.blocks || left_ticks > ns_to_ticks(STEP_NS))
    {
        // Between two visits the copy runs some rounds, whose time is measured.
        thread.stride.set(TIMED_ROUNDS);
        thread.rounds.set(TIMED_ROUNDS);
        if left_ticks == u64::MAX {
            return now;
        }
        let after = if counter.blocks {
            // A server's thread: what it waits for comes soon, or not for long.
            adapt(site, thread, now, HINT)
        } else {
            let ns = STEP_NS.min(clock::ticks_to_ns(left_ticks).max(1));
            sleep_once(site, thread, ns)
        };
        let slept = after.saturating_sub(now);
        thread.slept_ticks.set(thread.slept_ticks.get().saturating_add(slept));
        return after;
    }
    if missing > 0 {
        write(counter, counter.after(value, missing), registers);
    }
    thread.flags.set(thread.flags.get() | MOVED_ON);
    count(site, thread);
    now
}

/// The shortest time of a round in this wait counts: in the others, the thread may have been away.
fn time_rounds(thread: &Thread, took_ticks: u64, rounds: u64) {
    let one = took_ticks.checked_div(rounds).unwrap_or(took_ticks).max(1);
    let least = thread.round_ticks.get();
    thread.round_ticks.set(if least == 0 { one } else { least.min(one) });
}

/// How much of the missing rounds' time is left after the thread's sleeps. `None`: nothing.
/// `u64::MAX`: the time of a round is not known yet.
fn time_left(thread: &Thread, missing: u64) -> Option<u64> {
    match thread.round_ticks.get() {
        0 => Some(u64::MAX),
        one => missing.saturating_mul(one).checked_sub(thread.slept_ticks.get()).filter(|&left| left > 0),
    }
}

/// The value in a place of `bits` bits.
fn read(place: Place, bits: u32, registers: &Registers) -> u64 {
    match place {
        Place::Register(number) => registers.get(number),
        Place::Stack(base, distance) => load(registers.get(base).wrapping_add(distance as u64), bits),
    }
}

/// The bound of a counter; `None` if it cannot be read any more.
fn bound_of(counter: &Counter, registers: &Registers) -> Option<u64> {
    Some(match counter.bound {
        Bound::Constant(constant) => constant,
        Bound::Place(place, add) => read(place, counter.bits, registers).wrapping_add(add as u64),
        Bound::Memory(base, add) => {
            let address = base.map_or(0, |base| registers.get(base)).wrapping_add(add);
            // By Invariant 7. Half a word is read with the other half, which lies in the same page.
            let (word, shift) = match (counter.bits, address & 7) {
                (32, 0 | 4) => (address & !7, (address & 7) * 8),
                _ => (address, 0),
            };
            platform::memory::peek(word as usize)? as u64 >> shift
        }
    })
}

/// A word of the thread's own stack.
fn load(address: u64, bits: u32) -> u64 {
    // SAFETY: the loop reads this word, of this size, in each round that it counts
    // (`spinloop::proof`).
    unsafe {
        match bits {
            32 => u64::from((address as *const u32).read_volatile()),
            _ => (address as *const u64).read_volatile(),
        }
    }
}

/// Gives a counter its new value, by Invariant 5.
fn write(counter: &Counter, value: u64, registers: &mut Registers) {
    match counter.place {
        Place::Register(number) => registers.set(number, value),
        Place::Stack(base, distance) => {
            let address = registers.get(base).wrapping_add(distance as u64);
            // SAFETY: the loop writes this word of its own stack frame in each round, and no other
            // code knows it (`spinloop::proof`).
            unsafe {
                match counter.bits {
                    32 => (address as *mut u32).write_volatile(value as u32),
                    _ => (address as *mut u64).write_volatile(value),
                }
            }
        }
    }
}

/// A new wait begins.
fn begin(thread: &Thread, site: &Site, now: u64) {
    let here = core::ptr::from_ref(site).addr();
    if site.kind().is_loop() {
        thread.waiting.set(here);
    }
    let back = thread.site.get() == here
        && thread.flags.get() & MOVED_ON != 0
        && now.wrapping_sub(thread.left_ticks.get()) < ns_to_ticks(BACK_NS);
    let backs = (thread.flags.get() >> BACK_SHIFT) + 1;
    thread.flags.set(if back { backs.min(BACKS) << BACK_SHIFT } else { 0 });
    thread.site.set(here);
    thread.began_ticks.set(now);
    thread.counted_ticks.set(now);
    thread.left_ticks.set(now);
    // Rounds that the copy has spun by itself count as well.
    let unseen = u32::try_from(site.unseen_rounds()).unwrap_or(u32::MAX);
    thread.round.set(unseen);
    thread.short_round.set(unseen);
    thread.slept_ticks.set(0);
    thread.round_ticks.set(0);
    thread.counted_rounds.set(0);
    thread.yields.set(0);
    thread.sleeps.set(0);
    if let Some(record) = site.record() {
        record.waits.fetch_add(1, Ordering::Relaxed);
        record.visits.fetch_add(1, Ordering::Relaxed);
        thread.counted_rounds.set(1);
    }
}

/// Rounds before the first yield at this site.
pub fn bound(site: &Site) -> u32 {
    match site.spins.load(Ordering::Relaxed) {
        0 => settings().spins,
        learnt => learnt,
    }
}

/// Whether yields are useless to this thread; asked once a wait, before its first yield.
fn is_real_time(thread: &Thread) -> bool {
    let flags = thread.flags.get();
    if flags & CLASS_KNOWN != 0 {
        return flags & REAL_TIME != 0;
    }
    let real_time = os::scheduling_class().yields_only_to_equals();
    thread.flags.set(flags | CLASS_KNOWN | if real_time { REAL_TIME } else { 0 });
    real_time
}

/// Yields, and returns until when. What happened so far is counted first, so that a look from
/// outside sees long waits while they last, and the waits of threads that end.
fn yield_once(site: &Site, thread: &Thread, before: u64) -> u64 {
    count(site, thread);
    trial::waits_by(os::yield_now);
    let after = clock::ticks();
    if after.wrapping_sub(before) > ns_to_ticks(SLOW_YIELD_NS) {
        thread.flags.set(thread.flags.get() | OTHERS_RAN);
    }
    thread.yields.set(thread.yields.get().saturating_add(1));
    after
}

/// Sleeps as a policy says, which never parks, and returns until when.
fn sleep_by(site: &Site, thread: &Thread, action: Action) -> u64 {
    let time = if let Action::Sleep(time) = action { time } else { Duration::ZERO };
    sleep_once(site, thread, clock::duration_ns(time))
}

/// Sleeps, and returns until when; counted like a yield.
fn sleep_once(site: &Site, thread: &Thread, ns: u64) -> u64 {
    thread.flags.set(thread.flags.get() | OTHERS_RAN);
    thread.sleeps.set(thread.sleeps.get().saturating_add(1));
    count(site, thread);
    trial::waits_by(|| os::sleep_ns(ns));
    clock::ticks()
}

/// The thread's last wait is over: its site learns from it, and what was not yet counted is.
fn settle(thread: &Thread) {
    // SAFETY: either zero or the address of a site, whose memory is never given back (Invariant 1
    // of `site`).
    let Some(site) = (unsafe { (thread.site.get() as *const Site).as_ref() }) else { return };
    learn(site, thread);
    count(site, thread);
}

/// See the module's text.
fn learn(site: &Site, thread: &Thread) {
    if thread.flags.get() & WAS_CURED == 0 {
        // It was over while there was room, or ended by its counter.
        return;
    }
    let (bound, round) = (bound(site), thread.short_round.get().saturating_sub(1));
    let lasted = thread.left_ticks.get().wrapping_sub(thread.began_ticks.get());
    if thread.flags.get() & OTHERS_RAN != 0 {
        let floor = settings().spins;
        if bound > floor {
            site.spins.store((bound / 2).max(floor), Ordering::Relaxed);
        }
    } else if bound > 0
        && round >= bound
        && round - bound < FEW_YIELDS
        && bound < SPINS_MAX
        && lasted < ns_to_ticks(SHORT_WAIT_NS)
    {
        site.spins.store((bound * 2).clamp(1, SPINS_MAX), Ordering::Relaxed);
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
