//! Letting others run before waiting: a thread that finds something in its way yields and tries again, for a while.
//!
//! After each yield the waiter tries to take its ranges. It does not watch the slot that was in its way: a holder takes its next
//! range in the same slot, so the slot is seldom free when the waiter looks, although its ranges are.
//!
//! That ends with the window of the waiter, with its own limit, or after a millisecond, whichever comes first; then it comes to
//! the room, which looks once more (`waiting.rs`). So a limit is overshot by no more than one yield, and by what the room takes.

use super::error::LockError;
use super::key::Key;
use super::lock::RangeLock;
use super::request::Request;
use super::slot::Held;
use super::table::{How, Refused};
use platform::futex::Deadline;
use platform::{clock, thread};

/// How long a waiter that may be overtaken lets others run and looks again, at most, before it goes to the room.
const YIELD_NS: u64 = 1_000_000;

/// Since when somebody waits, and for how long it may be overtaken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) began_ns: u64,
    pub(super) window_ns: u64,
    /// When it goes to the room.
    yields_end_ns: u64,
}

impl Wait {
    /// A wait that begins now; `left_ns` is how long it may be.
    fn new(now_ns: u64, window_ns: u64, left_ns: u64) -> Wait {
        let yields_ns = YIELD_NS.min(window_ns).min(left_ns);
        Wait { began_ns: now_ns, window_ns, yields_end_ns: now_ns.saturating_add(yields_ns) }
    }

    /// Whether it has let others run for long enough.
    fn is_over(self) -> bool {
        clock::now_ns() >= self.yields_end_ns
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// A wait begins now.
    pub(super) fn begin(&self, deadline: Option<Deadline>) -> Wait {
        Wait::new(clock::now_ns(), self.window_ns(), deadline.map_or(u64::MAX, Deadline::left_ns))
    }

    /// Tries, and lets others run between two tries, as long as it may be overtaken and may wait. `blocked`: the first try was
    /// made just now, and in vain.
    pub(super) fn yield_and_try(
        &self,
        request: &Request<'_, K>,
        deadline: Option<Deadline>,
        blocked: bool,
        wait: &mut Option<Wait>,
    ) -> Result<Held<K>, LockError> {
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
            // Asked after each try in vain, so that others who keep taking and releasing cannot make this go on for ever.
            if platform::spin_bound(1) == 0 || wait.is_over() {
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

    /// How long others are let run by somebody who begins now.
    fn yields_ns(window_ns: u64, left_ns: u64) -> u64 {
        const NOW_NS: u64 = 5_000_000_000;
        Wait::new(NOW_NS, window_ns, left_ns).yields_end_ns - NOW_NS
    }

    #[test]
    fn others_are_let_run_no_longer_than_window_limit_and_bound() {
        assert_eq!(yields_ns(u64::MAX, u64::MAX), YIELD_NS);
        assert_eq!(yields_ns(30_000, u64::MAX), 30_000);
        assert_eq!(yields_ns(30_000, 29_999), 29_999);
        assert_eq!(yields_ns(30_000, 30_001), 30_000);
        assert_eq!(yields_ns(u64::MAX, YIELD_NS + 1), YIELD_NS);
        assert_eq!(yields_ns(u64::MAX, YIELD_NS - 1), YIELD_NS - 1);
    }

    #[test]
    fn who_has_no_time_or_no_window_lets_nobody_run() {
        for (window_ns, left_ns) in [(u64::MAX, 0), (0, u64::MAX), (0, 0)] {
            assert_eq!(yields_ns(window_ns, left_ns), 0);
            assert!(Wait::new(clock::now_ns(), window_ns, left_ns).is_over());
        }
        assert_eq!(Wait::new(u64::MAX, u64::MAX, u64::MAX).yields_end_ns, u64::MAX, "no overflow");
    }

    /// What a limit leaves is what the wait is made of, whatever clock it is of.
    #[test]
    fn a_wait_knows_its_limit() {
        use platform::futex::Clock;

        let lock: RangeLock<u64> = RangeLock::with(crate::range::Options::new().window_ns(u64::MAX));
        for clock in [Clock::Monotonic, Clock::Realtime] {
            let past = lock.begin(Some(Deadline { clock, ns: 0 }));
            assert_eq!(past.yields_end_ns, past.began_ns);
            let future = lock.begin(Some(Deadline { clock, ns: u64::MAX }));
            assert_eq!(future.yields_end_ns, future.began_ns + YIELD_NS);
        }
        let without = lock.begin(None);
        assert_eq!(without.yields_end_ns, without.began_ns + YIELD_NS);
    }
}
