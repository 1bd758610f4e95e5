//! Condition variables: waiting for something that is protected by a mutex, in eight bytes.
//!
//! [`Condvar`] is for programs in Rust. [`RawCondvar`] is what it is made of, and what stands
//! inside a C program's `pthread_cond_t`: its user unlocks and relocks a mutex of its own kind, and
//! deals with cancellation.
//!
//! ```text
//!   mutex held ──► enter ──► unlock ──► sleep ──► (leave, if it was not woken) ──► relock
//! ```
//!
//! # State
//! | word | meaning | changed by |
//! | --- | --- | --- |
//! | `sequence` | signals so far that had a waiter to tell; waiters sleep on it. Once used, never 0 for a waiter | signals: +1 |
//! | `waiters`, low 20 bits | *tokens*: waiters that no signal has been spent on, or more | enter: +1; signal: −1; broadcast: 0; leave: −1 |
//! | `waiters`, the rest | *generation*: signals that took tokens, modulo 2¹² | signals: +1 |
//!
//! A signal takes a token, and then, in one step of the kernel's, changes `sequence` and wakes one
//! thread that sleeps on an older value ([`futex::advance`]). Without tokens it makes no system
//! call. A broadcast takes all tokens and wakes all.
//!
//! # Invariants
//! 1. Between [`RawCondvar::enter`] and the end of [`RawCondvar::sleep`] a waiter reaches the words
//!    through the kernel only. A woken waiter does not reach them at all any more: the program may
//!    destroy the variable and free it as soon as the broadcast is made. The kernel refuses an
//!    address that is gone, which counts as being woken. A waiter that gives up touches the words
//!    once more ([`RawCondvar::leave`]): see *Giving up*.
//! 2. Tokens plus signals on their way (the token taken, the sequence not yet changed) are never
//!    fewer than waiters that entered and will sleep unless the sequence changes. Entering adds to
//!    both sides. A signal's change of sequence removes one signal that is on its way, and at least
//!    one such waiter: it wakes one sleeping waiter, or there is none, and every other one will
//!    find the sequence changed.
//! 3. A waiter that gives up takes a token back only while the generation is the one that it
//!    entered in; it looks and takes in one step. Then no token has been taken since, so its own is
//!    among them, and the token that it takes was counted for no other waiter.
//!
//! By 2 no wake-up is lost: while a waiter sleeps there is a token for the next signal, or a signal
//! on its way. By the one step, a signal wakes a waiter that entered before it, whatever order the
//! kernel wakes in: a waiter that enters later has the new sequence.
//!
//! There may be more tokens than waiters: two waiters that were about to sleep both find the
//! sequence changed by one signal (one of them wakes for nothing), and a waiter that gives up after
//! a signal does not know whose token was taken. The next signals take these tokens away, at the
//! price of a system call each.
//!
//! # Giving up
//! A wait ends by its deadline, or its thread is cancelled. By Invariant 3 it takes its token back
//! if it can. Otherwise a signal has come since it entered. A wait whose deadline ended was not
//! woken, so that signal is not its own. A cancelled wait cannot know, and signals once more, so
//! that another waiter gets what it may have got. A caller that destroys a variable at such a
//! moment must wait for the waiters that are giving up, by a count of its own, as the C interface
//! does.
//!
//! # Broadcasts and the mutex
//! All waiters are woken to take the mutex, and most of them will wait for it. The kernel could
//! move them to the mutex instead (`FUTEX_CMP_REQUEUE`), but then they would sleep there without
//! having said when their windows end, and be overtaken without a bound. At the mutex the running
//! threads go first, and the others sleep, so a stampede ends where requeueing begins.
//!
//! # Memory orderings
//! What is waited for is protected by the mutex. A signal that follows a change made under the
//! mutex follows the unlock of every waiter that did not see that change, so it sees that waiter's
//! token; relaxed accesses suffice. Entering reads the sequence before it adds the token, with
//! acquire, so that a signal which takes the token changes a sequence that was read before. Numbers
//! wrap: a generation stands for 2¹² signals between two instructions, a sequence for 2³².

use platform::atomic::{AtomicU32, Ordering};
use platform::clock;
use platform::futex::{self, Deadline};

/// [`RawCondvar::waiters`]: the tokens.
const TOKENS: u32 = (1 << 20) - 1;
/// [`RawCondvar::waiters`]: one generation.
const GENERATION_ONE: u32 = 1 << 20;

/// A condition variable that knows nothing of its mutex: eight bytes, all zero at first.
///
/// A waiter calls [`RawCondvar::enter`] while it holds the mutex, unlocks the mutex, calls
/// [`RawCondvar::sleep`] and [`RawCondvar::leave`], and locks the mutex again. No signal between
/// the first two calls is lost. [`Condvar`] does all that for mutexes of
/// `lock_api`.
///
/// ```
/// use manx::lock::RawCondvar;
///
/// let condvar = RawCondvar::new();
/// assert!(!condvar.signal(), "nobody waits");
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RawCondvar {
    sequence: AtomicU32,
    waiters: AtomicU32,
}

/// A wait in progress: what [`RawCondvar::enter`] saw.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    sequence: u32,
    /// With the tokens' bits 0.
    generation: u32,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A thread signalled, or, rarely, none did.
    Woken,
    /// The deadline is over.
    TimedOut,
    /// The thread was cancelled while it slept.
    Cancelled,
}

