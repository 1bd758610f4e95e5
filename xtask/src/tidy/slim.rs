//! `manx` starts somebody's program and has to be small for that: what measures is a program of
//! its own.
//!
//! 1. It links none of the crates in [`HEAVY`], however they would come to it.
//! 2. The built file is no larger than [`BYTES_MAX`] once it is stripped: what lies behind the last
//!    loaded segment is symbols and what debuggers read.

use std::fs;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use super::finding::Finding;
use crate::outcome::Result;
use crate::workspace::{MANX, linked};

/// The package.
const PACKAGE: &str = "cli";
/// What it must not link: TLS, thread pools, runtimes, a store on disk, and what measures.
const HEAVY: [&str; 8] = ["manx-bench", "rayon", "rayon-core", "redb", "ring", "rustls", "tokio", "workload"];
/// The most bytes of the stripped file.
const BYTES_MAX: u64 = 4 << 20;

/// Checks what `manx` links, and the file in the folder of release builds, if it is there; what is
/// left out comes with its reason.
///
/// # Errors
/// If cargo does not answer.
pub fn check(folder: &Path) -> Result<(Vec<Finding>, Option<String>)> {
    let mut findings = heavy(&linked(PACKAGE)?);
    let file = folder.join(MANX);
    let Ok(bytes) = fs::read(&file) else {
        return Ok((findings, Some(format!("{} is not built (cargo xtask build)", file.display()))));
    };
    findings.extend(match stripped(&bytes) {
        Some(size) => too_large(size),
        None => Some(Finding::new(MANX, 0, "no ELF file", "build it again")),
    });
    Ok((findings, None))
}

/// What is linked and must not be, by the names with which the lines of `cargo tree` begin.
fn heavy(tree: &str) -> Vec<Finding> {
    let linked = |name: &&&str| tree.lines().any(|line| line.split(' ').next() == Some(**name));
    let found = HEAVY.iter().filter(linked);
    found
        .map(|name| {
            let remedy =
                format!("`cargo tree -p {PACKAGE} -e normal -i {name}` says by which way: do without");
            Finding::new("crates/cli/Cargo.toml", 0, format!("`{MANX}` links {name}"), remedy)
        })
        .collect()
}

/// The size of an ELF file without what no program needs to run.
fn stripped(bytes: &[u8]) -> Option<u64> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?.iter();
    let ends = segments
        .filter(|segment| segment.p_type(endian) == PT_LOAD)
        .map(|segment| segment.p_offset(endian) + segment.p_filesz(endian));
    ends.max()
}

fn too_large(size: u64) -> Option<Finding> {
    let what = format!("{size} bytes when stripped, and {BYTES_MAX} are the most");
    (size > BYTES_MAX).then(|| Finding::new(MANX, 0, what, "see what it has begun to link"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::capture;

    #[test]
    fn heavy_crates_are_found_by_their_whole_names() {
        let tree = "cli v0.1.0 (/w/crates/cli)\nclap v4.6.7\ntokio v1.54.0\nserverless v1.0.0\nclap v4.6.7 (*)\nring v0.17.0\n";
        let found: Vec<String> = heavy(tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("`manx` links ring") && found[1].contains("`manx` links tokio"),
            "{found:?}"
        );
    }

    #[test]
    fn manx_links_none_of_them_and_what_measures_does() {
        assert_eq!(check(Path::new("/no/such/folder")).unwrap().0, []);
        let found = heavy(&linked("manx-bench").unwrap());
        assert!(found.iter().any(|finding| finding.what.contains("rayon")), "{found:?}");
    }

    #[test]
    fn the_size_is_that_of_a_stripped_file() {
        let folder = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            capture(Command::new(program).current_dir(folder.path()).args(arguments)).unwrap()
        };
        fs::write(folder.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
        run("cc", &["-g3", "-o", "a", "a.c"]);
        run("cc", &["-s", "-o", "b", "a.c"]);
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        let (whole, small) = (read("a"), read("b"));
        assert_eq!(stripped(&whole), stripped(&small));
        // Behind the segments of a stripped file there are the names and the table of its sections.
        let rest = small.len() as u64 - stripped(&small).unwrap();
        assert!(rest < 4096 && stripped(&whole).unwrap() < whole.len() as u64, "{rest}");
        assert_eq!(stripped(b"no ELF file"), None);
    }

    #[test]
    fn the_limit_itself_is_fine() {
        assert_eq!(too_large(BYTES_MAX), None);
        assert!(too_large(BYTES_MAX + 1).unwrap().what.contains("4194305 bytes"));
    }
}
