//! The part `file`: regions of each thread's own, and regions that overlap, under every lock, the
//! kernel's, and one mutex.

use serde::Serialize;

use super::super::apart::run_apart;
use super::super::case::{FILE, scaled};
use super::super::plan::{Plan, expected, names};
use super::super::variant::Variant;
use super::{Kernel, Measurement, Regions, Run, Whole, place};
use crate::error::Error;
use crate::harness::{Bench, Sample};
use report::Histogram;

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
    sample.add_tail("write_", &found.write);
    sample.with(&Output { write: found.write })
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
        let mut names = names(&competitors);
        names.extend([KERNEL, WHOLE]);
        self.compare_by(bench, case, &names, expected(run.time), |at| {
            let failed = |what| Error::failed(format!("{}, {case}: {what}", names[at]));
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
