//! `pthread_spin_lock` and its kin: the C library's word, and waiters that sleep while CPUs are
//! short.
//!
//! A spin lock has no room but its word, and its release is a plain store, so no thread wakes a
//! waiter. While there is room a waiter spins as in the C library. While CPUs are short it spins
//! for a little and then sleeps for a little: the holder may need this very CPU. CPUs are short if
//! [`crate::shortage`] says so, or if as many threads wait for spin locks as the process may use
//! CPUs: the holder makes one more. The second sign works from the first moment. The first sign
//! takes a tenth of a second, until the windows of `shortage` are long; without the second, waits
//! of up to 20 ms happened in that time.
//!
//! | word | meaning |
//! | --- | --- |
//! | 1 | free |
//! | 0 and less | held: a waiter of the C library subtracts 1 each time that it sees the lock free |
//!
//! # Why not a futex
//! A waiter could sleep on the word with a timeout and be woken by our releases. A release would
//! have to read whether a thread sleeps, after its store and a full fence. That costs as much as
//! the whole uncontended lock and unlock. A release by another process or by the C library's own
//! function would wake no thread, so the timeout would have to be as short as these sleeps in any
//! case.
//!
//! # Bounded overtaking
//! Threads that run overtake a thread that sleeps, for ever if nothing is done: between a release
//! and the next acquisition by the same thread there is no time for another thread. So a waiter
//! whose window (`WINDOW_NS`) is over is *starving* and *reserves* the lock. The reservations of a
//! process are a small table of locks' addresses. A thread that finds the lock free but reserved
//! leaves the lock to the starving waiter, which spins or sleeps in the shortest steps. The
//! starving waiter gets the lock at the next release after which it runs. Then the next starving
//! waiter may reserve the lock. With one load a thread that locks learns whether any lock is
//! reserved.
//!
//! These take a reserved lock all the same: `trylock`, which must not fail on a lock that is free;
//! real-time threads; the C library's own functions; and other processes, in which the lock may
//! have another address.
//!
//! # Turns
//! A thread that wakes also needs a CPU, and the scheduler lets the threads that run finish their
//! slices: on two CPUs, two threads that take the lock in turns run for milliseconds each, while
//! all others stand in the run queue and cannot even look. So while CPUs are short and some thread
//! sleeps for a spin lock, a thread that has run for `TURN_NS` sleeps when it has released its last
//! lock. With 16 threads on 2 CPUs, 650 of 1.6 million waits took more than 10 ms, up to 100 ms.
//! With turns the longest wait is 5.5 to 11.5 ms. A yield in place of the sleep leaves waits of 12
//! to 38 ms: the scheduler takes a whole slice from a thread that yields, also from its next wait.
//!
//! # Invariants
//! 1. The word says whether the lock is held, by steps that the C library makes too: 1 to 0 takes
//!    it, a store of 1 releases it. Reservations exclude no thread; they only make threads wait.
//! 2. No thread waits for a reservation for ever. A reservation that leaves the lock free for
//!    `PATIENCE_NS` has no owner any more (its thread was cancelled, jumped out of a signal
//!    handler, or interrupted itself), and a thread that waits for it takes it away. A child of a
//!    fork begins without any.
//! 3. A sleep is a system call made directly: `errno` stays as it is, and there is no cancellation
//!    point.
//!
//! # Memory orderings
//! Acquire to take the lock, release to give it back. Reservations are hints, and relaxed.

