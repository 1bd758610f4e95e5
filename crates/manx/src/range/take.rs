//! Looking for what is in the way of ranges, and taking them.
//!
//! | the ranges | the way |
//! | --- | --- |
//! | one within a block | `take_narrow`: one word, the outlines beside it, one slot |
//! | any other, several, or a starving waiter is near | `take`: the words of all shards that they concern, and each held range there |

use super::chain::Chain;
use super::holder::Holder;
use super::key::Key;
use super::outline::Outline;
use super::raw::Access;
use super::reach::{Reach, shard_of};
use super::request::{Request, Want};
use super::scales::{self, InUse};
use super::shard::{Chunk, Locked, Shard, Spill, Vacant, each_of};
use super::slot::{self, AWAITED, Entry, HEAD, Held, Slot};
use super::span::Span;
use super::table::{Table, WIDE, WIDE_STARVING};
use super::words::Words;
use platform::atomic::Ordering;
use platform::clock;
use std::ops::ControlFlow;
use std::ptr;

/// Why ranges were not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// Something that is held was in the way.
    Blocked,
    /// A starving waiter may want some of it.
    Closed,
    /// The lock holds as many ranges as it may.
    Full,
}

/// A range that was not taken as one within a block.
pub(super) struct Missed<K> {
    pub(super) span: Span<K>,
    /// A held range was in its way. Otherwise the reason is not known.
    pub(super) blocked: bool,
}

/// How ranges are looked for and taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Ranges are taken even if a starving waiter may want some of them.
    pub(super) closed: bool,
    /// Every slot in the way is marked as awaited.
    pub(super) waiting: bool,
    /// What is taken is awaited already.
    pub(super) awaited: bool,
}

/// There is no slot left in this shard, or for wide ranges.
struct NoRoom {
    shard: Option<u16>,
}

