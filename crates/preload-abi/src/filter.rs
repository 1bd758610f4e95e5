//! Filters: which programs, libraries and loops are meant (`only=…`, `not=…`).
//!
//! An entry names an executable, or a module of a process (a library, or the program's own file),
//! or loops in a module:
//!
//! | entry | names |
//! | --- | --- |
//! | `NAME`, `exe:NAME` | an executable. `exe:` is needed only if NAME looks like a library's |
//! | `NAME.so`, `NAME.so.6`, `lib:NAME` | a module. A name in which `.so` is followed by `.`, `*` or the end is a library's; other modules need `lib:` |
//! | `MODULE:SYMBOL` | the loops of a module that lie in a function which the module exports |
//! | `MODULE:0xOFFSET` | the loop at this offset of a module, as statistics and `manx run --dry-run` show it |
//!
//! Names are file names without a folder. In names and symbols `*` stands for any number of bytes.
//!
//! 1. **Executables.** An executable is meant if it is named by `only`, or `only` names no
//!    executable, and if it is not named by `not`. The library does nothing in a process whose
//!    executable is not meant; what that process starts is judged by its own name. An executable
//!    has two names: that of its file, and that by which it was started, such as a link's or a
//!    script's. An entry names it if it names either.
//! 2. **Loops.** A loop is meant if `only` names it, its function or its module, or `only` names no
//!    module at all, and if `not` names none of these. Loops that are not meant are not repaired.
//!    All else that Manx does in the process stays.
//!
//! In the options string, entries are separated by `+`, and a `+` in a name is `%2B`, besides what
//! [`options`](crate::options) writes as `%XX`. An encoded byte is never a separator, so a file's
//! name may hold a colon as `%3A`.

use crate::escape::{encode, hex};
use core::fmt;

/// The longest list, in bytes of the options string.
pub const LIST_MAX: usize = 2048;

/// What is said of a loop that is not repaired because it is not meant.
pub const NOT_MEANT: &str = "not meant";

/// A name in which `*` stands for any bytes. Still encoded, and known to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<'a>(&'a [u8]);

impl<'a> Pattern<'a> {
    fn of(text: &'a [u8]) -> Result<Pattern<'a>, Fault> {
        if text.is_empty() {
            return Err(Fault::Empty);
        }
        let mut rest = text;
        while let [first, behind @ ..] = rest {
            rest = match (first, behind) {
                (b'%', [high, low, behind @ ..]) if hex(*high).is_some() && hex(*low).is_some() => behind,
                (b'%', _) => return Err(Fault::Encoding),
                (byte, behind) if byte.is_ascii_graphic() => behind,
                _ => return Err(Fault::Encoding),
            };
        }
        Ok(Pattern(text))
    }

    fn bytes(self) -> Decoded<'a> {
        Decoded(self.0)
    }

    /// Whether this names `name`.
    ///
    /// ```
    /// use preload_abi::filter::Filters;
    /// let filters = Filters { only: b"mongo*".try_into().unwrap(), ..Filters::default() };
    /// assert!(filters.executable(&[b"mongod"]) && !filters.executable(&[b"sh"]));
    /// ```
    pub fn names(self, name: &[u8]) -> bool {
        let (mut pattern, mut at) = (self.bytes(), 0);
        // What stands behind the last `*`, and where in the name that was tried last.
        let mut star: Option<(Decoded<'_>, usize)> = None;
        loop {
            let mut behind = pattern;
            match (behind.next(), name.get(at)) {
                (Some(b'*'), _) => {
                    star = Some((behind, at));
                    pattern = behind;
                }
                (Some(wanted), Some(&byte)) if wanted == byte => {
                    at += 1;
                    pattern = behind;
                }
                (None, None) => return true,
                _ => match &mut star {
                    Some((behind, tried)) if *tried < name.len() => {
                        *tried += 1;
                        (pattern, at) = (*behind, *tried);
                    }
                    _ => return false,
                },
            }
        }
    }
}

/// The bytes that an encoded and well-formed text stands for.
#[derive(Clone, Copy)]
struct Decoded<'a>(&'a [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, behind) = self.0.split_first()?;
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                self.0 = behind;
                Some(hex(*high)? << 4 | hex(*low)?)
            }
            _ => {
                self.0 = behind;
                Some(first)
            }
        }
    }
}

