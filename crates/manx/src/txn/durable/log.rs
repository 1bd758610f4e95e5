//! The log: the batches since the last checkpoint, one behind the other, in two files that take
//! turns. Each is written at once, and durable with a later sync (`syncs.rs`).
//!
//! ```text
//!   log  │ 7 8 9 ▒▒▒ │ sealed: a checkpoint of 1 to 9 is being made
//!   log2 │ 10 11 ►   │ the current one, used again from its beginning     ▒ of laps before
//! ```
//!
//! A checkpoint *seals* the current file, and batches that come meanwhile go to the other file.
//! When the checkpoint is durable, the sealed file is free for the next lap. No file is renamed,
//! and none is cut off unless a batch is refused; old records are overwritten. So a sync writes
//! data alone once a file has its full length, and no folder has to be synced on the way.
//!
//! # What is in it
//! Somewhere behind the last whole record of a file are others: older ones, of laps before, and
//! perhaps the pieces of batches that were never acknowledged. What counts, given the sequence
//! `applied` that the checkpoint contains and the `generation` that it is from:
//! 1. The first record is at 0 of one of the files, each other one behind the one before it; its
//!    sequence is `applied` + 1, + 2, …; its generation is the checkpoint's. Where a file has no
//!    such whole record any more, the next one is at 0 of the other file, if that has not been read
//!    yet; else it is the end of the log.
//! 2. Records of laps before have a sequence of at most `applied`, and those from before the last
//!    opening an older generation. So neither is ever taken for a current one, wherever its bytes
//!    come to lie.
//! 3. A batch is acknowledged as durable after a sync that began when its record, and with it all
//!    before it in its file, was written; and a file is synced before it is sealed, whatever was
//!    asked for. So an acknowledged record is never behind the end, whatever a loss of power left
//!    of the records that were not synced.
//! 4. A file is written from its beginning when the checkpoint that has all that was in it is
//!    durable.
//! 5. A batch that is refused for want of room is in no file, and will not be. Its bytes and those
//!    of laps before might form a whole record; so they are cut off durably before any thread gets
//!    the error.
//! 6. A client that may write values can write any bytes into a file, but none that are a record:
//!    records are known by the store's secret (`secret.rs`).
//!
//! # Damage
//! A record that a loss of power has torn looks like a record that the disk has damaged. But each
//! record says up to which sequence the log was durable when it was written: if behind the end
//! there is a current record that calls what is missing durable, then what is missing was
//! acknowledged, and the store is not opened without it. (Of the last batch it cannot be known.)
//! Nor is it opened with a checkpoint that is older than a record: no generation writes any before
//! its first checkpoint is durable.

use super::disk::Medium;
use super::failure;
use super::record::{self, Head};
use super::secret::Secret;
use super::syncs::{Part, Syncs};
use crate::txn::{Batch, Change, DataError};
use memchr::memmem;
use std::io;
use std::sync::Arc;

/// Why a batch is not in the log.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is no room on the disk. Nothing was changed.
    Full(DataError),
    /// It is not known what of it is there.
    Unknown(DataError),
}

/// The log of an open store.
#[derive(Debug)]
pub(super) struct Log {
    parts: [Arc<Part>; 2],
    /// The file that is written.
    current: usize,
    secret: Secret,
    bytes_max: usize,
    generation: u64,
    /// The last record's.
    sequence: u64,
    syncs: Arc<Syncs>,
    /// Where the next record goes.
    end: usize,
    buffer: Vec<u8>,
}

impl Log {
    /// The log of a store whose checkpoint contains everything that is durable; it is as if empty.
    /// Each of its files has `bytes_max` bytes at most.
    pub(super) fn new(
        parts: [Part; 2],
        secret: Secret,
        bytes_max: usize,
        generation: u64,
        syncs: Arc<Syncs>,
    ) -> Log {
        let (parts, sequence) = (parts.map(Arc::new), syncs.durable());
        let (current, end, buffer) = (0, 0, Vec::new());
        Log { parts, current, secret, bytes_max, generation, sequence, syncs, end, buffer }
    }

