//! Statistics: a live file that is mapped while the program runs, and a report when it ends.
//!
//! Nothing is made before there is something to tell: the file appears when the first search
//! begins. It is shared memory, so a program that is killed has lost nothing, and processes forked
//! from it go on counting in the same file; a program that one of them executes has its own.
//!
//! | asked for | live file | at a normal exit |
//! | --- | --- | --- |
//! | `stats=stderr` | `$TMPDIR/manx-stats-UID/PID.live`, kept | a table on standard error |
//! | `stats=FILE` | `FILE.live`, removed at the end unless forked processes may still count | JSON in `FILE` |
//!
//! A process other than the one in the option `pid` writes `FILE.PID` instead of `FILE`.
//!
//! Invariants:
//! 1. `LIVE` is null or a mapping of [`live::FILE_BYTES`] that stays for the life of the process.
//!    Its bytes are reserved when it is made: a mapped page that finds no room on a full disk would
//!    be a SIGBUS for the program.
//! 2. Records of sites are written by the holder of the guard's latch, and counted in `sites` when
//!    complete. Those of locks: see [`crate::lock::statistics`]; of epochs:
//!    [`crate::slo::statistics`].
//! 3. One thread makes the file: the thread that set `MADE`. Until `LIVE` has the file, no other
//!    thread counts. Nothing waits for anything here: a forked child whose file was just being made
//!    has no statistics.
//! 4. `NAMES` is written once, before `WANTED` becomes true (release), and read only after that was
//!    seen (acquire).

use crate::elf::modules::Module;
use crate::process::{self, Path};
use crate::site::Site;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use platform::file::{self, File};
use platform::signal::without_write_signals;
use platform::{clock, memory};
use preload_abi::live::{self, Header, How, Live};
use preload_abi::options::{self, Options, Stats};
use preload_abi::render;

/// By Invariant 1.
static LIVE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// Statistics were asked for and can be kept.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Whether the report goes to standard error.
static TO_STDERR: AtomicBool = AtomicBool::new(false);
/// There is no report: the live file goes with the process.
static IS_LIVE_ONLY: AtomicBool = AtomicBool::new(false);
/// Processes were forked from this one, or this one was forked: others may still count.
static FORKED: AtomicBool = AtomicBool::new(false);
/// The process that loaded the library.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// A thread makes the file, has made it, or could not.
static MADE: AtomicBool = AtomicBool::new(false);

/// The names of the two files.
struct Names {
    live: Path,
    report: Path,
}

/// [`Names`] that are written once.
struct Written(UnsafeCell<Names>);

// SAFETY: by Invariant 4 all reading happens after the one writing.
unsafe impl Sync for Written {}

static NAMES: Written = Written(UnsafeCell::new(Names { live: Path::new(), report: Path::new() }));

/// The names; only after `WANTED` was seen to be true.
fn names() -> &'static Names {
    // SAFETY: by Invariant 4.
    unsafe { &*NAMES.0.get() }
}

/// Notes what was asked for; nothing is made yet.
pub fn prepare(options: &Options<'_>) {
    let pid = process::id();
    OWNER.store(pid, Ordering::Relaxed);
    // SAFETY: by Invariant 4; this function runs once.
    let names = unsafe { &mut *NAMES.0.get() };
    let named = match options.stats {
        Stats::Off => return,
        Stats::Stderr => {
            TO_STDERR.store(true, Ordering::Relaxed);
            name_in_own_folder(&mut names.live, pid)
        }
        Stats::Live => {
            IS_LIVE_ONLY.store(true, Ordering::Relaxed);
            name_in_own_folder(&mut names.live, pid)
        }
        Stats::File(encoded) => {
            let mut buffer = [0; Path::BYTES];
            options::decode(encoded, &mut buffer).is_some_and(|path| {
                let first = options.pid == 0 || options.pid == pid;
                let mut name = || {
                    names.report.push(path)?;
                    if !first {
                        write!(names.report, ".{pid}").ok()?;
                    }
                    let report = names.report;
                    names.live.push(report.bytes())?;
                    names.live.push(b".live")
                };
                name().is_some()
            })
        }
    };
    WANTED.store(named, Ordering::Release);
    if !named {
        process::say(options.verbose, format_args!("the path for statistics is too long"));
    }
}

