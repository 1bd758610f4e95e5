//! When a node that was unlinked may be used again, or freed: intervals of epochs, with the nodes
//! waiting in the place of the thread that retired them.
//!
//! A thread that walks along links may stand on a node that others unlink. So each thread *pins* an
//! epoch while it follows links, and a node that was *retired* (it is unlinked for good) waits
//! until no pin can concern it. With epochs alone (Fraser, "Practical lock-freedom", 2004, section
//! 5.2.3) a thread that stands still while pinned keeps every node from coming back, so what is
//! allocated grows for as long as it stands: 8 threads on 2 CPUs came to 1.7 million nodes within
//! 30 million pairs.
//!
//! Here a pin is an *interval* of epochs, and concerns only nodes that lived in it (Wen,
//! Izraelevitz, Cai, Beadle and Scott, "Interval-based memory reclamation", PPoPP 2018, section
//! 3.2, "2GEIBR"). A node's life goes from the epoch at which it was lent to that at which it was
//! retired. A pin begins as the epoch of its beginning. A walk looks at the epoch after each link
//! that it loads, and if that has advanced, makes its interval longer before it follows the link.
//! So a thread that stands still has an interval that stays as it is, and whatever is lent later is
//! none of its business: it keeps no more nodes than there were when it stopped. Deviations from
//! the paper:
//!
//! - The paper asks that a thread meets only nodes that are linked. Our walks pass marked nodes,
//!   which may be unlinked, and what these lead to may have been lent after the interval's end. So
//!   a walk whose interval has become longer begins again from a link that is not marked (Invariant
//!   4).
//! - Threads are not registered. To pin is to claim one of the lock's *slots* by the same
//!   compare-and-swap that writes the epoch, and no other thread uses the slot meanwhile. So a
//!   slot's lists need no lock, threads come and go at no cost, and nothing is left behind in a
//!   thread when the lock is dropped. A thread first tries the slot that it had the last time.
//! - A node that is given back need not be unlinked yet. It is *left* in the slot, and retired
//!   there once others have unlinked it, so it comes back to the thread that gave it back, and its
//!   lines are still in that CPU's cache.
//! - A node is tagged when the slot's epoch is over, by the same addition that advances the epoch.
//!   So a pin of a later epoch has read what this thread wrote, and needs no fence for it.
//!
//! ```text
//!         lend                   leave                 unlinked            epoch over       no pin concerns it
//!   heap ──────► linked in a list ─────► left in a slot ───────► retired ───────────► limbo ──────────────────► ready
//!    ▲                                                                                                         │   │
//!    │                                             lent again ◄────────────────────────────────────────────────┘   │
//!    │                                                  ▲                                                          │
//!    └─────────────── no shelf is empty ──────┐         └──── shelves ◄──────┐                                     │
//!                                             └──────────────────────────────┴──────────────── more than KEPT ◄────┘
//! ```
//!
//! **The bound.** Let a pin's interval begin while `H` nodes are linked. The nodes that it concerns
//! are these, and those lent within the interval. The interval becomes longer only by steps of its
//! own walk; a slot ends the epoch when it has retired [`EVERY`] nodes, so few are lent in an epoch
//! that are not held; and a walk that has to begin anew gives up what it had (see [`Pin::renew`]).
//! So the number of nodes that a pin keeps does not depend on how long it lasts, nor on how many
//! pairs others finish meanwhile. Limbo has at most twice as many nodes as pins concern, and
//! [`EVERY`] more; it is looked through when it has doubled, so that this costs the same for each
//! node. A slot keeps [`KEPT`] and a [`BATCH`] ready, and all shelves together have [`SHELVES`]
//! batches. What is more than that goes back to the heap. A slot that is not used any more is
//! looked after by others, one slot in [`VISIT_EVERY`] epochs.
//!
//! | `state` of a slot | `latest` | meaning |
//! | --- | --- | --- |
//! | 0 | any | claimed by no thread |
//! | epoch × 2 + 1 | not above that epoch | claimed by a thread that pins this epoch |
//! | epoch × 2 + 1 | above that epoch | claimed, and the pin's interval goes on to `latest`, or ends before it |
//!
//! Invariants:
//! 1. A slot's lists are used by the thread that has claimed it, or by the owner of the whole lock.
//! 2. A node in limbo, ready or on a shelf is linked nowhere and never will be before it is lent.
//!    Its tag in limbo is the epoch at which, or before which, it was retired; what it says of its
//!    birth is the epoch at which, or before which, it was lent.
//! 3. A node leaves limbo only if each pin but that of the slot itself, at a moment after it was
//!    retired, was not there, or began at a later epoch than the tag, or ended at an earlier one
//!    than the birth. It is lent or freed only after that, and the thread that has the slot has no
//!    reference to it.
//! 4. A thread meets a node only by a link that it loads after its slot showed the epoch that it
//!    finds after the load. If the slot showed an earlier one, the thread shows the epoch as it is
//!    and loads a link anew: that of the head, or of a node that it met before; and it goes on only
//!    if this link is not marked.
//!
//! Why no node is lent or freed while another thread has a reference to it. Let R look through
//! limbo with a node B of birth `b` and tag `r` in it, let T have a reference to B, and let R see
//! T's pin. (Not seeing it is the first case.)
//! - *R sees an older state of T's slot than that under which T met B*: the pin is missing, or ends
//!   too early. R's look and what T shows are Dekker's pattern (see *Memory orderings*), so T loads
//!   links that are at least as new as when B was unlinked. By Invariant 4 it goes on from a link
//!   of a node that is still linked, since a link that is not marked belongs to such a node or the
//!   head. What a linked node leads to, directly or by way of marked nodes, was not unlinked before
//!   that node: marked links do not change, so such nodes are unlinked together with those before
//!   them, or after them. So T does not meet B.
//! - *T's pin began later than `r`*: T read the epoch after R had advanced it beyond `r`, and B was
//!   unlinked before that. By the same argument T does not meet B.
//! - *T's interval ends before `b`*: T met B by a link that it loaded before it found that epoch.
//!   The thread that lent B had found `b` before B was linked, so T found `b` or more.
//!
//! # Memory orderings
//! - What a thread shows (a read-modify-write of its slot, then a load of the epoch, in
//!   [`Epochs::settle`]) against a look through limbo (a read-modify-write of the epoch, then a
//!   load of the slot) is Dekker's pattern, with sequentially consistent accesses on both sides. In
//!   the one order of these, either R sees what T shows, or T's load of the epoch comes after R's
//!   advance, reads that or a later one, and so T sees all that was unlinked before it.
//! - The epoch is changed by read-modify-writes only, with release, and loaded with acquire: so a
//!   thread that pins or finds an epoch sees all that was done before the epoch came to that, by
//!   any thread that advanced it.
//! - A slot is left with release and seen left with acquire, by the thread that claims it next and
//!   by threads that look through limbo; likewise the epoch at which a pin begins anew.
//! - A shelf is filled with release and emptied with acquire: the thread that takes nodes sees
//!   their chain.

