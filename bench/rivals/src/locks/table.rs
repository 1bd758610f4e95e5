//! The table of a case: a row for each lock, thread count and placement.

use std::collections::BTreeMap;

use serde::Serialize;

use super::outcome::{Outcome, Placement};
use super::round::Entry;
use crate::handover::median;

/// All runs of a lock at a thread count, of one placement.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// How many threads.
    pub threads: usize,
    /// The lock.
    pub lock: String,
    /// Whether throughput is compared with it.
    pub barging: bool,
    /// Where the CPUs were.
    pub placement: Option<Placement>,
    /// The runs.
    pub runs: Vec<Outcome>,
    /// The round of each of them.
    pub rounds: Vec<usize>,
    /// Why runs failed.
    pub failures: Vec<String>,
}

impl Row {
    /// The median of something over the runs.
    pub fn of(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.runs.iter().map(value))
    }
}

/// Runs of one placement are never put together with those of another; `results` are by round.
pub fn rows(
    case: &'static str,
    threads: usize,
    entry: &Entry,
    results: Vec<Result<Outcome, String>>,
) -> Vec<Row> {
    let row = |placement, (rounds, runs), failures| Row {
        case,
        threads,
        lock: entry.name.clone(),
        barging: entry.barging,
        placement,
        runs,
        rounds,
        failures,
    };
    let (mut groups, mut failures) = (BTreeMap::<Placement, (Vec<usize>, Vec<Outcome>)>::new(), Vec::new());
    for (round, result) in results.into_iter().enumerate() {
        match result {
            Ok(outcome) => {
                let (rounds, runs) = groups.entry(outcome.placement()).or_default();
                rounds.push(round);
                runs.push(outcome);
            }
            Err(why) => failures.push(why),
        }
    }
    let mut rows: Vec<Row> =
        groups.into_iter().map(|(placement, runs)| row(Some(placement), runs, Vec::new())).collect();
    if !failures.is_empty() {
        rows.push(row(None, Default::default(), failures));
    }
    rows
}

/// The rows of one case, thread count after thread count; near and far apart.
pub fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>7} {:6} {:18} {:>4} {:>11} {:>8} {:>9} {:>9} {:>9} {:>10} {:>7} {:>7} {:>8}\n",
        "threads",
        "place",
        "lock",
        "runs",
        "epochs/s",
        "/best",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "/mean",
        "/fast",
        "pair ns"
    );
    for row in rows {
        let place = row.placement.map_or("-".into(), |place| format!("{place:?}").to_lowercase());
        let head = format!("{:>7} {place:6} {:18}", row.threads, row.lock);
        if let Some(why) = row.failures.first() {
            text += &format!("{head} {} failed: {why}\n", row.failures.len());
            continue;
        }
        let rate = row.of(|run| run.epochs_per_s);
        let best = rows
            .iter()
            .filter(|peer| peer.barging && (peer.threads, peer.placement) == (row.threads, row.placement))
            .filter(|peer| !peer.runs.is_empty())
            .map(|peer| peer.of(|run| run.epochs_per_s))
            .fold(f64::NAN, f64::max);
        let us = |value: fn(&Outcome) -> f64| row.of(value) / 1e3;
        text += &format!(
            "{head} {:4} {rate:11.0} {:>8} {:>9} {:>9} {:>9} {:>10} {:7.2} {:7.2} {:>8}\n",
            row.runs.len(),
            cell(rate / best, 2),
            cell(us(|run| run.all.p50_ns), 2),
            cell(us(|run| run.all.p99_ns), 2),
            cell(us(|run| run.all.p999_ns), 1),
            cell(us(|run| run.all.max_ns), 1),
            row.of(|run| run.slowest_over_mean),
            row.of(|run| run.slowest_over_fastest),
            cell(row.of(|run| run.pair_ns), 2),
        );
        let pairs = || row.runs.iter().map(|run| run.pair_ns);
        let (fastest, slowest) = (pairs().fold(f64::INFINITY, f64::min), pairs().fold(0.0, f64::max));
        if slowest > 0.0 {
            text += &format!("{:33} pair from {fastest:.2} to {slowest:.2} ns\n", "");
        }
        if row.of(|run| run.little_part) > 0.0 {
            text += &format!(
                "{:33} big {:.0}/s, p99 {:.1} µs; little {:.0}/s, p99 {:.1} µs, part {:.2}\n",
                "",
                row.of(|run| run.epochs_per_s * (1.0 - run.little_part)),
                us(|run| run.big.p99_ns),
                row.of(|run| run.epochs_per_s * run.little_part),
                us(|run| run.little.p99_ns),
                row.of(|run| run.little_part),
            );
        }
    }
    text
}

/// A figure, or a dash where the case has none or there is no peer to compare with.
fn cell(value: f64, digits: usize) -> String {
    if value > 0.0 { format!("{value:.digits$}") } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_case_lacks_is_a_dash() {
        assert_eq!([cell(1.25, 1), cell(0.0, 2), cell(f64::NAN, 2)], ["1.2", "-", "-"]);
    }
}