/// `$TMPDIR/manx-stats-UID/PID.live`, in a folder that is ours alone.
fn name_in_own_folder(path: &mut Path, pid: u32) -> bool {
    let user = platform::file::this_user();
    let folder = process::variable(b"TMPDIR").filter(|value| !value.is_empty()).unwrap_or(b"/tmp");
    let named = path.push(folder).is_some() && write!(path, "/manx-stats-{user}").is_ok();
    if !named || file::make_folder(path.as_c_str()).is_err() {
        return false;
    }
    // Another user's folder of that name is not to be trusted with a file of a name known in
    // advance.
    let own = File::open(path.as_c_str()).and_then(|folder| folder.owner_and_mode());
    own.is_ok_and(|(owner, mode)| owner == user && mode & 0o077 == 0) && write!(path, "/{pid}.live").is_ok()
}

/// Whether statistics are kept: one load, for callers that would have to read a clock.
#[inline(always)]
pub fn wanted() -> bool {
    // Relaxed: a caller that goes on asks again.
    WANTED.load(Ordering::Relaxed)
}

/// The mapped file; made now if it is wanted and not there yet.
pub(crate) fn header() -> Option<&'static Header> {
    if !WANTED.load(Ordering::Acquire) {
        return None;
    }
    let mut mapped = LIVE.load(Ordering::Acquire);
    if mapped.is_null() {
        // Relaxed: decides by itself which thread makes it (Invariant 3).
        if MADE.swap(true, Ordering::Relaxed) {
            return None;
        }
        mapped = make()?;
        LIVE.store(mapped, Ordering::Release);
    }
    // SAFETY: by Invariant 1; a Header is made of atomics, and zeroes are one.
    unsafe { mapped.cast::<Header>().as_ref() }
}

/// The mapped file, if it was made before: for the trampoline, in which none is made.
#[inline]
pub(crate) fn header_if_made() -> Option<&'static Header> {
    // SAFETY: as above.
    unsafe { LIVE.load(Ordering::Acquire).cast::<Header>().as_ref() }
}

/// The whole file, if there is one; made now as [`header`] makes it.
pub(crate) fn live() -> Option<Live<'static>> {
    let mapped = core::ptr::from_ref(header()?).cast();
    // SAFETY: by Invariant 1, as the header is where the mapping begins.
    let bytes = unsafe { core::slice::from_raw_parts(mapped, live::FILE_BYTES) };
    Live::new(bytes).ok()
}

/// Where to look for a key first. Addresses of locks are words apart and often in arrays of equal
/// structures, and ids of epochs are small: the low bits say little, so the high bits of a product
/// by an odd number do (Knuth's multiplicative hashing).
fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// The record of `key` among these, and whether it is new; `None` if it is not there and no place
/// is free within this number of probes, or if the key is 0. `word` is where a record has its key.
pub(crate) fn claim<T>(
    table: &[T],
    probes: usize,
    key: u64,
    word: impl Fn(&T) -> &AtomicU64,
) -> Option<(&T, bool)> {
    if key == 0 {
        return None;
    }
    let start = spread(key);
    for probe in 0..probes {
        let record = &table[start.wrapping_add(probe) % table.len()];
        // Relaxed: the key says by itself whose record it is, and counters need no order.
        match word(record).load(Ordering::Relaxed) {
            0 => match word(record).compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((record, true)),
                Err(now) if now == key => return Some((record, false)),
                Err(_) => {}
            },
            known if known == key => return Some((record, false)),
            _ => {}
        }
    }
    None
}

