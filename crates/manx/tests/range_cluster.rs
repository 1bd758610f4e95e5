//! Range locks across machines, on a real cluster of etcd.

use testing::etcd::Cluster;
use testing::{eventually, until};

#[test]
fn members_are_killed_stopped_and_started_again() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let leader = eventually("a leader", || cluster.leader());
    cluster.kill(leader);
    until("another leader", || cluster.leader().is_some_and(|other| other != leader));
    cluster.restart(&[leader]);
    let leader = eventually("a leader", || cluster.leader());
    cluster.stop(leader);
    until("another leader", || cluster.leader().is_some_and(|other| other != leader));
    cluster.go_on(leader);
    cluster.restart(&[0, 1, 2]);
    assert_eq!((cluster.members(), cluster.endpoints().len()), (3, 3));
}
