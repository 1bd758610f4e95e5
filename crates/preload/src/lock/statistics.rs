//! The locks that threads waited for, counted in the live file.
//!
//! A thread that had to wait counts its wait when the wait is over, on its own time: a wait is long
//! beside this. There is no lock here and no allocation, since the callers are the program's own
//! calls of `pthread_mutex_lock`. Each lock has a record in a table of fixed size, found by its
//! address: open addressing, a few probes, then the wait is counted as dropped.
//!
//! A record also says where the lock was first waited for. The loader's list of modules would tell
//! which module that is, but reading it takes the loader's lock, and a thread that holds the
//! loader's lock may wait for the lock that the caller has just been given. `/proc/self/maps` tells
//! the same and takes nothing. The module cannot go away meanwhile: the caller will return into it.
//!
//! Mutexes that are the C library's in every mode are counted by their addresses alone: a set of
//! fixed size in the file's header.
//!
//! Invariants:
//! 1. A record belongs to the address in it, which changes once, from 0, by one atomic step. The
//!    thread that made that step writes the names, and sets `named` when they are complete
//!    (release).
//! 2. Counters only grow, by relaxed steps; readers take them one by one.

use crate::elf::modules::{Generation, Module};
use crate::statistics::{self, claim};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::Elf64_Ehdr as FileHeader;
use libc::Elf64_Phdr as ProgramHeader;
use platform::clock::ticks_to_ns;
use platform::file::File;
use preload_abi::live::{Header, Kind, Lock, PASSED_ON};

/// How many places an address may lie from the place that its hash gives.
const PROBES: usize = 32;
/// What a line of `/proc/self/maps` may take; longer ones end the search.
const LINE_BYTES: usize = 2048;

/// One wait for a lock that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// How long it took, in ticks.
    pub ticks: u64,
    /// Whether the lock was handed over to the waiter, rather than found free.
    pub handed_over: bool,
    /// Whether the waiter's window was over by then.
    pub starving: bool,
}

/// Counts a wait for the lock at `address`, if statistics are kept. `caller` is where the program's
/// call returns to; 0 if that is not known.
///
/// Leaves `errno` alone. Ask [`statistics::wanted`] first whether the clock has to be read at all.
#[cold]
pub fn waited(address: usize, caller: usize, kind: Kind, wait: &Waited) {
    let Some(live) = statistics::live() else { return };
    count(live.header(), live.lock_table(), address, caller, kind, wait);
}

