//! Which Debian package has the header and the library that an engine needs, told from a compiler's
//! complaint.

/// A library that engines are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// What it is called
    pub library: &'static str,
    /// Its header
    pub header: &'static str,
    /// What the linker is told
    pub flag: &'static str,
    /// The Debian package that has both
    pub name: &'static str,
}

const fn package(
    library: &'static str,
    header: &'static str,
    flag: &'static str,
    name: &'static str,
) -> Package {
    Package { library, header, flag, name }
}

/// All of them.
pub const PACKAGES: [Package; 7] = [
    package("WiredTiger", "wiredtiger.h", "-lwiredtiger", "libwiredtiger-dev"),
    package("SQLite", "sqlite3.h", "-lsqlite3", "libsqlite3-dev"),
    package("LevelDB", "leveldb/c.h", "-lleveldb", "libleveldb-dev"),
    package("Kyoto Cabinet", "kclangc.h", "-lkyotocabinet", "libkyotocabinet-dev"),
    package("LMDB", "lmdb.h", "-llmdb", "liblmdb-dev"),
    package("RocksDB", "rocksdb/c.h", "-lrocksdb", "librocksdb-dev"),
    package("OpenBLAS", "cblas.h", "-lopenblas", "libopenblas-pthread-dev"),
];

/// Returns the package whose absence `words`, of the compiler or the linker, complain about.
pub fn missing(words: &str) -> Option<&'static Package> {
    let complains = |package: &&Package| {
        // A header in a folder of the library's own stands for all that are there.
        let header = match package.header.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => format!("{}: No such file", package.header),
        };
        // The header by its whole name: `db.h` is not `lmdb.h`.
        let flag = |word: &str| word.trim_matches([':', '\'', '"', ',']) == package.flag;
        words.lines().any(|line| {
            let named = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '/');
            (line.contains(": No such file") && line.find(&header).is_some_and(named))
                || (line.contains("cannot find") && line.split_whitespace().any(flag))
        })
    };
    PACKAGES.iter().find(complains)
}

/// The package that `flag` stands for.
///
/// # Panics
/// If there is none: flags are written in this crate alone.
pub fn of_flag(flag: &str) -> &'static Package {
    PACKAGES.iter().find(|package| package.flag == flag).expect("every engine's library has a package")
}

impl Package {
    /// What to do without it.
    pub fn remedy(&self) -> String {
        format!(
            "{}'s header and library are missing: install them (Debian: apt-get install {})",
            self.library, self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(words: &str) -> Option<&'static str> {
        missing(words).map(|package| package.name)
    }

    #[test]
    fn a_header_and_a_library_name_their_package() {
        assert_eq!(
            name("leveldb.c:11:10: fatal error: leveldb/c.h: No such file or directory"),
            Some("libleveldb-dev")
        );
        assert_eq!(name("rocksdb.c:13:10: fatal error: rocksdb/c.h: No such file"), Some("librocksdb-dev"));
        assert_eq!(
            name("x.cpp:20:10: fatal error: rocksdb/utilities/x.h: No such file"),
            Some("librocksdb-dev")
        );
        assert_eq!(name("/usr/bin/ld: cannot find -llmdb: No such file or directory"), Some("liblmdb-dev"));
        assert_eq!(name("ld: cannot find -lkyotocabinet"), Some("libkyotocabinet-dev"));
    }

    #[test]
    fn other_complaints_name_none() {
        assert_eq!(name("sqlite.c:3:1: error: unknown type name 'x'"), None);
        assert_eq!(name("x.c:1:10: fatal error: stdio.h: No such file or directory"), None);
        assert_eq!(name("x.c:1:10: fatal error: notlmdb.h: No such file or directory"), None);
        assert_eq!(name("x.c:1:10: fatal error: notrocksdb/c.h: No such file"), None);
        assert_eq!(name("rocksdb/db.h:1:1: error: unknown type name 'x'"), None);
        assert_eq!(name("ld: cannot find -lsqlite3extra"), None);
    }
}
