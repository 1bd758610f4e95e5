//! What a transaction that only reads costs by itself: begin, snapshot, commit, in one thread,
//! beside sessions that do nothing and beside transactions that have written and are not over.
//!
//! Transactions are timed some at a time, because reading the clock costs as much as one. The
//! figure is the median of these batches, with the slowest beside it: what the kernel takes the CPU
//! away for falls on few of them.

use super::arguments::Arguments;
use super::store::options;
use manx::txn::{Isolation, Session, Store};
use platform::clock::now_ns;
use std::collections::BTreeMap;

/// Transactions in a batch.
const BATCH: u32 = 1000;
/// The smallest number of batches.
const BATCHES_MIN: usize = 30;

/// Measures it, and returns the figures as JSON.
///
/// # Errors
/// What the store refused.
pub fn measure(arguments: &Arguments) -> Result<String, String> {
    let store = Store::in_memory(options(arguments.way));
    let failed = |error: manx::txn::Error| error.to_string();
    store.run(Isolation::Snapshot, |transaction| transaction.put(b"read", b"value")).map_err(failed)?;
    let session = || store.session().map_err(failed);
    let idle = (0..arguments.idle).map(|_| session()).collect::<Result<Vec<Session>, String>>()?;
    let mut writers = (0..arguments.writers).map(|_| session()).collect::<Result<Vec<Session>, String>>()?;
    let mut open = Vec::new();
    for (index, writer) in writers.iter_mut().enumerate() {
        let mut transaction = writer.begin(Isolation::Snapshot).map_err(failed)?;
        transaction.put(&index.to_be_bytes(), b"not over").map_err(failed)?;
        open.push(transaction);
    }
    let mut reader = session()?;
    let empty =
        batches(arguments, || reader.begin(Isolation::Snapshot)?.commit().map(drop)).map_err(failed)?;
    let get = batches(arguments, || {
        let mut transaction = reader.begin(Isolation::Snapshot)?;
        let found = transaction.get(b"read")?;
        assert_eq!(found.as_deref(), Some(&b"value"[..]), "what was committed is not there");
        transaction.commit().map(drop)
    })
    .map_err(failed)?;
    drop((open, idle));
    let mut values = BTreeMap::new();
    for (name, (median_ns, max_ns)) in [("empty", empty), ("get", get)] {
        values.insert(format!("{name}_ns"), median_ns);
        values.insert(format!("{name}_max_ns"), max_ns);
    }
    serde_json::to_string(&values).map_err(|error| error.to_string())
}

/// The median and the maximum of batches, in nanoseconds for one of them.
fn batches<E>(arguments: &Arguments, mut once: impl FnMut() -> Result<(), E>) -> Result<(f64, f64), E> {
    let mut found = Vec::new();
    let (warm, end) = ((arguments.warm_up * 1e9) as u64, (arguments.seconds * 1e9) as u64 / 2);
    let begun = now_ns();
    loop {
        let before = now_ns();
        for _ in 0..BATCH {
            once()?;
        }
        let after = now_ns();
        if after - begun >= warm {
            found.push((after - before) as f64 / f64::from(BATCH));
        }
        if after - begun >= warm + end && found.len() >= BATCHES_MIN {
            return Ok((report::median(&found), found.into_iter().fold(0.0, f64::max)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_beside_others_and_each_figure_has_its_maximum() {
        let arguments =
            Arguments { seconds: 0.05, warm_up: 0.0, idle: 20, writers: 4, ..Arguments::default() };
        let values: BTreeMap<String, f64> = serde_json::from_str(&measure(&arguments).unwrap()).unwrap();
        assert_eq!(values.len(), 4);
        for name in ["empty", "get"] {
            let (median, max) = (values[&format!("{name}_ns")], values[&format!("{name}_max_ns")]);
            assert!(median > 0.0 && median <= max, "{name}: {median} {max}");
        }
    }
}
