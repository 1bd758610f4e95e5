//! The programs of `manx bench engines`: which driver, with which options and which library.

use crate::engine::{Compiler, Package, Program, package};
use crate::error::Error;

/// The drivers that have no files in any of their modes, and so no option for their folder.
const IN_MEMORY: [&str; 2] = ["sqlite_mix", "ping_pong"];

/// A program, and in which of its modes.
#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    /// By which the user and the targets name it
    pub name: &'static str,
    /// What it is, and what its threads do
    pub words: &'static str,
    /// The driver's source, without `.c`
    source: &'static str,
    /// Its library, for the linker; empty: none but the C library
    flag: &'static str,
    /// The options that the driver always gets
    arguments: &'static [&'static str],
    /// Its number of threads, whatever the other programs have
    pub(super) threads: Option<usize>,
}

const fn subject(
    name: &'static str,
    words: &'static str,
    source: &'static str,
    flag: &'static str,
    arguments: &'static [&'static str],
) -> Subject {
    Subject { name, words, source, flag, arguments, threads: None }
}

/// All of them, in the order in which they are measured.
pub const SUBJECTS: [Subject; 15] = [
    subject(
        "leveldb-read",
        "LevelDB, a read in a snapshot of its own",
        "leveldb",
        "-lleveldb",
        &["--mode=read"],
    ),
    subject("leveldb-get", "LevelDB, a read", "leveldb", "-lleveldb", &["--mode=get"]),
    subject("leveldb-mixed", "LevelDB, half reads, half writes", "leveldb", "-lleveldb", &["--mode=mixed"]),
    subject(
        "kyoto-cache",
        "Kyoto CacheDB, half gets, half sets",
        "kyoto",
        "-lkyotocabinet",
        &["--mode=cache"],
    ),
    subject("kyoto-hash", "Kyoto HashDB, half gets, half sets", "kyoto", "-lkyotocabinet", &["--mode=hash"]),
    subject("sqlite-shared", "SQLite, one connection for all", "sqlite", "-lsqlite3", &["--mode=shared"]),
    subject("sqlite-two", "SQLite, two connections to two databases", "sqlite", "-lsqlite3", &["--mode=two"]),
    subject("sqlite-wal", "SQLite, a connection each, WAL", "sqlite", "-lsqlite3", &["--mode=wal"]),
    subject(
        "sqlite-scan",
        "SQLite, short transactions and now and then a full scan",
        "sqlite_mix",
        "-lsqlite3",
        &[],
    ),
    subject("lmdb", "LMDB, half reads, half transactions", "lmdb", "-llmdb", &[]),
    subject("lmdb-private", "LMDB whose mutexes are of one process", "lmdb", "-llmdb", &["--private"]),
    subject(
        "rocksdb-read",
        "RocksDB, a read in a snapshot of its own",
        "rocksdb",
        "-lrocksdb",
        &["--mode=read"],
    ),
    subject("rocksdb-mixed", "RocksDB, half reads, half writes", "rocksdb", "-lrocksdb", &["--mode=mixed"]),
    subject(
        "wiredtiger",
        "WiredTiger, half reads, half transactions",
        "wiredtiger",
        "-lwiredtiger",
        &["--records=20000", "--value-bytes=100", "--read-share=0.5", "--cache-mb=256"],
    ),
    Subject {
        threads: Some(2),
        ..subject(
            "ping-pong",
            "two threads on one CPU that signal each other under a mutex",
            "ping_pong",
            "",
            &[],
        )
    },
];

/// Returns the programs of these names, in the catalogue's order; all of them if there are no
/// names.
///
/// # Errors
/// If there is none of a name.
pub fn choose(names: &[String]) -> Result<Vec<&'static Subject>, Error> {
    if let Some(unknown) = names.iter().find(|name| !SUBJECTS.iter().any(|subject| subject.name == **name)) {
        let known = SUBJECTS.each_ref().map(|subject| subject.name).join(", ");
        return Err(Error::request(
            format!("'{unknown}': there is no such program"),
            format!("choose from {known}"),
        ));
    }
    let chosen = |subject: &&Subject| names.is_empty() || names.iter().any(|name| name == subject.name);
    Ok(SUBJECTS.iter().filter(chosen).collect())
}

impl Subject {
    /// The Debian package that has its library, if it needs one.
    pub fn package(&self) -> Option<&'static Package> {
        (!self.flag.is_empty()).then(|| package::of_flag(self.flag))
    }

    /// Compiles its driver.
    ///
    /// # Errors
    /// As [`Compiler::program`].
    pub fn program(&self, compiler: &Compiler) -> Result<Program, Error> {
        let library = self.package().map(|package| package.flag.into());
        let path = compiler.program(self.source, library.as_slice(), "")?;
        let arguments = self.arguments.iter().map(Into::into).collect();
        Ok(Program { path, arguments, home: !IN_MEMORY.contains(&self.source) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_an_unknown_one_is_refused_with_the_list() {
        assert_eq!(choose(&[]).unwrap().len(), SUBJECTS.len());
        let chosen = choose(&["sqlite-wal".into(), "leveldb-read".into()]).unwrap();
        let names: Vec<&str> = chosen.iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["leveldb-read", "sqlite-wal"]);
        let error = choose(&["lmdb".into(), "oracle".into()]).unwrap_err().to_string();
        assert!(error.contains("'oracle'") && error.contains("kyoto-cache, kyoto-hash"), "{error}");
    }

    #[test]
    fn every_one_that_needs_a_library_has_a_package_and_all_have_names_of_their_own() {
        for (at, subject) in SUBJECTS.iter().enumerate() {
            assert!(subject.package().is_none_or(|package| package.name.starts_with("lib")), "{subject:?}");
            let same = |other: &Subject| other.name == subject.name || other.words == subject.words;
            assert!(!SUBJECTS[..at].iter().any(same), "{}: twice", subject.name);
        }
    }
}
