//! The output of sysbench at the end of a run.
//!
//! Its histogram has 1,024 buckets on a logarithmic scale from 1 µs to 100 s, so percentiles are
//! exact to 1 %. The smallest and the largest latency are exact. The rate is per second between the
//! start of the threads and the end of the last thread. The connections are made before that.

use super::driver;
use crate::harness::Sample;
use report::{Counts, Histogram};

/// The number of MariaDB's error for a transaction that MariaDB rolled back because of a deadlock.
pub(super) const DEADLOCK: u32 = 1213;

/// The figures of a run.
///
/// # Errors
/// sysbench lost a connection, or a figure is missing or wrong.
pub(super) fn sample(said: &str) -> Result<Sample, String> {
    let reconnects = figure(said, "reconnects:")?;
    if reconnects > 0.0 {
        return Err(format!("it lost the connection {reconnects} times"));
    }
    let latencies = Histogram::try_from(&Counts {
        count: figure(said, "total number of events:")? as u64,
        min_ns: ns(figure(said, "min:")?),
        max_ns: ns(figure(said, "max:")?),
        sum_ns: ns(figure(said, "sum:")?),
        counts: buckets(said)?,
    })?;
    let mut sample = driver::sample(&latencies, rate(said)?)?;
    sample.values.insert("conflicts".into(), figure(said, "ignored errors:")?);
    Ok(sample)
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// The words behind a name.
fn words<'a>(said: &'a str, name: &str) -> Result<std::str::SplitWhitespace<'a>, String> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix(name));
    Ok(line.ok_or_else(|| format!("it does not say '{name}'"))?.split_whitespace())
}

fn figure(said: &str, name: &str) -> Result<f64, String> {
    let first = words(said, name)?.next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("no number behind '{name}'"))
}

/// `transactions:  678  (647.23 per sec.)`
fn rate(said: &str) -> Result<f64, String> {
    let rate = words(said, "transactions:")?.nth(1).and_then(|word| word.strip_prefix('(')?.parse().ok());
    rate.ok_or_else(|| "no rate behind 'transactions:'".into())
}

/// `       5.277 |***                                      1`
fn buckets(said: &str) -> Result<Vec<(u64, u64)>, String> {
    let lines = said.lines().skip_while(|line| !line.starts_with("Latency histogram")).skip(2);
    let bucket = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        Some((ns(value.trim().parse().ok()?), rest.split_whitespace().last()?.parse().ok()?))
    };
    let lines = lines.take_while(|line| !line.trim().is_empty());
    lines.map(|line| bucket(line).ok_or_else(|| format!("'{line}': no bucket of a histogram"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 32
Initializing random number generator from seed (1).


Initializing worker threads...

Threads started!

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.042 |                                         1
       0.523 |**************************************** 98
     102.969 |*                                        1
 
SQL statistics:
    queries performed:
        read:                            1400
        write:                           400
        other:                           200
        total:                           2000
    transactions:                        100    (95.24 per sec.)
    queries:                             2000   (1904.80 per sec.)
    ignored errors:                      2      (1.90 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          1.0500s
    total number of events:              100

Latency (ms):
         min:                                    0.04
         avg:                                    1.54
         max:                                  103.41
         99th percentile:                        0.52
         sum:                                  154.20

Threads fairness:
    events (avg/stddev):           3.1250/1.98
    execution time (avg/stddev):   1.0221/0.01

";

    #[test]
    fn a_run_has_its_rate_and_its_latencies() {
        let sample = sample(SAID).unwrap();
        let value = |name: &str| sample.values[name];
        assert_eq!((value("throughput_per_s"), value("count"), value("conflicts")), (95.24, 100.0, 2.0));
        assert_eq!(value("max_ns"), 103_410_000.0);
        assert!((value("p50_ns") / 523_000.0 - 1.0).abs() < 0.01, "{}", value("p50_ns"));
        assert!(value("p999_ns") > 102e6 && value("p999_ns") <= value("max_ns"));
        assert!(sample.output.unwrap().get().contains("103410000"));
    }

    #[test]
    fn a_lost_connection_and_what_does_not_add_up_are_failures() {
        let refused = |from: &str, to: &str| sample(&SAID.replace(from, to)).unwrap_err();
        assert!(refused("reconnects:                          0", "reconnects: 3").contains("3 times"));
        assert!(refused("|**************************************** 98", "| 97").contains("99 values"));
        assert!(refused("0.523 |", "0.523 ").contains("no bucket"));
        assert!(refused("transactions:", "transaction:").contains("'transactions:'"));
        assert!(refused("(95.24 per", "per").contains("no rate"));
        assert!(sample("FATAL: unable to connect").is_err());
    }
}