fn count(header: &Header, table: &[Lock], address: usize, caller: usize, kind: Kind, wait: &Waited) {
    let Some((lock, first)) = find(table, address as u64) else {
        header.lock_waits_dropped.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if first {
        describe(lock, caller, kind);
        // The record is one of the table, so the difference is its place there.
        let place = (core::ptr::from_ref(lock).addr() - table.as_ptr().addr()) / size_of::<Lock>();
        // Release pairs with the load of a reader that looks at the places with a bit only.
        header.lock_places[place / 64].fetch_or(1 << (place % 64), Ordering::Release);
    }
    // Relaxed, all of them: by Invariant 2.
    lock.waits.fetch_add(1, Ordering::Relaxed);
    lock.histogram.record(ticks_to_ns(wait.ticks));
    lock.waited_ticks.fetch_add(wait.ticks, Ordering::Relaxed);
    lock.longest_ticks.fetch_max(wait.ticks, Ordering::Relaxed);
    lock.hand_overs.fetch_add(u64::from(wait.handed_over), Ordering::Relaxed);
    lock.starving.fetch_add(u64::from(wait.starving), Ordering::Relaxed);
}

/// Counts the mutex at `address` among the mutexes that are the C library's because of what they
/// are, if statistics are kept. Each mutex is counted once, however often it is locked.
#[cold]
pub fn passed_on(address: usize) {
    if let Some(header) = statistics::header() {
        note(&header.passed_on, address as u64);
    }
}

/// Puts `address` into the set, unless it is there or the set is full.
fn note(set: &[AtomicU64; PASSED_ON], address: u64) {
    claim(set, PASSED_ON, address, |word| word);
}

/// The record of `address`, and whether it is new and to be described by the caller.
fn find(table: &[Lock], address: u64) -> Option<(&Lock, bool)> {
    claim(table, PROBES, address, |lock| &lock.address)
}

/// Writes what a new record says besides counts (Invariant 1).
fn describe(lock: &Lock, caller: usize, kind: Kind) {
    lock.kind.store(kind as u32, Ordering::Relaxed);
    if caller != 0 {
        // The call, rather than what comes behind it, which may be another function.
        let call = caller - 1;
        let _ = in_module_of(call, &mut |module| {
            lock.offset.store(call.wrapping_sub(module.bias) as u64, Ordering::Relaxed);
            let symbol = statistics::function_at(module, call).unwrap_or([0; 64]);
            // SAFETY: by Invariant 1 no other thread writes them.
            unsafe {
                statistics::write_text(&lock.module, module.file_name());
                statistics::write_text(&lock.symbol, &symbol);
            }
        });
    }
    // Release pairs with the load of the reader that shows the names.
    lock.named.store(1, Ordering::Release);
}

/// Calls `visit` with the module that `address` lies in. The module must not be closed meanwhile.
fn in_module_of(address: usize, visit: &mut dyn FnMut(&Module<'_>)) -> Option<()> {
    let file = File::open(c"/proc/self/maps").ok()?;
    let mut room = [0; LINE_BYTES];
    let (mut offset, mut kept) = (0, 0);
    // Where the file of the line before begins, and which file that is.
    let mut begins = None;
    loop {
        let read = file.read_at(&mut room[kept..], offset).ok()?;
        let filled = kept + read;
        let mut line_start = 0;
        while let Some(length) = memchr::memchr(b'\n', &room[line_start..filled]) {
            let line = &mut room[line_start..=line_start + length];
            // The path ends with a zero in place of the line break.
            line[length] = 0;
            let line = Line::parse(line);
            if let Some(line) = &line {
                if line.offset == 0 && line.readable {
                    begins = Some((line.range.start, line.inode));
                }
                if line.range.contains(&address) {
                    let (start, inode) = begins?;
                    if inode != line.inode {
                        return None;
                    }
                    // SAFETY: `start` is where the file of the mapping that the address lies in
                    // begins, and it is mapped readable; the address is in use as code, so the
                    // module stays.
                    return unsafe { of_mapping(start, line.path, visit) };
                }
            }
            line_start += length + 1;
        }
        if read == 0 || line_start == 0 {
            return None;
        }
        offset += read as u64;
        room.copy_within(line_start..filled, 0);
        kept = filled - line_start;
    }
}

/// A mapping of a file, as a line of `/proc/self/maps` has it.
struct Line<'a> {
    range: Range<usize>,
    readable: bool,
    offset: usize,
    /// Device and inode, as text.
    inode: (u64, u64),
    path: &'a CStr,
}

impl<'a> Line<'a> {
    /// Reads a line that ends with a zero; `None` if it tells of no file.
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let path_at = memchr::memchr(b'/', line)?;
        let mut fields = line[..path_at].split(|&b| b == b' ').filter(|field| !field.is_empty());
        let mut range = fields.next()?.split(|&b| b == b'-').map(|end| number(end, 16));
        let range = range.next()?? as usize..range.next()?? as usize;
        let readable = fields.next()?.first() == Some(&b'r');
        let offset = number(fields.next()?, 16)? as usize;
        let mut device = fields.next()?.split(|&b| b == b':').map(|part| number(part, 16));
        let device = device.next()?? << 32 | device.next()??;
        let inode = (device, number(fields.next()?, 10)?);
        let path = CStr::from_bytes_with_nul(&line[path_at..]).ok()?;
        Some(Line { range, readable, offset, inode, path })
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, radix).ok()
}

