//! A run's figures from Manx's own statistics, for a program that prints none.
//!
//! Under `manx run --stats=FILE` the preload library counts the epochs and requests that end, with
//! their latencies. Each process that the program starts writes a file of its own, and one that was
//! killed leaves its live file. `manx stats --json` reads both kinds.
//!
//! 1. The throughput is the number of epochs over the time from the end of the first one to the end
//!    of the last one: how long the program took to start does not count.
//! 2. A latency is known by its bucket, whose end is 9 % above its beginning. Within a bucket a
//!    percentile is interpolated, in equal ratios; the maximum is exact.

use super::schema::{Measured, Sweep};
use crate::error::{Error, reason};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A bucket's end over its beginning: 2^(1/8).
const BUCKET_RATIO: f64 = 1.090_507_732_665_257_7;
/// What the name of a live file ends with.
const LIVE: &str = "live";

/// The part of the statistics that is needed.
#[derive(Deserialize)]
struct Statistics {
    epochs: Vec<Epochs>,
}

/// The epochs of one id, or the requests.
#[derive(Deserialize)]
struct Epochs {
    name: String,
    longest_ns: u64,
    span_ns: Option<u64>,
    /// Where each bucket ends, and its count
    latency_histogram: Vec<(u64, u64)>,
}

/// Reads the statistics of all processes of a run.
///
/// # Errors
/// If they cannot be read, or there are no epochs to measure.
pub fn read(manx: &Path, folder: &Path, sweep: &Sweep) -> Result<Measured, Error> {
    let name = sweep.epoch.map_or_else(|| "requests".to_owned(), |id| id.to_string());
    let mut all = Vec::new();
    for file in files(folder).map_err(|error| Error::request(reason(&error), "the folder of statistics"))? {
        let statistics = statistics(manx, &file)?;
        all.extend(statistics.epochs.into_iter().filter(|epochs| epochs.name == name));
    }
    of(&all, sweep.percentile).map_err(|why| {
        let asked = sweep.epoch.map_or_else(
            || "requests: reads from sockets that the same thread answers".to_owned(),
            |id| format!("epochs {id}: calls of manx_epoch_start and manx_epoch_end"),
        );
        let what = format!("{}: it printed no result, and Manx counted {why} {asked}", sweep.program[0]);
        Error::request(what, "`manx profile --help` says what a program may print, and what --measure is")
    })
}

/// The files with statistics. A live file has at least what the file that was written from it has.
fn files(folder: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let all = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let all: BTreeSet<PathBuf> = all.collect::<Result<_, _>>()?;
    let is_live = |file: &Path| file.extension().is_some_and(|it| it == LIVE);
    let has_live = |file: &PathBuf| {
        let mut live = file.clone().into_os_string();
        live.push(format!(".{LIVE}"));
        all.contains(Path::new(&live))
    };
    Ok(all.iter().filter(|file| is_live(file) || !has_live(file)).cloned().collect())
}

fn statistics(manx: &Path, file: &Path) -> Result<Statistics, Error> {
    let failed = |why: String| Error::failed(format!("{}: {why}", file.display()));
    let mut command = Command::new(manx);
    command.args(["stats", "--json"]).arg(file).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(reason(&error)))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// The figures of these epochs together; an error says which there are instead.
fn of(all: &[Epochs], percentile: u16) -> Result<Measured, &'static str> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for (end_ns, count) in all.iter().flat_map(|epochs| &epochs.latency_histogram) {
        *buckets.entry(*end_ns).or_default() += count;
    }
    let count: u64 = buckets.values().sum();
    let span_ns = all.iter().filter_map(|epochs| epochs.span_ns).max().unwrap_or(0);
    match count {
        0 => return Err("no"),
        _ if span_ns == 0 => return Err("too few"),
        _ => {}
    }
    let max_ns = all.iter().map(|epochs| epochs.longest_ns).max().unwrap_or(0);
    Ok(Measured {
        throughput_per_s: count as f64 / (span_ns as f64 / 1e9),
        tail_ns: percentile_ns(&buckets, count, f64::from(percentile) / 1e4).min(max_ns as f64),
        max_ns: Some(max_ns),
    })
}

/// The latency that a share of these did not exceed, interpolated within its bucket.
fn percentile_ns(buckets: &BTreeMap<u64, u64>, count: u64, share: f64) -> f64 {
    let wanted = share * count as f64;
    let mut below = 0;
    for (&end_ns, &here) in buckets {
        if (below + here) as f64 >= wanted {
            let part = ((wanted - below as f64) / here as f64).clamp(0.0, 1.0);
            return end_ns as f64 * BUCKET_RATIO.powf(part - 1.0);
        }
        below += here;
    }
    buckets.keys().next_back().map_or(0.0, |&end_ns| end_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(longest_ns: u64, span_ns: Option<u64>, latency_histogram: &[(u64, u64)]) -> Epochs {
        let latency_histogram = latency_histogram.to_vec();
        Epochs { name: "7".into(), longest_ns, span_ns, latency_histogram }
    }

    #[test]
    fn processes_are_put_together() {
        let one = epochs(900, Some(2_000_000_000), &[(500, 90), (1_000, 9)]);
        let other = epochs(5_000, Some(1_000_000_000), &[(1_000, 100), (5_000, 1)]);
        let measured = of(&[one, other], 9950).unwrap();
        assert_eq!((measured.throughput_per_s, measured.max_ns), (100.0, Some(5_000)));
        // 199 of the 200 are in the first two buckets.
        assert_eq!(measured.tail_ns, 1_000.0);
        let one = [epochs(400, Some(1), &[(500, 10)])];
        assert_eq!(of(&one, 9999).unwrap().tail_ns, 400.0, "no more than the longest");
        let half = of(&[epochs(500, Some(1), &[(500, 10)])], 5000).unwrap().tail_ns;
        assert!(half < 500.0 && half > 500.0 / BUCKET_RATIO, "{half}");
    }

    #[test]
    fn nothing_is_no_figure() {
        assert_eq!(of(&[], 9900).unwrap_err(), "no");
        assert_eq!(of(&[epochs(5, None, &[])], 9900).unwrap_err(), "no");
        // A single one has no time from its end to its end.
        assert_eq!(of(&[epochs(5, Some(0), &[(5, 1)])], 9900).unwrap_err(), "too few");
    }

    #[test]
    fn a_live_file_stands_for_the_file_written_from_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["s", "s.live", "s.41", "s.42.live"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<PathBuf> = files(folder.path()).unwrap().into_iter().collect();
        assert_eq!(names, ["s.41", "s.42.live", "s.live"].map(|name| folder.path().join(name)));
    }
}
