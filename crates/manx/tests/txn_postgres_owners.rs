//! Owners of a store in PostgreSQL that die, stop and come back, and the database too
//! (`common/owners.rs`).
//!
//! `MANX_PG_ROUNDS` is the number of faults.

#[path = "common/owners.rs"]
mod owners;

use manx::txn::postgres;
use owners::{OPTIONS, Servers, serve};
use std::thread;
use std::time::Duration;
use testing::postgres::Postgres;
use testing::{Direction, Proxy, full, setting};

/// It is no test unless it is started as a server.
#[test]
fn server() {
    serve(4200, |address| postgres::open(&address.parse().expect("an address"), OPTIONS).ok());
}

#[test]
fn what_was_acknowledged_stays_and_what_was_fenced_does_not_come() {
    let Some(mut database) = Postgres::start() else { return };
    let proxy = Proxy::to(&database.endpoint());
    let rounds = setting("MANX_PG_ROUNDS", if full() { 500 } else { 12 });
    let seed = setting("MANX_SEED", fastrand::u32(..).into());
    println!("{rounds} rounds, MANX_SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut servers = Servers::new(database.address_at(&proxy.endpoint()));
    for round in 0..rounds {
        servers.go_on(dice.usize(1..40));
        let owner = servers.owner();
        // The first rounds have each fault once.
        let fault = if round < 8 { round } else { dice.u64(..8) };
        match fault {
            0 => servers.servers[owner].signal(libc::SIGKILL),
            1 => servers.replace_stopped(owner),
            2 => servers.stop_for_a_while(owner, Duration::from_millis(dice.u64(..1600))),
            3 => database.restart(),
            4 => {
                // For shorter or longer than the owner tries.
                database.stop();
                thread::sleep(Duration::from_millis(dice.u64(..4000)));
                database.go_on();
            }
            5 => {
                // Answers are lost: of commits, beats, or one that takes over.
                proxy.hold(Direction::Answers);
                thread::sleep(Duration::from_millis(dice.u64(..60)));
                if dice.bool() {
                    servers.servers[owner].signal(libc::SIGKILL);
                }
                proxy.reset();
                proxy.mend();
            }
            6 => {
                // Requests come late, perhaps after the owner's time.
                proxy.hold(Direction::Requests);
                thread::sleep(Duration::from_millis(dice.u64(..2500)));
                proxy.mend();
            }
            _ => {
                // A slow one.
                for _ in 0..10 {
                    database.stop();
                    thread::sleep(Duration::from_millis(dice.u64(..60)));
                    database.go_on();
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
