//! Owners: an owner locks ranges one after the other and gives them back when it is done, as a
//! transaction does.
//!
//! What an owner holds is in the way of others, never in its own way. So it may lock the same keys
//! again, as often as it likes, and each of these counts; it may lock alone what it shares; and
//! nothing that fails takes anything away from it. The ranges it holds are remembered in the owner,
//! not in the lock.

use super::error::LockError;
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::raw::Access;
use super::request::{NO_TAG, Request};
use super::slot::Held;
use super::span::{IntoSpan, Span};
use platform::atomic::{AtomicU32, Ordering};
use platform::futex::Deadline;
use std::slice;

platform::global! {
    /// Owners so far.
    static OWNERS: AtomicU32 = AtomicU32::new(0);
}

/// A holder of several ranges of one [`RangeLock`], such as a transaction. It keeps them until it
/// releases them or is dropped. Ranges of one owner may overlap each other: they never conflict.
///
/// ```
/// use manx::range::RangeLock;
///
/// let table: RangeLock<u64> = RangeLock::new();
/// let mut transaction = table.owner();
/// transaction.lock_shared(0..100)?;
/// transaction.lock(10..20)?; // shared by itself only
/// let mut other = table.owner();
/// assert!(other.try_lock_shared(15..16).is_err());
/// transaction.unlock(10..20)?;
/// assert!(other.try_lock_shared(15..16).is_ok());
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[derive(Debug)]
pub struct Owner<'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    pub(super) lock: &'a RangeLock<K, SHARDS, SLOTS>,
    holder: Holder,
    pub(super) tag: u64,
    /// What it holds, in the order of locking.
    pub(super) held: Vec<Held<K>>,
    escalation: Escalation,
}

/// When an owner's ranges are to become fewer (`escalate.rs`).
#[derive(Clone, Copy, Debug)]
struct Escalation {
    limit: usize,
    /// The number of ranges from which on escalation is due.
    due: usize,
}

impl Escalation {
    const NEVER: Escalation = Escalation { limit: usize::MAX, due: usize::MAX };

    fn beyond(limit: usize) -> Escalation {
        Escalation { limit, due: limit.saturating_add(1) }
    }

    fn is_due(&self, held: usize) -> bool {
        held >= self.due
    }

    /// Records that escalation was done, and that `left` ranges are left. If that was of little
    /// use, it is not tried again for each range that is added.
    fn was_done(&mut self, left: usize) {
        self.due = self.limit.saturating_add(1).max(left.saturating_mul(2));
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// An owner that holds nothing yet.
    ///
    /// ```
    /// let table: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let mut transaction = table.owner();
    /// transaction.lock(0..10)?;
    /// transaction.lock_shared(20..30)?;
    /// assert_eq!(transaction.held().count(), 2);
    /// transaction.release_all();
    /// assert!(table.try_lock(..).is_ok());
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn owner(&self) -> Owner<'_, K, SHARDS, SLOTS> {
        // Relaxed: the numbers only have to differ.
        let number = OWNERS.fetch_add(1, Ordering::Relaxed);
        Owner {
            lock: self,
            holder: Holder::owner(number),
            tag: NO_TAG,
            held: Vec::new(),
            escalation: Escalation::NEVER,
        }
    }
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> Owner<'a, K, SHARDS, SLOTS> {
    /// Returns the same owner, which holds few ranges from now on. Whenever it holds more than
    /// `limit`, neighbours become one range, with all that lies between them, as far as no other
    /// holder and no waiter is in the way. See [`Owner::escalate`].
    #[must_use]
    pub fn escalating(mut self, limit: usize) -> Self {
        self.escalation = Escalation::beyond(limit);
        self
    }

    /// Sets the number by which a [`Deadlock`](super::Deadlock) names this owner. The number means
    /// something to the user, such as a transaction's id; 0 is none.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let mut transaction = table.owner();
    /// transaction.set_tag(17);
    /// ```
    pub fn set_tag(&mut self, tag: u64) {
        self.tag = tag;
    }

