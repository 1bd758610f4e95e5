//! The program's own objects: where in a `pthread_mutex_t` and a `pthread_cond_t` what stands.
//!
//! The GNU C library's layout of these is fixed, since it is compiled into programs (initialisers)
//! and printed by debuggers. What it keeps in a mutex of the kinds that are ours, we keep as it
//! does; and a few words more, in the list entry that it uses for robust and priority-inheriting
//! mutexes only. In a condition variable that is ours the C library's functions never run, but for
//! its initialisation, which writes zeroes, and its destruction, which looks at one field that we
//! leave alone.
//!
//! | mutex | | |
//! | --- | --- | --- |
//! | 0 | `word` | 0 free, 1 held, more: see [`manx::lock::bounded`] |
//! | 4 | `count` | how often its owner holds it, for a recursive one |
//! | 8 | `owner` | the thread that holds it, by the kernel's number |
//! | 12 | `users` | how many hold it or will hold it again after a wait: `pthread_mutex_destroy` looks here |
//! | 16 | `kind` | 0 to 3, with [`NO_ELISION`]; anything else is not ours |
//! | 24 | `side` | ours: see [`manx::lock::bounded`] |
//! | 28 | `passes` | ours: see [`manx::lock::passes::Passes`] |
//! | 32 | `tail` | ours: with `fifo` and `asl` see [`super::fifo`]; in all other modes [`manx::lock::turns`] |
//!
//! | condition variable | |
//! | --- | --- |
//! | 0 | ours: a [`RawCondvar`] |
//! | 8 | ours: how many waits with a limit are in progress |
//! | 12 … 47 | the C library's, zero but for two flags: shared between processes, and by the monotonic clock. Threads that wait by its own functions all the same: see [`super::foreign`] |

use crate::real::typed;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use libc::{clockid_t, pthread_condattr_t};
use manx::lock::bounded::HANDED_OFF;
use manx::lock::passes::Passes;
use manx::lock::{RawCondvar, bounded, turns};
use platform::{clock, fork};
use preload_abi::live::Kind;

/// A `pthread_mutex_t`.
#[repr(C)]
pub struct Mutex {
    /// See the module's text, here and below.
    pub word: AtomicU32,
    count: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicU32,
    elsewhere: AtomicU32,
    /// See the module's text.
    pub side: AtomicU32,
    /// See the module's text.
    pub passes: Passes,
    /// See the module's text.
    pub tail: AtomicU64,
}

const _: () = assert!(
    size_of::<Mutex>() == size_of::<libc::pthread_mutex_t>()
        && align_of::<Mutex>() == align_of::<libc::pthread_mutex_t>()
        && core::mem::offset_of!(Mutex, side) == 24
        && core::mem::offset_of!(Mutex, passes) == 28
        && core::mem::offset_of!(Mutex, tail) == 32
);

/// In `kind`: never by transactional memory. The C library sets it where a program asks for
/// `PTHREAD_MUTEX_NORMAL` by an attribute.
pub const NO_ELISION: u32 = 512;

// Relaxed throughout: by the rules of POSIX only the holder writes these fields. A thread that
// reads them without holding the mutex compares the owner with its own id, and no other thread
// writes that id there.
impl Mutex {
    /// Returns the kind of the mutex, if it is one of the kinds that are ours.
    #[inline(always)]
    pub fn kind(&self) -> Option<Kind> {
        match self.kind.load(Ordering::Relaxed) & !NO_ELISION {
            0 => Some(Kind::Normal),
            1 => Some(Kind::Recursive),
            2 => Some(Kind::ErrorCheck),
            3 => Some(Kind::Adaptive),
            _ => None,
        }
    }

    /// Whether it is the C library's because of what it is: shared between processes, robust, or
    /// with a priority protocol. A destroyed one is nothing of that.
    pub fn is_passed_on(&self) -> bool {
        const ROBUST: u32 = 16;
        const INHERITS_PRIORITY: u32 = 32;
        const PROTECTS_PRIORITY: u32 = 64;
        const SHARED: u32 = 128;
        const DESTROYED: u32 = 1 << 31;
        let kind = self.kind.load(Ordering::Relaxed);
        kind & (ROBUST | INHERITS_PRIORITY | PROTECTS_PRIORITY | SHARED) != 0 && kind & DESTROYED == 0
    }

