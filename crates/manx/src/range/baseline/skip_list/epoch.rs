//! When a node that was unlinked may be used again: epochs, with the nodes waiting in the place of whoever retired
//! them.
//!
//! A thread that walks along links may stand on a node that others unlink. So each thread *pins* the lock's epoch
//! while it follows links, and the epoch advances only when all who are pinned have seen it. A node that was
//! *retired* (it is unlinked for good) while the epoch `e` was pinned is nobody's business any more once the epoch is
//! `e + 3`. This is epoch-based reclamation (Fraser, "Practical lock-freedom", 2004, section 5.2.3), with four
//! deviations:
//!
//! - Threads are not registered. To pin is to claim one of the lock's *slots* by the same compare-and-swap that
//!   writes the epoch, and nobody else uses the slot meanwhile. So a slot's lists need no lock, threads come and go
//!   at no cost, and nothing is left behind in a thread when the lock is dropped. A thread first tries the slot that
//!   it had the last time.
//! - Nodes never go back to the heap before the lock does. They wait in their slot's list, *limbo*, oldest first, and
//!   whoever needs a node next takes the oldest if its time has come. What a slot has too much of goes to a common
//!   *stack*, which is only ever taken whole, so no node can come back to its top while somebody still compares with
//!   it.
//! - A node that is given back need not be unlinked yet. It is *left* in the slot, and retired there once others have
//!   unlinked it, so it comes back to whoever gave it back, and its lines are still in that CPU's cache.
//! - A thread that stands still while pinned lets limbo grow; that is the price of epochs. So whoever retires a node
//!   while its slot has more than [`CROWDED`] in limbo gives way once afterwards, and takes a nap of [`NAP_NS`] if
//!   there are [`FULL`]: mostly the thread that stands still wants the CPU. That bounds how fast limbo grows, to a
//!   few nodes in the time that the scheduler lets a thread stand still. Nobody waits *until* something happens, so
//!   what is lock-free stays so.
//!
//! ```text
//!         lend                   leave                unlinked                   epoch + 3
//!   heap ──────► linked in a list ─────► left in a slot ──────► limbo of the slot ────────────► lent again
//!                                                                   │  more than KEPT              ▲
//!                                                                   └────────────────► stack ──────┘
//! ```
//!
//! | `state` of a slot | meaning |
//! | --- | --- |
//! | 0 | nobody's |
//! | epoch × 2 + 1 | claimed by a thread that pins this epoch |
//!
//! Invariants:
//! 1. A slot's lists are used by the thread that has claimed it, or by who owns the lock alone.
//! 2. While a thread pins `e`, the epoch is `e` or `e + 1`.
//! 3. A node in limbo or on the stack is linked nowhere and never will be; its tag is the epoch that was pinned by
//!    who retired it.
//! 4. A node is lent only if no thread can have a reference to it from before: it is new, or comes from limbo with a
//!    tag at least [`GRACE`] below the pinned epoch, or was so once.
//!
//! Why 3 is enough (Invariant 4). Let a node be retired by a thread T that pins `p`, and let R be a thread that still
//! has a reference, pinning `q`. Were `q` ≥ `p + 2`, R would have read the epoch `q` after it was advanced beyond
//! `p + 1`, and who advanced it saw that T had unpinned: so all that T did, and the unlinking before, happened before
//! R followed its first link, and R cannot have met the node. So `q` ≤ `p + 1`, and by Invariant 2 the epoch is at
//! most `p + 2` while R is pinned.
//!
//! # Memory orderings
//! - Pinning (the slot's state, then a load of the epoch that must show the same) against advancing (a load of the
//!   epoch, then of all states, then the epoch's increment) is Dekker's pattern, with sequentially consistent
//!   accesses on both sides; that is Invariant 2. In the one order of these, either the advancer sees the state, and
//!   does not advance beyond `e + 1`; or it read the epoch before the one who pins did, who then sees at least that
//!   one.
//! - A slot is left with release and seen left with acquire, by who claims it next and by who advances.
//! - The stack is pushed to with release and taken with acquire: whoever takes nodes sees their links.

use super::super::sequential;
use super::chain::{Chain, Retire, passage, set_next};
use super::slot::{FREE, Kept, SLOTS, Slot, Slots, pinned, rolled};
use platform::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// So many epochs after it was retired a node may be lent again.
const GRACE: u64 = 3;
/// How long a nap is, to which the kernel adds the thread's timer slack.
const NAP_NS: u64 = 50_000;

