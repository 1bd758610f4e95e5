//! Which modules are new, which are gone, and what their PAUSEs are.
//!
//! A search reads the text of each new module from its file, a part at a time, and looks for the two
//! bytes of PAUSE: that faults in nothing of the program's mapped text and costs a fraction of decoding
//! it. Only the functions that hold such bytes are then decoded, where they are mapped.
//!
//! Invariants:
//! 1. `known` lists the modules as of `generation`; a module is searched once for each time it is loaded.
//! 2. The loader keeps its list locked while it shows us a module, so no module goes away in the middle.
//! 3. Left alone, whatever it holds: the C library and the loader (their spins are bounded, and we would
//!    be waiting inside the calls that we make), this library, what has no file, and text that the program
//!    may write (its rights would be lost when ours to write are given back).

use super::repair::{Copied, Repair, Workshop};
use super::room::Room;
use super::site::Site;
use super::text::Text;
use crate::elf::modules::{self, Generation, Module};
use crate::{meant, sample, settings, statistics, trap};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::Ordering;
use platform::file::File;
use platform::{clock, memory};
use preload_abi::live::How;
use preload_abi::options::Guard;
use spinloop::{Finder, Finding, Machine, Route, Segments};

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

/// A loop that will be repaired: all is ready but the program's text is as it was.
struct Plan {
    pause: usize,
    site: &'static Site,
    copied: Copied,
    route: Option<Route>,
}

/// All that the guard keeps between searches.
#[derive(Default)]
pub struct Search {
    generation: Option<Generation>,
    known: Vec<Known>,
    room: Room,
    /// Sites of closed modules, to be used again.
    spare: Vec<&'static Site>,
}

impl Search {
    /// Nothing searched yet.
    pub const fn new() -> Search {
        Search { generation: None, known: Vec::new(), room: Room::new(), spare: Vec::new() }
    }

    /// Searches what is new and forgets what is gone.
    pub fn run(&mut self) {
        let released = trap::RELEASED.swap(false, Ordering::Relaxed);
        let known = self.generation.is_some();
        if known && !released && self.generation == Some(modules::each(&mut |_| false)) {
            return;
        }
        if !memory_suffices() {
            return;
        }
        let before_ns = clock::now_ns();
        let text = Text::open();
        let alone = crate::process::threads() == Some(1);
        // What is gone is forgotten first: a library that was closed and opened again is often at its old
        // place, with a new site for each of its old ones.
        self.known.iter_mut().for_each(|known| known.seen = false);
        modules::each(&mut |module| {
            if let Some(known) = self.known_as(&module) {
                known.seen = true;
            }
            true
        });
        self.forget();
        self.known.iter_mut().for_each(|known| known.seen = false);
        let generation = modules::each(&mut |module| {
            self.meet(&module, &text, alone);
            true
        });
        self.generation = Some(generation);
        if settings::guard() == Guard::Sample {
            sample::start();
        }
        if trap::holds() {
            // A module that is new may set signal masks by itself.
            trap::arm(alone);
        }
        statistics::searched(clock::now_ns().saturating_sub(before_ns));
    }

    /// What is known of a module, if it is one that has been searched.
    fn known_as(&mut self, module: &Module<'_>) -> Option<&mut Known> {
        let extent = module.extent();
        // SAFETY: the module is mapped while the loader shows it (Invariant 2).
        let same = |known: &Known| unsafe {
            known.bias == module.bias
                && known.extent == extent
                && known.path.as_c_str() == module.path
                && known.repairs.iter().all(|repair| repair.stands())
        };
        self.known.iter_mut().find(|known| !known.seen && same(known))
    }

    fn meet(&mut self, module: &Module<'_>, text: &Text, alone: bool) {
        if let Some(known) = self.known_as(module) {
            known.seen = true;
            if trap::holds() {
                // SAFETY: the module is mapped, and holds what was written.
                known.repairs.iter().for_each(|repair| unsafe { repair.rearm(text) });
            }
            return;
        }
        let mut repairs = Vec::new();
        if !left_alone(module) && !module.has_writable_text() && meant::module(module) {
            for plan in self.plan(module, text) {
                match self.repair(plan, text, alone) {
                    Ok(repair) => repairs.push(repair),
                    Err((pause, reason)) => leave(module, pause, reason),
                }
            }
        }
        let (path, extent) = (module.path.to_owned(), module.extent());
        self.known.push(Known { path, bias: module.bias, extent, repairs, seen: true });
    }

