//! Reads of large objects, each shown to its reader in one piece of a shared area of addresses.
//!
//! A storage engine that keeps large objects in extents (`pool`) has to show each object to its
//! readers in one piece. LeanStore does so in an *aliasing area*: a worker reserves a part of the
//! area for the object, maps the extents there one behind the other, shows them to the reader, and
//! releases the part (Nguyen and Leis, "Why files if you have a DBMS?", 2024). A range lock keeps
//! two workers from reserving the same addresses. The workload is that of section 5.4 of Nguyen's
//! thesis "Concurrent range locking": reads only, a `memcpy` into the client's buffer for each.
//!
//! How a worker finds its part ([`area`]) is LeanStore's algorithm (`src/buffer/alias_area.cc`): a
//! local area first, then a cursor that all workers share. The keys of the lock are the area's
//! pages. LeanStore's virtual area is as large as its buffer pool, 128 GiB in the thesis, and so it
//! is here where only addresses are reserved ([`Assembly::Reserve`]).
//!
//! The author's fork of LeanStore, with which figure 5.4 was measured, has another algorithm for
//! the thesis' lock, Kogan's and Song's: a worker draws pages anywhere in the whole area until it
//! finds them free ([`Search::Random`]). The bitmap alone has LeanStore's own, and with its default
//! of 1 GiB for a local area it serves each object of 1 MiB from there: **it never takes a bit**.
//! So figure 5.4 compares three locks with no lock. The case *as the fork* makes that again.
//!
//! Differences from the thesis: its engine changes page tables by its own kernel module, and
//! nothing else is as cheap. So here addresses are reserved and nothing is mapped, and the client
//! copies from the extents. There is no log, no buffer replacement and no index. Where extents are
//! copied into the area first ([`Assembly::Copy`]) or really mapped by `mmap` ([`Assembly::Alias`],
//! which takes a lock in the kernel and interrupts the other CPUs), the area is small, and each
//! read is checked. Locks of blocks have the blocks of the area, as LeanStore's bitmap has.
//!
//! Invariants:
//! 1. A part of the area is written, mapped and read only by the worker that has reserved it.
//! 2. The client gets the bytes of the record that it asked for: every read through the area checks
//!    two words of every page. If a lock gives one page to two workers, a read is wrong.

pub mod area;
pub mod pool;

use super::case::{BLOB, THESIS, blob as case, scaled};
use super::competitor::{Competitor, Measured};
use super::plan::{Checked, Plan, expected, names};
use super::request::dice;
use super::run::run_apart;
use super::variant::{BLOCKS_OWN, Variant};
use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::machine::one_each;
use area::{Area, Cursor, Layout, Search, Searcher};
use baselines::range::{Bitmap, Segments};
use contend::workers::{self, Phases};
use manx::range::{Options, RangeLock, RawRangeLock};
use platform::clock::{ticks, ticks_to_ns};
use pool::{PAGE, Pool};
use report::Histogram;
use report::sheet::size;
use std::fs;
use std::time::Duration;

/// How an object comes to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assembly {
    /// Its addresses are reserved, and the client copies from the extents.
    Reserve,
    /// Its extents are copied into the area.
    Copy,
    /// Its extents are mapped there.
    Alias,
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The objects.
    pub pool: &'a Pool,
    /// How they come to their readers.
    pub assembly: Assembly,
    /// The area's parts.
    pub layout: Layout,
    /// How a worker finds pages.
    pub search: Search,
    /// How many threads read them.
    pub threads: usize,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
    /// Whether every word of every object is checked; the measured time includes this.
    pub every_word: bool,
}

#[derive(Default)]
struct Record {
    reads: u64,
    reserve: Histogram,
    read: Histogram,
    taken: u64,
    checked: u64,
    wrong: u64,
}

impl Record {
    /// The part of the warm-up that counts.
    fn begin(&self) -> Record {
        Record { checked: self.checked, wrong: self.wrong, ..Record::default() }
    }
}

/// A worker: where it looks for pages, and its record.
struct Worker<'a, L> {
    run: &'a Run<'a>,
    searcher: Searcher<'a, L>,
    /// None if addresses are only reserved.
    area: Option<&'a Area>,
    buffer: Vec<u64>,
    dice: fastrand::Rng,
    record: Record,
}