    /// The sequence of the last record.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns whether a record of this number of bytes could be in it at all.
    pub(super) fn could_hold(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max
    }

    /// Returns whether there is room for a record of this number of bytes before it has to be
    /// sealed.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max - self.end
    }

    /// Whether nothing was written since the last checkpoint was begun.
    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// The file that has all records that are not durable.
    pub(super) fn current(&self) -> Arc<Part> {
        Arc::clone(&self.parts[self.current])
    }

    /// Writes a batch behind the others. Returns its sequence.
    pub(super) fn append(&mut self, batch: &Batch<'_>) -> Result<u64, Refused> {
        let &Batch { id, timestamp, oldest_timestamp, changes, .. } = batch;
        let (generation, sequence, durable) = (self.generation, self.sequence + 1, self.syncs.durable());
        let head = Head { generation, sequence, durable, id, timestamp, oldest_timestamp };
        record::encode(self.secret, head, changes, &mut self.buffer);
        let Part { file, place } = &*self.parts[self.current];
        if let Err(error) = file.write(&self.buffer, self.end as u64) {
            let failed = failure::of_io(place, "written", &error);
            if !failure::is_full(&error) {
                return Err(Refused::Unknown(failed));
            }
            self.cut().map_err(Refused::Unknown)?;
            return Err(Refused::Full(failed));
        }
        self.sequence = sequence;
        self.end += self.buffer.len();
        // One large batch does not keep its room for ever.
        self.buffer.shrink_to(1 << 20);
        Ok(sequence)
    }

    /// A batch that went past the log, to the checkpoint at once, has a sequence too.
    pub(super) fn skip(&mut self) {
        self.sequence += 1;
    }

    /// Begins again at 0, behind a checkpoint of all that was written so far.
    pub(super) fn restart(&mut self) {
        self.syncs.note(self.sequence);
        self.end = 0;
    }

    /// Goes on in the other file; a durable checkpoint has all of that file (Invariant 4). Returns
    /// what the next checkpoint is to have.
    pub(super) fn seal(&mut self) -> Result<u64, DataError> {
        // Invariant 3.
        self.syncs.sync(&self.parts[self.current], self.sequence)?;
        self.current ^= 1;
        self.end = 0;
        Ok(self.sequence)
    }

    /// Makes sure that nothing is behind the last record, after a loss of power either (Invariant
    /// 5). It takes no room, where to write over something might.
    fn cut(&mut self) -> Result<(), DataError> {
        let part = &*self.parts[self.current];
        let end = self.end as u64;
        let cut = match part.file.length() {
            Ok(length) if length <= end => return Ok(()),
            Ok(_) => part.file.set_length(end),
            Err(error) => Err(error),
        };
        cut.map_err(|error| failure::of_io(&part.place, "cut", &error))?;
        self.syncs.sync_again(part, self.sequence)
    }
}

/// Reads the batches that the log has beyond a checkpoint, in order; returns the sequence of the
/// last one.
pub(super) fn replay(
    parts: &[Part; 2],
    secret: Secret,
    generation: u64,
    applied: u64,
    mut each: impl FnMut(Head, Vec<Change>),
) -> Result<u64, DataError> {
    let [first, second] = parts.each_ref().map(|part| {
        let bytes = read(&*part.file).map_err(|error| failure::of_io(&part.place, "read", &error))?;
        Ok::<_, DataError>((part, bytes, 0))
    });
    let mut files = [first?, second?];
    let mut sequence = applied;
    // Invariant 1: the sealed file, if there is one, then the current one. Which is which, their
    // first records tell.
    for _ in 0..files.len() {
        for (_, bytes, at) in files.iter_mut().filter(|(_, _, at)| *at == 0) {
            while let Some((head, changes, length)) = record::decode(secret, &bytes[*at..]) {
                if head.generation != generation || head.sequence != sequence + 1 {
                    break;
                }
                sequence = head.sequence;
                each(head, changes);
                *at += length;
            }
        }
    }
    let missing = sequence + 1;
    let shows_loss = |head: &Head| {
        let current = head.generation == generation && head.sequence > missing && head.durable >= missing;
        current || head.generation > generation
    };
    let lost = files
        .iter()
        .find_map(|(part, bytes, at)| Some((part, behind(&secret, &bytes[*at..]).find(shows_loss)?)));
    match lost {
        None => Ok(sequence),
        Some((part, head)) => {
            let (ends, what) = (files.each_ref().map(|(_, _, at)| at), head.sequence);
            let why = format!(
                "the batch {missing}, behind {} or {} bytes of the two files, was acknowledged and cannot be read ({what} can)",
                ends[0], ends[1]
            );
            Err(failure::damaged(&part.place, &why))
        }
    }
}