platform::os_only! {
    /// After so many retired nodes a slot tries to advance the epoch.
    const ADVANCE_EVERY: u32 = 16;
    /// So many nodes may be left linked by who released them.
    const LEFT: u32 = 32;
    /// A slot keeps so many nodes to itself.
    const KEPT: u32 = 128;
    /// So many nodes in limbo say that somebody stands still.
    const CROWDED: u32 = 4 * KEPT;
    /// So many say that giving way has not been enough.
    const FULL: u32 = 16 * KEPT;
}

platform::twins_only! {
    const ADVANCE_EVERY: u32 = 1;
    const LEFT: u32 = 1;
    const KEPT: u32 = 1;
    const CROWDED: u32 = 4 * KEPT;
    const FULL: u32 = 16 * KEPT;
}

platform::global! {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
}

platform::thread_local! {
    /// The slot to try first; a number of the thread's own until another one was found free.
    static SLOT: Cell<usize> = Cell::new(usize::MAX);
}

/// The epoch of one lock, its slots, and the nodes that are on their way.
pub(super) struct Epochs<N> {
    slots: Slots<N>,
    epoch: AtomicU64,
    stack: AtomicPtr<N>,
}

// SAFETY: nodes are handed from thread to thread by Invariants 1, 3 and 4.
unsafe impl<N: Send> Send for Epochs<N> {}
// SAFETY: as above; what is shared is atomic, or used by Invariant 1.
unsafe impl<N: Send> Sync for Epochs<N> {}

impl<N: Retire> Epochs<N> {
    /// No node is on its way.
    pub(super) fn new() -> Self {
        // From 1 on, so that a claimed slot's state is never that of a free one; no tag is below 0.
        Epochs { slots: Slots::new(), epoch: AtomicU64::new(GRACE), stack: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pins the epoch: what the caller meets on links from now on stays what it is until the pin is dropped.
    #[inline]
    pub(super) fn pin(&self) -> Pin<'_, N> {
        // An error says that the thread's variables are gone; any slot will do.
        let hint = SLOT.try_with(Cell::get).unwrap_or(0);
        let epoch = self.epoch.load(Ordering::SeqCst);
        let slot = match self.slots.slots.get(hint) {
            Some(slot) if slot.claim(epoch) => slot,
            _ => self.claim_slow(epoch),
        };
        self.verify(slot, epoch)
    }

    /// Makes sure that the epoch in the slot was the epoch when the slot had been claimed: Invariant 2.
    #[inline]
    fn verify<'a>(&'a self, slot: &'a Slot<N>, mut epoch: u64) -> Pin<'a, N> {
        sequential::after_rmw();
        loop {
            let now = self.epoch.load(Ordering::SeqCst);
            if now == epoch {
                return Pin { epochs: self, slot, epoch, piled_up: Cell::new(0) };
            }
            epoch = now;
            slot.state.swap(pinned(epoch), Ordering::SeqCst);
            sequential::after_rmw();
        }
    }

    /// Claims any slot, and makes more if all are claimed.
    #[cold]
    fn claim_slow(&self, epoch: u64) -> &Slot<N> {
        let hint = SLOT.try_with(Cell::get).unwrap_or(0);
        let start = if hint == usize::MAX { THREADS.fetch_add(1, Ordering::Relaxed) } else { hint };
        let mut slots = &self.slots;
        loop {
            for step in 0..SLOTS {
                let at = (start + step) % SLOTS;
                if slots.slots[at].claim(epoch) {
                    // It fails only where nothing can be kept any more.
                    let _ = SLOT.try_with(|slot| slot.set(at));
                    return &slots.slots[at];
                }
            }
            slots = slots.next();
        }
    }

    /// Advances the epoch if it is `epoch` and all who are pinned have pinned that. Whether it is higher now.
    fn advance(&self, epoch: u64) -> bool {
        if self.epoch.load(Ordering::SeqCst) != epoch {
            return true;
        }
        // For the model checkers; between two sequentially consistent loads the machine needs none.
        sequential::after_rmw();
        let mut next: *const Slots<N> = &raw const self.slots;
        // SAFETY: pieces live as long as the epochs.
        while let Some(slots) = unsafe { next.as_ref() } {
            for slot in &slots.slots {
                let state = slot.state.load(Ordering::SeqCst);
                if state != FREE && state != pinned(epoch) {
                    return false;
                }
            }
            next = slots.next.load(Ordering::SeqCst);
        }
        // A failure says that somebody else was faster.
        let _ = self.epoch.compare_exchange(epoch, epoch + 1, Ordering::SeqCst, Ordering::Relaxed);
        true
    }

    /// Puts nodes that are ready onto the common stack.
    #[cold]
    fn push(&self, chain: Chain<N>) {
        let mut top = self.stack.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chain is this caller's until it is pushed.
            unsafe { set_next(chain.last, top) };
            // Release: who takes the stack sees the links. Nothing is popped singly, so that the top is the same
            // again does no harm.
            match self.stack.compare_exchange(top, chain.first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    /// Calls `free` for each node that is on its way.
    pub(super) fn drain(&mut self, mut free: impl FnMut(NonNull<N>)) {
        let mut free_chain = |mut next: *mut N| {
            while let Some(node) = NonNull::new(next) {
                // SAFETY: the caller has the only reference, so nobody is pinned and what is on its way is the
                // caller's.
                next = unsafe { passage(node.as_ptr()) }.0;
                free(node);
            }
        };
        free_chain(self.stack.swap(ptr::null_mut(), Ordering::Acquire));
        let mut next: *const Slots<N> = &raw const self.slots;
        // SAFETY: pieces live as long as the epochs.
        while let Some(slots) = unsafe { next.as_ref() } {
            for slot in &slots.slots {
                let chains = slot.kept.with_mut(|kept| {
                    // SAFETY: as above (Invariant 1).
                    let kept = unsafe { &mut *kept };
                    [&mut kept.left, &mut kept.limbo, &mut kept.ready]
                        .map(|chain| std::mem::replace(chain, Chain::EMPTY))
                });
                chains.into_iter().for_each(|chain| free_chain(chain.first));
            }
            next = slots.next.load(Ordering::Acquire);
        }
    }
}

impl<N> Drop for Epochs<N> {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        let mut next = self.slots.next.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: further pieces come from `Slots::next_slow`, and nobody else knows of them any more.
            let slots = unsafe { Box::from_raw(next) };
            next = slots.next.load(Ordering::Acquire);
        }
    }
}

/// A pinned epoch, and a slot claimed.
pub(super) struct Pin<'a, N: Retire> {
    epochs: &'a Epochs<N>,
    slot: &'a Slot<N>,
    epoch: u64,
    /// So many nodes are in limbo because somebody stands still.
    piled_up: Cell<u32>,
}

