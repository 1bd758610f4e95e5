//! What will really run: the program's file, the interpreters that its `#!` lines name, and the ELF
//! file at the end of that chain, which is the one that the preload library will be in.

use super::libraries::Elf;
use command::failure::{Failure, NOT_FOUND};
use command::search;
use preload_abi::filter::Filters;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// How far scripts are followed. The kernel follows five that name each other directly; `env`
/// starts afresh.
const CHAIN_MAX: usize = 32;

/// A program, followed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The files in the order in which they lead to one another: first the one that is executed,
    /// last the one that runs in the end.
    pub chain: Vec<PathBuf>,
    /// What the last of them says about itself; `None` if it is no ELF file or cannot be read.
    pub elf: Option<Elf>,
    /// Which file of the chain is executed last, by the caller or by `env`. The kernel tells a
    /// program this name: a script's for its interpreter, a link's for its target.
    executed: usize,
}

impl Program {
    /// Finds the program that `name` stands for and follows it.
    ///
    /// # Errors
    /// With code 127 or 126 if it, or an interpreter that it needs, is missing or cannot be
    /// executed.
    pub fn find(name: &OsStr) -> Result<Program, Failure> {
        let (mut chain, mut executed) = (vec![search::find(name)?], 0);
        // A chain without an end is not ours to complain about: executing it says what is wrong.
        while chain.len() < CHAIN_MAX
            && let Some(next) = following(&chain[chain.len() - 1])?
        {
            // An interpreter alone is found by the kernel; what stands behind `env` is executed by
            // it.
            let through_env = next.len() > 1;
            chain.extend(next);
            if through_env {
                executed = chain.len() - 1;
            }
        }
        // What cannot be read can perhaps be executed: the kernel will say.
        let elf = Elf::read(&chain[chain.len() - 1]).unwrap_or(None);
        let program = Program { chain, elf, executed };
        program.check_loader()?;
        Ok(program)
    }

    /// The file that is executed.
    pub fn file(&self) -> &Path {
        &self.chain[0]
    }

    /// The file that runs in the end.
    pub fn image(&self) -> &Path {
        &self.chain[self.chain.len() - 1]
    }

    /// The names by which filters know the program: that of the file that runs in the end, without
    /// links, and that by which it is executed.
    pub fn names(&self) -> [Vec<u8>; 2] {
        let image = self.image().canonicalize().unwrap_or_else(|_| self.image().to_owned());
        [&image, &self.chain[self.executed]]
            .map(|path| path.file_name().unwrap_or_default().as_bytes().to_vec())
    }

    /// Whether filters leave the program in.
    pub fn is_selected(&self, filters: &Filters<'_>) -> bool {
        filters.executable(&self.names().each_ref().map(Vec::as_slice))
    }

    fn check_loader(&self) -> Result<(), Failure> {
        match self.elf.as_ref().and_then(|elf| elf.loader.as_ref()) {
            Some(loader) if !loader.exists() => Err(Failure::new(
                NOT_FOUND,
                format!("{}: its loader {} is not installed", self.image().display(), loader.display()),
                "the program was made for another distribution or C library: install that, or a build for this one",
            )),
            _ => Ok(()),
        }
    }
}

/// The files that `path` leads to, if it is a script: its interpreter, and what `env` finds.
fn following(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    // A file that may be executed but not read is no script, or the interpreter will complain.
    let Ok(Some(interpreter)) = Interpreter::read(path) else { return Ok(None) };
    let (script, named) = (path.display(), interpreter.path.display());
    match search::check(&interpreter.path) {
        Ok(()) => {}
        Err(_) if interpreter.path.as_os_str().as_encoded_bytes().ends_with(b"\r") => {
            return Err(Failure::new(
                NOT_FOUND,
                format!(
                    "{script}: its first line ends in a carriage return, which no interpreter's name does"
                ),
                "save the script with the line ends of Unix",
            ));
        }
        Err(failure) => {
            let why = if failure.code == NOT_FOUND { "does not exist" } else { "cannot be executed" };
            return Err(Failure::new(
                failure.code,
                format!("{script}: its first line names the interpreter {named}, which {why}"),
                "install the interpreter, or correct the line",
            ));
        }
    }
    let mut found = vec![interpreter.path.clone()];
    // If env will not find it either, env says so itself.
    found.extend(interpreter.through_env().and_then(|name| search::find(name).ok()));
    Ok(Some(found))
}

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