/// Calls `visit` with the module whose file is mapped from `start` on.
///
/// # Safety
/// The file's first page is mapped readable at `start`, and if it is an ELF file, then as the
/// loader maps it.
unsafe fn of_mapping(start: usize, path: &CStr, visit: &mut dyn FnMut(&Module<'_>)) -> Option<()> {
    // SAFETY: the caller says that a page is readable there, which a file header fits in.
    let header = unsafe { &*(start as *const FileHeader) };
    let (first, count) = (header.e_phoff as usize, usize::from(header.e_phnum));
    let in_page = first.saturating_add(count * size_of::<ProgramHeader>()) <= platform::memory::page_bytes();
    let is_elf = header.e_ident.starts_with(b"\x7fELF\x02")
        && usize::from(header.e_phentsize) == size_of::<ProgramHeader>();
    if !is_elf || !in_page || !first.is_multiple_of(align_of::<ProgramHeader>()) {
        return None;
    }
    // SAFETY: the table is aligned and lies within the page, as was just checked.
    let headers = unsafe { core::slice::from_raw_parts((start + first) as *const ProgramHeader, count) };
    let lowest = headers.iter().find(|h| h.p_type == libc::PT_LOAD && h.p_offset == 0)?;
    let (bias, generation) = (start.wrapping_sub(lowest.p_vaddr as usize), Generation::default());
    visit(&Module { path, bias, headers, generation });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::live::{self, FILE_BYTES, LOCKS, Live, name};

    /// A live file in memory, all zero.
    struct Room(Vec<u8>);

    impl Room {
        fn new() -> Room {
            Room(vec![0; FILE_BYTES + align_of::<Header>()])
        }

        fn parts(&self) -> (&Header, &[Lock]) {
            let bytes = &self.0[self.0.as_ptr().align_offset(align_of::<Header>())..];
            // SAFETY: aligned and long enough; a header is made of atomics and bytes.
            let header = unsafe { &*bytes.as_ptr().cast::<Header>() };
            header.magic.store(live::MAGIC, Ordering::Relaxed);
            header.format.store(live::FORMAT, Ordering::Relaxed);
            (header, Live::new(bytes).expect("a live file").lock_table())
        }

        fn live(&self) -> Live<'_> {
            let bytes = &self.0[self.0.as_ptr().align_offset(align_of::<Header>())..];
            Live::new(bytes).expect("a live file")
        }
    }

    fn sum(table: &[Lock], field: impl Fn(&Lock) -> &AtomicU64) -> u64 {
        table.iter().map(|lock| field(lock).load(Ordering::Relaxed)).sum()
    }

    #[test]
    fn threads_that_wait_at_once_lose_nothing_and_no_lock_has_two_records() {
        let room = Room::new();
        let (header, table) = room.parts();
        let wait = Waited { ticks: 3, handed_over: true, starving: false };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..20_000_usize {
                        let address = 0x5555_0000_0000 + (round * 7 + thread) % 200 * 40;
                        count(header, table, address, 0, Kind::Recursive, &wait);
                    }
                });
            }
        });
        assert_eq!(header.lock_waits_dropped.load(Ordering::Relaxed), 0);
        assert_eq!(sum(table, |lock| &lock.waits), 160_000);
        let used = (0..LOCKS).filter(|&place| table[place].address.load(Ordering::Relaxed) != 0);
        assert!(room.live().lock_places().eq(used), "a bit for each record, and no other");
        assert_eq!(sum(table, |lock| &lock.waited_ticks), 480_000);
        assert_eq!((sum(table, |lock| &lock.hand_overs), sum(table, |lock| &lock.starving)), (160_000, 0));
        let mut addresses: Vec<u64> =
            table.iter().map(|lock| lock.address.load(Ordering::Relaxed)).filter(|&a| a != 0).collect();
        assert_eq!(addresses.len(), 200);
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 200);
        for lock in table.iter().filter(|lock| lock.address.load(Ordering::Relaxed) != 0) {
            assert_eq!((lock.named.load(Ordering::Relaxed), lock.kind.load(Ordering::Relaxed)), (1, 1));
            assert_eq!(lock.longest_ticks.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn waits_that_find_no_room_are_counted() {
        let room = Room::new();
        let (header, table) = room.parts();
        for index in 0..3 * LOCKS {
            count(header, table, 0x7fff_0000 + index * 64, 0, Kind::Normal, &Waited::default());
        }
        let dropped = header.lock_waits_dropped.load(Ordering::Relaxed);
        assert_eq!(sum(table, |lock| &lock.waits) + dropped, 3 * LOCKS as u64);
        // The table is used well before anything is dropped, and what is in it is still found.
        assert!(dropped <= 2 * LOCKS as u64 + LOCKS as u64 / 8, "{dropped}");
        for lock in table {
            let address = lock.address.load(Ordering::Relaxed);
            assert!(
                address == 0
                    || find(table, address).is_some_and(|(found, new)| !new && core::ptr::eq(found, lock))
            );
        }
    }

    #[test]
    fn mutexes_that_are_passed_on_are_counted_once_each_until_the_set_is_full() {
        let set = [const { AtomicU64::new(0) }; PASSED_ON];
        let count = || set.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=PASSED_ON as u64 / 2).for_each(|n| note(&set, n * 40)));
            }
        });
        assert_eq!(count(), PASSED_ON / 2);
        (1..=2 * PASSED_ON as u64).for_each(|n| note(&set, n * 40));
        assert_eq!(count(), PASSED_ON);
    }

    #[test]
    fn the_place_of_the_first_wait_is_named() {
        // SAFETY: looks a name up.
        let qsort = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) } as usize;
        let room = Room::new();
        let (header, table) = room.parts();
        count(header, table, 64, qsort + 3, Kind::Adaptive, &Waited { ticks: 5, ..Waited::default() });
        count(header, table, 64, 0, Kind::Adaptive, &Waited { ticks: 4, ..Waited::default() });
        let (lock, _) = find(table, 64).expect("the record");
        assert_eq!((name(&lock.module), name(&lock.symbol)), (&b"libc.so.6"[..], &b"qsort+0x2"[..]));
        assert_eq!((lock.waits.load(Ordering::Relaxed), lock.longest_ticks.load(Ordering::Relaxed)), (2, 5));

        // The test itself, whose functions are in no table of the loader's: module and offset
        // remain.
        let ours = the_place_of_the_first_wait_is_named as *const () as usize;
        count(header, table, 128, ours + 1, Kind::Normal, &Waited::default());
        let (lock, _) = find(table, 128).expect("the record");
        let executable = std::env::current_exe().expect("a path");
        let expected = executable.file_name().expect("a name").as_encoded_bytes();
        assert_eq!(name(&lock.module), &expected[..expected.len().min(64)]);
        assert!(lock.offset.load(Ordering::Relaxed) > 0 && lock.offset.load(Ordering::Relaxed) < ours as u64);
    }

    #[test]
    fn an_address_in_no_file_is_named_by_nothing() {
        let heap = Box::new(7_u64);
        let room = Room::new();
        let (header, table) = room.parts();
        for caller in [core::ptr::from_ref(&*heap).addr(), 1, usize::MAX] {
            count(header, table, caller, caller, Kind::Normal, &Waited::default());
            let (lock, _) = find(table, caller as u64).expect("the record");
            assert_eq!((name(&lock.module), name(&lock.symbol)), (&b""[..], &b""[..]));
            assert_eq!(lock.named.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = b"7f00-7fff r-xp 0001a000 fd:01 1234    /a b/lib.so\0";
        let line = Line::parse(line).expect("a file's line");
        assert_eq!((line.range, line.readable, line.offset), (0x7f00..0x7fff, true, 0x1a000));
        assert_eq!((line.inode, line.path), ((0xfd_0000_0001, 1234), c"/a b/lib.so"));
        for other in [
            &b"7f00-7fff rw-p 00000000 00:00 0 \0"[..],
            b"7f00-7fff rw-p 00000000 00:00 0   [heap]\0",
            b"/\0",
            b"\0",
        ] {
            assert!(Line::parse(other).is_none());
        }
    }
}