use super::super::sequential;
use super::chain::{Chain, Retire, passage};
use super::slot::{FREE, Kept, SLOTS, Slot, Slots, pinned, rolled};
use platform::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::cell::Cell;
use std::ptr::{self, NonNull};

platform::os_only! {
    /// The number of retired nodes after which a slot looks through its limbo.
    const EVERY: u32 = 32;
    /// The number of released nodes that a slot may leave linked.
    const LEFT: u32 = 32;
    /// The number of ready nodes that a slot keeps to itself. It may have up to a batch more.
    const KEPT: u32 = 64;
    /// The number of nodes in a batch. Slots and shelves exchange whole batches.
    const BATCH: u32 = 64;
    /// The number of shelves. Each holds one batch, for any slot; the shelves and the epoch fill a
    /// pair of cache lines.
    const SHELVES: usize = 15;
    /// The number of epochs after which a thread also looks after one slot of other threads.
    const VISIT_EVERY: u64 = 64;
}

platform::twins_only! {
    const EVERY: u32 = 1;
    const LEFT: u32 = 1;
    const KEPT: u32 = 1;
    const BATCH: u32 = 1;
    const SHELVES: usize = 1;
    const VISIT_EVERY: u64 = 4;
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
    /// Each with a batch that is ready to be lent, or null.
    shelves: [AtomicPtr<N>; SHELVES],
}

// SAFETY: nodes are handed from thread to thread by Invariants 1, 2 and 3.
unsafe impl<N: Send> Send for Epochs<N> {}
// SAFETY: as above; what is shared is atomic, or used by Invariant 1.
unsafe impl<N: Send> Sync for Epochs<N> {}

impl<N: Retire> Epochs<N> {
    /// No node is on its way.
    pub(super) fn new() -> Self {
        let shelves = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Epochs { slots: Slots::new(), epoch: AtomicU64::new(0), shelves }
    }

