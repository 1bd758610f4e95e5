//! The log: the groups since the last checkpoint, one behind the other, in two files that take turns.
//!
//! ```text
//!   log  │ 7 8 9 ▒▒▒ │ sealed: a checkpoint of 1 to 9 is being made
//!   log2 │ 10 11 ►   │ the current one, used again from its beginning     ▒ of laps before
//! ```
//!
//! A checkpoint *seals* the current file, and what comes meanwhile goes to the other one. When it is made, the sealed one counts no more, and is
//! free for the next turn. Nothing is ever cut off or renamed; what is old is written over. So that a sync is of data alone once a file has its full length, and so
//! that no folder has to be synced on the way.
//!
//! # What is in it
//! Somewhere behind the last whole record of a file are others: older ones, of laps before, and perhaps the pieces of groups that nobody was told of. What
//! counts, given the sequence `applied` that the checkpoint contains and the `generation` that it is from:
//! 1. The first record is at 0 of one of the files, each other one behind the one before it; its sequence is `applied` + 1, + 2, …; its generation is the
//!    checkpoint's. Where a file has no such whole record any more, the next one is at 0 of the other file, if that has not been read yet; else it is the end
//!    of the log.
//! 2. Records of laps before have a sequence of at most `applied`, and those from before the last opening an older generation. So
//!    neither is ever taken for a current one, wherever its bytes come to lie.
//! 3. A group is acknowledged as durable after a sync that began when its record, and with it all before it in its file, was written; and a file is synced before
//!    it is sealed, whatever was asked for. So an acknowledged record is never behind the end, whatever a loss of power left of those that were not synced.
//! 4. A file is written from its beginning when the checkpoint that has all that was in it is durable.
//!
//! # Damage
//! A record that a loss of power has torn and one that the disk has damaged look alike. But each record says up to which
//! sequence the log was durable when it was written: if behind the end there is a current record that calls what is missing durable, then what is
//! missing was acknowledged, and the store is not opened without it. (The last group of all cannot be told.) Nor is it opened with a
//! checkpoint that is older than a record: no generation writes any before its first checkpoint is durable.

use super::disk::Medium;
use super::failure;
use super::record::{self, Head, MAGIC};
use crate::txn::{Change, DataError};
use std::io;

/// Why a group is not in the log.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is no room on the disk. Nothing was changed.
    Full(DataError),
    /// It is not known what of it is there.
    Unknown(DataError),
}

/// One of the two files, and what people call it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: Box<dyn Medium>,
    pub(super) place: String,
}

/// The log of an open store.
#[derive(Debug)]
pub(super) struct Log {
    parts: [Part; 2],
    /// The one that is written.
    current: usize,
    bytes_max: usize,
    generation: u64,
    /// The last record's.
    sequence: u64,
    /// The last one's that a sync has covered.
    durable: u64,
    /// Where the next record goes.
    end: usize,
    /// A part of one that was refused may be there.
    torn: bool,
    buffer: Vec<u8>,
}

impl Log {
    /// The log of a store whose checkpoint contains everything up to `applied`; it is as if empty. Each of its files has so many bytes at most.
    pub(super) fn new(parts: [Part; 2], bytes_max: usize, generation: u64, applied: u64) -> Log {
        let buffer = Vec::new();
        let (current, end, torn) = (0, 0, false);
        Log { parts, current, bytes_max, generation, sequence: applied, durable: applied, end, torn, buffer }
    }

    /// The sequence of the last record.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether a record of so many bytes could be in it at all.
    pub(super) fn could_have(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max
    }

