//! The causes, a file each: from what was seen to a verdict, or none.
//!
//! | file | cause |
//! | --- | --- |
//! | `crowd.rs` | more runnable threads than CPUs |
//! | `quota.rs` | throttled by a quota |
//! | `busy_waiting.rs` | busy waiting |
//! | `lock.rs` | a contended lock, priority inversion |
//! | `outside.rs` | what is not Manx's business: neighbours, steal, memory, disks |

mod busy_waiting;
mod crowd;
mod lock;
mod outside;
mod quota;

use crate::evidence::Evidence;
use crate::shares::Shares;
use crate::verdict::{Verdict, order};

/// The verdicts on what was seen, worst first; none if nothing was found.
///
/// ```
/// assert!(doctor::diagnose(&doctor::Evidence::default()).is_empty());
/// ```
pub fn diagnose(evidence: &Evidence) -> Vec<Verdict> {
    let shares = Shares::of(evidence);
    let judges: [fn(&Evidence, &Shares) -> Option<Verdict>; 9] = [
        crowd::judge,
        quota::judge,
        busy_waiting::judge,
        lock::contention,
        lock::inversion,
        outside::neighbours,
        outside::steal,
        outside::memory,
        outside::disk,
    ];
    let verdicts = judges.into_iter().filter_map(|judge| judge(evidence, &shares)).collect();
    order(verdicts, evidence, shares.all())
}
