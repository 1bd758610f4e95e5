//! Which engine an experiment runs: WiredTiger if it can be had, else the built-in one.

use super::compiler::Compiler;
use super::library::{Library, wiredtiger};
use super::{Load, Program};
use crate::error::Error;
use std::path::PathBuf;

/// What brings WiredTiger to this machine.
const PACKAGE: &str = "libwiredtiger-dev";

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The real one
    WiredTiger,
    /// The built-in one with the same protocol
    Snapshot,
}

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The engine; `None`: WiredTiger, or the built-in one where that is missing
    pub kind: Option<Kind>,
    /// Another `libwiredtiger.so` than the machine's own
    pub library: Option<PathBuf>,
    /// A library whose source was repaired
    pub fixed: Option<PathBuf>,
    /// The folder of the header that belongs to both
    pub include: Option<PathBuf>,
}

/// The programs that are compared.
#[derive(Clone, Debug)]
pub struct Engines {
    /// Which engine it is
    pub kind: Kind,
    /// With the busy wait
    pub as_is: Program,
    /// With the source repaired, if there is one
    pub fixed: Option<Program>,
    /// What the reader must know
    pub notes: Vec<String>,
}

impl Engines {
    /// Compiles what the choice asks for.
    ///
    /// # Errors
    /// If something named cannot be found or compiled.
    pub fn prepare(choice: &Choice, compiler: &Compiler) -> Result<Engines, Error> {
        let named = choice.library.is_some() || choice.fixed.is_some();
        match choice.kind {
            Some(Kind::Snapshot) if named => Err(Error::request(
                "--engine snapshot: --library and --fixed name WiredTiger libraries",
                "leave them out, or choose --engine wiredtiger",
            )),
            Some(Kind::Snapshot) => Engines::snapshot(compiler, None),
            Some(Kind::WiredTiger) => Engines::wiredtiger(choice, compiler),
            None if named => Engines::wiredtiger(choice, compiler),
            None => match Engines::wiredtiger(choice, compiler) {
                Err(Error::Missing { help, .. }) if help.contains(PACKAGE) => {
                    let why = format!("WiredTiger is not installed (Debian: apt-get install {PACKAGE})");
                    Engines::snapshot(compiler, Some(&why))
                }
                other => other,
            },
        }
    }

    fn wiredtiger(choice: &Choice, compiler: &Compiler) -> Result<Engines, Error> {
        let include = choice.include.as_deref();
        let open = |path: &PathBuf| Library::new(path, include);
        let library = choice.library.as_ref().map(open).transpose()?;
        let fixed = choice.fixed.as_ref().map(open).transpose()?;
        let program = |library| Ok(Program { home: true, ..Program::new(wiredtiger(compiler, library)?) });
        let fixed = fixed.as_ref().map(|library| program(Some(library))).transpose()?;
        let as_is = program(library.as_ref())?;
        let mut notes = Vec::new();
        if fixed.is_some() && library.is_none() {
            notes.push("--fixed without --library: the two are compared with the machine's own WiredTiger, which may be of another version".into());
        }
        Ok(Engines { kind: Kind::WiredTiger, as_is, fixed, notes })
    }

    fn snapshot(compiler: &Compiler, why: Option<&str>) -> Result<Engines, Error> {
        let as_is = Program::new(compiler.program("snapshot", &[], "")?);
        let fixed = Program { arguments: vec!["--fixed".into()], ..as_is.clone() };
        let reason = why.map_or(String::new(), |why| format!(": {why}"));
        let notes = vec![format!("a small built-in engine with the paper's protocol is measured{reason}")];
        Ok(Engines { kind: Kind::Snapshot, as_is, fixed: Some(fixed), notes })
    }

    /// Makes loading quick, for smoke checks.
    pub fn shrink(&self, load: &mut Load) {
        load.more.push("--records=20000".into());
    }
}
