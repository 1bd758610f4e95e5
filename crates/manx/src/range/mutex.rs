//! A slice whose parts can be had separately: disjoint `&mut [T]` of one buffer, for as many
//! threads as there are parts.
//!
//! Invariant: an element is used by the holder of a range with its index, or by the holders that
//! share such a range, and by no other thread; or by the caller that has the whole value for
//! itself.

use super::error::{InvalidRange, LockError};
use super::guard::RangeGuard;
use super::lock::RangeLock;
use super::options::Options;
use super::raw::Access;
use super::span::Span;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};

/// A slice that is lent out in parts.
///
/// ```
/// use manx::range::RangeMutex;
///
/// let pixels = RangeMutex::new(vec![0_u8; 1000]);
/// std::thread::scope(|scope| {
///     for part in 0..10 {
///         let pixels = &pixels;
///         scope.spawn(move || pixels.lock(part * 100..(part + 1) * 100).unwrap().fill(part as u8));
///     }
/// });
/// assert_eq!(pixels.lock_shared(299..301)?[..], [2, 3]);
/// # Ok::<(), manx::range::LockError>(())
/// ```
pub struct RangeMutex<T> {
    elements: Box<[UnsafeCell<T>]>,
    lock: RangeLock<usize>,
}

// SAFETY: by the Invariant, elements are used by one thread at a time, or shared by several.
unsafe impl<T: Send + Sync> Sync for RangeMutex<T> {}

/// A part of a [`RangeMutex`], lent to one.
///
/// ```
/// use manx::range::{RangeMutex, SliceGuard};
///
/// let samples = RangeMutex::new(vec![0; 100]);
/// let mut part: SliceGuard<'_, u32> = samples.lock(10..20)?;
/// part.fill(7);
/// part[0] = 1;
/// assert_eq!(part.iter().sum::<u32>(), 64);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "elements are lent as long as the guard lives"]
pub struct SliceGuard<'a, T> {
    elements: *mut [T],
    _held: Option<RangeGuard<'a, usize>>,
}

/// A part of a [`RangeMutex`], lent to several.
///
/// ```
/// use manx::range::{RangeMutex, SharedSliceGuard};
///
/// let samples = RangeMutex::new(vec![1; 100]);
/// let one: SharedSliceGuard<'_, u32> = samples.lock_shared(0..60)?;
/// let other = samples.lock_shared(40..100)?;
/// assert_eq!(one.len() + other.len(), 120);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "elements are lent as long as the guard lives"]
pub struct SharedSliceGuard<'a, T> {
    elements: *const [T],
    _held: Option<RangeGuard<'a, usize>>,
}

// SAFETY: it is a `&mut [T]`, and a guard that can be sent.
unsafe impl<T: Send> Send for SliceGuard<'_, T> {}
// SAFETY: shared, it is a `&[T]`.
unsafe impl<T: Sync> Sync for SliceGuard<'_, T> {}
// SAFETY: it is a `&[T]`, and a guard that can be sent.
unsafe impl<T: Sync> Send for SharedSliceGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedSliceGuard<'_, T> {}

/// The usual number of parts of a slice. The elements of one part are looked after together.
const PARTS: usize = 16;

impl<T> RangeMutex<T> {
    /// Lends out the elements of `elements`.
    pub fn new(elements: impl Into<Box<[T]>>) -> RangeMutex<T> {
        let elements = elements.into();
        let block_log2 = (elements.len() / PARTS).max(1).ilog2();
        RangeMutex::with(elements, Options::new().block_log2(block_log2))
    }