/// All whole records that begin anywhere in some bytes.
fn behind<'a>(secret: &'a Secret, bytes: &'a [u8]) -> impl Iterator<Item = Head> + 'a {
    let finder = memmem::Finder::new(&secret.start);
    let mut from = 0;
    // One by one: a secret that was drawn may overlap with itself.
    let starts = std::iter::from_fn(move || {
        let at = from + finder.find(&bytes[from..])?;
        from = at + 1;
        Some(at)
    });
    starts.filter_map(move |at| Some(record::check(*secret, &bytes[at..])?.0))
}

fn read(file: &dyn Medium) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    file.read(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::Mutex;

    const SECRET: Secret = Secret { start: *b"\xABsecret!", sum: 7 };

    fn put(number: u8) -> Change {
        Change::Put { key: [number].into(), value: [number; 20].into() }
    }

    /// Writes a batch, and syncs if that is asked for.
    fn append(log: &mut Log, changes: &[Change], sync: bool) -> Result<(), Refused> {
        let last = log.append(&Batch::new(changes, sync))?;
        if sync { log.syncs.sync(&log.current(), last).map_err(Refused::Unknown) } else { Ok(()) }
    }

    struct Setting(tempfile::TempDir);

    impl Setting {
        fn new() -> Setting {
            Setting(tempfile::tempdir().expect("a folder"))
        }

        fn file(&self, name: &str) -> File {
            let mut options = File::options();
            let path = self.0.path().join(name);
            options.read(true).write(true).create(true).truncate(false).open(path).expect("opened")
        }

        fn parts(&self) -> [Part; 2] {
            ["log", "log2"].map(|name| Part { file: Box::new(self.file(name)), place: name.into() })
        }

        fn log(&self, generation: u64, applied: u64) -> Log {
            Log::new(self.parts(), SECRET, 1 << 20, generation, Arc::new(Syncs::new(applied)))
        }

        fn replayed(&self, generation: u64, applied: u64) -> Result<Vec<Change>, DataError> {
            let mut all = Vec::new();
            let each = |_, changes| all.extend::<Vec<Change>>(changes);
            replay(&self.parts(), SECRET, generation, applied, each).map(|_| all)
        }

        /// Writes over some bytes.
        fn damage(&self, at: u64) {
            Medium::write(&self.file("log"), &[0xFF; 4], at).expect("written");
        }
    }

    #[test]
    fn appended_groups_are_replayed_in_order() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 0..5 {
            append(&mut log, &[put(number), put(number + 100)], number % 2 == 0).expect("appended");
        }
        let expected: Vec<_> = (0..5).flat_map(|number| [put(number), put(number + 100)]).collect();
        assert_eq!(setting.replayed(1, 0), Ok(expected));
        assert_eq!(setting.replayed(2, 0), Ok(vec![]), "another generation");
        assert_eq!(setting.replayed(1, 5), Ok(vec![]), "the checkpoint has them");
        let error = setting.replayed(0, 0).expect_err("the checkpoint is older than the log");
        assert!(error.to_string().contains("the batch 1"), "{error}");
    }

    #[test]
    fn records_of_laps_and_generations_before_are_not_taken_for_current_ones() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 0..5 {
            append(&mut log, &[put(number)], true).expect("appended");
        }
        log.restart();
        // Records of the same length: those of the lap before begin where these end.
        append(&mut log, &[put(10)], true).expect("appended");
        assert_eq!(setting.replayed(1, 5), Ok(vec![put(10)]));
        // The store was opened again; group 7 was written before, but never acknowledged.
        append(&mut log, &[put(11)], false).expect("appended");
        let mut log = setting.log(2, 5);
        append(&mut log, &[put(20)], true).expect("appended");
        assert_eq!(setting.replayed(2, 5), Ok(vec![put(20)]));
    }

    #[test]
    fn a_torn_end_is_left_out_and_a_damaged_middle_refused() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let append = |log: &mut Log, number, sync| append(log, &[put(number)], sync).expect("appended");
        append(&mut log, 0, true);
        let length = log.end as u64;
        append(&mut log, 1, false);
        append(&mut log, 2, false);
        setting.damage(2 * length + 20);
        assert_eq!(setting.replayed(1, 0), Ok(vec![put(0), put(1)]));
        setting.damage(length + 20);
        assert_eq!(setting.replayed(1, 0), Ok(vec![put(0)]));
        append(&mut log, 3, true);
        assert_eq!(
            setting.replayed(1, 0),
            Ok(vec![put(0)]),
            "when it was written nobody knew that 1 is durable"
        );
        append(&mut log, 4, true);
        let error = setting.replayed(1, 0).expect_err("damaged");
        assert!(error.to_string().contains("the batch 2"), "{error}");
    }

    #[test]
    fn a_sealed_file_and_the_one_after_it_are_replayed_in_order_whichever_they_are() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let append = |log: &mut Log, number, sync| append(log, &[put(number)], sync).expect("appended");
        append(&mut log, 1, true);
        append(&mut log, 2, false);
        assert_eq!(log.seal(), Ok(2));
        assert_eq!(log.syncs.durable(), 2, "synced before it was sealed");
        append(&mut log, 3, true);
        append(&mut log, 4, true);
        let puts = |numbers: std::ops::RangeInclusive<u8>| Ok(numbers.map(put).collect::<Vec<_>>());
        assert_eq!(setting.replayed(1, 0), puts(1..=4), "no checkpoint yet");
        assert_eq!(setting.replayed(1, 2), puts(3..=4), "behind the checkpoint");
        assert_eq!(log.seal(), Ok(4));
        append(&mut log, 5, true);
        assert_eq!(setting.replayed(1, 2), puts(3..=5), "the first file is the later one");
        assert_eq!(setting.replayed(1, 4), puts(5..=5));
        assert_eq!(setting.replayed(1, 5), Ok(vec![]));
    }

    #[test]
    fn damage_to_a_sealed_file_is_found_by_the_one_after_it() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 1..=3 {
            append(&mut log, &[put(number)], false).expect("appended");
        }
        let length = log.end as u64 / 3;
        log.seal().expect("sealed");
        append(&mut log, &[put(4)], true).expect("appended");
        assert_eq!(setting.replayed(1, 0).map(|all| all.len()), Ok(4));
        setting.damage(2 * length + 20);
        let error = setting.replayed(1, 0).expect_err("damaged");
        assert!(error.to_string().contains("the batch 3"), "{error}");
    }

    /// A file on a disk that gets full: of a write that begins at or behind `room`, all but the
    /// last byte is there.
    #[derive(Debug)]
    struct Tight {
        file: File,
        room: u64,
        cuts: bool,
        done: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Tight {
        fn does(&self, what: &'static str) {
            self.done.lock().expect("no panic").push(what);
        }
    }

    impl Medium for Tight {
        fn length(&self) -> io::Result<u64> {
            self.file.length()
        }
        fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
            Medium::read(&self.file, into, offset)
        }
        fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.does("write");
            if offset < self.room {
                return Medium::write(&self.file, bytes, offset);
            }
            Medium::write(&self.file, &bytes[..bytes.len() - 1], offset)?;
            Err(io::ErrorKind::StorageFull.into())
        }
        fn set_length(&self, bytes: u64) -> io::Result<()> {
            self.does("cut");
            if self.cuts { self.file.set_length(bytes) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
        fn sync(&self) -> io::Result<()> {
            self.does("sync");
            Medium::sync(&self.file)
        }
    }

    impl Setting {
        /// Makes a log that had both groups 1 and 2 in a lap before, with the same bytes, and that
        /// now has room for the first alone.
        fn tight(&self, cuts: bool) -> (Log, Arc<Mutex<Vec<&'static str>>>) {
            let mut log = self.log(1, 0);
            append(&mut log, &[put(1)], false).expect("appended");
            let room = log.end as u64;
            append(&mut log, &[put(2)], false).expect("appended");
            let done = Arc::<Mutex<Vec<_>>>::default();
            let mut parts = self.parts();
            parts[0].file = Box::new(Tight { file: self.file("log"), room, cuts, done: Arc::clone(&done) });
            let mut log = Log::new(parts, SECRET, 1 << 20, 1, Arc::new(Syncs::new(0)));
            append(&mut log, &[put(1)], false).expect("appended");
            done.lock().expect("no panic").clear();
            (log, done)
        }
    }

    /// What was written of it is a whole record with what was there before.
    #[test]
    fn a_group_that_was_refused_never_comes_back() {
        let setting = Setting::new();
        let (mut log, done) = setting.tight(true);
        let refused = append(&mut log, &[put(2)], false).expect_err("full");
        assert!(
            matches!(&refused, Refused::Full(why) if why.to_string().contains("make room")),
            "{refused:?}"
        );
        // A sync, or a loss of power might bring it back.
        assert_eq!(*done.lock().expect("no panic"), ["write", "cut", "sync"]);
        assert_eq!(setting.replayed(1, 0), Ok(vec![put(1)]));
        assert_eq!((log.sequence(), log.syncs.durable()), (1, 1));
        log.seal().expect("sealed");
        append(&mut log, &[put(3)], true).expect("appended");
        assert_eq!(setting.replayed(1, 0), Ok(vec![put(1), put(3)]));
    }

    #[test]
    fn a_group_that_cannot_be_cut_off_may_come_back_and_the_error_says_so() {
        let (mut log, _) = Setting::new().tight(false);
        let refused = append(&mut log, &[put(2)], false).expect_err("full");
        assert!(matches!(&refused, Refused::Unknown(why) if why.to_string().contains("cut")), "{refused:?}");
    }

    #[test]
    fn a_group_that_went_past_the_log_is_known_to_be_durable() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        append(&mut log, &[put(1)], false).expect("appended");
        log.skip();
        log.restart();
        append(&mut log, &[put(3)], false).expect("appended");
        let bytes = read(&setting.file("log")).expect("read");
        let (head, ..) = record::decode(SECRET, &bytes).expect("a record");
        assert_eq!((head.generation, head.sequence, head.durable), (1, 3, 2));
    }

    /// A client that writes values knows everything of a record but the secret.
    #[test]
    fn a_value_that_looks_like_a_record_is_none() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let head = Head { sequence: 9, durable: 8, ..Head::of(u64::MAX) };
        let mut forged = Vec::new();
        let mut forge = |secret: Secret| {
            record::encode(secret, head, &[], &mut forged);
            let change = Change::Put { key: (*b"x").into(), value: forged.as_slice().into() };
            append(&mut log, &[change], true).expect("appended");
        };
        forge(Secret { start: *b"\xABmanxlog", ..SECRET });
        forge(Secret { sum: 0, ..SECRET });
        assert_eq!(setting.replayed(1, 0).expect("all").len(), 2);
        assert_eq!(setting.replayed(1, 2), Ok(vec![]), "behind the end, too");
        // The test itself: with the secret it would be one.
        forge(SECRET);
        let error = setting.replayed(1, 3).expect_err("a record of a later generation");
        assert!(error.to_string().contains("the batch 4"), "{error}");
    }

    /// Records are found wherever they begin, although what they begin with may overlap with
    /// itself.
    #[test]
    fn a_record_is_found_behind_a_part_of_what_it_begins_with() {
        let secret = Secret { start: *b"abababab", sum: 0 };
        let mut record = Vec::new();
        record::encode(secret, Head { sequence: 2, durable: 1, ..Head::of(1) }, &[], &mut record);
        let bytes = [b"ababab", record.as_slice(), b"more"].concat();
        assert_eq!(behind(&secret, &bytes).count(), 1);
    }
}
