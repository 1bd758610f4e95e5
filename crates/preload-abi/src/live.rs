//! The live statistics file: a header page, one record for each loop that was looked at, a table of
//! the locks that threads waited for, and one of the epochs and requests that ended.
//!
//! The library maps the file shared and counts into it with relaxed atomic adds, so whatever kills
//! the program loses nothing; `manx stats` maps or reads the same bytes, while it runs or
//! afterwards. All integers are in the machine's own byte order: the file never travels.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], 4096 bytes |
//! | 4096 + 256 n | [`Site`] n, for n below `Header::sites` |
//! | 4096 + 256 × [`CAPACITY`] + 1920 n | [`Lock`] n, for n below [`LOCKS`], if its address is not 0 |
//! | behind the locks, + 1792 n | [`Epoch`] n, for n below [`EPOCHS`], if its key is not 0 |
//!
//! Invariants:
//! 1. A file without [`MAGIC`] at its start, or with another [`FORMAT`], is not read.
//! 2. A site is written in full before `Header::sites` counts it (release), so a reader that loads
//!    the count (acquire) sees whole records. Counters change at any time and are read one by one.
//! 3. A lock's record belongs to the address that was stored there first, by one atomic step. Only
//!    the thread that made that step writes the names and the kind, and then sets `Lock::named`
//!    (release). A reader of them loads that first (acquire). After that it sets the lock's bit in
//!    `Header::lock_places` (release), so that a reader need not look at the places without a bit.
//! 4. A record of an epoch belongs to the key that was stored there first, by one atomic step. All
//!    else in it are counters.
//! 5. Everything is zero where nothing was written; names end at the first zero byte or at their
//!    end.

use crate::histogram::Histogram;
use crate::words::words;
use core::fmt::{self, Display};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first eight bytes of the file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"MANXLIVE");
/// The layout's version.
pub const FORMAT: u32 = 7;
/// The most sites that one file records; what is found beyond them is counted in `Header::dropped`.
pub const CAPACITY: usize = 4096;
/// The most locks that one file records, a power of two; waits for others are counted in
/// `Header::lock_waits_dropped`.
pub const LOCKS: usize = 1024;
/// How many mutexes that are passed on one file counts, a power of two.
pub const PASSED_ON: usize = 256;
/// The number of epochs, told apart by their ids, that one file records, a power of two; ends of
/// others are counted in `Header::epochs_dropped`.
pub const EPOCHS: usize = 64;
/// Where the table of locks begins, in bytes.
pub const LOCKS_AT: usize = size_of::<Header>() + CAPACITY * size_of::<Site>();
/// Where the table of epochs begins, in bytes.
pub const EPOCHS_AT: usize = LOCKS_AT + LOCKS * size_of::<Lock>();
/// The file's size in bytes.
pub const FILE_BYTES: usize = EPOCHS_AT + EPOCHS * size_of::<Epoch>();
/// The id of the epochs that are requests, which the program does not mark.
pub const REQUESTS_ID: u64 = u64::MAX;

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
    /// Ends of epochs that found no room in the file.
    pub epochs_dropped: AtomicU64,
    /// The program's path.
    pub program: [u8; 512],
    /// Addresses of mutexes that threads have locked and that are the C library's in every mode,
    /// because of what they are: shared between processes, robust, or with a priority protocol. 0:
    /// there is none here.
    pub passed_on: [AtomicU64; PASSED_ON],
    /// Bit `n % 64` of word `n / 64` says that place `n` of the table of locks has a record that is
    /// named (Invariant 3).
    pub lock_places: [AtomicU64; LOCKS / 64],
    /// What the trial says of each cure, in the order of [`Cure`].
    pub trials: [Trial; Cure::ALL.len()],
}

/// What the running program has answered: whether it does more work with a cure.
#[repr(C)]
pub struct Trial {
    /// Whether the cure acts: 0 or 1.
    pub acts: AtomicU32,
    /// Questions that ended with the cure.
    pub kept: AtomicU32,
    /// Questions that ended with the author's way.
    pub dropped: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// Work in a second as the author wrote, in nanoseconds of CPU time, as last measured.
    pub as_written_ns: AtomicU64,
    /// The same with the cure.
    pub cured_ns: AtomicU64,
}