use crate::settings::settings;
use crate::{shortage, thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use libc::EBUSY;
use platform::clock::{self, ns_to_ticks, ticks_to_ns};
use platform::{cpu, fork, thread as os};
use preload_abi::options::{Guard, Short};

/// The word of a lock that is free.
const FREE: i32 = 1;

/// Looks between two readings of the clock: about a microsecond.
const LOOKS: u32 = 32;
/// How long a waiter spins before it sleeps, while CPUs are short: a few short critical sections.
const SPIN_NS: u64 = 4_000;
/// The same for the waiter that has reserved the lock: the next release is for this waiter.
const SPIN_NS_RESERVED: u64 = 20_000;
/// The shortest sleep, and by how much each is longer than the one before.
const SLEEP_NS_STEP: u64 = 50_000;
/// The longest sleep.
const SLEEP_NS_MAX: u64 = 500_000;
/// How long running threads may overtake a waiter.
const WINDOW_NS: u64 = 2_000_000;
/// How long a lock may be free and reserved: longer than a woken thread usually waits for a CPU.
const PATIENCE_NS: u64 = 10_000_000;

/// How long a thread runs between two sleeps while others sleep for spin locks.
const TURN_NS: u64 = 250_000;

/// How many threads sleep for spin locks; one more for each thread that was cancelled there or left
/// by a jump out of a signal handler.
static SLEEPERS: AtomicI32 = AtomicI32::new(0);
/// How many threads wait for spin locks, and have done so for some looks; threads that sleep are
/// included. As exact as `SLEEPERS`.
static WAITING: AtomicI32 = AtomicI32::new(0);
/// The locks that are reserved, each in the place that its address leads to.
static RESERVED: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
const PLACES: usize = 64;
/// How many locks are reserved; for a moment the number may be a few too high or too low.
static RESERVATIONS: AtomicU32 = AtomicU32::new(0);

/// The most CPUs that one of the process's threads was seen to have.
static CPUS: AtomicUsize = AtomicUsize::new(0);
/// The process to which these numbers belong: see [`fork::generation`].
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Notes how many CPUs the process has. Called once, before there are threads.
pub fn prepare() {
    let _ = cpus();
    GENERATION.store(fork::generation(), Ordering::Relaxed);
}

/// How many CPUs the process has; 0 if that is not known ([`cpu::count_if_few`]). The CPUs of all
/// threads together count, not only those of the calling thread: a thread that is bound to one CPU
/// may spin if the other threads have CPUs of their own.
fn cpus() -> usize {
    let own = cpu::count_if_few();
    CPUS.fetch_max(own, Ordering::Relaxed).max(own)
}

/// Resets this state in the child of a fork, whichever function made it. No thread waits there: the
/// other threads do not exist. Called on the slow ways.
fn notice_fork() {
    let own = fork::generation();
    // Most often it is the same; then the line stays shared.
    if GENERATION.load(Ordering::Relaxed) != own && GENERATION.swap(own, Ordering::Relaxed) != own {
        forked();
    }
}

fn forked() {
    for place in &RESERVED {
        place.store(0, Ordering::Relaxed);
    }
    RESERVATIONS.store(0, Ordering::Relaxed);
    SLEEPERS.store(0, Ordering::Relaxed);
    WAITING.store(0, Ordering::Relaxed);
}

/// Locks.
#[inline]
pub(super) fn lock(word: &AtomicI32) -> c_int {
    if RESERVATIONS.load(Ordering::Relaxed) != 0 || !try_take(word) {
        lock_slow(word);
    }
    thread::current().lock.on_acquire();
    0
}

/// Locks, if that needs no waiting.
#[inline]
pub(super) fn trylock(word: &AtomicI32) -> c_int {
    if !try_take(word) {
        return EBUSY;
    }
    thread::current().lock.on_acquire();
    0
}

/// Unlocks.
#[inline]
pub(super) fn unlock(word: &AtomicI32) -> c_int {
    thread::current().lock.on_release();
    // Release pairs with the acquire of the next holder.
    word.store(FREE, Ordering::Release);
    if SLEEPERS.load(Ordering::Relaxed) > 0 {
        end_turn();
    }
    0
}

/// Called when the thread has released a lock while others sleep for one: sleeps if this thread's
/// turn is over.
#[cold]
fn end_turn() {
    notice_fork();
    let thread = thread::current();
    let now_ticks = clock::ticks();
    let turn_ticks = now_ticks.saturating_sub(thread.turn_ticks.get());
    if turn_ticks < ns_to_ticks(TURN_NS) || thread.lock.held() != 0 {
        return;
    }
    // A new turn begins even if this thread goes on: the checks below cost system calls.
    thread.turn_ticks.set(now_ticks);
    if !(shortage::is_short(now_ticks) || are_too_many(cpus()))
        || os::scheduling_class().yields_only_to_equals()
    {
        return;
    }
    os::sleep_ns(SLEEP_NS_STEP);
    thread.turn_ticks.set(clock::ticks());
}

/// Whether the threads that wait, and the holder, are more than there are CPUs.
fn are_too_many(cpus: usize) -> bool {
    // 0 CPUs: the number is not known.
    let waiting = usize::try_from(WAITING.load(Ordering::Relaxed)).unwrap_or(0);
    cpus != 0 && waiting >= cpus && settings().short == Short::Auto
}

#[inline(always)]
fn try_take(word: &AtomicI32) -> bool {
    // Acquire pairs with the release of the last holder. A failure tells nothing.
    word.compare_exchange(FREE, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

#[cold]
fn lock_slow(word: &AtomicI32) {
    notice_fork();
    let mut waiter = Waiter::new(word);
    if waiter.look_for_a_while() {
        return;
    }
    WAITING.fetch_add(1, Ordering::Relaxed);
    loop {
        waiter.look_around();
        if waiter.look_for_a_while() {
            break;
        }
    }
    WAITING.fetch_sub(1, Ordering::Relaxed);
    if waiter.has_reserved {
        waiter.withdraw();
    }
}

/// A thread that waits.
struct Waiter<'a> {
    word: &'a AtomicI32,
    began_ticks: u64,
    /// The last reading of the clock.
    last_ticks: u64,
    /// When it began to spin: at first, or after its last sleep.
    bout_ticks: u64,
    /// Since when each look has found the lock free and reserved for another thread; 0: the last
    /// look did not.
    left_alone_ticks: u64,
    /// How long the last sleep was.
    slept_ns: u64,
    /// Whether it has reserved the lock.
    has_reserved: bool,
    /// Whether it is a real-time thread, once that was asked.
    is_real_time: Option<bool>,
    /// How many CPUs the process has, once that was asked; 0 if it is not known.
    cpus: Option<usize>,
}

impl Waiter<'_> {
    fn new(word: &AtomicI32) -> Waiter<'_> {
        let now_ticks = clock::ticks();
        Waiter {
            word,
            began_ticks: now_ticks,
            last_ticks: now_ticks,
            bout_ticks: now_ticks,
            left_alone_ticks: 0,
            slept_ns: 0,
            has_reserved: false,
            is_real_time: None,
            cpus: None,
        }
    }

    /// Spins for a little. Returns whether the thread has the lock now.
    fn look_for_a_while(&mut self) -> bool {
        for _ in 0..LOOKS {
            // Relaxed: a look; `try_take` decides.
            if self.word.load(Ordering::Relaxed) < FREE {
                self.left_alone_ticks = 0;
            } else if self.may_take() && try_take(self.word) {
                return true;
            }
            cpu::pause();
        }
        false
    }

    /// Whether this waiter may take the lock, which it has just seen free. False while the lock is
    /// reserved for a starving thread, but for at most `PATIENCE_NS`: then the reservation has no
    /// owner any more, and this waiter withdraws it.
    fn may_take(&mut self) -> bool {
        if RESERVATIONS.load(Ordering::Relaxed) == 0 || self.has_reserved || !self.is_reserved() {
            return true;
        }
        if self.is_real_time() {
            return true;
        }
        let now_ticks = clock::ticks();
        if self.left_alone_ticks == 0 {
            self.left_alone_ticks = now_ticks;
        } else if ticks_to_ns(now_ticks.saturating_sub(self.left_alone_ticks)) > PATIENCE_NS {
            // The reservation has no owner any more (Invariant 2).
            self.withdraw();
            return true;
        }
        false
    }

    /// Does what a waiter does between two bouts of spinning: reserves the lock if this thread is
    /// starving, and sleeps if CPUs are short.
    fn look_around(&mut self) {
        if settings().guard == Guard::Off {
            return;
        }
        let now_ticks = clock::ticks();
        let waited_ns = ticks_to_ns(now_ticks.saturating_sub(self.began_ticks));
        let starves = waited_ns > WINDOW_NS;
        if starves {
            self.reserve();
        }
        let is_short =
            shortage::is_short(now_ticks) || shortage::look(self.bout_ticks, self.last_ticks, now_ticks);
        self.last_ticks = now_ticks;
        let bout_ns = if self.has_reserved { SPIN_NS_RESERVED } else { SPIN_NS };
        if now_ticks.saturating_sub(self.bout_ticks) >= ns_to_ticks(bout_ns)
            && (is_short || are_too_many(*self.cpus.get_or_insert_with(cpus)))
        {
            self.sleep(if starves { 0 } else { WINDOW_NS - waited_ns });
        }
    }

    /// Sleeps, so that other threads run; before the window is over, for no longer than `left_ns`,
    /// the rest of the window.
    fn sleep(&mut self, left_ns: u64) {
        self.slept_ns = if left_ns == 0 || self.is_real_time() {
            // Long enough for a thread of lower priority to get the CPU.
            SLEEP_NS_STEP
        } else {
            (self.slept_ns + SLEEP_NS_STEP).min(SLEEP_NS_MAX).min(left_ns.max(SLEEP_NS_STEP))
        };
        SLEEPERS.fetch_add(1, Ordering::Relaxed);
        os::sleep_ns(self.slept_ns);
        SLEEPERS.fetch_sub(1, Ordering::Relaxed);
        self.bout_ticks = clock::ticks();
        self.last_ticks = self.bout_ticks;
        thread::current().turn_ticks.set(self.bout_ticks);
    }

    /// Whether this thread is a real-time thread. Asks once, by a system call.
    fn is_real_time(&mut self) -> bool {
        *self.is_real_time.get_or_insert_with(|| os::scheduling_class().yields_only_to_equals())
    }

    /// The lock's place in the table of reservations, by Fibonacci hashing.
    fn place(&self) -> &'static AtomicUsize {
        &RESERVED[self.address().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.ilog2())]
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self.word).addr()
    }

    fn is_reserved(&self) -> bool {
        self.place().load(Ordering::Relaxed) == self.address()
    }

    /// Reserves the lock, unless another thread has done so, or has reserved another lock of this
    /// place.
    fn reserve(&mut self) {
        if self.has_reserved && self.is_reserved() {
            return;
        }
        self.has_reserved =
            self.place().compare_exchange(0, self.address(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if self.has_reserved {
            RESERVATIONS.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes the lock's reservation: this thread's own, or one without an owner. If another
    /// thread removed it first and a third thread has reserved the lock since, this removes the
    /// third's reservation, and the third reserves the lock again.
    fn withdraw(&self) {
        if self.place().compare_exchange(self.address(), 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            RESERVATIONS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of reservations is the process's: tests that look at it take turns.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn turn() -> std::sync::MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_reserved(word: &AtomicI32) -> bool {
        Waiter::new(word).is_reserved()
    }

    #[test]
    fn the_word_is_the_c_librarys() {
        let _turn = turn();
        let word = AtomicI32::new(0);
        let place = word.as_ptr();
        // SAFETY: a lock of this function, of the type's size.
        unsafe {
            assert_eq!(libc::pthread_spin_init(place, 0), 0);
            assert_eq!(word.load(Ordering::Relaxed), FREE);
            assert_eq!(lock(&word), 0);
            assert_eq!(libc::pthread_spin_trylock(place), EBUSY);
            assert_eq!(unlock(&word), 0);
            assert_eq!(libc::pthread_spin_lock(place), 0);
            assert_eq!(trylock(&word), EBUSY);
            assert_eq!(libc::pthread_spin_unlock(place), 0);
        }
        assert_eq!(trylock(&word), 0);
        assert_eq!(unlock(&word), 0);
    }

    #[test]
    fn a_reserved_lock_is_left_to_the_starving_waiter_for_a_limited_time() {
        let _turn = turn();
        let word = AtomicI32::new(FREE);
        let mut starving = Waiter::new(&word);
        starving.reserve();
        assert!(starving.has_reserved && is_reserved(&word));
        let began_ns = clock::now_ns();
        // The starving thread never takes the lock: another thread waits for `PATIENCE_NS`, and no
        // longer.
        assert_eq!(lock(&word), 0);
        assert!(clock::now_ns() - began_ns >= PATIENCE_NS, "the reserved lock was taken at once");
        assert!(!is_reserved(&word), "a reservation without an owner is gone");
        assert_eq!(unlock(&word), 0);
        // The starving one takes its lock without delay, and lets the others have it again.
        starving.reserve();
        assert!(starving.look_for_a_while());
        starving.withdraw();
        assert!(!is_reserved(&word));
        assert_eq!(unlock(&word), 0);
        assert_eq!(RESERVATIONS.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn as_many_waiters_as_cpus_are_too_many() {
        let _turn = turn();
        let word = AtomicI32::new(0);
        std::thread::scope(|scope| {
            let waiters = [(); 2].map(|()| scope.spawn(|| (lock(&word), unlock(&word))));
            while WAITING.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            assert!(are_too_many(1) && are_too_many(2));
            assert!(!are_too_many(3) && !are_too_many(0));
            assert_eq!(unlock(&word), 0);
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), (0, 0)));
        });
        assert_eq!(WAITING.load(Ordering::Relaxed), 0);
        // A process that was forked in a handler while it waited.
        WAITING.store(-1, Ordering::Relaxed);
        assert!(!are_too_many(1));
        WAITING.store(0, Ordering::Relaxed);
    }

    #[test]
    fn the_cpus_of_all_threads_count_not_those_of_one() {
        let all = cpus();
        let one = std::thread::spawn(|| {
            assert_eq!(cpu::restrict(1), 1);
            cpus()
        });
        assert_eq!(one.join().unwrap(), all);
    }

    #[test]
    fn trylock_ignores_reservations() {
        let _turn = turn();
        let word = AtomicI32::new(FREE);
        let mut starving = Waiter::new(&word);
        starving.reserve();
        assert_eq!(trylock(&word), 0);
        assert_eq!(unlock(&word), 0);
        starving.withdraw();
    }

    #[test]
    fn a_forked_child_begins_without_reservations() {
        let _turn = turn();
        let word = AtomicI32::new(FREE);
        prepare();
        Waiter::new(&word).reserve();
        notice_fork();
        assert!(is_reserved(&word), "it is the same process");
        GENERATION.fetch_add(1, Ordering::Relaxed);
        assert_eq!(lock(&word), 0);
        assert!(!is_reserved(&word) && RESERVATIONS.load(Ordering::Relaxed) == 0);
    }
}
