//! A tally in a folder: what it has printed is on disk, also if the process is killed.
//!
//! ```text
//! cargo run -p manx --features durable --example durable -- /var/tmp/tally
//! ```
//!
//! Type words, kill the process (`kill -9`), and start it again: it goes on counting.

#[path = "common/tally.rs"]
mod tally;

use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Options, Store};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tally::place("/var/tmp/tally")?;
    std::fs::create_dir_all(&folder)?;
    let data = Durable::open(&folder, DurableOptions::new())?;
    let store = Store::open(Options::new(), Box::new(data))?;
    println!("{folder} is open");
    tally::run(&store)
}
