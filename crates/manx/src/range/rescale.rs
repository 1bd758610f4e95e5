//! The scale that a lock of strings uses, and the moment at which the lock replaces it.
//!
//! A taker reads the scale before it locks a word, and an old scale would lead it to a wrong place.
//! So no scale ever changes: a new scale replaces it, and the address of a scale is its version.
//!
//! ```text
//!   taker                                          switching thread
//!   read the scale, find the shard by it           lock all words, one after the other,
//!   lock the word of the shard                       each shard empty and open, or else stop
//!   the same scale still? ── no ──► again          store the new scale
//!   look, take, unlock                             unlock all words
//! ```
//!
//! Invariants:
//! 1. The scale changes only under all words, and only when nothing is held and no shard is closed.
//!    So each range that is held, and each shard that a waiter closed, is where the scale in use
//!    puts it.
//! 2. A thread uses the place that it found by a scale only under a word, after a look there that
//!    the scale is still in use. The scale stays in use as long as the thread holds that word.
//! 3. A scale lives as long as its lock. Each one leads to the one before it, and there are at most
//!    [`SCALES_MAX`].
//! 4. Waiters keep no place: a node has keys and addresses of slots. So waiters need not know of a
//!    new scale.
//!
//! A lock that is never empty keeps its scale, and is only looked at more and more seldom. It can
//! be given a sample when it is made ([`RangeLock::with_sample`]).
//!
//! # Memory orderings
//! The address is stored with release and read with acquire, for what it leads to. The second look
//! is ordered by the word: either its holder locked it before the switching thread did, then it
//! sees the old address, or after, then it sees the new one.

use super::key::Key;
use super::learn::{self, SAMPLES, Sample};
use super::lock::RangeLock;
use super::options::Options;
use super::scale::Scale;
use super::slot::{FREE, Held};
use super::span::Span;
use super::table::{Table, WIDE_STARVING};
use super::word::Word;
use platform::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The most scales that a lock may ever have.
const SCALES_MAX: u32 = 32;
/// At first one range in this number and one more is a sample. All these numbers are a power of
/// two, less one, so they serve as masks.
const RARE: u32 = platform::spin_bound(3);
/// The largest masks: in general, and while a better scale is known.
const RAREST: u32 = platform::spin_bound((1 << 16) - 1);
const RAREST_DUE: u32 = platform::spin_bound((1 << 10) - 1);
/// The number of failed tries to use a better scale after which tries become rarer.
const TRIES: u32 = 8;
/// The mask of a lock that takes no more samples.
const NEVER: u32 = u32::MAX;

/// A scale, and what is learnt while it is in use.
#[derive(Debug)]
pub(super) struct InUse {
    pub(super) scale: Scale,
    /// A range is a sample if none of these bits is in its number.
    rarity: AtomicU32,
    /// There is a better scale, and a thread should try to use it.
    due: AtomicBool,
    number: u32,
    before: *mut InUse,
    word: Word,
    /// Belongs to the holder of the word.
    learnt: UnsafeCell<Learnt>,
}

#[derive(Debug)]
struct Learnt {
    samples: Vec<Sample>,
    better: Option<Box<InUse>>,
    /// The number of failed tries to use the better scale.
    tries: u32,
}

impl InUse {
    fn new(scale: Scale, number: u32) -> Box<InUse> {
        Box::new(InUse {
            scale,
            rarity: AtomicU32::new(if number < SCALES_MAX { RARE } else { NEVER }),
            due: AtomicBool::new(false),
            number,
            before: ptr::null_mut(),
            word: Word::new(),
            learnt: UnsafeCell::new(Learnt { samples: Vec::new(), better: None, tries: 0 }),
        })
    }

