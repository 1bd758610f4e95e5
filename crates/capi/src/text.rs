//! Texts for C, written as `snprintf` writes: as much as there is room for, and how much there
//! would be.

use core::ffi::c_char;
use core::ptr;

/// Writes as much as there is room for, with a zero at the end; returns how much there is, without
/// the zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_the_room_there_is_and_end_with_a_zero() {
        let mut buffer = [c_char::MAX; 4];
        // SAFETY: as much room as is said, here and below.
        assert_eq!(unsafe { write("abcdef", buffer.as_mut_ptr(), 4) }, 6);
        assert_eq!(buffer.map(|byte| byte as u8), *b"abc\0");
        // SAFETY: as above.
        assert_eq!(unsafe { write("x", buffer.as_mut_ptr(), 1) }, 1);
        assert_eq!(buffer.map(|byte| byte as u8), *b"\0bc\0");
        // SAFETY: nothing is written.
        assert_eq!(unsafe { (write("x", ptr::null_mut(), 4), write("x", buffer.as_mut_ptr(), 0)) }, (1, 1));
        assert_eq!(buffer.map(|byte| byte as u8), *b"\0bc\0");
    }
}
