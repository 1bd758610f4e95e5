//! What is held: shards of the key space, and a list of ranges too wide for shards.
//!
//! Two cores cannot take turns with one cache line more than some ten million times a second, whatever is done with it.
//! So the key space is cut into blocks, and each shard looks after every so many-th of them. A range that lies within one block,
//! as nearly all do, concerns one shard. One over a few blocks ([`FEW`]) takes a slot in each of their shards. A wider
//! one is put into a list of its own. What makes that exact is one rule.
//!
//! Invariants:
//! 1. Whoever looks for what is in the way of some ranges, and takes them, holds the words of all the shards that the
//!    ranges concern ([`Reach`]) from the first look until everything is taken. Words are locked in the order of shards.
//! 2. A range that is wide concerns all shards. So the list of wide ranges belongs, to be changed, to who holds all the
//!    words, and, to be read, to who holds any one of them.
//! 3. Whether the list may have a taken slot is bit [`WIDE`] of `special`. It is set under all words, and taken away by
//!    who holds any word and found all of them free: nobody can have added one meanwhile.
//! 4. Of two ranges that overlap, both concern the shard of a block in common, or one of them is wide. So the one that
//!    is taken later sees the other.
//!
//! Blocks are dealt so that neighbours have different shards, and so have blocks that are a power of two apart.
//!
//! # Memory orderings
//! Words order everything but one thing. `special` is read under a word, and changed under all, or under any for what Invariant 3
//! allows: who takes `WIDE` away releases what it acquired from the wide slots that it found free, and who reads `special`
//! acquires that.

use super::holder::Holder;
use super::key::Key;
use super::outline::Outline;
use super::raw::Access;
use super::request::{Request, Want};
use super::shard::{CHUNK, Chunk, Shard, Spill, each_of};
use super::slot::{self, AWAITED, Entry, FREE, HEAD, Held, Slot};
use super::span::Span;
use platform::atomic::{AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use platform::clock;
use std::ops::ControlFlow;
use std::ptr;

/// The most shards that a range can concern without concerning all.
const FEW: usize = 8;

/// `special`: there may be wide ranges.
const WIDE: u32 = 1;
/// `special`: it is recorded since when ranges are held.
const RECORDED: u32 = 2;
/// `special`: somebody is in the waiting room.
const CROWDED: u32 = 4;
/// `special`: one overdue waiter for something wide.
const WIDE_OVERDUE: u32 = 8;

/// What a lock is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// A block has two to the power of so many positions.
    pub(super) block_log2: u32,
    /// How long waiters may be overtaken; `None`: as long as their epochs say, or the default.
    pub(super) window_ns: Option<u64>,
    /// The most slots on the heap.
    pub(super) spill_max: u32,
    /// Whether it is recorded since when ranges are held.
    pub(super) recorded: bool,
    /// Whether owners that would wait for each other are told.
    pub(super) detects: bool,
}

/// Why ranges were not taken.
#[derive(Debug)]
pub(super) enum Refused<K> {
    /// This slot was in the way, and perhaps others.
    Blocked(*const Slot<K>),
    /// Somebody overdue may want some of it.
    Closed,
    /// The lock holds as many ranges as it may.
    Full,
}

/// How ranges are looked for and taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Even if somebody overdue may want some of it.
    pub(super) closed: bool,
    /// Every slot in the way is told that somebody waits for it.
    pub(super) waiting: bool,
    /// What is taken is awaited already.
    pub(super) awaited: bool,
    /// Nothing is taken: is anything in the way?
    pub(super) look: bool,
}

/// The shards that some ranges concern.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// So many, in their order.
    Few { count: usize, shards: [u16; FEW] },
    /// All of them.
    All,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Common<K> {
    special: AtomicU32,
    /// Chunks on the heap.
    chunks: AtomicU32,
    coarse_log2: u32,
    settings: Settings,
    wide: UnsafeCell<Spill<K>>,
}

/// What is held.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Table<K, const SHARDS: usize, const SLOTS: usize> {
    common: Common<K>,
    shards: [Shard<K, SLOTS>; SHARDS],
}

platform::os_only! {
    const fn free_shards<K, const SHARDS: usize, const SLOTS: usize>() -> [Shard<K, SLOTS>; SHARDS] {
        [const { Shard::new() }; SHARDS]
    }
}

platform::twins_only! {
    fn free_shards<K, const SHARDS: usize, const SLOTS: usize>() -> [Shard<K, SLOTS>; SHARDS] {
        std::array::from_fn(|_| Shard::new())
    }
}

