//! Which modules are new, which are gone, and which loops of theirs wait.
//!
//! A search reads the text of each new module from its file, a part at a time, and looks for seeds
//! (`spinloop::seeds`): that faults in nothing of the program's mapped text and costs a fraction of
//! decoding it. Only the functions that hold seeds are then decoded, as the file has them
//! ([`analysis`]). What comes of a large module is kept for the next start ([`cache`]).
//!
//! Invariants:
//! 1. `known` lists the modules as of `generation`; a module is searched once for each time it is
//!    loaded. A module is the searched one if nothing has been closed since, or if it was there at
//!    each change of the list, or if a jump of ours stands in it. So a copy lives as long as its
//!    module. Where the loader tells of each change, that is so whatever a debugger or the program
//!    has written over the jumps; elsewhere, if it has left one.
//! 2. The loader keeps its list locked while it shows us a module, so no module goes away in the
//!    middle.
//! 3. Left alone, whatever it holds: the C library and the loader (their spins are bounded, and we
//!    would be waiting inside the calls that we make), this library, what has no file, text that
//!    the program may write (its rights would be lost when ours to write are given back), and text
//!    that the loader relocates.
//! 4. Several instructions are replaced by one jump ([`spinloop::Jump::Row`]) only where no thread
//!    can stand between them: in a module that has never run, as the new ones at a
//!    [`rendezvous`](super::rendezvous), or while there is no other thread. Then the calling thread
//!    may have been interrupted between them, or be about to return there; its stacks say so
//!    ([`stopped`]).
//! 5. While there are other threads, it is possible that the loader has not relocated a module yet.
//!    Its text and its tables of relocations are as they will be (text that is relocated is left
//!    alone); of its data we see what the loader is going to write.
//! 6. Plans are of the module's file, and the mapped text may differ from it: a debugger's
//!    breakpoint or another tool's patch stands there. A plan is carried out only if the text holds
//!    the whole loop and all bytes that the repair overwrites as the file does
//!    ([`Repairable::fits`](plan::Repairable::fits)). So no such byte is copied, or lost under a
//!    jump.

use super::code_space::CodeSpace;
use super::plan::{self, Plan, Verdict};
use super::repair::{Job, Quiet, Repair, Repairer};
use super::text::Text;
use super::{analysis, cache, module_file, perf_map, stopped};
use crate::elf::modules::{self, Generation, Module};
use crate::elf::relocations;
use crate::settings::settings;
use crate::site::Site;
use crate::{selection, statistics};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::LazyCell;
use core::ops::Range;
use core::sync::atomic::Ordering;
use platform::file::File;
use platform::memory;
use preload_abi::filter::Entry;
use spinloop::{Kind, Seed};

/// How many sites are allocated at a time.
const SITES: usize = 64;
/// Why a wait is left alone: by Invariant 6.
const CHANGED: &str = "its text is not as its file has it";

/// A module that has been searched.
struct Known {
    path: CString,
    bias: usize,
    extent: Range<usize>,
    repairs: Vec<Repair>,
    seen: bool,
}

/// Which threads may run in the modules that are new to a search.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// No thread runs there, and none ever did.
    Never,
    /// No thread runs there at the moment: there is no other thread. What the calling thread is in
    /// the middle of lies on its stack from this address on.
    Still {
        /// The address of the frame.
        frame: usize,
    },
    /// Any thread may run there.
    Running,
}

impl Runs {
    /// Whether a jump may replace several instructions (Invariant 4).
    fn allows_rows(self) -> bool {
        self != Runs::Running
    }
}

/// All that the guard keeps between searches.
#[derive(Default)]
pub struct Search {
    generation: Option<Generation>,
    /// Each change of the list since `generation` was noted has come to a rendezvous.
    served: bool,
    known: Vec<Known>,
    code_space: CodeSpace,
    /// Sites of closed modules, to be used again.
    spare: Vec<&'static Site>,
    /// How waits end: one for all sites that end alike, never freed.
    kinds: Vec<&'static Kind>,
    /// The lines of this search for `perf`'s map.
    perf_lines: String,
}

impl Search {
    /// The state before the first search.
    pub const fn new() -> Search {
        Search {
            generation: None,
            served: false,
            known: Vec::new(),
            code_space: CodeSpace::new(),
            spare: Vec::new(),
            kinds: Vec::new(),
            perf_lines: String::new(),
        }
    }

    /// Whether the loader's list is as it was when it was searched.
    pub fn is_current(&self) -> bool {
        self.generation.is_some_and(|last| last == modules::each(&mut |_| false))
    }

    /// Whether nothing has been searched yet.
    pub fn is_first(&self) -> bool {
        self.generation.is_none()
    }