    /// As [`RangeMutex::new`], with a lock of these options. The size of blocks is in elements;
    /// blocks somewhat larger than the usual part are best.
    ///
    /// ```
    /// use manx::range::{Options, RangeMutex};
    ///
    /// // Parts of about 200 elements.
    /// let samples = RangeMutex::with(vec![0_u32; 100_000], Options::new().block_log2(8));
    /// samples.lock(400..600)?.fill(1);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn with(elements: impl Into<Box<[T]>>, options: Options) -> RangeMutex<T> {
        let elements = Box::into_raw(elements.into()) as *mut [UnsafeCell<T>];
        // SAFETY: a cell is laid out as what is in it, and the box was just given up.
        let elements = unsafe { Box::from_raw(elements) };
        RangeMutex { elements, lock: RangeLock::with(options) }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Lends the range. Waits until no other holder has an element of it. A range without elements
    /// is lent at once.
    ///
    /// # Errors
    /// [`InvalidRange::Outside`] and [`InvalidRange::Inverted`], and as [`RangeLock::lock`].
    pub fn lock(&self, range: impl RangeBounds<usize>) -> Result<SliceGuard<'_, T>, LockError> {
        self.exclusive(&range, |span| self.lock.lock_as(span, Access::Exclusive))
    }

    /// Takes the range if that needs no waiting.
    ///
    /// ```
    /// use manx::range::RangeMutex;
    ///
    /// let letters = RangeMutex::new(*b"abcdef");
    /// let low = letters.lock(..3)?;
    /// assert!(letters.try_lock(2..4).is_err());
    /// assert_eq!(letters.try_lock(3..)?[..], *b"def");
    /// # drop(low);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::WouldBlock`], and as [`RangeMutex::lock`].
    pub fn try_lock(&self, range: impl RangeBounds<usize>) -> Result<SliceGuard<'_, T>, LockError> {
        self.exclusive(&range, |span| self.lock.try_lock_as(span, Access::Exclusive))
    }

    /// Lends the range to share. Waits until no holder has an element of it for itself.
    ///
    /// # Errors
    /// As [`RangeMutex::lock`].
    pub fn lock_shared(&self, range: impl RangeBounds<usize>) -> Result<SharedSliceGuard<'_, T>, LockError> {
        self.shared(&range, |span| self.lock.lock_as(span, Access::Shared))
    }

    /// Takes the range together with other holders that share it, if that needs no waiting.
    ///
    /// # Errors
    /// As [`RangeMutex::try_lock`].
    pub fn try_lock_shared(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<SharedSliceGuard<'_, T>, LockError> {
        self.shared(&range, |span| self.lock.try_lock_as(span, Access::Shared))
    }

    /// Returns all elements. The slice is the caller's alone.
    pub fn get_mut(&mut self) -> &mut [T] {
        let all = self.part(0, self.len());
        // SAFETY: the value is borrowed for this alone (the Invariant's second case).
        unsafe { &mut *all }
    }

    /// Returns the elements.
    ///
    /// ```
    /// use manx::range::RangeMutex;
    ///
    /// let letters = RangeMutex::new(*b"abc");
    /// letters.lock(1..)?.make_ascii_uppercase();
    /// assert_eq!(letters.into_inner()[..], *b"aBC");
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn into_inner(self) -> Box<[T]> {
        let elements = Box::into_raw(self.elements) as *mut [T];
        // SAFETY: a cell is laid out as what is in it, and the box was just given up.
        unsafe { Box::from_raw(elements) }
    }

    fn exclusive<'a>(
        &'a self,
        range: &impl RangeBounds<usize>,
        lock: impl FnOnce(Span<usize>) -> Result<RangeGuard<'a, usize>, LockError>,
    ) -> Result<SliceGuard<'a, T>, LockError> {
        let (start, end) = self.bounds(range)?;
        let held = if start == end { None } else { Some(lock(Span::new(start, end)?)?) };
        Ok(SliceGuard { elements: self.part(start, end), _held: held })
    }

    fn shared<'a>(
        &'a self,
        range: &impl RangeBounds<usize>,
        lock: impl FnOnce(Span<usize>) -> Result<RangeGuard<'a, usize>, LockError>,
    ) -> Result<SharedSliceGuard<'a, T>, LockError> {
        let guard = self.exclusive(range, lock)?;
        Ok(SharedSliceGuard { elements: guard.elements, _held: guard._held })
    }

    /// The first index and the one after the last.
    fn bounds(&self, range: &impl RangeBounds<usize>) -> Result<(usize, usize), InvalidRange> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.checked_add(1).ok_or(InvalidRange::Outside)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1).ok_or(InvalidRange::Outside)?,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len(),
        };
        if start > end {
            Err(InvalidRange::Inverted)
        } else if end > self.len() {
            Err(InvalidRange::Outside)
        } else {
            Ok((start, end))
        }
    }

    /// Some elements, by their address. `start` ≤ `end` ≤ the length.
    fn part(&self, start: usize, end: usize) -> *mut [T] {
        let cells = &self.elements[start..end];
        std::ptr::slice_from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len())
    }
}

impl<T> Deref for SliceGuard<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the Invariant: the range is held exclusively as long as the guard lives.
        unsafe { &*self.elements }
    }
}

impl<T> DerefMut for SliceGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { &mut *self.elements }
    }
}

impl<T> Deref for SharedSliceGuard<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the Invariant: the range is shared as long as the guard lives.
        unsafe { &*self.elements }
    }
}

impl<T: fmt::Debug> fmt::Debug for SliceGuard<'_, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedSliceGuard<'_, T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}

impl<T> fmt::Debug for RangeMutex<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RangeMutex").field("len", &self.len()).finish_non_exhaustive()
    }
}