    /// Whether it has neither an owner to be asked for nor anything else that is out of the
    /// ordinary.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.kind.load(Ordering::Relaxed) & !NO_ELISION == 0
    }

    /// Takes it if it is free.
    #[inline]
    pub fn take(&self) -> bool {
        bounded::try_acquire(&self.word)
    }

    /// Takes it if it was handed off and its next holder has not come for `window_ns` since a
    /// caller of this saw that ([`turns::is_stale`]).
    #[cold]
    pub fn take_stale_hand_off(&self, window_ns: u64) -> bool {
        if !self.is_handed_off() {
            return false;
        }
        (fork::is_child() || turns::is_stale(&self.tail, clock::now_ns(), window_ns)) && self.join_hand_off()
    }

    /// Whether it is handed off and its next holder has yet to come.
    pub fn is_handed_off(&self) -> bool {
        // Relaxed: a hint.
        self.side.load(Ordering::Relaxed) & HANDED_OFF != 0
    }

    /// Takes it in the place of the thread that it was handed off to.
    pub fn join_hand_off(&self) -> bool {
        bounded::try_join_hand_off(&self.word, &self.side)
    }

    /// Forgets what was noted of a hand-off: a waiter has come to hold it. Not where threads stand
    /// in line ([`super::fifo`]).
    pub fn forget_hand_off(&self) {
        turns::forget(&self.tail);
    }

    /// Whether this thread holds it.
    #[inline(always)]
    pub fn is_owned_by(&self, thread: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == thread
    }

    /// The calling thread, of this number, has it now.
    #[inline(always)]
    pub fn set_owner(&self, thread: u32, users: u32) {
        self.owner.store(thread, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed).wrapping_add(users), Ordering::Relaxed);
    }

    /// The calling thread is about to release it.
    #[inline(always)]
    pub fn clear_owner(&self, users: u32) {
        self.owner.store(0, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed).wrapping_sub(users), Ordering::Relaxed);
    }

    /// Its owner takes it once more; false if it has it as often as can be counted.
    pub fn enter(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        if count != 0 {
            self.count.store(count, Ordering::Relaxed);
        }
        count != 0
    }

    /// Its new owner has it for the first time.
    pub fn enter_first(&self) {
        self.count.store(1, Ordering::Relaxed);
    }

    /// Its owner gives it back once; whether it holds it no more.
    pub fn leave(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed).wrapping_sub(1);
        self.count.store(count, Ordering::Relaxed);
        count == 0
    }
}

/// A `pthread_cond_t`.
#[repr(C)]
pub struct Cond {
    /// See the module's text.
    pub condvar: RawCondvar,
    /// See the module's text.
    pub limited: AtomicU32,
    foreign: [AtomicU32; FOREIGN],
}

/// The words of a `pthread_cond_t` that are the C library's.
const FOREIGN: usize = 9;

const _: () = assert!(
    size_of::<Cond>() == size_of::<libc::pthread_cond_t>()
        && align_of::<Cond>() <= align_of::<libc::pthread_cond_t>()
);

/// Which of the C library's words has the flags, and which bits they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    at: usize,
    shared: u32,
    monotonic: u32,
}

impl Flags {
    /// As versions 2.25 to 2.40 have it, and what is assumed where the library cannot be asked.
    pub const KNOWN: Flags = Flags { at: 6, shared: 1, monotonic: 2 };

    /// Finds out, by what the initialisation with such attributes writes: once.
    pub fn get() -> Flags {
        /// 0 until known; then the word's index, and the two masks, which are small.
        static FOUND: AtomicUsize = AtomicUsize::new(0);
        const KNOWN: usize = 1 << 63;
        let found = FOUND.load(Ordering::Relaxed);
        if found & KNOWN != 0 {
            let field = |shift: u32| found >> shift & 0xffff;
            return Flags { at: field(32), shared: field(16) as u32, monotonic: field(0) as u32 };
        }
        let flags = Flags::find().unwrap_or(Flags::KNOWN);
        let packed = KNOWN | flags.at << 32 | (flags.shared as usize) << 16 | flags.monotonic as usize;
        // Relaxed: all threads that look find the same, and the value is all there is.
        FOUND.store(packed, Ordering::Relaxed);
        flags
    }

