//! Reads of large objects in a shared area of virtual memory, where workers lock ranges.
//!
//! A storage engine that keeps large objects in extents (`pool`) has to show each object to its
//! readers in one piece. LeanStore does so in an *aliasing area*: a worker reserves a part of the
//! area for the object, maps the extents there one behind the other, shows them to the reader, and
//! releases the part (Nguyen and Leis, "Why files if you have a DBMS?", 2024). A range lock keeps
//! two workers from reserving the same addresses. The workload is that of section 5.4 of Nguyen's
//! thesis "Concurrent range locking": reads only, keys by YCSB's zipfian distribution (YCSB-C), and
//! each read is a `memcpy` into the client's buffer.
//!
//! A worker first tries its last place. If that place is locked, it tries the next one, and so on.
//! After one pass over the whole area it waits for the place where it began. The keys of the lock
//! are the area's pages, because pages can be mapped, or its bytes ([`Run::key_bytes`]).
//!
//! Differences from the thesis: its engine changes page tables by its own kernel module, and
//! nothing else is as cheap. So here extents are either copied into the area, which then has memory
//! of its own ([`Assembly::Copy`]), or really aliased by `mmap` ([`Assembly::Alias`]), which takes
//! a lock in the kernel and interrupts the other CPUs. Every object goes through the shared area;
//! in LeanStore each worker has its own places for small objects. There is no log, no buffer
//! replacement and no index. Locks of blocks have a block for each place, as LeanStore's bitmap
//! has.
//!
//! Invariants:
//! 1. A place of the area is written, mapped and read only by the holder of its range.
//! 2. The client gets the bytes of the record that it asked for: every read checks two words of
//!    every page. If a lock gives one place to two workers, a read is wrong.

pub mod pool;

use super::case::{BLOB, THESIS, blob as case, scaled};
use super::competitor::{Competitor, Measured};
use super::plan::{Checked, Plan, expected, names};
use super::request::{Zipfian, dice};
use super::run::run_apart;
use super::variant::Variant;
use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::machine::one_each;
use baselines::range::{Bitmap, Segments};
use contend::workers::{self, Phases};
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use platform::memory;
use pool::{PAGE, Pool};
use report::Histogram;
use report::sheet::size;
use std::fs;
use std::time::Duration;

/// How an object comes into the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assembly {
    /// Its extents are copied there.
    Copy,
    /// Its extents are mapped there.
    Alias,
}

/// The settings of a run.
#[derive(Debug)]
pub struct Run<'a> {
    /// The objects.
    pub pool: &'a Pool,
    /// How they come into the area.
    pub assembly: Assembly,
    /// How many threads read them.
    pub threads: usize,
    /// How many objects the area has room for.
    pub places: usize,
    /// Bytes of the area that are one key of the lock; a divisor of a page.
    pub key_bytes: usize,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
    /// Whether every word of every object is checked; the measured time includes this.
    pub every_word: bool,
}

/// The area: anonymous memory, until extents are mapped over it.
struct Area {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory of the process; the lock says which thread may use which part of it
// (Invariant 1).
unsafe impl Sync for Area {}

impl Area {
    fn new(bytes: usize) -> Result<Area, String> {
        let mapped = memory::map_zeroes(bytes, memory::READ | memory::WRITE);
        let base = mapped.map_err(|error| {
            format!("{bytes} bytes of aliasing area: mmap: {}", std::io::Error::from_raw_os_error(error))
        })?;
        Ok(Area { base, bytes })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is the area's; a pool's pages that were mapped over it belong to the
        // pool's file.
        let _ = unsafe { memory::unmap(self.base, self.bytes) };
    }
}

#[derive(Default)]
struct Record {
    reads: u64,
    reserve: Histogram,
    read: Histogram,
    taken: u64,
    waited: u64,
    checked: u64,
    wrong: u64,
}

impl Record {
    /// The part of the warm-up that counts.
    fn begin(&self) -> Record {
        Record { checked: self.checked, wrong: self.wrong, ..Record::default() }
    }
}

/// A worker: its last place, and its record.
struct Worker<'a, L> {
    run: &'a Run<'a>,
    lock: &'a L,
    area: &'a Area,
    place: usize,
    buffer: Vec<u64>,
    record: Record,
}

