//! The live statistics file of one process: what its loops and locks did since the last reading.
//!
//! The file has 3 MB, so all files are read into one image in turn, and each keeps only the
//! counters of what is in use. It is read, not mapped: a program that cuts its file short would end
//! a reader that has mapped it.
//!
//! Invariants:
//! 1. A reading is compared with the one before, so a wait counts in the interval in which it ends.
//! 2. A lock is known by its place in the table and its address. One that is new counts from zero.

use super::row;
use super::text::shown;
use crate::stats::image::Image;
use preload_abi::histogram::Counts as Histogram;
use preload_abi::live::{self, How, Live, name};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// An open live file, and its counters at the last reading.
#[derive(Debug)]
pub struct Counts {
    file: File,
    sites: Vec<SiteCounts>,
    locks: HashMap<usize, LockCounts>,
    before_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteCounts {
    waits: u64,
    yields: u64,
    sleeps: u64,
    waited_ns: u64,
    longest_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct LockCounts {
    address: u64,
    waited_ns: u64,
    longest_ns: u64,
    starving: u64,
    waits: Histogram,
}

/// What happened between two readings, or since the program began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Between {
    /// The time between them, in ns; `None` at the first reading
    pub span_ns: Option<u64>,
    /// Loops that are repaired
    pub sites: u32,
    /// Time that threads spent in them, in ns
    pub waited_ns: u64,
    /// Locks that some thread waited for
    pub contended: u32,
    /// The waits for locks
    pub waits: Histogram,
    /// The longest of them, in ns
    pub longest_ns: u64,
    /// The loops, those that threads waited in longest first
    pub loops: Vec<row::Loop>,
    /// The locks, those that threads waited for longest first
    pub locks: Vec<row::Lock>,
}

impl Counts {
    /// Opens a live file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Counts> {
        Ok(Counts { file: File::open(path)?, sites: vec![], locks: HashMap::new(), before_ns: None })
    }

    /// Reads it through `image`, at a moment of the monotonic clock. `None` if it cannot be read,
    /// is none, or its program has ended.
    pub fn look(&mut self, image: &mut Image, now_ns: u64) -> Option<Between> {
        image.refresh(&self.file).ok()?;
        let live = image.live().ok()?;
        if live.header().state.load(Acquire) == live::ENDED {
            return None;
        }
        let span_ns = self.before_ns.map(|before| now_ns.saturating_sub(before).max(1));
        self.before_ns = Some(now_ns);
        let mut between = Between { span_ns, ..Between::default() };
        self.look_at_sites(&live, &mut between);
        self.look_at_locks(&live, &mut between);
        Some(between)
    }

    fn look_at_sites(&mut self, live: &Live, between: &mut Between) {
        let rate = ticks_per_second(live);
        let per_s = |count: u64| per_second(count, between.span_ns);
        self.sites.resize(live.sites().len(), SiteCounts::default());
        let mut loops = Vec::new();
        for (site, before) in live.sites().iter().zip(&mut self.sites) {
            if load_u32(&site.how) != How::Jump as u32 {
                continue;
            }
            let now = SiteCounts {
                waits: load(&site.waits),
                yields: load(&site.yields),
                sleeps: load(&site.sleeps),
                waited_ns: ns(load(&site.waited_ticks), rate),
                longest_ns: ns(load(&site.longest_ticks), rate),
            };
            let waited_ns = now.waited_ns.saturating_sub(before.waited_ns);
            between.sites += 1;
            between.waited_ns += waited_ns;
            loops.push((
                waited_ns,
                now.waited_ns,
                row::Loop {
                    module: shown(name(&site.module)),
                    place: place(name(&site.symbol), load(&site.offset)),
                    waits_per_s: per_s(now.waits.saturating_sub(before.waits)),
                    waiting: per_second(waited_ns, between.span_ns) / 1e9,
                    yields_per_s: per_s(now.yields.saturating_sub(before.yields)),
                    sleeps_per_s: per_s(now.sleeps.saturating_sub(before.sleeps)),
                    longest_ns: now.longest_ns,
                },
            ));
            *before = now;
        }
        loops.sort_by_key(|(now, total, _)| Reverse((*now, *total)));
        between.loops = loops.into_iter().map(|(_, _, row)| row).collect();
    }