impl<K, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    platform::const_fn! {
        pub(super) const fn new(settings: Settings) -> Self {
            const { assert!(SHARDS.is_power_of_two() && SHARDS <= 1024, "shards are a power of two, up to 1024") };
            let common = Common {
                special: AtomicU32::new(if settings.recorded { RECORDED } else { 0 }),
                chunks: AtomicU32::new(0),
                coarse_log2: Outline::coarse_log2(settings.block_log2),
                settings,
                wide: UnsafeCell::new(Spill::new()),
            };
            Table { common, shards: free_shards() }
        }
    }

    #[inline(always)]
    pub(super) const fn settings(&self) -> &Settings {
        &self.common.settings
    }

    /// The shard of a block.
    #[inline(always)]
    const fn shard_of(block: u64) -> usize {
        // Fibonacci hashing (Knuth, "The art of computer programming", volume 3, section 6.4): blocks in a row are dealt far
        // apart, and so are those that are a power of two apart.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        if SHARDS == 1 {
            return 0;
        }
        (block.wrapping_mul(GOLDEN) >> (64 - SHARDS.trailing_zeros())) as usize
    }

    /// The wide ranges.
    ///
    /// # Safety
    /// The caller holds a word while the result is used.
    unsafe fn wide(&self) -> &Spill<K> {
        // SAFETY: Invariant 2 and the caller's promise.
        self.common.wide.with(|wide| unsafe { &*wide })
    }

    /// The wide ranges, to be changed.
    ///
    /// # Safety
    /// The caller holds all words, and uses one result at a time.
    #[expect(clippy::mut_from_ref, reason = "the words make it exclusive")]
    unsafe fn wide_mut(&self) -> &mut Spill<K> {
        // SAFETY: Invariant 2 and the caller's promise.
        self.common.wide.with_mut(|wide| unsafe { &mut *wide })
    }

    /// The shards of a reach, in order.
    fn reached(&self, reach: &Reach) -> impl Iterator<Item = &Shard<K, SLOTS>> {
        let (all, few): (&[_], &[u16]) = match reach {
            Reach::All => (&self.shards, &[]),
            Reach::Few { count, shards } => (&[], &shards[..*count]),
        };
        all.iter().chain(few.iter().map(|index| &self.shards[usize::from(*index)]))
    }

    /// Locks the words of a reach.
    fn words(&self, reach: Reach) -> Words<'_, K, SHARDS, SLOTS> {
        for shard in self.reached(&reach) {
            shard.lock();
        }
        Words { table: self, reach }
    }

    /// Gives back the chunks of `spill`.
    fn give_back(&self, spill: Spill<K>) {
        let count = spill.count() as u32;
        if count > 0 {
            // Relaxed, here and where it is raised: a count.
            self.common.chunks.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Says that `chunk` more chunks are wanted; whether the limit allows for them.
    fn allow_chunk(&self) -> bool {
        let max = self.common.settings.spill_max / CHUNK as u32;
        self.common
            .chunks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1))
            .is_ok()
    }

    /// Ranges taken so far. Those of shards that others are busy with are counted a moment earlier or later.
    pub(super) fn acquired(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| {
                shard.lock();
                // SAFETY: just locked.
                unsafe {
                    let acquired = shard.inner().acquired;
                    shard.unlock();
                    acquired
                }
            })
            .sum()
    }

    /// Slots on the heap.
    pub(super) fn spilled(&self) -> usize {
        self.common.chunks.load(Ordering::Relaxed) as usize * CHUNK
    }

    /// Shows each held range: its slot and the state of that, all of the same moment. Nothing is taken or released by `show`.
    pub(super) fn each_held(&self, mut show: impl FnMut(&Entry<K>, u64)) {
        let words = self.words(Reach::All);
        let mut visit = |slot: &Slot<K>, state: u64| {
            if state & HEAD != 0 {
                // SAFETY: all words are held.
                show(unsafe { slot.entry() }, state);
            }
            ControlFlow::<()>::Continue(())
        };
        for shard in &self.shards {
            // SAFETY: all words are held.
            let _ = unsafe { shard.each(&mut visit) };
        }
        // SAFETY: all words are held.
        let _ = each_of(unsafe { self.wide() }, visit);
        drop(words);
    }
}

/// The words of a reach, held.
struct Words<'a, K, const SHARDS: usize, const SLOTS: usize> {
    table: &'a Table<K, SHARDS, SLOTS>,
    reach: Reach,
}

impl<K, const SHARDS: usize, const SLOTS: usize> Drop for Words<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        for shard in self.table.reached(&self.reach) {
            // SAFETY: locked in `words`.
            unsafe { shard.unlock() };
        }
    }
}

