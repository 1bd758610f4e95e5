//! Owners of a store in etcd that die, stop and come back, and members of the cluster too; ways
//! between members, and between servers and a member, are cut; and a member's disk becomes full
//! (`common/owners.rs`).
//!
//! `MANX_ETCD_ROUNDS` is the number of faults.

#[path = "common/owners.rs"]
mod owners;

use manx::txn::etcd;
use owners::{OPTIONS, Servers, serve};
use std::fs::File;
use std::thread;
use std::time::Duration;
use testing::etcd::{Cluster, Setting};
use testing::{Proxy, can_mount, full, setting};

/// What a member writes its data to: as large as its log, which it makes in advance, and some more;
/// and what each round leaves, since nothing is compacted.
const DISK_BYTES: u64 = 192 << 20;
const ROUND_BYTES: u64 = 8 << 20;
/// Since nothing is compacted, many rounds keep more than the 2 GiB that etcd allows otherwise.
const QUOTA_BYTES: u64 = 8 << 30;

/// It is no test unless it is started as a server.
#[test]
fn server() {
    serve(200, |address| etcd::open(&address.parse().expect("an address"), OPTIONS).ok());
}

#[test]
fn what_was_acknowledged_stays_and_what_was_fenced_does_not_come() {
    let rounds = setting("MANX_ETCD_ROUNDS", if full() { 500 } else { 12 });
    let disk_bytes = can_mount().then_some(DISK_BYTES + rounds * ROUND_BYTES);
    let options = vec![format!("--quota-backend-bytes={QUOTA_BYTES}")];
    let faulty = Setting { can_be_cut: true, disk_bytes, options, ..Setting::default() };
    let Some(mut cluster) = Cluster::start_with(3, faulty) else { return };
    let seed = setting("MANX_SEED", fastrand::u32(..).into());
    println!("{rounds} rounds, MANX_SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    // The ways of all servers to the members.
    let ways: Vec<Proxy> = cluster.endpoints().iter().map(|endpoint| Proxy::to(endpoint)).collect();
    let endpoints: Vec<String> = ways.iter().map(Proxy::endpoint).collect();
    let address = format!("etcd://{}/owners", endpoints.join(","));
    let mut servers = Servers::new(address);
    for round in 0..rounds {
        servers.go_on(dice.usize(1..40));
        let (owner, member) = (servers.owner(), dice.usize(..3));
        // The first rounds have each fault once.
        let faults = if disk_bytes.is_some() { 11 } else { 10 };
        let fault = if round < faults { round } else { dice.u64(..faults) };
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
            6 => {
                // A slow one.
                for _ in 0..10 {
                    cluster.stop(member);
                    thread::sleep(Duration::from_millis(dice.u64(..60)));
                    cluster.go_on(member);
                    thread::sleep(Duration::from_millis(dice.u64(..10)));
                }
            }
            7 => {
                // Two do not reach each other; the third one reaches both.
                cluster.cut(member, (member + 1) % 3);
                servers.go_on(20);
                cluster.mend();
            }
            8 => {
                // The servers reach a member that reaches no other one: mostly the leader.
                let member = cluster.leader().filter(|_| dice.u8(..4) > 0).unwrap_or(member);
                cluster.cut(member, (member + 1) % 3);
                cluster.cut(member, (member + 2) % 3);
                servers.go_on(20);
                if dice.bool() {
                    let owner = servers.owner();
                    servers.servers[owner].signal(libc::SIGKILL);
                    servers.go_on(5);
                }
                cluster.mend();
            }
            9 => {
                // No server reaches it, and the members reach each other.
                ways[member].cut();
                servers.go_on(20);
                ways[member].mend();
            }
            _ => {
                // It ends when its disk is full, and goes on when there is room again.
                let filler = cluster.disk(member).join("filler");
                // The error is that there is no room.
                let _ = std::io::copy(&mut std::io::repeat(1), &mut File::create(&filler).expect("a file"));
                while !cluster.has_ended(member) {
                    servers.go_on(10);
                }
                servers.go_on(20);
                std::fs::remove_file(filler).expect("removed");
                cluster.restart(&[member]);
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