    fn look_at_locks(&mut self, live: &Live, between: &mut Between) {
        let rate = ticks_per_second(live);
        let mut locks = Vec::new();
        for (place_in_table, lock) in live.lock_table().iter().enumerate() {
            let address = load(&lock.address);
            if address == 0 {
                continue;
            }
            let now = LockCounts {
                address,
                waited_ns: ns(load(&lock.waited_ticks), rate),
                longest_ns: ns(load(&lock.longest_ticks), rate),
                starving: load(&lock.starving),
                waits: lock.histogram.read(),
            };
            let before = self.locks.entry(place_in_table).or_default();
            if before.address != address {
                // Invariant 2.
                *before = LockCounts::default();
            }
            let waits = now.waits.since(&before.waits);
            let count = waits.count();
            let waited_ns = now.waited_ns.saturating_sub(before.waited_ns);
            let longest_ns = longest(&waits, before.longest_ns, now.longest_ns);
            between.contended += u32::from(count > 0);
            between.waits.add(&waits);
            between.longest_ns = between.longest_ns.max(longest_ns);
            // Acquire: the names are written before `named` says so (Invariant 3 of `live`).
            let named = lock.named.load(Acquire) == 1;
            let of = |bytes| if named { name(bytes) } else { &[][..] };
            let [p50_ns, p99_ns] = [0.5, 0.99].map(|share| percentile(&waits, share, longest_ns));
            locks.push((
                waited_ns,
                now.waited_ns,
                row::Lock {
                    address,
                    module: if named { shown(of(&lock.module)) } else { "?".into() },
                    place: place(of(&lock.symbol), load(&lock.offset)),
                    waits_per_s: per_second(count, between.span_ns),
                    waiting: per_second(waited_ns, between.span_ns) / 1e9,
                    p50_ns,
                    p99_ns,
                    max_ns: (count > 0).then_some(longest_ns),
                    starving_per_s: per_second(now.starving.saturating_sub(before.starving), between.span_ns),
                },
            ));
            *before = now;
        }
        locks.sort_by_key(|(now, total, _)| Reverse((*now, *total)));
        between.locks = locks.into_iter().map(|(_, _, row)| row).collect();
    }
}

impl Between {
    /// The duration that a share of the waits for locks did not exceed, in ns.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        percentile(&self.waits, share, self.longest_ns)
    }
}

// Relaxed, here and below: counters that go on and order nothing.
fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn load_u32(number: &AtomicU32) -> u32 {
    number.load(Relaxed)
}

fn ticks_per_second(live: &Live) -> u64 {
    load(&live.header().ticks_per_second)
}

/// Ticks in ns; 0 where the clock's rate is not known.
fn ns(ticks: u64, per_second: u64) -> u64 {
    let ns = (u128::from(ticks) * 1_000_000_000).checked_div(per_second.into()).unwrap_or(0);
    ns.try_into().unwrap_or(u64::MAX)
}

/// A rate; 0 at the first reading.
fn per_second(count: u64, span_ns: Option<u64>) -> f64 {
    span_ns.map_or(0.0, |span_ns| count as f64 * 1e9 / span_ns as f64)
}

fn place(symbol: &[u8], offset: u64) -> String {
    if symbol.is_empty() { format!("{offset:#x}") } else { shown(symbol) }
}

/// The longest of `waits`, in ns: exactly if it is the longest ever, else where its bucket ends.
fn longest(waits: &Histogram, before_ns: u64, now_ns: u64) -> u64 {
    if now_ns > before_ns {
        return now_ns;
    }
    waits.filled().last().map_or(0, |(upper_ns, _)| upper_ns.min(now_ns))
}

