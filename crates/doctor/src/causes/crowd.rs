//! More runnable threads than CPUs.
//!
//! Each thread is correct, and together they are too many: the kernel lets them run in turns, and
//! each waits while the others run. The cure is fewer threads, and mostly the program starts as
//! many as it believes there are CPUs.

use super::pools;
use crate::evidence::Evidence;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict};

pub(super) fn judge(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let severity = shares.without_busy_waiting(shares.crowd);
    let runnable = shares.running + shares.waiting - shares.throttled - shares.behind_holders;
    let headline = format!(
        "{runnable:.1} threads wished to run at the same time on {} {}, about {:.0} too many",
        shares.cpus,
        if shares.cpus == 1.0 { "CPU" } else { "CPUs" },
        (runnable - shares.cpus).max(1.0)
    );
    let mut verdict = Verdict::new(Cause::TooManyThreads, severity, headline);
    let wished = shares.running + shares.waiting;
    let slices: u64 = evidence.threads.iter().map(|thread| thread.slices).sum();
    let waited_ns: u64 = evidence.threads.iter().map(|thread| thread.wait_ns).sum();
    verdict.evidence.push(format!(
        "{:.1} ran, {:.1} waited: a thread waits for {:.0} % of the time in which it could work, \
         {:.1} ms each time",
        shares.running,
        shares.waiting,
        100.0 * shares.waiting / wished.max(f64::MIN_POSITIVE),
        waited_ns as f64 / slices.max(1) as f64 / 1e6,
    ));
    let involuntary: u64 = evidence.threads.iter().map(|thread| thread.involuntary).sum();
    let stalled = evidence.machine.cpu_stalled.map_or(String::new(), |part| {
        format!("; some thread of the machine waited for a CPU for {:.0} % of the time", 100.0 * part)
    });
    verdict.evidence.push(format!(
        "threads lost their CPU {:.0} times per second{stalled}",
        evidence.per_time(involuntary) * 1e9
    ));
    let what = "tells the program how many CPUs it really has";
    verdict.remedies.push(Remedy::manx_run(evidence, "--cpus=auto", what));
    let threads = (evidence.budget.floor() as usize).max(1);
    let pools = pools::of(evidence);
    verdict.evidence.extend(pools::words(&pools));
    verdict.remedies.push(Remedy::advice(pools::advice(&pools, threads)));
    if evidence.unseen.iter().any(|unseen| unseen.what.contains("busy waiting")) {
        verdict.doubts.push("where threads run could not be seen: some of them may be busy waiting".into());
    }
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::unseen::Unseen;

    #[test]
    fn the_runtimes_own_variable_is_named() {
        let shares = Shares { cpus: 2.0, running: 2.0, waiting: 6.0, crowd: 6.0, ..Shares::default() };
        let evidence = Evidence {
            budget: 2.0,
            modules: vec!["libgomp.so.1".into()],
            unseen: vec![Unseen::samples(1)],
            ..Evidence::default()
        };
        let verdict = judge(&evidence, &shares).unwrap();
        assert_eq!(verdict.severity, 6.0);
        assert!(verdict.headline.contains("8.0 threads") && verdict.headline.contains("about 6 too many"));
        assert!(verdict.remedies[1].what.ends_with("OMP_NUM_THREADS=2"), "{verdict:?}");
        assert_eq!(verdict.doubts.len(), 1);
    }
}
