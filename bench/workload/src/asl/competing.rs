//! Several kinds of epochs, one within another, with targets that compete.
//!
//! Rounds of one outer epoch with a short and a long one inside, over one lock
//! ([`contend::nested`]), on this machine. Targets are multiples of what little threads take with
//! the lock in order of arrival. In two of the versions they agree: each kind may take as many
//! times as long. In the others one kind is to be nearly as early as in that order, while the kinds
//! around it or beside it leave room. The paper says (section 3.4): the innermost epoch rules, so
//! its target is met, and that of an outer epoch is not met if it is tighter.

use super::Plan;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use contend::nested::{KINDS, Nested, nested};
use contention::lock::Lock;
use report::{Report, Sheet, median};

/// The case's name.
const CASE: &str = "competing epochs";
/// Targets, as multiples of the 99th percentile in order of arrival: outer, short, long.
const TARGETS: [(&str, [f64; KINDS.len()]); 4] = [
    ("all 4x", [4.0, 4.0, 4.0]),
    ("outer 1.2x", [1.2, 4.0, 4.0]),
    ("short 1.2x", [8.0, 1.2, 8.0]),
    ("long 1.2x", [8.0, 8.0, 1.2]),
];
/// The locks that take targets: ours, and LibASL as it is printed.
const LOCKS: [Lock; 2] = [Lock::AslMcs, Lock::Libasl];
/// The number of runs whose median gives what targets are multiples of.
const PROBES: usize = 3;
const ROWS: &str = "
    version = version | runs [] = count rounds_per_s | rounds = rounds_per_s | of mcs [] = ratio rounds_per_s
    95 % [] = interval rounds_per_s | epoch = part | target = *slo_ns | p99 [of target] = *p99_ns / *slo_ns
    missed [%] = *missed_share | p50 = *p50_ns | p99 = *p99_ns | max = worst *max_ns";

impl Plan {
    /// Measures all versions.
    pub(super) fn competing(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.place.machine().is_some() {
            bench.note("competing epochs are measured on this machine only");
            return Ok(());
        }
        let once = |lock: Lock, slos_ns| {
            if crate::interrupt::requested() {
                return Err(Error::Interrupted);
            }
            nested(lock, &self.run, slos_ns).map_err(|what| Error::failed(format!("{}: {what}", lock.name())))
        };
        let probes: Vec<Nested> = (0..if self.quick { 1 } else { PROBES })
            .map(|_| once(Lock::Mcs, None))
            .collect::<Result<_, Error>>()?;
        let tail_ns = |kind: usize| {
            let tails = probes.iter().map(|found| found.little[kind].summary().p99_ns as f64);
            median(&tails.collect::<Vec<f64>>())
        };
        let base_ns: [f64; KINDS.len()] = std::array::from_fn(tail_ns);
        let mut versions = vec![(Lock::Mcs.name().to_owned(), Lock::Mcs, None)];
        for lock in LOCKS {
            versions.extend(TARGETS.map(|(name, times)| {
                let slos_ns: [u64; KINDS.len()] =
                    std::array::from_fn(|kind| (base_ns[kind] * times[kind]) as u64);
                (format!("{}, {name}", lock.name()), lock, Some(slos_ns))
            }));
        }
        let names: Vec<&str> = versions.iter().map(|(name, ..)| name.as_str()).collect();
        let case = Case { name: CASE, variants: &names, expected: self.run.time * 6 / 5 };
        bench.compare(
            case,
            |_| Vec::new(),
            |at, _| {
                let (_, lock, slos_ns) = versions[at];
                Ok(sample(&once(lock, slos_ns)?, slos_ns))
            },
        )
    }
}

fn sample(found: &Nested, slos_ns: Option<[u64; KINDS.len()]>) -> Sample {
    let mut sample = Sample::of([("rounds_per_s", found.rounds_per_s)]);
    for (kind, name) in KINDS.into_iter().enumerate() {
        let latencies = &found.little[kind];
        sample.add_tail(&format!("{name}_"), latencies);
        if let Some(slos_ns) = slos_ns {
            sample.add(format!("{name}_slo_ns"), slos_ns[kind] as f64);
            sample.add(
                format!("{name}_missed_share"),
                found.missed[kind] as f64 / latencies.count().max(1) as f64,
            );
        }
    }
    sample
}

/// Adds the table, if this was measured. Returns whether this is the case of that name.
pub(super) fn conclude(report: &mut Report, case: &str) -> bool {
    if case != CASE {
        return false;
    }
    let starts = KINDS.map(|name| format!("{name}_"));
    let parts: Vec<(&str, &str)> = KINDS.into_iter().zip(starts.iter().map(String::as_str)).collect();
    report.show(Sheet::new(ROWS).over(Lock::Mcs.name()).parts(&parts).of(report, CASE, &[CASE]));
    true
}
