//! `manx bench wait`: what each way of waiting costs, in turn. How late a waiter notices, and the
//! CPU it burns until then, for waits from 100 ns to 10 ms, with 1, 2 and 8 waiting threads on 2
//! CPUs.
//!
//! What is measured, and how, stands in [`waits`]; this file takes care that policies
//! alternate, keeps all delays, and draws the tables.

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::verdict;
use crate::waits::{self, Measurement, WAITERS, WAITS_NS, WaitPolicy};
use report::figure::duration;
use report::{Report, Sheet};
use std::time::Duration;

/// One measurement takes about this time, or one round.
const EACH: Duration = Duration::from_millis(200);
/// The same in a smoke check.
const EACH_QUICK: Duration = Duration::from_millis(40);
/// The most rounds of a measurement.
const ROUNDS_MAX: u64 = 200_000;
/// The policy that the others are compared with: what `manx::wait` does unless it is told
/// otherwise.
const REFERENCE: WaitPolicy = WaitPolicy::Adaptive;

/// What the experiment needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// A smoke check
    pub quick: bool,
}

/// Measures one policy: the length of the waits, the number of waiters, and about how long to go
/// on.
type Measure<'a> = dyn FnMut(WaitPolicy, u64, usize, Duration) -> Measurement + 'a;

/// The name of a case.
pub fn case(wait_ns: u64, threads: usize) -> String {
    format!("{}, {threads} {}", duration(wait_ns), if threads == 1 { "thread" } else { "threads" })
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note("delay: from the end of the wait to the moment when the waiter goes on; CPU: of one waiter, while it waits");
    cases(setup, bench, &mut |policy, wait_ns, waiters, each| {
        waits::measure(policy, wait_ns, waiters, ROUNDS_MAX, each.as_nanos() as u64)
    })
}

fn cases(setup: Setup, bench: &mut Bench, measure: &mut Measure) -> Result<(), Error> {
    let names: Vec<&str> = WaitPolicy::ALL.iter().map(|policy| policy.name()).collect();
    let each = if setup.quick { EACH_QUICK } else { EACH };
    for waiters in WAITERS {
        for wait_ns in WAITS_NS {
            let name = case(wait_ns, waiters);
            let case = Case { name: &name, variants: &names, expected: each };
            // No target is about a way of waiting, so there is no ratio to go on for.
            bench.compare(
                case,
                |_| Vec::new(),
                |variant, _| Ok(sample(&measure(WaitPolicy::ALL[variant], wait_ns, waiters, each))),
            )?;
        }
    }
    Ok(())
}

fn sample(found: &Measurement) -> Sample {
    let summary = found.delays.summary();
    let mut sample = Sample::of([
        ("waits", summary.count as f64),
        ("mean_ns", summary.mean_ns),
        ("cpu_share", found.cpu_share()),
    ]);
    sample.add_tail("", &found.delays);
    sample.with(&found.delays)
}

const TABLE: &str = "
    wait = case | policy = version | runs [] = count max_ns | mean [µs] = mean_ns | p50 [µs] = p50_ns
    of adaptive [] = ratio p50_ns | 95 % [] = interval p50_ns
    p99 [µs] = p99_ns | max [µs] = max_ns | CPU [%] = cpu_share";

/// Draws a table for each number of threads, and judges the targets.
pub fn conclude(report: &mut Report) {
    for threads in WAITERS {
        let words = if threads == 1 { "thread" } else { "threads" };
        let title = format!("Wake-up delay and CPU, {threads} waiting {words} on 2 CPUs");
        let cases = WAITS_NS.map(|wait_ns| case(wait_ns, threads));
        let mut table = Sheet::new(TABLE).over(REFERENCE.name()).of(report, &title, &cases);
        // The title says how many threads there are.
        for row in &mut table.rows {
            row[0] = row[0].split(',').next().unwrap_or_default().to_owned();
        }
        report.show(table);
    }
    verdict::judge(report, |_, _| None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Silent;
    use report::Histogram;

    #[test]
    fn every_case_measures_every_policy_and_compares_it_with_the_adaptive_one() {
        let mut progress = Silent;
        let mut bench = Bench::new("wait", report::Machine::default(), None, &mut progress);
        let mut asked = Vec::new();
        let result = cases(Setup { quick: true }, &mut bench, &mut |policy, wait_ns, waiters, _| {
            asked.push((policy, wait_ns, waiters));
            let delay_ns = if policy == WaitPolicy::Sleep { 60_000 } else { 500 };
            let mut delays = Histogram::new();
            delays.record_many(delay_ns, 4);
            Measurement { delays, cpu_ns: 50, wall_ns: 100, rounds: 4 }
        });
        let mut report = bench.finish(&result);
        let cases = WAITERS.len() * WAITS_NS.len();
        assert_eq!(asked.len(), 5 * cases * WaitPolicy::ALL.len());
        assert_eq!(asked.iter().filter(|(policy, ..)| *policy == REFERENCE).count(), 5 * cases);
        conclude(&mut report);
        assert_eq!(report.tables.len(), WAITERS.len());
        let of = |policy: &str| {
            let row = report.tables[2].rows.iter().find(|row| row[1] == policy).unwrap();
            row[2..].iter().map(String::as_str).collect::<Vec<_>>()
        };
        assert_eq!(of("sleep"), ["5", "60.0", "60.0", "120", "120 to 120", "60.0", "60.0", "50.0"]);
        assert_eq!(of(REFERENCE.name())[2..5], ["0.500", "1", "-"]);
    }
}
