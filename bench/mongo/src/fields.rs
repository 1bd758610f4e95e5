//! The fields of a command, or of a document inside one. Each is taken by its name; what is left is
//! not known, and a client that means something by it must hear so.

use crate::fault::{Code, Fault};
use bson::raw::{RawBsonRef, RawDocument};

/// Fields that any command may have and that change nothing here: there is one server, whose reads
/// see all commits, and no operation is ended for its time.
const WITHOUT_EFFECT: [&str; 7] =
    ["$db", "$readPreference", "$clusterTime", "lsid", "comment", "maxTimeMS", "readConcern"];

/// See [the module](self).
#[derive(Debug)]
pub struct Fields<'a> {
    of: &'a str,
    left: Vec<(&'a str, RawBsonRef<'a>)>,
}

impl<'a> Fields<'a> {
    /// The fields of a document; `of` is its name in errors.
    ///
    /// # Errors
    /// It is not BSON.
    pub fn of(of: &'a str, document: &'a RawDocument) -> Result<Fields<'a>, Fault> {
        let field = |element: bson::error::Result<(&'a bson::raw::CStr, RawBsonRef<'a>)>| {
            element.map(|(name, value)| (name.as_str(), value))
        };
        Ok(Fields { of, left: document.into_iter().map(field).collect::<Result<_, _>>()? })
    }

    /// The value of a field, if there is one.
    pub fn take(&mut self, name: &str) -> Option<RawBsonRef<'a>> {
        let at = self.left.iter().position(|(field, _)| *field == name)?;
        Some(self.left.swap_remove(at).1)
    }

    /// The value of a field that has to be there.
    ///
    /// # Errors
    /// It is not there.
    pub fn need(&mut self, name: &str) -> Result<RawBsonRef<'a>, Fault> {
        let of = self.of;
        self.take(name).ok_or_else(|| {
            Fault::new(
                Code::Location40414,
                format!("BSON field '{of}.{name}' is missing but a required field"),
            )
        })
    }

    fn typed<T>(
        &mut self,
        name: &str,
        what: &str,
        read: impl FnOnce(RawBsonRef<'a>) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| {
            let found = value.element_type();
            let message =
                format!("BSON field '{}.{name}' is of type {found:?}, and has to be {what}", self.of);
            Fault::new(Code::TypeMismatch, message)
        })
    }

    /// A document.
    ///
    /// # Errors
    /// It is something else.
    pub fn document(&mut self, name: &str) -> Result<Option<&'a RawDocument>, Fault> {
        self.typed(name, "a document", RawBsonRef::as_document)
    }

    /// A text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&mut self, name: &str) -> Result<Option<&'a str>, Fault> {
        self.typed(name, "a string", RawBsonRef::as_str)
    }

    /// A flag; false if it is not there.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.typed(name, "a boolean", is_true)?.unwrap_or(default))
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// It is something else.
    pub fn count(&mut self, name: &str) -> Result<Option<u64>, Fault> {
        self.typed(name, "a whole number that is not negative", |value| u64::try_from(integer(value)?).ok())
    }

    /// Makes sure that nothing is left.
    ///
    /// # Errors
    /// Something is left.
    pub fn end(self) -> Result<(), Fault> {
        let unknown = self.left.iter().find(|(name, _)| !WITHOUT_EFFECT.contains(name));
        unknown.map_or(Ok(()), |(name, _)| {
            let message = format!("BSON field '{}.{name}' is not supported", self.of);
            Err(Fault::new(Code::Location40415, message))
        })
    }
}

/// A whole number of any of BSON's types.
pub fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        // 2^63 itself is no i64.
        RawBsonRef::Double(number) if number.fract() == 0.0 && (-TWO_63..TWO_63).contains(&number) => {
            Some(number as i64)
        }
        _ => None,
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// A boolean, or a number in its place.
pub fn is_true(value: RawBsonRef<'_>) -> Option<bool> {
    match value {
        RawBsonRef::Boolean(flag) => Some(flag),
        RawBsonRef::Double(number) => Some(number != 0.0),
        value => integer(value).map(|number| number != 0),
    }
}
