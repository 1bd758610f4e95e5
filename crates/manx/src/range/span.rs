//! A range of keys: half-open, never empty, and open at either end if the caller wants that.
//!
//! Each form of a range (`a..b`, `a..=b` of integers, `..`, two bounds) becomes a [`Span`] once
//! ([`IntoSpan`]). From then on there is one form: it begins with a first key, or at the beginning
//! of the key space; it ends before a key, or at the end of the key space. No key stands for an end
//! of the space, so every key can be locked.
//!
//! Invariant: a span that exists has `start` < `end` where it has both.

use super::error::InvalidRange;
use super::key::Key;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A half-open range of keys that is not empty.
///
/// ```
/// use manx::range::{InvalidRange, Span};
///
/// let span = Span::new(10, 20)?;
/// assert!(span.overlaps(&Span::new(19, 30)?));
/// assert!(!span.overlaps(&Span::new(20, 30)?));
/// assert!(span.overlaps(&Span::all()));
/// assert_eq!(Span::new(5, 5), Err(InvalidRange::Empty));
/// assert_eq!(Span::new(6, 5), Err(InvalidRange::Inverted));
/// # Ok::<(), InvalidRange>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Span<K> {
    /// The first key; `None`: from the beginning.
    start: Option<K>,
    /// The first key that does not belong to it; `None`: to the end.
    end: Option<K>,
}

impl<K> Span<K> {
    /// All keys.
    pub const fn all() -> Span<K> {
        Span { start: None, end: None }
    }

    /// The first key; `None` if the span is open at its beginning.
    pub const fn start(&self) -> Option<&K> {
        self.start.as_ref()
    }

    /// The first key after the span; `None` if it is open at its end.
    pub const fn end(&self) -> Option<&K> {
        self.end.as_ref()
    }
}

platform::os_only! {
    #[cfg(feature = "cluster")]
    impl<K: Key> Span<K> {
        /// The span with these ends. A missing end is open. If both are there, the first one is
        /// below the other.
        pub(super) fn of_ends(start: Option<K>, end: Option<K>) -> Span<K> {
            debug_assert!(before(start.as_ref(), end.as_ref()));
            Span { start, end }
        }
    }
}

impl<K: Key> Span<K> {
    /// From `start` up to, and without, `end`.
    ///
    /// ```
    /// use manx::range::{InvalidRange, Span};
    ///
    /// let span = Span::new(10, 20)?;
    /// assert_eq!((span.start(), span.end()), (Some(&10), Some(&20)));
    /// assert_eq!(Span::new(20, 10), Err(InvalidRange::Inverted));
    /// # Ok::<(), InvalidRange>(())
    /// ```
    ///
    /// # Errors
    /// The range is empty or inverted.
    #[inline]
    pub fn new(start: K, end: K) -> Result<Span<K>, InvalidRange> {
        match start.cmp(&end) {
            Ordering::Less => Ok(Span { start: Some(start), end: Some(end) }),
            Ordering::Equal => Err(InvalidRange::Empty),
            Ordering::Greater => Err(InvalidRange::Inverted),
        }
    }

    /// From `start` on.
    pub const fn from(start: K) -> Span<K> {
        Span { start: Some(start), end: None }
    }

    /// Returns the span up to, and without, `end`. A range up to the lowest key there is contains
    /// no key. It is accepted all the same, because this function cannot tell which key is the
    /// lowest.
    pub const fn to(end: K) -> Span<K> {
        Span { start: None, end: Some(end) }
    }

    /// Whether some key may be in both: exactly that where each has two ends. (A span up to the
    /// lowest key there is overlaps those with that key, although it has none.)
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(10, 20)?;
    /// assert!(span.overlaps(&Span::from(19)) && span.overlaps(&Span::all()));
    /// assert!(!span.overlaps(&Span::from(20)) && !span.overlaps(&Span::to(10)));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    #[inline]
    pub fn overlaps(&self, other: &Span<K>) -> bool {
        if K::EXACT {
            return self.first() <= other.last() && other.first() <= self.last();
        }
        before(self.start.as_ref(), other.end.as_ref()) && before(other.start.as_ref(), self.end.as_ref())
    }