    /// Whether there is room for a record of so many bytes before it has to be sealed.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max - self.end
    }

    /// Whether nothing was written since the last checkpoint was begun.
    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Writes a group behind the others; durably, and the others with it, if `sync`.
    pub(super) fn append(&mut self, batches: &[&[Change]], sync: bool) -> Result<(), Refused> {
        let head = Head { generation: self.generation, sequence: self.sequence + 1, durable: self.durable };
        record::encode(head, batches, &mut self.buffer);
        let Part { file, place } = &self.parts[self.current];
        file.write(&self.buffer, self.end as u64).map_err(|error| {
            let told = failure::of_io(place, "written", &error);
            // Of a record that did not fit a part may be there; the next one goes to the same place.
            self.torn = true;
            if failure::is_full(&error) { Refused::Full(told) } else { Refused::Unknown(told) }
        })?;
        self.torn = false;
        self.sequence = head.sequence;
        self.end += self.buffer.len();
        // One large group does not keep its room for ever.
        self.buffer.shrink_to(1 << 20);
        if sync { self.sync().map_err(Refused::Unknown) } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), DataError> {
        let Part { file, place } = &self.parts[self.current];
        file.sync().map_err(|error| failure::of_io(place, "synced", &error))?;
        self.durable = self.sequence;
        Ok(())
    }

    /// A group that went past the log, to the checkpoint at once, has a sequence too.
    pub(super) fn skip(&mut self) {
        self.sequence += 1;
    }

    /// Begins again at 0, behind a checkpoint of all that was written so far.
    pub(super) fn restart(&mut self) {
        self.durable = self.sequence;
        (self.end, self.torn) = (0, false);
    }

    /// Goes on in the other file, of which a durable checkpoint has all (Invariant 4). Returns what the next checkpoint is to have.
    pub(super) fn seal(&mut self) -> Result<u64, DataError> {
        let torn = self.torn && self.wipe()?;
        if self.durable < self.sequence || torn {
            // Invariant 3.
            self.sync()?;
        }
        self.current ^= 1;
        (self.end, self.torn) = (0, false);
        Ok(self.sequence)
    }

    /// Makes sure that what is behind the last record is none: together with what was there before, a part of a record might be a whole one, in the place of
    /// which the other file has another. Returns whether something was written.
    fn wipe(&mut self) -> Result<bool, DataError> {
        let Part { file, place } = &self.parts[self.current];
        let failed = |error| failure::of_io(place, "written", &error);
        let is_there = file.length().map_err(failed)? > self.end as u64;
        if is_there {
            file.write(&[0; MAGIC.len()], self.end as u64).map_err(failed)?;
        }
        Ok(is_there)
    }
}

/// Reads the groups that the log has beyond a checkpoint, in order; returns the sequence of the last one.
pub(super) fn replay(
    parts: &[Part; 2],
    generation: u64,
    applied: u64,
    mut each: impl FnMut(Vec<Change>) -> Result<(), DataError>,
) -> Result<u64, DataError> {
    let [first, second] = parts.each_ref().map(|part| {
        let bytes = read(&*part.file).map_err(|error| failure::of_io(&part.place, "read", &error))?;
        Ok::<_, DataError>((part, bytes, 0))
    });
    let mut files = [first?, second?];
    let mut sequence = applied;
    // Invariant 1: the one that was sealed, if there is one, then the current one. Which is which, their first records tell.
    for _ in 0..files.len() {
        for (_, bytes, at) in files.iter_mut().filter(|(_, _, at)| *at == 0) {
            while let Some((head, changes, length)) = record::decode(&bytes[*at..]) {
                if head.generation != generation || head.sequence != sequence + 1 {
                    break;
                }
                each(changes)?;
                sequence = head.sequence;
                *at += length;
            }
        }
    }
    let missing = sequence + 1;
    let tells = |head: &Head| {
        let current = head.generation == generation && head.sequence > missing && head.durable >= missing;
        current || head.generation > generation
    };
    let told = files.iter().find_map(|(part, bytes, at)| Some((part, behind(&bytes[*at..]).find(tells)?)));
    match told {
        None => Ok(sequence),
        Some((part, head)) => {
            let (ends, what) = (files.each_ref().map(|(_, _, at)| at), head.sequence);
            let why = format!(
                "the group {missing}, behind {} or {} bytes of the two files, was acknowledged and cannot be read ({what} can)",
                ends[0], ends[1]
            );
            Err(failure::damaged(&part.place, &why))
        }
    }
}

