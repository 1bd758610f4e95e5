//! Against redis-server, where it is installed. `manx serve` is measured from end to end by the
//! tests of the command.

use super::super::drive::tests::{WORKLOADS, driven};
use super::super::serving::{self, Server, free_port, missing};
use super::*;
use crate::running::Running;
use std::path::Path;

/// A server with nothing in it; none, and a line that says so, where there is none to start.
fn redis() -> Option<(Running, Remote)> {
    if let Some(why) = missing("redis-server") {
        testing::skip(why);
        return None;
    }
    let port = free_port().unwrap();
    let running = serving::start(Server::Redis.command(Path::new("no manx"), port), port).unwrap();
    Some((running, Remote::connect(port).unwrap()))
}

#[test]
fn every_workload_is_done_and_accounted_for() {
    for workload in WORKLOADS {
        let Some((_running, remote)) = redis() else { return };
        let output = driven(|| Remote::connect(remote.port).unwrap(), workload, Result::is_ok).unwrap();
        let found = (output.errors, output.threads.len(), output.engine.as_str());
        assert_eq!(found, (0, 3, "server"), "{workload}: {}", output.first_error);
        assert!(output.version.starts_with("redis-server "), "{}", output.version);
        // Shares of 5 % need some operations before there is one.
        let writes = workload != "c" && output.all.count > 1000;
        assert!(!writes || output.verified_updates > 0, "{workload}");
    }
}

#[test]
fn a_change_meets_another_ones_update_and_does_nothing() {
    let Some((_running, remote)) = redis() else { return };
    let (key, other) = (*b"12345678", *b"12345679");
    remote.load(&[(key, b"aa".to_vec()), (other, b"bb".to_vec())]).unwrap();
    let (mut one, mut two) = (remote.client().unwrap(), remote.client().unwrap());
    let mut buffer = [b'c'; 2];
    let met = remote.change(&mut one, &key, &mut buffer, |value, _| {
        assert_eq!(value, Some(&b"aa"[..]));
        assert_eq!(remote.put(&mut two, &key, b"dd"), Tried::Done);
        Ok(())
    });
    assert_eq!(met, Tried::Conflict);
    assert_eq!(remote.look(&mut one, &[key, other]).unwrap(), [Some(b"dd".to_vec()), Some(b"bb".to_vec())]);
    let again = remote.change(&mut one, &key, &mut buffer, |value, next| {
        assert_eq!(value, Some(&b"dd"[..]));
        next.copy_from_slice(b"ee");
        // Another record is another one's business.
        assert_eq!(remote.put(&mut two, &other, b"ff"), Tried::Done);
        Ok(())
    });
    assert_eq!(again, Tried::Done);
    assert_eq!(remote.look(&mut two, &[key, other]).unwrap(), [Some(b"ee".to_vec()), Some(b"ff".to_vec())]);
}

#[test]
fn what_is_inserted_is_scanned_and_is_not_inserted_twice() {
    let Some((_running, remote)) = redis() else { return };
    remote.load(&[([2; 8], b"two".to_vec()), ([9; 8], b"nine".to_vec())]).unwrap();
    let mut link = remote.client().unwrap();
    assert_eq!(remote.insert(&mut link, &[b'\n'; 8], b"ten"), Tried::Done);
    let scanned = |link: &mut Link, from: u8, records: usize| {
        let mut found = Vec::new();
        let tried = remote.scan(link, &[from; 8], records, |key, value| {
            found.push((key[0], value.to_vec()));
            Ok(())
        });
        assert_eq!(tried, Tried::Done);
        found
    };
    assert_eq!(scanned(&mut link, 9, 100), [(9, b"nine".to_vec()), (10, b"ten".to_vec())]);
    assert_eq!(scanned(&mut link, 1, 2), [(2, b"two".to_vec()), (9, b"nine".to_vec())]);
    assert!(scanned(&mut link, 11, 12).is_empty());
    let Tried::Failed(why) = remote.insert(&mut link, &[9; 8], b"again") else { panic!("it is there") };
    assert!(why.contains("0 of 1 keys"), "{why}");
}

#[test]
fn numbers_are_in_digits() {
    for number in [0, 7, 10, 100, usize::MAX] {
        assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
    }
}