    /// Whether every key of `other` is in this one.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(10, 20)?;
    /// assert!(span.covers(&Span::new(12, 20)?) && !span.covers(&Span::from(12)));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn covers(&self, other: &Span<K>) -> bool {
        self.start <= other.start && self.compare_ends(other).is_ge()
    }

    /// Whether the key is in the span, as [`Range::contains`].
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(10, 20)?;
    /// assert!(span.contains(&10) && !span.contains(&20));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn contains(&self, key: &K) -> bool {
        self.start.as_ref().is_none_or(|start| start <= key) && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Splits the span: the keys before `key`, and `key` with the keys behind it.
    ///
    /// # Errors
    /// One of the two would be empty: the key is not inside, or is the first one. The span is given
    /// back.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(10, 20)?;
    /// assert_eq!(span.clone().split_at(15), Ok((Span::new(10, 15)?, Span::new(15, 20)?)));
    /// assert_eq!(span.clone().split_at(10), Err(span));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn split_at(self, key: K) -> Result<(Span<K>, Span<K>), Span<K>> {
        let lowest = K::EXACT && key.position() == 0;
        let inside = !lowest
            && self.start.as_ref().is_none_or(|start| *start < key)
            && self.end.as_ref().is_none_or(|end| key < *end);
        if !inside {
            return Err(self);
        }
        Ok((Span { start: self.start, end: Some(key.clone()) }, Span { start: Some(key), end: self.end }))
    }

    /// What of this one is before `other`, and what is behind it.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let rest = Span::new(10, 20)?.without(&Span::new(12, 15)?);
    /// assert_eq!(rest, (Some(Span::new(10, 12)?), Some(Span::new(15, 20)?)));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn without(self, other: &Span<K>) -> (Option<Span<K>>, Option<Span<K>>) {
        if !self.overlaps(other) {
            return match before(self.start.as_ref(), other.start.as_ref()) && other.start.is_some() {
                true => (Some(self), None),
                false => (None, Some(self)),
            };
        }
        let low = match &other.start {
            Some(start) if self.contains(start) && self.start.as_ref() != Some(start) => {
                Some(Span { start: self.start.clone(), end: Some(start.clone()) })
            }
            _ => None,
        };
        let high = match &other.end {
            Some(end) if self.contains(end) => Some(Span { start: Some(end.clone()), end: self.end }),
            _ => None,
        };
        (low, high)
    }

    /// The smallest span that contains both.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// assert_eq!(Span::new(10, 20)?.hull(Span::from(30)), Span::from(10));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn hull(self, other: Span<K>) -> Span<K> {
        let end = if self.compare_ends(&other).is_ge() { self.end } else { other.end };
        Span { start: self.start.min(other.start), end }
    }

    /// By where it begins, then by where it ends.
    pub(super) fn compare(&self, other: &Span<K>) -> Ordering {
        // A start of `None` is the lowest.
        self.start.cmp(&other.start).then_with(|| self.compare_ends(other))
    }

    /// By where it ends; an end of `None` is the highest.
    fn compare_ends(&self, other: &Span<K>) -> Ordering {
        self.end.is_none().cmp(&other.end.is_none()).then_with(|| self.end.cmp(&other.end))
    }

    /// The position of the first key ([`Key::position`]).
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(3_u64, 7)?;
    /// assert_eq!((span.first(), span.last()), (3, 6));
    /// assert_eq!((Span::<u64>::all().first(), Span::<u64>::all().last()), (0, u64::MAX));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    // For the range locks of the packages `baselines` and `workload`, which know ranges by
    // positions.
    #[doc(hidden)]
    #[inline(always)]
    pub fn first(&self) -> u64 {
        match &self.start {
            Some(start) => start.position(),
            None => 0,
        }
    }

    /// A position that no key of the span is above, and the lowest such if positions are exact.
    /// [`Span::first`] has an example.
    // As `first`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn last(&self) -> u64 {
        match &self.end {
            // A span that ends at the lowest position there is, and begins nowhere, has no key.
            Some(end) if K::EXACT => end.position().saturating_sub(1),
            Some(end) => end.position(),
            None => u64::MAX,
        }
    }
}

/// Whether a start is before an end.
#[inline(always)]
fn before<K: Ord>(start: Option<&K>, end: Option<&K>) -> bool {
    match (start, end) {
        (Some(start), Some(end)) => start < end,
        _ => true,
    }
}

impl<K> Span<K> {
    pub(super) fn write(
        &self,
        to: &mut fmt::Formatter<'_>,
        key: impl Fn(&K, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if let Some(start) = &self.start {
            key(start, to)?;
        }
        to.write_str("..")?;
        match &self.end {
            Some(end) => key(end, to),
            None => Ok(()),
        }
    }
}

/// Written as Rust writes ranges: `3..7`, `..7`, `3..`, `..`.
impl<K: fmt::Display> fmt::Display for Span<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(to, K::fmt)
    }
}

