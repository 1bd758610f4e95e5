//! Commands that people type, as in `telnet`: words with spaces between them. A word in double
//! quotes may have `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and any other character behind a backslash;
//! in single quotes only `\'`.

use std::ops::Range;

/// Quotes that do not end, or words that begin right behind one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// Splits a line. The words go behind each other into `bytes`, and where they lie into `words`.
pub(super) fn split(
    line: &[u8],
    bytes: &mut Vec<u8>,
    words: &mut Vec<Range<usize>>,
) -> Result<(), Unbalanced> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(());
        }
        let start = bytes.len();
        rest = word(rest, bytes)?;
        words.push(start..bytes.len());
    }
}

/// Takes a word; returns what is behind it.
fn word<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        match rest {
            [] => return Ok(rest),
            [c, ..] if c.is_ascii_whitespace() || *c == 0 => return Ok(&rest[1..]),
            [b'"', behind @ ..] => return closed(double(behind, bytes)?),
            [b'\'', behind @ ..] => return closed(single(behind, bytes)?),
            [c, behind @ ..] => {
                bytes.push(*c);
                rest = behind;
            }
        }
    }
}

/// Behind a closing quote there is a space, or nothing.
fn closed(rest: &[u8]) -> Result<&[u8], Unbalanced> {
    match rest.first() {
        Some(c) if !c.is_ascii_whitespace() => Err(Unbalanced),
        _ => Ok(rest),
    }
}

fn double<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, behind) = match rest {
            [] => return Err(Unbalanced),
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (digit(*high) << 4 | digit(*low), behind)
            }
            [b'\\', escaped, behind @ ..] => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, behind)
            }
            [byte, behind @ ..] => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
}

fn single<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, behind) = match rest {
            [] => return Err(Unbalanced),
            [b'\'', behind @ ..] => return Ok(behind),
            [b'\\', b'\'', behind @ ..] => (b'\'', behind),
            [byte, behind @ ..] => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
}

fn digit(hex: u8) -> u8 {
    char::from(hex).to_digit(16).map_or(0, |digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        split(line, &mut bytes, &mut ranges)?;
        Ok(ranges.into_iter().map(|range| bytes[range].to_vec()).collect())
    }

    #[test]
    fn words_are_split_at_spaces() {
        assert_eq!(words(b"  SET a\t b ").unwrap(), [&b"SET"[..], b"a", b"b"]);
        assert!(words(b" \t ").unwrap().is_empty());
    }

    #[test]
    fn quotes_hold_spaces_and_escapes() {
        assert_eq!(words(br#"SET "a b" "\x41\n\"\q""#).unwrap(), [&b"SET"[..], b"a b", b"A\n\"q"]);
        assert_eq!(words(br"SET 'a\'b' '\n' ''").unwrap(), [&b"SET"[..], b"a'b", br"\n", b""]);
    }

    #[test]
    fn quotes_that_do_not_end_are_an_error() {
        for line in [&b"SET \"a"[..], b"SET 'a", b"SET \"a\"b", b"SET 'a'b", b"\"\\"] {
            assert_eq!(words(line), Err(Unbalanced), "{}", line.escape_ascii());
        }
    }
}
