//! Sessions of range locks across machines, on a real etcd.
#![allow(dead_code, reason = "each test uses a part")]

use manx::range::cluster::{Options, RangeLock, Session};
use std::sync::LazyLock;
use std::time::Duration;
use testing::etcd::Cluster;
use testing::process::is_installed;
use testing::{LONG, until};

/// A short lease.
pub const TTL: Duration = Duration::from_secs(2);

/// One member, for the tests that do it no harm. The test is skipped where etcd is not installed.
pub fn member() -> Option<&'static Cluster> {
    static MEMBER: LazyLock<Option<Cluster>> = LazyLock::new(|| Cluster::start(1));
    // Each test says that it is skipped.
    is_installed("etcd", "--version").then(|| MEMBER.as_ref().expect("it was started"))
}

pub fn options(cluster: &Cluster) -> Options {
    Options::new(cluster.endpoints()).connect_timeout(LONG)
}

pub fn session(cluster: &Cluster) -> Session {
    Session::connect(options(cluster)).expect("etcd answers")
}

/// Returns when this number of requests wait for the lock.
pub fn waiting(lock: &RangeLock<u64>, number: usize) {
    until("the waiters", || {
        lock.dump().expect("etcd answers").iter().filter(|entry| entry.waits).count() == number
    });
}