impl<K, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// Shows each held range: its slot and the state of that, all of the same moment. Nothing is
    /// taken or released by `show`.
    pub(super) fn each_held(&self, mut show: impl FnMut(&Entry<K>, u64)) {
        let _ = self.words(Reach::All).each(|slot, state| {
            if state & HEAD != 0 {
                // SAFETY: all words are held.
                show(unsafe { slot.entry() }, state);
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// Takes one range, if it is within one block, and nothing is out of the ordinary.
    #[inline(always)]
    pub(super) fn take_narrow(
        &self,
        span: Span<K>,
        access: Access,
        holder: Holder,
    ) -> Result<Held<K>, Missed<K>> {
        let used = self.scale();
        let (first, last) = scales::ends(&span, used);
        let (block_log2, coarse_log2) = self.grid(used);
        let block = first >> block_log2;
        if last >> block_log2 != block {
            return Err(Missed { span, blocked: false });
        }
        let shard = &self.shards[shard_of::<SHARDS>(block)];
        let outline = Outline::within(first, last, coarse_log2);
        let preferred = holder.to_bits() as usize;
        let state = slot::taken(access, holder) | HEAD;
        // What is below is not one function, so that the common case needs no registers for the
        // others.
        if !shard.try_lock() {
            return self.take_contended(used, shard, span, outline, state);
        }
        if !self.is_in_use(used) {
            // SAFETY: just locked.
            unsafe { shard.unlock() };
            return Err(Missed { span, blocked: false });
        }
        // SAFETY: just locked. Acquire pairs with the release of the thread that took `WIDE` away.
        let slot = unsafe {
            if self.common.special.load(Ordering::Acquire) != 0 {
                return self.take_beside(used, shard, span, outline, state);
            }
            match shard.only(outline, preferred) {
                Some(slot) => slot,
                None => return self.take_beside(used, shard, span, outline, state),
            }
        };
        // SAFETY: locked above, and the slot is free.
        Ok(unsafe { Self::fill(used, shard, slot, span, state) })
    }

    /// The same, once the word is free.
    #[cold]
    #[inline(never)]
    fn take_contended(
        &self,
        used: Option<&InUse>,
        shard: &Shard<K, SLOTS>,
        span: Span<K>,
        outline: Outline,
        state: u64,
    ) -> Result<Held<K>, Missed<K>> {
        shard.lock_contended();
        // SAFETY: just locked.
        unsafe {
            if !self.is_in_use(used) {
                shard.unlock();
                return Err(Missed { span, blocked: false });
            }
            self.take_beside(used, shard, span, outline, state)
        }
    }

    /// The same where others hold something in the shard, or did.
    ///
    /// # Safety
    /// The caller holds the word, which is unlocked here.
    #[inline(never)]
    unsafe fn take_beside(
        &self,
        used: Option<&InUse>,
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
                    Ok(Self::fill(used, shard, slot, span, state))
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
    unsafe fn fill(
        used: Option<&InUse>,
        shard: &Shard<K, SLOTS>,
        slot: &Slot<K>,
        span: Span<K>,
        state: u64,
    ) -> Held<K> {
        // SAFETY: the caller's promise.
        let (old, number) = unsafe {
            let number = shard.inner().acquired;
            shard.inner().acquired = number + 1;
            let old = slot.take(Entry { next: ptr::null(), span }, state);
            shard.unlock();
            (old, number)
        };
        // Whatever a key does when it is dropped, no word is held.
        drop(old);
        scales::learn_from(used, Held(slot), number);
        Held(slot)
    }

    /// Takes all ranges of a request, or none.
    pub(super) fn take(&self, request: &Request<'_, K>, how: How) -> Result<Held<K>, Refused> {
        let mut makes_room = false;
        loop {
            let words = self.words_for(request);
            self.look(&words, request, how, !makes_room)?;
            match self.insert(&words, request, how) {
                Ok((held, number)) => {
                    let used = words.used;
                    drop(words);
                    scales::learn_from(used, held, number);
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

    /// Takes all ranges of a request, or none, for a waiter that tries again and again. It compares
    /// outlines for a single range within a block, so that the others' slots stay in their caches,
    /// and so that the range gets an outline of its own.
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

    /// Returns whether nothing is in the way; starving waiters do not count. Every slot that is in
    /// the way is marked as awaited.
    pub(super) fn is_free_or_awaited(&self, request: &Request<'_, K>) -> bool {
        let words = self.words_for(request);
        let how = How { closed: true, waiting: true, awaited: false };
        self.look(&words, request, how, true).is_ok()
    }

    /// Looks for what is in the way. `tidies`: and gives slots back to the heap that are not needed
    /// any more.
    fn look(
        &self,
        words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
        tidies: bool,
    ) -> Result<(), Refused> {
        // Acquire pairs with the release of the thread that took `WIDE` away.
        let special = self.common.special.load(Ordering::Acquire);
        let mut closed = special >= WIDE_STARVING;
        let mut blocked = false;
        let mut visit = |slot: &Slot<K>, state: u64| {
            // SAFETY: all words that the request concerns are held (table.rs, Invariant 1).
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
            // SAFETY: a word is held (table.rs, Invariant 2).
            let ended = each_of(unsafe { self.wide() }, |slot, state| {
                any = true;
                visit(slot, state)
            });
            if !any && ended.is_continue() {
                // table.rs, Invariant 3.
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

    /// Takes the ranges, under these words. Nothing is in the way. Returns the number of the last
    /// one in its shard as well.
    fn insert(
        &self,
        words: &Words<'_, K, SHARDS, SLOTS>,
        request: &Request<'_, K>,
        how: How,
    ) -> Result<(Held<K>, u64), NoRoom> {
        let mut state = slot::taken(request.access, request.holder);
        if how.awaited {
            state |= AWAITED;
        }
        if self.common.options.recorded {
            state |= slot::since(clock::now_ns());
        }
        let mut chain = Chain::new(state);
        for want in request.wants() {
            let reach = self.reach_of(want.span, words.used);
            if matches!(reach, Reach::All) {
                // SAFETY: all words are held (table.rs, Invariant 2).
                let slot = unsafe { self.wide() }.vacant().ok_or(NoRoom { shard: None })?;
                self.common.special.fetch_or(WIDE, Ordering::Relaxed);
                // SAFETY: as above; the slot is free.
                unsafe { chain.push(slot, &want, HEAD) };
                continue;
            }
            let mut head = HEAD;
            for index in reach.few() {
                let shard = &self.shards[usize::from(*index)];
                // SAFETY: its word is held (table.rs, Invariant 1).
                let slot = unsafe { shard.vacant() }.ok_or(NoRoom { shard: Some(*index) })?;
                // SAFETY: as above; the slot is free.
                unsafe { chain.push(slot, &want, head) };
                head = 0;
            }
        }
        let mut number = 0;
        for span in request.spans {
            let first = self.reach_of(span, words.used).few().first().copied().unwrap_or(0);
            // SAFETY: its word is held, as all are that the request concerns.
            let inner = unsafe { self.shards[usize::from(first)].inner() };
            number = inner.acquired;
            inner.acquired += 1;
        }
        Ok((chain.finish(), number))
    }

    /// Adds slots to a shard, or to the list of wide ranges. `tidies`: free chunks of that list may
    /// go, but for one.
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
                // SAFETY: all words are held (table.rs, Invariant 2). One chunk stays, for threads
                // that take wide ranges now and then.
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

    /// Keeps newcomers from overtaking the waiter for this request: until [`Table::open`] they get
    /// [`Refused::Closed`].
    pub(super) fn close(&self, request: &Request<'_, K>) {
        self.change_closed(request, 1);
    }

    /// The opposite of [`Table::close`].
    pub(super) fn open(&self, request: &Request<'_, K>) {
        self.change_closed(request, -1);
    }

    fn change_closed(&self, request: &Request<'_, K>, by: i32) {
        let words = self.words_for(request);
        if matches!(words.reach, Reach::All) {
            self.common.special.fetch_add(WIDE_STARVING.wrapping_mul(by as u32), Ordering::Relaxed);
            return;
        }
        for shard in self.reached(&words.reach) {
            // SAFETY: locked.
            unsafe { shard.inner() }.change_closed(by);
        }
    }

    /// Returns whether the maker of `other` holds something that `request` has to wait for.
    pub(super) fn waits_for(&self, request: &Request<'_, K>, other: &Request<'_, K>) -> bool {
        self.blockers(request, |slot, state| {
            // SAFETY: the words of what is in the way are held, and `other` holds what it calls its
            // own.
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
        self.words_for(request).each(|slot, state| {
            // SAFETY: all words that the request concerns are held.
            if request.wants().any(|want| unsafe { want.is_blocked_by(slot, state) }) {
                show(slot, state)?;
            }
            ControlFlow::Continue(())
        })
    }
}
