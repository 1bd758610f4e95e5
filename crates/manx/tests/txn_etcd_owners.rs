//! Owners of a store in etcd that die, stop and come back, and members of the cluster too
//! (`common/owners.rs`).
//!
//! `MANX_ETCD_ROUNDS` is the number of faults.

#[path = "common/owners.rs"]
mod owners;

use manx::txn::etcd;
use owners::{OPTIONS, Servers, serve};
use std::thread;
use std::time::Duration;
use testing::etcd::Cluster;
use testing::{full, setting};

/// It is no test unless it is started as a server.
#[test]
fn server() {
    serve(200, |address| etcd::open(&address.parse().expect("an address"), OPTIONS).ok());
}

#[test]
fn what_was_acknowledged_stays_and_what_was_fenced_does_not_come() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let rounds = setting("MANX_ETCD_ROUNDS", if full() { 500 } else { 12 });
    let seed = setting("MANX_SEED", fastrand::u32(..).into());
    println!("{rounds} rounds, MANX_SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let address = format!("etcd://{}/owners", cluster.endpoints().join(","));
    let mut servers = Servers::new(address);
    for round in 0..rounds {
        servers.go_on(dice.usize(1..40));
        let (owner, member) = (servers.owner(), dice.usize(..3));
        // The first rounds have each fault once.
        let fault = if round < 7 { round } else { dice.u64(..7) };
        match fault {
            0 => servers.servers[owner].signal(libc::SIGKILL),
            1 => servers.replace_stopped(owner),
            2 => servers.stop_for_a_while(owner, Duration::from_millis(dice.u64(..1600))),
            3 => {
                cluster.kill(member);
                servers.go_on(20);
                cluster.restart(&[member]);
            }
            4 => {
                cluster.stop(member);
                servers.go_on(20);
                if dice.bool() {
                    let owner = servers.owner();
                    servers.servers[owner].signal(libc::SIGKILL);
                    servers.go_on(5);
                }
                cluster.go_on(member);
            }
            5 => {
                // No majority, for shorter or longer than the owner tries.
                let other = (member + 1) % 3;
                cluster.stop(member);
                cluster.stop(other);
                thread::sleep(Duration::from_millis(dice.u64(..4000)));
                cluster.go_on(member);
                cluster.go_on(other);
            }
            _ => {
                // A slow one.
                for _ in 0..10 {
                    cluster.stop(member);
                    thread::sleep(Duration::from_millis(dice.u64(..60)));
                    cluster.go_on(member);
                    thread::sleep(Duration::from_millis(dice.u64(..10)));
                }
            }
        }
        servers.check();
        if round % 20 == 19 {
            println!("{} rounds, {} writes acknowledged", round + 1, servers.acked());
        }
    }
    servers.finish();
    println!("{rounds} rounds, {} writes acknowledged, none lost", servers.acked());
}
