//! When the guard searches: before a thread is created, and whenever modules have come or gone.
//!
//! The loader says when its list of modules has changed ([`super::rendezvous`]): a jump from there
//! leads to `arrived`. What can be in the way:
//!
//! | what is in the way | what happens |
//! | --- | --- |
//! | the loader has no place for the jump, text cannot be written, or we are out of reach | no jump |
//! | a tracer (a uprobe) writes the original instruction back | the jump is gone, for good |
//! | the search cannot have its latch or its memory | this rendezvous is missed |
//!
//! In each case `serves` says no, and the guard does without: each new thread and each look-up of a
//! symbol asks the loader whether its list has changed. What a missed rendezvous has left is
//! searched then.
//!
//! Invariants:
//! 1. `BEHIND` becomes true when a rendezvous is missed, and false when a search begins to walk the
//!    loader's list. So if it is false when a search begins, what is new came with this rendezvous.
//! 2. The lock order is that of [`super`]. A search never takes the loader's lock. A thread that
//!    holds the lock of `dl_iterate_phdr`, in a callback of its own, and opens a library is against
//!    this order, and so is a handler of `pthread_atfork` that runs while the latch is held. So the
//!    latch is waited for with a limit, by every thread.

use super::rendezvous::{self, JUMP_BYTES};
use super::search::{Runs, Search};
use super::text::{Text, holds};
use crate::elf::link_map;
use crate::latch::Latch;
use crate::{process, shortage, stack, statistics};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use platform::signal::{Change, FROM_OUTSIDE, change_mask};
use platform::{clock, memory};

/// How long the latch is waited for: longer than any search takes.
const WAIT_NS: u64 = clock::SECOND_NS;
/// The stack of a search. Pages that are not used are never made.
const STACK_BYTES: usize = 1 << 20;

/// What the guard knows; empty until it wakes.
static SEARCH: Latch<Search> = Latch::new(Search::new());
/// The guard has been woken.
static AWAKE: AtomicBool = AtomicBool::new(false);
/// Where the jump stands; 0: nowhere. Written once, by the holder of the latch.
static PLACE: AtomicUsize = AtomicUsize::new(0);
/// By Invariant 1.
static BEHIND: AtomicBool = AtomicBool::new(false);

/// Wakes the guard, or lets it look again if libraries may have changed: a few loads where the
/// loader tells of them, and otherwise one question to the loader.
///
/// Called before a thread is created, and when the program asks for a symbol of a library that it
/// may just have opened.
pub fn wake() {
    if AWAKE.load(Ordering::Acquire) && serves() {
        return;
    }
    if search(false) {
        AWAKE.store(true, Ordering::Release);
    }
}

/// As [`wake`], but leaves a guard asleep that no thread has woken yet.
pub fn look_again() {
    if AWAKE.load(Ordering::Acquire) {
        wake();
    }
}

/// Whether all modules are searched as they come, so that no thread has to look.
fn serves() -> bool {
    // Acquire: the jump was written before.
    let place = PLACE.load(Ordering::Acquire);
    // Relaxed: the thread that missed its rendezvous sees it, and so does each thread that learns
    // of the library from it.
    place != 0 && !BEHIND.load(Ordering::Relaxed) && stands(place)
}

/// Notes that modules may have come that are not searched.
fn fall_behind() {
    BEHIND.store(true, Ordering::Relaxed);
}

/// The jump at `place`.
fn jump(place: usize) -> Option<[u8; JUMP_BYTES]> {
    spinloop::near_jump(place as u64, arrived as *const () as u64)
}

fn stands(place: usize) -> bool {
    // SAFETY: the loader's text is readable and stays mapped.
    jump(place).is_some_and(|jump| unsafe { holds(place, &jump) })
}

/// Puts the jump in its place, if there is one. `alone`: there is no other thread. The caller holds
/// the latch.
fn install(text: &Text, alone: bool) {
    let Some(place) = rendezvous::place() else { return };
    let Some(jump) = jump(place) else { return };
    // SAFETY: the place is a `ret` with dead bytes behind it, and `arrived` returns.
    let written = unsafe { if alone { text.write(place, &jump) } else { text.write_live(place, &jump) } };
    if written.is_ok() {
        PLACE.store(place, Ordering::Release);
    }
}

/// In the place of the loader's empty function: searches what has come, and forgets what has gone.
extern "C" fn arrived() {
    // If the list is not consistent, the change has only begun; the loader calls again at its end.
    if link_map::is_consistent() && !search(true) {
        fall_behind();
    }
}

/// Searches if the list of modules has changed. Returns whether all modules are known now. The
/// search has a stack of its own, because the thread's stack may be small. The wait for the latch
/// has a limit, because the holder may wait for a lock of this thread (Invariant 2).
fn search(at_rendezvous: bool) -> bool {
    // A signal handler that ran in the middle of a search, and forked or exited, would wait for the
    // latch that its own thread holds.
    let before = change_mask(Change::Block, FROM_OUTSIDE);
    // Callers' frames, and what signals have interrupted, lie above it.
    let frame = (&raw const before).addr();
    let done = SEARCH.lock_within(WAIT_NS).is_some_and(|mut search| {
        // The child of a fork in the middle of a search goes on with what is repaired, and looks no
        // more.
        if search.is_torn() {
            return !at_rendezvous;
        }
        search.is_current()
            || stack::call_on_new(STACK_BYTES, || run(&mut search, at_rendezvous, frame)).is_some()
    });
    change_mask(Change::Set, before);
    done
}

/// Searches what is new and forgets what is gone, for a call whose frame lies at `frame`.
fn run(search: &mut Search, at_rendezvous: bool, frame: usize) {
    let served = serves();
    let behind = BEHIND.swap(false, Ordering::Relaxed);
    let Some(generation) = search.forget_gone(served) else { return };
    if !memory_suffices() {
        fall_behind();
        return;
    }
    let before_ns = clock::now_ns();
    shortage::prepare();
    let text = Text::open();
    let alone = process::is_alone();
    if search.is_first() {
        // Before the walk: a library that is opened after it comes to the rendezvous.
        install(&text, alone);
    }
    let runs = match (alone, at_rendezvous && !behind) {
        (_, true) => Runs::Never,
        (true, false) => Runs::Still { frame },
        (false, false) => Runs::Running,
    };
    search.search_new(generation, &text, runs);
    statistics::searched(clock::now_ns().saturating_sub(before_ns));
}

/// Whether a search would find the memory that it needs: the process may have a limit of its own,
/// and an allocation that fails in the middle would end it.
fn memory_suffices() -> bool {
    /// Several times what the largest programs needed.
    const BYTES: usize = 32 << 20;
    let Ok(mapped) = memory::map_zeroes(BYTES, memory::READ | memory::WRITE) else { return false };
    // SAFETY: no thread has used it.
    unsafe { memory::unmap(mapped, BYTES).is_ok() }
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
