//! Targets that the options give to epochs by their ids, in place of what the program says.
//!
//! Written once, before the options count as read; read with relaxed loads ever after.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use manx::slo::Percentile;
use preload_abi::slo::{SLOS_MAX, Slos};

struct Target {
    id: AtomicU64,
    bound_ns: AtomicU64,
    /// In hundredths of a percent.
    percentile: AtomicU64,
}

static TARGETS: [Target; SLOS_MAX] =
    [const { Target { id: AtomicU64::new(0), bound_ns: AtomicU64::new(0), percentile: AtomicU64::new(0) } };
        SLOS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes over the targets.
pub fn set(slos: Slos<'_>) {
    let mut count = 0;
    for (slo, target) in slos.iter().filter(|slo| slo.id.is_some()).zip(&TARGETS) {
        target.id.store(slo.id.unwrap_or(0), Ordering::Relaxed);
        target.bound_ns.store(slo.bound_ns, Ordering::Relaxed);
        target.percentile.store(u64::from(slo.percentile), Ordering::Relaxed);
        count += 1;
    }
    COUNT.store(count, Ordering::Relaxed);
}

/// The target for epochs of this id, if the options say one; the last one they say.
#[inline]
pub fn of(id: u64) -> Option<(u64, Percentile)> {
    let count = COUNT.load(Ordering::Relaxed);
    if count == 0 { None } else { search(id, count) }
}

fn search(id: u64, count: usize) -> Option<(u64, Percentile)> {
    let target = TARGETS[..count].iter().rev().find(|target| target.id.load(Ordering::Relaxed) == id)?;
    let percentile = Percentile::new(target.percentile.load(Ordering::Relaxed) as u16)?;
    Some((target.bound_ns.load(Ordering::Relaxed), percentile))
}
