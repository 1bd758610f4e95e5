//! The output of pgbench: a summary, and a log with a line for each transaction.
//!
//! pgbench writes `client transaction latency_us script second microsecond` at a transaction's end.
//! So each latency is exact to a microsecond, and the line tells the transaction's start, too.
//! Transactions that start in the first 200 ms do not count, because the server's processes are new
//! then and fill their caches. The measured time ends with the start of the last transaction.

use super::driver;
use crate::harness::Sample;
use report::Histogram;
use std::collections::BTreeMap;

/// The time after the first transaction's start in which transactions do not count.
const RAMP_US: u64 = 200_000;

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transaction {
    client: u32,
    begin_us: u64,
    latency_us: u64,
}

/// The figures of a run.
///
/// # Errors
/// A transaction failed, or the log and the summary disagree.
pub(super) fn sample(said: &str, log: &str) -> Result<Sample, String> {
    let failed = figure(said, "number of failed transactions:").unwrap_or(0);
    if failed > 0 {
        return Err(format!("{failed} transactions failed"));
    }
    let transactions = log.lines().map(transaction).collect::<Result<Vec<_>, _>>()?;
    let processed = figure(said, "number of transactions actually processed:");
    if processed != Some(transactions.len() as u64) {
        return Err(format!("its log has {} transactions, and it says {processed:?}", transactions.len()));
    }
    let begun = || transactions.iter().map(|transaction| transaction.begin_us);
    let (from, to) = (begun().min().unwrap_or(0) + RAMP_US, begun().max().unwrap_or(0));
    if from >= to {
        return Err("it ran too short to be measured".into());
    }
    let mut latencies = Histogram::new();
    let mut clients: BTreeMap<u32, u64> = transactions.iter().map(|of| (of.client, 0)).collect();
    for measured in transactions.iter().filter(|of| (from..to).contains(&of.begin_us)) {
        latencies.record(measured.latency_us * 1000);
        *clients.entry(measured.client).or_default() += 1;
    }
    let mut sample = driver::sample(&latencies, latencies.count() as f64 / ((to - from) as f64 / 1e6))?;
    let operations: Vec<u64> = clients.into_values().collect();
    sample.values.insert("slowest_of_mean".into(), driver::slowest_of_mean(&operations));
    Ok(sample)
}

/// The number behind a name.
fn figure(said: &str, name: &str) -> Option<u64> {
    said.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

fn transaction(line: &str) -> Result<Transaction, String> {
    let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[client, _, latency_us, _, second, microsecond]) => Ok(Transaction {
            client: client as u32,
            begin_us: (second * 1_000_000 + microsecond).saturating_sub(latency_us),
            latency_us,
        }),
        _ => Err(format!("'{line}': no line of its log")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 2
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 5
number of failed transactions: 0 (0.000%)
latency average = 3.012 ms
initial connection time = 89.001 ms
tps = 10625.644442 (without initial connection time)
";

    /// The first transaction starts in the first 200 ms, and the last two start when the measured
    /// time is over.
    const LOG: &str = "\
0 1 50000 0 1795415091 150000
1 1 30000 0 1795415091 400000
0 2 20000 0 1795415091 500000
1 2 900 0 1795415091 900900
0 3 1000 0 1795415091 901000
";

    #[test]
    fn a_line_tells_when_its_transaction_began() {
        let expected = Transaction { client: 9, begin_us: 1_795_415_091_283_689, latency_us: 54_277 };
        assert_eq!(transaction("9 1 54277 0 1795415091 337966"), Ok(expected));
        for line in ["", "9 1 54277 0 1795415091", "9 1 failed 0 1795415091 337966", "9 1 skipped 0 1 2"] {
            assert!(transaction(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_began_within_the_measured_time_counts() {
        let sample = sample(SAID, LOG).unwrap();
        let value = |name: &str| sample.values[name];
        assert_eq!((value("count"), value("max_ns")), (2.0, 30e6));
        // From 0.3 s to 0.9 s.
        assert!((value("throughput_per_s") - 2.0 / 0.6).abs() < 1e-6, "{}", value("throughput_per_s"));
        assert_eq!(value("slowest_of_mean"), 1.0);
    }

    #[test]
    fn failed_transactions_and_a_log_that_does_not_add_up_are_failures() {
        let refused = |said: &str, log: &str| sample(said, log).unwrap_err();
        assert!(
            refused(&SAID.replace("failed transactions: 0", "failed transactions: 7"), LOG)
                .contains("7 trans")
        );
        assert!(refused(&SAID.replace("processed: 5", "processed: 6"), LOG).contains("Some(6)"));
        assert!(refused("", LOG).contains("None"));
        let few = SAID.replace("processed: 5", "processed: 1");
        assert!(refused(&few, &LOG[..30]).contains("too short"));
    }
}
