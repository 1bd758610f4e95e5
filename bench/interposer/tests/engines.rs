//! Each database with each lock beneath it: it runs to completion, and every update that it made is
//! there afterwards.
//!
//! The drivers check that themselves and print no figure otherwise. A database that is not
//! installed is skipped; `cargo xtask setup` installs all of them.

mod common;

use std::path::Path;
use workload::engine::{self, Compiler, Load, Output, Rival, Start, rival};
use workload::engines::choose;
use workload::error::Error;

/// Short, on so few records that threads meet at them, with more threads than CPUs of most machines
/// that test.
fn runs_with_each_lock(name: &str, more: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines");
    let subject = choose(&[name.to_owned()]).expect("known")[0];
    let program = match subject.program(&Compiler::new("cc", folder)) {
        Ok(program) => program,
        Err(Error::Missing { what, .. }) => {
            testing::skip(format_args!("{name}: {what}"));
            return;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let more = more.iter().map(|option| (*option).to_owned()).collect();
    let load = Load { more, ..Load::new(4, 0.2, 0.0, &workload::machine::cpu_list(2)) };
    for rival in Rival::parse(&rival::LOCKS.join(","), &common::folder()).expect("built") {
        let sample = engine::run(&program, Start::Preloaded(&rival), &load)
            .unwrap_or_else(|error| panic!("{name} with {}: {error}", rival.name));
        let output = Output::parse(sample.output.expect("its output").get()).expect("a result");
        assert_eq!((output.errors, output.threads.len()), (0, 4), "{name} with {}", rival.name);
        assert!(output.threads.iter().map(|thread| thread.operations).sum::<u64>() > 0);
    }
}

#[test]
fn sqlite_in_memory_and_on_disk() {
    for name in ["sqlite-shared", "sqlite-wal"] {
        runs_with_each_lock(name, &["--records=7", "--slo-us=500"]);
    }
    runs_with_each_lock("sqlite-scan", &["--records=500", "--scanned=2000", "--scan-every=50"]);
}

#[test]
fn leveldb() {
    for name in ["leveldb-get", "leveldb-mixed"] {
        runs_with_each_lock(name, &["--records=7", "--slo-us=100"]);
    }
}

#[test]
fn kyoto_cabinet() {
    for name in ["kyoto-cache", "kyoto-hash"] {
        runs_with_each_lock(name, &["--records=7"]);
    }
}

#[test]
fn lmdb_with_private_and_with_shared_mutexes() {
    for name in ["lmdb", "lmdb-private"] {
        runs_with_each_lock(name, &["--records=7"]);
    }
}

#[test]
fn rocksdb() {
    runs_with_each_lock("rocksdb-mixed", &["--records=7"]);
}

#[test]
fn threads_that_signal_each_other() {
    runs_with_each_lock("ping-pong", &[]);
}