/// A sentence for a program in which each cure that was asked about has lost.
pub const NO_HELP: &str = "Manx does not help this program now: it waits as its author wrote.";

/// A cure that was asked about, and the answer: a [`Trial`], each of its fields loaded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The cure.
    pub cure: Cure,
    /// The last answer.
    pub answer: Answer,
    /// `Trial::kept`
    pub kept: u32,
    /// `Trial::dropped`
    pub dropped: u32,
    /// `Trial::as_written_ns`
    pub as_written_ns: u64,
    /// `Trial::cured_ns`
    pub cured_ns: u64,
}

/// Less than this part more work is not measured well enough to say so.
const TIE_PERCENT: u64 = 20;

impl Asked {
    /// `None` if the cure was not asked about.
    fn read(cure: Cure, trial: &Trial) -> Option<Asked> {
        let [kept, dropped] = [&trial.kept, &trial.dropped].map(|count| count.load(Ordering::Relaxed));
        let [as_written_ns, cured_ns] =
            [&trial.as_written_ns, &trial.cured_ns].map(|work| work.load(Ordering::Relaxed));
        let answer = if trial.acts.load(Ordering::Relaxed) != 0 {
            Answer::Kept
        } else if as_written_ns > cured_ns.saturating_add(cured_ns / 100 * TIE_PERCENT) {
            Answer::Dropped
        } else {
            Answer::Tie
        };
        let is_asked = kept != 0 || dropped != 0;
        is_asked.then_some(Asked { cure, answer, kept, dropped, as_written_ns, cured_ns })
    }
}

/// Work in a second: CPU time without that of waits, so a number of CPUs.
pub struct Work(pub u64);

impl Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 1_000_000_000, self.0 / 10_000_000 % 100)
    }
}

/// The cure, the answer, and the work as written and with the cure.
impl Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { cure, answer, .. } = self;
        let [as_written, cured] = [self.as_written_ns, self.cured_ns].map(Work);
        write!(f, "{} {} ({as_written} to {cured} CPUs)", cure.word(), answer.word())
    }
}

