//! From answers to bytes, in the version that the client speaks.
//!
//! RESP 3 has names for what RESP 2 says in arrays: where a method's name is that of a RESP 3 type,
//! RESP 2 gets the nearest that it has. Answers pile up here until they are sent; where a command
//! has to be done again, what it has answered is cut off.

use std::cell::RefCell;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Until the client says otherwise.
    #[default]
    Two,
    /// After `HELLO 3`.
    Three,
}

/// Answers, one behind the other, as they are sent.
///
/// ```
/// use server::resp::{Replies, Version};
///
/// let mut replies = Replies::new(usize::MAX);
/// replies.array(2);
/// replies.bulk(b"key");
/// replies.null();
/// assert_eq!(replies.bytes(), b"*2\r\n$3\r\nkey\r\n$-1\r\n");
/// replies.set_version(Version::Three);
/// replies.null();
/// assert!(replies.bytes().ends_with(b"_\r\n"));
/// ```
#[derive(Debug)]
pub struct Replies {
    bytes: Vec<u8>,
    /// How many of them have been sent.
    sent: usize,
    version: Version,
    bytes_max: usize,
    /// What has to be durable before they are sent, and where the first answer begins that says so.
    awaited: Option<Awaited>,
}

/// Answers that wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The place of the last commit of which they tell.
    pub(crate) place: u64,
    /// Where the first of them begins.
    pub(crate) mark: usize,
}

/// What is kept of the memory when nothing is in it.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// Memory for the next answers: connections without any have none.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Replies {
    /// Nothing yet. More than `bytes_max` are too many ([`Replies::is_over`]).
    pub fn new(bytes_max: usize) -> Replies {
        Replies { bytes: Vec::new(), sent: 0, version: Version::Two, bytes_max, awaited: None }
    }

    /// What is to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Removes this number of bytes, which have been sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.sent = 0;
        } else if self.sent > KEPT_BYTES && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Answers are about to come.
    pub(crate) fn begin(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.take();
        }
    }

    /// The memory that they have, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// A turn is over: memory with nothing in it is left to the thread.
    pub(crate) fn rest(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            SPARE.set(std::mem::take(&mut self.bytes));
        }
    }

    /// Whether there is more than may be: then nothing of it is sent any more, and a command need
    /// not go on with its answer.
    pub fn is_over(&self) -> bool {
        self.bytes.len() - self.sent > self.bytes_max
    }

    /// Returns how many bytes may still be added.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes.len() - self.sent)
    }

    /// The protocol's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// From the next answer on.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Where the next answer will begin, for [`Replies::cut`]; until something is sent.
    pub(crate) fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Takes away what was answered since.
    pub(crate) fn split_off(&mut self, mark: usize) -> Vec<u8> {
        self.bytes.split_off(mark)
    }

    /// Answers that were [taken away](Replies::split_off).
    pub(crate) fn append(&mut self, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
    }

    /// Takes back what was answered since.
    pub(crate) fn cut(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }

    /// The answer that began at this mark tells of what was committed with this place; 0 if it
    /// tells of nothing that is not durable.
    #[inline]
    pub(crate) fn awaits(&mut self, place: u64, mark: usize) {
        if place > 0 {
            let awaited = self.awaited.get_or_insert(Awaited { place, mark });
            awaited.place = awaited.place.max(place);
        }
    }

    /// What has to be durable before anything more is sent.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        self.awaited.filter(|_| !self.bytes().is_empty())
    }

    /// It is, or the answers that tell of it were taken back.
    pub(crate) fn arrived(&mut self) {
        self.awaited = None;
    }

    fn length(&mut self, kind: u8, count: impl itoa::Integer) {
        let mut digits = itoa::Buffer::new();
        self.bytes.push(kind);
        self.bytes.extend_from_slice(digits.format(count).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: a word in capitals, and what is wrong. Line ends become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        self.bytes.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A whole number.
    pub fn integer(&mut self, value: i64) {
        self.length(b':', value);
    }

    /// A number with a fraction, as Redis writes it: `inf`, or 17 digits at most.
    pub fn double(&mut self, value: f64) {
        self.digits(&crate::scores::text(value));
    }

    /// A number with a fraction, in these digits.
    pub(crate) fn digits(&mut self, text: &str) {
        if self.version == Version::Two {
            return self.bulk(text.as_bytes());
        }
        self.line(b',', text);
    }

    /// How many.
    pub fn count(&mut self, count: usize) {
        self.length(b':', count);
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.bytes.reserve(bytes.len() + 24);
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Bytes, or no value.
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        if self.version == Version::Two {
            return self.bulk(text.as_bytes());
        }
        self.length(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.version == Version::Two { b"$-1\r\n" } else { b"_\r\n" });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.version == Version::Two { b"*-1\r\n" } else { b"_\r\n" });
    }

    /// Begins an answer that consists of the next `count` answers.
    pub fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// Begins what the client has not asked for just now, and consists of the next `count` answers.
    pub fn push(&mut self, count: usize) {
        self.length(self.push_kind(), count);
    }

    fn push_kind(&self) -> u8 {
        if self.version == Version::Two { b'*' } else { b'>' }
    }

    /// A push that was encoded in either version. They differ in the first byte.
    pub(crate) fn encoded_push(&mut self, encoded: &[u8]) {
        self.bytes.push(self.push_kind());
        self.bytes.extend_from_slice(&encoded[1..]);
    }

    /// Begins an answer that consists of the next `count` answers, in any order.
    pub fn set(&mut self, count: usize) {
        self.length(if self.version == Version::Two { b'*' } else { b'~' }, count);
    }

    /// Begins an answer that consists of the next `pairs` pairs of answers.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.length(b'*', pairs.saturating_mul(2)),
            Version::Three => self.length(b'%', pairs),
        }
    }
}
