//! The driver of our own store: what it is told, and what it says.

use super::super::mix::{MIXES, Mix};
use super::*;
use crate::engine::Output;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A map under a lock, which can be told to lose something.
#[derive(Default)]
struct Map {
    records: Mutex<BTreeMap<[u8; 8], Vec<u8>>>,
    fault: Fault,
    calls: AtomicU64,
}

#[derive(Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Now and then what is put is not there
    Loses,
    /// Now and then a scan leaves the order
    Disorders,
    /// Each second transaction is a conflict
    Conflicts,
}

impl Map {
    fn put(&self, key: &[u8; 8], value: &[u8]) {
        let turn = self.calls.fetch_add(1, Ordering::Relaxed) % 10 == 7;
        if !(turn && self.fault == Fault::Loses) {
            self.records.lock().unwrap().insert(*key, value.to_vec());
        }
    }

    fn conflicts(&self) -> bool {
        self.fault == Fault::Conflicts && self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    }
}

impl Subject for Map {
    type Client<'a> = ();

    fn version(&self) -> String {
        "map".into()
    }

    fn load(&self, records: &[([u8; 8], Vec<u8>)]) -> Result<(), String> {
        self.records.lock().unwrap().extend(records.iter().cloned());
        Ok(())
    }

    fn client(&self) -> Result<(), String> {
        Ok(())
    }

    fn read(
        &self,
        (): &mut (),
        key: &[u8; 8],
        found: impl FnOnce(Option<&[u8]>) -> Result<(), String>,
    ) -> Tried {
        found(self.records.lock().unwrap().get(key).map(Vec::as_slice)).into()
    }

    fn put(&self, (): &mut (), key: &[u8; 8], value: &[u8]) -> Tried {
        if self.conflicts() {
            return Tried::Conflict;
        }
        Map::put(self, key, value);
        Tried::Done
    }

    fn change(
        &self,
        (): &mut (),
        key: &[u8; 8],
        buffer: &mut [u8],
        next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Result<(), String>,
    ) -> Tried {
        if self.conflicts() {
            return Tried::Conflict;
        }
        let mut records = self.records.lock().unwrap();
        if let Err(wrong) = next(records.get(key).map(Vec::as_slice), buffer) {
            return Tried::Failed(wrong);
        }
        if self.fault != Fault::Loses {
            records.insert(*key, buffer.to_vec());
        }
        Tried::Done
    }

    fn scan(
        &self,
        (): &mut (),
        key: &[u8; 8],
        records: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Tried {
        let all = self.records.lock().unwrap();
        let mut found: Vec<_> = all.range(*key..).take(records).collect();
        if self.fault == Fault::Disorders {
            found.reverse();
        }
        found.into_iter().try_for_each(|(key, value)| each(key, value)).into()
    }
}

fn told(mix: Mix) -> Told {
    Told { mix, records: 200, value_bytes: 64, threads: 3, seconds: 0.05, warm_up: 0.01, ..Told::default() }
}

#[test]
fn every_workload_is_done_and_its_result_is_an_engines() {
    for mix in MIXES {
        let mut told = told(mix);
        let mut done = None;
        // On a busy machine a run may be over before its threads were on a CPU.
        for _ in 0..100 {
            let output = Output::parse(&drive(&Map::default(), &told).unwrap()).unwrap();
            if output.all.count > 0 {
                done = Some(output);
                break;
            }
            told.seconds *= 1.2;
        }
        let output = done.expect("a hundred runs in which nothing was done");
        assert_eq!((output.errors, output.threads.len(), output.engine.as_str()), (0, 3, "manx"), "{mix:?}");
        let writes = !mix.has(Operation::Read) || mix.has(Operation::Update) && output.all.count > 1000;
        assert!(!writes || output.verified_updates > 0, "{mix:?}");
    }
}

#[test]
fn what_is_lost_or_out_of_order_is_found() {
    for (mix, fault) in [("put", Fault::Loses), ("change", Fault::Loses), ("e", Fault::Disorders)] {
        let mut told = told(Mix::named(mix).unwrap());
        let broken = Map { fault, ..Map::default() };
        let mut found = None;
        for _ in 0..100 {
            found = drive(&broken, &told).err();
            if found.is_some() {
                break;
            }
            told.seconds *= 1.2;
        }
        let found = found.unwrap_or_else(|| panic!("{mix}: a hundred runs in which nothing is wrong"));
        assert!(found.contains("lost") || found.contains("ascend"), "{mix}: {found}");
    }
}

#[test]
fn conflicts_are_tried_again_and_counted() {
    let mut told = told(Mix::named("change").unwrap());
    for _ in 0..100 {
        let conflicting = Map { fault: Fault::Conflicts, ..Map::default() };
        let output = Output::parse(&drive(&conflicting, &told).unwrap()).unwrap();
        if output.conflicts > 0 {
            return;
        }
        told.seconds *= 1.2;
    }
    panic!("a hundred runs without a conflict");
}

#[test]
fn boosted_threads_are_counted_apart() {
    let mut told = Told { boost: 1, nice: 0, others: 0, ..told(Mix::named("c").unwrap()) };
    for window in [None, Some((0.01, 0.02))] {
        told.window = window;
        let output = Output::parse(&drive(&Map::default(), &told).unwrap()).unwrap();
        assert_eq!(output.threads.iter().filter(|thread| thread.boosted).count(), 1);
        let boosted: u64 = output.threads.iter().filter(|thread| thread.boosted).map(|t| t.operations).sum();
        assert_eq!(output.boosted.count, boosted);
    }
}
