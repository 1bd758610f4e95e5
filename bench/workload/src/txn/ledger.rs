//! Whether a store kept what was committed.
//!
//! 1. What is read is whole and of the record that was asked for.
//! 2. A thread that reads its own update reads its latest one: an earlier one means that the later
//!    is lost.
//! 3. Updates, which do not read: at the end each record holds the latest update of some thread, or
//!    what was loaded if there was none.
//! 4. Changes, which do: at the end the version of each record is the number of changes that were
//!    committed there. A lost change is one too few, whichever thread made it.
//! 5. Inserts: at the end all are there. While it runs, records are read up to the last before
//!    which all are there.
//! 6. What a thread noted of its updates is written by that thread alone, and read by others when
//!    it has ended.

use super::record::{NOBODY, Stamp};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The largest number of records that may be inserted in a run.
const INSERTS_MAX: u64 = 4 << 20;

/// What was committed, beside the store.
#[derive(Debug)]
pub struct Ledger {
    records: u64,
    value_bytes: usize,
    /// Whether records are changed, or updated
    changes: bool,
    /// By thread and record: the number of its latest update
    latest: Vec<Box<[AtomicU32]>>,
    /// By record: changes that were committed
    changed: Box<[AtomicU32]>,
    /// The next record to insert
    next: AtomicU64,
    /// The last record before which all are there
    there: AtomicU64,
    /// Of the records that were to be inserted: which are there
    arrived: Box<[AtomicBool]>,
}

fn zeroes<T: Default>(count: u64) -> Box<[T]> {
    (0..count).map(|_| T::default()).collect()
}

impl Ledger {
    /// Makes a ledger for `threads` threads and `records` loaded records.
    pub fn new(threads: usize, records: u64, value_bytes: usize, changes: bool, inserts: bool) -> Ledger {
        Ledger {
            records,
            value_bytes,
            changes,
            latest: (0..threads).map(|_| zeroes(if changes { 0 } else { records + 1 })).collect(),
            changed: zeroes(if changes { records + 1 } else { 0 }),
            next: AtomicU64::new(records + 1),
            there: AtomicU64::new(records),
            arrived: zeroes(if inserts { INSERTS_MAX } else { 0 }),
        }
    }

    /// The size of values.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// What is loaded, or inserted, as a record.
    pub fn fresh(&self, record: u64, value: &mut [u8]) {
        value.fill(b'a' + (record % 26) as u8);
        Stamp { record, writer: NOBODY, number: 0 }.write(value);
    }

    /// The last record before which all are there.
    pub fn there(&self) -> u64 {
        // Acquire: what arrived before it is there.
        self.there.load(Ordering::Acquire)
    }

    /// A record to insert.
    ///
    /// # Errors
    /// There were too many.
    pub fn insert(&self) -> Result<u64, String> {
        // Relaxed: numbers, and nothing else.
        let record = self.next.fetch_add(1, Ordering::Relaxed);
        if record - self.records > self.arrived.len() as u64 {
            return Err("more inserts than there is room for: measure for less time".into());
        }
        Ok(record)
    }

    /// An inserted record is there, and so are all after it up to the first that is not.
    pub fn arrived(&self, record: u64) {
        self.arrived[(record - self.records - 1) as usize].store(true, Ordering::SeqCst);
        let mut last = self.there.load(Ordering::SeqCst);
        // SeqCst: of two that arrive at once, the second sees the first one's mark, or the first
        // sees the second's.
        while self.arrived.get((last - self.records) as usize).is_some_and(|next| next.load(Ordering::SeqCst))
        {
            match self.there.compare_exchange(last, last + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => last += 1,
                Err(now) => last = now,
            }
        }
    }

