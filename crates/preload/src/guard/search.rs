//! Which modules are new, which are gone, and which loops of theirs wait.
//!
//! A search reads the text of each new module from its file, a part at a time, and looks for seeds
//! (`spinloop::seeds`): that faults in nothing of the program's mapped text and costs a fraction of decoding
//! it. Only the functions that hold seeds are then decoded, where they are mapped. Where the waits of a large module are is
//! kept for the next start ([`cache`]).
//!
//! Invariants:
//! 1. `known` lists the modules as of `generation`; a module is searched once for each time it is loaded. It is the one that
//!    was searched if nothing has been closed since, or if a jump of ours stands in it. So a copy lives as long
//!    as its module, also where the program has written over one of the jumps.
//! 2. The loader keeps its list locked while it shows us a module, so no module goes away in the middle.
//! 3. Left alone, whatever it holds: the C library and the loader (their spins are bounded, and we would
//!    be waiting inside the calls that we make), this library, what has no file, text that the program
//!    may write (its rights would be lost when ours to write are given back), and text that the loader relocates.
//! 4. Several instructions are replaced by one jump ([`spinloop::Jump::Row`]) only where no other thread can stand between
//!    them: while there is no other thread, or in a module that has never run, as the new ones at a
//!    [`rendezvous`].
//! 5. While there are other threads, a module may not be relocated yet. Its text and its tables of relocations are as they will be (text that is
//!    relocated is left alone); of its data we see what the loader is going to write.

use super::repair::{Copied, Repair, Workshop};
use super::room::Room;
use super::site::Site;
use super::text::Text;
use super::{cache, perf_map, rendezvous};
use crate::elf::modules::{self, Generation, Module};
use crate::elf::symbols::Table;
use crate::elf::{imports, relocations};
use crate::{meant, settings, shortage, statistics};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::Ordering;
use platform::file::File;
use platform::{clock, memory};
use spinloop::{Finder, Finding, Kind, Machine, Seed, Segments, Way};

/// How much of a file is read at a time.
const PART: usize = 256 << 10;

/// A module that has been searched.
struct Known {
    path: CString,
    bias: usize,
    extent: Range<usize>,
    repairs: Vec<Repair>,
    seen: bool,
}

/// Who may run in the modules that are new to a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Nobody, ever.
    Never,
    /// Nobody at the moment: there is no other thread.
    Still,
    /// Any thread.
    Running,
}

/// A loop that will be repaired: all is ready but the program's text is as it was.
struct Plan {
    pivot: usize,
    site: &'static Site,
    copied: Copied,
    way: Way,
}

/// All that the guard keeps between searches.
#[derive(Default)]
pub struct Search {
    generation: Option<Generation>,
    known: Vec<Known>,
    room: Room,
    /// Sites of closed modules, to be used again.
    spare: Vec<&'static Site>,
    /// How waits end: one for all sites that end alike, never freed.
    kinds: Vec<&'static Kind>,
    /// What `perf` is to be told of this search.
    perf_lines: String,
}

impl Search {
    /// Nothing searched yet.
    pub const fn new() -> Search {
        Search {
            generation: None,
            known: Vec::new(),
            room: Room::new(),
            spare: Vec::new(),
            kinds: Vec::new(),
            perf_lines: String::new(),
        }
    }

    /// Whether the loader's list is as it was when it was searched.
    pub fn is_current(&self) -> bool {
        self.generation.is_some_and(|last| last == modules::each(&mut |_| false))
    }