impl<L: RawRangeLock> Worker<'_, L> {
    /// The range of a place.
    #[inline(always)]
    fn span(&self, place: usize) -> Span<u64> {
        let keys = self.run.keys();
        Span::new(place as u64 * keys, (place as u64 + 1) * keys).expect("records have bytes")
    }

    /// Locks some place, the last one if possible.
    fn reserve(&mut self) -> L::Held {
        for _ in 0..self.run.places {
            if let Some(held) = self.lock.try_lock(&self.span(self.place), Access::Exclusive) {
                return held;
            }
            self.record.taken += 1;
            self.place = (self.place + 1) % self.run.places;
        }
        self.record.waited += 1;
        self.lock.lock(&self.span(self.place), Access::Exclusive)
    }

    /// Reads one object as a client would.
    fn read(&mut self, record: usize) -> Result<(), String> {
        let begun = ticks();
        let held = self.reserve();
        let reserved = ticks();
        let bytes = self.run.pool.record_bytes();
        // SAFETY: the place is within the area, and this thread's as long as it holds its range
        // (Invariant 1); the buffer is as long as a record.
        let assembled = unsafe {
            let at = self.area.base.add(self.place * bytes);
            let assembled = match self.run.assembly {
                Assembly::Copy => {
                    self.run.pool.copy(record, at);
                    Ok(())
                }
                Assembly::Alias => self.run.pool.alias(record, at),
            };
            at.copy_to_nonoverlapping(self.buffer.as_mut_ptr().cast(), bytes);
            assembled
        };
        // SAFETY: this lock returned it.
        unsafe { self.lock.unlock(held) };
        let done = ticks();
        assembled.map_err(|error| format!("mmap: {}", std::io::Error::from_raw_os_error(error)))?;
        self.record.reads += 1;
        self.record.reserve.record(ticks_to_ns(reserved.saturating_sub(begun)));
        self.record.read.record(ticks_to_ns(done.saturating_sub(begun)));
        self.record.checked += 1;
        self.record.wrong += u64::from(!self.run.pool.is(record, &self.buffer, self.run.every_word));
        Ok(())
    }
}

