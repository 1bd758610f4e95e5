//! What a store does for its clients, as far as it is measured: each is a transaction of its own.
//!
//! The functions check what they are given by what they are called with, within the transaction: a
//! store that reads nothing and says so is caught.

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It was committed
    Done,
    /// Another one was first: it is tried again
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
    /// One thread's way to it
    type Client<'a>
    where
        Self: 'a;

    /// The engine's name
    fn engine(&self) -> &'static str {
        "manx"
    }

    /// What it is, with its version
    fn version(&self) -> String;

    /// Puts records that are not there yet. Nothing else is done until all are.
    ///
    /// # Errors
    /// What went wrong.
    fn load(&self, records: &[([u8; 8], Vec<u8>)]) -> Result<(), String>;

    /// A thread's way to it.
    ///
    /// # Errors
    /// What went wrong.
    fn client(&self) -> Result<Self::Client<'_>, String>;

    /// Gets a record and calls `found` with it.
    fn read(
        &self,
        client: &mut Self::Client<'_>,
        key: &[u8; 8],
        found: impl FnOnce(Option<&[u8]>) -> Result<(), String>,
    ) -> Tried;

    /// Puts a record.
    fn put(&self, client: &mut Self::Client<'_>, key: &[u8; 8], value: &[u8]) -> Tried;

    /// Puts a record that is not there yet.
    fn insert(&self, client: &mut Self::Client<'_>, key: &[u8; 8], value: &[u8]) -> Tried {
        self.put(client, key, value)
    }

    /// Gets a record, calls `next` with it, which writes the value that it shall have into the
    /// buffer, and puts that.
    fn change(
        &self,
        client: &mut Self::Client<'_>,
        key: &[u8; 8],
        buffer: &mut [u8],
        next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Result<(), String>,
    ) -> Tried;

    /// Gets as many records from `key` on as there are, up to `records`, and calls `each` with
    /// their keys and values in order.
    fn scan(
        &self,
        client: &mut Self::Client<'_>,
        key: &[u8; 8],
        records: usize,
        each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Tried;

    /// Gets records when no other client is there any more, in as many transactions as it likes.
    ///
    /// # Errors
    /// What went wrong.
    fn look(&self, client: &mut Self::Client<'_>, keys: &[[u8; 8]]) -> Result<Vec<Option<Vec<u8>>>, String> {
        let one = |key: &[u8; 8]| {
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
