//! Busy waiting: threads run and make no progress, because another thread has to do something
//! first.
//!
//! It costs twice: the CPU time of the loops, and the waits of the threads that would have used it.
//! The thread that is waited for may be among them. While there are CPUs enough it costs power
//! only, and to sleep instead may cost more time: that is no finding.

use super::pools;
use crate::evidence::Evidence;
use crate::evidence::code::Place;
use crate::evidence::others::WORTH_A_WORD;
use crate::evidence::thread::ThreadEvidence;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict, threads};

/// How many loops are named.
const NAMED: usize = 3;
/// With fewer samples in loops the verdict is doubtful.
const SAMPLES_MIN: u32 = 50;

pub(super) fn judge(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let places: Vec<&Place> = evidence.places.iter().filter(|place| place.waits.is_some()).collect();
    let waiting: u32 = places.iter().map(|place| place.samples).sum();
    let all = evidence.samples();
    if shares.spinning.max(shares.waiting_to_spin) == 0.0 {
        return None;
    }
    let burned = shares.burned();
    let yielders: Vec<_> = evidence.threads.iter().filter(|thread| thread.yields()).collect();
    let spins = |it: &&ThreadEvidence| it.yields() || it.spinning().is_some_and(|part| part > 0.5);
    let spinners: Vec<&ThreadEvidence> = evidence.threads.iter().filter(spins).collect();
    let headline = if burned < 0.05 && !spinners.is_empty() {
        format!("{} waited for a CPU only to look again for another thread", threads(spinners.len()))
    } else {
        format!(
            "threads spent {:.0} % of their CPU time in loops that wait for another thread: {burned:.1} CPUs",
            100.0 * shares.spinning
        )
    };
    let mut verdict = Verdict::new(Cause::BusyWaiting, shares.busy_waiting(), headline);
    for place in places.iter().take(NAMED) {
        verdict.evidence.push(format!(
            "{} ({}): {}; {:.0} % of all samples, {}",
            place.function,
            place.module,
            place.waits.unwrap_or_default(),
            100.0 * f64::from(place.samples) / f64::from(all.max(1)),
            threads(place.threads.len()),
        ));
    }
    if !yielders.is_empty() {
        let yields: u64 = yielders.iter().map(|thread| thread.involuntary).sum();
        verdict.evidence.push(format!(
            "{} in a loop of sched_yield, {:.0} times per second",
            threads(yielders.len()),
            evidence.per_time(yields) * 1e9
        ));
    }
    let switches: u64 = spinners.iter().map(|thread| thread.involuntary).sum();
    if shares.others_spinning >= WORTH_A_WORD {
        verdict.evidence.push(format!(
            "other processes spent {:.0} % of their CPU time in such loops, too",
            100.0 * shares.others_spinning
        ));
    }
    let caused = shares.waits_to_spin();
    if caused > 0.05 {
        verdict.evidence.push(format!(
            "because of that {caused:.1} threads waited for a CPU; the waiting threads lost theirs {:.0} times \
             per second, yields included",
            evidence.per_time(switches) * 1e9
        ));
    }
    let what = "lets these threads yield and sleep while CPUs are short";
    verdict.remedies.push(Remedy::manx_run(evidence, "", what));
    verdict.remedies.push(Remedy::advice("`manx run --dry-run` says beforehand which loops it repairs"));
    let pools = pools::of(evidence);
    if shares.crowd > 0.05 && !pools.is_empty() {
        let threads = (evidence.budget.floor() as usize).max(1);
        let advice = pools::advice(&pools, threads);
        verdict.remedies.push(Remedy::advice(format!("or fewer threads: {advice}")));
    }
    if waiting < SAMPLES_MIN && yielders.is_empty() {
        verdict.doubts.push(format!("it rests on {waiting} samples only: watch for longer"));
    }
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_named_and_few_samples_are_a_doubt() {
        let place = Place {
            module: "app".into(),
            function: "wait_for_turn".into(),
            waits: Some("it waits without a bound"),
            samples: 30,
            threads: [(7, 30)].into(),
        };
        let works = Place { function: "work".into(), waits: None, samples: 10, ..place.clone() };
        let thread = ThreadEvidence { samples: 40, waiting_samples: 30, ..ThreadEvidence::default() };
        let evidence = Evidence { places: vec![place, works], threads: vec![thread], ..Evidence::default() };
        let shares = Shares { running: 2.0, waiting: 2.0, crowd: 2.0, spinning: 0.75, ..Shares::default() };
        let verdict = judge(&evidence, &shares).unwrap();
        assert_eq!((verdict.severity, verdict.doubts.len()), (3.0, 1));
        assert_eq!(
            verdict.evidence[0],
            "wait_for_turn (app): it waits without a bound; 75 % of all samples, 1 thread"
        );
        assert!(verdict.evidence[1].contains("1.5 threads waited for a CPU"), "{verdict:?}");
    }

    #[test]
    fn threads_that_yield_in_a_loop_are_a_finding_without_samples() {
        let thread = ThreadEvidence {
            run_ns: 500_000_000,
            wait_ns: 500_000_000,
            kernel_ns: 400_000_000,
            involuntary: 40_000,
            ..ThreadEvidence::default()
        };
        let evidence = Evidence { span_ns: 1_000_000_000, threads: vec![thread], ..Evidence::default() };
        let verdict = judge(&evidence, &Shares::of(&evidence)).unwrap();
        assert!((verdict.severity - 0.4).abs() < 0.001, "{verdict:?}");
        assert_eq!(verdict.evidence[0], "1 thread in a loop of sched_yield, 40000 times per second");
        assert!(verdict.doubts.is_empty());
    }

    #[test]
    fn loops_cost_nothing_while_there_are_cpus_enough() {
        let shares = Shares { running: 2.0, spinning: 0.9, ..Shares::default() };
        assert_eq!(judge(&Evidence::default(), &shares).map(|verdict| verdict.severity), Some(0.0));
    }

    #[test]
    fn without_samples_in_loops_there_is_no_verdict() {
        assert_eq!(judge(&Evidence::default(), &Shares::default()), None);
    }
}
