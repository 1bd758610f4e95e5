//! Ranges of seats that processes on several machines lock. They share an etcd.
//!
//! Start it in two terminals:
//!
//! ```text
//! cargo run -p manx --features cluster --example cluster -- 127.0.0.1:2379
//! ```
//!
//! Type `0..100` into the first and `50..60` into the second: it waits. It gets its seats when the
//! first process unlocks (type `unlock`) or ends, and within 5 s when the first one is killed.

use manx::range::cluster::{Error, Options, RangeLock, Session};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let members: Vec<String> = std::env::args().skip(1).collect();
    let session = Session::connect(Options::new(members).ttl(Duration::from_secs(5)))?;
    // Without a sign of life for 5 s, etcd gives to other processes what this one has locked.
    session.on_lost(|| {
        println!("etcd has not heard of this process in time: its seats are lost");
        std::process::exit(1);
    });
    let seats: RangeLock<u64> = session.range_lock("seats");
    println!("ready");
    let mut held = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let Some((from, to)) = line.split_once("..") else {
            held.clear();
            println!("nothing is locked");
            continue;
        };
        let range = from.parse()?..to.parse()?;
        let guard = match seats.try_lock(range.clone()) {
            Err(Error::WouldBlock) => {
                println!("{line}: another process has a part, waiting");
                seats.lock(range)?
            }
            taken => taken?,
        };
        // Whatever stores the seats refuses a token below one that it has seen: so a process that
        // was stopped and writes too late does no harm.
        println!("{line}: locked, with token {}", guard.token());
        held.push(guard);
    }
    Ok(())
}
