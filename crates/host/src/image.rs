//! A live file in memory.
//!
//! The file is read and not mapped: its process may cut it short at any time, and a mapping of what
//! is gone is a SIGBUS. It has 3 MB, so all files are read into one image in turn, and of each only
//! what is in use: the header, the sites that it counts, and the records of the locks that have a
//! bit in it. All else in the image may be another file's.

use preload_abi::live::{FILE_BYTES, Header, LOCKS_AT, Live, Lock};
use std::fs::File;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering::Relaxed;

/// The part of a lock's record before its names: the counters.
const LOCK_COUNTERS: usize = offset_of!(Lock, module);

/// A live file's bytes, which start at a page boundary as [`Live::new`] wants it.
#[derive(Debug)]
pub struct Image {
    room: Vec<u8>,
    start: usize,
}

impl Default for Image {
    /// An image of nothing.
    fn default() -> Image {
        let room = vec![0; FILE_BYTES + align_of::<Header>()];
        let start = room.as_ptr().align_offset(align_of::<Header>());
        Image { room, start }
    }
}

impl Image {
    /// All bytes, for a file that is read or made in another way.
    ///
    /// ```
    /// use preload_abi::live::FILE_BYTES;
    ///
    /// assert_eq!(host::image::Image::default().bytes().len(), FILE_BYTES);
    /// ```
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.room[self.start..][..FILE_BYTES]
    }

    /// The image as what it is.
    ///
    /// # Errors
    /// Why it is not.
    pub fn live(&self) -> Result<Live<'_>, &'static str> {
        Live::new(&self.room[self.start..][..FILE_BYTES])
    }

    /// Reads the header and the sites. `None` if the file is no live file of this version.
    pub fn read_sites(&mut self, file: &File) -> Option<()> {
        self.fill(file, 0..size_of::<Header>())?;
        let sites = size_of_val(self.live().ok()?.sites());
        self.fill(file, size_of::<Header>()..size_of::<Header>() + sites)
    }

    /// Reads the counters of the locks that the header names.
    pub fn read_lock_counters(&mut self, file: &File) -> Option<()> {
        self.fill_locks(file, LOCK_COUNTERS)
    }

    /// Reads these locks in whole: their names and histograms, too.
    pub fn read_locks(&mut self, file: &File) -> Option<()> {
        self.fill_locks(file, size_of::<Lock>())
    }

    /// Reads the first bytes of the records of the locks in use.
    fn fill_locks(&mut self, file: &File, bytes: usize) -> Option<()> {
        let places: Vec<usize> = self.live().ok()?.lock_places().collect();
        let mut starts = places.iter().map(|place| LOCKS_AT + place * size_of::<Lock>());
        starts.try_for_each(|start| self.fill(file, start..start + bytes))
    }

    /// Reads a part of the file to its place.
    fn fill(&mut self, file: &File, part: Range<usize>) -> Option<()> {
        let from = part.start as u64;
        file.read_exact_at(&mut self.bytes()[part], from).ok()
    }
}

/// The locks in use, each with its place in the table.
pub fn locks<'a>(live: &Live<'a>) -> impl Iterator<Item = (usize, &'a Lock)> + use<'a> {
    let table = live.lock_table();
    live.lock_places().map(|place| (place, &table[place]))
}

/// Ticks of the file's clock in ns; 0 where the clock's rate is not known.
pub fn ns(live: &Live, ticks: u64) -> u64 {
    // Relaxed: a number that is written once, in a copy that nothing else writes.
    let per_second = live.header().ticks_per_second.load(Relaxed);
    let ns = (u128::from(ticks) * 1_000_000_000).checked_div(per_second.into()).unwrap_or(0);
    ns.try_into().unwrap_or(u64::MAX)
}
