//! Scripts: which transaction does what, in which order, so that an anomaly occurs at each level
//! that allows it.
//!
//! Each transaction has a thread. A step begins when the one before it is over; but a serializable
//! transaction may have to wait for another one, so there the next step begins after a moment
//! anyway. When it does changes nothing of what has to come out: no anomaly.

use super::checker::{Anomaly, Key, Op, Txn, anomalies};
use super::is_forbidden;
use super::run::{Clock, Running, is_list, stores};
use Step::{Commit, Read, Rollback, Write};
use manx::txn::{Isolation, Options, Store};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Read(Key),
    Write(Key),
    Commit,
    Rollback,
}

const LEVELS: [Isolation; 4] =
    [Isolation::ReadUncommitted, Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// A transaction of a script.
fn play(
    store: &Store,
    isolation: Isolation,
    clock: &Clock,
    steps: &Receiver<Step>,
    done: &Sender<()>,
) -> Txn {
    let mut session = store.session().expect("a session");
    let mut it = Running::begin(&mut session, isolation, clock);
    done.send(()).expect("waited for");
    for step in steps {
        let result = match step {
            Read(key) => it.read(key).map(drop),
            Write(key) => it.write(key),
            Commit => break,
            Rollback => {
                let txn = it.rollback();
                done.send(()).expect("waited for");
                return txn;
            }
        };
        if let Err(error) = result {
            assert!(error.is_retryable() || error == manx::txn::Error::Failed, "{error}");
        }
        done.send(()).expect("waited for");
    }
    let txn = it.commit();
    done.send(()).expect("waited for");
    txn
}

/// Runs a script of `txns` transactions; each of them begins at once.
fn run(store: &Store, isolation: Isolation, txns: usize, script: &[(usize, Step)]) -> Vec<Txn> {
    let clock = Clock::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..txns)
            .map(|_| {
                let ((step, steps), (done, is_done)) = (channel(), channel());
                let clock = &clock;
                let thread = scope.spawn(move || play(store, isolation, clock, &steps, &done));
                is_done.recv().expect("it begins");
                (step, is_done, thread)
            })
            .collect();
        for &(txn, step) in script {
            let (steps, is_done, _) = &threads[txn];
            steps.send(step).expect("it is at work");
            if isolation == Isolation::Serializable {
                let _ = is_done.recv_timeout(Duration::from_millis(20));
            } else {
                is_done.recv().expect("nobody waits");
            }
        }
        threads.into_iter().map(|(_, _, thread)| thread.join().expect("all steps")).collect()
    })
}

/// At each level that allows it the script has the anomaly, and at no other.
fn occurs(anomaly: Anomaly, txns: usize, script: &[(usize, Step)]) {
    for isolation in LEVELS {
        for store in stores(Options::default()) {
            let history = run(&store, isolation, txns, script);
            let found = anomalies(&history, is_list);
            for (other, words) in &found {
                assert!(!is_forbidden(isolation, *other), "{isolation:?}: {other:?}: {words}");
            }
            let is_there = found.contains_key(&anomaly);
            assert_eq!(is_there, !is_forbidden(isolation, anomaly), "{isolation:?}: {found:?} {history:?}");
        }
    }
}

const X: Key = 1;
const Y: Key = 2;

#[test]
fn reads_of_what_is_rolled_back() {
    occurs(Anomaly::AbortedRead, 2, &[(0, Write(X)), (1, Read(X)), (0, Rollback), (1, Commit)]);
}

#[test]
fn reads_of_what_is_written_over() {
    let script = [(0, Write(X)), (1, Read(X)), (0, Write(X)), (0, Commit), (1, Commit)];
    occurs(Anomaly::IntermediateRead, 2, &script);
}

#[test]
fn circular_information() {
    let script = [(0, Write(X)), (1, Write(Y)), (0, Read(Y)), (1, Read(X)), (0, Commit), (1, Commit)];
    occurs(Anomaly::Circular, 2, &script);
}

#[test]
fn lost_updates() {
    let script = [(0, Read(X)), (1, Read(X)), (0, Write(X)), (0, Commit), (1, Write(X)), (1, Commit)];
    occurs(Anomaly::LostUpdate, 2, &script);
}

#[test]
fn reads_that_differ() {
    occurs(Anomaly::ReadSkew, 2, &[(0, Read(X)), (1, Write(X)), (1, Commit), (0, Read(X)), (0, Commit)]);
}

#[test]
fn sums_of_accounts_that_do_not_add_up() {
    let script = [
        (0, Read(X)),
        (1, Read(X)),
        (1, Read(Y)),
        (1, Write(X)),
        (1, Write(Y)),
        (1, Commit),
        (0, Read(Y)),
        (0, Commit),
    ];
    occurs(Anomaly::ReadSkew, 2, &script);
}

#[test]
fn long_forks() {
    let script = [
        (2, Read(Y)),
        (3, Read(X)),
        (0, Write(X)),
        (0, Commit),
        (1, Write(Y)),
        (1, Commit),
        (2, Read(X)),
        (3, Read(Y)),
        (2, Commit),
        (3, Commit),
    ];
    occurs(Anomaly::LongFork, 4, &script);
}

#[test]
fn skewed_writes() {
    let script = [
        (0, Read(X)),
        (0, Read(Y)),
        (1, Read(X)),
        (1, Read(Y)),
        (0, Write(X)),
        (1, Write(Y)),
        (0, Commit),
        (1, Commit),
    ];
    occurs(Anomaly::WriteSkew, 2, &script);
}

/// No transaction writes over another one at work, at any level: one of the two gets an error, or
/// waits, if it is serializable.
#[test]
fn dirty_writes() {
    let script = [(0, Write(X)), (1, Write(X)), (1, Write(Y)), (0, Write(Y)), (0, Commit), (1, Commit)];
    occurs(Anomaly::DirtyWrite, 2, &script);
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted, Isolation::Snapshot] {
        for store in stores(Options::default()) {
            let history = run(&store, isolation, 2, &script);
            let written = |txn: &Txn| txn.ops.iter().filter(|op| matches!(op, Op::Write(..))).count();
            let outcomes: Vec<_> = history.iter().map(|txn| (txn.committed, written(txn))).collect();
            assert_eq!(outcomes, [(true, 2), (false, 0)], "{isolation:?}: {history:?}");
        }
    }
}
