//! Transactions that are run, and what they did.

use super::checker::{Element, Key, Op, Txn};
use super::map::Map;
use manx::txn::{
    Batch, Bounds, Data, DataError, Entry, Error, Isolation, Options, Recovered, Session, Store, Transaction,
    Value,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Keys from this one on are lists.
pub const LISTS: Key = 1 << 16;

pub fn is_list(key: Key) -> bool {
    key >= LISTS
}

/// A data component that lets others go first wherever it can.
#[derive(Default)]
struct Slow(Map);

impl Data for Slow {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.0.recover()
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        thread::yield_now();
        let values = self.0.get_many(keys);
        thread::yield_now();
        values
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        thread::yield_now();
        let entries = self.0.scan(bounds, descending, limit);
        thread::yield_now();
        entries
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        thread::yield_now();
        let place = self.0.append(batch);
        thread::yield_now();
        place
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        thread::yield_now();
        self.0.wait(place)
    }

    fn durable(&self) -> u64 {
        self.0.durable()
    }
}

/// A store in memory, and one over a data component.
pub fn stores(options: Options) -> [Store; 2] {
    [Store::in_memory(options), Store::open(options, Box::new(Slow::default())).unwrap()]
}

/// Gives moments, and what versions have.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

fn name(key: Key) -> [u8; 4] {
    key.to_be_bytes()
}

fn elements(value: Option<&[u8]>) -> Vec<Element> {
    let value = value.unwrap_or_default();
    assert_eq!(value.len() % 8, 0, "half an element");
    value.chunks(8).map(|bytes| Element::from_be_bytes(bytes.try_into().expect("eight"))).collect()
}

/// A transaction that is at work, and what it did so far.
pub struct Running<'s> {
    pub it: Transaction<'s>,
    clock: &'s Clock,
    done: Txn,
}

impl<'s> Running<'s> {
    pub fn begin(session: &'s mut Session, isolation: Isolation, clock: &'s Clock) -> Running<'s> {
        let done = Txn { begun: clock.next(), ..Txn::default() };
        Running { it: session.begin(isolation).expect("as many as like to"), clock, done }
    }

    pub fn read(&mut self, key: Key) -> Result<Vec<Element>, Error> {
        let read = elements(self.it.get(&name(key))?.as_deref());
        self.done.ops.push(Op::Read(key, read.clone()));
        Ok(read)
    }

    /// All keys from this one up to, and without, the other.
    pub fn read_all(&mut self, from: Key, to: Key, descending: bool) -> Result<(), Error> {
        let scan = self.it.scan(name(from)..name(to));
        let found: Result<Vec<_>, _> = if descending { scan.rev().collect() } else { scan.collect() };
        let mut found: Vec<_> = found?.into_iter().map(|(key, value)| (key.to_vec(), value)).collect();
        if descending {
            found.reverse();
        }
        assert!(found.windows(2).all(|two| two[0].0 < two[1].0), "each key once, in order");
        for key in from..to {
            let at = found.binary_search_by(|(other, _)| other[..].cmp(&name(key)));
            let value = at.ok().map(|at| &*found[at].1);
            self.done.ops.push(Op::Read(key, elements(value)));
        }
        Ok(())
    }

    /// Writes a register, or appends to a list.
    pub fn write(&mut self, key: Key) -> Result<(), Error> {
        let mut all = if is_list(key) { self.read(key)? } else { Vec::new() };
        let element = self.clock.next();
        all.push(element);
        let value: Vec<u8> = all.into_iter().flat_map(Element::to_be_bytes).collect();
        self.it.put(&name(key), &value)?;
        self.done.ops.push(Op::Write(key, element, self.clock.next()));
        Ok(())
    }

    pub fn commit(mut self) -> Txn {
        self.done.committed = self.it.commit().is_ok();
        self.done.over = self.clock.next();
        self.done
    }

    pub fn rollback(mut self) -> Txn {
        drop(self.it);
        self.done.over = self.clock.next();
        self.done
    }
}
