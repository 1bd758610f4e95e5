//! How often a loop's leader is on the CPU of an earlier loop's leader, and whether the two loops
//! should be one.
//!
//! Two leaders on one CPU do no more than one, and wait for each other. They stay there if a client
//! needs all of another CPU, and each of them that came there would take time from it. So a loop
//! whose leader was nearly always on the CPU of an earlier one's *merges*: for [`MERGED_NS`] its
//! connections move to that one (`loops.rs`). Then it has its share again, and it shows whether
//! that was right. With one client process it is 95 to 99.9 % of the rounds; with 80 clients that
//! have a thread each, less than 40 % most of the time.
//!
//! All accesses are Relaxed: hints and counts.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A loop merges if its leader, in this time …
const SPAN_NS: u64 = 200_000_000;
/// … was on the CPU of an earlier one's leader in this part of the rounds, …
const SHARED_PERCENT: u64 = 95;
/// … which are looked at when this number of them is over.
const ROUNDS: u32 = 64;
/// How long it stays merged.
const MERGED_NS: u64 = 1_000_000_000;

/// See [the module](self).
#[derive(Default)]
pub(super) struct Company {
    /// The beginning of the present span.
    began_ns: AtomicU64,
    rounds: AtomicU32,
    shared: AtomicU32,
    /// The loop is merged until then.
    until_ns: AtomicU64,
}

impl Company {
    /// The leader begins a round; `shares`: an earlier loop's leader last served on the same CPU.
    /// Several threads may lead for a moment, and a count may be lost.
    pub(super) fn count(&self, shares: bool, now_ns: impl FnOnce() -> u64) {
        let rounds = self.rounds.fetch_add(1, Relaxed) + 1;
        let shared = self.shared.fetch_add(u32::from(shares), Relaxed) + u32::from(shares);
        if !rounds.is_multiple_of(ROUNDS) {
            return;
        }
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.began_ns.load(Relaxed)) < SPAN_NS {
            return;
        }
        self.began_ns.store(now_ns, Relaxed);
        self.rounds.store(0, Relaxed);
        self.shared.store(0, Relaxed);
        if u64::from(shared) * 100 >= u64::from(rounds) * SHARED_PERCENT {
            self.merge_until(now_ns + MERGED_NS);
        }
    }

    /// The loop is to have no connections until then.
    pub(super) fn merge_until(&self, until_ns: u64) {
        self.until_ns.store(until_ns, Relaxed);
    }

    /// Whether this is such a time.
    pub(super) fn is_merged(&self, now_ns: u64) -> bool {
        self.until_ns.load(Relaxed) > now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_merges_if_its_leader_shares_a_cpu_nearly_always() {
        const MS: u64 = 1_000_000;
        let merged_until_ms = |shared: u32| {
            let company = Company::default();
            // They end the span that lasts from 0 to 1,000 ms, and their leader shares no CPU.
            (1..=ROUNDS).for_each(|_| company.count(false, || 1_000 * MS));
            for round in 1..=100 * ROUNDS {
                company.count(round % 100 < shared, || (1_000 + u64::from(round / 10)) * MS);
            }
            company.until_ns.load(Relaxed) / MS
        };
        // The last of the spans that follow ends at 1,614 ms, and its loop merges for a second.
        assert_eq!(merged_until_ms(100), 2_614);
        assert!(merged_until_ms(97) > 0);
        assert_eq!(merged_until_ms(90), 0);
        assert_eq!(merged_until_ms(0), 0);
    }
}
