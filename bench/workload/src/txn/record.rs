//! Values that tell where they come from: the record, the thread that wrote it, its number, and a
//! checksum over these, at both ends.
//!
//! A value is whole if both ends agree; a value that consists of two puts is not. What is between
//! them is filler. The drivers in C have the same (`engines/ledger.h`).

use super::keys::mix;

/// The writer of a record that was loaded, inserted or changed: no thread in particular.
pub const NOBODY: u32 = u32::MAX;
/// Both ends of a value.
pub const VALUE_MIN: usize = 2 * STAMP;
const STAMP: usize = 24;

/// An end of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The record
    pub record: u64,
    /// The thread that put it, or [`NOBODY`]
    pub writer: u32,
    /// Of a thread: its puts to any record until this one. Of [`NOBODY`]: the version, from 0 on
    pub number: u32,
}

impl Stamp {
    fn checksum(self) -> u64 {
        mix(self.record.wrapping_add(mix((u64::from(self.writer) << 32) + u64::from(self.number))))
    }

    /// Writes both ends of a value.
    ///
    /// # Panics
    /// If it has no room for them.
    pub fn write(self, value: &mut [u8]) {
        let mut bytes = [0; STAMP];
        bytes[..8].copy_from_slice(&self.record.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.writer.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum().to_le_bytes());
        assert!(value.len() >= VALUE_MIN, "a value of {} bytes has no room for its ends", value.len());
        let end = value.len() - STAMP;
        value[..STAMP].copy_from_slice(&bytes);
        value[end..].copy_from_slice(&bytes);
    }

    /// Reads a value of `bytes` bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(value: &[u8], bytes: usize) -> Result<Stamp, &'static str> {
        if value.len() != bytes || bytes < VALUE_MIN {
            return Err("a value has another size than was put");
        }
        let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
        let both = word(8);
        let stamp = Stamp { record: word(0), writer: both as u32, number: (both >> 32) as u32 };
        if word(16) != stamp.checksum() {
            return Err("a value is not what anybody put");
        }
        if value[..STAMP] != value[bytes - STAMP..] {
            return Err("a value consists of two different puts");
        }
        Ok(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_whole_or_not_at_all() {
        let stamp = Stamp { record: 77, writer: 3, number: 9 };
        let mut value = vec![b'x'; 100];
        stamp.write(&mut value);
        assert_eq!(Stamp::read(&value, 100), Ok(stamp));
        assert_eq!(Stamp::read(&value[..99], 100), Err("a value has another size than was put"));
        let mut later = value.clone();
        Stamp { number: 10, ..stamp }.write(&mut later);
        let torn = [&later[..50], &value[50..]].concat();
        assert_eq!(Stamp::read(&torn, 100), Err("a value consists of two different puts"));
        for byte in 0..STAMP {
            let mut broken = value.clone();
            broken[byte] ^= 1;
            assert_eq!(Stamp::read(&broken, 100), Err("a value is not what anybody put"), "byte {byte}");
        }
        assert_eq!(value[STAMP..100 - STAMP], [b'x'; 52]);
    }
}