    fn find() -> Option<Flags> {
        let (at, shared) = written(Some(libc::PTHREAD_PROCESS_SHARED), None)?;
        let (also_at, monotonic) = written(None, Some(libc::CLOCK_MONOTONIC))?;
        let apart = shared & monotonic == 0 && (shared | monotonic) >> 16 == 0;
        (at == also_at && apart).then_some(Flags { at, shared, monotonic })
    }
}

typed! {
    setpshared = pthread_condattr_setpshared: extern "C" fn(*mut pthread_condattr_t, c_int) -> c_int;
    setclock = pthread_condattr_setclock: extern "C" fn(*mut pthread_condattr_t, clockid_t) -> c_int;
}

/// The one word that differs from zero after an initialisation with these attributes.
fn written(shared: Option<c_int>, clock: Option<clockid_t>) -> Option<(usize, u32)> {
    let mut attributes = [0_u64; 4];
    let mut scratch = [0_u32; size_of::<Cond>() / 4];
    const { assert!(size_of::<pthread_condattr_t>() <= size_of::<[u64; 4]>()) };
    let place: *mut pthread_condattr_t = attributes.as_mut_ptr().cast();
    let cond: *mut libc::pthread_cond_t = scratch.as_mut_ptr().cast();
    // By their addresses: their versions are newer than what this library asks for.
    let (setpshared, setclock) = (setpshared()?, setclock()?);
    // SAFETY: attributes and variable are large enough, belong to this call alone, and no thread
    // ever uses them.
    let done = unsafe {
        libc::pthread_condattr_init(place) == 0
            && shared.is_none_or(|shared| setpshared(place, shared) == 0)
            && clock.is_none_or(|clock| setclock(place, clock) == 0)
            && libc::pthread_cond_init(cond, place) == 0
    };
    let mut written = scratch.iter().enumerate().filter(|(_, word)| **word != 0);
    let (at, word) = written.next()?;
    let at = at.checked_sub(size_of::<Cond>() / 4 - FOREIGN)?;
    (done && written.next().is_none()).then_some((at, *word))
}

impl Cond {
    fn flags(&self, of: impl Fn(Flags) -> u32) -> bool {
        let flags = Flags::get();
        self.foreign[flags.at].load(Ordering::Relaxed) & of(flags) != 0
    }

    /// Whether it is shared between processes, and so not ours.
    pub fn is_shared(&self) -> bool {
        self.flags(|flags| flags.shared)
    }

    /// The word in which the C library counts the threads that wait by its functions, above the
    /// flags.
    pub fn references(&self) -> &AtomicU32 {
        &self.foreign[Flags::KNOWN.at]
    }

    /// The two words on which they sleep, as one.
    pub fn signals(&self) -> &AtomicU64 {
        const AT: usize = Flags::KNOWN.at + 1;
        const {
            let offset = core::mem::offset_of!(Cond, foreign) + 4 * AT;
            assert!(offset.is_multiple_of(8) && offset + 8 == size_of::<Cond>());
            assert!(align_of::<libc::pthread_cond_t>() == 8);
        }
        // SAFETY: the last eight bytes of the object, whose alignment is that of the C library's
        // type.
        unsafe { AtomicU64::from_ptr(self.foreign.as_ptr().cast_mut().add(AT).cast()) }
    }

    /// Whether its limits are by the monotonic clock.
    pub fn is_monotonic(&self) -> bool {
        self.flags(|flags| flags.monotonic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutex as the C library initialises it.
    fn initialised(kind: Option<c_int>) -> libc::pthread_mutex_t {
        // SAFETY: objects of this function, initialised before they are used.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = core::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            if let Some(kind) = kind {
                assert_eq!(libc::pthread_mutexattr_settype(&mut attributes, kind), 0);
            }
            let mut mutex: libc::pthread_mutex_t = core::mem::zeroed();
            assert_eq!(libc::pthread_mutex_init(&mut mutex, &attributes), 0);
            mutex
        }
    }

    fn view(mutex: &mut libc::pthread_mutex_t) -> &Mutex {
        // SAFETY: the same bytes, which are atomics and belong to this test alone.
        unsafe { &*core::ptr::from_mut(mutex).cast() }
    }

