//! The secret of a store: what its records are known by.
//!
//! Values are in the log as they came, and records are looked for at every byte behind its end. If
//! a record were known by something public, a client that may write a value could write a record,
//! of a generation that never was. Then the store would miss, for good, what no client ever wrote.
//! So each store draws a secret when it is made. A record begins with one part of it, and its
//! checksum begins with the other: a client that sees values alone can write neither part.
//!
//! It is in the marker (`marker.rs`), and is no more secret than the files are; nor has it to be: a
//! program that may write the files can do worse.

use std::fs::File;
use std::io::{self, Read};

/// Where it is drawn.
pub(super) const SOURCE: &str = "/dev/urandom";
/// The number of characters of its text.
pub(super) const TEXT: usize = 24;

/// See [the module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    /// What a record begins with.
    pub(super) start: [u8; 8],
    /// What the checksum of a record begins with.
    pub(super) sum: u32,
}

impl Secret {
    /// Draws one.
    pub(super) fn draw() -> io::Result<Secret> {
        let (mut start, mut sum) = ([0; 8], [0; 4]);
        let mut source = File::open(SOURCE)?;
        source.read_exact(&mut start)?;
        source.read_exact(&mut sum)?;
        Ok(Secret { start, sum: u32::from_be_bytes(sum) })
    }

    /// As text.
    pub(super) fn text(self) -> String {
        format!("{:016x}{:08x}", u64::from_be_bytes(self.start), self.sum)
    }

    /// Returns the secret that has this text; for the text of no secret, none or any.
    pub(super) fn of_text(text: &[u8]) -> Option<Secret> {
        let text = std::str::from_utf8(text).ok()?;
        let (start, sum) = text.split_at_checked(TEXT - 8)?;
        let start = u64::from_str_radix(start, 16).ok()?.to_be_bytes();
        Some(Secret { start, sum: u32::from_str_radix(sum, 16).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike_and_each_is_read_from_its_text() {
        let drawn: Vec<_> = (0..4).map(|_| Secret::draw().expect("drawn")).collect();
        for (number, secret) in drawn.iter().enumerate() {
            assert_eq!(secret.text().len(), TEXT);
            assert_eq!(Secret::of_text(secret.text().as_bytes()), Some(*secret));
            let others = || drawn[..number].iter();
            assert!(others().all(|other| other.start != secret.start), "{drawn:?}");
            assert!(others().any(|other| other.sum != secret.sum) || number == 0, "{drawn:?}");
        }
        assert_eq!(Secret::of_text(b"short"), None);
        assert_eq!(Secret::of_text(&[b'x'; TEXT]), None);
    }

    #[test]
    fn small_numbers_have_the_whole_length() {
        let secret = Secret { start: [0, 0, 0, 0, 0, 0, 0, 1], sum: 2 };
        assert_eq!(secret.text(), "000000000000000100000002");
        assert_eq!(Secret::of_text(secret.text().as_bytes()), Some(secret));
    }
}
