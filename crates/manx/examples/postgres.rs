//! A tally in a table of PostgreSQL. One process owns it, and a standby takes over when the owner
//! dies.
//!
//! Start it in two terminals:
//!
//! ```text
//! cargo run -p manx --features postgres --example postgres -- postgres://me@127.0.0.1:5432/shop
//! ```
//!
//! The first process owns the store, and the second one waits. Type words into the first, and kill
//! it (`kill -9`). The second one goes on counting from what was committed. An owner that was
//! stopped meanwhile (Ctrl-Z) finds out when it continues, and ends.

#[path = "common/tally.rs"]
mod tally;

use manx::txn::postgres::{self, Address};
use manx::txn::{Options, RemoteOptions, Store};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let address: Address = tally::place("postgres://me@127.0.0.1:5432/shop")?.parse()?;
    let options = RemoteOptions::new()
        .when_waiting(|place| println!("another process owns {place}: waiting"))
        .when_lost(|error| {
            println!("the store is lost: {error}");
            std::process::exit(1);
        });
    let store = Store::open(Options::new(), Box::new(postgres::open(&address, options)?))?;
    println!("this process owns {address}");
    tally::run(&store)
}