fn percentile(waits: &Histogram, share: f64, longest_ns: u64) -> Option<u64> {
    waits.percentile(share).map(|ns| ns.min(longest_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::histogram::bucket_of;
    use preload_abi::live::{FILE_BYTES, FORMAT, Header, LOCKS_AT, Lock, MAGIC, RUNNING, Site};
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt as _;

    const SITE: usize = size_of::<Header>();
    const LOCK: usize = LOCKS_AT + 7 * size_of::<Lock>();

    struct Fixture {
        file: File,
        counts: Counts,
        image: Image,
    }

    impl Fixture {
        fn new() -> Fixture {
            let file = tempfile::NamedTempFile::new().expect("a file");
            let counts = Counts::open(file.path()).expect("opened");
            let it = Fixture { file: file.into_file(), counts, image: Image::empty() };
            it.file.set_len(FILE_BYTES as u64).expect("long enough");
            it.put(offset_of!(Header, magic), MAGIC);
            it.put(offset_of!(Header, format), u64::from(FORMAT));
            it.put(offset_of!(Header, state), u64::from(RUNNING) | 1 << 32);
            it.put(offset_of!(Header, ticks_per_second), 1_000_000_000);
            it.put(SITE + offset_of!(Site, how), How::Jump as u64);
            it
        }

        fn put(&self, offset: usize, value: u64) {
            self.file.write_all_at(&value.to_ne_bytes(), offset as u64).expect("written");
        }

        /// The number of waits of 1 ms and of 100 ms so far.
        fn put_waits(&self, short: u64, long: u64) {
            self.put(LOCK + offset_of!(Lock, address), 0x1000);
            let histogram = LOCK + offset_of!(Lock, histogram);
            self.put(histogram + 8 * bucket_of(1_000_000), short);
            self.put(histogram + 8 * bucket_of(100_000_000), long);
            self.put(LOCK + offset_of!(Lock, waited_ticks), short * 1_000_000 + long * 100_000_000);
            let longest = if long > 0 { 100_000_000 } else { 1_000_000 };
            self.put(LOCK + offset_of!(Lock, longest_ticks), longest);
        }

        fn look(&mut self, now_ns: u64) -> Option<Between> {
            self.counts.look(&mut self.image, now_ns)
        }
    }

    #[test]
    fn each_reading_has_what_came_since_the_one_before() {
        let mut it = Fixture::new();
        it.put_waits(0, 3);
        let first = it.look(1_000_000_000).expect("read");
        assert_eq!((first.span_ns, first.contended, first.waits.count()), (None, 1, 3));

        it.put_waits(10, 3);
        it.put(SITE + offset_of!(Site, waited_ticks), 500_000_000);
        let second = it.look(3_000_000_000).expect("read");
        assert_eq!((second.span_ns, second.sites, second.waited_ns), (Some(2_000_000_000), 1, 500_000_000));
        assert_eq!((second.waits.count(), second.loops[0].waiting), (10, 0.25));
        assert_eq!((second.locks[0].waits_per_s, second.locks[0].address), (5.0, 0x1000));
        // The longest wait ever is not of this interval.
        assert!((1_000_000..1_100_000).contains(&second.longest_ns), "{}", second.longest_ns);
        assert_eq!(second.percentile(0.99), Some(second.longest_ns));

        let third = it.look(4_000_000_000).expect("read");
        assert_eq!((third.contended, third.waits.count(), third.percentile(0.5)), (0, 0, None));
        assert_eq!((third.locks.len(), third.locks[0].max_ns), (1, None));
    }

    #[test]
    fn another_lock_in_the_same_place_counts_from_zero() {
        let mut it = Fixture::new();
        it.put_waits(10, 0);
        it.look(1);
        it.put(LOCK + offset_of!(Lock, address), 0x2000);
        assert_eq!(it.look(2).expect("read").waits.count(), 10);
    }

    #[test]
    fn a_file_that_is_cut_short_ends_nobody() {
        let mut it = Fixture::new();
        assert!(it.look(1).is_some());
        it.file.set_len(5000).expect("cut");
        assert_eq!(it.look(2), None);
    }

    #[test]
    fn a_program_that_has_ended_has_no_rates() {
        let mut it = Fixture::new();
        it.put(offset_of!(Header, state), u64::from(live::ENDED));
        assert_eq!(it.look(1), None);
    }
}