fn make() -> Option<*mut u8> {
    let made = without_write_signals(|| {
        let file = File::create(names().live.as_c_str())?;
        let mapped =
            file.reserve(live::FILE_BYTES).and_then(|()| memory::map_shared(&file, live::FILE_BYTES));
        if mapped.is_err() {
            let _ = file::remove(names().live.as_c_str());
        }
        mapped
    });
    let Ok(mapped) = made else {
        WANTED.store(false, Ordering::Release);
        process::say(crate::settings::settings().verbose, format_args!("the statistics file cannot be made"));
        return None;
    };
    let header = mapped.cast::<Header>();
    // SAFETY: the mapping is new, long enough and page-aligned; no other thread knows it yet.
    unsafe {
        let program = process::executable();
        let bytes = program.bytes();
        let room = &mut (*header).program;
        let length = bytes.len().min(room.len());
        room[..length].copy_from_slice(&bytes[..length]);
        let header = &*header;
        header.format.store(live::FORMAT, Ordering::Relaxed);
        header.pid.store(process::id(), Ordering::Relaxed);
        header.state.store(live::RUNNING, Ordering::Relaxed);
        header.started_ns.store(clock::unix_time_ns(), Ordering::Relaxed);
        header.ticks_per_second.store(clock::ticks_per_second(), Ordering::Relaxed);
        header.magic.store(live::MAGIC, Ordering::Release);
    }
    Some(mapped)
}

/// The record for the site at `pivot`: the record that it had before, if its module was closed and
/// opened again, else a new one.
fn record(
    header: &'static Header,
    module: &Module<'_>,
    pivot: usize,
    function: impl FnOnce() -> Option<Function>,
    reason: &str,
) -> Option<&'static live::Site> {
    let offset = pivot.wrapping_sub(module.bias) as u64;
    let executable;
    let name = if module.path.is_empty() {
        executable = process::executable();
        process::file_name(executable.bytes())
    } else {
        module.file_name()
    };
    let name = &name[..name.len().min(64)];
    let count = header.sites.load(Ordering::Acquire) as usize;
    let sites = core::ptr::from_ref(header).wrapping_add(1).cast::<live::Site>();
    // SAFETY: by Invariant 1 there are CAPACITY records behind the header.
    let known = unsafe { core::slice::from_raw_parts(sites, count.min(live::CAPACITY)) };
    let again = known
        .iter()
        .find(|site| site.offset.load(Ordering::Relaxed) == offset && live::name(&site.module) == name);
    if let Some(site) = again {
        // SAFETY: by Invariant 2 no other thread writes it.
        unsafe { write_text(&site.reason, reason.as_bytes()) };
        site.how.store(How::Left as u32, Ordering::Relaxed);
        return Some(site);
    }
    if count >= live::CAPACITY {
        header.dropped.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let place = sites.wrapping_add(count).cast_mut();
    // SAFETY: by Invariant 2 no thread reads this record before it is counted, and no other thread
    // writes it.
    let site = unsafe {
        let site = &mut *place;
        site.symbol = function().unwrap_or([0; 64]);
        write_text(&site.module, name);
        write_text(&site.reason, reason.as_bytes());
        site.offset.store(offset, Ordering::Relaxed);
        site.how.store(How::Left as u32, Ordering::Relaxed);
        &*place
    };
    header.sites.store(count as u32 + 1, Ordering::Release);
    Some(site)
}

/// Writes a text of a record, as far as it fits; it may be read meanwhile, byte by byte.
///
/// # Safety
/// The text is one of a record in the mapped file, and no other thread writes it.
pub(crate) unsafe fn write_text(place: &[u8; 64], text: &[u8]) {
    let first = core::ptr::from_ref(place).cast::<u8>().cast_mut();
    for at in 0..place.len() {
        let byte = text.get(at).copied().unwrap_or(0);
        // SAFETY: within the array, which lies in the mapped file; the rest is the caller's
        // promise.
        unsafe { first.add(at).write_volatile(byte) };
    }
}

