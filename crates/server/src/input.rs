//! Bytes that were received and not yet understood.
//!
//! The buffer grows with what has come, never with what a length only announces, so a client pays
//! for the memory that it takes. A large one is filled with zeros in steps ([`STEP`]): a page of
//! memory is taken when something is written there. A connection has a buffer only while something
//! is in it: between two connections the thread keeps one for the next.
//!
//! A large argument of a command that is not whole has memory of its own (`large.rs`): what comes
//! goes there until that is full, and then into the buffer again.

use crate::large::{Large, STEP};
use manx::txn::Value;
use std::cell::RefCell;

/// What a buffer has at least, …
const LEAST: usize = 16 * 1024;
/// … and what is kept of one at most when nothing is in it.
const KEPT: usize = 256 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A buffer.
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the command ends at the earliest that was not understood.
    needed: usize,
    /// An argument of this command that is not in the buffer.
    large: Option<Large>,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input { bytes: Vec::new(), start: 0, end: 0, needed: 0, large: None }
    }

    /// What was received, but for the large argument.
    pub(crate) fn received(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How many bytes were received.
    pub(crate) fn received_bytes(&self) -> usize {
        self.received().len() + self.large.as_ref().map_or(0, Large::received)
    }

    /// How many bytes of the large argument have not come.
    pub(crate) fn missing_bytes(&self) -> usize {
        self.large.as_ref().map_or(0, |large| large.length() - large.received())
    }

    /// The large argument, if it is whole.
    pub(crate) fn large(&self) -> Option<&Value> {
        self.large.as_ref().and_then(Large::whole)
    }

    /// The bytes of the command behind the first `at` are those of this argument, which belongs to
    /// what is needed.
    pub(crate) fn divert(&mut self, at: usize, mut large: Large) {
        let begin = self.start + at;
        let mut from = begin;
        loop {
            let room = large.room();
            let count = room.len().min(self.end - from);
            if count == 0 {
                break;
            }
            room[..count].copy_from_slice(&self.bytes[from..from + count]);
            large.came(count);
            from += count;
        }
        self.bytes.copy_within(from..self.end, begin);
        self.end -= from - begin;
        self.needed -= large.length();
        self.large = Some(large);
    }

    /// Removes this number of bytes, which have been understood, and the large argument.
    pub(crate) fn take(&mut self, count: usize) {
        self.large = None;
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end, self.needed) = (0, 0, 0);
            if self.bytes.len() > KEPT {
                self.bytes = Vec::new();
            }
        }
    }

    /// What was received is the beginning of a command of this number of bytes, or more.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.needed = self.start.saturating_add(bytes);
    }

    /// What the command that was not understood needs at least, in bytes.
    pub(crate) fn needed(&self) -> usize {
        self.needed.saturating_sub(self.start) + self.large.as_ref().map_or(0, Large::length)
    }

    /// Room for more: never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.awaits_large() {
            return self.large.as_mut().map_or(&mut [], Large::room);
        }
        if self.end == self.bytes.len() {
            if self.start > self.bytes.len() / 2 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.needed = self.needed.saturating_sub(self.start);
                self.start = 0;
            } else {
                self.grow();
            }
        }
        &mut self.bytes[self.end..]
    }

    fn awaits_large(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.whole().is_none())
    }

    fn grow(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = SPARE.take();
        }
        if self.end == self.bytes.len() {
            let had = self.bytes.len();
            if had == self.bytes.capacity() {
                // To the double at most, but not beyond what the command needs.
                let length = self.needed.max(had + LEAST).min(2 * had.max(LEAST));
                self.bytes.reserve_exact(length - had);
            }
            self.bytes.resize(self.bytes.capacity().min(had + STEP), 0);
        }
    }

    /// The memory that it has, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.large.as_ref().map_or(0, Large::received)
    }

    /// All that has come was read: a buffer with nothing in it is left to the thread.
    pub(crate) fn rest(&mut self) {
        if self.end == 0 && !self.bytes.is_empty() {
            SPARE.set(std::mem::take(&mut self.bytes));
        }
    }

    /// Takes over this number of bytes, which were put into the room.
    pub(crate) fn came(&mut self, count: usize) {
        match &mut self.large {
            Some(large) if large.whole().is_none() => large.came(count),
            _ => self.end += count,
        }
        debug_assert!(self.end <= self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, Parser, Replies, Step};
    use fastrand::Rng;

    /// A command has the form of an array in an answer.
    fn frame(args: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Replies::new(usize::MAX);
        out.array(args.len());
        args.iter().for_each(|arg| out.bulk(arg));
        out.bytes().to_vec()
    }

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
    fn an_empty_one_leaves_its_memory_to_the_next() {
        let (mut one, mut other) = (Input::new(), Input::new());
        one.room()[..3].copy_from_slice(b"abc");
        one.came(3);
        one.rest();
        assert_eq!(one.received(), b"abc");
        one.take(3);
        let place = one.bytes.as_ptr();
        one.rest();
        assert!(one.bytes.is_empty());
        assert_eq!(other.room().as_ptr(), place);
        assert_eq!(one.room().len(), LEAST);
    }

    #[test]
    fn it_grows_with_what_comes_and_not_beyond_what_is_needed() {
        let mut input = Input::new();
        let needed = 20 * LEAST + 7;
        input.expect(needed);
        let mut lengths = Vec::new();
        while input.end < needed {
            let count = input.room().len();
            input.came(count);
            lengths.push(input.bytes.len());
        }
        assert_eq!(lengths, [2 * LEAST, 4 * LEAST, 8 * LEAST, 16 * LEAST, needed]);
    }

    #[test]
    fn a_large_one_is_prepared_in_steps() {
        let mut input = Input::new();
        let needed = 10 * STEP + 1;
        input.expect(needed);
        while input.end < needed {
            let count = input.room().len();
            assert!((1..=STEP).contains(&count), "{count}");
            assert!(input.bytes.capacity() <= (2 * input.end).clamp(2 * LEAST, needed));
            input.came(count);
        }
        assert_eq!(input.bytes.len(), needed);
    }

    #[test]
    fn commands_with_large_arguments_are_the_ones_that_were_sent() {
        const LEAST: usize = 8;
        let limits = Limits { command_bytes_max: 64 << 20, stranger: false };
        let mut dice = Rng::with_seed(7);
        let sent: Vec<Vec<Vec<u8>>> = (0..500)
            .map(|_| {
                let arg = |dice: &mut Rng| {
                    let length = if dice.bool() { dice.usize(..12) } else { dice.usize(..3 * STEP) };
                    (0..length).map(|_| dice.u8(..)).collect()
                };
                (0..dice.usize(1..5))
                    .map(|_| if dice.u8(..8) == 0 { arg(&mut dice) } else { vec![b'\r'; 5] })
                    .collect()
            })
            .collect();
        let stream = sent.iter().flat_map(|command| frame(command)).collect::<Vec<u8>>();
        let (mut input, mut parser) = (Input::new(), Parser::new());
        let (mut found, mut rest, mut diverted) = (Vec::new(), &stream[..], 0);
        while found.len() < sent.len() {
            let most = if dice.bool() { 7 } else { 2 * STEP };
            let room = input.room();
            let (piece, behind) = rest.split_at(room.len().min(dice.usize(1..=most)).min(rest.len()));
            room[..piece.len()].copy_from_slice(piece);
            input.came(piece.len());
            rest = behind;
            while !input.received().is_empty() {
                let large = parser.left_out().zip(input.large());
                let taken = match parser.step(input.received(), limits).unwrap() {
                    Step::Command(args, taken) => {
                        let args = args.with(large);
                        found.push(args.from(0).map(<[u8]>::to_vec).collect::<Vec<_>>());
                        let wholes = (0..args.len()).filter_map(|at| Some((at, args.source(at).whole?)));
                        diverted += wholes.map(|(at, whole)| assert!(whole.ends_with(&args[at]))).count();
                        taken
                    }
                    Step::Nothing(_) => panic!("nothing"),
                    Step::More(bytes) => {
                        input.expect(bytes);
                        if let Some((at, length)) = parser.awaits_large(LEAST) {
                            parser.leave_out();
                            input.divert(at, Large::new(length, 7));
                            assert_eq!(input.needed(), bytes);
                        }
                        break;
                    }
                };
                input.take(taken);
            }
        }
        assert!(found == sent && rest.is_empty());
        assert!(diverted > 50, "{diverted}");
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