    /// Forgets the modules that are gone. Returns the loader's count of changes if modules are new.
    ///
    /// This comes first: a library that was closed and opened again is often at its old place, with
    /// a new site for each of its old ones. `served`: each change of the list since the last search
    /// has come to a rendezvous, so a module that was closed meanwhile is not known any more.
    pub fn forget_gone(&mut self, served: bool) -> Option<Generation> {
        self.served = served;
        self.known.iter_mut().for_each(|known| known.seen = false);
        let generation = modules::each(&mut |module| {
            if let Some(known) = self.known_as(&module) {
                known.seen = true;
            }
            true
        });
        for known in self.known.extract_if(.., |known| !known.seen) {
            for repair in known.repairs {
                self.spare.push(repair.close(&mut self.code_space));
            }
        }
        if self.generation.is_some_and(|last| last.added == generation.added) {
            self.generation = Some(generation);
            return None;
        }
        Some(generation)
    }

    /// Searches the modules that are new, by Invariant 4 as `runs` says; `generation` is what
    /// [`Search::forget_gone`] has returned.
    pub fn search_new(&mut self, generation: Generation, text: &Text, runs: Runs) {
        self.known.iter_mut().for_each(|known| known.seen = false);
        let folder: LazyCell<Option<cache::Folder>> =
            LazyCell::new(|| settings().cache.then(cache::Folder::open).flatten());
        modules::each(&mut |module| {
            self.examine(&module, text, runs, &folder);
            true
        });
        // If the list has changed between the two walks, the next look finds it changed.
        self.generation = Some(generation);
        let lines = core::mem::take(&mut self.perf_lines);
        if !lines.is_empty() {
            perf_map::add(&lines);
        }
    }

    /// Returns what is known of a module, if it has been searched (Invariant 1).
    fn known_as(&mut self, module: &Module<'_>) -> Option<&mut Known> {
        let extent = module.extent();
        let none_closed =
            self.served || self.generation.is_some_and(|last| last.removed == module.generation.removed);
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

    fn examine(
        &mut self,
        module: &Module<'_>,
        text: &Text,
        runs: Runs,
        folder: &LazyCell<Option<cache::Folder>>,
    ) {
        if let Some(known) = self.known_as(module) {
            known.seen = true;
            return;
        }
        let mut repairs = Vec::new();
        if !left_alone(module) && !has_changing_text(module) && selection::module(module) {
            // What is kept is for the names that are known.
            let folder = folder.as_ref().filter(|_| selection::polled(module).is_empty());
            let entry = folder.and_then(|folder| cache::Entry::of(folder, module, runs.allows_rows()));
            let kept = entry.as_ref().and_then(cache::Entry::read);
            let (made, mut plans);
            if let Some(known) =
                entry.as_ref().zip(kept.as_ref()).and_then(|(entry, kept)| kept_plans(entry, kept))
            {
                statistics::module_from_cache();
                plans = known;
            } else {
                made = search(module, runs, entry.as_ref()).unwrap_or_default();
                plans = plan::read(&made).unwrap_or_default();
                refuse_changed(&mut plans, module);
            }
            repairs = self.repair(module, &plans, text, runs);
        }
        let (path, extent) = (module.path.to_owned(), module.extent());
        self.known.push(Known { path, bias: module.bias, extent, repairs, seen: true });
    }

    /// Carries out the plans of a module.
    fn repair(&mut self, module: &Module<'_>, plans: &[Plan<'_>], text: &Text, runs: Runs) -> Vec<Repair> {
        let returns_work = returns_work();
        let mut jobs = Vec::new();
        for Plan { pivot, verdict } in plans {
            let pivot = module.bias.wrapping_add(*pivot);
            match verdict {
                Verdict::NoWait(reason) => statistics::left(module, pivot, reason),
                _ if !selection::site(module, pivot) => {
                    statistics::left(module, pivot, preload_abi::filter::NOT_MEANT);
                }
                Verdict::Repair(_) if !returns_work => leave(module, pivot, "the CPU checks returns"),
                Verdict::Refused(reason) => leave(module, pivot, reason),
                Verdict::Repair(plan) => {
                    jobs.push(Job { site: self.site(pivot, plan.kind(module.bias)), plan });
                }
            }
        }
        let (extent, bias) = (module.extent(), module.bias);
        let segments = module.text().map(|(range, _)| range).collect();
        let quiet = match runs {
            Runs::Never => Quiet::Yes,
            Runs::Running => Quiet::No,
            Runs::Still { frame } if jobs.iter().any(|job| job.plan.is_row()) => {
                stopped::places(frame, &extent).map_or(Quiet::No, Quiet::But)
            }
            Runs::Still { .. } => Quiet::Yes,
        };
        let mut repairer = Repairer { text, code_space: &mut self.code_space, extent, bias, segments, quiet };
        let attach = |sites: &[&'static Site]| statistics::attach(sites, module);
        // SAFETY: the module's text holds the bytes that the plans were made for (Invariant 6);
        // rows are allowed only by Invariant 4.
        let (repairs, left) = unsafe { repairer.repair(jobs, &attach) };
        for (site, reason) in left {
            leave(module, site.pivot.load(Ordering::Relaxed), reason);
            self.spare.push(site);
        }
        if settings().perf_map {
            for repair in &repairs {
                let pivot = repair.site.pivot.load(Ordering::Relaxed);
                perf_map::note(&mut self.perf_lines, repair.copy(), module, pivot);
            }
        }
        repairs
    }

    /// A site for the wait at `pivot` that nothing is known of yet.
    fn site(&mut self, pivot: usize, kind: Kind) -> &'static Site {
        let site = self.spare.pop().unwrap_or_else(|| {
            let new: &'static mut [Site; SITES] =
                Box::leak(Box::new(core::array::from_fn(|_| Site::default())));
            let [first, rest @ ..] = new;
            self.spare.extend(rest.iter());
            first
        });
        let known = self.kinds.iter().copied().find(|known| **known == kind);
        let kind = known.unwrap_or_else(|| {
            let new: &'static Kind = Box::leak(Box::new(kind));
            self.kinds.push(new);
            new
        });
        site.pivot.store(pivot, Ordering::Relaxed);
        site.spins.store(0, Ordering::Relaxed);
        site.record.store(core::ptr::null_mut(), Ordering::Release);
        site.set_kind(kind);
        site
    }
}

