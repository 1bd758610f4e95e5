//! Classes in a user's words: `big:0-3,little:4-7`.
//!
//! The text is a list with commas, as the kernel writes lists of CPUs; a class's name and a colon
//! before a part hold for the parts behind it too, so `little:0,2,big:1,3` means what it seems to.
//! What is wrong is said with the part that is wrong and what to write instead.

use super::classes::{Classes, Source};
use super::set::ParseCpuListError;
use super::{Class, CpuSet};
use ParseClassesErrorKind as Kind;
use std::fmt;

/// The environment variable that says which CPU is of which class.
pub const VARIABLE: &str = "MANX_CORES";
/// In place of a list: that the CPUs are to be measured.
pub const MEASURED: &str = "measured";

/// A text that does not say which CPU is of which class.
///
/// ```
/// use manx::cpu::Classes;
///
/// let error = Classes::parse("big:0-3,small:4-7").unwrap_err();
/// let said = "`small:4-7`: there is no class `small`: write `big` or `little`";
/// assert_eq!(error.to_string(), said);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseClassesError {
    /// The part of the text that is wrong.
    pub part: String,
    /// What is wrong with it.
    pub kind: ParseClassesErrorKind,
}

/// What can be wrong with a text that says which CPU is of which class.
///
/// ```
/// use manx::cpu::{Classes, ParseClassesErrorKind};
///
/// let error = Classes::parse("big:0-1,little:1-3").unwrap_err();
/// assert_eq!(error.kind, ParseClassesErrorKind::Both);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseClassesErrorKind {
    /// There is no text.
    Empty,
    /// CPUs without a class.
    NoClass,
    /// The word `measured`, where nothing is measured.
    NotMeasuredHere,
    /// The class's name is none.
    UnknownClass(String),
    /// No list of CPUs.
    List(ParseCpuListError),
    /// CPUs that are in the other class too.
    Both,
    /// CPUs that the machine does not have; it has these.
    NotPresent {
        /// The machine's CPUs.
        machine: Box<CpuSet>,
    },
    /// Not even text.
    NoText,
}

impl Classes {
    /// Reads a text such as `big:0-3,little:4-7`. Whether the machine has these CPUs is not asked,
    /// and CPUs that are not named are in neither set: see [`Classes::on`].
    ///
    /// # Errors
    /// The text is no such thing; the error says which part of it, and what to write instead.
    pub fn parse(text: &str) -> Result<Classes, ParseClassesError> {
        let (mut big, mut little) = (CpuSet::EMPTY, CpuSet::EMPTY);
        if text.trim().is_empty() {
            return Err(ParseClassesError { part: String::new(), kind: Kind::Empty });
        }
        if text.trim() == MEASURED {
            return Err(ParseClassesError { part: MEASURED.into(), kind: Kind::NotMeasuredHere });
        }
        let mut class = None;
        for part in text.split(',').map(str::trim) {
            let bad = |kind| ParseClassesError { part: part.into(), kind };
            let cpus = match part.split_once(':') {
                Some((name, cpus)) => {
                    class =
                        Some(named(name.trim()).ok_or_else(|| bad(Kind::UnknownClass(name.trim().into())))?);
                    cpus
                }
                None => part,
            };
            let (own, other) = match class {
                Some(Class::Big) => (&mut big, &little),
                Some(Class::Little) => (&mut little, &big),
                None => return Err(bad(Kind::NoClass)),
            };
            own.insert_range(cpus.trim()).map_err(|error| bad(Kind::List(error)))?;
            let both = own.intersection(other);
            if !both.is_empty() {
                return Err(ParseClassesError { part: both.to_string(), kind: Kind::Both });
            }
        }
        Ok(Classes::new(&big, &little, Source::User))
    }

    /// The same for a machine that has these CPUs. CPUs that were not named belong to the class
    /// that was not named either, and to the big ones if both were.
    ///
    /// ```
    /// use manx::cpu::Classes;
    ///
    /// let machine = "0-7".parse().unwrap();
    /// let classes = Classes::parse("big:0-3")?.on(&machine)?;
    /// assert_eq!(classes.to_string(), "big:0-3,little:4-7");
    ///
    /// let error = Classes::parse("little:6-9")?.on(&machine).unwrap_err();
    /// assert!(error.to_string().contains("8-9"));
    /// # Ok::<(), manx::cpu::ParseClassesError>(())
    /// ```
    ///
    /// # Errors
    /// A CPU was named that the machine does not have.
    pub fn on(&self, machine: &CpuSet) -> Result<Classes, ParseClassesError> {
        let missing = self.big().union(self.little()).difference(machine);
        if !missing.is_empty() {
            let kind = Kind::NotPresent { machine: Box::new(machine.clone()) };
            return Err(ParseClassesError { part: missing.to_string(), kind });
        }
        let little =
            if self.little().is_empty() { machine.difference(self.big()) } else { self.little().clone() };
        Ok(Classes::new(machine, &little, self.source()))
    }
}