    /// Searches one module and prepares its repairs. The module's text is only read.
    fn plan(&mut self, module: &Module<'_>, text: &Text) -> Vec<Plan> {
        let candidates = candidates(module);
        if candidates.is_empty() {
            return Vec::new();
        }
        let slice = |range: Range<usize>| {
            // SAFETY: the segments are mapped and readable while the loader shows the module (Invariant 2).
            let bytes = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
            (range.start as u64, bytes)
        };
        let segments: Vec<(u64, &[u8])> = module.readable().map(slice).collect();
        let ranges: Vec<Range<u64>> =
            module.text().map(|(range, _)| range.start as u64..range.end as u64).collect();
        let image = Segments(&segments);
        let unwind = module.eh_frame_hdr().map(|address| address as u64);
        let mut finder = Finder::new(spinloop::Module::new(MACHINE, &image, &ranges, unwind));
        let mut plans = Vec::new();
        for pause in candidates {
            let found = match finder.analyse(pause as u64) {
                Finding::NotAnInstruction => continue,
                Finding::Leave(reason) => {
                    statistics::left(module, pause, reason.words());
                    continue;
                }
                Finding::Wait(_) if !meant::site(module, pause) => {
                    statistics::left(module, pause, preload_abi::filter::NOT_MEANT);
                    continue;
                }
                Finding::Wait(found) => found,
            };
            let site = self.site(pause);
            if settings::guard() == Guard::Sample {
                if sample::add(site, &found.parts) {
                    statistics::attach(site, module, pause);
                    site.set_how(How::Sampled);
                } else {
                    self.spare.push(site);
                    statistics::left(module, pause, "too many loops to sample");
                }
                continue;
            }
            if !returns_work() {
                self.spare.push(site);
                statistics::left(module, pause, "the CPU checks returns");
                continue;
            }
            let mut workshop = Workshop { text, room: &mut self.room, module: module.extent() };
            match workshop.copy(site, &image, &found.parts, pause) {
                Ok(copied) => {
                    statistics::attach(site, module, pause);
                    let route = finder.route(pause as u64);
                    plans.push(Plan { pause, site, copied, route });
                }
                Err(reason) => {
                    self.spare.push(site);
                    leave(module, pause, reason);
                }
            }
        }
        plans
    }

    /// A site for the PAUSE at `pause` that nothing is known of yet.
    fn site(&mut self, pause: usize) -> &'static Site {
        let site = self.spare.pop().unwrap_or_else(|| Box::leak(Box::default()));
        site.pause.store(pause, Ordering::Relaxed);
        site.spins.store(0, Ordering::Relaxed);
        site.short.store(0, Ordering::Relaxed);
        site.released.store(0, Ordering::Relaxed);
        site
    }

    /// Repairs a loop: by a jump, else by a breakpoint.
    fn repair(&mut self, plan: Plan, text: &Text, alone: bool) -> Result<Repair, (usize, &'static str)> {
        let Plan { pause, site, copied, route } = plan;
        let mut workshop = Workshop { text, room: &mut self.room, module: 0..0 };
        let jumped = match route {
            // SAFETY: the finder gives only dead bytes, and has decoded the PAUSE as an instruction.
            Some(route) => unsafe { workshop.jump(site, copied, pause, &route, alone) },
            None => Err((copied, "no jump fits, and breakpoints are not safe")),
        };
        let repaired = match jumped {
            Err((copied, _)) if settings::traps_wanted() && trap::arm(alone) && trap::watch(site, pause) => {
                // SAFETY: the handler is armed and knows the address; the PAUSE is an instruction.
                unsafe { workshop.trap(site, copied, pause) }
            }
            other => other,
        };
        repaired.map_err(|(copied, reason)| {
            workshop.drop_copy(site, copied);
            site.record.store(core::ptr::null_mut(), Ordering::Release);
            self.spare.push(site);
            (pause, reason)
        })
    }

    /// Drops what belongs to modules that are gone.
    fn forget(&mut self) {
        for known in self.known.extract_if(.., |known| !known.seen) {
            sample::forget(&known.extent, |site| self.spare.push(site));
            for repair in known.repairs {
                trap::unwatch(repair.site, repair.pause);
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
fn leave(module: &Module<'_>, pause: usize, reason: &'static str) {
    let name = core::str::from_utf8(file_name(module.path)).unwrap_or("?");
    let name = if name.is_empty() { "the program" } else { name };
    let offset = pause.wrapping_sub(module.bias);
    crate::process::say(
        settings::verbose(),
        format_args!("{name}: the busy-wait loop at {offset:#x} is left alone: {reason}"),
    );
    statistics::left(module, pause, reason);
}

/// Whether a return without a call is allowed: the trampoline makes one, whichever way leads to it.
fn returns_work() -> bool {
    !memory::shadow_stack()
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

/// Where the two bytes of PAUSE stand in a module's text.
fn candidates(module: &Module<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    each_part(module, 1, &mut |address, text| {
        found.extend(spinloop::candidates(text).map(|at| address + at))
    });
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