    /// Works on what is learnt, if no other thread does.
    fn learn<T>(&self, work: impl FnOnce(&mut Learnt) -> T) -> Option<T> {
        struct Unlock<'a>(&'a Word);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                // SAFETY: locked below.
                unsafe { self.0.unlock() };
            }
        }
        let unlock = self.word.try_lock().then(|| Unlock(&self.word))?;
        // SAFETY: the word is held.
        let result = self.learnt.with_mut(|learnt| work(unsafe { &mut *learnt }));
        drop(unlock);
        Some(result)
    }

    /// Whether the range with this running number is one of the few that the scale learns from.
    #[inline(always)]
    fn is_sample(&self, number: u64) -> bool {
        // Relaxed, here and below: a hint.
        number as u32 & self.rarity.load(Ordering::Relaxed) == 0
    }

    /// Makes samples rarer, but no rarer than this mask says.
    fn relax(&self, rarest: u32) {
        let rarity = self.rarity.load(Ordering::Relaxed);
        if rarity < rarest {
            self.rarity.store(rarity << 1 | 1, Ordering::Relaxed);
        }
    }

    /// One more sample.
    fn add(&self, sample: Sample) {
        self.learn(|learnt| {
            if learnt.better.is_some() {
                learnt.tries += 1;
                if learnt.tries.is_multiple_of(TRIES) {
                    self.relax(RAREST_DUE);
                }
                self.due.store(true, Ordering::Relaxed);
                return;
            }
            learnt.samples.push(sample);
            if learnt.samples.len() < SAMPLES {
                return;
            }
            let samples = std::mem::take(&mut learnt.samples);
            match learn::better(&samples, &self.scale) {
                Some(scale) => {
                    learnt.better = Some(InUse::new(scale, self.number + 1));
                    self.due.store(true, Ordering::Relaxed);
                }
                None => self.relax(RAREST),
            }
        });
    }
}

/// The scale in use; null: none yet.
#[derive(Debug)]
pub(super) struct Scales(AtomicPtr<InUse>);