/// Slots that were taken for one caller, so far. Under the words nobody has seen them, and dropping frees them.
struct Chain<K> {
    head: *const Slot<K>,
    state: u64,
}

impl<K> Chain<K> {
    /// # Safety
    /// The caller holds the word of the slot's shard until the chain is finished or dropped; the slot is free.
    unsafe fn push(&mut self, slot: &Slot<K>, want: &Want<'_, K>, head: u64)
    where
        K: Clone,
    {
        let entry = Entry { next: self.head, span: want.span.clone() };
        // SAFETY: the caller's promise.
        let old = unsafe { slot.take(entry, self.state | head) };
        self.head = slot;
        drop(old);
    }

    fn finish(self) -> Held<K> {
        let held = Held(self.head);
        std::mem::forget(self);
        held
    }
}

impl<K> Drop for Chain<K> {
    fn drop(&mut self) {
        // SAFETY: taken by `push`, and this is the holder.
        for slot in unsafe { Held(self.head).slots() } {
            // SAFETY: as above; nobody waits for what nobody has seen.
            unsafe { (*slot).free() };
        }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// The blocks from the one to the other position, both included; `None` if they are many.
    #[inline(always)]
    fn blocks(&self, first: u64, last: u64) -> Option<std::ops::RangeInclusive<u64>> {
        let (first, last) =
            (first >> self.common.settings.block_log2, last >> self.common.settings.block_log2);
        // A range may be inverted by positions if it has no key.
        let last = last.max(first);
        (SHARDS == 1 || last - first < FEW.min(SHARDS) as u64).then_some(first..=last)
    }

    /// Whether a range is held as a wide one.
    fn is_wide(&self, want: &Want<'_, K>) -> bool {
        self.blocks(want.first, want.last).is_none()
    }

    /// The shards of one range, each once; none if it is wide.
    fn shards(&self, want: &Want<'_, K>) -> (usize, [u16; FEW]) {
        let mut shards = [0; FEW];
        let mut count = 0;
        if SHARDS == 1 {
            return (1, shards);
        }
        for block in self.blocks(want.first, want.last).into_iter().flatten() {
            let shard = Self::shard_of(block) as u16;
            if !shards[..count].contains(&shard) {
                shards[count] = shard;
                count += 1;
            }
        }
        (count, shards)
    }

    /// What the ranges of a request concern.
    fn reach(&self, request: &Request<'_, K>) -> Reach {
        let mut shards = [0; FEW];
        let mut count = 0;
        for want in request.wants() {
            if self.is_wide(&want) {
                return Reach::All;
            }
            let (its_count, its_shards) = self.shards(&want);
            for shard in &its_shards[..its_count] {
                if shards[..count].contains(shard) {
                    continue;
                }
                if count == FEW {
                    return Reach::All;
                }
                shards[count] = *shard;
                count += 1;
            }
        }
        shards[..count].sort_unstable();
        Reach::Few { count, shards }
    }

    /// Takes one range, if it is within one block, and nothing is out of the ordinary. Otherwise it is given back, and
    /// nothing has been learnt.
    #[inline(always)]
    pub(super) fn take_narrow(
        &self,
        span: Span<K>,
        access: Access,
        holder: Holder,
    ) -> Result<Held<K>, Span<K>> {
        let (first, last) = (span.first(), span.last());
        let block_log2 = self.common.settings.block_log2;
        let block = first >> block_log2;
        if last >> block_log2 != block {
            return Err(span);
        }
        let shard = &self.shards[Self::shard_of(block)];
        shard.lock();
        // Acquire pairs with the release of whoever took `WIDE` away.
        let slot = match self.common.special.load(Ordering::Acquire) & !CROWDED {
            0 => {
                let outline = Outline::within(first, last, self.common.coarse_log2);
                let preferred = holder.to_bits() as usize;
                // SAFETY: just locked.
                unsafe { shard.vacant_for(outline, access, preferred) }
            }
            _ => None,
        };
        let Some(slot) = slot else {
            // SAFETY: locked above.
            unsafe { shard.unlock() };
            return Err(span);
        };
        // SAFETY: locked above, and the slot is free.
        let old = unsafe {
            let old = slot.take(Entry { next: ptr::null(), span }, slot::taken(access, holder) | HEAD);
            shard.unlock();
            old
        };
        // Whatever a key does when it is dropped, no word is held.
        drop(old);
        Ok(Held(slot))
    }

    /// Takes all ranges of a request, or none, as told.
    pub(super) fn take(&self, request: &Request<'_, K>, how: How) -> Result<Held<K>, Refused<K>> {
        let reach = self.reach(request);
        let mut makes_room = false;
        loop {
            let words = self.words(reach);
            self.look(&words, request, how, !makes_room)?;
            if how.look {
                return Ok(Held(ptr::null()));
            }
            match self.insert(&words, request, how) {
                Ok(held) => {
                    drop(words);
                    return Ok(held);
                }
                Err(NoRoom { shard }) => {
                    drop(words);
                    self.make_room(shard, !makes_room)?;
                    makes_room = true;
                }
            }
        }
    }

    /// Looks for what is in the way. `tidies`: and gives slots back to the heap that are not needed any more.
    fn look(
        &self,
        words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
        tidies: bool,
    ) -> Result<(), Refused<K>> {
        // Acquire pairs with the release of whoever took `WIDE` away.
        let special = self.common.special.load(Ordering::Acquire);
        let mut closed = special >= WIDE_OVERDUE;
        let mut blocked = None;
        let mut visit = |slot: &Slot<K>, state: u64| {
            // SAFETY: all words that the request concerns are held (Invariant 1).
            if request.wants().any(|want| unsafe { want.is_blocked_by(slot, state) })
                // SAFETY: as above.
                && (!how.waiting || unsafe { slot.await_release() })
            {
                blocked = Some(ptr::from_ref(slot));
                if !how.waiting {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let mut empty = Spill::new();
        let mut ended = ControlFlow::Continue(());
        for shard in self.reached(&words.reach) {
            // SAFETY: locked, as all of them.
            unsafe {
                closed |= shard.inner().is_closed();
                ended = shard.each(&mut visit);
                if tidies && let Some(gone) = shard.take_empty() {
                    self.give_back(std::mem::replace(&mut empty, gone));
                }
            }
            if ended.is_break() {
                break;
            }
        }
        if special & WIDE != 0 && ended.is_continue() {
            let mut any = false;
            // SAFETY: a word is held (Invariant 2).
            let ended = each_of(unsafe { self.wide() }, |slot, state| {
                any = true;
                visit(slot, state)
            });
            if !any && ended.is_continue() {
                // Invariant 3.
                self.common.special.fetch_and(!WIDE, Ordering::Release);
            }
        }
        self.give_back(empty);
        match blocked {
            Some(slot) => Err(Refused::Blocked(slot)),
            None if closed && !how.closed => Err(Refused::Closed),
            None => Ok(()),
        }
    }

    /// Takes the ranges. Nothing is in the way.
    fn insert(
        &self,
        words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
    ) -> Result<Held<K>, NoRoom> {
        let mut state = slot::taken(request.access, request.holder);
        if how.awaited {
            state |= AWAITED;
        }
        if self.common.settings.recorded {
            state |= slot::since(clock::now_ns());
        }
        let mut chain = Chain { head: ptr::null(), state };
        for want in request.wants() {
            if self.is_wide(&want) {
                debug_assert!(matches!(words.reach, Reach::All));
                // SAFETY: all words are held (Invariant 2).
                let slot = unsafe { self.wide() }.vacant().ok_or(NoRoom { shard: None })?;
                self.common.special.fetch_or(WIDE, Ordering::Relaxed);
                // SAFETY: as above; the slot is free.
                unsafe { chain.push(slot, &want, HEAD) };
                // SAFETY: as above.
                unsafe { self.shards[0].inner() }.acquired += 1;
                continue;
            }
            let (count, shards) = self.shards(&want);
            let mut head = HEAD;
            for index in &shards[..count] {
                let shard = &self.shards[usize::from(*index)];
                // SAFETY: its word is held (Invariant 1).
                let slot = unsafe { shard.vacant() }.ok_or(NoRoom { shard: Some(*index) })?;
                // SAFETY: as above; the slot is free.
                unsafe {
                    chain.push(slot, &want, head);
                    shard.inner().acquired += u64::from(head != 0);
                }
                head = 0;
            }
        }
        Ok(chain.finish())
    }

    /// Adds slots to a shard, or to the wide ones. `tidies`: of the wide ones, those that are free may go, but for one chunk.
    #[cold]
    fn make_room(&self, shard: Option<u16>, tidies: bool) -> Result<(), Refused<K>> {
        if !self.allow_chunk() {
            return Err(Refused::Full);
        }
        let chunk = Chunk::new();
        match shard {
            Some(index) => {
                let shard = &self.shards[usize::from(index)];
                shard.lock();
                // SAFETY: just locked.
                unsafe {
                    shard.push(chunk);
                    shard.unlock();
                }
            }
            None => {
                let words = self.words(Reach::All);
                // SAFETY: all words are held (Invariant 2). One chunk stays, for who takes wide ranges now and then.
                let empty = unsafe {
                    let empty = self.wide_mut().take_empty(if tidies { 1 } else { usize::MAX });
                    self.wide_mut().push(chunk);
                    empty
                };
                drop(words);
                self.give_back(empty);
            }
        }
        Ok(())
    }

    /// Says whether anybody is in the waiting room.
    pub(super) fn set_crowded(&self, crowded: bool) {
        // Relaxed: a hint.
        if crowded {
            self.common.special.fetch_or(CROWDED, Ordering::Relaxed);
        } else {
            self.common.special.fetch_and(!CROWDED, Ordering::Relaxed);
        }
    }

    /// Whether somebody said so.
    #[inline(always)]
    pub(super) fn is_crowded(&self) -> bool {
        self.common.special.load(Ordering::Relaxed) & CROWDED != 0
    }

    /// Keeps newcomers from overtaking who waits for this: until [`Table::open`] they are told that it is closed.
    pub(super) fn close(&self, request: &Request<'_, K>) {
        self.change_closed(request, 1);
    }

    /// The opposite of [`Table::close`].
    pub(super) fn open(&self, request: &Request<'_, K>) {
        self.change_closed(request, -1);
    }

    fn change_closed(&self, request: &Request<'_, K>, by: i32) {
        let words = self.words(self.reach(request));
        if matches!(words.reach, Reach::All) {
            self.common.special.fetch_add(WIDE_OVERDUE.wrapping_mul(by as u32), Ordering::Relaxed);
            return;
        }
        for shard in self.reached(&words.reach) {
            // SAFETY: locked.
            unsafe { shard.inner() }.change_closed(by);
        }
    }

    /// Whether something that `request` has to wait for is held by who makes the other one.
    pub(super) fn waits_for(&self, request: &Request<'_, K>, other: &Request<'_, K>) -> bool {
        self.blockers(request, |slot, state| {
            let its = other.holder.is_known() && slot::holder(state) == other.holder;
            // SAFETY: the words of what is in the way are held, and `other` holds what it calls its own.
            match its || unsafe { other.owns(slot) } {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
        .is_break()
    }

    /// Shows what is in the way of a request, until `show` breaks.
    pub(super) fn blockers<B>(
        &self,
        request: &Request<'_, K>,
        mut show: impl FnMut(&Slot<K>, u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let words = self.words(self.reach(request));
        let mut visit = |slot: &Slot<K>, state: u64| {
            // SAFETY: all words that the request concerns are held.
            if request.wants().any(|want| unsafe { want.is_blocked_by(slot, state) }) {
                show(slot, state)?;
            }
            ControlFlow::Continue(())
        };
        for shard in self.reached(&words.reach) {
            // SAFETY: locked.
            unsafe { shard.each(&mut visit) }?;
        }
        // SAFETY: a word is held (Invariant 2).
        each_of(unsafe { self.wide() }, visit)
    }
}

/// There is no slot left in this shard, or for wide ranges.
struct NoRoom {
    shard: Option<u16>,
}

/// Whether a slot that was in the way is not any more; to spin on. Slots on the heap may be gone, so nobody asks about them.
impl<K, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// The slot, if it is part of the lock itself, so that it can be looked at without any word.
    pub(super) fn lasting(&self, slot: *const Slot<K>) -> Option<&Slot<K>> {
        let address = slot.addr();
        let begin = ptr::from_ref(&self.shards).addr();
        let inside = (begin..begin + size_of_val(&self.shards)).contains(&address);
        // SAFETY: it points into the lock, which is borrowed; only its state is looked at by who holds no word.
        inside.then(|| unsafe { &*slot })
    }
}

/// Whether a slot is free.
pub(super) fn is_free<K>(slot: &Slot<K>) -> bool {
    slot.state() == FREE
}

// SAFETY: entries are shared under words only, and by who holds them (slot.rs, Invariants 1 and 4); they are made and
// dropped by whatever thread.
unsafe impl<K: Send + Sync, const SHARDS: usize, const SLOTS: usize> Sync for Table<K, SHARDS, SLOTS> {}
// SAFETY: as above; pointers to slots are made by the table alone, and none exists while it is moved.
unsafe impl<K: Send, const SHARDS: usize, const SLOTS: usize> Send for Table<K, SHARDS, SLOTS> {}
