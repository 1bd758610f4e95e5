//! Lines of a key and a number each, as the kernel writes its small files of several numbers; read
//! as `text.rs` says.

use super::text::{number, words};

/// The lines of `text`, without their ends.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

/// The number behind `key` in a file of one key and one number a line.
pub(super) fn value_of(text: &[u8], key: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.next()? == key.as_bytes()).then(|| words.next().and_then(number))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let text = b"nr_periods 7\nnr_throttled x\nthrottled_time 12345\n";
        assert_eq!(value_of(text, "nr_periods"), Some(7));
        assert_eq!(value_of(text, "nr"), None);
        assert_eq!(value_of(text, "nr_throttled"), None);
        assert_eq!(value_of(text, "throttled_time"), Some(12345));
        assert_eq!(value_of(b"throttled_time", "throttled_time"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            value_of(&text, "key");
        }
    }
}
