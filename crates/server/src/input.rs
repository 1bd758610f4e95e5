//! Bytes that were received and not yet understood.
//!
//! The buffer grows with what has come, never with what a length only announces, so a client pays
//! for the memory that it takes.

/// What a connection has at least …
const LEAST: usize = 16 * 1024;
/// … and keeps at most when nothing is in it.
const KEPT: usize = 256 * 1024;

/// A buffer.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// What was received.
    pub(crate) fn received(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes this number of bytes, which have been understood.
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT {
                self.bytes = Vec::new();
            }
        }
    }

    /// Room for more: never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            if self.start > self.bytes.len() / 2 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                let length = (self.bytes.len() * 2).max(LEAST);
                self.bytes.resize(length, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Takes over this number of bytes, which were put into the room.
    pub(crate) fn came(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_came_in() {
        let mut input = Input::new();
        let (mut sent, mut taken) = (0_u32, 0_u32);
        for round in 0..50_000_usize {
            let room = input.room();
            assert!(!room.is_empty());
            let count = room.len().min(round % 97);
            for place in &mut room[..count] {
                *place = sent as u8;
                sent += 1;
            }
            input.came(count);
            let some = input.received().len().min(round % 101);
            for byte in &input.received()[..some] {
                assert_eq!(*byte, taken as u8);
                taken += 1;
            }
            input.take(some);
        }
        assert!(taken > 2_000_000);
    }

    #[test]
    fn large_memory_is_given_back() {
        let mut input = Input::new();
        while input.received().len() < 4 * KEPT {
            let count = input.room().len();
            input.came(count);
        }
        input.take(input.received().len());
        assert!(input.bytes.len() <= KEPT);
        assert_eq!(input.room().len(), LEAST);
    }
}
