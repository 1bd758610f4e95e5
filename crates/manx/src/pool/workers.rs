//! Which of a pool's workers run, and which are parked: the one place where workers go to sleep and
//! are called.
//!
//! The paper's pool (Jeffery and others, "Reducing tail latencies through environment- and
//! neighbour-aware thread management", section 5.2) keeps one thread for each CPU and a number of
//! them that are to be active; a worker above that number parks itself. This pool has a count too,
//! but no worker has a fixed place in it: a worker that finishes a job while too many are active
//! parks, and a thread that offers a job while too few are active calls a worker. So a worker that
//! blocks does not occupy a place that others could use, and a pool without work has no active
//! worker.
//!
//! | word | meaning |
//! | --- | --- |
//! | `state`, low half | *active* workers: they run a job or look for one |
//! | `state`, high half | *searching* workers: those of the active that look for a job |
//! | `target` | the number of workers that are to be active |
//! | `parked` | a bit for each slot whose worker can be called, parked or not yet started |
//! | `slots[n]` | the order for the worker of slot `n`: a futex |
//!
//! ```text
//!            call: active, searching += 1; takes the bit; slot = CALLED
//!   UNSTARTED ────────────────────────────► CALLED ◄──────────────────────┐ call
//!                                             │ rest, retire               │
//!                                             ▼                            │
//!                                           PARKED (its bit set) ──────────┘
//!                                             │ dismiss
//!                                             ▼
//!                                           DISMISSED: the worker ends
//! ```
//!
//! Invariants:
//! 1. `active` counts the workers that have been called and have neither rested, retired, blocked
//!    nor ended since; and the calls under way.
//! 2. Only the thread that takes a slot's bit writes the slot until its worker has seen what was
//!    written. A worker that has set its bit goes on only after a call, or after it took the
//!    bit back itself.
//! 3. A worker that parks says so (its bit, then the counts) before it looks for jobs a last time;
//!    a thread that offers a job has queued it before it looks at the counts. So one of the two
//!    sees the other: no job stays behind while a worker could be called.
//! 4. No more need be called than jobs are queued. A thread that offers a job may rely on a
//!    searcher: the searcher looks again after it has stopped being one. If it found a job, was the
//!    last searcher, and there are more jobs, it calls the next worker.
//! 5. Slots are started in order: bits are taken from the lowest, so a slot that is not started is
//!    taken only if all below are in use.
//!
//! # Memory orderings
//! Invariant 3 is Dekker's pattern: both sides have a sequentially consistent fence between what
//! they write and what they read. A bit is set with release and taken with acquire, so the taker's
//! write to the slot follows the worker's. A worker that is called learns of jobs from the
//! queue, not from here.

use platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use platform::futex;

/// The worker of this slot has no thread yet.
const UNSTARTED: u32 = 0;
/// It sleeps, or is about to.
const PARKED: u32 = 1;
/// It is to look for a job.
const CALLED: u32 = 2;
/// It is to end.
const DISMISSED: u32 = 3;

const ACTIVE: u64 = 1;
const SEARCHING: u64 = 1 << 32;

fn active_of(state: u64) -> u32 {
    state as u32
}

fn searching_of(state: u64) -> u32 {
    (state >> 32) as u32
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a slot that is not started needs a thread"]
pub enum Call {
    /// As many are searching as jobs are queued: they will find them.
    Needless,
    /// As many are active as may be, or no worker is left to be called.
    Enough,
    /// A worker was woken.
    Woken,
    /// This slot's worker needs a thread, which the caller starts; if it cannot, it says so by
    /// [`Workers::start_failed`].
    Start(usize),
}

/// The order that a parked worker has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Look for a job: it is active, and searching.
    Search,
    /// End its thread.
    Exit,
}

/// The workers of a pool, by slot.
#[derive(Debug)]
pub struct Workers {
    state: AtomicU64,
    target: AtomicU32,
    /// Workers that block, and will be active again.
    blocked: AtomicU32,
    closed: AtomicBool,
    parked: Box<[AtomicU64]>,
    slots: Box<[AtomicU32]>,
}

impl Workers {
    /// Returns slots for `slots` workers, none of them started yet; at most `target` of them are to
    /// be active.
    pub fn new(slots: usize, target: u32) -> Workers {
        let word = |at: usize| match slots - at * 64 {
            left @ 0..64 => (1 << left) - 1,
            _ => u64::MAX,
        };
        Workers {
            state: AtomicU64::new(0),
            target: AtomicU32::new(target),
            blocked: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            parked: (0..slots.div_ceil(64)).map(|at| AtomicU64::new(word(at))).collect(),
            slots: (0..slots).map(|_| AtomicU32::new(UNSTARTED)).collect(),
        }
    }

