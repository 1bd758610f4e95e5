//! A tally of words: each line of standard input is counted in a transaction. The new count is
//! printed once it is committed.

use manx::txn::{Isolation, Store};
use std::error::Error;

/// The place of the store, which the command line names.
pub fn place(example: &str) -> Result<String, String> {
    std::env::args().nth(1).ok_or_else(|| format!("name the place of the store, such as {example}"))
}

/// Counts until standard input ends.
pub fn run(store: &Store) -> Result<(), Box<dyn Error>> {
    for word in std::io::stdin().lines() {
        let word = word?;
        let count = store.run(Isolation::Snapshot, |it| {
            let before = it.get(word.as_bytes())?;
            let count = before.map_or(1, |bytes| number(&bytes) + 1);
            it.put(word.as_bytes(), &count.to_le_bytes())?;
            Ok(count)
        })?;
        println!("{word}: {count}");
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a count has 8 bytes"))
}
