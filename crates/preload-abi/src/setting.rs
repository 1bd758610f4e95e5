//! The types of the settings of `manx run`: how the values of each are read and written, and what
//! else the columns of their table hold ([`options`](crate::options)).

use crate::cpus::{Cpus, Place, Places};
use crate::escape::number;
use crate::filter::Entries;
use crate::slo::Slos;
use crate::words::{Choice, Word};
use core::fmt::{self, Result, Write};

/// A section of the help and of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading in the help.
    pub heading: &'static str,
    /// Its table in the file.
    pub table: &'static str,
}

/// Where the code is that obeys a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeyed {
    /// In the preload library.
    Library,
    /// In `manx run`.
    Launcher,
    /// In both.
    Both,
}

/// The type of a value, for what reads it from a command line or a file, or writes about it.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// One of these words; a wrong one is told that it is not what the text says.
    Word(&'static [Word], &'static str),
    /// Any of these words; the text is the noun for one.
    Words(&'static [Word], &'static str),
    /// On or off.
    Switch,
    /// A whole number.
    Number,
    /// A time.
    Microseconds,
    /// A ratio.
    Thousandths,
    /// [`Cpus`]
    Cpus,
    /// Classes of cores, as `MANX_CORES` has them.
    Cores,
    /// [`Slos`]
    Slos,
    /// [`Entries`]
    Entries,
    /// [`Stats`]
    Stats,
}

impl Form {
    /// How a value is written in `MANX_OPTIONS`, for users.
    pub const fn in_options(self) -> &'static str {
        match self {
            Form::Word(..) | Form::Words(..) => "the same words",
            Form::Switch => "`on` or `off`",
            Form::Number => "a whole number",
            Form::Microseconds => "µs",
            Form::Thousandths => "thousandths",
            Form::Cpus => "the same words, or a number",
            Form::Cores => "the same",
            Form::Slos => {
                "bound in ns, `:`, percentile in hundredths; for an epoch its id and `:` before that"
            }
            Form::Entries => "the same names",
            Form::Stats => "`off`, `stderr`, `live`, or a file for JSON",
        }
    }
}

/// A type of the table.
pub trait Kind {
    /// What the field of the options holds.
    type Value<'a>;
    /// How it is written elsewhere.
    const FORM: Form;

    /// Reads a value of `MANX_OPTIONS`.
    fn read(text: &[u8]) -> Option<Self::Value<'_>>;

    /// Writes it as [`Kind::read`] reads it.
    fn write(value: Self::Value<'_>, out: &mut dyn Write) -> Result;
}

/// A count.
pub enum Number {}
/// A time.
pub enum Microseconds {}
/// A ratio.
pub enum Thousandths {}
/// Classes of cores, encoded as [`encode`](crate::escape::encode) does it.
pub enum Cores {}

/// Types whose values write themselves: `type => what the field holds, its form, how it is read`.
macro_rules! kinds {
    ($($name:ty => $value:ty, $form:expr, $read:expr;)+) => {$(
        impl Kind for $name {
            type Value<'a> = $value;
            const FORM: Form = $form;

            fn read(text: &[u8]) -> Option<Self::Value<'_>> {
                $read(text)
            }

            fn write(value: Self::Value<'_>, out: &mut dyn Write) -> Result {
                write!(out, "{value}")
            }
        }
    )+};
}

kinds! {
    Number => u32, Form::Number, number;
    Microseconds => u32, Form::Microseconds, number;
    Thousandths => u32, Form::Thousandths, |text| number(text).filter(|ratio| DILATIONS.contains(ratio));
    Cpus => Cpus, Form::Cpus, Cpus::from_word;
    Cores => &'a str, Form::Cores, |text| core::str::from_utf8(text).ok();
    Places => Places, Form::Words(Place::WORDS, "place"), Places::parse;
    Slos<'static> => Slos<'a>, Form::Slos, Slos::parse;
    Entries<'static> => Entries<'a>, Form::Entries, |text| Entries::try_from(text).ok();
    Stats<'static> => Stats<'a>, Form::Stats, Stats::parse;
}

impl<T: Choice> Kind for T {
    type Value<'a> = T;
    const FORM: Form = Form::Word(T::WORDS, T::NOUN);

    fn read(text: &[u8]) -> Option<T> {
        T::chosen(text)
    }

    fn write(value: T, out: &mut dyn Write) -> Result {
        out.write_str(value.name())
    }
}

impl Kind for bool {
    type Value<'a> = bool;
    const FORM: Form = Form::Switch;

    fn read(text: &[u8]) -> Option<bool> {
        match text {
            b"1" | b"on" => Some(true),
            b"0" | b"off" => Some(false),
            _ => None,
        }
    }

    fn write(value: bool, out: &mut dyn Write) -> Result {
        out.write_str(if value { "on" } else { "off" })
    }
}

/// Where statistics go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats<'a> {
    /// None are kept.
    Off,
    /// A table on standard error when the program exits normally.
    Stderr,
    /// They can be read while the program runs, and are gone when it has exited normally.
    Live,
    /// JSON in this file (still percent-encoded; see [`decode`](crate::escape::decode)).
    File(&'a [u8]),
}

impl<'a> Stats<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Option<Stats<'a>> {
        match text {
            b"" => None,
            b"off" => Some(Stats::Off),
            b"stderr" => Some(Stats::Stderr),
            b"live" => Some(Stats::Live),
            file => Some(Stats::File(file)),
        }
    }
}

impl fmt::Display for Stats<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> Result {
        f.write_str(match self {
            Stats::Off => "off",
            Stats::Stderr => "stderr",
            Stats::Live => "live",
            Stats::File(path) => core::str::from_utf8(path).map_err(|_| fmt::Error)?,
        })
    }
}

/// What the ratio of `dilate`, in thousandths, may be.
pub const DILATIONS: core::ops::RangeInclusive<u32> = 1000..=1_000_000;