/// What an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// An executable.
    Executable(Pattern<'a>),
    /// A module.
    Module(Pattern<'a>),
    /// The loops of a module in functions of this name.
    Symbol(Pattern<'a>, Pattern<'a>),
    /// The loop of a module at this offset.
    Offset(Pattern<'a>, u64),
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A name is empty.
    Empty,
    /// A name holds a slash.
    Folder,
    /// `exe:` has loops behind it.
    LoopsOfExecutable,
    /// A symbol holds a colon.
    Colon,
    /// An offset is no hexadecimal number of 64 bits.
    Offset,
    /// A `%` is not followed by two hexadecimal digits, or a byte is not printable ASCII.
    Encoding,
    /// The list is longer than [`LIST_MAX`].
    TooLong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Empty => "a name is missing: write an executable, a library, LIBRARY:SYMBOL or LIBRARY:0xOFFSET",
            Fault::Folder => "a name is a file's, without its folder: write libfoo.so, not /lib/libfoo.so",
            Fault::LoopsOfExecutable => "loops of an executable are named with lib: write lib:NAME:SYMBOL",
            Fault::Colon => {
                "a symbol holds no colon: write it as `manx run --dry-run` shows it, as _ZN3foo3barEv for foo::bar()"
            }
            Fault::Offset => "an offset is a hexadecimal number of at most 16 digits, as in libfoo.so:0x1a2b",
            Fault::Encoding => "a % has two hexadecimal digits behind it, and what is not printable ASCII is written as %XX",
            Fault::TooLong => "the list is too long",
        })
    }
}

impl<'a> Entry<'a> {
    /// Reads an entry of an options string.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &'a [u8]) -> Result<Entry<'a>, Fault> {
        if let Some(name) = text.strip_prefix(b"exe:") {
            return match split_at_colon(name) {
                (_, Some(_)) => Err(Fault::LoopsOfExecutable),
                (name, None) => file(name).map(Entry::Executable),
            };
        }
        let (said, rest) = text.strip_prefix(b"lib:").map_or((false, text), |rest| (true, rest));
        let (name, place) = split_at_colon(rest);
        let module = file(name)?;
        match place {
            None if said || is_library(name) => Ok(Entry::Module(module)),
            None => Ok(Entry::Executable(module)),
            Some(place) => match place.strip_prefix(b"0x") {
                Some(digits) => {
                    offset(digits).map(|offset| Entry::Offset(module, offset)).ok_or(Fault::Offset)
                }
                None if place.contains(&b':') => Err(Fault::Colon),
                None => Pattern::of(place).map(|symbol| Entry::Symbol(module, symbol)),
            },
        }
    }

    /// Whether this names something in modules, and not an executable.
    const fn is_in_module(&self) -> bool {
        !matches!(self, Entry::Executable(_))
    }
}

fn split_at_colon(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&b| b == b':') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn file(name: &[u8]) -> Result<Pattern<'_>, Fault> {
    let pattern = Pattern::of(name)?;
    if pattern.bytes().any(|byte| byte == b'/') { Err(Fault::Folder) } else { Ok(pattern) }
}

/// Whether a name is a library's: `.so` stands in it before `.`, `*` or the end.
fn is_library(name: &[u8]) -> bool {
    let behind = |at: usize| name.get(at + 3).is_none_or(|&next| next == b'.' || next == b'*');
    name.windows(3).enumerate().any(|(at, part)| part == b".so" && behind(at))
}

fn offset(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |all, &digit| Some(all << 4 | u64::from(hex(digit)?)))
}

/// The entries of `only` or of `not`: well-formed, as they stand in the options string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> TryFrom<&'a [u8]> for Entries<'a> {
    type Error = Fault;

    /// Reads the value of `only` or `not`; nothing stands for no entries.
    fn try_from(value: &'a [u8]) -> Result<Entries<'a>, Fault> {
        if value.len() > LIST_MAX {
            return Err(Fault::TooLong);
        }
        if !value.is_empty() {
            value.split(|&b| b == b'+').try_for_each(|entry| Entry::parse(entry).map(drop))?;
        }
        Ok(Entries(value))
    }
}

