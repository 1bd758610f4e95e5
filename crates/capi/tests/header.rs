//! `include/manx.h` is what cbindgen makes of the sources, and the list of exports has the same names.
//!
//! After a change of an interface: `MANX_BLESS=1 cargo test -p capi --test header`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// In the order in which they stand in the header.
const SOURCES: [&str; 5] = ["epoch", "mutex", "cond", "rwlock", "version"];

const BEFORE: &str = "\
/*
 * Manx for C: latency targets, and locks that stay fast when threads outnumber CPUs.
 *
 * Link with `pkg-config --cflags --libs manx`. Programs that keep their pthread mutexes need manx_epoch.h only.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */";

const FIRST: &str = "\
#if defined(MANX_EPOCH_H)
#error \"manx.h has what manx_epoch.h has: include manx.h instead, or first\"
#endif

/* The initial states, as of memory that is all zero. */
#define MANX_MUTEX_INIT {0, 0}
#define MANX_COND_INIT {0, 0}
#define MANX_RWLOCK_INIT {0, 0}";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> PathBuf {
    package().join("include/manx.h")
}

fn generated() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(BEFORE.into()),
        include_guard: Some("MANX_H".into()),
        after_includes: Some(FIRST.into()),
        no_includes: true,
        sys_includes: vec!["stdint.h".into()],
        cpp_compat: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 200,
        tab_width: 4,
        style: cbindgen::Style::Both,
        ..cbindgen::Config::default()
    };
    config.function.sort_by = Some(cbindgen::SortKey::None);
    config.function.args = cbindgen::Layout::Horizontal;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(package().join(format!("src/{source}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    without_headings(&String::from_utf8(text).expect("text"))
}

/// What Rust's callers read below a heading is a sentence like others for C's.
fn without_headings(text: &str) -> String {
    text.replace(" *\n * # Safety\n", "")
}

/// The functions that a header declares.
fn declared(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("manx_"))
        .map(String::from)
        .collect()
}

#[test]
fn the_header_is_what_the_sources_say() {
    let generated = generated();
    if std::env::var_os("MANX_BLESS").is_some() {
        fs::write(header(), &generated).expect("the header can be written");
    }
    let found = fs::read_to_string(header()).expect("include/manx.h");
    assert!(
        found == generated,
        "include/manx.h is not what the sources say: MANX_BLESS=1 cargo test -p capi --test header"
    );
}

#[test]
fn what_is_declared_is_exported_and_the_other_way_round() {
    let declared = declared(&fs::read_to_string(header()).expect("include/manx.h"));
    let script = fs::read_to_string(package().join("link/manx.map")).expect("link/manx.map");
    let listed = script.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let listed: BTreeSet<String> =
        listed.filter(|name| name.starts_with("manx_")).map(String::from).collect();
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, listed);
}

#[test]
fn the_weak_declarations_are_the_headers() {
    let declarations = |file: &str, begins: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(package().join("include").join(file)).expect(file);
        let lines = text.lines().filter(|line| line.starts_with(begins) && line.contains("manx_epoch_"));
        lines.map(|line| line.replace(" __attribute__((weak))", "")).collect()
    };
    for begins in ["void ", "uint64_t "] {
        let weak = declarations("manx_epoch.h", begins);
        assert!(!weak.is_empty());
        assert_eq!(weak, declarations("manx.h", begins));
    }
}
