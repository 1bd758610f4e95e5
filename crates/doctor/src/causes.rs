//! The causes, a file each: from what was seen to a verdict, or none.
//!
//! | file | cause |
//! | --- | --- |
//! | `crowd.rs` | more runnable threads than CPUs |
//! | `quota.rs` | throttled by a quota |
//! | `busy_waiting.rs` | busy waiting |
//! | `page_faults.rs` | page faults under a spin lock |
//! | `lock.rs` | a contended lock, priority inversion |
//! | `pools.rs` | no cause: the pools of threads in a process, and their variables |
//! | `outside.rs` | what is not Manx's business: neighbours, steal, memory, disks |

mod busy_waiting;
mod crowd;
mod lock;
mod outside;
mod page_faults;
mod pools;
mod quota;

use crate::evidence::Evidence;
use crate::shares::Shares;
use crate::verdict::{Verdict, order};

/// The verdicts on what was seen, worst first; none if nothing was found, or if it was watched for
/// too short a time.
///
/// ```
/// assert!(doctor::diagnose(&doctor::Evidence::default()).is_empty());
/// ```
pub fn diagnose(evidence: &Evidence) -> Vec<Verdict> {
    if evidence.is_too_short() {
        return Vec::new();
    }
    let shares = Shares::of(evidence);
    let judges: [fn(&Evidence, &Shares) -> Option<Verdict>; 10] = [
        crowd::judge,
        quota::judge,
        page_faults::judge,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::thread::ThreadEvidence;

    #[test]
    fn a_process_that_ended_at_once_gets_no_verdict() {
        let thread = |span_ns: u64| ThreadEvidence {
            run_ns: span_ns / 4,
            wait_ns: span_ns / 2,
            ..ThreadEvidence::default()
        };
        let of = |span_ns: u64| {
            let threads = vec![thread(1_000_000_000); 8];
            diagnose(&Evidence { span_ns, looks: 100, cpus: 2.0, threads, ..Evidence::default() })
        };
        assert_eq!(of(1_000_000_000).len(), 1);
        assert!(of(1).is_empty(), "rates per nanosecond");
    }
}
