//! Manx's store as something that is measured: in memory, or over a data component.

use super::arguments::Way;
use super::subject::{Checked, Key, Subject, Tried};
use manx::txn::coordinator::Protocol;
use manx::txn::{Data, DataError, Error, Isolation, Options, Session, Store, Transaction};
use manx::wait::Adaptive;
use std::ops::{Bound, ControlFlow};

/// A store, and what it is called.
#[derive(Debug)]
pub struct Manx {
    store: Store,
    name: String,
}

/// The store's options for a protocol.
pub fn options(way: Way) -> Options {
    let protocol = match way {
        Way::Spin => baselines::txn::SPIN,
        Way::Wait => Protocol::Adaptive(Adaptive::DEFAULT),
        Way::Help => Protocol::Help,
    };
    Options::new().protocol(protocol)
}

impl Manx {
    /// In memory.
    pub fn in_memory(way: Way) -> Manx {
        let name = format!("manx {}, in memory, {}", env!("CARGO_PKG_VERSION"), way.name());
        Manx { store: Store::in_memory(options(way)), name }
    }

    /// Over a data component of this name.
    pub fn over(way: Way, data: Box<dyn Data>, what: &str) -> Result<Manx, DataError> {
        let name = format!("manx {}, {what}, {}", env!("CARGO_PKG_VERSION"), way.name());
        Ok(Manx { store: Store::open(options(way), data)?, name })
    }
}

/// In a transaction of its own: what `work` does is committed.
fn once(session: &mut Session, work: impl FnOnce(&mut Transaction<'_>) -> Result<Checked, Error>) -> Tried {
    let done = session.begin(Isolation::Snapshot).and_then(|mut transaction| {
        let checked = work(&mut transaction)?;
        if checked.is_ok() {
            transaction.commit()?;
        }
        Ok(checked)
    });
    match done {
        Ok(checked) => checked.into(),
        Err(error) if error.is_retryable() => Tried::Conflict,
        Err(error) => Tried::Failed(error.to_string()),
    }
}

impl Subject for Manx {
    type Client<'a> = Session;

    fn version(&self) -> String {
        self.name.clone()
    }

    fn load(&self, records: &[(Key, Vec<u8>)]) -> Result<(), String> {
        let put_all = |transaction: &mut Transaction<'_>| {
            records.iter().try_for_each(|(key, value)| transaction.put(key, value))
        };
        self.store.run(Isolation::Snapshot, put_all).map_err(|error| error.to_string())
    }

    fn client(&self) -> Result<Session, String> {
        self.store.session().map_err(|error| error.to_string())
    }

    fn read(&self, session: &mut Session, key: &Key, found: impl FnOnce(Option<&[u8]>) -> Checked) -> Tried {
        once(session, |transaction| Ok(found(transaction.get(key)?.as_deref())))
    }

    fn put(&self, session: &mut Session, key: &Key, value: &[u8]) -> Tried {
        once(session, |transaction| transaction.put(key, value).map(Ok))
    }

    fn change(
        &self,
        session: &mut Session,
        key: &Key,
        buffer: &mut [u8],
        next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Checked,
    ) -> Tried {
        once(session, |transaction| match next(transaction.get(key)?.as_deref(), buffer) {
            Ok(()) => transaction.put(key, buffer).map(Ok),
            wrong => Ok(wrong),
        })
    }

    fn scan(
        &self,
        session: &mut Session,
        key: &Key,
        records: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Checked,
    ) -> Tried {
        once(session, |transaction| {
            let range = (Bound::Included(&key[..]), Bound::Unbounded);
            let mut checked = Ok(());
            transaction.scan::<[u8], _>(range).limit(records).visit(|name, value| {
                checked = each(name, value);
                if checked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            Ok(checked)
        })
    }
}
