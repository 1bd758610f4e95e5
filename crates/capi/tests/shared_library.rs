//! The shared library's ELF file: its name, and what it exports by which version.

mod common;

use common::{libraries, package};
use object::Endianness;
use object::elf::{DT_SONAME, FileHeader64, SHN_UNDEF, STB_LOCAL, STT_OBJECT};
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _, Sym as _};
use std::collections::BTreeSet;

struct Facts {
    soname: String,
    /// Each with its version.
    exports: BTreeSet<(String, String)>,
}

fn facts() -> Facts {
    let bytes = std::fs::read(libraries().join("libmanx.so")).expect("the library");
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = header.endian().expect("an ELF file");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let versions = sections.versions(endian, &*bytes).expect("readable").expect("versions");
    let symbols = sections.symbols(endian, &*bytes, object::elf::SHT_DYNSYM).expect("symbols");
    let mut exports = BTreeSet::new();
    for (index, symbol) in symbols.enumerate() {
        let exported = symbol.st_shndx(endian) != SHN_UNDEF && symbol.st_bind() != STB_LOCAL;
        // A version has a symbol of its own name.
        if exported && symbol.st_type() != STT_OBJECT {
            let version = versions.version(versions.version_index(endian, index).into()).expect("readable");
            let name = text(symbol.name(endian, symbols.strings()).expect("a name"));
            exports.insert((name, version.map_or(String::new(), |version| text(version.name()))));
        }
    }
    let mut soname = String::new();
    for section in sections.iter() {
        let Some((entries, link)) = section.dynamic(endian, &*bytes).expect("readable") else { continue };
        let strings = sections.strings(endian, &*bytes, link).expect("strings");
        if let Some(entry) = entries.iter().find(|entry| entry.tag(endian) == DT_SONAME) {
            soname = text(entry.string(endian, strings).expect("a name"));
        }
    }
    Facts { soname, exports }
}

#[test]
fn it_exports_what_the_script_lists_each_with_its_version() {
    let script = std::fs::read_to_string(package().join("link/manx.map")).expect("link/manx.map");
    let mut version = "";
    let mut listed = BTreeSet::new();
    for line in script.lines().map(str::trim) {
        if let Some(begun) = line.strip_suffix(" {") {
            version = begun;
        }
        if let Some(name) = line.strip_suffix(';').filter(|name| name.starts_with("manx_")) {
            listed.insert((name.to_owned(), version.to_owned()));
        }
    }
    let facts = facts();
    assert_eq!(facts.soname, "libmanx.so.0");
    assert!(facts.exports.contains(&("manx_mutex_lock".into(), "MANX_0".into())), "{:?}", facts.exports);
    assert_eq!(facts.exports, listed);
}
