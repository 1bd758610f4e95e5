//! The interface of a measured store. Each call is a transaction of its own.
//!
//! The store calls the closures with what it has found, within the transaction, and the closures
//! check it. So a store that reads nothing is found out.

/// The key of a record.
pub type Key = [u8; 8];

/// The result of a check.
pub type Checked = Result<(), String>;

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It was committed
    Done,
    /// Another transaction committed first: the caller tries again
    Conflict,
    /// What went wrong
    Failed(String),
}

impl From<Result<(), String>> for Tried {
    fn from(result: Result<(), String>) -> Tried {
        result.map_or_else(Tried::Failed, |()| Tried::Done)
    }
}

/// A store.
pub trait Subject: Sync {
    /// The state of one thread
    type Client<'a>
    where
        Self: 'a;

    /// The engine's name
    fn engine(&self) -> &'static str {
        "manx"
    }

    /// What it is, with its version
    fn version(&self) -> String;

    /// Inserts the first records, before any other call.
    ///
    /// # Errors
    /// What went wrong.
    fn load(&self, records: &[(Key, Vec<u8>)]) -> Result<(), String>;

    /// Makes the state of a thread.
    ///
    /// # Errors
    /// What went wrong.
    fn client(&self) -> Result<Self::Client<'_>, String>;

    /// Gets a record and calls `found` with it.
    fn read(
        &self,
        client: &mut Self::Client<'_>,
        key: &Key,
        found: impl FnOnce(Option<&[u8]>) -> Checked,
    ) -> Tried;

    /// Puts a record.
    fn put(&self, client: &mut Self::Client<'_>, key: &Key, value: &[u8]) -> Tried;

    /// Puts a record that is not there yet.
    fn insert(&self, client: &mut Self::Client<'_>, key: &Key, value: &[u8]) -> Tried {
        self.put(client, key, value)
    }

    /// Gets a record, calls `next`, which writes the new value into the buffer, and puts that.
    fn change(
        &self,
        client: &mut Self::Client<'_>,
        key: &Key,
        buffer: &mut [u8],
        next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Checked,
    ) -> Tried;

    /// Gets at most `records` records from `key` on, and calls `each` with their keys and values in
    /// order.
    fn scan(
        &self,
        client: &mut Self::Client<'_>,
        key: &Key,
        records: usize,
        each: impl FnMut(&[u8], &[u8]) -> Checked,
    ) -> Tried;

    /// Gets records after all other clients have ended, in any number of transactions.
    ///
    /// # Errors
    /// What went wrong.
    fn look(&self, client: &mut Self::Client<'_>, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, String> {
        let one = |key: &Key| {
            let mut found = None;
            let tried = self.read(client, key, |value| {
                found = value.map(<[u8]>::to_vec);
                Ok(())
            });
            match tried {
                Tried::Done => Ok(found),
                Tried::Conflict => Err(format!("key {key:x?}: a conflict where nobody else is")),
                Tried::Failed(why) => Err(why),
            }
        };
        keys.iter().map(one).collect()
    }
}
