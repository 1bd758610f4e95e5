//! Fuzzing of what is on the disk, by seeds: `cargo xtask fuzz record`, `log`, `marker` and
//! `checkpoint`. A few inputs each time; by hand as many as one likes.
//!
//! 1. No bytes make the reading of a file panic.
//! 2. Bytes are a record only if a writer that had the store's secret wrote them.
//! 3. What is replayed from a damaged log is what was written to it, from its beginning, or an
//!    error.
//! 4. A damaged checkpoint that is checked is an error, or is one that was made.

use super::base::{Base, Position};
use super::disk::Medium;
use super::log::{Log, replay};
use super::marker;
use super::record::{self, HEADER, Head};
use super::secret::Secret;
use super::syncs::{Part, Syncs};
use crate::txn::{Batch, Change, DataError, Entry, Recovered};
use fastrand::Rng;
use std::io;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use testing::{fuzz, mutate};

const SECRET: Secret = Secret { start: *b"\xABsecret!", sum: 0x0102_0304 };

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    /// What was written since the last [`Contents::restore`].
    written: Vec<Range<usize>>,
}

impl Contents {
    /// The bytes of a range, to be changed.
    fn change(&mut self, range: Range<usize>) -> &mut [u8] {
        self.written.push(range.clone());
        &mut self.bytes[range]
    }

    fn set_length(&mut self, length: usize) {
        self.written.push(length.min(self.bytes.len())..self.bytes.len().max(length));
        self.bytes.resize(length, 0);
    }

    /// Makes it what it was, which was this: as fast as little was changed, however long it is.
    fn restore(&mut self, whole: &[u8]) {
        self.bytes.resize(whole.len(), 0);
        for range in self.written.drain(..) {
            let range = range.start.min(whole.len())..range.end.min(whole.len());
            self.bytes[range.clone()].copy_from_slice(&whole[range]);
        }
    }
}

