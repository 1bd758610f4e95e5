//! What is mapped in the process, as `/proc/self/maps` says.

use alloc::vec::Vec;
use core::ops::Range;
use platform::file::File;

/// One mapping.
pub struct Mapping {
    /// Its addresses.
    pub range: Range<usize>,
    /// It is private, may be read and executed, and not written.
    pub is_text: bool,
    /// It may grow downwards.
    pub grows_down: bool,
}

/// All mappings, in ascending order; none if the kernel does not tell.
pub fn all() -> Vec<Mapping> {
    let mut text = Vec::new();
    if let Ok(file) = File::open(c"/proc/self/maps") {
        // The file has no length and hands out whole lines, at most a page at a time.
        let mut part = [0; 4096];
        while let Ok(bytes) = file.read_once_at(&mut part, text.len() as u64) {
            if bytes == 0 {
                break;
            }
            text.extend_from_slice(&part[..bytes]);
        }
    }
    text.split(|&b| b == b'\n').filter_map(parse).collect()
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let hex = |digits: &[u8]| usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok();
    let dash = line.iter().position(|&b| b == b'-')?;
    let space = line.iter().position(|&b| b == b' ')?;
    let range = hex(&line[..dash])?..hex(line.get(dash + 1..space)?)?;
    let is_text = line.get(space + 1..)?.starts_with(b"r-xp ");
    Some(Mapping { range, is_text, grows_down: line.ends_with(b"[stack]") })
}

/// Whether all of `range` is text that no thread may write.
pub fn is_text(mapped: &[Mapping], range: &Range<usize>) -> bool {
    let mut at = range.start;
    for mapping in mapped.iter().filter(|mapping| mapping.range.end > range.start) {
        if at >= range.end {
            break;
        }
        if mapping.range.start > at || !mapping.is_text {
            return false;
        }
        at = mapping.range.end;
    }
    at >= range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_left_out() {
        let stack = parse(b"7ffc-7ffd rw-p 00000000 00:00 0    [stack]").expect("a mapping");
        assert!(stack.range == (0x7ffc..0x7ffd) && stack.grows_down && !stack.is_text);
        assert!(parse(b"1000-2000 r-xp 00000000 00:00 0 /lib").is_some_and(|mapping| mapping.is_text));
        assert!(parse(b"garbage").is_none() && parse(b"").is_none());
    }

    #[test]
    fn text_is_whole_or_no_text() {
        let map = |start, end, is_text| Mapping { range: start..end, is_text, grows_down: false };
        let mapped = [map(1, 3, true), map(3, 5, true), map(5, 7, false), map(8, 9, true)];
        for (range, text) in [
            (1..5, true),
            (2..4, true),
            (4..6, false),
            (7..9, false),
            (8..9, true),
            (8..10, false),
            (0..2, false),
        ] {
            assert_eq!(is_text(&mapped, &range), text, "{range:?}");
        }
        let ours = text_is_whole_or_no_text as *const () as usize;
        let own = all();
        assert!(is_text(&own, &(ours..ours + 1)));
        let here = core::ptr::from_ref(&own).addr();
        assert!(own.iter().any(|mapping| mapping.range.contains(&here)) && !is_text(&own, &(here..here + 1)));
    }
}