impl RawCondvar {
    platform::const_fn! {
        /// A condition variable that no thread waits for: all zero.
        pub const fn new() -> RawCondvar {
            RawCondvar { sequence: AtomicU32::new(0), waiters: AtomicU32::new(0) }
        }
    }

    /// Begins a wait. The caller holds the mutex, and unlocks it between this and
    /// [`RawCondvar::sleep`].
    pub fn enter(&self) -> Ticket {
        let sequence = self.sequence();
        // Relaxed: the unlock of the mutex shows it to each thread that must see it.
        let before = self.change(|seen| Some(if seen & TOKENS == TOKENS { seen } else { seen + 1 }));
        Ticket { sequence, generation: before.unwrap_or(0) & !TOKENS }
    }

    /// Sleeps until a signal, or the deadline.
    pub fn sleep(&self, ticket: &Ticket, deadline: Option<Deadline>) -> Outcome {
        loop {
            // Invariant 1: the words are not read here.
            match futex::wait_set(&self.sequence, ticket.sequence, futex::ANY_SET, deadline) {
                futex::Outcome::Woken | futex::Outcome::Changed => return Outcome::Woken,
                futex::Outcome::TimedOut => return Outcome::TimedOut,
                futex::Outcome::Interrupted => {}
            }
        }
    }

    /// Returns what [`RawCondvar::sleep`] sleeps on, and the value for which it does: for callers
    /// that make the system call themselves.
    pub fn futex(&self, ticket: &Ticket) -> (&AtomicU32, u32) {
        (&self.sequence, ticket.sequence)
    }

    /// Ends a wait. Nothing to do, and nothing is touched, if it was woken.
    pub fn leave(&self, ticket: Ticket, outcome: Outcome) {
        match outcome {
            Outcome::Woken => {}
            Outcome::TimedOut => {
                self.take_back(ticket);
            }
            Outcome::Cancelled => {
                if !self.take_back(ticket) {
                    self.signal();
                }
            }
        }
    }

    /// Wakes one waiter. Returns whether there was one to wake: false is certain if the mutex is
    /// held, true may be about a waiter that has just given up.
    #[inline]
    pub fn signal(&self) -> bool {
        // Relaxed: see the module's text.
        self.waiters.load(Ordering::Relaxed) & TOKENS != 0 && self.signal_slow()
    }

    #[cold]
    fn signal_slow(&self) -> bool {
        // A full count stays full until a broadcast, because it may stand for more.
        let one_less = |tokens| if tokens == TOKENS { TOKENS } else { tokens - 1 };
        let taken = self.take(one_less);
        if taken > 0 {
            futex::advance(&self.sequence, 1);
        }
        taken > 0
    }

    /// Wakes all waiters; returns how many there were, or more if some have given up.
    #[inline]
    pub fn broadcast(&self) -> usize {
        // Relaxed: see the module's text.
        if self.waiters.load(Ordering::Relaxed) & TOKENS == 0 { 0 } else { self.broadcast_slow() }
    }

    #[cold]
    fn broadcast_slow(&self) -> usize {
        let taken = self.take(|_| 0);
        if taken > 0 {
            futex::advance(&self.sequence, u32::MAX);
        }
        taken as usize
    }

    /// Begins a new generation with as many tokens as `left` says, if there are any; returns how
    /// many there were.
    fn take(&self, left: impl Fn(u32) -> u32) -> u32 {
        let next = |seen: u32| {
            let tokens = seen & TOKENS;
            (tokens > 0).then(|| (seen & !TOKENS).wrapping_add(GENERATION_ONE) | left(tokens))
        };
        self.change(next).map_or(0, |before| before & TOKENS)
    }

    /// Takes the token of a wait back, if no signal has come since it began; false if one has.
    fn take_back(&self, ticket: Ticket) -> bool {
        let next = |seen: u32| {
            let tokens = seen & TOKENS;
            let same = seen & !TOKENS == ticket.generation
                && self.sequence.load(Ordering::Relaxed) == ticket.sequence;
            (same && tokens > 0 && tokens < TOKENS).then_some(seen.wrapping_sub(1))
        };
        self.change(next).is_some()
    }

    /// Changes `waiters` unless `next` says no; returns what it was.
    fn change(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        // Relaxed for the step: numbers, ordered by the mutex. Acquire for the look is not needed
        // either: `sequence` is compared for the case that generations went around.
        let mut seen = self.waiters.load(Ordering::Relaxed);
        loop {
            let changed = next(seen)?;
            match self.waiters.compare_exchange_weak(seen, changed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(before) => return Some(before),
                Err(now) => seen = now,
            }
        }
    }

    /// The sequence, which begins here: not at 0, and elsewhere each time, so that a waiter which
    /// comes to sleep on memory that has become another variable does not take it for its own.
    fn sequence(&self) -> u32 {
        let seen = self.sequence.load(Ordering::Acquire);
        if seen != 0 {
            return seen;
        }
        let first = clock::ticks() as u32 | 1;
        match self.sequence.compare_exchange(0, first, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => first,
            Err(now) => now,
        }
    }
}

impl Default for RawCondvar {
    fn default() -> RawCondvar {
        RawCondvar::new()
    }
}

platform::os_only! {
    const _: () = assert!(size_of::<RawCondvar>() == 8 && align_of::<RawCondvar>() == 4);

    mod guarded;

    pub use guarded::{Condvar, WaitTimeoutResult};
}
