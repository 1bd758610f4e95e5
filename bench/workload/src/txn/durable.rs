//! Group commit. Each of eight threads updates a record and goes on when that is on disk; Manx's
//! store over its durable component, and that component alone.
//!
//! An update does not read, since the component knows no transactions: what a change read might be
//! gone when it is put. The files lie in the folder for temporary files; where that is in memory, a
//! sync costs nothing and the figures say little.

use super::arguments::{Arguments, Way, What};
use super::cases::{COMPONENT, DURABLE, OVER};
use super::drive::drive;
use super::peers::Variant;
use super::plan::Plan;
use super::store::Manx;
use super::subject::{Checked, Key, Subject, Tried};
use crate::error::Error;
use crate::harness::Bench;
use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Batch, Change, Data, DataError};
use std::ops::Bound;

const THREADS: usize = 8;
/// Fewer than in memory: they are loaded with a sync for each hundred.
const RECORDS: usize = 10_000;

impl Plan {
    pub(super) fn durable(&self, bench: &mut Bench) -> Result<(), Error> {
        bench.note(format!("durable: files in {}", std::env::temp_dir().display()));
        let mut load = self.load(THREADS, 0.0, "put");
        load.more.push(format!("--records={RECORDS}"));
        let variant = |name: &str, what| Variant::manx(&self.setup.own, name, what, Way::Help);
        let variants = [variant(COMPONENT, What::Component), variant(OVER, What::Durable)];
        self.compare(bench, DURABLE, &load, &variants)
    }
}

/// Measures it, and returns the result.
///
/// # Errors
/// What went wrong; also what was lost.
pub(super) fn measure(arguments: &Arguments) -> Result<String, String> {
    let home = arguments.home.as_ref().ok_or("--home is missing: an empty folder for the files")?;
    let component = Durable::open(home, DurableOptions::default()).map_err(words)?;
    Ok(match arguments.what {
        What::Component => drive(&Component(component), &arguments.driver),
        _ => drive(
            &Manx::over(arguments.way, Box::new(component), "durable").map_err(words)?,
            &arguments.driver,
        ),
    })
}

fn words(error: DataError) -> String {
    error.to_string()
}

/// The durable component alone.
struct Component(Durable);

impl Component {
    fn apply(&self, batch: &[Change]) -> Result<(), String> {
        self.0.apply(Batch::new(batch, true)).map_err(words)
    }
}

fn put(key: &[u8], value: &[u8]) -> Change {
    Change::Put { key: key.into(), value: value.into() }
}

impl Subject for Component {
    type Client<'a> = ();

    fn version(&self) -> String {
        format!("manx {}, durable component", env!("CARGO_PKG_VERSION"))
    }

    fn load(&self, records: &[(Key, Vec<u8>)]) -> Result<(), String> {
        let batch: Vec<Change> = records.iter().map(|(key, value)| put(key, value)).collect();
        self.apply(&batch)
    }

    fn client(&self) -> Result<(), String> {
        Ok(())
    }

    fn read(&self, (): &mut (), key: &Key, found: impl FnOnce(Option<&[u8]>) -> Checked) -> Tried {
        self.0.get(key).map_err(words).and_then(|value| found(value.as_deref())).into()
    }

    fn put(&self, (): &mut (), key: &Key, value: &[u8]) -> Tried {
        self.apply(&[put(key, value)]).into()
    }

    fn change(
        &self,
        (): &mut (),
        _key: &Key,
        _buffer: &mut [u8],
        _next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Checked,
    ) -> Tried {
        Tried::Failed("a component alone knows no transactions: nothing can be changed in one".into())
    }

    fn scan(
        &self,
        (): &mut (),
        key: &Key,
        records: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Checked,
    ) -> Tried {
        let found = self.0.scan((Bound::Included(key), Bound::Unbounded), false, records).map_err(words);
        found.and_then(|all| all.iter().try_for_each(|(name, value)| each(name, value))).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::drive::tests::arguments;
    use super::*;
    use crate::engine::Output;
    use crate::range::run::run_apart;

    #[test]
    fn what_was_committed_is_there_with_the_store_and_without() {
        for what in [What::Component, What::Durable] {
            let home = tempfile::tempdir().unwrap();
            let home = Some(home.path().to_owned());
            let arguments = Arguments { what, home, driver: arguments("put", 0.2), ..Arguments::default() };
            let output = Output::parse(&run_apart(true, || measure(&arguments)).unwrap()).unwrap();
            assert_eq!(output.verified_updates > 0, output.all.count > 0, "{what:?}");
        }
        let arguments = Arguments { what: What::Component, ..Arguments::default() };
        assert!(measure(&arguments).unwrap_err().contains("--home is missing"));
    }
}
