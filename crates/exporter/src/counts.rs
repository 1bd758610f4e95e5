//! Reads what a live file counts, again and again.
//!
//! Another program may come to the same file (`exec` keeps the process id). Then the file says
//! another start, and all counts begin anew.
//!
//! Where the numbers of waits are as before, the histograms are, and they are not read. A thread
//! counts a wait first and its length after that, so a reading may miss the last length. The next
//! wait brings it, or the last reading, which reads all.
//!
//! A reading gives differences to the one before, which are never negative: so what the registry
//! sums only grows, whatever a file says.

use crate::metric::Histogram;
use crate::registry::{Counter, LockSlot, Registry, Slot, Totals};
use host::image::{Image, locks, ns};
use preload_abi::histogram::{BUCKETS, Counts};
use preload_abi::live::{Asked, How, Live, Lock, name};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How many sites of each kind a file has: left, repaired, closed. See [`How`].
pub type Sites = [u64; How::ALL.len()];

/// Counts of a histogram in little room: from the first bucket that is not empty to the last.
#[derive(Debug, Default)]
struct Kept {
    first: usize,
    counts: Box<[u64]>,
    sum_ns: u64,
}

impl Kept {
    fn of(histogram: &Histogram) -> Kept {
        let counts = &histogram.counts.0;
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        Kept { first, counts: counts[first..end].into(), sum_ns: histogram.sum_ns }
    }

    fn histogram(&self) -> Histogram {
        let mut counts = [0; BUCKETS];
        counts[self.first..][..self.counts.len()].copy_from_slice(&self.counts);
        Histogram { counts: Counts(counts), sum_ns: self.sum_ns }
    }
}

/// A live file that is read again and again.
#[derive(Debug)]
pub struct CountedFile {
    file: File,
    /// When the program that writes it began, in nanoseconds since 1970.
    started_ns: u64,
    totals: Totals,
    /// Which lock of the registry each place of the file's table is.
    places: HashMap<usize, LockSlot>,
    waits: BTreeMap<LockSlot, Kept>,
    /// All waits for locks at the last reading.
    lock_waits: u64,
    /// The sites at the last reading.
    pub sites: Sites,
    /// Answers of the trial by then.
    pub asked: Vec<Asked>,
}

impl CountedFile {
    /// Nothing of the file has been read yet.
    pub fn new(file: File) -> CountedFile {
        CountedFile {
            file,
            started_ns: 0,
            totals: Totals::default(),
            places: HashMap::new(),
            waits: BTreeMap::new(),
            lock_waits: 0,
            sites: Sites::default(),
            asked: Vec::new(),
        }
    }

    /// Reads the counts, for the last time or not, and adds what is new to the program's sums.
    /// `None` if the file is no live file of this version; then nothing is added.
    pub fn read(
        &mut self,
        image: &mut Image,
        registry: &mut Registry,
        slot: Slot,
        is_last: bool,
    ) -> Option<()> {
        image.read_sites(&self.file)?;
        image.read_lock_counters(&self.file)?;
        // Relaxed, here and below: counters in a copy that nothing else writes.
        let live = image.live().ok()?;
        let started_ns = live.header().started_ns.load(Relaxed);
        let lock_waits =
            locks(&live).map(|(_, lock)| lock.waits.load(Relaxed)).fold(0_u64, u64::saturating_add);
        if started_ns != self.started_ns {
            self.started_ns = started_ns;
            (self.totals, self.places, self.waits, self.lock_waits) = Default::default();
        }
        let has_new_waits = lock_waits != self.lock_waits || is_last;
        if has_new_waits {
            image.read_locks(&self.file)?;
            self.lock_waits = lock_waits;
        }
        let live = image.live().ok()?;
        self.add_totals(&live, registry, slot);
        if has_new_waits {
            self.add_histograms(&live, registry, slot);
        }
        Some(())
    }

    /// Adds what is new of all but the histograms.
    fn add_totals(&mut self, live: &Live<'_>, registry: &mut Registry, slot: Slot) {
        let (mut totals, mut sites) = (Totals::default(), Sites::default());
        let mut loop_ticks = 0_u64;
        for site in live.sites() {
            if let Some(kind) = sites.get_mut(site.how.load(Relaxed) as usize) {
                *kind += 1;
            }
            totals.add(Counter::LoopWaits, site.waits.load(Relaxed));
            totals.add(Counter::LoopYields, site.yields.load(Relaxed));
            totals.add(Counter::LoopSleeps, site.sleeps.load(Relaxed));
            loop_ticks = loop_ticks.saturating_add(site.waited_ticks.load(Relaxed));
        }
        totals.add(Counter::LoopWaited, ns(live, loop_ticks));

        for (_, lock) in locks(live) {
            totals.add(Counter::HandOffs, lock.hand_overs.load(Relaxed));
            totals.add(Counter::Starving, lock.starving.load(Relaxed));
        }
        registry.add(slot, &totals.since(&self.totals));
        (self.totals, self.sites) = (totals, sites);
        self.asked = live.asked().collect();
    }

    /// Adds what is new of the histograms.
    fn add_histograms(&mut self, live: &Live<'_>, registry: &mut Registry, slot: Slot) {
        let mut waits: BTreeMap<LockSlot, Histogram> = BTreeMap::new();
        for (place, lock) in locks(live) {
            let known = self.places.entry(place);
            let lock_slot = *known.or_insert_with(|| registry.lock(slot, &lock_name(lock)));
            let histogram = waits.entry(lock_slot).or_default();
            histogram.counts.add(&lock.histogram.read());
            histogram.sum_ns = histogram.sum_ns.saturating_add(ns(live, lock.waited_ticks.load(Relaxed)));
        }
        for (lock, now) in &waits {
            let before = self.waits.get(lock).map(Kept::histogram).unwrap_or_default();
            let more = Histogram {
                counts: now.counts.since(&before.counts),
                sum_ns: now.sum_ns.saturating_sub(before.sum_ns),
            };
            registry.add_waits(slot, *lock, &more);
        }
        self.waits = waits.iter().map(|(lock, histogram)| (*lock, Kept::of(histogram))).collect();
    }
}

/// The name of a lock: where it was first waited for. Locks of one place have one name.
fn lock_name(lock: &Lock) -> String {
    // Acquire: the names are whole (Invariant 3 of the live file).
    let named = lock.named.load(Acquire) == 1;
    let text = |bytes: &[u8]| String::from_utf8_lossy(name(bytes)).into_owned();
    match (text(&lock.module), text(&lock.symbol)) {
        (module, _) if !named || module.is_empty() => "unknown".to_owned(),
        (module, symbol) if symbol.is_empty() => format!("{module}:{:#x}", lock.offset.load(Relaxed)),
        (module, symbol) => format!("{module}:{symbol}"),
    }
}
