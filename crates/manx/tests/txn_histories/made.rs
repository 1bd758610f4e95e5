//! The checker on histories made by hand: it finds in each the anomaly that is there, and no other.

use super::checker::{Anomaly, Op, Txn, anomalies};

const LIST: u32 = 100;

fn found(history: &[Txn]) -> Vec<Anomaly> {
    anomalies(history, |key| key >= LIST).into_keys().collect()
}

fn r(key: u32, element: u64) -> Op {
    Op::Read(key, if element == 0 { vec![] } else { vec![element] })
}

/// Elements are written at the moment of their number.
fn w(key: u32, element: u64) -> Op {
    Op::Write(key, element, element)
}

/// All at once, unless they say when.
fn done(ops: &[Op]) -> Txn {
    at(ops, 0, 1_000)
}

fn at(ops: &[Op], begun: u64, over: u64) -> Txn {
    Txn { ops: ops.to_vec(), committed: true, begun, over }
}

fn rolled_back(ops: &[Op]) -> Txn {
    Txn { committed: false, ..done(ops) }
}

#[test]
fn a_correct_history_has_no_anomaly() {
    assert_eq!(found(&[]), []);
    let history = [
        done(&[r(1, 0), w(1, 1), r(1, 1), w(2, 2)]),
        done(&[r(1, 1), w(1, 3), r(2, 2)]),
        rolled_back(&[w(1, 4)]),
        done(&[r(1, 3), r(3, 0)]),
    ];
    assert_eq!(found(&history), []);
    let lists = [
        done(&[Op::Read(LIST, vec![]), w(LIST, 1), w(LIST, 2)]),
        done(&[Op::Read(LIST, vec![1, 2]), w(LIST, 3)]),
    ];
    assert_eq!(found(&lists), []);
}

#[test]
fn dirty_writes() {
    // The first one's is the earlier version of one key, and the later one of the other.
    let history = [done(&[w(1, 1), w(2, 4)]), done(&[w(1, 2), w(2, 3)])];
    assert_eq!(found(&history), [Anomaly::DirtyWrite]);
    // Versions in another order than their transactions.
    let history = [at(&[w(1, 20)], 0, 5), at(&[w(1, 10)], 6, 9)];
    assert_eq!(found(&history), [Anomaly::DirtyWrite]);
}

#[test]
fn reads_of_what_never_was() {
    assert_eq!(found(&[rolled_back(&[w(1, 1)]), done(&[r(1, 1)])]), [Anomaly::AbortedRead]);
    assert_eq!(found(&[done(&[w(1, 1), w(1, 2)]), done(&[r(1, 1)])]), [Anomaly::IntermediateRead]);
    assert_eq!(found(&[done(&[r(1, 7)])]), [Anomaly::Garbage]);
    assert_eq!(found(&[done(&[w(1, 1), r(1, 0)])]), [Anomaly::Forgotten]);
}

#[test]
fn circular_information() {
    let history = [done(&[w(1, 1), r(2, 2)]), done(&[w(2, 2), r(1, 1)])];
    assert_eq!(found(&history), [Anomaly::Circular]);
    // From what began later.
    let history = [at(&[r(1, 1)], 0, 5), at(&[w(1, 1)], 6, 9)];
    assert_eq!(found(&history), [Anomaly::Circular]);
}

#[test]
fn updates_that_are_lost() {
    let history = [done(&[r(1, 0), w(1, 1)]), done(&[r(1, 0), w(1, 2)])];
    assert_eq!(found(&history), [Anomaly::LostUpdate, Anomaly::ReadSkew]);
    let history = [done(&[w(LIST, 1)]), done(&[w(LIST, 2)]), done(&[Op::Read(LIST, vec![2])])];
    assert_eq!(found(&history), [Anomaly::TornList]);
    let history = [done(&[w(LIST, 1)]), done(&[w(LIST, 2)]), done(&[Op::Read(LIST, vec![2, 1])])];
    assert!(found(&history).contains(&Anomaly::TornList));
}

#[test]
fn skewed_reads() {
    let history = [done(&[w(1, 1), w(2, 2)]), done(&[r(1, 0), r(2, 2)])];
    assert_eq!(found(&history), [Anomaly::ReadSkew]);
    // The same key twice.
    assert_eq!(found(&[done(&[w(1, 1)]), done(&[r(1, 0), r(1, 1)])]), [Anomaly::ReadSkew]);
    // What was over when it began.
    assert_eq!(found(&[at(&[w(1, 1)], 0, 5), at(&[r(1, 0)], 6, 9)]), [Anomaly::ReadSkew]);
}

#[test]
fn long_forks() {
    let history = [done(&[w(1, 1)]), done(&[w(2, 2)]), done(&[r(1, 1), r(2, 0)]), done(&[r(1, 0), r(2, 2)])];
    assert_eq!(found(&history), [Anomaly::LongFork]);
}

#[test]
fn skewed_writes() {
    let history = [done(&[r(1, 0), r(2, 0), w(1, 1)]), done(&[r(1, 0), r(2, 0), w(2, 2)])];
    assert_eq!(found(&history), [Anomaly::WriteSkew]);
    // Of a transaction that only reads (Fekete, O'Neil and O'Neil, "A read-only transaction anomaly
    // under snapshot isolation", 2004).
    let history = [
        at(&[r(1, 0), r(2, 0), w(1, 4)], 0, 9),
        at(&[r(2, 0), w(2, 1)], 1, 2),
        at(&[r(1, 0), r(2, 1)], 3, 5),
    ];
    assert_eq!(found(&history), [Anomaly::WriteSkew]);
}
