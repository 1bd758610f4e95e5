//! What the built libraries ask of a program that they are loaded into, read from their ELF files.
//! Of each:
//!
//! 1. It needs no symbol of the C library newer than [`OLDEST`], so that it loads on old
//!    distributions.
//! 2. It exports no name that is not listed in its `exports.txt`, because each name takes the place
//!    of the same name in the program; and each name that is listed, or the list is not true.
//! 3. Its SONAME is its file name, so that the loader knows it however it was found.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::elf::{DT_SONAME, FileHeader64, SHN_UNDEF, STB_LOCAL};
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, read};

use super::finding::Finding;
use super::tree::Tree;
use crate::glibc::{self, OLDEST, is_newer};
use crate::workspace::{PRELOAD, REQUESTS};

/// A library, and where its names stand that may be exported: one a line; what follows `#` is a
/// comment.
struct Library {
    name: &'static str,
    exports: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library { name: PRELOAD, exports: "crates/preload/exports.txt" },
    Library { name: REQUESTS, exports: "crates/preload-requests/exports.txt" },
];

/// What the library's ELF file says about it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    soname: Option<String>,
    exports: BTreeSet<String>,
    /// Versions of the C library, as `GLIBC_2.2.5`.
    versions: BTreeSet<String>,
}

/// Looks at the libraries in this folder, as far as they and the lists are there; what is left out
/// comes with its reason.
pub fn check(folder: &Path, tree: &Tree) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut left_out) = (Vec::new(), Vec::new());
    for library in &LIBRARIES {
        let (found, why) = check_one(library, &folder.join(library.name), tree);
        findings.extend(found);
        left_out.extend(why);
    }
    (findings, left_out)
}

fn check_one(library: &Library, file: &Path, tree: &Tree) -> (Vec<Finding>, Option<String>) {
    let name = library.name;
    let Ok(bytes) = fs::read(file) else {
        let why = format!("{} is not built (cargo xtask build)", file.display());
        return (Vec::new(), Some(why));
    };
    let facts = match facts(&bytes) {
        Ok(facts) => facts,
        Err(error) => {
            return (vec![Finding::new(name, 0, format!("cannot be read: {error}"), "build it again")], None);
        }
    };
    let mut findings = loading(name, &facts);
    let Some(list) = tree.file(library.exports) else {
        let why = format!("{}, the names that may be exported, is not there", library.exports);
        return (findings, Some(why));
    };
    let allowed = list.lines().map(|(_, line)| line.split('#').next().unwrap_or_default().trim());
    findings.extend(exports(library, &facts, &allowed.filter(|name| !name.is_empty()).collect()));
    (findings, None)
}

/// What keeps it from being loaded everywhere (1 and 3).
fn loading(name: &str, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.soname.as_deref() != Some(name) {
        let what = format!("its SONAME is {}", facts.soname.as_deref().unwrap_or("missing"));
        findings.push(Finding::new(name, 0, what, format!("let the package's build.rs set {name}")));
    }
    for version in facts.versions.iter().filter(|version| is_newer(version)) {
        let (major, minor) = OLDEST;
        let what = format!("needs {version}, newer than GLIBC_{major}.{minor}");
        let remedy = "`objdump -T` names the symbol: fetch it by dlsym, or do without";
        findings.push(Finding::new(name, 0, what, remedy));
    }
    findings
}

/// What it exports and should not, and the other way round (2).
fn exports(library: &Library, facts: &Facts, allowed: &BTreeSet<&str>) -> Vec<Finding> {
    let list = library.exports;
    let mut findings = Vec::new();
    for name in facts.exports.iter().filter(|name| !allowed.contains(name.as_str())) {
        let what = format!("exports `{name}`");
        findings.push(Finding::new(library.name, 0, what, format!("hide it, or list it in {list}")));
    }
    for name in allowed.iter().filter(|name| !facts.exports.contains(**name)) {
        let what = format!("lists `{name}`, which the library does not export");
        findings.push(Finding::new(list, 0, what, "export it, or strike it out"));
    }
    findings
}

fn facts(bytes: &[u8]) -> read::Result<Facts> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut facts = Facts { versions: glibc::versions(bytes)?, ..Facts::default() };
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();

    let symbols = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM)?;
    for symbol in symbols.iter() {
        if symbol.st_shndx(endian) != SHN_UNDEF && symbol.st_bind() != STB_LOCAL {
            facts.exports.insert(text(symbol.name(endian, symbols.strings())?));
        }
    }
    for section in sections.iter() {
        let Some((entries, link)) = section.dynamic(endian, bytes)? else { continue };
        let strings = sections.strings(endian, bytes, link)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_SONAME) {
            facts.soname = Some(text(entry.string(endian, strings)?));
        }
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::capture;

    const SOURCE: &str = r#"
        #include <stdio.h>
        int manx_listed(void) { return puts("listed"); }
        int manx_other(void) { return 1; }
        static int manx_hidden(void) { return 2; }
        int (*manx_pointer)(void) = manx_hidden;
    "#;

    fn built(soname: &str) -> Facts {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        let mut gcc = Command::new("cc");
        gcc.current_dir(folder.path()).args([
            "-shared",
            "-fPIC",
            "-nostartfiles",
            "-o",
            "a.so",
            "a.c",
            soname,
        ]);
        capture(&mut gcc).unwrap();
        facts(&fs::read(folder.path().join("a.so")).unwrap()).unwrap()
    }

    #[test]
    fn names_versions_and_soname_are_read() {
        let facts = built("-Wl,-soname,libmanx_preload.so");
        assert_eq!(facts.soname.as_deref(), Some(PRELOAD));
        assert!(facts.exports.contains("manx_listed") && facts.exports.contains("manx_pointer"));
        assert!(!facts.exports.contains("manx_hidden") && !facts.exports.contains("puts"));
        assert!(facts.versions.iter().any(|version| version.starts_with("GLIBC_2.")), "{facts:?}");
    }

    #[test]
    fn an_unlisted_export_and_a_listed_one_that_is_gone_are_found() {
        let facts = built("-Wl,-soname,libmanx_preload.so");
        let allowed = BTreeSet::from(["manx_listed", "manx_pointer", "manx_gone"]);
        let found: Vec<String> =
            exports(&LIBRARIES[0], &facts, &allowed).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("exports `manx_other`"), "{found:?}");
        assert!(found[1].contains("lists `manx_gone`"), "{found:?}");
    }

    #[test]
    fn a_wrong_soname_is_found() {
        let facts = built("-Wl,-soname,liba.so.1");
        assert!(loading(PRELOAD, &facts)[0].what.contains("liba.so.1"));
    }

    #[test]
    fn a_library_that_is_not_built_is_left_out_with_a_reason() {
        let (findings, left_out) = check(Path::new("/no/such/folder"), &Tree::of(Vec::new()));
        assert!(findings.is_empty() && left_out.len() == 2);
        assert!(left_out.iter().all(|why| why.contains("cargo xtask build")), "{left_out:?}");
    }

    #[test]
    fn without_the_list_the_rest_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("a.so");
        fs::write(&library, "not a library").unwrap();
        let (findings, left_out) = check_one(&LIBRARIES[0], &library, &Tree::of(Vec::new()));
        assert!(findings[0].what.contains("cannot be read") && left_out.is_none());
        let own = std::env::current_exe().unwrap();
        let (findings, left_out) = check_one(&LIBRARIES[0], &own, &Tree::of(Vec::new()));
        assert!(
            findings[0].what.contains("SONAME is missing")
                && left_out.unwrap().contains(LIBRARIES[0].exports)
        );
    }
}