    /// The identity by which a [`Dump`](super::Dump) and a [`Deadlock`](super::Deadlock) name it.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Takes the range. Waits until no other holder has a key of it.
    ///
    /// ```
    /// let table: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let mut transaction = table.owner();
    /// transaction.lock_shared(0..10)?;
    /// // What it holds itself is not in its way.
    /// transaction.lock(5..6)?;
    /// assert!(table.try_lock_shared(5..6).is_err());
    /// # drop(transaction);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::UpgradeDeadlock`] if the owner shares some of the range, and so does another
    /// holder that waits to have it alone; a lock that detects circles returns
    /// [`LockError::Deadlock`] in its place. As [`RangeLock::lock`] beside that. What was held is
    /// held.
    pub fn lock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Shares the range. Waits until no other holder has a key of it for itself.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_shared<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.lock_as(range.into_span()?, Access::Shared)
    }

    /// Takes the range if that needs no waiting.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let (mut one, mut other) = (table.owner(), table.owner());
    /// one.try_lock(0..10)?;
    /// assert_eq!(other.try_lock(9..12), Err(LockError::WouldBlock));
    /// # drop((one, other));
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.try_lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Takes the range together with other holders that share it, if that needs no waiting.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_shared<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        self.try_lock_as(range.into_span()?, Access::Shared)
    }

    /// As [`Owner::lock`] or [`Owner::lock_shared`]: the access is a value.
    ///
    /// # Errors
    /// As [`Owner::lock`] and [`Owner::lock_shared`].
    pub fn lock_as(&mut self, span: Span<K>, access: Access) -> Result<(), LockError> {
        self.lock_by_deadline(span, access, None)
    }

    /// As [`Owner::lock_as`], until `deadline` if there is one.
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`Owner::lock_as`].
    // For the package `capi`, whose deadlines are times of a clock.
    #[doc(hidden)]
    pub fn lock_by_deadline(
        &mut self,
        span: Span<K>,
        access: Access,
        deadline: Option<Deadline>,
    ) -> Result<(), LockError> {
        let held = self.lock.lock_request(&self.request(&span, access), deadline, false)?;
        self.add(held);
        Ok(())
    }

    /// As [`Owner::try_lock`] or [`Owner::try_lock_shared`].
    ///
    /// # Errors
    /// As [`Owner::try_lock`] and [`Owner::try_lock_shared`].
    pub fn try_lock_as(&mut self, span: Span<K>, access: Access) -> Result<(), LockError> {
        let held = self.lock.try_request(&self.request(&span, access))?;
        self.add(held);
        Ok(())
    }

    pub(super) fn request<'r>(&'r self, span: &'r Span<K>, access: Access) -> Request<'r, K> {
        Request { spans: slice::from_ref(span), access, holder: self.holder, own: &self.held, tag: self.tag }
    }

    pub(super) fn add(&mut self, held: Held<K>) {
        self.held.push(held);
        if self.escalation.is_due(self.held.len()) {
            self.escalate();
            self.escalation.was_done(self.held.len());
        }
    }

    /// Undoes the last lock of exactly this range.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let mut owner = table.owner();
    /// owner.lock(0..10)?;
    /// owner.lock(0..10)?;
    /// owner.unlock(0..10)?;
    /// assert!(table.try_lock(0..10).is_err(), "it was locked twice");
    /// assert_eq!(owner.unlock(0..5), Err(LockError::NotHeld));
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::NotHeld`], and [`LockError::InvalidRange`].
    pub fn unlock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        let span = range.into_span()?;
        // SAFETY: what the owner remembers it holds, here and below.
        let found = self.held.iter().rposition(|held| *unsafe { held.span() } == span);
        let held = self.held.remove(found.ok_or(LockError::NotHeld)?);
        // SAFETY: it is not remembered any more.
        unsafe { self.lock.release(held) };
        Ok(())
    }

    /// Gives back all that is held of the range, by however many locks, and keeps what lies outside
    /// of it.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let mut owner = file.owner();
    /// owner.lock(0..100)?;
    /// owner.release(40..60)?;
    /// let held: Vec<String> = owner.held().map(|(span, _)| span.to_string()).collect();
    /// assert_eq!(held, ["0..40", "60..100"]);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::NotHeld`] if nothing of it is held; [`LockError::TooMany`] if the lock has no
    /// room for the parts that are kept: what had not been given back until then is still held.
    pub fn release<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), LockError> {
        let span = range.into_span()?;
        let mut any = false;
        for index in (0..self.held.len()).rev() {
            let held = self.held[index];
            // SAFETY: it is held, until it is released below.
            let (whole, access) = unsafe { (held.span(), held.access()) };
            if !whole.overlaps(&span) {
                continue;
            }
            any = true;
            let (low, high) = whole.clone().without(&span);
            let mut kept = Vec::new();
            for part in [low, high].into_iter().flatten() {
                match self.lock.take_part(&self.request(&part, access)) {
                    Ok(part) => kept.push(part),
                    Err(error) => {
                        for part in kept {
                            // SAFETY: just taken, and no owner remembers it.
                            unsafe { self.lock.release(part) };
                        }
                        return Err(error);
                    }
                }
            }
            self.held.splice(index..=index, kept);
            // SAFETY: it is not remembered any more.
            unsafe { self.lock.release(held) };
        }
        if any { Ok(()) } else { Err(LockError::NotHeld) }
    }

    /// Gives back everything.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let mut owner = table.owner();
    /// owner.lock(0..10)?;
    /// owner.release_all();
    /// assert!(table.try_lock(0..10).is_ok());
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn release_all(&mut self) {
        // The last range first, so that a waiter for several of them meets them in the order of
        // locking.
        while let Some(held) = self.held.pop() {
            // SAFETY: it is not remembered any more.
            unsafe { self.lock.release(held) };
        }
    }

    /// What is held, in the order of locking.
    pub fn held(&self) -> impl Iterator<Item = (&Span<K>, Access)> {
        // SAFETY: what the owner remembers it holds.
        self.held.iter().map(|held| unsafe { (held.span(), held.access()) })
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for Owner<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        self.release_all();
    }
}
