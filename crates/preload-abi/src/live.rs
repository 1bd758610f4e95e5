//! The live statistics file: a header page, one record for each loop that was looked at, and a
//! table of the locks that threads waited for.
//!
//! The library maps the file shared and counts into it with relaxed atomic adds, so whatever kills
//! the program loses nothing; `manx stats` maps or reads the same bytes, while it runs or
//! afterwards. All integers are in the machine's own byte order: the file never travels.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], 4096 bytes |
//! | 4096 + 256 n | [`Site`] n, for n below `Header::sites` |
//! | 4096 + 256 × [`CAPACITY`] + 192 n | [`Lock`] n, for n below [`LOCKS`], if its address is not 0 |
//!
//! Invariants:
//! 1. A file without [`MAGIC`] at its start, or with another [`FORMAT`], is not read.
//! 2. A site is written in full before `Header::sites` counts it (release), so a reader that loads
//!    the count (acquire) sees whole records. Counters change at any time and are read one by one.
//! 3. A lock's record belongs to the address that was stored there first, by one atomic step. Who
//!    made that step alone writes the names and the kind, then sets `Lock::named` (release);
//!    whoever reads them loads that first (acquire).
//! 4. Everything is zero where nothing was written; names end at the first zero byte or at their
//!    end.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first eight bytes of the file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"MANXLIVE");
/// The layout's version.
pub const FORMAT: u32 = 4;
/// The most sites that one file records; what is found beyond them is counted in `Header::dropped`.
pub const CAPACITY: usize = 4096;
/// The most locks that one file records, a power of two; waits for others are counted in
/// `Header::lock_waits_dropped`.
pub const LOCKS: usize = 1024;
/// How many mutexes that are passed on one file counts, a power of two.
pub const PASSED_ON: usize = 256;
/// The file's size in bytes. It is sparse: pages that hold nothing take no room.
pub const FILE_BYTES: usize = size_of::<Header>() + CAPACITY * size_of::<Site>() + LOCKS * size_of::<Lock>();

/// `Header::state`: the program runs, or was ended from outside.
pub const RUNNING: u32 = 1;
/// `Header::state`: the program exited normally.
pub const ENDED: u32 = 2;

/// The file's first page.
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`]
    pub magic: AtomicU64,
    /// [`FORMAT`]
    pub format: AtomicU32,
    /// The process that wrote the file.
    pub pid: AtomicU32,
    /// [`RUNNING`] or [`ENDED`]
    pub state: AtomicU32,
    /// How many [`Site`] records follow.
    pub sites: AtomicU32,
    /// When the process loaded the library, nanoseconds since 1970.
    pub started_ns: AtomicU64,
    /// Ticks of the clock of `Site::waited_ticks` in one second.
    pub ticks_per_second: AtomicU64,
    /// Modules whose text was searched.
    pub modules: AtomicU64,
    /// Bytes of text that were searched.
    pub text_bytes: AtomicU64,
    /// Time that all searches and repairs took, in nanoseconds.
    pub scan_ns: AtomicU64,
    /// How many searches there were (at the first thread, and after libraries were opened).
    pub scans: AtomicU64,
    /// Sites that found no room in the file.
    pub dropped: AtomicU64,
    /// Waits for locks that found no room in the file.
    pub lock_waits_dropped: AtomicU64,
    /// Modules that were repaired as an earlier start did, without a search.
    pub cached: AtomicU64,
    /// The program's path.
    pub program: [u8; 512],
    /// Addresses of mutexes that threads have locked and that are the C library's in every mode,
    /// because of what they are: shared between processes, robust, or with a priority protocol. 0:
    /// there is none here.
    pub passed_on: [AtomicU64; PASSED_ON],
}

/// How a site is waited at. `Site::how`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// Nothing was changed; `Site::reason` says why.
    Left = 0,
    /// A jump to a copy.
    Jump = 1,
    /// Its library has been closed.
    Closed = 2,
}

impl How {
    /// The value as stored, or `None` for a number that no version wrote.
    pub const fn from_number(number: u32) -> Option<How> {
        Some(match number {
            0 => How::Left,
            1 => How::Jump,
            2 => How::Closed,
            _ => return None,
        })
    }

    /// One word for tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            How::Left => "left",
            How::Jump => "jump",
            How::Closed => "closed",
        }
    }
}

/// One loop in the program's text, and what happened there.
#[repr(C, align(256))]
pub struct Site {
    /// Its address in its module's file (the ELF virtual address).
    pub offset: AtomicU64,
    /// [`How`]
    pub how: AtomicU32,
    /// Zero; keeps the counters behind it at multiples of eight bytes.
    pub reserved: AtomicU32,
    /// Times that a thread came to wait here.
    pub waits: AtomicU64,
    /// Rounds of the loop, all waits together.
    pub visits: AtomicU64,
    /// Yields of the CPU.
    pub yields: AtomicU64,
    /// Sleeps.
    pub sleeps: AtomicU64,
    /// Time spent waiting here, all threads together, in ticks.
    pub waited_ticks: AtomicU64,
    /// The longest of the waits, in ticks.
    pub longest_ticks: AtomicU64,
    /// The module's file name, without its folder.
    pub module: [u8; 64],
    /// The function, and the offset in it, if the module names it.
    pub symbol: [u8; 64],
    /// Why it was left alone, in a few words; empty for a site that is waited at.
    pub reason: [u8; 64],
}

/// The kind of a lock. `Lock::kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// `PTHREAD_MUTEX_NORMAL`, which is the default.
    Normal = 0,
    /// `PTHREAD_MUTEX_RECURSIVE`
    Recursive = 1,
    /// `PTHREAD_MUTEX_ERRORCHECK`
    ErrorCheck = 2,
    /// `PTHREAD_MUTEX_ADAPTIVE_NP`
    Adaptive = 3,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Kind; 4] = [Kind::Normal, Kind::Recursive, Kind::ErrorCheck, Kind::Adaptive];

    /// The value as stored, or `None` for a number that no version wrote.
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// One word for tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Normal => "normal",
            Kind::Recursive => "recursive",
            Kind::ErrorCheck => "errorcheck",
            Kind::Adaptive => "adaptive",
        }
    }
}