impl<L: RawRangeLock> Worker<'_, L> {
    /// Reads one object as a client would; as in the author's run, each is read as often as any
    /// other.
    fn read(&mut self) -> Result<(), String> {
        let record = self.dice.usize(..self.run.pool.records());
        let begun = ticks();
        let (page, held) = self.searcher.reserve(&mut self.dice, &mut self.record.taken);
        let reserved = ticks();
        let bytes = self.run.pool.record_bytes();
        let buffer = self.buffer.as_mut_ptr().cast();
        // SAFETY: the buffer is as long as a record; the pages are within the area, and this
        // thread's as long as it holds them (Invariant 1).
        let assembled = unsafe {
            match self.area {
                None => {
                    self.run.pool.copy(record, buffer);
                    Ok(())
                }
                Some(area) => {
                    let at = area.page(page);
                    let assembled = match self.run.assembly {
                        Assembly::Alias => self.run.pool.alias(record, at),
                        _ => {
                            self.run.pool.copy(record, at);
                            Ok(())
                        }
                    };
                    at.copy_to_nonoverlapping(buffer, bytes);
                    assembled
                }
            }
        };
        self.searcher.release(held);
        let done = ticks();
        assembled.map_err(|error| format!("mmap: {}", std::io::Error::from_raw_os_error(error)))?;
        self.record.reads += 1;
        self.record.reserve.record(ticks_to_ns(reserved.saturating_sub(begun)));
        self.record.read.record(ticks_to_ns(done.saturating_sub(begun)));
        if self.area.is_some() {
            self.record.checked += 1;
            self.record.wrong += u64::from(!self.run.pool.is(record, &self.buffer, self.run.every_word));
        }
        Ok(())
    }
}

impl Run<'_> {
    /// The number of pages in the part of the area that is locked.
    pub fn space(&self) -> u64 {
        self.layout.keys(self.search, self.threads)
    }

    /// The run with a lock.
    ///
    /// # Errors
    /// There is no memory, or the kernel maps no more.
    pub fn with_lock<L: RawRangeLock>(&self, lock: &L) -> Result<Checked, String> {
        assert!(self.threads > 0);
        let pages = self.layout.pages(self.threads);
        let area = if self.assembly == Assembly::Reserve { None } else { Some(Area::new(pages)?) };
        let cursor = Cursor::default();
        let outcome = workers::run_on(
            &one_each(self.threads),
            self.threads,
            self.time,
            || {},
            |index, phases| self.work(phases, self.worker(index, lock, &cursor, area.as_ref())),
        )?;
        let records = &outcome.records;
        let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
        let reads_per_s = sum(|record| record.reads) as f64 / outcome.elapsed.as_secs_f64();
        let mut sample = Sample::of([
            ("reads_per_s", reads_per_s),
            ("bytes_per_s", reads_per_s * self.pool.record_bytes() as f64),
            ("slowest_share", workers::slowest_share(records.iter().map(|record| record.reads))),
            ("taken", sum(|record| record.taken) as f64),
        ]);
        let reserve: Histogram = records.iter().map(|record| record.reserve.clone()).sum();
        let read: Histogram = records.iter().map(|record| record.read.clone()).sum();
        sample.add_tail("reserve_", &reserve);
        sample.add_tail("read_", &read);
        Ok(Checked {
            sample: sample.with(&serde_json::json!({ "reserve": reserve, "read": read })),
            checked: sum(|record| record.checked),
            wrong: sum(|record| record.wrong),
        })
    }

    fn worker<'a, L>(
        &'a self,
        index: usize,
        lock: &'a L,
        cursor: &'a Cursor,
        area: Option<&'a Area>,
    ) -> Worker<'a, L> {
        let searcher = Searcher {
            lock,
            cursor,
            layout: self.layout,
            search: self.search,
            worker: index as u64,
            threads: self.threads,
            pages: (self.pool.record_bytes() / PAGE) as u64,
        };
        let buffer = vec![0; self.pool.record_bytes() / size_of::<u64>()];
        Worker { run: self, searcher, area, buffer, dice: dice(index as u64), record: Record::default() }
    }

    fn work<L: RawRangeLock>(&self, phases: &Phases, mut worker: Worker<L>) -> Result<Record, String> {
        phases.begin();
        // One at least, however short the time is.
        worker.read()?;
        let mut counted = false;
        while let Some(counts) = phases.next() {
            if counts && !counted {
                worker.record = worker.record.begin();
                counted = true;
            }
            worker.read()?;
        }
        // A thread that was never let run in the measured time has read nothing in it.
        Ok(if counted { worker.record } else { worker.record.begin() })
    }

    /// Each thread reads this number of objects, and the threads end.
    fn read_many<L: RawRangeLock>(&self, lock: &L, reads: u64) -> Result<(), String> {
        let cursor = Cursor::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|index| {
                    let mut worker = self.worker(index, lock, &cursor, None);
                    scope.spawn(move || (0..reads).try_for_each(|_| worker.read()))
                })
                .collect();
            let panicked = |_| "a thread panicked".to_owned();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
        })
    }
}

