//! Fewer and wider ranges for an owner that holds many: lock escalation.
//!
//! Each range that is held takes memory, and time of each thread that looks for what is in its way.
//! An owner that holds more than it should exchanges neighbours for one range from the beginning of
//! the first to the end of the last, with what lies between them, as the range locks of PerconaFT
//! do. It never waits for that: where another holder has something in between, the two stay two. It
//! then holds keys that it never asked for, and others wait for these; that is the price.

use super::key::Key;
use super::owner::Owner;
use super::slot::Held;

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Owner<'_, K, SHARDS, SLOTS> {
    /// Makes one range of neighbours that are held in the same way, where no other holder has
    /// anything in between. Returns how many fewer ranges there are. From then on [`Owner::unlock`]
    /// knows the wide ranges only; [`Owner::release`] gives back parts.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let other = lock.lock(500..501)?;
    /// let mut owner = lock.owner();
    /// for row in [1, 3, 5, 1000, 1002] {
    ///     owner.lock(row..row + 1)?;
    /// }
    /// assert_eq!(owner.escalate(), 3);
    /// let held: Vec<String> = owner.held().map(|(span, _)| span.to_string()).collect();
    /// assert_eq!(held, ["1..6", "1000..1003"]);
    /// # drop(other);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    pub fn escalate(&mut self) -> usize {
        let before = self.held.len();
        let mut order = self.held.clone();
        // SAFETY: what the owner remembers it holds, here and below.
        order.sort_by(|one, two| unsafe { one.span().compare(two.span()) });
        let mut last: Option<Held<K>> = None;
        for next in order {
            last = Some(match last {
                Some(last) => self.join(last, next).unwrap_or(next),
                None => next,
            });
        }
        before - self.held.len()
    }

    /// Makes one range of two, if no other holder and no waiter is in the way.
    fn join(&mut self, low: Held<K>, high: Held<K>) -> Option<Held<K>> {
        // SAFETY: the owner holds both.
        let (access, other) = unsafe { (low.access(), high.access()) };
        if access != other {
            return None;
        }
        // SAFETY: as above.
        let hull = unsafe { low.span().clone().hull(high.span().clone()) };
        let joined = self.lock.try_request(&self.request(&hull, access)).ok()?;
        let index = self.held.iter().position(|held| *held == low)?;
        self.held[index] = joined;
        self.held.retain(|held| *held != high);
        // SAFETY: they are not remembered any more.
        unsafe {
            self.lock.release(low);
            self.lock.release(high);
        }
        Some(joined)
    }
}
