//! The scale that a lock of strings uses, and what is learnt while it is in use.
//!
//! A scale never changes. A better one replaces it (`rescale.rs`), so the address of a scale is its
//! version.
//!
//! Invariant 1: a scale lives as long as its lock. Each one leads to the one before it, and there
//! are at most [`SCALES_MAX`].
//!
//! Some ranges are samples. A thread that finds another one at work on the samples drops its own:
//! no thread waits here. A lock that is never empty keeps its scale, so it takes samples and tries
//! to replace the scale more and more seldom.
//!
//! # Memory orderings
//! The address is stored with release and read with acquire, for what it leads to.

use super::key::Key;
use super::learn::{self, SAMPLES, Sample};
use super::options::Options;
use super::scale::Scale;
use super::slot::Held;
use super::span::Span;
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

    /// Takes one more sample.
    #[cold]
    #[inline(never)]
    fn add<K: Key>(&self, span: &Span<K>) {
        // A key that panics here must not leave a held range behind without a holder.
        let Ok(sample) = catch_unwind(AssertUnwindSafe(|| Sample::new(span))) else { return };
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

    /// Whether a better scale is known, and a thread should try to use it.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Takes the better scale for a try to use it.
    pub(super) fn take_better(&self) -> Option<Box<InUse>> {
        self.due.store(false, Ordering::Relaxed);
        self.learn(|learnt| learnt.better.take()).flatten()
    }

    /// Keeps the better scale for a later try. If another thread works on the samples at this
    /// moment, the lock goes on learning, and the better scale is dropped.
    pub(super) fn keep_better(&self, better: Box<InUse>) {
        self.learn(|learnt| learnt.better = Some(better));
    }
}

/// The positions of a range's ends by a scale, or its own.
#[inline(always)]
pub(super) fn ends<K: Key>(span: &Span<K>, used: Option<&InUse>) -> (u64, u64) {
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

/// Looks at a range that was taken by this scale, if its number says so. The caller holds the range
/// and no word.
#[inline(always)]
pub(super) fn learn_from<K: Key>(used: Option<&InUse>, held: Held<K>, number: u64) {
    if let Some(used) = used
        && used.is_sample(number)
    {
        // SAFETY: the caller holds the range.
        used.add(unsafe { held.span() });
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
        // SAFETY: Invariant 1; acquire for what it leads to.
        let used = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        used.map_or(0, |used| u64::from(used.number - 1))
    }

    /// The scale in use. `None` if the user has set the size of a block: then nothing is learnt.
    #[inline(always)]
    pub(super) fn get(&self, options: &Options) -> Option<&InUse> {
        let mut used = self.0.load(Ordering::Acquire).cast_const();
        if used.is_null() {
            if options.block_size_is_set {
                return None;
            }
            used = self.begin(options);
        }
        // SAFETY: Invariant 1.
        Some(unsafe { &*used })
    }

    /// Whether this one is in use. The caller holds a word.
    #[inline(always)]
    pub(super) fn is(&self, used: Option<&InUse>) -> bool {
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

    /// Begins with the best scale for these ranges. No other thread has the lock yet.
    pub(super) fn begin_with<K: Key>(&self, sample: &[Span<K>]) {
        let samples: Vec<Sample> = sample.iter().map(Sample::new).collect();
        if let Some(scale) = learn::best(&samples) {
            self.0.store(Box::into_raw(InUse::new(scale, 1)), Ordering::Release);
        }
    }

    /// Puts a better scale in the place of the one in use. The caller holds all words.
    pub(super) fn replace(&self, used: &InUse, mut better: Box<InUse>) -> &InUse {
        better.before = ptr::from_ref(used).cast_mut();
        let better = Box::into_raw(better);
        self.0.store(better, Ordering::Release);
        // SAFETY: Invariant 1.
        unsafe { &*better }
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
            // SAFETY: made from a box by `begin`, `begin_with` or `replace`, and led to by one
            // place only (Invariant 1).
            next = unsafe { Box::from_raw(next) }.before;
        }
    }
}
