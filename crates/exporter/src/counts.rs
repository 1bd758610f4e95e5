//! Reads what a live file counts, again and again.
//!
//! The file is read and not mapped: its process may cut it short at any time, and a mapping of what
//! is gone is a SIGBUS. Only what is in use is read, into one buffer that all files share: the
//! header, the sites that it counts, and the records of the locks that have a bit in it.
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
use preload_abi::histogram::{BUCKETS, Counts};
use preload_abi::live::{self, FILE_BYTES, Header, How, LOCKS_AT, Live, Lock, Site};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Room for one live file, at a page boundary as [`Live::new`] wants it.
#[derive(Debug)]
pub struct Buffer {
    room: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// Room for a file.
    pub fn new() -> Buffer {
        let room = vec![0; FILE_BYTES + align_of::<Header>()];
        let start = room.as_ptr().align_offset(align_of::<Header>());
        Buffer { room, start }
    }

    /// Reads a part of the file to its place.
    fn fill(&mut self, file: &File, from: usize, bytes: usize) -> io::Result<()> {
        let part = &mut self.room[self.start + from..][..bytes];
        file.read_exact_at(part, from as u64)
    }

    fn live(&self) -> Option<Live<'_>> {
        Live::new(&self.room[self.start..][..FILE_BYTES]).ok()
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new()
    }
}

/// The part of a lock's record before its names: the counters.
const LOCK_COUNTERS: usize = offset_of!(Lock, module);

/// What makes a file itself, whatever its name.
pub type FileId = (u64, u64);

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
}

impl CountedFile {
    /// Opens a file, if it is a live file.
    pub fn open(path: &Path) -> Option<(FileId, CountedFile)> {
        // A pipe is not waited for, and a link that took the file's place is not followed.
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let through_link = path.parent().is_some_and(|folder| folder.ends_with("map_files"));
        let flags = if through_link { flags & !libc::O_NOFOLLOW } else { flags };
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() < FILE_BYTES as u64 {
            return None;
        }
        let counted = CountedFile {
            file,
            started_ns: 0,
            totals: Totals::default(),
            places: HashMap::new(),
            waits: BTreeMap::new(),
            lock_waits: 0,
            sites: Sites::default(),
        };
        Some(((metadata.dev(), metadata.ino()), counted))
    }

    /// Reads the counts, and adds what is new to the program's sums. `None` if the file is no live
    /// file of this version; then nothing is added.
    pub fn read(&mut self, buffer: &mut Buffer, registry: &mut Registry, slot: Slot) -> Option<()> {
        self.read_with(buffer, registry, slot, false)
    }

    /// Reads them for the last time.
    pub fn read_last(&mut self, buffer: &mut Buffer, registry: &mut Registry, slot: Slot) -> Option<()> {
        self.read_with(buffer, registry, slot, true)
    }

    fn read_with(
        &mut self,
        buffer: &mut Buffer,
        registry: &mut Registry,
        slot: Slot,
        is_last: bool,
    ) -> Option<()> {
        buffer.fill(&self.file, 0, size_of::<Header>()).ok()?;
        let live = buffer.live()?;
        let (count, places) = (live.sites().len(), live.lock_places().collect::<Vec<_>>());
        buffer.fill(&self.file, size_of::<Header>(), count * size_of::<Site>()).ok()?;
        self.fill_locks(buffer, &places, LOCK_COUNTERS)?;
        // Relaxed, here and below: counters in a copy that nothing else writes.
        let live = buffer.live()?;
        let started_ns = live.header().started_ns.load(Relaxed);
        let waits = places.iter().map(|place| live.lock_table()[*place].waits.load(Relaxed));
        let lock_waits = waits.fold(0_u64, u64::saturating_add);
        if started_ns != self.started_ns {
            self.started_ns = started_ns;
            (self.totals, self.places, self.waits, self.lock_waits) = Default::default();
        }
        let has_new_waits = lock_waits != self.lock_waits || is_last;
        if has_new_waits {
            self.fill_locks(buffer, &places, size_of::<Lock>())?;
            self.lock_waits = lock_waits;
        }
        let live = buffer.live()?;
        let per_second = live.header().ticks_per_second.load(Relaxed);
        let ns = |ticks: u64| {
            let ns = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        self.add_totals(&live, &places, ns, registry, slot);
        if has_new_waits {
            self.add_histograms(&live, &places, ns, registry, slot);
        }
        Some(())
    }

    /// Reads the first bytes of the records of some locks.
    fn fill_locks(&self, buffer: &mut Buffer, places: &[usize], bytes: usize) -> Option<()> {
        let fill = |place: &usize| buffer.fill(&self.file, LOCKS_AT + place * size_of::<Lock>(), bytes);
        places.iter().try_for_each(fill).ok()
    }

    /// Adds what is new of all but the histograms.
    fn add_totals(
        &mut self,
        live: &Live<'_>,
        places: &[usize],
        ns: impl Fn(u64) -> u64,
        registry: &mut Registry,
        slot: Slot,
    ) {
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
        totals.add(Counter::LoopWaited, ns(loop_ticks));

        for &place in places {
            let lock = &live.lock_table()[place];
            totals.add(Counter::HandOffs, lock.hand_overs.load(Relaxed));
            totals.add(Counter::Starving, lock.starving.load(Relaxed));
        }
        registry.add(slot, &totals.since(&self.totals));
        (self.totals, self.sites) = (totals, sites);
    }

    /// Adds what is new of the histograms.
    fn add_histograms(
        &mut self,
        live: &Live<'_>,
        places: &[usize],
        ns: impl Fn(u64) -> u64,
        registry: &mut Registry,
        slot: Slot,
    ) {
        let mut waits: BTreeMap<LockSlot, Histogram> = BTreeMap::new();
        for &place in places {
            let lock = &live.lock_table()[place];
            let known = self.places.entry(place);
            let lock_slot = *known.or_insert_with(|| registry.lock(slot, &name(lock)));
            let histogram = waits.entry(lock_slot).or_default();
            histogram.counts.add(&lock.histogram.read());
            histogram.sum_ns = histogram.sum_ns.saturating_add(ns(lock.waited_ticks.load(Relaxed)));
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
fn name(lock: &Lock) -> String {
    // Acquire: the names are whole (Invariant 3 of the live file).
    let named = lock.named.load(Acquire) == 1;
    let text = |bytes: &[u8]| String::from_utf8_lossy(live::name(bytes)).into_owned();
    match (text(&lock.module), text(&lock.symbol)) {
        (module, _) if !named || module.is_empty() => "unknown".to_owned(),
        (module, symbol) if symbol.is_empty() => format!("{module}:{:#x}", lock.offset.load(Relaxed)),
        (module, symbol) => format!("{module}:{symbol}"),
    }
}
