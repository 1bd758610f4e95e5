//! The C library's functions that this library wraps or calls by their addresses: one table.
//!
//! All are looked up at once: by our constructor, or by the first of our functions that is called
//! before it. Later is too late. A child between `fork` and `exec` may call them while the loader's
//! lock is held by a thread that it does not have, and handlers of signals may call them in the
//! middle of the loader.
//!
//! A wrapper passes a call on to the function that it would have reached without us, which may be
//! another library's wrapper. `dl_iterate_phdr`, which we call for ourselves, is the C library's
//! own ([`modules::iterate`]), since a program may define a function of that name that calls us.
//!
//! The C library before 2.34 has its functions for threads, and those for opening libraries, in
//! libraries of their own, and either may be opened later than the other. Only there, and only
//! for what was not found at the start, the modules are searched again.
//!
//! C11's functions for locks are the exception: a program may bring a library that has functions of
//! these names, with types and results of its own. So it is noted which library they belong to
//! ([`is_c11_the_c_librarys`]).
//!
//! Rooms give the functions they use their types, with `typed`.
//!
//! Invariant 1: an entry is `UNKNOWN` until [`look_up`] has written it; then it is a function's
//! address, or `ABSENT`. Each look-up of a name finds the same, so two threads may write an entry
//! at once.

use crate::elf::symbols::hash;
use crate::elf::{link_map, modules};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A function's entry. Its first word is the address: naked functions read it.
#[repr(C)]
pub struct Real {
    address: AtomicUsize,
    name: &'static CStr,
    hash: u32,
}

const UNKNOWN: usize = 0;
const ABSENT: usize = 1;
/// An entry that is no more than this is no address.
pub const NOWHERE: usize = ABSENT;

/// A library of the C library's may be opened later, because it was not there at the start.
static SPLIT: AtomicBool = AtomicBool::new(false);

impl Real {
    const fn new(name: &'static str) -> Real {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Real { address: AtomicUsize::new(UNKNOWN), name, hash: hash(name) },
            Err(_) => unreachable!(),
        }
    }

    /// The function's address; `None` if there is no such function.
    #[inline]
    pub fn get(&self) -> Option<usize> {
        // Relaxed, here and below: the address is all there is to see.
        match self.address.load(Ordering::Relaxed) {
            UNKNOWN | ABSENT => self.get_slow(),
            known => Some(known),
        }
    }

    #[cold]
    fn get_slow(&self) -> Option<usize> {
        if self.address.load(Ordering::Relaxed) == UNKNOWN {
            look_up();
        }
        match self.address.load(Ordering::Relaxed) {
            UNKNOWN | ABSENT => self.find_later(&SPLIT),
            known => Some(known),
        }
    }

    /// Searches for a function that was absent at the start, if it may have come since.
    fn find_later(&self, split: &AtomicBool) -> Option<usize> {
        if !split.load(Ordering::Relaxed) {
            return None;
        }
        let found = next_now(self.name)?;
        self.address.store(found, Ordering::Relaxed);
        Some(found)
    }

    fn is_absent(&self) -> bool {
        self.address.load(Ordering::Relaxed) == ABSENT
    }
}

/// Whether the C library is split, and a part of it was not there when these were looked up: a
/// function of its library for threads, and a function of its library for opening libraries.
fn is_split(threads: &Real, opening: &Real) -> bool {
    threads.is_absent() || opening.is_absent()
}

/// Looks all of them up.
pub fn look_up() {
    // As `link_map::next`, but each module is asked for all that is still missing.
    let mut found = [ABSENT; TABLE.len()];
    for table in link_map::behind(link_map::own_dynamic()) {
        for (address, real) in found.iter_mut().zip(TABLE).filter(|(address, _)| **address == ABSENT) {
            *address = table.function_by_hash(real.name, real.hash).unwrap_or(ABSENT);
        }
    }
    for (address, real) in found.into_iter().zip(TABLE) {
        real.address.store(address, Ordering::Relaxed);
    }
    modules::iterate();
    CLOCK.store(link_map::of_c_library(c"clock_gettime").unwrap_or(ABSENT), Ordering::Relaxed);
    SPLIT.store(is_split(&pthread_create, &dlsym), Ordering::Relaxed);
    let libraries = link_map::c_libraries();
    let is_anothers = |real: &Real| {
        let address = real.address.load(Ordering::Relaxed);
        address > NOWHERE
            && !libraries
                .iter()
                .flatten()
                .any(|table| table.function_by_hash(real.name, real.hash) == Some(address))
    };
    let c11 = if C11.iter().any(|real| is_anothers(real)) { ANOTHERS } else { THE_C_LIBRARYS };
    C11_IS.store(c11, Ordering::Relaxed);
}

/// The C library's own `clock_gettime`.
static CLOCK: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// The C library's own `clock_gettime`, whatever other libraries have a function of that name, once
/// all were looked up.
#[inline]
pub fn clock_gettime() -> Option<unsafe extern "C" fn(c_int, *mut c_void) -> c_int> {
    match CLOCK.load(Ordering::Relaxed) {
        UNKNOWN | ABSENT => None,
        // SAFETY: the C library's function has this type.
        address => Some(unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(_, _) -> _>(address) }),
    }
}

/// C11's functions for locks that this library wraps.
const C11: [&Real; 9] = [
    &mtx_lock,
    &mtx_trylock,
    &mtx_timedlock,
    &mtx_unlock,
    &cnd_wait,
    &cnd_timedwait,
    &cnd_signal,
    &cnd_broadcast,
    &cnd_destroy,
];