/// All whole records that begin anywhere in some bytes.
fn behind(bytes: &[u8]) -> impl Iterator<Item = Head> + '_ {
    let starts = memchr::memmem::find_iter(bytes, &MAGIC);
    starts.filter_map(|at| Some(record::check(&bytes[at..])?.0))
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

    fn put(number: u8) -> Change {
        Change::Put { key: [number].into(), value: [number; 20].into() }
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
            Log::new(self.parts(), 1 << 20, generation, applied)
        }

        fn replayed(&self, generation: u64, applied: u64) -> Result<Vec<Change>, DataError> {
            let mut all = Vec::new();
            let each = |changes| {
                all.extend(changes);
                Ok(())
            };
            replay(&self.parts(), generation, applied, each).map(|_| all)
        }

        /// Writes over some bytes.
        fn damage(&self, at: u64) {
            Medium::write(&self.file("log"), &[0xFF; 4], at).expect("written");
        }
    }

    #[test]
    fn what_was_appended_is_replayed_in_order() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 0..5 {
            log.append(&[&[put(number)], &[put(number + 100)]], number % 2 == 0).expect("appended");
        }
        let expected: Vec<_> = (0..5).flat_map(|number| [put(number), put(number + 100)]).collect();
        assert_eq!(setting.replayed(1, 0), Ok(expected));
        assert_eq!(setting.replayed(2, 0), Ok(vec![]), "another generation");
        assert_eq!(setting.replayed(1, 5), Ok(vec![]), "the checkpoint has them");
        let error = setting.replayed(0, 0).expect_err("the checkpoint is older than the log");
        assert!(error.0.contains("the group 1"), "{error}");
    }

    #[test]
    fn records_of_laps_and_generations_before_are_not_taken_for_current_ones() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 0..5 {
            log.append(&[&[put(number)]], true).expect("appended");
        }
        log.restart();
        // Records of the same length: those of the lap before begin where these end.
        log.append(&[&[put(10)]], true).expect("appended");
        assert_eq!(setting.replayed(1, 5), Ok(vec![put(10)]));
        // The store was opened again; group 7 was written before, but never told of.
        log.append(&[&[put(11)]], false).expect("appended");
        let mut log = setting.log(2, 5);
        log.append(&[&[put(20)]], true).expect("appended");
        assert_eq!(setting.replayed(2, 5), Ok(vec![put(20)]));
    }

    #[test]
    fn a_torn_end_is_left_out_and_a_damaged_middle_refused() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let append = |log: &mut Log, number, sync| log.append(&[&[put(number)]], sync).expect("appended");
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
        assert!(error.0.contains("the group 2"), "{error}");
    }

    #[test]
    fn a_sealed_file_and_the_one_after_it_are_replayed_in_order_whichever_they_are() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let append = |log: &mut Log, number, sync| log.append(&[&[put(number)]], sync).expect("appended");
        append(&mut log, 1, true);
        append(&mut log, 2, false);
        assert_eq!(log.seal(), Ok(2));
        assert_eq!(log.durable, 2, "synced before it was sealed");
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
    fn damage_to_a_sealed_file_is_told_by_the_one_after_it() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        for number in 1..=3 {
            log.append(&[&[put(number)]], false).expect("appended");
        }
        let length = log.end as u64 / 3;
        log.seal().expect("sealed");
        log.append(&[&[put(4)]], true).expect("appended");
        assert_eq!(setting.replayed(1, 0).map(|all| all.len()), Ok(4));
        setting.damage(2 * length + 20);
        let error = setting.replayed(1, 0).expect_err("damaged");
        assert!(error.0.contains("the group 3"), "{error}");
    }

    /// A group that was refused is none, even if what was written of it, with what was there before, is a whole record.
    #[test]
    fn a_group_that_was_refused_does_not_come_back_when_the_file_is_sealed() {
        let setting = Setting::new();
        let mut log = setting.log(1, 0);
        let append = |log: &mut Log, number, sync| log.append(&[&[put(number)]], sync).expect("appended");
        append(&mut log, 1, true);
        append(&mut log, 2, true);
        let end = log.end / 2;
        // As after a write of all but the last bytes, which are as they should be.
        (log.sequence, log.durable, log.end, log.torn) = (1, 1, end, true);
        log.seal().expect("sealed");
        append(&mut log, 3, true);
        append(&mut log, 4, true);
        assert_eq!(setting.replayed(1, 0), Ok(vec![put(1), put(3), put(4)]));
    }
}