impl Scales {
    platform::const_fn! {
        pub(super) const fn new() -> Scales {
            Scales(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// How many times a scale was replaced.
    pub(super) fn replaced(&self) -> u64 {
        // SAFETY: Invariant 3; acquire for what it leads to.
        let used = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        used.map_or(0, |used| u64::from(used.number - 1))
    }

    /// Whether this one is in use. The caller holds a word.
    #[inline(always)]
    fn is(&self, used: Option<&InUse>) -> bool {
        // Relaxed: ordered by the word.
        ptr::eq(self.0.load(Ordering::Relaxed), used.map_or(ptr::null(), ptr::from_ref))
    }

    /// The first one, unless another thread has just made it.
    #[cold]
    fn begin(&self, options: &Options) -> *const InUse {
        let new = Box::into_raw(InUse::new(Scale::first_bytes(options.block_log2), 1));
        match self.0.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(used) => {
                // SAFETY: made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                used
            }
        }
    }
}

impl Drop for Scales {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        // Relaxed: no other thread has the lock.
        let mut next = self.0.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: made from a box by `begin` or `rescale`, and led to by one place only
            // (Invariant 3).
            next = unsafe { Box::from_raw(next) }.before;
        }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// The scale in use; none if keys tell their positions themselves.
    #[inline(always)]
    pub(super) fn scale(&self) -> Option<&InUse> {
        if !K::BYTES {
            return None;
        }
        let mut used = self.common.scales.0.load(Ordering::Acquire).cast_const();
        if used.is_null() {
            if self.common.options.block_size_is_set {
                return None;
            }
            used = self.common.scales.begin(&self.common.options);
        }
        // SAFETY: Invariant 3.
        let used = unsafe { &*used };
        if used.due.load(Ordering::Relaxed) { Some(self.switch(used)) } else { Some(used) }
    }

    /// Whether a place that was found by this scale counts. The caller holds a word (Invariant 2).
    #[inline(always)]
    pub(super) fn is_in_use(&self, used: Option<&InUse>) -> bool {
        !K::BYTES || self.common.scales.is(used)
    }

    /// The positions of a range's ends by a scale, or its own.
    #[inline(always)]
    pub(super) fn ends(span: &Span<K>, used: Option<&InUse>) -> (u64, u64) {
        match used {
            Some(InUse { scale, .. }) => match (span.start(), span.end()) {
                (Some(start), Some(end)) => scale.ends(start.bytes(), end.bytes()),
                (start, end) => (
                    start.map_or(0, |start| scale.position(start.bytes())),
                    end.map_or(scale.mask(), |end| scale.last_before(end.bytes())),
                ),
            },
            None => (span.first(), span.last()),
        }
    }

    /// The bits that positions may have.
    pub(super) fn mask(used: Option<&InUse>) -> u64 {
        used.map_or(u64::MAX, |used| used.scale.mask())
    }

    /// The size of a block in positions, and what outlines leave out of it, both as logarithms.
    #[inline(always)]
    pub(super) fn grid(&self, used: Option<&InUse>) -> (u32, u32) {
        match used {
            Some(InUse { scale, .. }) => (scale.block_log2, scale.coarse_log2),
            None => (self.common.options.block_log2, self.common.coarse_log2),
        }
    }

    /// Looks at a range that was taken by this scale, if its number says so. The caller holds the
    /// range and no word.
    #[inline(always)]
    pub(super) fn learn_from(used: Option<&InUse>, held: Held<K>, number: u64) {
        if let Some(used) = used
            && used.is_sample(number)
        {
            // SAFETY: the caller holds the range.
            Self::add(used, unsafe { held.span() });
        }
    }

    #[cold]
    #[inline(never)]
    fn add(used: &InUse, span: &Span<K>) {
        // A key that panics here must not leave a held range behind without a holder.
        if let Ok(sample) = catch_unwind(AssertUnwindSafe(|| Sample::new(span))) {
            used.add(sample);
        }
    }

    /// Uses the better scale, if nothing is held; returns what is in use.
    #[cold]
    #[inline(never)]
    fn switch<'s>(&'s self, used: &'s InUse) -> &'s InUse {
        used.due.store(false, Ordering::Relaxed);
        let Some(Some(better)) = used.learn(|learnt| learnt.better.take()) else { return used };
        match self.rescale(used, better) {
            Ok(used) => used,
            Err(better) => {
                // If another thread works there at this moment, it goes on learning, and the better
                // scale is dropped.
                used.learn(|learnt| learnt.better = Some(better));
                used
            }
        }
    }

    /// Puts a scale in the place of another one, if nothing is held.
    fn rescale<'s>(&'s self, used: &'s InUse, mut better: Box<InUse>) -> Result<&'s InUse, Box<InUse>> {
        let mut locked = 0;
        let is_empty = self.shards.iter().all(|shard| {
            shard.lock();
            locked += 1;
            // SAFETY: just locked.
            unsafe { shard.is_empty() }
        });
        // SAFETY: all words are held if it is looked at (table.rs, Invariant 2).
        let is_empty = is_empty
            && self.common.special.load(Ordering::Relaxed) < WIDE_STARVING
            && unsafe { self.wide() }.slots().all(|slot| slot.state() == FREE)
            && self.common.scales.is(Some(used));
        let result = if is_empty {
            better.before = ptr::from_ref(used).cast_mut();
            let better = Box::into_raw(better);
            self.common.scales.0.store(better, Ordering::Release);
            // SAFETY: Invariant 3.
            Ok(unsafe { &*better })
        } else {
            Err(better)
        };
        for shard in &self.shards[..locked] {
            // SAFETY: locked above.
            unsafe { shard.unlock() };
        }
        result
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A lock of strings that knows how its keys look: it is made for ranges like these. Without a
    /// sample it learns that from the first few hundred ranges that are locked, as soon as nothing
    /// is held for a moment. The best sample is some dozens of ranges, drawn at random from the
    /// ranges that will be locked. Keys without [`Key::BYTES`] have no use for it.
    ///
    /// ```
    /// use manx::range::{Options, RangeLock, Span};
    ///
    /// let row = |number: u32| format!("customers/2026/row{number:08}");
    /// let sample: Vec<_> = (0..50).map(|at| Span::new(row(at * 1000), row(at * 1000 + 10)).unwrap()).collect();
    /// let rows: RangeLock<String> = RangeLock::with_sample(Options::new(), &sample);
    /// let held = rows.lock(row(17)..row(20))?;
    /// assert!(rows.try_lock(row(19)..row(21)).is_err());
    /// # drop(held);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn with_sample(options: Options, sample: &[Span<K>]) -> Self {
        let lock = RangeLock::with(options);
        let samples: Vec<Sample> = sample.iter().map(Sample::new).collect();
        if K::BYTES
            && let Some(scale) = learn::best(&samples)
        {
            // No other thread has the lock yet.
            lock.table.common.scales.0.store(Box::into_raw(InUse::new(scale, 1)), Ordering::Release);
        }
        lock
    }
}
