//! The part `file`: regions of each thread's own, and regions that overlap, under every lock, the
//! kernel's, and one mutex.

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::apart::run_apart;
use super::super::conclude::{scaled, worst};
use super::super::{Plan, REFERENCE, Variant};
use super::{Kernel, Measurement, Regions, Run, Whole, place};
use crate::cell::{number, size, throughput, time};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::verdict::{middle, over};
use report::{Histogram, Report, Table};

/// What every case of this part begins with.
pub(in crate::range) const FILE: &str = "file";
/// The keepers that are no range lock of the process.
pub(in crate::range) const KERNEL: &str = "fcntl OFD";
pub(in crate::range) const WHOLE: &str = "one mutex";
/// The file, in blocks of 4 KiB: 64 MiB, and 1 MiB where threads are to meet.
const BLOCKS: usize = 16 * 1024;
const BLOCKS_SHARED: usize = 256;
const BLOCKS_QUICK: usize = 1024;

/// The name of the cases with these regions.
pub(in crate::range) fn case(regions: Regions) -> String {
    let words = match regions {
        Regions::Own => "own regions",
        Regions::Anywhere => "overlapping",
    };
    format!("{FILE}, {words}")
}

/// The histogram of a run.
#[derive(Serialize)]
struct Output {
    write: Histogram,
}

fn sample(found: Measurement) -> Sample {
    let mut sample = Sample::of([
        ("writes_per_s", found.writes_per_s),
        ("bytes_per_s", found.bytes_per_s),
        ("slowest_share", found.slowest_share),
    ]);
    if found.write.count() > 0 {
        let summary = found.write.summary();
        for (name, ns) in [
            ("write_p50_ns", summary.p50_ns),
            ("write_p99_ns", summary.p99_ns),
            ("write_p999_ns", summary.p999_ns),
            ("write_max_ns", summary.max_ns),
        ] {
            sample.values.insert(name.to_owned(), ns as f64);
        }
    }
    let output = Output { write: found.write };
    sample.output = serde_json::to_string(&output).ok().and_then(|text| RawValue::from_string(text).ok());
    sample
}

impl Plan {
    /// Writes to one file.
    pub(in crate::range) fn file(&self, bench: &mut Bench) -> Result<(), Error> {
        for (regions, blocks) in [(Regions::Own, BLOCKS), (Regions::Anywhere, BLOCKS_SHARED)] {
            let blocks = if self.setup.quick { blocks.min(BLOCKS_QUICK) } else { blocks };
            for &threads in &self.setup.threads {
                let run = Run { threads, regions, blocks, time: self.setup.time, folder: None };
                bench.note(format!(
                    "{FILE}: writes of 4 to 64 KiB, by two calls of pwrite, to one file in {}",
                    place(&run)
                ));
                self.writes(bench, &scaled(&case(regions), threads), &run)?;
            }
        }
        Ok(())
    }

    fn writes(&self, bench: &mut Bench, case: &str, run: &Run) -> Result<(), Error> {
        let competitors = Variant::locks();
        let mut names: Vec<&str> = competitors.iter().map(|variant| variant.name.as_str()).collect();
        names.extend([KERNEL, WHOLE]);
        let watch = |report: &Report| self.watched(report, case);
        let compared = Case { name: case, variants: &names, expected: run.time * 3 / 2 };
        bench.compare(compared, watch, |at, _| {
            let failed = |what| Error::Failed {
                what: format!("{}, {case}: {what}", names[at]),
                stderr: String::new(),
            };
            let found = match names[at] {
                KERNEL => run.with_keeper(&Kernel),
                WHOLE => run.with_keeper(&Whole::default()),
                _ => {
                    let competitor = competitors[at].competitor;
                    run_apart(competitor.leaks(), || competitor.measure(run.space(), run))
                }
            };
            let found = found.map_err(failed)?;
            if self.setup.check {
                let checked = found.checked as f64;
                return Ok(Sample::of([("checked_pairs", checked), ("violations", found.torn as f64)]));
            }
            if found.torn > 0 {
                return Err(failed(format!("{} writes were torn", found.torn)));
            }
            Ok(sample(found))
        })
    }
}

/// The table of a case.
pub(in crate::range) fn table(report: &Report, case: &str) -> Table {
    let headers = [
        "lock",
        "runs []",
        "writes",
        "of map []",
        "95 % []",
        "written",
        "slowest [x]",
        "written p50",
        "p99",
        "p99.9",
        "max",
        "worst max",
    ];
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let [of_reference, interval] = match name == REFERENCE.name() {
            true => ["1".into(), "-".into()],
            false => over(report, case, &name, REFERENCE.name(), "writes_per_s"),
        };
        table.row([
            name.clone(),
            report.values(case, &name, "writes_per_s").len().to_string(),
            throughput(value("writes_per_s")),
            of_reference,
            interval,
            format!("{}/s", size(value("bytes_per_s"))),
            number(value("slowest_share")),
            time(value("write_p50_ns")),
            time(value("write_p99_ns")),
            time(value("write_p999_ns")),
            time(value("write_max_ns")),
            time(worst(report, case, &name, "write_max_ns")),
        ]);
    }
    table
}