impl Memory {
    fn with(bytes: Vec<u8>) -> Memory {
        Memory(Arc::new(Mutex::new(Contents { bytes, written: Vec::new() })))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_vec(&self) -> Vec<u8> {
        self.contents().bytes.clone()
    }
}

impl Medium for Memory {
    fn length(&self) -> io::Result<u64> {
        Ok(self.contents().bytes.len() as u64)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = &self.contents().bytes;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let found = at.checked_add(into.len()).and_then(|end| bytes.get(at..end));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let mut contents = self.contents();
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let end = at.checked_add(from.len()).ok_or(io::ErrorKind::StorageFull)?;
        if contents.bytes.len() < end {
            contents.set_length(end);
        }
        contents.change(at..end).copy_from_slice(from);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        // What a damaged file asks for is not always there.
        let length = usize::try_from(length).ok().filter(|length| *length <= 1 << 28);
        self.contents().set_length(length.ok_or(io::ErrorKind::StorageFull)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn some_bytes(dice: &mut Rng, most: usize) -> Vec<u8> {
    (0..dice.usize(..=most)).map(|_| dice.u8(..)).collect()
}

fn some_changes(dice: &mut Rng) -> Vec<Change> {
    let change = |dice: &mut Rng| {
        let key = some_bytes(dice, 12).into();
        if dice.u8(..4) == 0 {
            return Change::Delete { key };
        }
        // A client that knows everything of a record but the secret.
        let value = if dice.u8(..3) == 0 { forged(dice) } else { some_bytes(dice, 24) };
        Change::Put { key, value: value.into() }
    };
    (0..dice.usize(..4)).map(|_| change(dice)).collect()
}

fn some_head(dice: &mut Rng) -> Head {
    let number = |dice: &mut Rng| if dice.bool() { dice.u64(..8) } else { dice.u64(..) };
    Head {
        generation: number(dice),
        sequence: number(dice),
        durable: number(dice),
        id: number(dice),
        timestamp: number(dice),
        oldest_timestamp: number(dice),
    }
}

/// A record of another store, whose secret differs in one part or in both.
///
/// A checksum of 32 bits is right by chance once in 2^32 times; and as CRCs go, a bit less in what
/// it begins with is as good as the same bit more in the first four bytes. So the sums differ in
/// each byte, and no mutation makes up for that.
fn forged(dice: &mut Rng) -> Vec<u8> {
    let other = match dice.u8(..3) {
        0 => Secret { start: *b"\xABsecret?", ..SECRET },
        1 => Secret { sum: SECRET.sum ^ 0x5A5A_5A5A, ..SECRET },
        _ => Secret { start: *b"\xABmanxlog", sum: 0 },
    };
    let mut bytes = Vec::new();
    let change = Change::Put { key: some_bytes(dice, 8).into(), value: some_bytes(dice, 16).into() };
    record::encode(other, some_head(dice), &[change], &mut bytes);
    bytes
}

/// What stands at the beginning of what is decoded is what a writer would have written.
fn is_canonical(bytes: &[u8]) -> bool {
    let Some((head, changes, length)) = record::decode(SECRET, bytes) else { return true };
    let mut again = Vec::new();
    record::encode(SECRET, head, &changes, &mut again);
    again == bytes[..length]
}

#[test]
fn record() {
    fuzz("record", 20_000, |dice| {
        let changes = some_changes(dice);
        let head = some_head(dice);
        let mut bytes = Vec::new();
        record::encode(SECRET, head, &changes, &mut bytes);
        assert_eq!(record::decode(SECRET, &bytes), Some((head, changes, bytes.len())));
        let whole = bytes.clone();
        // A number of the header, or any bytes.
        if dice.bool() {
            let at = dice.usize(..HEADER);
            bytes[at] = dice.u8(..);
        } else {
            mutate(dice, &mut bytes, &[&SECRET.start, &[0; 8], &[0xFF; 4], &whole[..HEADER]]);
        }
        // Wherever the reader begins.
        for at in [0, dice.usize(..=bytes.len())] {
            assert!(is_canonical(&bytes[at..]), "{} from {at}", bytes.escape_ascii());
        }
        // Without the secret there is none, even if all else is right.
        let mut bytes = forged(dice);
        assert_eq!(record::decode(SECRET, &bytes), None);
        let last = bytes.len() - 1;
        bytes[dice.usize(8..=last)] = dice.u8(..);
        assert_eq!(record::decode(SECRET, &bytes), None, "{}", bytes.escape_ascii());
    });
}

fn replayed(files: &[Memory; 2], generation: u64, applied: u64) -> Result<Vec<Vec<Change>>, DataError> {
    let part = |number: usize| Part { file: Box::new(files[number].clone()), place: number.to_string() };
    let mut all = Vec::new();
    let each = |_, changes| all.push(changes);
    replay(&[part(0), part(1)], SECRET, generation, applied, each).map(|_| all)
}

#[test]
fn log() {
    fuzz("log", 5_000, |dice| {
        let files = [Memory::default(), Memory::default()];
        let part = |number: usize| Part { file: Box::new(files[number].clone()), place: number.to_string() };
        let (generation, applied) = (dice.u64(1..4), dice.u64(..4));
        let syncs = Arc::new(Syncs::new(applied));
        let mut log = Log::new([part(0), part(1)], SECRET, 1 << 20, generation, Arc::clone(&syncs));
        let mut written = Vec::new();
        let seal_at = dice.usize(..6);
        for number in 0..dice.usize(..6) {
            if number == seal_at {
                log.seal().expect("sealed");
            }
            let changes = some_changes(dice);
            let last = log.append(&Batch::new(&changes, true)).expect("appended");
            if dice.bool() {
                syncs.sync(&log.current(), last).expect("synced");
            }
            written.push(changes);
        }
        assert_eq!(replayed(&files, generation, applied), Ok(written.clone()));
        let both = [files[0].to_vec(), files[1].to_vec()];
        let which = dice.usize(..2);
        {
            let bytes = &mut files[which].contents().bytes;
            let token = forged(dice);
            // Pieces of the log itself are what a lost write leaves.
            let from = &both[dice.usize(..2)];
            let piece = &from[dice.usize(..=from.len())..];
            mutate(dice, bytes, &[&token, piece, &[0; 64], &SECRET.start]);
        }
        if let Ok(read) = replayed(&files, generation, applied) {
            assert!(written.starts_with(&read), "{read:?} of {written:?}");
        }
        // Of another checkpoint: never what was not written.
        let other = (dice.u64(..5), dice.u64(..8));
        if let Ok(read) = replayed(&files, other.0, other.1) {
            assert!(read.iter().all(|group| written.contains(group)), "{read:?} of {written:?}");
        }
    });
}

#[test]
fn marker() {
    fuzz("marker", 20_000, |dice| {
        let secret = Secret { start: dice.u64(..).to_le_bytes(), sum: dice.u32(..) };
        let state = if dice.bool() { marker::State::New } else { marker::State::Ready };
        let whole = marker::text(state, secret);
        assert_eq!(marker::parse(&whole), Some((state, secret)));
        let mut bytes = whole.clone();
        mutate(dice, &mut bytes, &[b"new", b"ready", b"\n", b"\xC3\xA9", b"0000000000000000"]);
        if let Some((state, secret)) = marker::parse(&bytes) {
            assert_eq!(marker::text(state, secret), bytes);
        }
        // What a marker that was not written whole looks like, or something else, is neither.
        let _ = marker::is_unfinished(&bytes);
    });
}

fn everything(base: &Base) -> Result<Vec<Entry>, DataError> {
    base.scan((Bound::Unbounded, Bound::Unbounded), false, usize::MAX)
}

fn open(file: &Memory, check: bool) -> Result<(Base, Position), DataError> {
    Base::open(Box::new(file.clone()), "base".into(), 1 << 16, check)
}

/// The bytes of a checkpoint of a few pages, with older ones behind it, and what each of them has;
/// and how many bytes are not free.
#[expect(clippy::type_complexity, reason = "three plain things")]
fn checkpoints() -> (Vec<u8>, Vec<(Position, Vec<Entry>)>, usize) {
    let file = Memory::default();
    let mut states = Vec::new();
    let (base, _) = Base::open(Box::new(file.clone()), "base".into(), 1 << 16, false).expect("a new one");
    for round in 0..3_u8 {
        let put = |number: u8| Change::Put { key: [number, round].into(), value: [number; 150].into() };
        // Few, since each input reads them all; and enough for several leaves.
        let changes: Vec<_> = (0..16).map(put).collect();
        let known = Recovered { last_id: 7, timestamp: round.into(), ..Recovered::default() };
        let at = Position { applied: round.into(), generation: 3, known };
        base.add(round.into(), &changes);
        base.freeze();
        base.checkpoint(at).expect("durable");
        states.push((at, everything(&base).expect("read")));
    }
    base.finish();
    drop(base);
    let bytes = file.to_vec();
    // The pages that are used are at the beginning.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (bytes, states, used)
}

/// What stands at the beginning of each page is damaged, and not looked at before it is used.
#[test]
fn a_damaged_page_is_an_error_and_no_panic_at_the_end_either() {
    let (whole, _, used) = checkpoints();
    let file = Memory::with(whole.clone());
    for page in 1..used.div_ceil(4096) {
        for (at, value) in (0..8).flat_map(|at| [0, 1, 2, 0xFF].map(|value| (at, value))) {
            file.contents().restore(&whole);
            let at = page * 4096 + at;
            file.contents().change(at..at + 1).fill(value);
            if let Ok((base, _)) = open(&file, false) {
                base.freeze();
                let _ = base.checkpoint(Position::default()).and_then(|()| everything(&base));
            }
        }
    }
}

/// Changes some bytes among the first `used`, or cuts the file off.
fn damage(dice: &mut Rng, file: &mut Contents, used: usize) {
    let length = file.bytes.len();
    if length == 0 {
        return;
    }
    let at = dice.usize(..used.min(length));
    match dice.u8(..5) {
        0 => file.change(at..at + 1)[0] ^= 1 << dice.u8(..8),
        1 => file.change(at..at + 1)[0] = dice.u8(..),
        2 => {
            let end = (at + dice.usize(1..=4096)).min(length);
            file.change(at..end).fill(if dice.bool() { 0 } else { 0xFF });
        }
        // A page that was not written, or in the place of another one.
        3 => {
            let (from, to) = (at / 4096 * 4096, dice.usize(..used) / 4096 * 4096);
            let page = file.bytes[from..length.min(from + 4096)].to_vec();
            let end = length.min(to + page.len());
            if to < end {
                file.change(to..end).copy_from_slice(&page[..end - to]);
            }
        }
        _ => file.set_length(at.max(1)),
    }
}

#[test]
fn checkpoint() {
    let (whole, states, used) = checkpoints();
    let file = Memory::with(whole.clone());
    let mut refused = 0_u64;
    fuzz("checkpoint", 200, |dice| {
        file.contents().restore(&whole);
        for _ in 0..dice.usize(1..=3) {
            damage(dice, &mut file.contents(), used);
        }
        // As a store opens it. Without the check the engine may even abort on damaged pages.
        let read = open(&file, true).and_then(|(base, found)| {
            base.freeze();
            base.checkpoint(found)?;
            Ok((found, everything(&base)?))
        });
        match read {
            Err(_) => refused += 1,
            // An older checkpoint may be what is left.
            Ok(state) => assert!(states.contains(&state), "{state:?}"),
        }
    });
    println!("{refused} were refused");
}
