//! The C library's functions that read from sockets and write to them, through which unannotated requests are seen.
//!
//! Each passes its arguments on as they are, and its result back, with `errno` as it was. Most of them are cancellation
//! points: a thread that is cancelled is unwound through these frames, in which there is nothing to drop.

use super::{descriptors, requests};
use crate::exports::Real;
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// What a function answers that the C library does not have.
fn absent() -> ssize_t {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Functions of the C library, and what to do before them with their first argument, and after them with that and the result.
macro_rules! passed_on {
    ($($name:ident($first:ident $(, $argument:ident: $type:ty)*) -> $result:ty, $before:path, $after:path;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($first: c_int $(, $argument: $type)*) -> $result {
            type Function = unsafe extern "C-unwind" fn(c_int $(, $type)*) -> $result;
            static REAL: Real = Real::new(match core::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            });
            let Some(real) = REAL.get() else { return absent() as $result };
            if !requests::wanted() {
                // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
                return unsafe { core::mem::transmute::<usize, Function>(real)($first $(, $argument)*) };
            }
            $before($first);
            // SAFETY: as above.
            let result = unsafe { core::mem::transmute::<usize, Function>(real)($first $(, $argument)*) };
            $after($first, result as ssize_t);
            result
        }
    )*};
}

fn nothing_before(_: c_int) {}
fn nothing_after(_: c_int, _: ssize_t) {}

/// A descriptor was made: what one of that number was before is of no matter.
fn was_made(_: c_int, descriptor: ssize_t) {
    descriptors::forget(descriptor as c_int);
}

/// Something was read.
fn was_read(descriptor: c_int, result: ssize_t) {
    if result > 0 && descriptors::is_socket(descriptor) {
        requests::began(descriptor);
    }
}

passed_on! {
    read(descriptor, buffer: *mut c_void, bytes: size_t) -> ssize_t, nothing_before, was_read;
    readv(descriptor, vectors: *const iovec, count: c_int) -> ssize_t, nothing_before, was_read;
    recv(descriptor, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t, nothing_before, was_read;
    recvfrom(
        descriptor, buffer: *mut c_void, bytes: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t, nothing_before, was_read;
    recvmsg(descriptor, message: *mut msghdr, flags: c_int) -> ssize_t, nothing_before, was_read;
    recvmmsg(
        descriptor, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int, nothing_before, was_read;
    __read_chk(descriptor, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t, nothing_before, was_read;
    __recv_chk(
        descriptor, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int
    ) -> ssize_t, nothing_before, was_read;
    __recvfrom_chk(
        descriptor, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int, address: *mut sockaddr,
        length: *mut socklen_t
    ) -> ssize_t, nothing_before, was_read;

    write(descriptor, buffer: *const c_void, bytes: size_t) -> ssize_t, requests::answers, requests::answered;
    writev(descriptor, vectors: *const iovec, count: c_int) -> ssize_t, requests::answers, requests::answered;
    send(descriptor, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t, requests::answers, requests::answered;
    sendto(
        descriptor, buffer: *const c_void, bytes: size_t, flags: c_int, address: *const sockaddr, length: socklen_t
    ) -> ssize_t, requests::answers, requests::answered;
    sendmsg(descriptor, message: *const msghdr, flags: c_int) -> ssize_t, requests::answers, requests::answered;
    sendmmsg(
        descriptor, messages: *mut mmsghdr, count: c_uint, flags: c_int
    ) -> c_int, requests::answers, requests::answered;
    sendfile(
        descriptor, source: c_int, offset: *mut off_t, bytes: size_t
    ) -> ssize_t, requests::answers, requests::answered;
    sendfile64(
        descriptor, source: c_int, offset: *mut off_t, bytes: size_t
    ) -> ssize_t, requests::answers, requests::answered;

    socket(domain, kind: c_int, protocol: c_int) -> c_int, nothing_before, was_made;
    accept(descriptor, address: *mut sockaddr, length: *mut socklen_t) -> c_int, nothing_before, was_made;
    accept4(
        descriptor, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
    ) -> c_int, nothing_before, was_made;
    dup(descriptor) -> c_int, nothing_before, was_made;
    dup2(descriptor, other: c_int) -> c_int, nothing_before, was_made;
    dup3(descriptor, other: c_int, flags: c_int) -> c_int, nothing_before, was_made;

    close(descriptor) -> c_int, requests::closed, nothing_after;
}
