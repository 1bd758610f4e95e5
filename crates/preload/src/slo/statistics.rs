//! The epochs and requests that ended, counted in the live file.
//!
//! A thread counts its epoch as the epoch ends. There is no lock here and no allocation: a record
//! in a table of fixed size, found by the id of the epoch, and additions to it. All threads add to
//! the same record, so an epoch costs some hundred nanoseconds more while statistics are kept. An
//! epoch is a request or a transaction, which takes longer.
//!
//! Invariant: a record belongs to the key in it, which changes once, from 0, by one atomic step.
//! All else in it are counters and times that stand alone, so every access is relaxed.

use crate::statistics::{self, claim};
use core::sync::atomic::Ordering;
use manx::slo::Percentile;
use preload_abi::live::{EPOCHS, Epoch, Live};

/// Counts an epoch that ended at `now_ticks` after `latency_ns`, with the target `target_ns`, if
/// statistics are kept. Ask [`statistics::wanted`] first.
#[inline(never)]
pub fn ended(id: u64, now_ticks: u64, latency_ns: u64, target_ns: u64, percentile: Percentile) {
    if let Some(live) = statistics::live() {
        count(&live, id, now_ticks, latency_ns, target_ns, percentile);
    }
}

fn count(live: &Live, id: u64, now_ticks: u64, latency_ns: u64, target_ns: u64, percentile: Percentile) {
    let Some((epoch, first)) = claim(live.epochs(), EPOCHS, Epoch::key_of(id), |epoch| &epoch.key) else {
        live.header().epochs_dropped.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if first {
        epoch.first_ticks.store(now_ticks, Ordering::Relaxed);
    }
    // A target hardly ever changes, and a line that is only read costs nothing.
    let percentile = u64::from(percentile.hundredths());
    for (field, value) in [(&epoch.target_ns, target_ns), (&epoch.percentile, percentile)] {
        if field.load(Ordering::Relaxed) != value {
            field.store(value, Ordering::Relaxed);
        }
    }
    if latency_ns > target_ns {
        epoch.missed.fetch_add(1, Ordering::Relaxed);
    }
    if latency_ns > epoch.longest_ns.load(Ordering::Relaxed) {
        epoch.longest_ns.fetch_max(latency_ns, Ordering::Relaxed);
    }
    epoch.total_ns.fetch_add(latency_ns, Ordering::Relaxed);
    epoch.last_ticks.store(now_ticks, Ordering::Relaxed);
    epoch.histogram.record(latency_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::live::{self, FILE_BYTES, Header};

    #[test]
    fn epochs_of_all_threads_are_counted_and_more_ids_than_fit_are_reported() {
        let room = vec![0_u8; FILE_BYTES + align_of::<Header>()];
        let bytes = &room[room.as_ptr().align_offset(align_of::<Header>())..];
        // SAFETY: aligned and long enough; a header is made of atomics and bytes.
        let header = unsafe { &*bytes.as_ptr().cast::<Header>() };
        header.magic.store(live::MAGIC, Ordering::Relaxed);
        header.format.store(live::FORMAT, Ordering::Relaxed);
        let live = Live::new(bytes).expect("a live file");
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let live = &live;
                scope.spawn(move || {
                    for round in 0..10_000 {
                        let latency_ns = if round % 100 == 0 { 3_000_000 } else { 1_000 };
                        count(live, thread % 2, 1 + round, latency_ns, 2_000_000, Percentile::P99);
                    }
                });
            }
        });
        let epochs: Vec<&Epoch> = live.epochs().iter().filter(|epoch| epoch.id().is_some()).collect();
        assert_eq!(epochs.len(), 2);
        for epoch in epochs {
            let load = |field: &core::sync::atomic::AtomicU64| field.load(Ordering::Relaxed);
            assert_eq!((epoch.histogram.read().count(), load(&epoch.missed)), (20_000, 200));
            assert_eq!((load(&epoch.longest_ns), load(&epoch.target_ns)), (3_000_000, 2_000_000));
            assert_eq!(load(&epoch.total_ns), 200 * 3_000_000 + 19_800 * 1_000);
            assert_eq!((load(&epoch.percentile), load(&epoch.first_ticks)), (9900, 1));
        }
        for id in 0..2 * EPOCHS as u64 {
            count(&live, id, 1, 1, 1, Percentile::P99);
        }
        // The id whose key is 0 has no record.
        count(&live, u64::MAX - 1, 1, 1, 1, Percentile::P99);
        assert_eq!(header.epochs_dropped.load(Ordering::Relaxed), EPOCHS as u64 + 1);
    }
}
