//! Numbers in the small files that the kernel writes, read where they stand: nothing is allocated,
//! nothing panics.
//!
//! The readers of this room are called while a thread waits for a lock, inside of programs that are
//! not ours. So a file goes into a buffer on the stack by one system call, and the numbers are
//! taken out of the bytes. A text that is not what the kernel writes yields `None`, never a guess:
//! a descriptor that other code closed may by now be another file.

/// The decimal number that is all of `text`, if it fits.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The words of `text`: what lies between white space.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_digits_that_fit() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "18446744073709551616", "-1", "+1", "1 ", "1.5", "max"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(wanted: u64) {
            prop_assert_eq!(number(wanted.to_string().as_bytes()), Some(wanted));
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            let joined: usize = words(&text).map(<[u8]>::len).sum();
            prop_assert_eq!(joined, text.iter().filter(|byte| !byte.is_ascii_whitespace()).count());
            number(&text);
        }
    }
}
