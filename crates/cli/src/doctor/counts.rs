//! The counts of a process under `manx run --stats`, as evidence.

use crate::stats::source::Source;
use doctor::Evidence;
use doctor::evidence::under_manx::Counts;
use preload_abi::live::Site;
use std::ffi::OsStr;
use std::sync::atomic::Ordering::Relaxed;

/// Adds what the preload library counts, if the process runs under Manx and keeps counts.
pub fn add(evidence: &mut Evidence) {
    let Some(manx) = &mut evidence.manx else { return };
    let Ok(image) = Source::find(OsStr::new(&evidence.pid.to_string())).and_then(|source| source.read())
    else {
        return;
    };
    let Ok(live) = image.live() else { return };
    // Relaxed: counts that go on; nothing is read by their means.
    let sites = live.sites().iter().filter(|site| site.visits.load(Relaxed) > 0);
    let sum = |of: fn(&Site) -> u64| sites.clone().map(of).sum();
    manx.counts = Some(Counts {
        repaired_loops: sites.clone().count() as u64,
        loop_waits: sum(|site| site.waits.load(Relaxed)),
        loop_sleeps: sum(|site| site.sleeps.load(Relaxed)),
        lock_waits: live.lock_table().iter().map(|lock| lock.waits.load(Relaxed)).sum(),
        trials: live.asked().collect(),
    });
}
