//! The document that an update makes of another: by `$set` of fields, or a replacement.

use crate::fault::{Code, Fault};
use bson::raw::{CStr, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use std::collections::BTreeMap;

/// The most bytes of a document: mongod's limit.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// An update that is understood.
#[derive(Debug)]
pub enum Update<'a> {
    /// These fields get these values. They are in the order in which mongod appends new ones.
    Set(BTreeMap<&'a str, (&'a CStr, RawBsonRef<'a>)>),
    /// This is the document from now on.
    Replace(&'a RawDocument),
}

impl<'a> Update<'a> {
    /// Reads the `u` of a statement.
    ///
    /// # Errors
    /// It is an update of another kind.
    pub fn of(update: RawBsonRef<'a>) -> Result<Update<'a>, Fault> {
        let refused = |what: &str| {
            let message = format!("{what} is not supported: give $set or a replacement");
            Err(Fault::new(Code::FailedToParse, message))
        };
        let Some(update) = update.as_document() else { return refused("an update by a pipeline") };
        let mut fields = BTreeMap::new();
        let mut operators = 0;
        for (at, element) in update.into_iter().enumerate() {
            let (name, value) = element?;
            match (name.as_str(), value) {
                ("$set", RawBsonRef::Document(set)) if operators == at => {
                    for element in set {
                        let (name, value) = element?;
                        if name.as_str().is_empty() || name.as_str().contains(['.', '$']) {
                            return refused(&format!("$set of the field '{}'", name.as_str()));
                        }
                        fields.insert(name.as_str(), (name, value));
                    }
                    operators += 1;
                }
                (operator, _) if operator.starts_with('$') => {
                    return refused(&format!("the update operator {operator}"));
                }
                _ if operators > 0 => return refused("a field beside $set"),
                _ => (),
            }
        }
        Ok(if operators > 0 { Update::Set(fields) } else { Update::Replace(update) })
    }

    /// The document afterwards. It has this `_id`, and is what `before` was, or is new.
    ///
    /// # Errors
    /// It would have another `_id`, or be too long.
    pub fn apply(&self, id: RawBsonRef<'_>, before: Option<&RawDocument>) -> Result<RawDocumentBuf, Fault> {
        let kept = before.map(|before| before.get("_id")).transpose()?.flatten().unwrap_or(id);
        let given = match self {
            Update::Set(set) => set.get("_id").map(|(_, value)| *value),
            Update::Replace(document) => document.get("_id")?,
        };
        if given.is_some_and(|given| given != kept) {
            let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
            return Err(Fault::new(Code::ImmutableField, message));
        }
        let mut after = RawDocumentBuf::new();
        after.append(cstr!("_id"), kept);
        let (fields, mut set) = match self {
            Update::Set(set) => (before, set.clone()),
            Update::Replace(document) => (Some(*document), BTreeMap::new()),
        };
        set.remove("_id");
        for element in fields.into_iter().flatten() {
            let (name, value) = element?;
            if name.as_str() != "_id" {
                after.append(name, set.remove(name.as_str()).map_or(value, |(_, value)| value));
            }
        }
        set.into_values().for_each(|(name, value)| after.append(name, value));
        let bytes = after.as_bytes().len();
        if bytes > DOCUMENT_BYTES_MAX {
            let message = format!("a document of {bytes} bytes: {DOCUMENT_BYTES_MAX} may be");
            return Err(Fault::new(Code::BSONObjectTooLarge, message));
        }
        Ok(after)
    }
}