impl<N: Retire> Pin<'_, N> {
    #[inline(always)]
    fn with_kept<R>(&self, run: impl FnOnce(&mut Kept<N>) -> R) -> R {
        // SAFETY: this thread has claimed the slot (Invariant 1), and no closure of this module comes here again.
        self.slot.kept.with_mut(|kept| run(unsafe { &mut *kept }))
    }

    /// Lends a node that nobody else has a reference to, if there is one.
    #[inline]
    pub(super) fn lend(&self) -> Option<NonNull<N>> {
        let latest = self.epoch - GRACE;
        let kept = self.with_kept(|kept| {
            // SAFETY: the chains of a slot are its claimant's (Invariant 1).
            unsafe { kept.ready.pop_first(u64::MAX).or_else(|| kept.limbo.pop_first(latest)) }
        });
        kept.or_else(|| self.lend_slow())
    }

    /// Takes the stack, keeps a few nodes and gives back the rest.
    #[cold]
    fn lend_slow(&self) -> Option<NonNull<N>> {
        let stack = &self.epochs.stack;
        if stack.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let mut next = stack.swap(ptr::null_mut(), Ordering::Acquire);
        let mut chain = Chain::EMPTY;
        while let Some(node) = NonNull::new(next).filter(|_| chain.count < KEPT) {
            // SAFETY: what was on the stack is this thread's now.
            next = unsafe { passage(node.as_ptr()) }.0;
            // SAFETY: as above.
            unsafe { chain.push_last(node, 0) };
        }
        if !next.is_null() {
            let mut rest = Chain { first: next, last: next, count: 0 };
            // Mostly nobody has pushed meanwhile, and the rest need not be walked through to its end.
            if stack.compare_exchange(ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed).is_err() {
                while !next.is_null() {
                    rest.last = next;
                    // SAFETY: as above.
                    next = unsafe { passage(next) }.0;
                }
                self.epochs.push(rest);
            }
        }
        self.with_kept(|kept| {
            kept.ready = chain;
            // SAFETY: as in `lend`.
            unsafe { kept.ready.pop_first(u64::MAX) }
        })
    }

    /// Takes a node back that was lent, or made, and has not been linked.
    ///
    /// # Safety
    /// The node is the caller's alone.
    pub(super) unsafe fn give_back(&self, node: NonNull<N>) {
        // SAFETY: as the caller says; the chain is this thread's (Invariant 1).
        self.with_kept(|kept| unsafe { kept.ready.push_last(node, 0) });
    }

    /// Keeps a node that was given back, but may be linked still.
    ///
    /// # Safety
    /// The node leaves for good, and nobody else keeps or retires it.
    #[inline]
    pub(super) unsafe fn leave(&self, node: NonNull<N>) {
        // SAFETY: others may still read the node, but not its passage; the chain is this thread's (Invariant 1).
        self.with_kept(|kept| unsafe { kept.left.push_last(node, 0) });
    }

    /// The oldest of those that were left.
    pub(super) fn oldest_left(&self) -> Option<NonNull<N>> {
        self.with_kept(|kept| NonNull::new(kept.left.first))
    }

    /// Retires the oldest of those that were left, as long as they are `unlinked` from everywhere. Whether too many
    /// are left.
    #[inline]
    pub(super) fn retire_left(&self, unlinked: impl Fn(&N) -> bool) -> bool {
        let (due, many) = self.with_kept(|kept| {
            // SAFETY: the slot's nodes live as long as the lock.
            while let Some(node) = unsafe { kept.left.first.as_ref() }
                && unlinked(node)
            {
                // SAFETY: the chains are this thread's (Invariant 1); the node is unlinked.
                unsafe {
                    if let Some(node) = kept.left.pop_first(u64::MAX) {
                        kept.limbo.push_last(node, self.epoch);
                    }
                }
                kept.retired += 1;
            }
            (kept.retired >= ADVANCE_EVERY || kept.limbo.count > CROWDED, kept.left.count > LEFT)
        });
        if due {
            self.tidy();
        }
        many
    }

    /// As [`retire_left`](Pin::retire_left), but the oldest becomes the newest if it is linked still, or somebody has
    /// yet to say that it is not.
    pub(super) fn pass_over_oldest_left(&self, unlinked: impl Fn(&N) -> bool) {
        self.with_kept(|kept| {
            // SAFETY: the slot's nodes live as long as the lock.
            if unsafe { kept.left.first.as_ref() }.is_some_and(|node| !unlinked(node)) {
                // SAFETY: the chain is this thread's (Invariant 1).
                unsafe {
                    if let Some(node) = kept.left.pop_first(u64::MAX) {
                        kept.left.push_last(node, 0);
                    }
                }
            }
        });
        self.retire_left(unlinked);
    }

    /// Advances the epoch, and passes on what the slot has too much of.
    #[inline(never)]
    fn tidy(&self) {
        let advanced = self.epochs.advance(self.epoch);
        let latest = self.epoch - GRACE;
        let mut surplus = Chain::EMPTY;
        let left = self.with_kept(|kept| {
            kept.retired = 0;
            // Twice as many as have come, so that what has piled up gets less.
            while kept.limbo.count > KEPT && surplus.count < 2 * ADVANCE_EVERY {
                // SAFETY: the chain is this thread's (Invariant 1).
                let Some(node) = (unsafe { kept.limbo.pop_first(latest) }) else { break };
                // SAFETY: it is this thread's: by Invariant 4 nobody else has a reference.
                unsafe { surplus.push_last(node, 0) };
            }
            kept.limbo.count
        });
        if surplus.count > 0 {
            self.epochs.push(surplus);
        }
        if !advanced && left > CROWDED {
            self.piled_up.set(left);
        }
    }

    /// A random number.
    #[inline]
    pub(super) fn roll(&self) -> u64 {
        self.with_kept(|kept| {
            kept.dice = rolled(kept.dice);
            kept.dice
        })
    }
}

/// Lets the one that stands still have a CPU.
#[cold]
fn let_others_run(piled_up: u32) {
    if piled_up > FULL {
        platform::thread::sleep_ns(NAP_NS);
    } else {
        platform::thread::yield_now();
    }
}

impl<N: Retire> Drop for Pin<'_, N> {
    #[inline]
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        // Release: see *Memory orderings*.
        self.slot.state.store(FREE, Ordering::Release);
        if self.piled_up.get() > 0 {
            let_others_run(self.piled_up.get());
        }
    }
}
