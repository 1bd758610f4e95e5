//! `include/manx.h`, `include/manx_range.h` and `include/manx_cpu.h` are what cbindgen makes of the
//! sources, and the list of exports has the same names.
//!
//! After a change of an interface: `MANX_BLESS=1 cargo test -p capi --test header`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A header that is made of sources.
struct Header {
    name: &'static str,
    guard: &'static str,
    /// In the order in which they stand in the header. The modules of each are read, too.
    sources: &'static [&'static str],
    before: &'static str,
    system: &'static [&'static str],
    /// Headers of ours that it begins with.
    includes: &'static [&'static str],
    first: &'static str,
}

const HEADERS: [Header; 3] = [
    Header {
        name: "manx.h",
        guard: "MANX_H",
        sources: &["epoch", "mutex", "cond", "rwlock", "version"],
        before: BEFORE,
        system: &["stdint.h"],
        includes: &[],
        first: FIRST,
    },
    Header {
        name: "manx_range.h",
        guard: "MANX_RANGE_H",
        sources: &["range/mod"],
        before: RANGE_BEFORE,
        system: &["stddef.h", "stdint.h"],
        includes: &["manx.h"],
        first: RANGE_FIRST,
    },
    Header {
        name: "manx_cpu.h",
        guard: "MANX_CPU_H",
        sources: &["cpu"],
        before: CPU_BEFORE,
        system: &["stddef.h"],
        includes: &[],
        first: "",
    },
];

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
#define MANX_RWLOCK_INIT {0}";

const RANGE_BEFORE: &str = "\
/*
 * Manx for C: locks of ranges of keys, such as parts of a file or of a buffer.
 *
 *     manx_range_t *file;
 *     manx_range_held_t head;
 *     manx_range_create(&file, NULL);
 *     manx_range_lock(file, 0, 4096, &head);
 *     manx_range_unlock(&head);
 *     manx_range_destroy(file);
 *
 * Functions return 0 or an error number, and leave errno alone. What fails changes nothing, unless it says otherwise:
 *
 *     EINVAL      the range is empty or inverted, or an argument is none
 *     EBUSY       it would have to be waited for
 *     ETIMEDOUT   it was waited for until the deadline, which is in nanoseconds of CLOCK_MONOTONIC (manx_now_ns)
 *     EDEADLK     it would be waited for for ever; manx_range_deadlock says why
 *     EAGAIN      the lock holds as many ranges as it may
 *     EPERM       it is not held
 *     ENOMEM      there is no memory for a lock
 *
 * Link with `pkg-config --cflags --libs manx`.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */";

const RANGE_FIRST: &str = "\
/* The end of a range that has no end. It has the key UINT64_MAX as well, so that every key can be locked. */
#define MANX_RANGE_END UINT64_MAX

/* What holds nothing, as memory that is all zero. */
#define MANX_RANGE_HELD_INIT {0, 0}";

const CPU_BEFORE: &str = "\
/*
 * Manx for C: how many CPUs the process can really use, and why not more.
 *
 *     long threads = manx_cpu_count();
 *
 * That is the least of the CPUs that are online, the calling thread's affinity, the CPUs of the process' group, and the quotas of its group
 * and of all groups above (cgroups of either version). All of it is read at each call, which takes some 100 microseconds and
 * allocates memory; the functions never fail.
 *
 * Link with `pkg-config --cflags --libs manx`.
 *
 * Generated from the library's sources by cbindgen: do not edit.
 */";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Header {
    fn path(&self) -> PathBuf {
        package().join("include").join(self.name)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect(self.name)
    }
}

fn generated(header: &Header) -> String {
    let owned = |texts: &[&str]| texts.iter().map(|text| String::from(*text)).collect();
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(header.before.into()),
        include_guard: Some(header.guard.into()),
        after_includes: Some(header.first.into()).filter(|text: &String| !text.is_empty()),
        no_includes: true,
        sys_includes: owned(header.system),
        includes: owned(header.includes),
        cpp_compat: true,
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 200,
        tab_width: 4,
        style: cbindgen::Style::Both,
        ..cbindgen::Config::default()
    };
    config.function.sort_by = Some(cbindgen::SortKey::None);
    config.function.args = cbindgen::Layout::Horizontal;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in header.sources {
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
fn the_headers_are_what_the_sources_say() {
    for header in HEADERS {
        let (name, generated) = (header.name, generated(&header));
        if std::env::var_os("MANX_BLESS").is_some() {
            fs::write(header.path(), &generated).expect("the header can be written");
        }
        assert!(
            header.text() == generated,
            "include/{name} is not what the sources say: MANX_BLESS=1 cargo test -p capi --test header"
        );
    }
}

#[test]
fn what_is_declared_is_exported_and_the_other_way_round() {
    let declared: BTreeSet<String> = HEADERS.iter().flat_map(|header| declared(&header.text())).collect();
    let script = fs::read_to_string(package().join("link/manx.map")).expect("link/manx.map");
    let listed = script.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let listed: BTreeSet<String> =
        listed.filter(|name| name.starts_with("manx_")).map(String::from).collect();
    assert!(declared.len() > 50, "{declared:?}");
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
