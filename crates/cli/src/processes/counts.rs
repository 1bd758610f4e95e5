//! The live statistics file of one process: what its loops and locks did since the last reading.
//!
//! All files are read into one image in turn ([`host::image`]), and each keeps only the counters
//! of what is in use.
//!
//! Invariants:
//! 1. A reading is compared with the one before, so a wait counts in the interval in which it ends.
//! 2. A lock is known by its place in the table and its address. One that is new counts from zero.

use super::row;
use super::text::shown;
use host::image::{Image, locks, ns};
use preload_abi::histogram::Counts as Histogram;
use preload_abi::live::{self, Asked, How, Live, name};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

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
    /// Answers of the trial so far
    pub asked: Vec<Asked>,
}

impl Counts {
    /// Keeps an open live file. Nothing of it has been read yet.
    pub fn new(file: File) -> Counts {
        Counts { file, sites: vec![], locks: HashMap::new(), before_ns: None }
    }

    /// Reads it through `image`, at a moment of the monotonic clock. `None` if it cannot be read,
    /// is none, or its program has ended.
    pub fn look(&mut self, image: &mut Image, now_ns: u64) -> Option<Between> {
        image.read_sites(&self.file)?;
        image.read_locks(&self.file)?;
        let live = image.live().ok()?;
        if live.header().state.load(Acquire) == live::ENDED {
            return None;
        }
        let span_ns = self.before_ns.map(|before| now_ns.saturating_sub(before).max(1));
        self.before_ns = Some(now_ns);
        let mut between = Between { span_ns, asked: live.asked().collect(), ..Between::default() };
        self.look_at_sites(&live, &mut between);
        self.look_at_locks(&live, &mut between);
        Some(between)
    }

    fn look_at_sites(&mut self, live: &Live, between: &mut Between) {
        let per_s = |count: u64| per_second(count, between.span_ns);
        self.sites.resize(live.sites().len(), SiteCounts::default());
        let mut loops = Vec::new();
        for (site, before) in live.sites().iter().zip(&mut self.sites) {
            if site.how.load(Relaxed) != How::Jump as u32 {
                continue;
            }
            let now = SiteCounts {
                waits: load(&site.waits),
                yields: load(&site.yields),
                sleeps: load(&site.sleeps),
                waited_ns: ns(live, load(&site.waited_ticks)),
                longest_ns: ns(live, load(&site.longest_ticks)),
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
        let mut rows = Vec::new();
        for (place_in_table, lock) in locks(live) {
            let address = load(&lock.address);
            let now = LockCounts {
                address,
                waited_ns: ns(live, load(&lock.waited_ticks)),
                longest_ns: ns(live, load(&lock.longest_ticks)),
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
            let [p50_ns, p99_ns] = [0.5, 0.99].map(|share| percentile(&waits, share, longest_ns));
            rows.push((
                waited_ns,
                now.waited_ns,
                row::Lock {
                    address,
                    module: shown(name(&lock.module)),
                    place: place(name(&lock.symbol), load(&lock.offset)),
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
        rows.sort_by_key(|(now, total, _)| Reverse((*now, *total)));
        between.locks = rows.into_iter().map(|(_, _, row)| row).collect();
    }
}

impl Between {
    /// The duration that a share of the waits for locks did not exceed, in ns.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        percentile(&self.waits, share, self.longest_ns)
    }
}

// Relaxed, here and above: numbers in a copy that nothing else writes.
fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
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
#[path = "../../../exporter/tests/support/mod.rs"]
mod fake;

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;
    use preload_abi::live::{Answer, Cure, Header, LOCKS_AT, Lock, Site};
    use std::mem::offset_of;

    const SITE: usize = size_of::<Header>();
    const PLACE: usize = 7;
    const LOCK: usize = LOCKS_AT + PLACE * size_of::<Lock>();

    struct Fixture {
        _folder: tempfile::TempDir,
        fake: Fake,
        counts: Counts,
        image: Image,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().expect("a folder");
            let fake = Fake::new(folder.path(), "7.live", 1);
            fake.site(0, 0, 0);
            let counts = Counts::new(File::open(&fake.path).expect("opened"));
            Fixture { _folder: folder, fake, counts, image: Image::default() }
        }

        /// The number of waits of 1 ms and of 100 ms so far.
        fn put_waits(&self, short: u64, long: u64) {
            self.fake.lock(PLACE, "put", short, 1_000_000);
            self.fake.lock(PLACE, "put", long, 100_000_000);
            let longest = if long > 0 { 100_000_000 } else { 1_000_000 };
            self.fake.number(LOCK + offset_of!(Lock, longest_ticks), longest);
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
        it.fake.number(SITE + offset_of!(Site, waited_ticks), 500_000_000);
        let second = it.look(3_000_000_000).expect("read");
        assert_eq!((second.span_ns, second.sites, second.waited_ns), (Some(2_000_000_000), 1, 500_000_000));
        assert_eq!((second.waits.count(), second.loops[0].waiting), (10, 0.25));
        assert_eq!((second.locks[0].waits_per_s, second.locks[0].address), (5.0, 0x1007));
        // The longest wait ever is not of this interval.
        assert!((1_000_000..1_100_000).contains(&second.longest_ns), "{}", second.longest_ns);
        assert_eq!(second.percentile(0.99), Some(second.longest_ns));

        let third = it.look(4_000_000_000).expect("read");
        assert_eq!((third.contended, third.waits.count(), third.percentile(0.5)), (0, 0, None));
        assert_eq!((third.locks.len(), third.locks[0].max_ns), (1, None));
    }

    #[test]
    fn the_trial_has_answered_since_the_beginning() {
        let mut it = Fixture::new();
        it.fake.trial(Cure::Yield, false, [900_000_000, 100_000_000]);
        for now_ns in [1, 2] {
            let asked = it.look(now_ns).expect("read").asked;
            assert_eq!((asked.len(), asked[0].cure, asked[0].answer), (1, Cure::Yield, Answer::Dropped));
        }
    }

    #[test]
    fn another_lock_in_the_same_place_counts_from_zero() {
        let mut it = Fixture::new();
        it.put_waits(10, 0);
        it.look(1);
        it.fake.number(LOCK + offset_of!(Lock, address), 0x2000);
        assert_eq!(it.look(2).expect("read").waits.count(), 10);
    }

    #[test]
    fn a_file_that_is_cut_short_ends_nobody() {
        let mut it = Fixture::new();
        assert!(it.look(1).is_some());
        File::options().write(true).open(&it.fake.path).and_then(|file| file.set_len(4200)).expect("cut");
        assert_eq!(it.look(2), None);
    }

    #[test]
    fn a_program_that_has_ended_has_no_rates() {
        let mut it = Fixture::new();
        it.fake.number(offset_of!(Header, state), u64::from(live::ENDED));
        assert_eq!(it.look(1), None);
    }
}
