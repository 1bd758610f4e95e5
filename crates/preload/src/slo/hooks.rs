//! What libmanx_requests.so tells of the program's descriptors, and asks for: see
//! `crates/preload-requests`.

use super::{descriptors, requests};
use crate::elf::link_map;
use core::ffi::{CStr, c_char, c_int};
use libc::ssize_t;

/// The function `name` that a call from the module with this dynamic section reaches; 0 if there is
/// none.
///
/// # Safety
/// The name ends with a zero. No thread opens or closes libraries meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_requests_next(name: *const c_char, dynamic: usize) -> usize {
    // SAFETY: the caller's promise.
    link_map::next(unsafe { CStr::from_ptr(name) }, dynamic).unwrap_or(0)
}

/// A descriptor was made.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_made(descriptor: c_int) {
    descriptors::forget(descriptor);
}

/// Notes that `result` bytes were read from a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_read(descriptor: c_int, result: ssize_t) {
    if result > 0 && requests::wanted() && descriptors::is_socket(descriptor) {
        requests::began(descriptor);
    }
}

/// Something is about to be written to a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_answers(descriptor: c_int) {
    requests::answers(descriptor);
}

/// Notes that `result` bytes were written to it.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_answered(descriptor: c_int, result: ssize_t) {
    requests::answered(descriptor, result);
}

/// A descriptor is about to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_closed(descriptor: c_int) {
    requests::closed(descriptor);
}
