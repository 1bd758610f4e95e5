//! libmanx_requests.so: shows libmanx_preload.so what a program reads from sockets and writes to
//! them.
//!
//! To see requests that the program does not mark, the C library's functions for sockets have to be
//! wrapped, and with them `read`, `write`, `close` and `dup2`, which every program calls, some of
//! them in places where little is allowed. So the wrappers are in a library of their own, which
//! `manx run` preloads only if there is a latency target for requests (`--slo 2ms`).
//!
//! Each wrapper passes its arguments on as they are, and the result back, with `errno` as it was.
//! Most of them are cancellation points: a thread that is cancelled is unwound through these
//! frames, in which there is nothing to drop.
//!
//! The functions behind the wrappers are looked up all at once: by the constructor, or by the first
//! wrapper that is called before it. Later is too late: the child of a fork may call them while the
//! loader's lock is held by a thread that it does not have.
//!
//! libmanx_preload.so must be loaded too, before or behind this library.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

unsafe extern "C" {
    /// The function of this name that is reached from the module with this dynamic section; 0 if
    /// there is none.
    fn manx_requests_next(name: *const c_char, dynamic: usize) -> usize;
    /// A descriptor was made.
    safe fn manx_requests_made(descriptor: c_int);
    /// This number of bytes was read from a descriptor.
    safe fn manx_requests_read(descriptor: c_int, result: ssize_t);
    /// Something is about to be written to a descriptor.
    safe fn manx_requests_answers(descriptor: c_int);
    /// This number of bytes was written to it.
    safe fn manx_requests_answered(descriptor: c_int, result: ssize_t);
    /// A descriptor is about to be closed.
    safe fn manx_requests_closed(descriptor: c_int);
    /// The dynamic section of this library, by the linker.
    safe static _DYNAMIC: [usize; 2];
}

/// The function behind a wrapper.
struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

const UNKNOWN: usize = 0;
const ABSENT: usize = 1;

impl Real {
    const fn new(name: &'static str) -> Real {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Real { name, address: AtomicUsize::new(UNKNOWN) },
            Err(_) => unreachable!(),
        }
    }

    fn get(&self) -> Option<usize> {
        // Relaxed: the address is all there is to see, and each look-up finds the same.
        match self.address.load(Ordering::Relaxed) {
            UNKNOWN => {
                look_up();
                Some(self.address.load(Ordering::Relaxed)).filter(|&address| address != ABSENT)
            }
            ABSENT => None,
            known => Some(known),
        }
    }
}

#[cold]
extern "C" fn look_up() {
    for real in TABLE {
        // SAFETY: the name ends with a zero, and the dynamic section is that of this library.
        let found = unsafe { manx_requests_next(real.name.as_ptr(), (&raw const _DYNAMIC).addr()) };
        real.address.store(if found == 0 { ABSENT } else { found }, Ordering::Relaxed);
    }
}

/// Run by the loader when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = look_up;

/// What a function answers that the C library does not have.
fn absent() -> ssize_t {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Functions of the C library, in groups: what to do before each function with its first argument,
/// and after it with that and the result.
macro_rules! passed_on {
    ($($before:path, $after:path: {
        $($name:ident($first:ident $(, $argument:ident: $type:ty)*) -> $result:ty;)*
    })*) => {
        mod real {
            $($(
                #[allow(non_upper_case_globals)]
                pub static $name: super::Real = super::Real::new(concat!(stringify!($name), "\0"));
            )*)*
        }

        static TABLE: &[&Real] = &[$($(&real::$name),*),*];

        $($(
            /// As the C library's.
            ///
            /// # Safety
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($first: c_int $(, $argument: $type)*) -> $result {
                type Function = unsafe extern "C-unwind" fn(c_int $(, $type)*) -> $result;
                let Some(real) = real::$name.get() else { return absent() as $result };
                $before($first);
                // SAFETY: the C library's function of this name has this type; the arguments are
                // the caller's.
                let result = unsafe { core::mem::transmute::<usize, Function>(real)($first $(, $argument)*) };
                $after($first, result as ssize_t);
                result
            }
        )*)*
    };
}

fn nothing_before(_: c_int) {}
fn nothing_after(_: c_int, _: ssize_t) {}

/// A descriptor was made: what one of that number was before is of no matter.
fn was_made(_: c_int, descriptor: ssize_t) {
    manx_requests_made(descriptor as c_int);
}

passed_on! {
    nothing_before, manx_requests_read: {
        read(descriptor, buffer: *mut c_void, bytes: size_t) -> ssize_t;
        readv(descriptor, vectors: *const iovec, count: c_int) -> ssize_t;
        recv(descriptor, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t;
        recvfrom(
            descriptor, buffer: *mut c_void, bytes: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t
        ) -> ssize_t;
        recvmsg(descriptor, message: *mut msghdr, flags: c_int) -> ssize_t;
        recvmmsg(descriptor, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
        __read_chk(descriptor, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t;
        __recv_chk(descriptor, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int) -> ssize_t;
        __recvfrom_chk(
            descriptor, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int, address: *mut sockaddr,
            length: *mut socklen_t
        ) -> ssize_t;
    }
    manx_requests_answers, manx_requests_answered: {
        write(descriptor, buffer: *const c_void, bytes: size_t) -> ssize_t;
        writev(descriptor, vectors: *const iovec, count: c_int) -> ssize_t;
        send(descriptor, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t;
        sendto(
            descriptor, buffer: *const c_void, bytes: size_t, flags: c_int, address: *const sockaddr, length: socklen_t
        ) -> ssize_t;
        sendmsg(descriptor, message: *const msghdr, flags: c_int) -> ssize_t;
        sendmmsg(descriptor, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
        sendfile(descriptor, source: c_int, offset: *mut off_t, bytes: size_t) -> ssize_t;
        sendfile64(descriptor, source: c_int, offset: *mut off_t, bytes: size_t) -> ssize_t;
    }
    nothing_before, was_made: {
        socket(domain, kind: c_int, protocol: c_int) -> c_int;
        accept(descriptor, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
        accept4(descriptor, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
        dup(descriptor) -> c_int;
        dup2(descriptor, other: c_int) -> c_int;
        dup3(descriptor, other: c_int, flags: c_int) -> c_int;
    }
    manx_requests_closed, nothing_after: {
        close(descriptor) -> c_int;
    }
}

/// What `manx run` looks at before it trusts the library: `REQUESTS_VERSION` of `preload-abi`. It
/// changes with the functions of the preload library that this library calls.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static manx_requests_abi: u32 = 7;