words! {
    /// The last answer to the question whether a program does more work with a cure.
    pub enum Answer {
        /// It does: the cure acts.
        Kept = 0 => "kept",
        /// It does less work with the cure, and waits as its author wrote.
        Dropped = 1 => "dropped",
        /// The difference is too small to tell, and it waits as its author wrote.
        Tie = 2 => "tie",
    }

    /// A way in which threads wait while CPUs are short, in the place of what the author wrote.
    pub enum Cure {
        /// Loops that spin yield and sleep, or end their spinning.
        Spin = 0 => "spin",
        /// Loops that yield sleep.
        Yield = 1 => "yield",
    }

    /// How a site is waited at. `Site::how`.
    pub enum How {
        /// Nothing was changed; `Site::reason` says why.
        Left = 0 => "left",
        /// A jump to a copy.
        Jump = 1 => "jump",
        /// Its library has been closed.
        Closed = 2 => "closed",
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

words! {
    /// The kind of a lock. `Lock::kind`.
    pub enum Kind {
        /// `PTHREAD_MUTEX_NORMAL`, which is the default.
        Normal = 0 => "normal",
        /// `PTHREAD_MUTEX_RECURSIVE`
        Recursive = 1 => "recursive",
        /// `PTHREAD_MUTEX_ERRORCHECK`
        ErrorCheck = 2 => "errorcheck",
        /// `PTHREAD_MUTEX_ADAPTIVE_NP`
        Adaptive = 3 => "adaptive",
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
    /// Waits that were longer than their window: their thread was starving. (`overdue` in the
    /// JSON.)
    pub starving: AtomicU64,
    /// The file name, without its folder, of the module from which it was first waited for.
    pub module: [u8; 64],
    /// The function of that call, and the offset in it, if the module names it.
    pub symbol: [u8; 64],
    /// How long the waits took.
    pub histogram: Histogram,
}

/// The epochs of one id: stretches of work with a latency target, such as requests.
#[repr(C, align(64))]
pub struct Epoch {
    /// [`Epoch::key_of`] its id; 0: there is no epoch here.
    pub key: AtomicU64,
    /// The bound of the latency target when the last one ended, in nanoseconds.
    pub target_ns: AtomicU64,
    /// The percentile of the target, in hundredths of a percent.
    pub percentile: AtomicU64,
    /// Epochs that took longer than their bound.
    pub missed: AtomicU64,
    /// The latencies, all together.
    pub total_ns: AtomicU64,
    /// The longest latency.
    pub longest_ns: AtomicU64,
    /// When the first one ended, in ticks.
    pub first_ticks: AtomicU64,
    /// When the last one ended, in ticks.
    pub last_ticks: AtomicU64,
    /// The latencies.
    pub histogram: Histogram,
}

impl Epoch {
    /// The key of an id; 0 for 2^64 - 2, which is not recorded.
    ///
    /// ```
    /// use preload_abi::live::{Epoch, REQUESTS_ID};
    ///
    /// assert_eq!((Epoch::key_of(0), Epoch::key_of(REQUESTS_ID)), (2, 1));
    /// ```
    pub const fn key_of(id: u64) -> u64 {
        id.wrapping_add(2)
    }

    /// The id, unless there is no epoch here.
    pub fn id(&self) -> Option<u64> {
        // Relaxed: the key says by itself whose record it is.
        match self.key.load(Ordering::Relaxed) {
            0 => None,
            key => Some(key.wrapping_sub(2)),
        }
    }
}

/// The name of the epochs with an id: the id, or `requests`.
///
/// ```
/// use preload_abi::live::{EpochName, REQUESTS_ID};
///
/// assert_eq!((EpochName(7).to_string(), EpochName(REQUESTS_ID).to_string()), ("7".into(), "requests".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochName(pub u64);

impl Display for EpochName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == REQUESTS_ID { f.pad("requests") } else { Display::fmt(&self.0, f) }
    }
}

const _: () = assert!(size_of::<Header>() == 4096 && size_of::<Site>() == 256);
const _: () = assert!(size_of::<Lock>() == 1920 && size_of::<Epoch>() == 1792);
const _: () = assert!(LOCKS.is_power_of_two() && PASSED_ON.is_power_of_two() && EPOCHS.is_power_of_two());

/// Reads a name that ends at its first zero byte.
pub fn name(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

/// The whole file, as mapped or read.
pub struct Live<'a> {
    header: &'a Header,
    sites: &'a [Site],
    locks: &'a [Lock],
    epochs: &'a [Epoch],
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
        let (header, sites, locks, epochs) = unsafe {
            let start = bytes.as_ptr();
            let sites = core::slice::from_raw_parts(start.add(size_of::<Header>()).cast::<Site>(), CAPACITY);
            let locks = core::slice::from_raw_parts(start.add(LOCKS_AT).cast::<Lock>(), LOCKS);
            let epochs = core::slice::from_raw_parts(start.add(EPOCHS_AT).cast::<Epoch>(), EPOCHS);
            (&*start.cast::<Header>(), sites, locks, epochs)
        };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err("not a statistics file of Manx");
        }
        if header.format.load(Ordering::Relaxed) != FORMAT {
            return Err("written by another version of Manx");
        }
        Ok(Live { header, sites, locks, epochs })
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

    /// The cures that were asked about.
    pub fn asked(&self) -> impl Iterator<Item = Asked> + use<'a> {
        Cure::ALL.into_iter().zip(&self.header.trials).filter_map(|(cure, trial)| Asked::read(cure, trial))
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

    /// The places of the table of locks that have a named record, in ascending order (Invariant 3).
    pub fn lock_places(&self) -> impl Iterator<Item = usize> + use<'a> {
        let words = self.header.lock_places.iter().enumerate();
        words.flat_map(|(word, bits)| {
            let mut bits = bits.load(Ordering::Acquire);
            core::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }

    /// The table of epochs, with its empty places (Invariant 4).
    pub fn epochs(&self) -> &'a [Epoch] {
        self.epochs
    }
}
