//! Texts for C, written as `snprintf` writes: as much as there is room for, and how much there would be.

use core::ffi::c_char;
use core::ptr;

/// Writes as much as there is room for, with a zero at the end; returns how much there is, without the zero.
///
/// # Safety
/// There are `size` bytes to write to, or `buffer` is null.
pub(crate) unsafe fn write(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: the caller's promise; a text on this side of the border is not in there.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
            buffer.add(length).write(0);
        }
    }
    text.len()
}