/// Reads of objects of the thesis' size, for what counts instructions: those of each thread.
pub(super) struct Reads {
    pub(super) threads: usize,
    pub(super) reads: u64,
}

/// Objects that are counted: their instructions are the same however many there are.
const COUNTED: usize = 16;

impl Measured for Reads {
    type Output = Result<(), String>;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        let pool = Pool::new(THESIS, COUNTED)?;
        let layout = Layout { block_bytes: block_bytes(THESIS), shared_bytes: SHARED_BYTES };
        let run = Run {
            pool: &pool,
            assembly: Assembly::Reserve,
            layout,
            search: Search::Cursor,
            threads: self.threads,
            time: Duration::ZERO,
            every_word: false,
        };
        run.read_many(&make(), self.reads)
    }
}

/// The pages that the objects of [`Reads`] lie in, and those of a block.
pub(super) fn counted_pages() -> (u64, u64) {
    (SHARED_BYTES / PAGE as u64, block_bytes(THESIS) / PAGE as u64)
}

impl Measured for &Run<'_> {
    type Output = Result<Checked, String>;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        self.with_lock(&make())
    }
}

/// Sizes of records. The thesis' is 1 MiB.
const SIZES: [usize; 6] = [4 << 10, 32 << 10, 256 << 10, THESIS, 2 << 20, 4 << 20];
const SIZES_QUICK: [usize; 2] = [4 << 10, THESIS];
/// The number of records, as in the thesis, and the largest number of bytes that they may take.
const RECORDS: usize = 1000;
const POOL_BYTES_MAX: usize = 1 << 30;
const POOL_BYTES_MAX_QUICK: usize = 16 << 20;
/// The shared area, as large as the thesis' virtual memory; and LeanStore's default local area.
const SHARED_BYTES: u64 = 128 << 30;
const LOCAL_BYTES: u64 = 1 << 30;
/// An object takes this number of blocks, or fewer if blocks would be less than a page.
const BLOCKS: usize = 4;
/// Room in a small area, in objects for each thread.
const PLACES: usize = 4;

/// The last level's cache of the first CPU, as the kernel tells its size.
fn last_cache() -> Option<String> {
    let read = |file: String| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let folder = |index: usize| format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
    let last = (0..8).map_while(|index| read(format!("{}/level", folder(index))).map(|level| (level, index)));
    let (level, index) = last.max()?;
    Some(format!("L{level} has {}", read(format!("{}/size", folder(index)))?))
}

/// The block for objects of this size: no object fits into a worker's local area.
fn block_bytes(record_bytes: usize) -> u64 {
    (record_bytes / BLOCKS).max(PAGE) as u64
}