    /// Searches what is new and forgets what is gone. `meets`: at a rendezvous with the loader.
    pub fn run(&mut self, meets: bool) {
        let behind = rendezvous::catch_up();
        if self.is_current() {
            return;
        }
        // What is gone is forgotten first: a library that was closed and opened again is often at its old
        // place, with a new site for each of its old ones.
        self.known.iter_mut().for_each(|known| known.seen = false);
        let generation = modules::each(&mut |module| {
            if let Some(known) = self.known_as(&module) {
                known.seen = true;
            }
            true
        });
        self.forget();
        let last = self.generation;
        if last.is_some_and(|last| last.added == generation.added) {
            self.generation = Some(generation);
            return;
        }
        if !memory_suffices() {
            rendezvous::fall_behind();
            return;
        }
        let before_ns = clock::now_ns();
        shortage::prepare();
        let text = Text::open();
        let alone = crate::process::threads() == Some(1);
        if last.is_none() {
            // Before the walk: what comes after it comes to the rendezvous.
            rendezvous::install(&text, alone);
        }
        // By Invariant 4.
        let runs = match (alone, meets && !behind) {
            (_, true) => Runs::Never,
            (true, false) => Runs::Still,
            (false, false) => Runs::Running,
        };
        self.known.iter_mut().for_each(|known| known.seen = false);
        modules::each(&mut |module| {
            self.meet(&module, &text, runs);
            true
        });
        // If the list has changed between the two walks, the next look finds it changed.
        self.generation = Some(generation);
        let lines = core::mem::take(&mut self.perf_lines);
        if !lines.is_empty() {
            perf_map::add(&lines);
        }
        statistics::searched(clock::now_ns().saturating_sub(before_ns));
    }

    /// What is known of a module, if it is one that has been searched (Invariant 1).
    fn known_as(&mut self, module: &Module<'_>) -> Option<&mut Known> {
        let extent = module.extent();
        let none_closed = self.generation.is_some_and(|last| last.removed == module.generation.removed);
        // SAFETY: the module is mapped while the loader shows it (Invariant 2).
        let stands = |repair: &Repair| unsafe { repair.stands() };
        let same = |known: &Known| {
            known.bias == module.bias
                && known.extent == extent
                && known.path.as_c_str() == module.path
                && (none_closed || known.repairs.is_empty() || known.repairs.iter().any(stands))
        };
        self.known.iter_mut().find(|known| !known.seen && same(known))
    }

    fn meet(&mut self, module: &Module<'_>, text: &Text, runs: Runs) {
        if let Some(known) = self.known_as(module) {
            known.seen = true;
            return;
        }
        let mut repairs = Vec::new();
        if !left_alone(module) && !has_changing_text(module) && meant::module(module) {
            for plan in self.plan(module, text, runs) {
                match self.repair(plan, text, runs) {
                    Ok(repair) => {
                        if settings::perf_map() {
                            let pivot = repair.site.pivot.load(Ordering::Relaxed);
                            perf_map::note(&mut self.perf_lines, repair.copy(), module, pivot);
                        }
                        repairs.push(repair);
                    }
                    Err((pivot, reason)) => leave(module, pivot, reason),
                }
            }
        }
        let (path, extent) = (module.path.to_owned(), module.extent());
        self.known.push(Known { path, bias: module.bias, extent, repairs, seen: true });
    }

