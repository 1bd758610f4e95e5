//! The guard: finds the busy-wait loops of the program and its libraries, and repairs them.
//!
//! It wakes when the program creates its first thread (before that no thread can wait for another),
//! and looks again when the loader tells it that libraries have come or gone. A thread that comes
//! to a repaired loop goes on in a copy of the loop (`spinloop::copy`), in which every round may be
//! a call of [`visit`] through the [`trampoline`]; it gets there by a jump.
//!
//! | file | its part |
//! | --- | --- |
//! | [`rendezvous`] | the loader tells when libraries come and go |
//! | [`search`] | which modules are new, which are gone, which loops wait |
//! | [`analysis`], [`plan`] | what is to become of each loop of a module, whatever the process |
//! | [`cache`] | these plans, kept for the next start |
//! | [`repair`] | writes a module's copies and jumps |
//! | [`text`], [`code_space`], [`trampoline`] | writing code, room for copies of loops, and the way from them to us |
//! | [`mappings`] | what is mapped in the process |
//! | [`frames`] | how unwinders find their way out of copies |
//! | [`perf_map`] | names of copies, for `perf` |
//! | [`site`], [`visit`] | what is known of a site, and one round of waiting at it |
//!
//! Lock order: the loader's lock of `dlopen`, the guard's latch, the loader's lock of
//! `dl_iterate_phdr`. The loader holds the first at a rendezvous, and while it runs constructors,
//! which may create threads.

pub mod analysis;
pub mod cache;
pub mod code_space;
pub mod frames;
pub mod mappings;
pub mod perf_map;
pub mod plan;
pub mod rendezvous;
pub mod repair;
pub mod search;
pub mod site;
pub mod text;
pub mod trampoline;
pub mod visit;

use crate::latch::Latch;
use crate::stack;
use core::sync::atomic::{AtomicBool, Ordering};
use platform::signal::{Change, FROM_OUTSIDE, change_mask};
use search::Search;

/// How long the latch is waited for: longer than any search takes.
const WAIT_NS: u64 = platform::clock::SECOND_NS;
/// The stack of a search. Pages that are not used are never made.
const STACK_BYTES: usize = 1 << 20;

/// What the guard knows; empty until it wakes.
static SEARCH: Latch<Search> = Latch::new(Search::new());
/// The guard has been woken.
static AWAKE: AtomicBool = AtomicBool::new(false);

/// Wakes the guard, or lets it look again if libraries may have changed: a few loads where the
/// loader tells of them, and otherwise one question to the loader.
///
/// Called before a thread is created, and when the program asks for a symbol of a library that it
/// may just have opened.
pub fn wake() {
    if AWAKE.load(Ordering::Acquire) && rendezvous::serves() {
        return;
    }
    if search(false) {
        AWAKE.store(true, Ordering::Release);
    }
}

/// The loader is at the rendezvous: searches what has come, and forgets what has gone.
fn arrived() {
    if !search(true) {
        rendezvous::fall_behind();
    }
}

/// Searches if the list of modules has changed. Returns whether all modules are known now. The
/// search has a stack of its own, because the thread's stack may be small. The wait for the latch
/// has a limit, because the holder may wait for a lock of this thread ([`rendezvous`], Invariant
/// 3).
fn search(at_rendezvous: bool) -> bool {
    // A signal handler that ran in the middle of a search, and forked or exited, would wait for the
    // latch that its own thread holds.
    let before = change_mask(Change::Block, FROM_OUTSIDE);
    let done = SEARCH.lock_within(WAIT_NS).is_some_and(|mut search| {
        // The child of a fork in the middle of a search goes on with what is repaired, and looks no
        // more.
        if search.is_torn() {
            return !at_rendezvous;
        }
        search.is_current() || stack::call_on_new(STACK_BYTES, || search.run(at_rendezvous)).is_some()
    });
    change_mask(Change::Set, before);
    done
}

/// As [`wake`], but leaves a guard asleep that no thread has woken yet.
pub fn look_again() {
    if AWAKE.load(Ordering::Acquire) {
        wake();
    }
}

/// What the copies of loops refer to; `None` on machines where loops are not copied. `site_rounds`
/// is the address of the copy's word.
pub fn hooks(site: &'static site::Site, site_rounds: usize) -> Option<spinloop::Hooks> {
    #[cfg(all(target_arch = "x86_64", not(test)))]
    return Some(spinloop::Hooks {
        trampoline: trampoline::address() as u64,
        site: core::ptr::from_ref(site).addr() as u64,
        waiting: crate::thread::waiting_offset(),
        rounds: crate::thread::waiting_offset() + size_of::<usize>() as i32,
        site_rounds: site_rounds as u64,
    });
    #[cfg(not(all(target_arch = "x86_64", not(test))))]
    {
        let _ = (site, site_rounds);
        None
    }
}

/// Before `fork`: waits until no search is in the middle of a change. A search that waits for a
/// lock of this thread does not end; then the wait ends after a limit, and the child finds a torn
/// guard. Returns whether the latch is held now.
pub fn hold() -> bool {
    SEARCH.hold_within(WAIT_NS)
}

/// After `fork`, in parent and child, if the latch was held.
pub fn release() {
    SEARCH.release();
}