/// One lock that threads waited for. If its memory is given back and holds another lock later, the
/// two have one record.
#[repr(C, align(64))]
pub struct Lock {
    /// Its address in the process; 0: there is no lock here.
    pub address: AtomicU64,
    /// [`Kind`], once `named` is 1.
    pub kind: AtomicU32,
    /// 1 when `kind`, `offset`, `module` and `symbol` are written (Invariant 3).
    pub named: AtomicU32,
    /// Where the call was made that first waited: its address in its module's file.
    pub offset: AtomicU64,
    /// Times that a thread came and had to wait.
    pub waits: AtomicU64,
    /// Time spent waiting, all threads together, in ticks.
    pub waited_ticks: AtomicU64,
    /// The longest of the waits, in ticks.
    pub longest_ticks: AtomicU64,
    /// Waits that ended because the lock was handed over, rather than found free.
    pub hand_overs: AtomicU64,
    /// Waits that were longer than their window.
    pub overdue: AtomicU64,
    /// The file name, without its folder, of the module from which it was first waited for.
    pub module: [u8; 64],
    /// The function of that call, and the offset in it, if the module names it.
    pub symbol: [u8; 64],
}

const _: () = assert!(size_of::<Header>() == 4096 && size_of::<Site>() == 256 && size_of::<Lock>() == 192);
const _: () = assert!(LOCKS.is_power_of_two() && PASSED_ON.is_power_of_two());

/// Reads a name that ends at its first zero byte.
pub fn name(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

/// The whole file, as mapped or read.
pub struct Live<'a> {
    header: &'a Header,
    sites: &'a [Site],
    locks: &'a [Lock],
}

impl<'a> Live<'a> {
    /// Looks at the bytes of a live file.
    ///
    /// # Errors
    /// A few words that say why these bytes are not one.
    pub fn new(bytes: &'a [u8]) -> Result<Live<'a>, &'static str> {
        if bytes.len() < FILE_BYTES {
            return Err("too short for a statistics file");
        }
        if !bytes.as_ptr().addr().is_multiple_of(align_of::<Header>()) {
            return Err("not at a page boundary");
        }
        // SAFETY: the length and alignment were just checked, and each part's size is a multiple of
        // the next one's alignment; all types are made of atomics and bytes, for which every bit
        // pattern is valid and which may change under us.
        let (header, sites, locks) = unsafe {
            let header = &*bytes.as_ptr().cast::<Header>();
            let sites = bytes.as_ptr().add(size_of::<Header>()).cast::<Site>();
            let locks = sites.add(CAPACITY).cast::<Lock>();
            let sites = core::slice::from_raw_parts(sites, CAPACITY);
            (header, sites, core::slice::from_raw_parts(locks, LOCKS))
        };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err("not a statistics file of Manx");
        }
        if header.format.load(Ordering::Relaxed) != FORMAT {
            return Err("written by another version of Manx");
        }
        Ok(Live { header, sites, locks })
    }

    /// The header.
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// The sites written so far (Invariant 2).
    pub fn sites(&self) -> &'a [Site] {
        let count = self.header.sites.load(Ordering::Acquire) as usize;
        &self.sites[..count.min(CAPACITY)]
    }

    /// How many mutexes are passed on; [`PASSED_ON`] stands for that number or more.
    pub fn passed_on(&self) -> usize {
        // Relaxed: an address is all there is to see.
        self.header.passed_on.iter().filter(|address| address.load(Ordering::Relaxed) != 0).count()
    }

    /// The table of locks, with its empty places (Invariant 3).
    pub fn lock_table(&self) -> &'a [Lock] {
        self.locks
    }
}
