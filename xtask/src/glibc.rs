//! Which versions of the C library an ELF file needs.
//!
//! The linker gives each function that a file calls the version that the C library has at that
//! time, and an older C library refuses to load the file. All that users install has to load with
//! [`OLDEST`].

use object::elf::FileHeader64;
use object::read::elf::FileHeader as _;
use object::{Endianness, read};
use std::collections::BTreeSet;

/// The oldest version of the C library that everything runs with.
pub const OLDEST: (u32, u32) = (2, 31);

/// The versions that a file needs, such as `GLIBC_2.2.5`, of the C library and of other libraries.
///
/// # Errors
/// If it is no ELF file of 64 bits, or a damaged one.
pub fn versions(bytes: &[u8]) -> read::Result<BTreeSet<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut found = BTreeSet::new();
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes)? else { return Ok(found) };
    let strings = sections.strings(endian, bytes, link)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            found.insert(String::from_utf8_lossy(version.name(endian, strings)?).into_owned());
        }
    }
    Ok(found)
}

/// Whether a version is one of the C library's and newer than [`OLDEST`]. A version that cannot be
/// read counts as newer.
pub fn is_newer(version: &str) -> bool {
    let Some(numbers) = version.strip_prefix("GLIBC_") else { return false };
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) > OLDEST,
        _ => true,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::process::capture;
    use std::fs;
    use std::process::Command;

    /// A library that calls `newer`, of version 2.38 of a C library of our own making, or `older`,
    /// of version 2.31.
    pub fn caller_of(function: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let link = |words: &[&str]| {
            let mut cc = Command::new("cc");
            cc.current_dir(folder.path()).args(["-shared", "-nostdlib", "-fPIC", "-o"]).args(words);
            capture(&mut cc).unwrap();
        };
        write("libc.c", "int newer(void) { return 0; }\nint older(void) { return 0; }\n");
        write("libc.map", "GLIBC_2.31 { global: older; local: *; };\nGLIBC_2.38 { global: newer; };\n");
        link(&["libours.so", "libc.c", "-Wl,--version-script=libc.map"]);
        write("a.c", &format!("int {function}(void); int caller(void) {{ return {function}(); }}\n"));
        link(&["a.so", "a.c", "libours.so"]);
        fs::read(folder.path().join("a.so")).unwrap()
    }

    #[test]
    fn a_library_that_needs_a_newer_c_library_is_found() {
        for (function, newer) in [("newer", true), ("older", false)] {
            let versions = versions(&caller_of(function)).unwrap();
            assert_eq!(versions.iter().any(|version| is_newer(version)), newer, "{versions:?}");
        }
    }

    #[test]
    fn newer_versions_are_told_from_older_ones() {
        for (version, newer) in [
            ("GLIBC_2.2.5", false),
            ("GLIBC_2.31", false),
            ("GLIBC_2.32", true),
            ("GLIBC_2.4", false),
            ("GLIBC_3.0", true),
            ("GLIBC_PRIVATE", true),
            ("GCC_3.0", false),
        ] {
            assert_eq!(is_newer(version), newer, "{version}");
        }
    }
}