/// The library that these belong to: `UNKNOWN` until they have been looked up.
static C11_IS: AtomicUsize = AtomicUsize::new(UNKNOWN);
const THE_C_LIBRARYS: usize = UNKNOWN + 1;
const ANOTHERS: usize = UNKNOWN + 2;

/// Whether C11's functions for locks are the C library's, all of them, as far as they are anywhere.
#[inline]
pub fn is_c11_the_c_librarys() -> bool {
    // Relaxed: the answer is all there is to see, and each look-up finds the same.
    if C11_IS.load(Ordering::Relaxed) == UNKNOWN {
        look_up();
    }
    C11_IS.load(Ordering::Relaxed) == THE_C_LIBRARYS
}

/// As [`link_map::next`], while other threads may open and close libraries: under the loader's
/// lock.
fn next_now(name: &CStr) -> Option<usize> {
    let (mut behind, mut found) = (false, None);
    modules::each(&mut |module| {
        if behind {
            found = module.table().and_then(|table| table.function(name));
        }
        behind |= module.dynamic() == Some(link_map::own_dynamic());
        found.is_none()
    });
    found
}

macro_rules! table {
    ($($name:ident)*) => {
        $(
            #[allow(non_upper_case_globals)]
            #[doc = concat!("`", stringify!($name), "`")]
            pub static $name: Real = Real::new(concat!(stringify!($name), "\0"));
        )*

        static TABLE: &[&Real] = &[$(&$name),*];
    };
}

table! {
    pthread_create thrd_create
    dlsym dlvsym
    sigaction signal __sysv_signal sigset sigignore siginterrupt sigaltstack
    sigprocmask pthread_sigmask sigsetmask sigblock siggetmask sighold sigrelse sigpending
    pthread_attr_setsigmask_np pthread_attr_getsigmask_np
    sigsuspend sigpause __xpg_sigpause pselect ppoll __ppoll_chk epoll_pwait epoll_pwait2
    sigwait sigwaitinfo sigtimedwait
    syscall
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_unlock
    pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
    pthread_cond_signal pthread_cond_broadcast pthread_cond_init pthread_cond_destroy
    mtx_lock mtx_trylock mtx_timedlock mtx_unlock
    cnd_wait cnd_timedwait cnd_signal cnd_broadcast cnd_destroy
    sysconf get_nprocs get_nprocs_conf sched_getaffinity pthread_getaffinity_np
    // The loader's, or of a version that is newer than what this library may ask for.
    _dl_find_object
    pthread_condattr_setpshared pthread_condattr_setclock pthread_setcanceltype
    pthread_key_create pthread_key_delete pthread_setspecific
}

/// Defines functions that return entries of the table with their types: `accessor = name: type;`.
macro_rules! typed {
    ($($accessor:ident = $name:ident: $type:ty;)*) => {$(
        pub(super) fn $accessor() -> Option<$type> {
            // SAFETY: the C library's function of this name has this type.
            crate::real::$name.get().map(|address| unsafe { core::mem::transmute::<usize, $type>(address) })
        }
    )*};
}
pub(crate) use typed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found_once_one_is_asked_for() {
        assert!(pthread_create.get().is_some());
        for real in TABLE {
            let known = real.address.load(Ordering::Relaxed);
            // SAFETY: looks a name up.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, real.name.as_ptr()) } as usize;
            assert_eq!(known, if expected == 0 { ABSENT } else { expected }, "{:?}", real.name);
        }
    }

    #[test]
    fn the_c_librarys_clock_tells_the_time() {
        look_up();
        let mut time = [0i64; 2];
        let real = clock_gettime().expect("the C library's");
        // SAFETY: a clock of each Linux, and room for a time.
        assert_eq!(unsafe { real(libc::CLOCK_MONOTONIC, (&raw mut time).cast()) }, 0);
        assert!(time[0] as u64 <= platform::clock::now_ns() / platform::clock::SECOND_NS);
    }

    #[test]
    fn a_look_up_under_the_loaders_lock_finds_the_same() {
        for real in [&pthread_create, &sigaction, &pthread_cond_wait] {
            assert_eq!(next_now(real.name), real.get(), "{:?}", real.name);
        }
    }

    #[test]
    fn each_library_of_a_split_c_library_may_come_later_than_the_other() {
        let [absent, there] = [ABSENT, 0x1000].map(|address| {
            let real = Real::new("dlsym\0");
            real.address.store(address, Ordering::Relaxed);
            real
        });
        for (threads, opening, split) in [
            (&there, &there, false),
            (&absent, &absent, true),
            (&absent, &there, true),
            (&there, &absent, true),
        ] {
            assert_eq!(is_split(threads, opening), split);
        }
        // It was absent, and is here now.
        assert_eq!(absent.find_later(&AtomicBool::new(false)), None);
        assert_eq!(absent.find_later(&AtomicBool::new(true)), dlsym.get());
        assert_eq!(absent.get(), dlsym.get());
    }

    #[test]
    fn a_test_has_the_c_librarys_functions_for_locks() {
        assert!(is_c11_the_c_librarys());
    }

    #[test]
    fn a_function_that_is_absent_is_not_looked_up_again() {
        let nowhere = Real::new("no_such_function_anywhere\0");
        nowhere.address.store(ABSENT, Ordering::Relaxed);
        look_up();
        assert_eq!(nowhere.get(), None);
    }
}
