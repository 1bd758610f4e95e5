//! Cursors of SCAN: numbers that stand for keys.
//!
//! The protocol's cursor is a number, and what a scan of an ordered store goes on from is a key. So
//! the server keeps a table of both, for a bounded number of cursors and bytes; the least recently
//! used cursor makes room. The same key gets the same number, so any number of clients that scan in
//! the same steps need the cursors of one. A cursor that is not in the table any more is an error:
//! its client has to begin the scan again.
//!
//! Numbers begin at the time of the start in microseconds, so that one from before a restart is not
//! mistaken for a new one. They have 51 bits, so a client that reads numbers into a double keeps
//! them exactly.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

/// The maximum number of cursors …
const CURSORS_MAX: usize = 64 * 1024;
/// … and of bytes in their keys.
const BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// The table.
#[derive(Debug)]
pub(crate) struct Cursors(Mutex<Table>);

#[derive(Debug)]
struct Table {
    /// By number: the key, and when it was last asked for.
    keys: HashMap<u64, (Arc<[u8]>, u64)>,
    numbers: HashMap<Arc<[u8]>, u64>,
    /// By when it was last asked for.
    uses: BTreeMap<u64, u64>,
    bytes: usize,
    next_number: u64,
    next_use: u64,
}

impl Cursors {
    /// None yet; the first will be this number.
    pub(crate) fn new(first: u64) -> Cursors {
        Cursors(Mutex::new(Table {
            keys: HashMap::new(),
            numbers: HashMap::new(),
            uses: BTreeMap::new(),
            bytes: 0,
            next_number: first.max(1),
            next_use: 0,
        }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The number that stands for going on behind this key.
    pub(crate) fn behind(&self, key: &[u8]) -> u64 {
        let mut table = self.table();
        if let Some(number) = table.numbers.get(key).copied() {
            table.touch(number);
            return number;
        }
        let key: Arc<[u8]> = key.into();
        while table.keys.len() >= CURSORS_MAX || (table.bytes + key.len() > BYTES_MAX && table.bytes > 0) {
            table.forget_oldest();
        }
        let (number, now) = (table.next_number, table.next_use);
        table.next_number += 1;
        table.next_use += 1;
        table.bytes += key.len();
        table.numbers.insert(Arc::clone(&key), number);
        table.keys.insert(number, (key, now));
        table.uses.insert(now, number);
        number
    }

    /// The key that the number stands for.
    pub(crate) fn key(&self, number: u64) -> Option<Arc<[u8]>> {
        let mut table = self.table();
        table.touch(number);
        table.keys.get(&number).map(|(key, _)| Arc::clone(key))
    }
}

impl Table {
    fn touch(&mut self, number: u64) {
        if let Some((_, used)) = self.keys.get_mut(&number) {
            self.uses.remove(used);
            *used = self.next_use;
            self.uses.insert(self.next_use, number);
            self.next_use += 1;
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, number)) = self.uses.pop_first()
            && let Some((key, _)) = self.keys.remove(&number)
        {
            self.bytes -= key.len();
            self.numbers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_key() {
        let cursors = Cursors::new(7);
        let (a, b) = (cursors.behind(b"a"), cursors.behind(b"b"));
        assert_eq!((a, b, cursors.behind(b"a")), (7, 8, 7));
        assert_eq!(cursors.key(a).as_deref(), Some(&b"a"[..]));
        assert_eq!(cursors.key(b).as_deref(), Some(&b"b"[..]));
        assert_eq!(cursors.key(9), None);
    }

    #[test]
    fn the_one_that_was_not_used_makes_room() {
        let cursors = Cursors::new(0);
        let first = cursors.behind(b"first");
        let second = cursors.behind(b"second");
        for n in 0..CURSORS_MAX - 2 {
            cursors.behind(&n.to_le_bytes());
        }
        assert!(cursors.key(first).is_some());
        cursors.behind(b"one more");
        assert!(cursors.key(first).is_some() && cursors.key(second).is_none());
        assert_eq!(cursors.table().keys.len(), CURSORS_MAX);
    }

    #[test]
    fn long_keys_have_a_bound() {
        let cursors = Cursors::new(1);
        for n in 0..5_u8 {
            cursors.behind(&vec![n; BYTES_MAX / 2]);
        }
        assert_eq!(cursors.table().keys.len(), 2);
        let long = cursors.behind(&vec![9; BYTES_MAX * 2]);
        assert_eq!(cursors.key(long).unwrap().len(), BYTES_MAX * 2);
        assert_eq!(cursors.table().keys.len(), 1);
    }
}
