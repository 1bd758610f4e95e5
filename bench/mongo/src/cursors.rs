//! Results of `find` that come in several batches.
//!
//! Between two batches a cursor keeps no snapshot, only the key at which it goes on, as mongod's
//! do. Any connection may ask for the next batch.

use crate::engine::{Failed, Session};
use crate::fault::{Code, Fault};
use crate::fields::is_true;
use crate::keys::Namespace;
use crate::update::DOCUMENT_BYTES_MAX;
use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of open cursors.
const OPEN_MAX: usize = 10_000;
/// Cursors that were not asked for this time are closed, if there are too many: mongod's time.
const IDLE: Duration = Duration::from_secs(600);

/// A scan of a collection that can go on.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// The collection.
    pub namespace: Namespace,
    /// The first key that was not shown yet.
    next: Vec<u8>,
    /// Number of documents that are still asked for; `None`: all.
    left: Option<u64>,
    projection: Projection,
    used: Instant,
}

impl Cursor {
    /// A scan of at most `limit` documents.
    pub fn new(namespace: Namespace, limit: Option<u64>, projection: Projection) -> Cursor {
        let next = namespace.bounds().0;
        Cursor { namespace, next, left: limit, projection, used: Instant::now() }
    }

    /// The next batch, of at most `size` documents, and whether there may be more after it.
    ///
    /// # Errors
    /// The engine's.
    pub fn batch(
        &mut self,
        session: &mut dyn Session,
        size: Option<u64>,
    ) -> Result<(RawArrayBuf, bool), Failed> {
        let room = size.unwrap_or(u64::MAX).min(self.left.unwrap_or(u64::MAX));
        let (mut batch, mut documents, mut bytes, mut next) = (RawArrayBuf::new(), 0, 0, None);
        session.scan(&self.next, &self.namespace.bounds().1, &mut |key, value| {
            bytes += value.len();
            if documents == room || documents > 0 && bytes > DOCUMENT_BYTES_MAX {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            self.projection.push(stored(value), &mut batch);
            documents += 1;
            ControlFlow::Continue(())
        })?;
        self.left = self.left.map(|left| left - documents);
        let more = next.is_some() && self.left != Some(0);
        self.next = next.unwrap_or_default();
        Ok((batch, more))
    }
}

/// A value of the engine as the document that it is.
pub fn stored(value: &[u8]) -> &RawDocument {
    RawDocument::from_bytes(value).expect("only documents are stored")
}

/// The fields of documents that a client wants to see.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// Those that are named, and no others; otherwise all others.
    includes: bool,
    named: Vec<String>,
    hides_id: bool,
}

impl Projection {
    /// Reads the projection of a `find`.
    ///
    /// # Errors
    /// It is more than a choice of fields.
    pub fn of(document: &RawDocument) -> Result<Projection, Fault> {
        let refused = |name: &str| {
            let message = format!(
                "the projection of '{name}' is not supported: choose whole fields, or leave some out"
            );
            Fault::new(Code::BadValue, message)
        };
        let mut projection = Projection::default();
        let mut only_id = None;
        for element in document {
            let (name, value) = element?;
            let (name, shown) = (name.as_str(), is_true(value).ok_or_else(|| refused(name.as_str()))?);
            if name == "_id" {
                projection.hides_id = !shown;
                only_id = Some(shown);
                continue;
            }
            let is_first = projection.named.is_empty();
            if name.contains(['.', '$']) || !is_first && projection.includes != shown {
                return Err(refused(name));
            }
            projection.includes = shown;
            projection.named.push(name.into());
        }
        if projection.named.is_empty() {
            projection.includes = only_id == Some(true);
        }
        Ok(projection)
    }

    /// Appends what is shown of a document.
    pub fn push(&self, document: &RawDocument, batch: &mut RawArrayBuf) {
        if self.named.is_empty() && !self.hides_id && !self.includes {
            return batch.push(document);
        }
        let is_shown = |name: &str| match name {
            "_id" => !self.hides_id,
            name => self.named.iter().any(|named| named == name) == self.includes,
        };
        // What is stored is BSON: the server has looked at it.
        let fields = document.into_iter().flatten().filter(|(name, _)| is_shown(name.as_str()));
        batch.push(fields.collect::<RawDocumentBuf>());
    }
}

/// The open cursors of a server.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    last: i64,
    cursors: HashMap<i64, Cursor>,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a cursor, and returns its id, which is not 0.
    ///
    /// # Errors
    /// There are too many.
    pub fn keep(&self, id: Option<i64>, mut cursor: Cursor) -> Result<i64, Fault> {
        cursor.used = Instant::now();
        let mut open = self.lock();
        if open.cursors.len() >= OPEN_MAX {
            open.cursors.retain(|_, cursor| cursor.used.elapsed() < IDLE);
        }
        if open.cursors.len() >= OPEN_MAX {
            let message = format!("{OPEN_MAX} cursors are open, and no more may be: close some");
            return Err(Fault::new(Code::BadValue, message));
        }
        let id = id.unwrap_or_else(|| {
            open.last += 1;
            open.last
        });
        open.cursors.insert(id, cursor);
        Ok(id)
    }

    /// Takes a cursor out, if it is open.
    pub fn take(&self, id: i64) -> Option<Cursor> {
        self.lock().cursors.remove(&id)
    }
}