impl<'a, const N: usize> TryFrom<&'a [u8; N]> for Entries<'a> {
    type Error = Fault;

    fn try_from(value: &'a [u8; N]) -> Result<Entries<'a>, Fault> {
        value.as_slice().try_into()
    }
}

impl<'a> Entries<'a> {
    /// No entries.
    pub const NONE: Entries<'static> = Entries(b"");

    /// Each entry.
    pub fn iter(self) -> impl Iterator<Item = Entry<'a>> {
        self.0.split(|&b| b == b'+').filter_map(|entry| Entry::parse(entry).ok())
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Those that name functions or places of this module.
    pub fn in_module(self, module: &[u8]) -> impl Iterator<Item = Entry<'a>> {
        self.iter().filter(move |entry| match entry {
            Entry::Symbol(name, _) | Entry::Offset(name, _) => name.names(module),
            _ => false,
        })
    }

    /// Whether an entry names a program or a library, and nothing in it.
    pub fn has_whole(self) -> bool {
        self.iter().any(|entry| matches!(entry, Entry::Executable(_) | Entry::Module(_)))
    }

    fn executables(self) -> impl Iterator<Item = Pattern<'a>> {
        self.iter().filter_map(|entry| match entry {
            Entry::Executable(name) => Some(name),
            _ => None,
        })
    }

    /// Whether an entry names the whole module.
    fn has_module(self, module: &[u8]) -> bool {
        self.iter().any(|entry| matches!(entry, Entry::Module(name) if name.names(module)))
    }

    /// Whether an entry names the loop, its function or its module.
    fn has_loop(self, place: &Place<'_>) -> bool {
        self.iter().any(|entry| match entry {
            Entry::Executable(_) => false,
            Entry::Module(module) => module.names(place.module),
            Entry::Symbol(module, symbol) => module.names(place.module) && (place.lies_in)(symbol),
            Entry::Offset(module, offset) => module.names(place.module) && offset == place.offset,
        })
    }
}

impl fmt::Display for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.0).map_err(|_| fmt::Error)?)
    }
}

/// Where a loop is.
pub struct Place<'a> {
    /// The file name of its module.
    pub module: &'a [u8],
    /// Its address, without what the loader has added.
    pub offset: u64,
    /// Whether it lies in a function that the module exports by such a name. Asked only for entries
    /// with a symbol.
    pub lies_in: &'a dyn Fn(Pattern<'_>) -> bool,
}

/// Both lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Filters<'a> {
    /// `only=…`
    pub only: Entries<'a>,
    /// `not=…`
    pub not: Entries<'a>,
}

impl Filters<'_> {
    /// Whether all is meant.
    pub const fn is_empty(&self) -> bool {
        self.only.is_empty() && self.not.is_empty()
    }

    /// Whether an executable of these names is meant (Rule 1).
    pub fn executable(&self, names: &[&[u8]]) -> bool {
        let named = |pattern: Pattern<'_>| names.iter().any(|name| pattern.names(name));
        let mut only = self.only.executables().peekable();
        (only.peek().is_none() || only.any(named)) && !self.not.executables().any(named)
    }

    /// Whether a loop of this module may be meant; if not, none of them is.
    pub fn module(&self, module: &[u8]) -> bool {
        let may_have = |entry: Entry<'_>| match entry {
            Entry::Executable(_) => false,
            Entry::Module(name) | Entry::Symbol(name, _) | Entry::Offset(name, _) => name.names(module),
        };
        (self.names_every_module() || self.only.iter().any(may_have)) && !self.not.has_module(module)
    }

    /// Whether a loop is meant (Rule 2).
    pub fn has(&self, place: &Place<'_>) -> bool {
        (self.names_every_module() || self.only.has_loop(place)) && !self.not.has_loop(place)
    }

    fn names_every_module(&self) -> bool {
        !self.only.iter().any(|entry| entry.is_in_module())
    }
}

/// Writes an entry that a user wrote, for an options string.
///
/// # Errors
/// Those of `out`.
pub fn encode_entry(entry: &str, out: &mut impl fmt::Write) -> fmt::Result {
    entry.split('+').enumerate().try_for_each(|(index, part)| {
        if index > 0 {
            out.write_str("%2B")?;
        }
        encode(part.as_bytes(), out)
    })
}

#[cfg(test)]
mod tests;
