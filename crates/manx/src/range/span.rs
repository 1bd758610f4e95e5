//! A range of keys: half-open, never empty, its ends open if one wants.
//!
//! Whatever a caller has at hand (`a..b`, `a..=b` of integers, `..`, two bounds) becomes a [`Span`]
//! once, and from then on there is one form: from a first key on, or from the beginning; up to a
//! key that does not belong to it any more, or to the end. There are no keys that stand for the
//! ends of the space, so every key can be locked.
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

impl<K: Key> Span<K> {
    /// From `start` up to, and without, `end`.
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
    #[inline]
    pub fn overlaps(&self, other: &Span<K>) -> bool {
        if K::EXACT {
            return self.first() <= other.last() && other.first() <= self.last();
        }
        before(self.start.as_ref(), other.end.as_ref()) && before(other.start.as_ref(), self.end.as_ref())
    }

    /// Whether every key of `other` is in this one.
    pub fn contains(&self, other: &Span<K>) -> bool {
        let starts = match (&self.start, &other.start) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(its)) => own <= its,
        };
        let ends = match (&self.end, &other.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(its)) => own >= its,
        };
        starts && ends
    }

    /// Whether the key is in the span.
    pub fn has(&self, key: &K) -> bool {
        self.start.as_ref().is_none_or(|start| start <= key) && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Splits the span: the keys before `key`, and `key` with the keys behind it.
    ///
    /// # Errors
    /// One of the two would be empty: the key is not inside, or is the first one. The span is given
    /// back.
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
    pub fn without(self, other: &Span<K>) -> (Option<Span<K>>, Option<Span<K>>) {
        if !self.overlaps(other) {
            return match before(self.start.as_ref(), other.start.as_ref()) && other.start.is_some() {
                true => (Some(self), None),
                false => (None, Some(self)),
            };
        }
        let low = match &other.start {
            Some(start) if self.has(start) && self.start.as_ref() != Some(start) => {
                Some(Span { start: self.start.clone(), end: Some(start.clone()) })
            }
            _ => None,
        };
        let high = match &other.end {
            Some(end) if self.has(end) => Some(Span { start: Some(end.clone()), end: self.end }),
            _ => None,
        };
        (low, high)
    }

    /// The smallest span that contains both.
    pub fn hull(self, other: Span<K>) -> Span<K> {
        let start = match (self.start, other.start) {
            (Some(one), Some(two)) => Some(one.min(two)),
            _ => None,
        };
        let end = match (self.end, other.end) {
            (Some(one), Some(two)) => Some(one.max(two)),
            _ => None,
        };
        Span { start, end }
    }

    /// By where it begins, then by where it ends.
    pub fn compare(&self, other: &Span<K>) -> Ordering {
        // A start of `None` is the lowest; an end of `None` the highest.
        self.start.cmp(&other.start).then_with(|| match (&self.end, &other.end) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(own), Some(its)) => own.cmp(its),
        })
    }

    /// The position of the first key ([`Key::position`]). For a lock that knows ranges by
    /// positions.
    ///
    /// ```
    /// use manx::range::Span;
    ///
    /// let span = Span::new(3_u64, 7)?;
    /// assert_eq!((span.first(), span.last()), (3, 6));
    /// assert_eq!((Span::<u64>::all().first(), Span::<u64>::all().last()), (0, u64::MAX));
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    #[inline(always)]
    pub fn first(&self) -> u64 {
        match &self.start {
            Some(start) => start.position(),
            None => 0,
        }
    }

    /// A position that no key of the span is above, and the lowest such if positions are exact.
    /// [`Span::first`] has an example.
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

/// The key after an integer, if there is one.
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
    /// assert!(Span::point(u64::MAX).has(&u64::MAX));
    /// assert!(!Span::point(7).has(&8));
    /// ```
    pub fn point(key: K) -> Span<K> {
        let end = key.successor();
        Span { start: Some(key), end }
    }

    /// From one bound to another.
    ///
    /// # Errors
    /// The range is empty or inverted.
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
