//! What a setting of `manx run` is: the columns of the table in [`options`](crate::options), and
//! how the values of each type are read and written.

use crate::cpus::{Cpus, Place, Places};
use crate::escape::number;
use crate::filter::Entries;
use crate::options::{DILATIONS, Options, Stats};
use crate::slo::Slos;
use crate::words::Word;
use core::fmt::{Result, Write};

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its field of [`Options`] and its key in `MANX_OPTIONS`: the key of the file with `_` for
    /// `-`, and behind that the unit if the value there is a bare number.
    pub name: &'static str,
    /// An older name, which `MANX_OPTIONS` may still use.
    pub formerly: &'static str,
    /// Its key in the file, and behind `--` its flag. Empty if only the launcher itself sets it.
    pub key: &'static str,
    /// The flag if it is not the key: `no-KEY` for a switch that is on by default.
    pub flag: &'static str,
    /// The flag's letter.
    pub letter: Option<char>,
    /// The help; an empty line separates the first paragraph from what only `--help` shows.
    pub help: &'static str,
    /// The type of its value.
    pub form: Form,
    /// How the help names the value.
    pub value: &'static str,
    /// What the number in `MANX_OPTIONS` counts.
    pub unit: &'static str,
    /// The section that it belongs to, if it is not one of the first.
    pub section: Option<Section>,
    /// A value for the documented file, where its default would show nothing.
    pub example: &'static str,
    /// For tests: the flag is not listed, and it is no key of the file.
    pub is_hidden: bool,
    /// Where the code is that obeys it. What the launcher alone obeys is not in `MANX_OPTIONS`.
    pub obeyed_by: Obeyed,
    /// The first [`VERSION`](crate::VERSION) of the library that knows it, under this name.
    pub since: u32,
    /// Reads its value of `MANX_OPTIONS`.
    pub(crate) read: for<'a> fn(&mut Options<'a>, &'a [u8]) -> Option<()>,
    /// Writes its value as `read` reads it.
    pub write: fn(&Options<'_>, &mut dyn Write) -> Result,
    /// Whether its value is the default.
    pub is_default: fn(&Options<'_>) -> bool,
}

impl Setting {
    /// What an entry does not say.
    pub(crate) const UNSAID: Setting = Setting {
        name: "",
        formerly: "",
        key: "",
        flag: "",
        letter: None,
        help: "",
        form: Form::Number,
        value: "",
        unit: "",
        section: None,
        example: "",
        is_hidden: false,
        obeyed_by: Obeyed::Library,
        since: 0,
        read: |_, _| None,
        write: |_, _| Ok(()),
        is_default: |_| true,
    };

    /// Whether `MANX_OPTIONS` calls it so.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        !name.is_empty() && [self.name.as_bytes(), self.formerly.as_bytes()].contains(&name)
    }

    /// Whether the library never sees it.
    pub const fn is_launchers(&self) -> bool {
        matches!(self.obeyed_by, Obeyed::Launcher)
    }

    /// Its flag, without the hyphens.
    pub const fn flag(&self) -> &'static str {
        if self.flag.is_empty() { self.key } else { self.flag }
    }

    /// Whether users may say it in a file.
    pub const fn is_in_files(&self) -> bool {
        !self.key.is_empty() && !self.is_hidden
    }
}

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
    /// What the field of [`Options`] holds.
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
/// Classes of cores, encoded as [`encode`](crate::options::encode) does it.
pub enum Cores {}

/// Types whose values write themselves: `type => what the field holds, its form, how it is read`.
macro_rules! kinds {
    ($($name:ty => $value:ty, $form:expr, $read:expr;)+) => {$(
        impl Kind for $name {
            type Value<'a> = $value;
            const FORM: Form = $form;

            fn read<'a>(text: &'a [u8]) -> Option<$value> {
                $read(text)
            }

            fn write<'a>(value: $value, out: &mut dyn Write) -> Result {
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