/// Written as Rust writes ranges, as [`fmt::Display`] does.
impl<K: fmt::Debug> fmt::Debug for Span<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(to, K::fmt)
    }
}

impl<K> From<RangeFull> for Span<K> {
    fn from(_all: RangeFull) -> Span<K> {
        Span::all()
    }
}

impl<K: Key> From<RangeFrom<K>> for Span<K> {
    fn from(range: RangeFrom<K>) -> Span<K> {
        Span::from(range.start)
    }
}

impl<K: Key> From<RangeTo<K>> for Span<K> {
    fn from(range: RangeTo<K>) -> Span<K> {
        Span::to(range.end)
    }
}

impl<K: Key> TryFrom<Range<K>> for Span<K> {
    type Error = InvalidRange;

    #[inline]
    fn try_from(range: Range<K>) -> Result<Span<K>, InvalidRange> {
        Span::new(range.start, range.end)
    }
}

/// A range of keys in any of its forms: `a..b`, `a..`, `..b`, `..` and a [`Span`]; of keys with a
/// [`Successor`] also `a..=b` and `..=b`.
///
/// ```
/// use manx::range::{IntoSpan, InvalidRange, Span};
///
/// assert_eq!((3..=7_u32).into_span(), Span::new(3, 8));
/// assert_eq!((7..3_u32).into_span(), Err(InvalidRange::Inverted));
/// ```
pub trait IntoSpan<K> {
    /// Makes it a span.
    ///
    /// # Errors
    /// The range is empty or inverted.
    fn into_span(self) -> Result<Span<K>, InvalidRange>;
}

impl<K, R: TryInto<Span<K>, Error: Into<InvalidRange>>> IntoSpan<K> for R {
    #[inline(always)]
    fn into_span(self) -> Result<Span<K>, InvalidRange> {
        self.try_into().map_err(Into::into)
    }
}

/// The key after an integer, if there is one.
///
/// ```
/// use manx::range::Successor;
///
/// assert_eq!((7_u8.successor(), u8::MAX.successor()), (Some(8), None));
/// ```
pub trait Successor: Sized {
    /// The next higher one; `None` for the highest.
    fn successor(&self) -> Option<Self>;
}

macro_rules! successor {
    ($($type:ty),*) => {$(
        impl Successor for $type {
            fn successor(&self) -> Option<$type> {
                self.checked_add(1)
            }
        }
    )*};
}

successor!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// The shortest key that is longer: the same bytes and a zero.
impl Successor for Vec<u8> {
    fn successor(&self) -> Option<Vec<u8>> {
        let mut next = Vec::with_capacity(self.len() + 1);
        next.extend_from_slice(self);
        next.push(0);
        Some(next)
    }
}

impl<K: Key + Successor> Span<K> {
    /// One key.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// assert!(Span::point(u64::MAX).contains(&u64::MAX));
    /// assert!(!Span::point(7).contains(&8));
    /// ```
    pub fn point(key: K) -> Span<K> {
        let end = key.successor();
        Span { start: Some(key), end }
    }

    /// From one bound to another.
    ///
    /// # Errors
    /// The range is empty or inverted.
    ///
    /// ```
    /// use manx::range::Span;
    /// use std::ops::Bound::{Excluded, Included};
    ///
    /// assert_eq!(Span::between(Excluded(3), Included(7))?, Span::new(4, 8)?);
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    pub fn between(start: Bound<K>, end: Bound<K>) -> Result<Span<K>, InvalidRange> {
        let start = match start {
            Bound::Included(key) => Some(key),
            // There is no key above the highest.
            Bound::Excluded(key) => Some(key.successor().ok_or(InvalidRange::Empty)?),
            Bound::Unbounded => None,
        };
        let end = match end {
            Bound::Included(key) => key.successor(),
            Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        match (start, end) {
            (Some(start), Some(end)) => Span::new(start, end),
            (start, end) => Ok(Span { start, end }),
        }
    }
}

impl<K: Key + Successor> TryFrom<RangeInclusive<K>> for Span<K> {
    type Error = InvalidRange;

    fn try_from(range: RangeInclusive<K>) -> Result<Span<K>, InvalidRange> {
        let (start, last) = range.into_inner();
        // The end of an inverted range may be the successor of its start's predecessor: 6..=5 is
        // empty, 7..=5 inverted.
        Span::between(Bound::Included(start), Bound::Included(last))
    }
}

impl<K: Key + Successor> From<RangeToInclusive<K>> for Span<K> {
    fn from(range: RangeToInclusive<K>) -> Span<K> {
        Span { start: None, end: range.end.successor() }
    }
}