/// The plans that an earlier start has kept, if they are for the module as it is.
fn kept_plans<'a>(entry: &cache::Entry<'_>, kept: &'a cache::Kept) -> Option<Vec<Plan<'a>>> {
    let plans = plan::read(kept.plans())?;
    // SAFETY: the module is mapped while the loader shows it (Invariant 2).
    unsafe { entry.fits(&plans) }.then_some(plans)
}

/// Refuses what does not fit the module's text (Invariant 6).
fn refuse_changed(plans: &mut [Plan<'_>], module: &Module<'_>) {
    let text: Vec<_> = module.text().map(|(range, _)| range).collect();
    for plan in plans {
        let Verdict::Repair(repair) = &plan.verdict else { continue };
        // SAFETY: the module is mapped while the loader shows it (Invariant 2).
        if !unsafe { repair.fits(&text, module.bias) } {
            plan.verdict = Verdict::Refused(CHANGED);
        }
    }
}

/// Searches a module, and keeps what comes of it. `None` if its file is gone, or memory is short.
fn search(module: &Module<'_>, runs: Runs, entry: Option<&cache::Entry<'_>>) -> Option<Vec<u8>> {
    // By Invariant 5.
    let relocated = match runs {
        Runs::Never | Runs::Running => relocations::relocated_data(module),
        Runs::Still { .. } => Some(Vec::new()),
    };
    let file = module_file::open(module)?;
    let mut seeds = seeds(module, &file);
    seeds.extend(polling(module).into_iter().map(|address| (Seed::Poll, address)));
    seeds.sort_unstable();
    seeds.dedup();
    let plans = analysis::plans(module, &file, &relocated?, &seeds, runs.allows_rows())?;
    if let Some(entry) = entry {
        entry.write(&plans);
    }
    Some(plans)
}

/// Notes that a loop which should have been repaired was not, and says so if that was asked for.
fn leave(module: &Module<'_>, pivot: usize, reason: &str) {
    let name = core::str::from_utf8(module.file_name()).unwrap_or("?");
    let name = if name.is_empty() { "the program" } else { name };
    let offset = pivot.wrapping_sub(module.bias);
    crate::process::say(
        settings().verbose,
        format_args!("{name}: the busy-wait loop at {offset:#x} is left alone: {reason}"),
    );
    statistics::left(module, pivot, reason);
}

/// Whether a return without a call is allowed: the trampoline makes one, whichever way leads to it.
fn returns_work() -> bool {
    !memory::shadow_stack()
}

/// Whether any code but ours writes to a module's text.
fn has_changing_text(module: &Module<'_>) -> bool {
    module.has_writable_text() || module.has_text_relocations()
}

/// By Invariant 3.
pub(crate) fn left_alone(module: &Module<'_>) -> bool {
    preload_abi::is_left_alone(module.file_name()) || module.holds(left_alone as *const () as usize)
}

/// Where the module's own functions by which threads poll begin: those whose names say so, and
/// those that the user names.
fn polling(module: &Module<'_>) -> Vec<usize> {
    let table = module.table();
    let mut found = Vec::new();
    if let Some(table) = &table {
        table.each_function(&mut |name, code| {
            if spinloop::is_polling(name.to_bytes()) {
                found.push(code.start);
            }
            true
        });
    }
    for entry in selection::polled(module) {
        match (entry, &table) {
            (Entry::Offset(_, offset), _) => found.push(module.bias.wrapping_add(offset as usize)),
            (Entry::Symbol(_, symbol), Some(table)) => table.each_function(&mut |name, code| {
                if symbol.names(name.to_bytes()) {
                    found.push(code.start);
                }
                true
            }),
            _ => {}
        }
    }
    found
}

/// The seeds in a module's text, one kind after the other, each in ascending order.
fn seeds(module: &Module<'_>, file: &File) -> Vec<(Seed, usize)> {
    let mut found = Vec::new();
    module_file::each_part(module, file, spinloop::OVERLAP, &mut |address, text| {
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
