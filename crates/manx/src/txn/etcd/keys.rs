//! The keys of a store in etcd, and the record of its owner.
//!
//! ```text
//!   shop//owner                  which server owns the store; goes with the server's lease
//!   shop//state                  the record of the last owner: see `Record`
//!   shop//data/KEY               what KEY has
//!   shop//part/RECORD-STEP/3     the third part of a batch that is too large for one transaction
//! ```
//!
//! A prefix has no two slashes (`etcd/address.rs`), so the keys of the store `shop` are not among
//! those of `shop/a`.

use crate::etcd::messages::end_of;
use crate::txn::Recovered;
use std::fmt::Write as _;

/// The first line of a record.
const TITLE: &str = "manx 1";

/// The keys of one store.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// With the two slashes.
    prefix: Vec<u8>,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Keys {
        Keys { prefix: format!("{prefix}//").into_bytes() }
    }

    fn key(&self, rest: &[u8]) -> Vec<u8> {
        [&self.prefix, rest].concat()
    }

    /// The first and the end of all keys of the store.
    pub(super) fn all(&self) -> (Vec<u8>, Vec<u8>) {
        (self.prefix.clone(), end_of(&self.prefix))
    }

    pub(super) fn owner(&self) -> Vec<u8> {
        self.key(b"owner")
    }

    pub(super) fn record(&self) -> Vec<u8> {
        self.key(b"state")
    }

    pub(super) fn data(&self, key: &[u8]) -> Vec<u8> {
        self.key(&[b"data/", key].concat())
    }

    /// The first and the end of the entries' keys.
    pub(super) fn all_data(&self) -> (Vec<u8>, Vec<u8>) {
        let first = self.data(b"");
        let end = end_of(&first);
        (first, end)
    }

    /// An entry's key in the store.
    pub(super) fn stored<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.get(self.prefix.len() + b"data/".len()..).unwrap_or_default()
    }

    pub(super) fn part(&self, stage: Stage, number: u32) -> Vec<u8> {
        self.key(format!("part/{:016x}-{:016x}/{number:08x}", stage.epoch, stage.step).as_bytes())
    }

    /// The first and the end of the keys of the parts of a batch, or of all batches.
    pub(super) fn parts(&self, stage: Option<Stage>) -> (Vec<u8>, Vec<u8>) {
        let first = match stage {
            Some(Stage { epoch, step, .. }) => format!("part/{epoch:016x}-{step:016x}/"),
            None => "part/".into(),
        };
        let first = self.key(first.as_bytes());
        let end = end_of(&first);
        (first, end)
    }
}

/// Where the parts of a batch are, and the number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) epoch: u64,
    pub(super) step: u64,
    pub(super) parts: u32,
}

/// What the owner says about itself, in lines that `etcdctl` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// What a later owner will find, and this owner's epoch.
    pub(super) known: Recovered,
    /// A number of this owner that no other has: two servers may want the same epoch.
    pub(super) owner: i64,
    /// Rises with each change of the record by one owner. No two records have the same owner and
    /// step.
    pub(super) step: u64,
    /// The owner and the step that this owner found when it took the store over.
    pub(super) found: (i64, u64),
    /// The batch that is committed and not yet among the entries.
    pub(super) stage: Option<Stage>,
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Record { known, owner, step, found, stage } = self;
        let mut text = format!(
            "{TITLE}\nepoch {}\nlast-id {}\ntimestamp {}\noldest-timestamp {}\nowner {owner}\nstep {step}\nfound-owner {}\nfound-step {}\n",
            known.epoch, known.last_id, known.timestamp, known.oldest_timestamp, found.0, found.1,
        );
        if let Some(Stage { epoch, step, parts }) = stage {
            let _ = write!(text, "stage-epoch {epoch}\nstage-step {step}\nstage-parts {parts}\n");
        }
        text.into_bytes()
    }

    /// None if it is no record, or one of a later version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let mut lines = str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split('\n');
        (lines.next()? == TITLE).then_some(())?;
        let mut lines = lines.peekable();
        let mut number =
            |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.parse::<i128>().ok();
        let mut unsigned = |name: &str| number(name).and_then(|number| u64::try_from(number).ok());
        let known = Recovered {
            epoch: unsigned("epoch")?,
            last_id: unsigned("last-id")?,
            timestamp: unsigned("timestamp")?,
            oldest_timestamp: unsigned("oldest-timestamp")?,
        };
        let owner = i64::try_from(number("owner")?).ok()?;
        let step = u64::try_from(number("step")?).ok()?;
        let found_owner = i64::try_from(number("found-owner")?).ok()?;
        let found_step = u64::try_from(number("found-step")?).ok()?;
        let stage = match number("stage-epoch") {
            None => None,
            Some(epoch) => Some(Stage {
                epoch: u64::try_from(epoch).ok()?,
                step: u64::try_from(number("stage-step")?).ok()?,
                parts: u32::try_from(number("stage-parts")?).ok()?,
            }),
        };
        // Nothing may follow that this version does not know.
        lines.next().is_none().then_some(Record {
            known,
            owner,
            step,
            found: (found_owner, found_step),
            stage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_being_read_and_written() {
        let known = Recovered { epoch: 3, last_id: u64::MAX, timestamp: 7, oldest_timestamp: 5 };
        let mut record = Record { known, owner: i64::MIN, step: 9, found: (-1, 4), stage: None };
        assert_eq!(Record::decode(&record.encode()), Some(record));
        record.stage = Some(Stage { epoch: 2, step: 8, parts: 3 });
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for end in 0..bytes.len() {
            assert_ne!(Record::decode(&bytes[..end]), Some(record));
        }
        let longer = [&bytes[..], b"more 1\n"].concat();
        assert_eq!(Record::decode(&longer), None);
        assert_eq!(Record::decode(&[b"manx 2\n", &bytes[7..]].concat()), None);
    }

    #[test]
    fn stores_share_no_keys() {
        let (one, other) = (Keys::new("a"), Keys::new("a/b"));
        let (first, end) = one.all();
        assert!(other.record() < first || other.record() >= end);
        let key = one.data(b"k\xff");
        assert!(key >= first && key < end && one.stored(&key) == b"k\xff");
        let (first, end) = one.all_data();
        assert!(one.data(b"") >= first && one.data(&[255; 9]) < end && one.record() >= end);
        let stage = Stage { epoch: 1, step: 2, parts: 3 };
        let (first, end) = one.parts(Some(stage));
        assert!(one.part(stage, 2) >= first && one.part(stage, 2) < end);
        let (first, end) = one.parts(None);
        assert!(one.part(stage, 0) >= first && one.part(stage, 0) < end);
    }
}