/// The name of a function and an offset in it, as records have it.
pub(crate) type Function = [u8; 64];

fn function(name: &CStr, offset: usize) -> Function {
    let mut room = [0; 64];
    let mut text = process::Text { room: &mut room, length: 0 };
    let name = name.to_str().unwrap_or("?");
    let _ = write!(text, "{}+{offset:#x}", &name[..name.floor_char_boundary(52)]);
    room
}

/// The function that holds `address`, and the offset in it, if the module names it.
pub(crate) fn function_at(module: &Module<'_>, address: usize) -> Option<Function> {
    let table = module.table()?;
    let (name, start) = table.enclosing(address)?;
    Some(function(name, address - start))
}

/// Gives sites of a module their records, if statistics are kept.
pub fn attach(sites: &[&'static Site], module: &Module<'_>) {
    let Some(header) = header() else { return };
    let mut sites: Vec<(usize, &Site)> =
        sites.iter().map(|site| (site.pivot.load(Ordering::Relaxed), *site)).collect();
    sites.sort_unstable_by_key(|(pivot, _)| *pivot);
    let pivots: Vec<usize> = sites.iter().map(|(pivot, _)| *pivot).collect();
    // One walk for all: a library may have a thousand loops, and ten thousand functions.
    let table = module.table();
    let functions = table.as_ref().map_or_else(Vec::new, |table| table.enclosing_all(&pivots));
    for (n, (pivot, site)) in sites.into_iter().enumerate() {
        let function = || {
            let (name, start) = (*functions.get(n)?)?;
            Some(function(name, pivot - start))
        };
        let record = record(header, module, pivot, function, "");
        let record = record.map_or(core::ptr::null_mut(), |record| core::ptr::from_ref(record).cast_mut());
        site.record.store(record, Ordering::Release);
    }
}

/// A site was left alone, or is no wait.
pub fn left(module: &Module<'_>, pivot: usize, reason: &str) {
    let Some(header) = header() else { return };
    record(header, module, pivot, || function_at(module, pivot), reason);
}

/// Counts that a module with `bytes` bytes of text was searched.
pub fn module(bytes: usize) {
    if let Some(header) = header() {
        header.modules.fetch_add(1, Ordering::Relaxed);
        header.text_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A module was repaired as an earlier start did.
pub fn module_from_cache() {
    if let Some(header) = header() {
        header.cached.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a search that took `ns` nanoseconds.
pub fn searched(ns: u64) {
    if let Some(header) = header() {
        header.scans.fetch_add(1, Ordering::Relaxed);
        header.scan_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

/// After a fork, in parent and child.
pub fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// The process exits: writes the report.
pub fn finish() {
    if LIVE.load(Ordering::Acquire).is_null() {
        return;
    }
    let Some(live) = live() else { return };
    let owner = process::id() == OWNER.load(Ordering::Relaxed);
    if owner {
        live.header().state.store(live::ENDED, Ordering::Release);
    }
    without_write_signals(|| report(&live, owner));
}

fn report(live: &Live<'_>, owner: bool) {
    if TO_STDERR.load(Ordering::Relaxed) {
        if owner {
            let _ = render::table(live, &mut process::Output::new(2));
        }
        return;
    }
    let names = names();
    if IS_LIVE_ONLY.load(Ordering::Relaxed) {
        if owner && !FORKED.load(Ordering::Relaxed) {
            let _ = file::remove(names.live.as_c_str());
        }
        return;
    }
    let Ok(report) = File::create_for_user(names.report.as_c_str()) else {
        process::say(crate::settings::settings().verbose, format_args!("the statistics cannot be written"));
        return;
    };
    let written = render::json(live, &mut process::Output::new(report.descriptor())).is_ok();
    if written && owner && !FORKED.load(Ordering::Relaxed) {
        let _ = file::remove(names.live.as_c_str());
    }
}
