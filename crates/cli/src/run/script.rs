//! The `#!` line of a script: it names the program that really runs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// How much of a script's first line the kernel reads (`BINPRM_BUF_SIZE`).
const LINE_BYTES: u64 = 256;

/// A script's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The program that runs the script.
    pub path: PathBuf,
    /// The rest of the line, which the kernel passes as one argument.
    pub argument: OsString,
}

impl Interpreter {
    /// Reads the first line of `path`; `None` if it is no script.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Interpreter>> {
        let mut start = Vec::new();
        File::open(path)?.take(LINE_BYTES).read_to_end(&mut start)?;
        Ok(Interpreter::parse(&start))
    }

    fn parse(start: &[u8]) -> Option<Interpreter> {
        let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
        let blank = |b: &u8| matches!(b, b' ' | b'\t');
        let line = trim(line, blank);
        let end = line.iter().position(blank).unwrap_or(line.len());
        let (path, argument) = (&line[..end], trim(&line[end..], blank));
        if path.is_empty() {
            return None;
        }
        Some(Interpreter {
            path: OsString::from_vec(path.to_vec()).into(),
            argument: OsString::from_vec(argument.to_vec()),
        })
    }

    /// The program that `env` will look up, if this is `env NAME` or `env -S NAME …`.
    pub fn through_env(&self) -> Option<&OsStr> {
        if self.path.file_name() != Some(OsStr::new("env")) {
            return None;
        }
        let argument = self.argument.as_bytes();
        let split = [&b"-S"[..], b"--split-string="].iter().find_map(|option| argument.strip_prefix(*option));
        let name = match split {
            Some(rest) => rest.split(|b| b" \t".contains(b)).find(|word| !word.is_empty())?,
            // Without -S the whole argument is one name, blanks and all.
            None => argument,
        };
        let plain = !name.is_empty() && !name.starts_with(b"-") && !name.contains(&b'=');
        plain.then(|| OsStr::from_bytes(name))
    }
}

fn trim(mut bytes: &[u8], blank: impl Fn(&u8) -> bool) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && blank(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && blank(last)
    {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(String, String)> {
        let found = Interpreter::parse(line.as_bytes())?;
        Some((found.path.to_str()?.to_owned(), found.argument.to_str()?.to_owned()))
    }

    #[test]
    fn the_line_is_read_as_the_kernel_does() {
        let pair = |path: &str, argument: &str| Some((path.to_owned(), argument.to_owned()));
        assert_eq!(parse("#!/bin/sh\necho"), pair("/bin/sh", ""));
        assert_eq!(parse("#! \t/bin/sh -e -u \nx"), pair("/bin/sh", "-e -u"));
        assert_eq!(parse("#!/bin/sh"), pair("/bin/sh", ""));
        assert_eq!(parse("#!/bin/sh\r\n"), pair("/bin/sh\r", ""));
        assert_eq!(parse("#!\n/bin/sh"), None);
        assert_eq!(parse("# !/bin/sh"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn env_is_looked_through() {
        let through = |line: &str| {
            let found = Interpreter::parse(line.as_bytes()).expect(line);
            found.through_env().map(|name| name.to_str().expect("text").to_owned())
        };
        assert_eq!(through("#!/usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(through("#!/usr/bin/env -S python3 -u\n").as_deref(), Some("python3"));
        assert_eq!(through("#!/usr/bin/env -i python3\n"), None);
        assert_eq!(through("#!/usr/bin/env -S A=1 python3\n"), None);
        assert_eq!(through("#!/usr/bin/env\n"), None);
        assert_eq!(through("#!/bin/sh python3\n"), None);
    }
}
