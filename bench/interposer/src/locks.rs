//! The locks, and which of them the program gets.
//!
//! `LOCKS` has a line for each: its name, the type, and the functions that begin and end an epoch
//! of its own, if it takes latency targets. A call reaches the lock by one indirect call, which the
//! CPU predicts, because a process has one lock.
//!
//! The choice is made by the first call that needs it, which may come before any constructor of
//! ours. A name that is unknown, or missing, ends the program: a figure under the wrong name would
//! be worse than none.

use crate::side::Side;
use baselines::lock::{Libasl, LibaslBlocking, McsPark, Shfl, Tas, Ticket, Ttas, libasl_epoch};
use core::sync::atomic::{AtomicPtr, Ordering};
use manx::lock::{Asl, Mcs, RawLock};
use manx::slo;

/// The environment variable with the lock's name.
pub const VARIABLE: &str = "MANX_INTERPOSED_LOCK";

/// What a lock can do at its place in a [`Side`].
pub struct Operations {
    /// The value of [`VARIABLE`] that chooses it
    pub name: &'static str,
    /// Writes a free lock to the place.
    pub init: unsafe fn(&Side),
    /// Waits for the lock, and keeps what the holder has to keep.
    pub lock: unsafe fn(&Side),
    /// Takes the lock if that needs no waiting.
    pub try_lock: unsafe fn(&Side) -> bool,
    /// Gives the lock back, with what the holder has kept.
    pub unlock: unsafe fn(&Side),
    /// How the lock gets to know the program's latency targets
    pub epochs: Epochs,
}

/// A lock's functions for epochs: the calling thread begins one, and ends one that was to take no
/// longer than this, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Epochs {
    /// Begins the epoch of this id.
    pub start: fn(u64),
    /// Ends it.
    pub end: fn(u64, u64),
}

/// Of locks that take no targets.
const UNMARKED: Epochs = Epochs { start: |_| (), end: |_, _| () };
/// Of manx's locks.
const MANX: Epochs = Epochs {
    start: |id| {
        slo::start(id);
    },
    end: |id, slo_ns| {
        slo::end(id, slo_ns);
    },
};
/// Of LibASL as it is printed. Its ids are few: the drivers have one kind of epoch.
const LIBASL: Epochs = Epochs {
    start: |id| libasl_epoch::start(id as usize),
    end: |id, slo_ns| {
        libasl_epoch::end(id as usize, slo_ns, P99);
    },
};
/// The percentile of all targets, in hundredths of a percent.
const P99: u16 = 9900;

/// All of them.
static LOCKS: [Operations; 9] = [
    of::<Mcs>("mcs", UNMARKED),
    of::<Tas>("tas", UNMARKED),
    of::<Ttas>("ttas", UNMARKED),
    of::<Ticket>("ticket", UNMARKED),
    of::<Shfl<10>>("shfl-pb10", UNMARKED),
    of::<McsPark>("mcs-park", UNMARKED),
    of::<Libasl>("libasl", LIBASL),
    of::<LibaslBlocking>("libasl-blocking", LIBASL),
    of::<Asl<Mcs>>("asl-mcs", MANX),
];

/// The functions of a lock. Their contract, which each `SAFETY` cites: nobody uses the place while
/// `init` runs. For the others, `init` of the same lock has made it; `unlock` is called by the
/// holder, and `held` is then what the lock returned to it. Only the holder uses `held`.
const fn of<L: RawLock>(name: &'static str, epochs: Epochs) -> Operations {
    const {
        assert!(size_of::<L>() <= Side::LOCK_BYTES && align_of::<L>() <= align_of::<Side>());
        assert!(size_of::<L::Held>() <= Side::HELD_BYTES && align_of::<L::Held>() <= align_of::<usize>());
    }
    Operations {
        name,
        // SAFETY: the place has room (asserted above), and by the contract no thread uses it.
        init: |side| unsafe { side.lock.get().cast::<L>().write(L::INIT) },
        lock: |side| {
            // SAFETY: by the contract there is a lock of this type.
            let held = unsafe { &*side.lock.get().cast::<L>() }.lock();
            // SAFETY: this thread is the holder from here on.
            unsafe { side.held.get().cast::<L::Held>().write(held) };
        },
        try_lock: |side| {
            // SAFETY: by the contract there is a lock of this type.
            let held = unsafe { &*side.lock.get().cast::<L>() }.try_lock();
            // SAFETY: this thread is the holder from here on.
            held.map(|held| unsafe { side.held.get().cast::<L::Held>().write(held) }).is_some()
        },
        unlock: |side| {
            // SAFETY: by the contract the caller is the holder, whose `held` this is.
            let held = unsafe { side.held.get().cast::<L::Held>().read() };
            // SAFETY: as above.
            unsafe { (*side.lock.get().cast::<L>()).unlock(held) };
        },
        epochs,
    }
}

/// The program's lock.
#[inline]
pub fn chosen() -> &'static Operations {
    // Relaxed: what it points to was there before the program.
    let chosen = CHOSEN.load(Ordering::Relaxed);
    // SAFETY: null, or an entry of the table.
    unsafe { chosen.as_ref() }.unwrap_or_else(choose)
}

static CHOSEN: AtomicPtr<Operations> = AtomicPtr::new(core::ptr::null_mut());

#[cold]
fn choose() -> &'static Operations {
    let value = value();
    let Some(chosen) = LOCKS.iter().find(|lock| lock.name.as_bytes() == value) else {
        end("MANX_INTERPOSED_LOCK: not the name of a lock\n");
    };
    CHOSEN.store(core::ptr::from_ref(chosen).cast_mut(), Ordering::Relaxed);
    chosen
}

/// What the variable says.
fn value() -> &'static [u8] {
    // SAFETY: the name ends with a zero; the program does not change its environment before it
    // locks for the first time.
    let value = unsafe { libc::getenv(c"MANX_INTERPOSED_LOCK".as_ptr()) };
    if value.is_null() {
        return b"";
    }
    // SAFETY: the environment's strings end with a zero.
    unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes()
}

/// Ends the program with these words. Allocates nothing and takes no lock.
pub fn end(words: &str) -> ! {
    for part in ["libmanx_interposer.so: ", words] {
        // SAFETY: the bytes are there.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_have_names_of_their_own_which_the_benchmarks_know() {
        let names = LOCKS.each_ref().map(|lock| lock.name);
        assert_eq!(names, workload::engine::rival::LOCKS);
        assert_eq!(workload::engine::rival::VARIABLE, VARIABLE);
    }
}