    #[test]
    fn kinds_are_read_as_the_c_library_writes_them() {
        let kinds = [
            (None, Kind::Normal),
            (Some(libc::PTHREAD_MUTEX_NORMAL), Kind::Normal),
            (Some(libc::PTHREAD_MUTEX_RECURSIVE), Kind::Recursive),
            (Some(libc::PTHREAD_MUTEX_ERRORCHECK), Kind::ErrorCheck),
            (Some(3), Kind::Adaptive),
        ];
        for (asked, kind) in kinds {
            let mut mutex = initialised(asked);
            assert_eq!(view(&mut mutex).kind(), Some(kind));
            assert_eq!(view(&mut mutex).is_plain(), kind == Kind::Normal);
            // SAFETY: initialised, and no thread holds it.
            assert_eq!(unsafe { libc::pthread_mutex_destroy(&mut mutex) }, 0);
            assert_eq!(view(&mut mutex).kind(), None, "destroyed");
            assert!(!view(&mut mutex).is_passed_on(), "destroyed");
        }
    }

    #[test]
    fn mutexes_that_are_not_ours_are_known_by_their_kind() {
        type Set = unsafe extern "C" fn(*mut libc::pthread_mutexattr_t, c_int) -> c_int;
        let attributes: [(Set, c_int); 4] = [
            (libc::pthread_mutexattr_setpshared, libc::PTHREAD_PROCESS_SHARED),
            (libc::pthread_mutexattr_setrobust, libc::PTHREAD_MUTEX_ROBUST),
            (libc::pthread_mutexattr_setprotocol, libc::PTHREAD_PRIO_INHERIT),
            (libc::pthread_mutexattr_setprotocol, libc::PTHREAD_PRIO_PROTECT),
        ];
        for (set, value) in attributes {
            // SAFETY: objects of this function, initialised before they are used.
            let mut mutex = unsafe {
                let mut attributes: libc::pthread_mutexattr_t = core::mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                assert_eq!(set(&mut attributes, value), 0);
                let mut mutex: libc::pthread_mutex_t = core::mem::zeroed();
                assert_eq!(libc::pthread_mutex_init(&mut mutex, &attributes), 0);
                mutex
            };
            assert_eq!(view(&mut mutex).kind(), None);
            assert!(view(&mut mutex).is_passed_on());
        }
        assert!(!view(&mut initialised(None)).is_passed_on());
    }

    #[test]
    fn fields_of_a_held_mutex_are_where_the_c_library_writes_them() {
        let mut mutex = initialised(Some(libc::PTHREAD_MUTEX_RECURSIVE));
        // SAFETY: initialised above, used by this thread.
        unsafe {
            assert_eq!(libc::pthread_mutex_lock(&mut mutex), 0);
            assert_eq!(libc::pthread_mutex_lock(&mut mutex), 0);
        }
        let held = view(&mut mutex);
        assert!(held.is_owned_by(platform::thread::id()));
        let read = |word: &AtomicU32| word.load(Ordering::Relaxed);
        assert_eq!((read(&held.word), read(&held.count), read(&held.users)), (1, 2, 1));
        assert_eq!((read(&held.side), held.tail.load(Ordering::Relaxed)), (0, 0));
        // SAFETY: held twice by this thread.
        unsafe {
            assert_eq!(libc::pthread_mutex_unlock(&mut mutex), 0);
            assert_eq!(libc::pthread_mutex_unlock(&mut mutex), 0);
        }
    }

    #[test]
    fn the_flags_of_condition_variables_are_found() {
        let flags = Flags::find().expect("found");
        assert_eq!(flags, Flags::get());
        // SAFETY: zero is an initialised variable, and this one is used here only.
        let plain: Cond = unsafe { core::mem::zeroed() };
        assert!(!plain.is_shared() && !plain.is_monotonic());
        plain.foreign[flags.at].store(flags.shared, Ordering::Relaxed);
        assert!(plain.is_shared() && !plain.is_monotonic());
        plain.foreign[flags.at].store(flags.monotonic, Ordering::Relaxed);
        assert!(!plain.is_shared() && plain.is_monotonic());
    }
}