fn named(name: &str) -> Option<Class> {
    [Class::Big, Class::Little].into_iter().find(|class| class.name() == name)
}

impl std::str::FromStr for Classes {
    type Err = ParseClassesError;

    fn from_str(text: &str) -> Result<Classes, ParseClassesError> {
        Classes::parse(text)
    }
}

impl fmt::Display for ParseClassesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXAMPLE: &str = "such as `big:0-3,little:4-7`";
        let part = &self.part;
        match &self.kind {
            Kind::Empty => write!(f, "it is empty: write the CPUs of each class, {EXAMPLE}"),
            Kind::NoText => write!(f, "it is no valid text: write the CPUs of each class, {EXAMPLE}"),
            Kind::NoClass => write!(f, "`{part}`: of which class? Write it before the CPUs, {EXAMPLE}"),
            Kind::NotMeasuredHere => {
                write!(f, "`{part}`: nothing is measured here: write the CPUs of each class, {EXAMPLE}")
            }
            Kind::UnknownClass(name) => {
                write!(f, "`{part}`: there is no class `{name}`: write `big` or `little`")
            }
            Kind::List(error) => write!(f, "{error}"),
            Kind::Both => write!(f, "{part} is big and little at once: name each CPU in one class only"),
            Kind::NotPresent { machine } => {
                write!(f, "CPU {part} is not in this machine: write CPUs among {machine}")
            }
        }
    }
}

impl std::error::Error for ParseClassesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::List(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_written_back() {
        for (text, written) in [
            ("big:0-3,little:4-7", "big:0-3,little:4-7"),
            ("little:4-7,big:0-3", "big:0-3,little:4-7"),
            (" little : 0 , 2 ,big: 1,3 ", "big:1,3,little:0,2"),
            ("big:0,big:1,little:2-3,2", "big:0-1,little:2-3"),
            ("little:5", "little:5"),
        ] {
            let classes = Classes::parse(text).expect(text);
            assert_eq!(classes.to_string(), written);
            assert_eq!(written.parse(), Ok(classes));
        }
    }

    #[test]
    fn an_error_names_the_wrong_part_and_a_remedy() {
        for (text, said) in [
            ("", "it is empty: write the CPUs of each class, such as `big:0-3,little:4-7`"),
            (
                "measured",
                "`measured`: nothing is measured here: write the CPUs of each class, such as `big:0-3,little:4-7`",
            ),
            ("0-3,little:4", "`0-3`: of which class? Write it before the CPUs, such as `big:0-3,little:4-7`"),
            ("big:0,medium:1", "`medium:1`: there is no class `medium`: write `big` or `little`"),
            ("Big:0", "`Big:0`: there is no class `Big`: write `big` or `little`"),
            ("big:", "`` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("big:0-3,", "`` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("big:all", "`all` is no CPU: write a number such as `3`, or a range such as `0-3`"),
            ("little:3-1", "`3-1` is a range that runs backwards: write `1-3`"),
            ("little:0-9000", "`0-9000`: no CPU has such a number: write one from 0 to 8191"),
            ("big:0-3,little:2-7", "2-3 is big and little at once: name each CPU in one class only"),
        ] {
            assert_eq!(Classes::parse(text).unwrap_err().to_string(), said, "{text:?}");
        }
    }

    #[test]
    fn cpus_without_a_class_get_the_class_that_is_not_named() {
        let machine = "0-7".parse().unwrap();
        for (text, written) in [
            ("big:0-3", "big:0-3,little:4-7"),
            ("little:0-1", "big:2-7,little:0-1"),
            ("big:0,little:1", "big:0,2-7,little:1"),
            ("big:0-7", "big:0-7"),
        ] {
            assert_eq!(Classes::parse(text).unwrap().on(&machine).unwrap().to_string(), written, "{text}");
        }
        let error = Classes::parse("big:0,little:7-8,12").unwrap().on(&machine).unwrap_err();
        assert_eq!(error.to_string(), "CPU 8,12 is not in this machine: write CPUs among 0-7");
    }
}
