//! What is held: shards of the key space, and a list of ranges too wide for shards.
//!
//! Two cores cannot take turns with one cache line more than some ten million times a second, whatever is done with it.
//! So the key space is cut into blocks, and each shard looks after every so many-th of them. A range that lies within one block,
//! as nearly all do, concerns one shard. One over a few blocks (`reach.rs`) takes a slot in each of their shards. A wider
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
//! # Memory orderings
//! Words order everything but one thing. `special` is read under a word, and changed under all, or under any for what Invariant 3
//! allows: who takes `WIDE` away releases what it acquired from the wide slots that it found free, and who reads `special`
//! acquires that.

use super::chain::Chain;
use super::holder::Holder;
use super::key::Key;
use super::options::Options;
use super::outline::Outline;
use super::raw::Access;
use super::reach::{Reach, shard_of};
use super::request::{Request, Want};
use super::shard::{CHUNK, Chunk, Locked, Shard, Spill, Vacant, each_of};
use super::slot::{self, AWAITED, Entry, HEAD, Held, Slot};
use super::span::Span;
use platform::atomic::{AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use platform::clock;
use std::ops::ControlFlow;
use std::ptr;

/// `special`: there may be wide ranges.
const WIDE: u32 = 1;
/// `special`: it is recorded since when ranges are held.
const RECORDED: u32 = 2;
/// `special`: one overdue waiter for something wide.
const WIDE_OVERDUE: u32 = 4;

/// Why ranges were not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// Something that is held was in the way.
    Blocked,
    /// Somebody overdue may want some of it.
    Closed,
    /// The lock holds as many ranges as it may.
    Full,
}

/// A range that was not taken as one within a block.
pub(super) struct Missed<K> {
    pub(super) span: Span<K>,
    /// Something that is held was in its way. Otherwise nothing has been learnt.
    pub(super) blocked: bool,
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
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Common<K> {
    special: AtomicU32,
    /// Chunks on the heap.
    chunks: AtomicU32,
    coarse_log2: u32,
    options: Options,
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
        pub(super) const fn new(options: Options) -> Self {
            const { assert!(SHARDS.is_power_of_two() && SHARDS <= 1024, "shards are a power of two, up to 1024") };
            let common = Common {
                special: AtomicU32::new(if options.recorded { RECORDED } else { 0 }),
                chunks: AtomicU32::new(0),
                coarse_log2: Outline::coarse_log2(options.block_log2),
                options,
                wide: UnsafeCell::new(Spill::new()),
            };
            Table { common, shards: free_shards() }
        }
    }

