//! Letting others run before waiting: a thread that finds something in its way yields and tries
//! again, for a while.
//!
//! After each yield the waiter tries to take its ranges. It does not watch the slot that was in its
//! way: a holder takes its next range in the same slot, so the slot is seldom free when the waiter
//! looks, although its ranges are.
//!
//! That ends with the window of the waiter, with its deadline, or after [`TRIES`] tries, whichever
//! comes first. Then the waiter joins the wait queue, which looks once more (`waiting.rs`). So a
//! deadline is overshot by no more than one yield, and by what the wait queue takes.
//!
//! Tries are counted, and time is not, because a yield lasts as long as the threads run to which it
//! gives the CPU. With one thread a CPU it lasts 0.3 µs, and the thread goes to sleep after a third
//! of a millisecond. With many threads a CPU it lasts for milliseconds, and the thread would go to
//! sleep after a single try.

use super::error::LockError;
use super::key::Key;
use super::lock::RangeLock;
use super::request::Request;
use super::slot::Held;
use super::take::{How, Refused};
use platform::futex::Deadline;
use platform::{clock, thread};

/// The number of tries after which a waiter that may be overtaken joins the wait queue. Few in a
/// model.
const TRIES: u32 = platform::spin_bound(1000);

/// When a waiter began to wait, and for how long it may be overtaken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) began_ns: u64,
    pub(super) window_ns: u64,
    /// The time at which it joins the wait queue at the latest.
    yields_end_ns: u64,
}

impl Wait {
    /// A wait that begins now, and may last for `left_ns`.
    fn new(now_ns: u64, window_ns: u64, left_ns: u64) -> Wait {
        Wait { began_ns: now_ns, window_ns, yields_end_ns: now_ns.saturating_add(window_ns.min(left_ns)) }
    }

    /// Whether the waiter joins the wait queue after this number of tries.
    fn is_over(self, tries: u32) -> bool {
        !(0..TRIES).contains(&tries) || clock::now_ns() >= self.yields_end_ns
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A wait begins now.
    pub(super) fn begin(&self, deadline: Option<Deadline>) -> Wait {
        Wait::new(clock::now_ns(), self.window_ns(), deadline.map_or(u64::MAX, Deadline::remaining_ns))
    }

    /// Tries, and lets others run between two tries, as long as it may be overtaken and may wait.
    /// `blocked`: the first try was made just now, and in vain.
    pub(super) fn yield_and_try(
        &self,
        request: &Request<'_, K>,
        deadline: Option<Deadline>,
        blocked: bool,
        wait: &mut Option<Wait>,
    ) -> Result<Held<K>, LockError> {
        let mut tries = 0;
        let mut tried =
            if blocked { Err(Refused::Blocked) } else { self.table.take(request, How::default()) };
        loop {
            match tried {
                Ok(held) => return Ok(held),
                Err(Refused::Blocked) => {}
                Err(Refused::Closed) => return self.try_closed(request),
                Err(Refused::Full) => return Err(self.too_many()),
            }
            let wait = *wait.get_or_insert_with(|| self.begin(deadline));
            tries += 1;
            // Asked after each try in vain: other threads that keep taking and releasing cannot
            // make this go on for ever.
            if platform::spin_bound(1) == 0 || wait.is_over(tries) {
                return Err(LockError::WouldBlock);
            }
            thread::yield_now();
            tried = self.table.take_again(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time for which a waiter that begins now lets other threads run.
    fn yields_ns(window_ns: u64, left_ns: u64) -> u64 {
        const NOW_NS: u64 = 5_000_000_000;
        Wait::new(NOW_NS, window_ns, left_ns).yields_end_ns - NOW_NS
    }

    #[test]
    fn a_waiter_yields_no_longer_than_its_window_and_its_deadline_allow() {
        assert_eq!(yields_ns(30_000, u64::MAX), 30_000);
        assert_eq!(yields_ns(30_000, 29_999), 29_999);
        assert_eq!(yields_ns(30_000, 30_001), 30_000);
        for (window_ns, left_ns) in [(u64::MAX, 0), (0, u64::MAX), (0, 0)] {
            assert_eq!(yields_ns(window_ns, left_ns), 0);
            assert!(Wait::new(clock::now_ns(), window_ns, left_ns).is_over(1));
        }
        assert_eq!(Wait::new(u64::MAX, u64::MAX, u64::MAX).yields_end_ns, u64::MAX, "no overflow");
    }

    #[test]
    fn a_waiter_without_an_end_yields_for_some_tries() {
        let wait = Wait::new(clock::now_ns(), u64::MAX, u64::MAX);
        assert!(!wait.is_over(TRIES - 1) && wait.is_over(TRIES));
    }

    /// A wait knows its deadline, of whatever clock.
    #[test]
    fn a_wait_knows_its_deadline() {
        use platform::futex::Clock;
        use std::time::Duration;

        let lock: RangeLock<u64> =
            RangeLock::with(crate::range::Options::new().window(Duration::from_millis(7)));
        for clock in [Clock::Monotonic, Clock::Realtime] {
            let past = lock.begin(Some(Deadline { clock, ns: 0 }));
            assert_eq!(past.yields_end_ns, past.began_ns);
            let future = lock.begin(Some(Deadline { clock, ns: u64::MAX }));
            assert_eq!(future.yields_end_ns, future.began_ns + 7_000_000);
        }
        let without = lock.begin(None);
        assert_eq!(without.yields_end_ns, without.began_ns + 7_000_000);
    }
}
