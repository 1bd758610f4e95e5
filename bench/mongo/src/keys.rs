//! Collections and the `_id`s in them, as keys of one ordered table.
//!
//! A key is `database.collection`, a zero byte, and the `_id`: a byte for its type, and its bytes
//! in the order of its values. Numbers that are equal have one key, of whatever type they are.

use crate::fault::{Code, Fault, shown};
use crate::fields::integer;
use bson::raw::{RawBsonRef, RawDocument};

/// A collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `database.collection`.
    pub name: String,
}

impl Namespace {
    /// The collection of a database.
    ///
    /// # Errors
    /// A name is not one.
    pub fn new(database: &str, collection: &str) -> Result<Namespace, Fault> {
        let fine = |name: &str| !name.is_empty() && !name.contains('\0');
        if !fine(database) || !fine(collection) || database.contains(['.', '/']) {
            let message = format!(
                "Invalid namespace specified '{}'",
                format!("{database}.{collection}").escape_debug()
            );
            return Err(Fault::new(Code::InvalidNamespace, message));
        }
        Ok(Namespace { name: format!("{database}.{collection}") })
    }

    /// The key of a document.
    ///
    /// # Errors
    /// An `_id` of this type is not served.
    pub fn key(&self, id: RawBsonRef<'_>) -> Result<Vec<u8>, Fault> {
        let mut key = Vec::with_capacity(self.name.len() + 32);
        key.extend(self.name.bytes());
        key.push(0);
        // The sign bit is turned, so that the order of bytes is that of numbers.
        let ordered = |number: i64| (number.cast_unsigned() ^ 1 << 63).to_be_bytes();
        match id {
            id if let Some(number) = integer(id) => {
                key.push(b'i');
                key.extend(ordered(number));
            }
            RawBsonRef::Double(number) => {
                key.push(b'j');
                // All that are no numbers are one.
                key.extend(if number.is_nan() { f64::NAN } else { number }.to_bits().to_be_bytes());
            }
            RawBsonRef::String(text) => {
                key.push(b's');
                key.extend(text.bytes());
            }
            RawBsonRef::ObjectId(id) => {
                key.push(b'o');
                key.extend(id.bytes());
            }
            RawBsonRef::Binary(binary) => {
                key.extend([b'b', binary.subtype.into()]);
                key.extend(binary.bytes);
            }
            RawBsonRef::Boolean(flag) => key.extend([b'f', flag.into()]),
            RawBsonRef::DateTime(time) => {
                key.push(b't');
                key.extend(ordered(time.timestamp_millis()));
            }
            RawBsonRef::Null => key.push(b'a'),
            other => {
                let message = format!("an _id of type {:?} is not supported", other.element_type());
                return Err(Fault::new(Code::BadValue, message));
            }
        }
        Ok(key)
    }

    /// The bounds of all keys of the collection: from the first, below the second.
    pub fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let with = |end| [self.name.as_bytes(), &[end]].concat();
        (with(0), with(1))
    }
}

/// The `_id` of a filter by `_id`; `None` for a filter that all documents meet.
///
/// # Errors
/// It is another filter.
pub fn id_of_filter(filter: &RawDocument) -> Result<Option<RawBsonRef<'_>>, Fault> {
    let mut fields = filter.into_iter();
    let Some(first) = fields.next() else { return Ok(None) };
    match (first?, fields.next()) {
        ((name, value), None) if name.as_str() == "_id" => match value.as_document() {
            None => Ok(Some(value)),
            Some(operators) => {
                let mut inner = operators.into_iter();
                match (inner.next().transpose()?, inner.next()) {
                    (Some((operator, value)), None) if operator.as_str() == "$eq" => Ok(Some(value)),
                    _ => Err(only_by_id(filter)),
                }
            }
        },
        _ => Err(only_by_id(filter)),
    }
}

fn only_by_id(filter: &RawDocument) -> Fault {
    let shown = shown(RawBsonRef::Document(filter));
    let message = format!("the filter {shown} is not supported: give one value of _id, or in find no filter");
    Fault::new(Code::BadValue, message)
}
