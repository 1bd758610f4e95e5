//! The entries of a range, some at a time.

use super::data::{Entry, Value};
use super::error::Error;
use super::transaction::{Transaction, as_ref, check, owned};
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::vec;

/// An iterator over the entries of a range that a transaction sees: [`Transaction::scan`] makes it.
/// An item is a key with its value, or the error that ended the scan.
///
/// ```
/// use manx::txn::{Isolation, Options, Store};
///
/// let store = Store::in_memory(Options::default());
/// let mut session = store.session()?;
/// let mut transaction = session.begin(Isolation::Snapshot)?;
/// for key in [b"a", b"b", b"c"] {
///     transaction.put(key, b"1")?;
/// }
/// let last = transaction.scan("a"..).rev().next().transpose()?;
/// assert_eq!(last.map(|(key, _)| key.to_vec()), Some(b"c".to_vec()));
/// # Ok::<(), manx::txn::Error>(())
/// ```
pub struct Scan<'t, 's> {
    transaction: &'t mut Transaction<'s>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    descending: bool,
    has_begun: bool,
    found: vec::IntoIter<Entry>,
    /// There may be more than what was found.
    more: bool,
}

impl fmt::Debug for Scan<'_, '_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Scan").field("descending", &self.descending).finish_non_exhaustive()
    }
}

impl<'s> Transaction<'s> {
    /// The entries of a range, in the order of their keys, or with `.rev()` from the end. An empty
    /// or inverted range has none.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// let mut it = session.begin(Isolation::Snapshot)?;
    /// for key in ["a", "b", "c"] {
    ///     it.put(key.as_bytes(), b"1")?;
    /// }
    /// let keys: Result<Vec<_>, _> = it.scan("a".."c").rev().map(|entry| Ok(entry?.0)).collect();
    /// # let keys: Vec<_> = (keys as Result<Vec<manx::txn::Value>, manx::txn::Error>)?;
    /// assert_eq!(keys, [(*b"b").into(), (*b"a").into()]);
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    pub fn scan<K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(&mut self, range: R) -> Scan<'_, 's> {
        let (from, to) = owned(&range);
        let found = Vec::new().into_iter();
        Scan { transaction: self, from, to, descending: false, has_begun: false, found, more: true }
    }
}

impl Scan<'_, '_> {
    /// From the last one to the first.
    ///
    /// # Panics
    /// It has begun.
    #[must_use]
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator from both ends would have to remember both"
    )]
    pub fn rev(mut self) -> Self {
        assert!(!self.has_begun, "a scan is turned around before its first entry");
        self.descending = !self.descending;
        self
    }

    fn fill(&mut self) -> Result<(), Error> {
        let mut span = None;
        if !self.has_begun {
            self.has_begun = true;
            match check((self.from.clone(), self.to.clone())) {
                Ok(all) => span = Some(all),
                Err(_) => {
                    self.more = false;
                    return Ok(());
                }
            }
        }
        let bounds = (as_ref(&self.from), as_ref(&self.to));
        let (found, last) = self.transaction.scan_some(span, bounds, self.descending)?;
        self.more = last.is_some();
        let last = last.map(|last: Value| Bound::Excluded(last.to_vec()));
        match last {
            Some(last) if self.descending => self.to = last,
            Some(last) => self.from = last,
            None => {}
        }
        self.found = found.into_iter();
        Ok(())
    }
}

impl Iterator for Scan<'_, '_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.found.next() {
                return Some(Ok(entry));
            }
            if !self.more {
                return None;
            }
            if let Err(error) = self.fill() {
                self.more = false;
                return Some(Err(error));
            }
        }
    }
}
