//! Runs of threads that lock disjoint ranges ([`contention::ranges`]).
//!
//! No range conflicts with another, so no thread ever waits for a holder: what is measured is what
//! a pair of lock and unlock costs, and the cache lines and spin locks that threads have in common.

use crate::burn::{amount, spend};
use crate::workers::{self, Padded, Phases, slowest_share};
use baselines::range::{
    Bitmap, IntervalTree, Kogan, KoganSpinning, Segments, SkipList, SkipListPublished, Song, SongSpinning,
};
use contention::ranges::{RangeLock, Ranges, Taken, WIDTH};
use contention::run::Burn;
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::ticks;

/// Makes a run with a lock.
///
/// # Errors
/// A thread that panicked.
pub fn run(lock: RangeLock, burn: Burn, run: &Ranges) -> Result<Taken, String> {
    let space = run.ranges as u64 * WIDTH;
    match lock {
        RangeLock::Manx => with(manx::range::RangeLock::<u64>::with_space(space), burn, run),
        RangeLock::SkipList => with(SkipList::with_space(space), burn, run),
        RangeLock::SkipListPublished => with(SkipListPublished::with_space(space), burn, run),
        RangeLock::Kogan => with(Kogan::with_space(space), burn, run),
        RangeLock::KoganSpinning => with(KoganSpinning::with_space(space), burn, run),
        RangeLock::Song => with(Song::with_space(space), burn, run),
        RangeLock::SongSpinning => with(SongSpinning::with_space(space), burn, run),
        RangeLock::IntervalTree => with(IntervalTree::with_space(space), burn, run),
        RangeLock::Segments => with(Segments::of_width(space, WIDTH), burn, run),
        RangeLock::Bitmap => with(Bitmap::of_width(space, WIDTH), burn, run),
    }
}

fn with<L: RawRangeLock>(lock: L, burn: Burn, run: &Ranges) -> Result<Taken, String> {
    let lock = Padded(lock);
    let dealt = run.dealt();
    let write = amount(burn, run.write_ns, 1.0);
    let work = |index: usize, phases: &Phases| {
        let mut starts = dealt[index].iter().cycle();
        let mut held = Vec::with_capacity(run.batch);
        let mut pairs = 0;
        phases.begin();
        while let Some(counts) = phases.next() {
            for start in starts.by_ref().take(run.batch) {
                let span = Span::new(*start, start + WIDTH).expect("ranges have bytes");
                held.push(lock.0.lock(&span, Access::Exclusive));
            }
            if write > 0 {
                held.iter().for_each(|_| {
                    spend(burn, ticks(), write);
                });
            }
            // SAFETY: this lock returned them.
            held.drain(..).for_each(|held| unsafe { lock.0.unlock(held) });
            pairs += if counts { run.batch as u64 } else { 0 };
        }
        Ok(pairs)
    };
    let outcome = workers::run_on(&[], run.threads, run.time, || {}, work)?;
    let pairs = outcome.records;
    Ok(Taken {
        pairs_per_s: pairs.iter().sum::<u64>() as f64 / outcome.elapsed.as_secs_f64(),
        slowest_share: slowest_share(pairs.iter().copied()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_lock_takes_ranges() {
        for lock in RangeLock::ALL {
            for batch in [1, 16] {
                let ranges =
                    Ranges { threads: 2, batch, ranges: 256, write_ns: 10, time: Duration::from_millis(20) };
                // On a busy machine a run may be over before its threads were on a CPU.
                let some = |_| run(lock, Burn::Time, &ranges).unwrap().pairs_per_s > 0.0;
                assert!((0..100).any(some), "{}", lock.name());
            }
        }
    }
}