    /// What a thread read (1, 2).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&self, thread: usize, record: u64, value: Option<&[u8]>) -> Result<Stamp, String> {
        let stamp = self.whole(record, value)?;
        if stamp.writer as usize == thread {
            // Relaxed: by 6.
            let latest = self.latest[thread][record as usize].load(Ordering::Relaxed);
            if stamp.number != latest {
                return Err(format!(
                    "record {record}: a thread reads update {} of its own, and {latest} came later: it was lost",
                    stamp.number
                ));
            }
        }
        Ok(stamp)
    }

    /// The record of a value that a scan found.
    ///
    /// # Errors
    /// It is not whole.
    pub fn scanned(&self, value: &[u8]) -> Result<u64, String> {
        Stamp::read(value, self.value_bytes).map(|stamp| stamp.record).map_err(str::to_owned)
    }

    fn whole(&self, record: u64, value: Option<&[u8]>) -> Result<Stamp, String> {
        let value = value.ok_or_else(|| format!("record {record} is gone"))?;
        let stamp = Stamp::read(value, self.value_bytes).map_err(|why| format!("record {record}: {why}"))?;
        match stamp.record == record {
            true => Ok(stamp),
            false => Err(format!("record {record}: the value belongs to record {}", stamp.record)),
        }
    }

    /// A thread's update was committed; `number` is that of all of its updates.
    pub fn updated(&self, thread: usize, record: u64, number: u32) {
        // Relaxed: by 6.
        self.latest[thread][record as usize].store(number, Ordering::Relaxed);
    }

    /// A change was committed.
    pub fn changed(&self, record: u64) {
        // Relaxed: read when all threads have ended.
        self.changed[record as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Looks at all records, from 1 on one after the other, which `get` finds; all threads have
    /// ended. Returns how many updates, changes and inserts were found.
    ///
    /// # Errors
    /// The first record that is wrong (3, 4, 5).
    pub fn settle(&self, mut get: impl FnMut(u64) -> Result<Option<Vec<u8>>, String>) -> Result<u64, String> {
        let records = self.next.load(Ordering::Relaxed) - 1;
        let mut found = records - self.records;
        for record in 1..=records {
            let stamp = self.whole(record, get(record)?.as_deref())?;
            let inserted = record > self.records;
            found += if inserted {
                match stamp.number {
                    0 => 0,
                    number => return Err(format!("record {record} was inserted and has version {number}")),
                }
            } else if self.changes {
                self.settle_changed(record, stamp)?
            } else {
                self.settle_updated(record, stamp)?
            };
        }
        Ok(found)
    }

    fn settle_changed(&self, record: u64, stamp: Stamp) -> Result<u64, String> {
        let changes = self.changed[record as usize].load(Ordering::Relaxed);
        match stamp.number == changes {
            true => Ok(u64::from(changes)),
            false => Err(format!(
                "record {record} has version {} after {changes} changes: {}",
                stamp.number,
                if stamp.number < changes { "some were lost" } else { "one was made twice" }
            )),
        }
    }

    fn settle_updated(&self, record: u64, stamp: Stamp) -> Result<u64, String> {
        let mut updates = self
            .latest
            .iter()
            .map(|thread| thread[record as usize].load(Ordering::Relaxed))
            .filter(|n| *n > 0);
        if stamp.writer == NOBODY {
            return match updates.next() {
                None => Ok(0),
                Some(_) => {
                    Err(format!("record {record} holds what was loaded, and was updated: it was lost"))
                }
            };
        }
        let latest = self.latest.get(stamp.writer as usize).map(|thread| &thread[record as usize]);
        match latest.map(|latest| latest.load(Ordering::Relaxed)) {
            Some(latest) if latest == stamp.number => Ok(updates.count() as u64),
            _ => Err(format!(
                "record {record} holds update {} of thread {}, which was not its last: one was lost",
                stamp.number, stamp.writer
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const BYTES: usize = 64;

    fn value(record: u64, writer: u32, number: u32) -> Vec<u8> {
        let mut value = vec![0; BYTES];
        Stamp { record, writer, number }.write(&mut value);
        value
    }

    fn loaded(records: u64) -> BTreeMap<u64, Vec<u8>> {
        (1..=records).map(|record| (record, value(record, NOBODY, 0))).collect()
    }

    fn settle(ledger: &Ledger, store: &BTreeMap<u64, Vec<u8>>) -> Result<u64, String> {
        ledger.settle(|record| Ok(store.get(&record).cloned()))
    }

    #[test]
    fn versions_are_as_many_as_changes() {
        let ledger = Ledger::new(2, 3, BYTES, true, false);
        let mut store = loaded(3);
        assert_eq!(settle(&ledger, &store), Ok(0));
        ledger.changed(2);
        ledger.changed(2);
        assert!(settle(&ledger, &store).unwrap_err().contains("some were lost"));
        store.insert(2, value(2, NOBODY, 2));
        assert_eq!(settle(&ledger, &store), Ok(2));
        store.insert(2, value(2, NOBODY, 3));
        assert!(settle(&ledger, &store).unwrap_err().contains("made twice"));
        store.insert(2, value(1, NOBODY, 2));
        assert!(settle(&ledger, &store).unwrap_err().contains("belongs to record 1"));
        store.remove(&2);
        assert!(settle(&ledger, &store).unwrap_err().contains("record 2 is gone"));
    }

    #[test]
    fn the_last_update_of_some_thread_is_there() {
        let ledger = Ledger::new(2, 2, BYTES, false, false);
        let mut store = loaded(2);
        ledger.updated(0, 1, 1);
        assert!(settle(&ledger, &store).unwrap_err().contains("holds what was loaded"));
        ledger.updated(1, 1, 7);
        for last in [(0, 1), (1, 7)] {
            store.insert(1, value(1, last.0, last.1));
            assert_eq!(settle(&ledger, &store), Ok(2));
        }
        store.insert(1, value(1, 1, 6));
        assert!(settle(&ledger, &store).unwrap_err().contains("one was lost"));
        store.insert(1, value(1, 9, 6));
        assert!(settle(&ledger, &store).is_err(), "there is no such thread");
    }

    #[test]
    fn a_thread_reads_its_latest_update_and_others_any() {
        let ledger = Ledger::new(2, 2, BYTES, false, false);
        ledger.updated(0, 2, 5);
        assert!(ledger.read(0, 2, Some(&value(2, 0, 4))).unwrap_err().contains("5 came later"));
        assert!(ledger.read(1, 2, Some(&value(2, 0, 4))).is_ok());
        assert!(ledger.read(0, 2, Some(&value(2, 0, 5))).is_ok());
        assert!(ledger.read(0, 1, Some(&value(2, 0, 5))).is_err());
        assert!(ledger.read(0, 1, None).is_err());
    }

    #[test]
    fn what_arrives_out_of_order_is_there_when_all_before_it_are() {
        let ledger = Ledger::new(1, 10, BYTES, false, true);
        let inserted: Vec<u64> = (0..3).map(|_| ledger.insert().unwrap()).collect();
        assert_eq!(inserted, [11, 12, 13]);
        ledger.arrived(12);
        assert_eq!(ledger.there(), 10);
        ledger.arrived(11);
        assert_eq!(ledger.there(), 12);
        let mut store = loaded(12);
        assert!(settle(&ledger, &store).unwrap_err().contains("record 13 is gone"));
        store.insert(13, value(13, NOBODY, 0));
        assert_eq!(settle(&ledger, &store), Ok(3));
        assert!(Ledger::new(1, 10, BYTES, false, false).insert().is_err(), "no room for any");
    }
}