impl Plan {
    /// Objects in a shared aliasing area.
    pub(in crate::range) fn blob(&self, bench: &mut Bench) -> Result<(), Error> {
        let sizes = match (self.setup.thesis, self.setup.quick) {
            (true, _) => &[THESIS],
            (false, true) => &SIZES_QUICK[..],
            (false, false) => &SIZES,
        };
        let pool_bytes_max = if self.setup.quick { POOL_BYTES_MAX_QUICK } else { POOL_BYTES_MAX };
        bench.note(format!(
            "{BLOB}: {RECORDS} records, or as many as {} have room for; an object takes {BLOCKS} blocks of the area; keys are pages; {}",
            size(pool_bytes_max as f64),
            last_cache().unwrap_or_else(|| "the kernel does not say how large its caches are".into())
        ));
        for &record_bytes in sizes {
            let records = (pool_bytes_max / record_bytes).clamp(1, RECORDS);
            let pool = Pool::new(record_bytes, records)
                .map_err(|what| Error::request(what, "free some memory, or leave the part out"))?;
            for &threads in &self.setup.threads {
                let small = |objects: usize| Layout {
                    block_bytes: block_bytes(record_bytes),
                    shared_bytes: (objects.max(1) * record_bytes) as u64,
                };
                let run = Run {
                    pool: &pool,
                    assembly: Assembly::Reserve,
                    layout: Layout { shared_bytes: SHARED_BYTES, ..small(1) },
                    search: Search::Cursor,
                    threads,
                    time: self.setup.time,
                    every_word: self.setup.check,
                };
                // What is only reserved shows no mistake.
                let roomy = Run { assembly: Assembly::Copy, layout: small(PLACES * threads), ..run.clone() };
                let honest = if self.setup.check { roomy.clone() } else { run.clone() };
                self.objects(bench, &scaled(&case(record_bytes), threads), &honest)?;
                if record_bytes != THESIS {
                    continue;
                }
                if !self.setup.check {
                    let layout = Layout { block_bytes: LOCAL_BYTES, shared_bytes: SHARED_BYTES };
                    let fork = Run { layout, search: Search::Random, ..run.clone() };
                    self.objects(bench, &scaled(&named("as the fork"), threads), &fork)?;
                }
                if !self.setup.thesis {
                    let alias = Run { assembly: Assembly::Alias, ..roomy.clone() };
                    self.objects(bench, &scaled(&named("aliased"), threads), &alias)?;
                    if threads > 1 {
                        let scarce = Run { layout: small(threads.div_ceil(2)), ..honest };
                        self.objects(bench, &scaled(&named("room for half"), threads), &scarce)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn objects(&self, bench: &mut Bench, case: &str, run: &Run) -> Result<(), Error> {
        let competitors = self.chosen(&Variant::blobs());
        self.compare_by(bench, case, &names(&competitors), expected(run.time), |at| {
            let variant = &competitors[at];
            let failed = |what| Error::failed(format!("{}, {case}: {what}", variant.name));
            let pages = run.layout.block_pages();
            let leaks = variant.competitor.leaks();
            let measured = || match variant.competitor {
                // LeanStore's own way, also where others draw pages at random.
                Competitor::Bitmap => {
                    let run = Run { search: Search::Cursor, ..run.clone() };
                    run.with_lock(&Bitmap::of_width(run.space(), pages))
                }
                Competitor::Segments => run.with_lock(&Segments::of_width(run.space(), pages)),
                Competitor::Manx if variant.name == BLOCKS_OWN => {
                    let object = (run.pool.record_bytes() / PAGE).next_power_of_two();
                    let options = Options::new().block_log2(object.ilog2());
                    run.with_lock(&RangeLock::<u64>::with(options))
                }
                other => other.measure(run.space(), run),
            };
            let found = run_apart(leaks, || {
                if leaks {
                    run.pool.touch();
                }
                measured()
            });
            let sample = found.and_then(|found| self.checked(found, "reads brought bytes of another record"));
            sample.map_err(failed)
        })
    }
}

/// The name of a case with objects of the thesis' size.
pub(crate) fn named(what: &str) -> String {
    format!("{BLOB} {what}, {}", size(THESIS as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::blob::pool::PAGE;
    use crate::range::{conclude, draw};
    use baselines::range::Map;
    use manx::range::{Access, Span};
    use report::{Machine, Report};
    use std::collections::BTreeMap;

    const TIME: Duration = Duration::from_millis(60);

    /// What was measured, and how many values the histogram of this name has.
    fn figure(found: &Checked, name: &str) -> f64 {
        let output = found.sample.output.as_ref().unwrap().get();
        let histograms: BTreeMap<String, Histogram> = serde_json::from_str(output).unwrap();
        histograms.get(name).map_or_else(|| found.sample.values[name], |all| all.count() as f64)
    }

    /// A run in which there is room for this number of objects, of four blocks each.
    fn run<'a>(pool: &'a Pool, assembly: Assembly, threads: usize, objects: usize) -> Run<'a> {
        let bytes = pool.record_bytes();
        let layout = Layout { block_bytes: (bytes / 4) as u64, shared_bytes: (objects * bytes) as u64 };
        Run { pool, assembly, layout, search: Search::Cursor, threads, time: TIME, every_word: true }
    }

    #[test]
    fn every_record_arrives_whole_however_little_room_there_is() {
        let pool = Pool::new(8 * PAGE, 20).unwrap();
        for assembly in [Assembly::Copy, Assembly::Alias] {
            for (threads, objects) in [(1, 1), (4, 1), (4, 3), (3, 16)] {
                for search in [Search::Cursor, Search::Random] {
                    let run = Run { search, ..run(&pool, assembly, threads, objects) };
                    let found = run.with_lock(&Map::with_space(run.space())).unwrap();
                    assert!(found.checked >= threads as u64, "each thread reads");
                    assert_eq!(
                        found.wrong, 0,
                        "{assembly:?}, {search:?}, {threads} threads, {objects} objects"
                    );
                    assert_eq!(figure(&found, "read"), figure(&found, "reserve"));
                    assert!(figure(&found, "slowest_share") <= 1.0);
                }
            }
        }
    }

    #[test]
    fn objects_that_fit_into_a_local_area_need_no_lock() {
        let pool = Pool::new(PAGE, 4).unwrap();
        let run = Run {
            layout: Layout { block_bytes: 4 * PAGE as u64, shared_bytes: 4 * PAGE as u64 },
            ..run(&pool, Assembly::Copy, 3, 1)
        };
        let lock = Map::with_space(run.space());
        let others = lock.lock(&Span::all(), Access::Exclusive);
        let found = run.with_lock(&lock).unwrap();
        // SAFETY: it was locked above.
        unsafe { lock.unlock(others) };
        assert_eq!((found.wrong, figure(&found, "taken")), (0, 0.0));
    }

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
