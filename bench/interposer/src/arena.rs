//! Where the locks beside mutexes come from, and what a fork makes of them.
//!
//! Sides are handed out from chunks of 256 KiB, which are mapped and never unmapped, and come back
//! to a list. Nothing comes from `malloc`.
//!
//! A child of `fork` has one thread, and none of the threads that waited in its parent: a lock that
//! queues would be handed to a ghost. So before the child goes on, each side is looked at:
//!
//! | in the parent, at the fork | in the child |
//! | --- | --- |
//! | no thread held it | a new, free lock |
//! | the forking thread held it | a new lock, which that thread holds |
//! | another thread held it | as it is: held for ever, as the C library has it |
//!
//! `owner` tells them apart. A thread that has taken a lock and not yet written `owner` is seen as
//! no holder; it has not touched what the lock protects. The list is made anew as well, from the
//! sides that no mutex has. So nothing has to be locked before a fork, and a program's own handlers
//! may lock mutexes there for the first time.
//!
//! Invariants:
//! 1. [`LOCK`] is held by the thread that changes the list or adds a chunk.
//! 2. A side is in the list, or has `used` set, or belongs to the thread that is making or freeing
//!    it.
//! 3. The first [`COUNT`] chunks are mapped.

use crate::locks::chosen;
use crate::side::{Side, me};
use baselines::lock::SpinFutex;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use manx::lock::RawLock as _;

/// The bytes of a chunk.
const CHUNK_BYTES: usize = 256 << 10;
const SIDES: usize = CHUNK_BYTES / size_of::<Side>();
/// A list of chunks longer than this is a program that leaks mutexes: 16 million of them.
const CHUNKS_MAX: usize = 1 << 14;

static LOCK: SpinFutex = SpinFutex::new();
/// The sides that are free. Under [`LOCK`], as the rest.
static FREE: AtomicPtr<Side> = AtomicPtr::new(null_mut());
static CHUNKS: [AtomicPtr<Side>; CHUNKS_MAX] = [const { AtomicPtr::new(null_mut()) }; CHUNKS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A side with a free lock.
pub fn take() -> &'static Side {
    let operations = chosen();
    prepare_for_fork();
    LOCK.lock();
    // Relaxed, throughout this file: under the lock, or while there is one thread.
    if FREE.load(Ordering::Relaxed).is_null() {
        map();
    }
    // SAFETY: not null, and in the list (Invariant 2).
    let side = unsafe { &*FREE.load(Ordering::Relaxed) };
    FREE.store(side.next.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: locked above.
    unsafe { LOCK.unlock(()) };
    // SAFETY: the side is this thread's.
    unsafe { (operations.init)(side) };
    side.owner.store(0, Ordering::Relaxed);
    side.count.store(0, Ordering::Relaxed);
    // Release: the lock was made before. For the child of a fork, which sees what its parent wrote.
    side.used.store(1, Ordering::Release);
    side
}

/// Takes a side back whose lock no thread holds or waits for.
pub fn give_back(side: &'static Side) {
    side.used.store(0, Ordering::Relaxed);
    LOCK.lock();
    list(side);
    // SAFETY: locked above.
    unsafe { LOCK.unlock(()) };
}

/// Puts a side into the list. Under the lock.
fn list(side: &'static Side) {
    side.next.store(FREE.load(Ordering::Relaxed), Ordering::Relaxed);
    FREE.store(core::ptr::from_ref(side).cast_mut(), Ordering::Relaxed);
}

/// Maps a chunk, and puts its sides into the list. Under the lock.
#[cold]
fn map() {
    let count = COUNT.load(Ordering::Relaxed);
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let chunk = unsafe { libc::mmap(null_mut(), CHUNK_BYTES, access, kind, -1, 0) };
    if chunk == libc::MAP_FAILED || count == CHUNKS_MAX {
        crate::locks::end("no memory for another mutex\n");
    }
    let chunk = chunk.cast::<Side>();
    CHUNKS[count].store(chunk, Ordering::Relaxed);
    COUNT.store(count + 1, Ordering::Relaxed);
    for at in (0..SIDES).rev() {
        // SAFETY: inside of the chunk, which is a page's start and so aligned; all-zero is a side.
        list(unsafe { &*chunk.add(at) });
    }
}

/// Registers what happens at a fork. Once, as early as possible: handlers of the child run in the
/// order of their registration.
pub fn prepare_for_fork() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    if DONE.load(Ordering::Relaxed) == 0 && DONE.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: a function that lives as long as the process.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Makes the locks of the table above, and the list.
unsafe extern "C" fn in_child() {
    let (operations, me) = (chosen(), me());
    FREE.store(null_mut(), Ordering::Relaxed);
    for chunk in &CHUNKS[..COUNT.load(Ordering::Relaxed)] {
        for at in 0..SIDES {
            // SAFETY: inside of the chunk (Invariant 3).
            let side = unsafe { &*chunk.load(Ordering::Relaxed).add(at) };
            if side.used.load(Ordering::Relaxed) == 0 {
                list(side);
                continue;
            }
            let owner = side.owner.load(Ordering::Relaxed);
            if owner == 0 || owner == me {
                // SAFETY: there is one thread, and it is in no call of the lock's.
                unsafe { (operations.init)(side) };
            }
            if owner == me {
                // SAFETY: just made. It is free, so it is taken.
                unsafe { (operations.try_lock)(side) };
            }
        }
    }
    // SAFETY: another thread of the parent may have held it; here is none.
    unsafe { LOCK.unlock(()) };
}