    /// Pins the epoch: what the caller meets from now on, as Invariant 4 says, stays what it is
    /// until the pin is dropped or [renewed](Pin::renew).
    #[inline]
    pub(super) fn pin(&self) -> Pin<'_, N> {
        // An error says that the thread's variables are gone; any slot will do.
        let hint = SLOT.try_with(Cell::get).unwrap_or(0);
        let epoch = self.epoch.load(Ordering::Acquire);
        let slot = match self.slots.slots.get(hint) {
            Some(slot) if slot.claim(epoch) => slot,
            _ => self.claim_slow(epoch),
        };
        self.settle();
        Pin { epochs: self, slot, latest: Cell::new(epoch) }
    }

    /// Follows each change of what a slot shows: see *Memory orderings*.
    #[inline(always)]
    fn settle(&self) {
        sequential::after_rmw();
        self.epoch.load(Ordering::SeqCst);
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

    /// All pieces with slots.
    fn pieces(&self) -> impl Iterator<Item = &Slots<N>> {
        std::iter::successors(Some(&self.slots), |slots| {
            // SAFETY: pieces live as long as the epochs.
            unsafe { slots.next.load(Ordering::SeqCst).as_ref() }
        })
    }

    /// Puts a batch that is ready on a shelf, if one is empty.
    fn shelve(&self, batch: &Chain<N>) -> bool {
        self.shelves.iter().any(|shelf| {
            // Release: the thread that takes the batch sees its chain.
            shelf.load(Ordering::Relaxed).is_null()
                && shelf
                    .compare_exchange(ptr::null_mut(), batch.first, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Takes a batch from a shelf, if there is one.
    fn unshelve(&self) -> Option<*mut N> {
        self.shelves.iter().find_map(|shelf| {
            let full = !shelf.load(Ordering::Relaxed).is_null();
            let batch = if full { shelf.swap(ptr::null_mut(), Ordering::Acquire) } else { ptr::null_mut() };
            (!batch.is_null()).then_some(batch)
        })
    }

    /// Calls `free` for each node that is on its way.
    pub(super) fn drain(&mut self, mut free: impl FnMut(NonNull<N>)) {
        let mut free_chain = |mut next: *mut N| {
            while let Some(node) = NonNull::new(next) {
                // SAFETY: the caller has the only reference, so no thread is pinned and what is on
                // its way is the caller's.
                next = unsafe { passage(node.as_ptr()) }.0;
                free(node);
            }
        };
        while let Some(batch) = self.unshelve() {
            free_chain(batch);
        }
        for slot in self.pieces().flat_map(|slots| &slots.slots) {
            let chains = slot.kept.with_mut(|kept| {
                // SAFETY: as above (Invariant 1).
                let kept = unsafe { &mut *kept };
                [&mut kept.left, &mut kept.retired, &mut kept.limbo, &mut kept.ready]
                    .map(|chain| std::mem::replace(chain, Chain::EMPTY))
            });
            chains.into_iter().for_each(|chain| free_chain(chain.first));
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
            // SAFETY: further pieces come from `Slots::next_slow`, and no other thread knows of
            // them any more.
            let slots = unsafe { Box::from_raw(next) };
            next = slots.next.load(Ordering::Acquire);
        }
    }
}

/// A pinned interval of epochs, and a slot claimed.
pub(super) struct Pin<'a, N: Retire> {
    epochs: &'a Epochs<N>,
    slot: &'a Slot<N>,
    /// The interval's end, which others can see.
    latest: Cell<u64>,
}

impl<N: Retire> Pin<'_, N> {
    #[inline(always)]
    fn with_kept<R>(&self, run: impl FnOnce(&mut Kept<N>) -> R) -> R {
        // SAFETY: this thread has claimed the slot (Invariant 1), and no closure of this module
        // comes here again.
        self.slot.kept.with_mut(|kept| run(unsafe { &mut *kept }))
    }

    /// Whether the interval goes on to the present epoch. A caller that has loaded a link may
    /// follow it if so; if not, it calls [`catch_up`](Pin::catch_up) and goes on as Invariant 4
    /// says.
    #[inline(always)]
    pub(super) fn is_current(&self) -> bool {
        // Acquire: the advance of the epoch to this came before.
        self.epochs.epoch.load(Ordering::Acquire) == self.latest.get()
    }

    /// Makes the interval longer, up to the present epoch.
    #[cold]
    pub(super) fn catch_up(&self) {
        let epoch = self.epochs.epoch.load(Ordering::Acquire);
        self.slot.latest.swap(epoch, Ordering::SeqCst);
        self.epochs.settle();
        self.latest.set(epoch);
    }

    /// Lets the interval begin anew, if the epoch has advanced. The caller has no reference to a
    /// node that it met, unless that is held or left by itself.
    pub(super) fn renew(&self) {
        if !self.is_current() {
            let epoch = self.epochs.epoch.load(Ordering::Acquire);
            // Release: what was done with nodes of the old interval comes before.
            self.slot.state.swap(pinned(epoch), Ordering::SeqCst);
            self.epochs.settle();
            self.latest.set(epoch);
        }
    }

    /// When a node that is lent now was born.
    #[inline(always)]
    pub(super) fn birth(&self) -> u64 {
        self.latest.get()
    }

    /// Lends a node that no other thread has a reference to, if there is one.
    #[inline]
    pub(super) fn lend(&self) -> Option<NonNull<N>> {
        // SAFETY: the chains of a slot are its claimant's (Invariant 1).
        self.with_kept(|kept| unsafe { kept.ready.pop_first() }).or_else(|| self.lend_slow())
    }

    /// Takes a batch from a shelf.
    #[cold]
    fn lend_slow(&self) -> Option<NonNull<N>> {
        let mut next = self.epochs.unshelve()?;
        self.with_kept(|kept| {
            while let Some(node) = NonNull::new(next) {
                // SAFETY: what was on the shelf is this thread's now, and so is the chain.
                unsafe {
                    next = passage(next).0;
                    kept.ready.push_last(node, 0);
                }
            }
            // SAFETY: as in `lend`.
            unsafe { kept.ready.pop_first() }
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
    /// The node leaves for good, and no other thread keeps or retires it.
    #[inline]
    pub(super) unsafe fn leave(&self, node: NonNull<N>) {
        // SAFETY: others may still read the node, but not its passage; the chain is this thread's
        // (Invariant 1).
        self.with_kept(|kept| unsafe { kept.left.push_last(node, 0) });
    }

    /// Returns the oldest of the nodes that were left.
    pub(super) fn oldest_left(&self) -> Option<NonNull<N>> {
        self.with_kept(|kept| NonNull::new(kept.left.first))
    }

    /// Retires the oldest of the nodes that were left, as long as they are `unlinked` from
    /// everywhere. Returns whether too many are left. What there is no use for goes to `free`.
    ///
    /// # Safety
    /// The caller has no reference to a node that it met or left (Invariant 3), and `free` frees
    /// it.
    #[inline]
    pub(super) unsafe fn retire_left(
        &self,
        unlinked: impl Fn(&N) -> bool,
        free: impl Fn(NonNull<N>),
    ) -> bool {
        let (due, many) = self.with_kept(|kept| {
            // SAFETY: what is left is not freed.
            while let Some(node) = unsafe { kept.left.first.as_ref() }
                && unlinked(node)
            {
                // SAFETY: the chains are this thread's (Invariant 1); the node is unlinked.
                unsafe {
                    if let Some(node) = kept.left.pop_first() {
                        kept.retired.push_last(node, 0);
                    }
                }
            }
            (kept.retired.count >= EVERY, kept.left.count > LEFT)
        });
        if due {
            self.tidy(&free);
        }
        many
    }

    /// Makes the oldest of the nodes that were left the newest, if it is linked still or a thread
    /// has yet to say that it is not.
    pub(super) fn pass_over_oldest_left(&self, unlinked: impl Fn(&N) -> bool) {
        self.with_kept(|kept| {
            // SAFETY: what is left is not freed.
            if unsafe { kept.left.first.as_ref() }.is_some_and(|node| !unlinked(node)) {
                // SAFETY: the chain is this thread's (Invariant 1).
                unsafe {
                    if let Some(node) = kept.left.pop_first() {
                        kept.left.push_last(node, 0);
                    }
                }
            }
        });
    }

    /// Advances the epoch, and looks through limbo if that has grown. Now and then, looks after
    /// another slot.
    #[inline(never)]
    fn tidy(&self, free: &impl Fn(NonNull<N>)) {
        let epoch = self.advance();
        if self.with_kept(|kept| kept.limbo.count >= kept.due) {
            self.reclaim(free);
        }
        // Of all threads that advance the epoch one comes here.
        if epoch.is_multiple_of(VISIT_EVERY) {
            self.visit((epoch / VISIT_EVERY) as usize, free);
        }
    }

    /// Looks after a slot that no thread has: its last user may be gone for good.
    #[cold]
    fn visit(&self, turn: usize, free: &impl Fn(NonNull<N>)) {
        let count = self.epochs.pieces().count() * SLOTS;
        let slot = self.epochs.pieces().flat_map(|slots| &slots.slots).nth(turn % count);
        let epoch = self.birth();
        if let Some(slot) = slot.filter(|slot| slot.claim(epoch)) {
            let pin = Pin { epochs: self.epochs, slot, latest: Cell::new(epoch) };
            pin.advance();
            pin.reclaim(free);
        }
    }

    /// Ends the epoch, and tags what was retired in it. The epoch that was.
    fn advance(&self) -> u64 {
        // Release: a pin of a later epoch sees unlinked what has this tag.
        let epoch = self.epochs.epoch.fetch_add(1, Ordering::SeqCst);
        self.with_kept(|kept| {
            // SAFETY: the chains are this thread's (Invariant 1).
            while let Some(node) = unsafe { kept.retired.pop_first() } {
                // SAFETY: as above.
                unsafe { kept.limbo.push_last(node, epoch) };
            }
        });
        epoch
    }

    /// Makes ready what no pin concerns, and passes on what is too much. Follows an
    /// [`advance`](Pin::advance).
    fn reclaim(&self, free: &impl Fn(NonNull<N>)) {
        sequential::after_rmw();
        let mut surplus = Chain::EMPTY;
        self.with_kept(|kept| {
            let mut chosen = std::mem::replace(&mut kept.limbo, Chain::EMPTY);
            for slots in self.epochs.pieces() {
                let mut pins = [(0, 0); SLOTS];
                let mut count = 0;
                let others = slots.slots.iter().filter(|slot| !ptr::eq(*slot, self.slot));
                for interval in others.filter_map(Slot::interval) {
                    pins[count] = interval;
                    count += 1;
                }
                if count > 0 {
                    // SAFETY: the chains are this thread's (Invariant 1).
                    chosen = unsafe { separate(chosen, &pins[..count], &mut kept.limbo) };
                }
            }
            // With twice as many the next time, looking costs the same for each node however many
            // stay.
            kept.due = 2 * kept.limbo.count;
            // SAFETY: as above; by Invariant 3 no thread has a reference to those chosen.
            unsafe {
                // The warmest first.
                chosen.append(std::mem::replace(&mut kept.ready, Chain::EMPTY));
                kept.ready = chosen;
                while kept.ready.count > KEPT + BATCH
                    && let Some(node) = kept.ready.pop_first()
                {
                    surplus.push_last(node, 0);
                }
            }
        });
        if surplus.count > 0 {
            // SAFETY: it is this thread's.
            unsafe { self.pass_on(surplus, free) };
        }
    }

    /// Puts nodes on the shelves, a batch each, and frees what finds no place.
    ///
    /// # Safety
    /// No other thread has a reference to them.
    #[cold]
    unsafe fn pass_on(&self, mut surplus: Chain<N>, free: &impl Fn(NonNull<N>)) {
        while surplus.count > 0 {
            let mut batch = Chain::EMPTY;
            // SAFETY: the chains are the caller's.
            unsafe {
                while batch.count < BATCH
                    && let Some(node) = surplus.pop_first()
                {
                    batch.push_last(node, 0);
                }
                if !self.epochs.shelve(&batch) {
                    while let Some(node) = batch.pop_first() {
                        free(node);
                    }
                }
            }
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

/// Moves the nodes that one of the pins may concern to `limbo`, and returns the others.
///
/// # Safety
/// The chains are the caller's.
unsafe fn separate<N: Retire>(mut from: Chain<N>, pins: &[(u64, u64)], limbo: &mut Chain<N>) -> Chain<N> {
    let mut others = Chain::EMPTY;
    // SAFETY: as the caller says.
    while let Some(node) = unsafe { from.pop_first() } {
        // SAFETY: as above.
        unsafe {
            let (born, retired) = (node.as_ref().born(), passage(node.as_ptr()).1);
            let concerns = |&(first, last): &(u64, u64)| first <= retired && born <= last;
            if pins.iter().any(concerns) { &mut *limbo } else { &mut others }.push_last(node, retired);
        }
    }
    others
}

impl<N: Retire> Drop for Pin<'_, N> {
    #[inline]
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        // Release: see *Memory orderings*.
        self.slot.state.store(FREE, Ordering::Release);
    }
}