    /// Searches one module and prepares its repairs. The module's text is only read.
    fn plan(&mut self, module: &Module<'_>, text: &Text, runs: Runs) -> Vec<Plan> {
        let entry = cache::Entry::of(module, settings::cache());
        let known = entry.as_ref().and_then(cache::Entry::read);
        let is_known = known.is_some();
        let mut seeds = known.unwrap_or_else(|| seeds(module));
        // Never kept: a cache says only where to look, and what is found there is its own witness. A name is not.
        seeds.extend(polling(module).map(|address| (Seed::Poll, address)));
        if seeds.is_empty() && is_known {
            return Vec::new();
        }
        let slice = |range: Range<usize>| {
            // SAFETY: the segments are mapped and readable while the loader shows the module (Invariant 2).
            let bytes = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
            (range.start as u64, bytes)
        };
        // By Invariant 5. What is put in front is found first.
        let relocated = match runs {
            Runs::Never | Runs::Running => relocations::relocated_data(module),
            Runs::Still => Some(Vec::new()),
        };
        let Some(relocated) = relocated else { return Vec::new() };
        let data = relocated.iter().map(|(start, bytes)| (*start as u64, bytes.as_slice()));
        let segments: Vec<(u64, &[u8])> = data.chain(module.readable().map(slice)).collect();
        let ranges: Vec<Range<u64>> =
            module.text().map(|(range, _)| range.start as u64..range.end as u64).collect();
        let image = Segments(&segments);
        let unwind = module.eh_frame_hdr().map(|address| address as u64);
        let module_of = spinloop::Module::new(MACHINE, &image, &ranges, unwind);
        let mut finder = Finder::with_imports(module_of, imports::slots(module, &spinloop::BLOCKING));
        let (mut plans, mut places) = (Vec::new(), Vec::new());
        for (seed, address) in seeds {
            let finding = finder.analyse(address as u64, seed);
            if finding != Finding::Nothing && seed != Seed::Poll {
                places.push((seed, address));
            }
            let found = match finding {
                Finding::Nothing => continue,
                Finding::Leave(reason) => {
                    statistics::left(module, address, reason.words());
                    continue;
                }
                Finding::Wait(_) if !meant::site(module, address) => {
                    statistics::left(module, address, preload_abi::filter::NOT_MEANT);
                    continue;
                }
                Finding::Wait(found) => found,
            };
            let site = self.site(address, found.kind);
            let planned = match finder.way(&found, runs != Runs::Running) {
                _ if !returns_work() => Err("the CPU checks returns"),
                None => Err("no jump fits while threads run"),
                Some(way) => {
                    let mut workshop =
                        Workshop { text, room: &mut self.room, module: module.extent(), unwind };
                    match workshop.copy(site, &image, &found, &way) {
                        // A visit in every round would make the author's number of rounds take several times as long.
                        Ok(copied) if matches!(found.kind, Kind::Counted(_)) && !copied.spins() => {
                            workshop.drop_copy(copied);
                            Err("its flags are in use in every round")
                        }
                        copied => copied.map(|copied| (way, copied)),
                    }
                }
            };
            match planned {
                Ok((way, copied)) => {
                    statistics::attach(site, module, address);
                    plans.push(Plan { pivot: address, site, copied, way });
                }
                Err(reason) => {
                    self.spare.push(site);
                    leave(module, address, reason);
                }
            }
        }
        if let Some(entry) = entry.filter(|_| !is_known) {
            entry.write(&places);
        }
        plans
    }

