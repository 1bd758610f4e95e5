//! Keys: they have an order, and each has a position in it.
//!
//! A range lock compares keys, and has to find fast which keys are near each other. So each key
//! has a *position*, a number of 64 bits that grows with it. Positions decide which part of a lock
//! looks after a key, and rule out most conflicts without looking at keys. Different keys may have
//! the same position ([`Key::EXACT`]); then the keys themselves are compared. Keys that are strings
//! of bytes ([`Key::BYTES`]) show their bytes, and the lock learns which of the bytes make good
//! positions (`scale.rs`).
//!
//! Invariant: for keys `a` < `b`, `a.position()` ≤ `b.position()`; and if the type is exact,
//! `a.position()` < `b.position()`.

use std::fmt::{self, Debug};

/// A key of an ordered space.
///
/// ```
/// use manx::range::Key;
///
/// /// A page of a file.
/// #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Page {
///     file: u32,
///     number: u32,
/// }
///
/// // Positions of keys that are close to each other are close: a lock looks after 16384 of them as one.
/// impl Key for Page {
///     const EXACT: bool = true;
///     fn position(&self) -> u64 {
///         u64::from(self.file) << 32 | u64::from(self.number)
///     }
/// }
/// assert!(Page { file: 1, number: 0 }.position() > Page { file: 0, number: 9 }.position());
/// ```
pub trait Key: Ord + Clone + Debug {
    /// Whether no two keys have the same position.
    const EXACT: bool;

    /// Whether the key is a string of bytes: [`Key::bytes`] shows it. A lock of such keys learns
    /// which of the bytes tell them apart.
    const BYTES: bool = false;

    /// The bytes of the key, if [`Key::BYTES`] says so. Keys are in the order of their bytes: of
    /// two keys the higher one has the higher bytes, compared as slices are. An order that breaks
    /// this makes locks that do not exclude each other, but nothing worse.
    ///
    /// ```
    /// use manx::range::{Key, RangeLock};
    ///
    /// /// A row, by the bytes that its table stores.
    /// #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    /// struct Row([u8; 24]);
    ///
    /// impl Key for Row {
    ///     const EXACT: bool = false;
    ///     const BYTES: bool = true;
    ///
    ///     fn bytes(&self) -> &[u8] {
    ///         &self.0
    ///     }
    ///
    ///     fn position(&self) -> u64 {
    ///         u64::from_be_bytes(*self.0.first_chunk().expect("it has 24 bytes"))
    ///     }
    /// }
    /// let rows: RangeLock<Row> = RangeLock::new();
    /// assert!(rows.try_lock(Row([1; 24])..Row([2; 24])).is_ok());
    /// ```
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &[]
    }

    /// Where the key stands. Of two keys the higher has no lower position; an order that breaks
    /// this makes locks that do not exclude each other, but nothing worse.
    fn position(&self) -> u64;

    /// Writes the key for the message of a deadlock: as [`Debug`] does, but bytes as text in
    /// quotation marks.
    ///
    /// # Errors
    /// Of the formatter.
    fn show(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt(to)
    }
}

fn show_text(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.fmt(to)
}

/// Bytes as text, as far as they are.
fn show_bytes(bytes: &[u8], to: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(to, "\"{}\"", bytes.escape_ascii())
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Key for $type {
            const EXACT: bool = true;

            #[inline(always)]
            fn position(&self) -> u64 {
                // The sign becomes the highest bit, upside down.
                let sign = if <$type>::MIN == 0 { 0 } else { 1 << 63 };
                (*self as i64 as u64) ^ sign
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// The first eight bytes as a number, the first one highest.
fn prefix(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}

macro_rules! bytes {
    ($show:ident: $($type:ty),*) => {$(
        impl Key for $type {
            const EXACT: bool = false;
            const BYTES: bool = true;

            #[inline]
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }

            #[inline]
            fn position(&self) -> u64 {
                prefix(self.as_ref())
            }

            fn show(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                $show(self.as_ref(), to)
            }
        }
    )*};
}

bytes!(show_bytes: Vec<u8>, Box<[u8]>, std::sync::Arc<[u8]>, &[u8]);
bytes!(show_text: String, &str);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_of_integers_are_in_their_order(a: i64, b: i64, c: u64, d: u64) {
            prop_assert_eq!(a.cmp(&b), a.position().cmp(&b.position()));
            prop_assert_eq!(c.cmp(&d), c.position().cmp(&d.position()));
            prop_assert_eq!((a as i32).cmp(&(b as i32)), (a as i32).position().cmp(&(b as i32).position()));
        }

        #[test]
        fn positions_of_bytes_never_contradict_their_order(a: Vec<u8>, b: Vec<u8>) {
            if a < b {
                prop_assert!(a.position() <= b.position());
            }
        }
    }
}
