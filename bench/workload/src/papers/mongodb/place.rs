//! The programs of the experiment, which `cargo xtask setup mongo` puts below the target folder.
//!
//! | file | what it is |
//! | --- | --- |
//! | `release/manx-mongod` | the server, beside `manx` |
//! | `ycsb/ycsb` | the client |
//! | `wiredtiger/original/libwiredtiger.so`, … | WiredTiger, as it is and with each repair |

use super::cases::{GUARDED, ORIGINAL, REPAIRED};
use crate::engine::Compiler;
use crate::engine::library::{Library, shim};
use crate::error::Error;
use std::path::PathBuf;

/// The engine under the server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    /// WiredTiger by the folder of its build
    WiredTiger(&'static str),
    /// The original under `manx run`
    Guarded,
    /// The original, served by a pool of threads
    Pooled,
    /// Manx's store with this kind of snapshots
    Store(&'static str),
}

const ORIGINAL_FOLDER: &str = "original";
const REPAIRED_FOLDER: &str = "repaired-adaptive";

impl Binary {
    /// All that are compared at the one load, and their names.
    pub(super) const REPAIRS: [(&'static str, Binary); 14] = [
        (ORIGINAL, Binary::WiredTiger(ORIGINAL_FOLDER)),
        ("block", Binary::WiredTiger("repaired-block")),
        ("yield", Binary::WiredTiger("repaired-yield")),
        ("sleep", Binary::WiredTiger("repaired-sleep")),
        (REPAIRED, Binary::WiredTiger(REPAIRED_FOLDER)),
        (GUARDED, Binary::Guarded),
        ("original, a pool", Binary::Pooled),
        ("store, spin", Binary::Store("spin")),
        ("store, block", Binary::Store("block")),
        ("store, yield", Binary::Store("yield")),
        ("store, sleep", Binary::Store("sleep")),
        ("store, adaptive", Binary::Store("adaptive")),
        ("store, mutable", Binary::Store("mutable")),
        ("store, help", Binary::Store("help")),
    ];

    /// The one of this name.
    pub(super) fn of(name: &str) -> Binary {
        match name {
            GUARDED => Binary::Guarded,
            REPAIRED => Binary::WiredTiger(REPAIRED_FOLDER),
            _ => Binary::WiredTiger(ORIGINAL_FOLDER),
        }
    }

    /// The folder of its WiredTiger.
    fn folder(self) -> Option<&'static str> {
        match self {
            Binary::WiredTiger(folder) => Some(folder),
            Binary::Guarded | Binary::Pooled => Some(ORIGINAL_FOLDER),
            Binary::Store(_) => None,
        }
    }
}

/// The command that brings the programs.
const SETUP: &str = "`cargo xtask setup mongo` makes it";

/// Where the programs are.
#[derive(Debug)]
pub struct Place {
    manx: PathBuf,
    compiler: Compiler,
}

impl Place {
    /// The place beside this `manx`.
    #[must_use]
    pub fn beside(manx: PathBuf, compiler: Compiler) -> Place {
        Place { manx, compiler }
    }

    /// # Errors
    /// [`Error::Missing`] if the server, the client, the original or the repaired WiredTiger is not
    /// there.
    pub(super) fn check(&self) -> Result<(), Error> {
        let needed = [self.server(), self.client(), self.file(ORIGINAL_FOLDER), self.file(REPAIRED_FOLDER)];
        match needed.into_iter().find(|file| !file.is_file()) {
            None => Ok(()),
            Some(file) => Err(Error::missing(format!("{}: not there", file.display()), SETUP)),
        }
    }

    /// The versions that are left out.
    pub(super) fn notes(&self) -> Vec<String> {
        let left_out = Binary::REPAIRS.into_iter().filter(|(_, binary)| !self.has(*binary));
        left_out.map(|(name, _)| format!("{name}: left out: {SETUP}")).collect()
    }

    /// Returns true if it was built.
    pub(super) fn has(&self, binary: Binary) -> bool {
        binary.folder().is_none_or(|folder| self.file(folder).is_file())
    }

    /// The path of `manx`.
    pub(super) fn manx(&self) -> &PathBuf {
        &self.manx
    }

    /// The path of the server.
    pub(super) fn server(&self) -> PathBuf {
        self.manx.with_file_name("manx-mongod")
    }

    /// The path of the client.
    pub(super) fn client(&self) -> PathBuf {
        self.below_target("ycsb/ycsb")
    }

    /// The words that tell the server its engine.
    ///
    /// # Errors
    /// The shim cannot be compiled.
    pub(super) fn engine(&self, binary: Binary) -> Result<Vec<String>, Error> {
        let folder = match binary {
            Binary::Store(snapshots) => {
                return Ok(vec!["--engine=manx".into(), format!("--snapshots={snapshots}")]);
            }
            _ => binary.folder().unwrap_or(ORIGINAL_FOLDER),
        };
        let library = Library::new(&self.file(folder), None)?;
        let shim = shim(&self.compiler, Some(&library))?;
        let mut words = vec!["--engine=wiredtiger".into(), format!("--library={}", shim.display())];
        if binary == Binary::Pooled {
            words.push("--serve=pool".into());
        }
        Ok(words)
    }

    fn file(&self, folder: &str) -> PathBuf {
        self.below_target(&format!("wiredtiger/{folder}/libwiredtiger.so"))
    }

    fn below_target(&self, name: &str) -> PathBuf {
        let target = self.manx.parent().and_then(|folder| folder.parent());
        target.map_or_else(|| name.into(), |target| target.join(name))
    }
}