    /// A site for the wait at `pivot` that nothing is known of yet.
    fn site(&mut self, pivot: usize, kind: Kind) -> &'static Site {
        let site = self.spare.pop().unwrap_or_else(|| Box::leak(Box::default()));
        let known = self.kinds.iter().copied().find(|known| **known == kind);
        let kind = known.unwrap_or_else(|| {
            let new: &'static Kind = Box::leak(Box::new(kind));
            self.kinds.push(new);
            new
        });
        site.pivot.store(pivot, Ordering::Relaxed);
        site.spins.store(0, Ordering::Relaxed);
        site.set_kind(kind);
        site
    }

    /// Repairs a loop.
    fn repair(&mut self, plan: Plan, text: &Text, runs: Runs) -> Result<Repair, (usize, &'static str)> {
        let Plan { pivot, site, copied, way } = plan;
        let alone = runs != Runs::Running;
        let mut workshop = Workshop { text, room: &mut self.room, module: 0..0, unwind: None };
        // SAFETY: the finder found the way for this loop, in text that nothing has changed since; rows are asked for
        // only by Invariant 4.
        unsafe { workshop.jump(site, copied, &way, alone) }.map_err(|(copied, reason)| {
            workshop.drop_copy(copied);
            site.record.store(core::ptr::null_mut(), Ordering::Release);
            self.spare.push(site);
            (pivot, reason)
        })
    }

    /// Drops what belongs to modules that are gone.
    fn forget(&mut self) {
        for known in self.known.extract_if(.., |known| !known.seen) {
            for repair in known.repairs {
                self.spare.push(repair.close(&mut self.room));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: Machine = Machine::X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: Machine = Machine::Aarch64;

/// Whether a search would find the memory that it needs: the process may have a limit of its own, and an
/// allocation that fails in the middle would end it.
fn memory_suffices() -> bool {
    /// Several times what the largest programs needed.
    const BYTES: usize = 32 << 20;
    let Ok(mapped) = memory::map_zeroes(BYTES, memory::READ | memory::WRITE) else { return false };
    // SAFETY: nobody has used it.
    unsafe { memory::unmap(mapped, BYTES).is_ok() }
}

/// Notes that a loop which should have been repaired was not, and says so if that was asked for.
fn leave(module: &Module<'_>, pivot: usize, reason: &'static str) {
    let name = core::str::from_utf8(file_name(module.path)).unwrap_or("?");
    let name = if name.is_empty() { "the program" } else { name };
    let offset = pivot.wrapping_sub(module.bias);
    crate::process::say(
        settings::verbose(),
        format_args!("{name}: the busy-wait loop at {offset:#x} is left alone: {reason}"),
    );
    statistics::left(module, pivot, reason);
}

/// Whether a return without a call is allowed: the trampoline makes one, whichever way leads to it.
fn returns_work() -> bool {
    !memory::shadow_stack()
}

/// Whether others than we write to a module's text.
fn has_changing_text(module: &Module<'_>) -> bool {
    module.has_writable_text() || module.has_text_relocations()
}

/// By Invariant 3.
pub(crate) fn left_alone(module: &Module<'_>) -> bool {
    preload_abi::is_left_alone(file_name(module.path)) || module.holds(left_alone as *const () as usize)
}

/// The last part of a path.
pub fn file_name(path: &CStr) -> &[u8] {
    let path = path.to_bytes();
    path.iter().rposition(|&b| b == b'/').map_or(path, |at| &path[at + 1..])
}

/// Where the module's own functions by which threads poll begin.
fn polling<'a>(module: &Module<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let table = Table::of(module);
    spinloop::POLLING.iter().filter_map(move |name| Some(table.as_ref()?.extent(name)?.start))
}

/// The seeds in a module's text, one kind after the other, each in ascending order.
fn seeds(module: &Module<'_>) -> Vec<(Seed, usize)> {
    let mut found = Vec::new();
    each_part(module, spinloop::OVERLAP, &mut |address, text| {
        #[cfg(target_arch = "x86_64")]
        found.extend(spinloop::seeds(text).into_iter().map(|(at, seed)| (seed, address + at)));
        #[cfg(target_arch = "aarch64")]
        found.extend(spinloop::aarch64::candidates(text).map(|at| (Seed::Pause, address + at)));
    });
    // Parts overlap.
    found.sort_unstable();
    found.dedup();
    statistics::module(module.text().map(|(range, _)| range.len()).sum());
    found
}

/// Shows a module's text, a part at a time, with the address of each; parts overlap by `overlap` bytes, so
/// that nothing that short is cut in two. From the module's file, if that is still what was loaded.
pub(crate) fn each_part(module: &Module<'_>, overlap: usize, visit: &mut dyn FnMut(usize, &[u8])) {
    let path = if module.path.is_empty() { c"/proc/self/exe" } else { module.path };
    let file = File::open(path).ok().filter(|file| is_file_of(file, module));
    let mut part = Vec::new();
    for (range, offset) in module.text() {
        let Some(file) = &file else {
            // SAFETY: text is mapped and readable while the loader shows the module.
            visit(range.start, unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) });
            continue;
        };
        part.resize(PART, 0);
        let mut done = 0;
        while done < range.len() {
            let want = PART.min(range.len() - done);
            let Ok(read) = file.read_at(&mut part[..want], offset + done as u64) else { break };
            visit(range.start + done, &part[..read]);
            if read < PART {
                break;
            }
            done += read - overlap;
        }
    }
}

/// Whether an open file starts as the module does (it may have been replaced since it was loaded).
fn is_file_of(file: &File, module: &Module<'_>) -> bool {
    let start = module.extent().start;
    let mut header = [0; 64];
    let begins = |first: Range<usize>| first.start == start && first.len() >= header.len();
    if !module.readable().next().is_some_and(begins) || file.read_at(&mut header, 0) != Ok(header.len()) {
        return false;
    }
    // SAFETY: the module's first segment is mapped and readable for at least so many bytes.
    unsafe { super::text::holds(start, &header) }
}