    /// How many are active.
    #[inline]
    pub fn active(&self) -> u32 {
        // Relaxed, here and where no reason stands: a hint, or a count that the fences of Invariant
        // 3 order.
        active_of(self.state.load(Ordering::Relaxed))
    }

    /// How many are to be active at most.
    #[inline]
    pub fn target(&self) -> u32 {
        self.target.load(Ordering::Relaxed)
    }

    /// Changes how many are to be active. A caller that raises it then offers what is queued.
    pub fn set_target(&self, target: u32) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// A job has been queued: calls a worker if fewer than `bound` are active and no worker is
    /// searching.
    #[inline]
    pub fn offer(&self, bound: u32) -> Call {
        self.offer_of(bound, 1)
    }

    /// The same, if fewer are searching than jobs are queued, as far as the caller knows: so a
    /// burst of jobs does not wait until one worker has called the next.
    #[inline]
    pub fn offer_of(&self, bound: u32, queued: u32) -> Call {
        // Pairs with the fence of `park` (Invariant 3).
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        if searching_of(state) >= queued {
            Call::Needless
        } else if active_of(state) >= bound {
            Call::Enough
        } else {
            self.call(state, bound, queued)
        }
    }

    #[cold]
    fn call(&self, mut state: u64, bound: u32, queued: u32) -> Call {
        loop {
            if searching_of(state) >= queued {
                return Call::Needless;
            }
            if active_of(state) >= bound {
                return Call::Enough;
            }
            let called = state + ACTIVE + SEARCHING;
            // Relaxed: what the worker must see it sees by its slot and by the queue.
            match self.state.compare_exchange_weak(state, called, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        match self.take_any() {
            Some(slot) => self.signal(slot, CALLED),
            None => {
                // All others block, and look for jobs themselves when they come back. But as long
                // as this call was counted, a worker that relied on it may have parked.
                self.state.fetch_sub(ACTIVE + SEARCHING, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if self.has_spare() { self.offer_of(bound, queued) } else { Call::Enough }
            }
        }
    }

    /// Takes the lowest bit that is set, if there is one.
    fn take_any(&self) -> Option<usize> {
        for (at, word) in self.parked.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let lowest = bits & bits.wrapping_neg();
                // Acquire: pairs with the release in `set_bit`, so that our write to the slot
                // follows the worker's.
                let before = word.fetch_and(!lowest, Ordering::Acquire);
                if before & lowest != 0 {
                    return Some(at * 64 + lowest.trailing_zeros() as usize);
                }
                bits = before & !lowest;
            }
        }
        None
    }

    /// Takes this slot's bit, if it is set.
    fn take(&self, slot: usize) -> bool {
        let bit = 1 << (slot % 64);
        // Acquire: as in `take_any`.
        self.parked[slot / 64].fetch_and(!bit, Ordering::Acquire) & bit != 0
    }

    fn set_bit(&self, slot: usize) {
        // Release: pairs with the acquire of the thread that takes the bit.
        self.parked[slot / 64].fetch_or(1 << (slot % 64), Ordering::Release);
    }

    /// Writes to a slot whose bit the caller has taken (Invariant 2), and wakes its worker.
    fn signal(&self, slot: usize, what: u32) -> Call {
        // No other thread writes the slot, so this reads what its worker, or `new`, wrote.
        let before = self.slots[slot].load(Ordering::Relaxed);
        // Release: pairs with the acquire of the worker that reads it.
        self.slots[slot].store(what, Ordering::Release);
        if before == UNSTARTED {
            return Call::Start(slot);
        }
        futex::wake(&self.slots[slot], 1);
        Call::Woken
    }

    /// The thread for a slot could not be started: it is as if it had not been called.
    pub fn start_failed(&self, slot: usize) {
        self.slots[slot].store(UNSTARTED, Ordering::Relaxed);
        self.set_bit(slot);
        self.state.fetch_sub(ACTIVE + SEARCHING, Ordering::Relaxed);
    }

    /// The calling worker, which was searching, has found a job. If it was the only searcher it
    /// must offer what else is queued (Invariant 4): then this returns true.
    #[inline]
    pub fn found(&self) -> bool {
        let was_only = searching_of(self.state.fetch_sub(SEARCHING, Ordering::Relaxed)) == 1;
        if was_only {
            // Pairs with the fence of `offer`: if a thread relied on this searcher, the searcher
            // sees now what that thread has queued.
            fence(Ordering::SeqCst);
        }
        was_only
    }

    /// The calling worker, which is active, begins to search.
    #[inline]
    pub fn search(&self) {
        self.state.fetch_add(SEARCHING, Ordering::Relaxed);
    }

    /// The calling worker, which is searching, found nothing. From here on it can be called; it
    /// must look for jobs once more, and offer what it finds, before it calls
    /// [`wait`](Workers::wait).
    pub fn rest(&self, slot: usize) {
        self.slots[slot].store(PARKED, Ordering::Relaxed);
        self.set_bit(slot);
        self.state.fetch_sub(ACTIVE + SEARCHING, Ordering::Relaxed);
        // Pairs with the fence of `offer` (Invariant 3), and with that of `close`.
        fence(Ordering::SeqCst);
    }

    /// If more than `bound` are active, the calling worker, which is not searching, stops being one
    /// of them: as after [`rest`](Workers::rest), and this returns true.
    #[inline]
    pub fn retire(&self, slot: usize, bound: u32) -> bool {
        self.active() > bound && self.retire_slow(slot, bound)
    }

    #[cold]
    fn retire_slow(&self, slot: usize, bound: u32) -> bool {
        self.slots[slot].store(PARKED, Ordering::Relaxed);
        self.set_bit(slot);
        let mut state = self.state.load(Ordering::Relaxed);
        // Several may find that there is one too many: only one leaves.
        while active_of(state) > bound {
            let left = state - ACTIVE;
            match self.state.compare_exchange_weak(state, left, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // As in `rest`.
                    fence(Ordering::SeqCst);
                    return true;
                }
                Err(now) => state = now,
            }
        }
        if self.take(slot) {
            // No thread had called it: it stays as it was.
            self.slots[slot].store(CALLED, Ordering::Relaxed);
            return false;
        }
        // It was called, and counted once more, or dismissed: either way it is not what it was.
        self.state.fetch_sub(ACTIVE, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        true
    }

    /// Parks until the worker receives an order.
    pub fn wait(&self, slot: usize) -> Signal {
        // Pairs with the fence of `close`: that sees that no worker is active, or this sees that
        // the pool is closed.
        if self.closed.load(Ordering::Relaxed) && self.has_no_active_worker() {
            self.dismiss();
        }
        loop {
            // Acquire: pairs with the release in `signal`.
            match self.slots[slot].load(Ordering::Acquire) {
                PARKED => futex::wait(&self.slots[slot], PARKED),
                DISMISSED => return Signal::Exit,
                _ => return Signal::Search,
            };
        }
    }

    /// The calling worker was dismissed, but there is a job: it goes on, active and searching,
    /// unless `bound` others are active.
    pub fn stay(&self, bound: u32) -> bool {
        let more = |state| (active_of(state) < bound).then_some(state + ACTIVE + SEARCHING);
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// The calling worker is about to block: another may be active in its place. What is queued
    /// must be offered afterwards.
    pub fn block(&self) {
        // In this order, so that a pool with a blocked worker never looks deserted.
        self.blocked.fetch_add(1, Ordering::Relaxed);
        self.state.fetch_sub(ACTIVE, Ordering::Release);
        // Pairs with the fence of `offer`: Invariant 3 is for a worker that blocks, too.
        fence(Ordering::SeqCst);
    }

    /// The calling worker has blocked and goes on; it is one too many perhaps, until its job ends.
    pub fn unblock(&self) {
        self.state.fetch_add(ACTIVE, Ordering::Relaxed);
        // Release: a thread that sees that it does not block sees that it is active.
        self.blocked.fetch_sub(1, Ordering::Release);
    }

    /// How many block.
    pub fn blocked(&self) -> u32 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Whether no worker is active, and none blocks that will be active again.
    fn has_no_active_worker(&self) -> bool {
        // Acquire, in this order: a worker that has unblocked is seen to be active, and a worker
        // that has stopped being active is seen to block.
        self.blocked.load(Ordering::Acquire) == 0
            && active_of(self.state.load(Ordering::Acquire)) == 0
            && self.blocked.load(Ordering::Acquire) == 0
    }

    /// Whether a worker could be called if there was a reason: a worker is parked or not yet
    /// started.
    pub fn has_spare(&self) -> bool {
        self.parked.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Whether a worker that has a thread is parked.
    pub fn has_parked(&self) -> bool {
        let is_started = |slot: usize| self.slots[slot].load(Ordering::Relaxed) != UNSTARTED;
        (0..self.slots.len()).any(|slot| {
            self.parked[slot / 64].load(Ordering::Relaxed) & 1 << (slot % 64) != 0 && is_started(slot)
        })
    }

    /// When no worker is active any more, all workers end. Until then jobs are done by as many
    /// workers as ever.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // Pairs with the fences of `rest` and `retire`.
        fence(Ordering::SeqCst);
        if self.has_no_active_worker() {
            self.dismiss();
        }
    }

    /// Tells all parked workers to end. A worker without a thread may still be called, and ends
    /// afterwards.
    fn dismiss(&self) {
        for slot in 0..self.slots.len() {
            // A slot that is not started changes only by being called; a slot that is started stays
            // so.
            if self.slots[slot].load(Ordering::Relaxed) != UNSTARTED && self.take(slot) {
                let _ = self.signal(slot, DISMISSED);
            }
        }
    }
}