impl Run<'_> {
    /// How many keys a record's place has.
    #[inline(always)]
    pub fn keys(&self) -> u64 {
        (self.pool.record_bytes() / self.key_bytes) as u64
    }

    /// The keys of the area.
    pub fn space(&self) -> u64 {
        self.places as u64 * self.keys()
    }

    /// The run with a lock.
    ///
    /// # Errors
    /// There is no memory, or the kernel maps no more.
    pub fn with_lock<L: RawRangeLock>(&self, lock: &L) -> Result<Checked, String> {
        assert!(self.threads > 0 && self.places > 0 && pool::PAGE.is_multiple_of(self.key_bytes));
        let area = Area::new(self.places * self.pool.record_bytes())?;
        let zipfian = Zipfian::new(self.pool.records() as u64);
        let outcome = workers::run_on(
            &one_each(self.threads),
            self.threads,
            self.time,
            || {},
            |index, phases| self.worker(index, phases, lock, &area, &zipfian),
        )?;
        let records = &outcome.records;
        let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
        let reads_per_s = sum(|record| record.reads) as f64 / outcome.elapsed.as_secs_f64();
        let mut sample = Sample::of([
            ("reads_per_s", reads_per_s),
            ("bytes_per_s", reads_per_s * self.pool.record_bytes() as f64),
            ("slowest_share", workers::slowest_share(records.iter().map(|record| record.reads))),
            ("taken", sum(|record| record.taken) as f64),
            ("waited", sum(|record| record.waited) as f64),
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

    fn worker<L: RawRangeLock>(
        &self,
        index: usize,
        phases: &Phases,
        lock: &L,
        area: &Area,
        zipfian: &Zipfian,
    ) -> Result<Record, String> {
        let mut dice = dice(index as u64);
        let mut worker = Worker {
            run: self,
            lock,
            area,
            place: dice.usize(..self.places),
            buffer: vec![0; self.pool.record_bytes() / size_of::<u64>()],
            record: Record::default(),
        };
        phases.begin();
        // One at least, however short the time is.
        worker.read(zipfian.draw(&mut dice) as usize)?;
        let mut counted = false;
        while let Some(counts) = phases.next() {
            if counts && !counted {
                worker.record = worker.record.begin();
                counted = true;
            }
            worker.read(zipfian.draw(&mut dice) as usize)?;
        }
        // A thread that was never let run in the measured time has read nothing in it.
        Ok(if counted { worker.record } else { worker.record.begin() })
    }
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
/// Places of the area for each thread, where they are not scarce.
const PLACES: usize = 4;

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
            let sample = found.and_then(|found| self.checked(found, "reads brought bytes of another record"));
            sample.map_err(failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::blob::pool::PAGE;
    use crate::range::{conclude, draw};
    use baselines::range::Map;
    use report::{Machine, Report};
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    const TIME: Duration = Duration::from_millis(60);

    /// What was measured, and how many values the histogram of this name has.
    fn figure(found: &Checked, name: &str) -> f64 {
        let output = found.sample.output.as_ref().unwrap().get();
        let histograms: BTreeMap<String, Histogram> = serde_json::from_str(output).unwrap();
        histograms.get(name).map_or_else(|| found.sample.values[name], |all| all.count() as f64)
    }

    fn run<'a>(pool: &'a Pool, assembly: Assembly, threads: usize, places: usize) -> Run<'a> {
        Run { pool, assembly, threads, places, key_bytes: PAGE, time: TIME, every_word: true }
    }

    #[test]
    fn every_record_arrives_whole_however_scarce_places_are() {
        let pool = Pool::new(7 * PAGE, 20).unwrap();
        for assembly in [Assembly::Copy, Assembly::Alias] {
            for (threads, places) in [(1, 1), (4, 1), (4, 3), (3, 16)] {
                let key_bytes = if places == 3 { 1 } else { PAGE };
                let run = Run { key_bytes, ..run(&pool, assembly, threads, places) };
                assert_eq!(run.space(), (places * 7 * PAGE / key_bytes) as u64);
                let found = run.with_lock(&Map::with_space(run.space())).unwrap();
                assert!(found.checked >= threads as u64, "each thread reads");
                assert_eq!(found.wrong, 0, "{assembly:?}, {threads} threads, {places} places");
                assert_eq!(figure(&found, "read"), figure(&found, "reserve"));
                let was_taken = figure(&found, "taken") >= figure(&found, "waited");
                assert!(places > 1 || was_taken, "who waits found the place taken before");
                assert!(figure(&found, "slowest_share") <= 1.0);
            }
        }
    }

    /// Says once that a range is free which it is not.
    struct Broken {
        lock: Map,
        seen: AtomicBool,
    }

    // SAFETY: it breaks its promise, which the test is about: two workers are never in one place at
    // once there, because there is one worker, and the other holder of the range does not use it.
    unsafe impl RawRangeLock for Broken {
        type Held = Option<<Map as RawRangeLock>::Held>;
        const NAME: &'static str = "broken";
        const SHARES: bool = false;

        fn with_space(space: u64) -> Broken {
            Broken { lock: Map::with_space(space), seen: AtomicBool::new(false) }
        }

        fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<Self::Held> {
            self.seen.store(true, Ordering::Relaxed);
            self.lock.try_lock(span, access).map(Some)
        }

        fn lock(&self, _span: &Span<u64>, _access: Access) -> Self::Held {
            None
        }

        unsafe fn unlock(&self, held: Self::Held) {
            if let Some(held) = held {
                // SAFETY: as the caller promises.
                unsafe { self.lock.unlock(held) };
            }
        }
    }

    #[test]
    fn a_writer_that_finds_every_place_taken_tries_each_and_then_waits() {
        let pool = Pool::new(PAGE, 4).unwrap();
        let run = run(&pool, Assembly::Copy, 1, 5);
        let lock = Broken::with_space(run.space());
        let others = lock.lock.lock(&Span::all(), Access::Exclusive);
        let found = run.with_lock(&lock).unwrap();
        // SAFETY: it was locked above.
        unsafe { lock.lock.unlock(others) };
        assert!(lock.seen.load(Ordering::Relaxed));
        assert_eq!(figure(&found, "taken"), 5.0 * figure(&found, "waited"));
        assert_eq!(figure(&found, "waited"), figure(&found, "read"));
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
