//! The part `blob`: sizes of records across the last cache's, more and more threads, objects that
//! are really aliased, and an area with fewer places than threads.

use serde::Serialize;
use std::fs;

use super::super::apart::run_apart;
use super::super::case::{BLOB, THESIS, blob as case, scaled};
use super::super::competitor::Competitor;
use super::super::plan::{Plan, expected, names};
use super::super::variant::Variant;
use super::{
    Assembly, Measurement, Run,
    pool::{PAGE, Pool},
};
use crate::error::Error;
use crate::harness::{Bench, Sample};
use baselines::range::{Bitmap, Segments};
use report::Histogram;
use report::cell::size;

/// Sizes of records. The thesis' is 1 MiB.
const SIZES: [usize; 6] = [4 << 10, 32 << 10, 256 << 10, THESIS, 2 << 20, 4 << 20];
const SIZES_QUICK: [usize; 2] = [4 << 10, THESIS];
/// The number of records, as in the thesis, and the largest number of bytes that they may take.
const RECORDS: usize = 1000;
const POOL_BYTES_MAX: usize = 1 << 30;
const POOL_BYTES_MAX_QUICK: usize = 16 << 20;
/// Places of the area for each thread, where they are not scarce.
const PLACES: usize = 4;

/// The histograms of a run.
#[derive(Serialize)]
struct Output {
    reserve: Histogram,
    read: Histogram,
}

/// A run as figures by name.
fn sample(found: Measurement) -> Sample {
    let mut sample = Sample::of([
        ("reads_per_s", found.reads_per_s),
        ("bytes_per_s", found.bytes_per_s),
        ("slowest_share", found.slowest_share),
        ("taken", found.taken as f64),
        ("waited", found.waited as f64),
    ]);
    sample.add_tail("reserve_", &found.reserve);
    sample.add_tail("read_", &found.read);
    sample.with(&Output { reserve: found.reserve, read: found.read })
}

/// The last level's cache of the first CPU, as the kernel tells its size.
fn last_cache() -> Option<String> {
    let read = |file: String| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let folder = |index: usize| format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
    let last = (0..8).map_while(|index| read(format!("{}/level", folder(index))).map(|level| (level, index)));
    let (level, index) = last.max()?;
    Some(format!("L{level} has {}", read(format!("{}/size", folder(index)))?))
}

impl Plan {
    /// Objects in a shared aliasing area.
    pub(in crate::range) fn blob(&self, bench: &mut Bench) -> Result<(), Error> {
        let (sizes, pool_bytes_max) = if self.setup.quick {
            (&SIZES_QUICK[..], POOL_BYTES_MAX_QUICK)
        } else {
            (&SIZES[..], POOL_BYTES_MAX)
        };
        bench.note(format!(
            "{BLOB}: {RECORDS} records, or as many as {} have room for; {PLACES} places a thread, unless they are scarce; \
             keys are pages of the area; {}",
            size(pool_bytes_max as f64),
            last_cache().unwrap_or_else(|| "the kernel does not say how large its caches are".into())
        ));
        for &record_bytes in sizes {
            let records = (pool_bytes_max / record_bytes).clamp(1, RECORDS);
            let pool = Pool::new(record_bytes, records)
                .map_err(|what| Error::request(what, "free some memory, or leave the part out"))?;
            for &threads in &self.setup.threads {
                let run = Run {
                    pool: &pool,
                    assembly: Assembly::Copy,
                    threads,
                    places: PLACES * threads,
                    key_bytes: PAGE,
                    time: self.setup.time,
                    every_word: self.setup.check,
                };
                self.objects(bench, &scaled(&case(record_bytes), threads), &run)?;
                if record_bytes == THESIS {
                    let alias = Run { assembly: Assembly::Alias, ..run };
                    let named = format!("{BLOB} aliased, {}", size(record_bytes as f64));
                    self.objects(bench, &scaled(&named, threads), &alias)?;
                    let scarce = Run { assembly: Assembly::Copy, places: threads.div_ceil(2), ..alias };
                    if threads > 1 {
                        let named = format!("{BLOB}, a place for two, {}", size(record_bytes as f64));
                        self.objects(bench, &scaled(&named, threads), &scarce)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn objects(&self, bench: &mut Bench, case: &str, run: &Run) -> Result<(), Error> {
        let competitors = Variant::locks();
        self.compare_by(bench, case, &names(&competitors), expected(run.time), |at| {
            let variant = &competitors[at];
            let failed = |what| Error::failed(format!("{}, {case}: {what}", variant.name));
            let found = run_apart(variant.competitor.leaks(), || match variant.competitor {
                // In their own unit: a bit, or a word, for each place.
                Competitor::Bitmap => run.with_lock(&Bitmap::of_width(run.space(), run.keys())),
                Competitor::Segments => run.with_lock(&Segments::of_width(run.space(), run.keys())),
                other => other.measure(run.space(), run),
            });
            let found = found.map_err(failed)?;
            if self.setup.check {
                let checked = found.checked as f64;
                return Ok(Sample::of([("checked_pairs", checked), ("violations", found.wrong as f64)]));
            }
            if found.wrong > 0 {
                return Err(failed(format!("{} reads brought bytes of another record", found.wrong)));
            }
            Ok(sample(found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{conclude, draw};
    use super::*;
    use report::{Machine, Report};

    #[test]
    fn objects_have_a_table_a_picture_and_are_judged_against_the_bitmap() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(&case(THESIS), 8);
        for (name, reads_per_s) in [("manx", 300.0), ("bitmap", 200.0), ("map", 100.0)] {
            report.add(&case, name, 0, &[("reads_per_s", reads_per_s)]);
        }
        conclude(&mut report);
        assert_eq!(report.tables[0].title, case);
        assert_eq!(report.tables[0].rows[0][..5], ["manx", "1", "300/s", "3.00", "-"]);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "range-blob-8").unwrap();
        assert_eq!(verdict.measured, Some(1.5));
        assert!(draw(&report).iter().any(|(name, _)| name == "blob"));
    }
}