    #[inline(always)]
    pub(super) const fn options(&self) -> &Options {
        &self.common.options
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
        let all: &[_] = if matches!(reach, Reach::All) { &self.shards } else { &[] };
        all.iter().chain(reach.few().iter().map(|index| &self.shards[usize::from(*index)]))
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

    /// Counts one more chunk, if the limit allows for it.
    fn allow_chunk(&self) -> bool {
        let max = self.common.options.spill_max / CHUNK as u32;
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

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// What the ranges of a request concern.
    fn reach(&self, request: &Request<'_, K>) -> Reach {
        let mut reach = Reach::NONE;
        for want in request.wants() {
            reach = reach.and(self.reach_of(&want));
        }
        reach
    }

    /// What one range concerns.
    fn reach_of(&self, want: &Want<'_, K>) -> Reach {
        Reach::of::<SHARDS>(want.first, want.last, self.common.options.block_log2)
    }

    /// Takes one range, if it is within one block, and nothing is out of the ordinary.
    #[inline(always)]
    pub(super) fn take_narrow(
        &self,
        span: Span<K>,
        access: Access,
        holder: Holder,
    ) -> Result<Held<K>, Missed<K>> {
        let (first, last) = (span.first(), span.last());
        let block_log2 = self.common.options.block_log2;
        let block = first >> block_log2;
        if last >> block_log2 != block {
            return Err(Missed { span, blocked: false });
        }
        let shard = &self.shards[shard_of::<SHARDS>(block)];
        let outline = Outline::within(first, last, self.common.coarse_log2);
        let preferred = holder.to_bits() as usize;
        let state = slot::taken(access, holder) | HEAD;
        // What is below is not one function, so that the common case needs no registers for the others.
        if !shard.try_lock() {
            return self.take_contended(shard, span, outline, state);
        }
        // SAFETY: just locked. Acquire pairs with the release of whoever took `WIDE` away.
        let slot = unsafe {
            if self.common.special.load(Ordering::Acquire) != 0 {
                return self.take_beside(shard, span, outline, state);
            }
            match shard.only(outline, preferred) {
                Some(slot) => slot,
                None => return self.take_beside(shard, span, outline, state),
            }
        };
        // SAFETY: locked above, and the slot is free.
        Ok(unsafe { self.fill(shard, slot, span, state) })
    }

    /// The same, once the word is free.
    #[cold]
    #[inline(never)]
    fn take_contended(
        &self,
        shard: &Shard<K, SLOTS>,
        span: Span<K>,
        outline: Outline,
        state: u64,
    ) -> Result<Held<K>, Missed<K>> {
        shard.lock_contended();
        // SAFETY: just locked.
        unsafe { self.take_beside(shard, span, outline, state) }
    }

    /// The same where others hold something in the shard, or did.
    ///
    /// # Safety
    /// The caller holds the word, which is unlocked here.
    #[inline(never)]
    unsafe fn take_beside(
        &self,
        shard: &Shard<K, SLOTS>,
        span: Span<K>,
        outline: Outline,
        state: u64,
    ) -> Result<Held<K>, Missed<K>> {
        // A comparison of keys may panic.
        // SAFETY: the caller's promise.
        let locked = unsafe { Locked::new(shard) };
        let want = Want::new(&span, slot::access(state), &[]);
        let preferred = slot::holder(state).to_bits() as usize;
        // SAFETY: the caller's promise; Acquire as in `take_narrow`.
        unsafe {
            let ordinary = self.common.special.load(Ordering::Acquire) == 0;
            let vacant = if ordinary { shard.vacant_for(&want, outline, preferred) } else { Vacant::Unknown };
            match vacant {
                Vacant::Slot(slot) => {
                    std::mem::forget(locked);
                    Ok(self.fill(shard, slot, span, state))
                }
                none => Err(Missed { span, blocked: matches!(none, Vacant::Blocked) }),
            }
        }
    }

    /// Takes a slot for a range within a block, and unlocks the word.
    ///
    /// # Safety
    /// The caller holds the word of the shard, and the slot is free.
    #[inline(always)]
    unsafe fn fill(&self, shard: &Shard<K, SLOTS>, slot: &Slot<K>, span: Span<K>, state: u64) -> Held<K> {
        // SAFETY: the caller's promise.
        let old = unsafe {
            shard.inner().acquired += 1;
            let old = slot.take(Entry { next: ptr::null(), span }, state);
            shard.unlock();
            old
        };
        // Whatever a key does when it is dropped, no word is held.
        drop(old);
        Held(slot)
    }

    /// Takes all ranges of a request, or none, as told.
    pub(super) fn take(&self, request: &Request<'_, K>, how: How) -> Result<Held<K>, Refused> {
        let reach = self.reach(request);
        let mut makes_room = false;
        loop {
            let words = self.words(reach);
            self.look(&words, request, how, !makes_room)?;
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

    /// Takes all ranges of a request, or none, for a waiter that looks again and again: one within a block by its outline, so
    /// that the others' slots stay in their caches, and so that its own outline is not that of a whole block.
    pub(super) fn take_again(&self, request: &Request<'_, K>) -> Result<Held<K>, Refused> {
        if let ([span], []) = (request.spans, request.own) {
            match self.take_narrow(span.clone(), request.access, request.holder) {
                Ok(held) => return Ok(held),
                Err(Missed { blocked: true, .. }) => return Err(Refused::Blocked),
                Err(_) => {}
            }
        }
        self.take(request, How::default())
    }

    /// Whether nothing is in the way, whoever may be overdue; every slot that is gets to know that somebody waits for it.
    pub(super) fn is_free_or_awaited(&self, request: &Request<'_, K>) -> bool {
        let words = self.words(self.reach(request));
        let how = How { closed: true, waiting: true, awaited: false };
        self.look(&words, request, how, true).is_ok()
    }

    /// Looks for what is in the way. `tidies`: and gives slots back to the heap that are not needed any more.
    fn look(
        &self,
        words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
        tidies: bool,
    ) -> Result<(), Refused> {
        // Acquire pairs with the release of whoever took `WIDE` away.
        let special = self.common.special.load(Ordering::Acquire);
        let mut closed = special >= WIDE_OVERDUE;
        let mut blocked = false;
        let mut visit = |slot: &Slot<K>, state: u64| {
            // SAFETY: all words that the request concerns are held (Invariant 1).
            if request.wants().any(|want| unsafe { want.is_blocked_by(slot, state) })
                // SAFETY: as above.
                && (!how.waiting || unsafe { slot.await_release() })
            {
                blocked = true;
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
            true => Err(Refused::Blocked),
            false if closed && !how.closed => Err(Refused::Closed),
            false => Ok(()),
        }
    }

    /// Takes the ranges, under these words. Nothing is in the way.
    fn insert(
        &self,
        _words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
    ) -> Result<Held<K>, NoRoom> {
        let mut state = slot::taken(request.access, request.holder);
        if how.awaited {
            state |= AWAITED;
        }
        if self.common.options.recorded {
            state |= slot::since(clock::now_ns());
        }
        let mut chain = Chain::new(state);
        for want in request.wants() {
            let reach = self.reach_of(&want);
            if matches!(reach, Reach::All) {
                // SAFETY: all words are held (Invariant 2).
                let slot = unsafe { self.wide() }.vacant().ok_or(NoRoom { shard: None })?;
                self.common.special.fetch_or(WIDE, Ordering::Relaxed);
                // SAFETY: as above; the slot is free.
                unsafe { chain.push(slot, &want, HEAD) };
                continue;
            }
            let mut head = HEAD;
            for index in reach.few() {
                let shard = &self.shards[usize::from(*index)];
                // SAFETY: its word is held (Invariant 1).
                let slot = unsafe { shard.vacant() }.ok_or(NoRoom { shard: Some(*index) })?;
                // SAFETY: as above; the slot is free.
                unsafe { chain.push(slot, &want, head) };
                head = 0;
            }
        }
        for want in request.wants() {
            let first = self.reach_of(&want).few().first().copied().unwrap_or(0);
            // SAFETY: its word is held, as all are that the request concerns.
            unsafe { self.shards[usize::from(first)].inner() }.acquired += 1;
        }
        Ok(chain.finish())
    }

    /// Adds slots to a shard, or to the wide ones. `tidies`: of the wide ones, those that are free may go, but for one chunk.
    #[cold]
    fn make_room(&self, shard: Option<u16>, tidies: bool) -> Result<(), Refused> {
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
            // SAFETY: the words of what is in the way are held, and `other` holds what it calls its own.
            match unsafe { other.holds(slot, state) } {
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

// SAFETY: entries are shared under words only, and by who holds them (slot.rs, Invariants 1 and 4); they are made and
// dropped by whatever thread.
unsafe impl<K: Send + Sync, const SHARDS: usize, const SLOTS: usize> Sync for Table<K, SHARDS, SLOTS> {}
// SAFETY: as above; pointers to slots are made by the table alone, and none exists while it is moved.
unsafe impl<K: Send, const SHARDS: usize, const SLOTS: usize> Send for Table<K, SHARDS, SLOTS> {}
