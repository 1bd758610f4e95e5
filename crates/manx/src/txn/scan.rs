//! The entries of a range, some at a time.

use super::data::{Entry, Value};
use super::error::Error;
use super::table::Visited;
use super::transaction::{Transaction, as_ref, check, owned};
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::vec;

/// An iterator over the entries of a range that a transaction sees: [`Transaction::scan`] makes it.
/// An item is a key with its value, or the error that ended the scan.
pub struct Scan<'t, 's> {
    transaction: &'t mut Transaction<'s>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    descending: bool,
    has_begun: bool,
    found: vec::IntoIter<Entry>,
    /// There may be more than what was found.
    more: bool,
    /// How many more are asked for.
    left: usize,
    /// How many are looked for at once: more and more, as long as the caller goes on.
    batch: usize,
}

/// The first time an iterator looks for this number of entries, …
const BATCH_MIN: usize = 8;
/// … then for more and more, up to this number.
const BATCH_MAX: usize = 128;
/// A visit shows this number of entries, and then lets the epochs pass: what was read meanwhile is
/// not freed.
const VISITED: usize = 1_024;

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
        Scan {
            transaction: self,
            from,
            to,
            descending: false,
            has_begun: false,
            found,
            more: true,
            left: usize::MAX,
            batch: BATCH_MIN,
        }
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

    /// No more than this number of entries: then no further ones are looked for.
    #[must_use]
    pub fn limit(mut self, entries: usize) -> Self {
        self.left = entries;
        self
    }

    /// Shows each entry to `see`, without a copy, until that breaks off. It is the fastest way to
    /// read many entries. While `see` runs, memory that other transactions have written over is not
    /// freed: let it return soon.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    /// use std::ops::ControlFlow::Continue;
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// let mut it = session.begin(Isolation::Snapshot)?;
    /// for key in ["a", "b", "c"] {
    ///     it.put(key.as_bytes(), b"1234")?;
    /// }
    /// let mut bytes = 0;
    /// it.scan("b"..).visit(|_, value| {
    ///     bytes += value.len();
    ///     Continue(())
    /// })?;
    /// assert_eq!(bytes, 8);
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn visit(mut self, mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<(), Error> {
        for (key, value) in self.found.by_ref() {
            if see(&key, &value).is_break() {
                return Ok(());
            }
        }
        while self.more {
            let shown = self.left.min(VISITED);
            self.part(shown, |key, value| see(key, value))?;
        }
        Ok(())
    }

    /// Shows about `limit` further entries.
    fn part(
        &mut self,
        limit: usize,
        mut see: impl FnMut(&[u8], &Value) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.more = self.left > 0;
        if !self.has_begun {
            self.has_begun = true;
            match check((self.from.clone(), self.to.clone())) {
                Ok(all) if self.more => self.transaction.begin_read(all)?,
                _ => self.more = false,
            }
        }
        if !self.more {
            return Ok(());
        }
        let bounds = (as_ref(&self.from), as_ref(&self.to));
        let left = &mut self.left;
        let visited = self.transaction.visit(bounds, self.descending, limit, |key, value| {
            *left -= 1;
            let flow = see(key, value);
            if *left == 0 { ControlFlow::Break(()) } else { flow }
        })?;
        match visited {
            Visited::Until(last) if self.descending => self.to = Bound::Excluded(last),
            Visited::Until(last) => self.from = Bound::Excluded(last),
            Visited::All | Visited::Enough => self.more = false,
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Error> {
        let limit = self.batch.min(self.left);
        self.batch = BATCH_MAX.min(2 * self.batch);
        let mut found = Vec::with_capacity(limit);
        self.part(limit, |key, value| {
            found.push((key.into(), value.clone()));
            ControlFlow::Continue(())
        })?;
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
