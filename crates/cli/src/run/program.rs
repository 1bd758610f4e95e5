//! What will really run: the program's file, the interpreters that its `#!` lines name, and the ELF
//! file at the end of that chain, which is the one that the preload library will be in.

use super::elf::Elf;
use super::script::Interpreter;
use command::failure::{Failure, NOT_FOUND};
use command::search;
use preload_abi::filter::Filters;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
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
