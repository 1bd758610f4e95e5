//! Page faults under a spin lock: the holder touches memory for the first time, the kernel clears a
//! page for it, and all others spin meanwhile.
//!
//! A lock that is held for some nanoseconds is then held for a microsecond, and for a hundred or
//! more if the page is a huge one. Waiters that spin cost so much more, and while CPUs are short
//! they also keep the holder from its CPU.
//!
//! The evidence is a function in which threads wait, and in which what is not waiting is mostly
//! page faults (`evidence/faults.rs`).

use crate::evidence::Evidence;
use crate::evidence::faults::worst;
use crate::evidence::machine::HUGE_PAGES;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict, duration, grouped};

/// A page fault that takes longer on average clears a huge page: 4 KiB take some microseconds at
/// most, also in a virtual machine, and 2 MiB more than this at the speed of any memory.
const HUGE_FAULT_NS: u64 = 30_000;

pub(super) fn judge(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let (site, _) = worst(&evidence.fault_sites, evidence.in_loops().1)?;
    let headline = format!(
        "threads spin in {} ({}) while the thread that they wait for has page faults",
        site.function, site.module
    );
    let mut verdict = Verdict::new(Cause::PageFaults, shares.behind_faults(), headline);
    verdict.evidence.push(format!(
        "of what {} does besides waiting, {:.0} % is page faults, in {} of {} samples; threads waited in it in {}",
        site.function,
        100.0 * site.faulting(),
        site.faults,
        site.working,
        site.waiting
    ));
    let faults: u64 = evidence.threads.iter().map(|thread| thread.minor_faults).sum();
    let run_ns: u64 = evidence.threads.iter().map(|thread| thread.run_ns).sum();
    let in_faults = f64::from(site.faults) / f64::from(evidence.samples().max(1));
    let each_ns = (faults > 0).then(|| (in_faults * run_ns as f64 / faults as f64) as u64);
    let is_huge = each_ns.is_some_and(|each_ns| each_ns >= HUGE_FAULT_NS);
    if let Some(each_ns) = each_ns {
        let what = if is_huge { "so the kernel clears huge pages" } else { "for pages of the usual size" };
        verdict.evidence.push(format!(
            "{} page faults per second, {} each: {what}",
            grouped((evidence.per_time(faults) * 1e9) as u64),
            duration(each_ns)
        ));
    }
    verdict.remedies.push(Remedy::advice(format!(
        "touch the memory before {} takes the lock: write to each page once when the program starts, or map \
         it with MAP_POPULATE, or call madvise with MADV_POPULATE_WRITE",
        site.function
    )));
    let setting = evidence.machine.huge_pages.as_deref().unwrap_or("not there");
    verdict.remedies.push(Remedy::advice(if is_huge {
        format!(
            "make the faults short: set {HUGE_PAGES}, which is {setting}, to madvise, or where the program \
             asks for huge pages itself, to never; or call madvise with MADV_NOHUGEPAGE for this memory"
        )
    } else {
        format!(
            "make the faults few: call madvise with MADV_HUGEPAGE for this memory, or set the program's own \
             option for huge pages; {HUGE_PAGES} is {setting}"
        )
    }));
    let what = "lets the waiters yield and sleep while CPUs are short, so that the holder runs";
    verdict.remedies.push(Remedy::manx_run(evidence, "", what));
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::code::Place;
    use crate::evidence::faults::FaultSite;
    use crate::evidence::machine::MachineEvidence;
    use crate::evidence::thread::ThreadEvidence;

    /// Four threads on two CPUs that spin for half of their time, in a function with these samples.
    fn evidence(site: FaultSite, minor_faults: u64) -> Evidence {
        let thread = ThreadEvidence {
            run_ns: 500_000_000,
            wait_ns: 500_000_000,
            samples: 50,
            waiting_samples: 25,
            minor_faults,
            ..ThreadEvidence::default()
        };
        let waits = Some("it waits without a bound");
        let place = Place { function: "lock".into(), waits, samples: 100, ..Place::default() };
        let huge_pages = Some("always".to_owned());
        Evidence {
            span_ns: 1_000_000_000,
            looks: 20,
            cpus: 2.0,
            threads: vec![thread; 4],
            places: vec![place],
            fault_sites: vec![site],
            machine: MachineEvidence { busy_cpus: 2.0, huge_pages, ..MachineEvidence::default() },
            ..Evidence::default()
        }
    }

    fn site(module: &str, faults: u32) -> FaultSite {
        FaultSite { module: module.into(), function: "insert".into(), waiting: 100, working: 100, faults }
    }

    fn first(evidence: &Evidence) -> Verdict {
        crate::diagnose(evidence).into_iter().next().expect("a verdict")
    }

    #[test]
    fn a_lock_that_is_held_across_faults_of_huge_pages_comes_before_busy_waiting() {
        let verdict = first(&evidence(site("server", 90), 1_000));
        assert_eq!(verdict.cause, Cause::PageFaults);
        // 2 CPUs. 90 of 200 samples are faults: 4,000 faults.
        assert!(verdict.evidence[1].starts_with("4,000 page faults per second, 225 µs each"), "{verdict:?}");
        assert!(verdict.remedies[1].what.contains("enabled, which is always, to madvise"), "{verdict:?}");
        assert!(verdict.remedies[2].command.is_some());
    }

    #[test]
    fn faults_of_small_pages_are_to_be_fewer() {
        let verdict = first(&evidence(site("server", 90), 250_000));
        assert!(verdict.remedies[1].what.contains("MADV_HUGEPAGE"), "{verdict:?}");
    }

    #[test]
    fn few_faults_and_those_of_a_pool_of_threads_leave_busy_waiting_first() {
        for site in [site("server", 20), site("libgomp.so.1", 90)] {
            assert_eq!(first(&evidence(site.clone(), 1_000)).cause, Cause::BusyWaiting, "{site:?}");
        }
        let other = FaultSite { waiting: 10, ..site("server", 90) };
        assert_eq!(first(&evidence(other, 1_000)).cause, Cause::BusyWaiting, "most waits are elsewhere");
    }
}
