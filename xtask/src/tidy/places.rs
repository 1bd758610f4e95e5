//! No stray files: every file has a folder where its kind is expected.

use super::finding::Finding;
use super::tree::File;

/// The files of the root and of hidden folders, each by its name.
const NAMED: [&str; 15] = [
    ".cargo/config.toml",
    ".ci/run",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "crates/preload-requests/exports.txt",
    "crates/preload/exports.txt",
    "rustfmt.toml",
];

/// Folders and the kinds of files that may lie in or anywhere below them. `*` stands for one
/// folder.
const KINDS: [(&str, &[&str]); 23] = [
    ("crates/*/src", &["rs", "toml", "md"]),
    (
        "crates/*/tests",
        &["rs", "c", "cpp", "h", "md", "toml", "trycmd", "stdout", "stderr", "txt", "py", "sh"],
    ),
    ("crates/cli/tests/cmd", &["json"]),
    ("crates/page", &["css", "html", "js", "json", "sha256"]),
    ("bench/*/src", &["rs", "toml", "md"]),
    ("bench/*/tests", &["rs", "c", "md", "toml", "trycmd", "txt"]),
    ("crates/*/proptest-regressions", &["txt"]),
    ("crates/*/benches", &["rs"]),
    ("crates/*/examples", &["rs", "c", "cpp"]),
    ("bench/engines", &["c", "cpp", "go", "h", "md"]),
    ("bench/mongo/tests/drivers", &["js", "json", "py", "txt"]),
    ("bench/ycsb", &["go", "mod", "sum"]),
    ("bench/workload/harm", &["c", "cpp", "go", "h", "java", "js", "py", "rs", "toml", "txt"]),
    ("bench/workload/victims", &["c", "erl", "h", "py", "txt"]),
    ("crates/capi/include", &["h", "hpp"]),
    ("crates/capi/link", &["map", "in"]),
    ("twins/*/*/src", &["rs"]),
    ("twins/*/*/tests", &["rs"]),
    ("twins/sim/platform/machines", &["toml"]),
    ("docs", &["md", "png", "svg", "yaml"]),
    ("docs/metrics", &["json", "yaml", "yml"]),
    ("xtask", &["rs", "tsv"]),
    ("xtask/src/test/dependent", &["in"]),
];

/// What a package has at its top.
const PACKAGE: [&str; 4] = ["Cargo.toml", "README.md", "build.rs", "targets.toml"];
/// Where packages are.
const PACKAGES: [&str; 5] = ["bench/*", "crates/*", "twins/*/*", "xtask", "xtask/man"];

/// Finds a file that is not expected where it lies.
pub fn check(file: &File) -> Vec<Finding> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let package = PACKAGE.contains(&name) && PACKAGES.iter().any(|place| below(folder, place) == Some(0));
    let kind = |(place, kinds): &(&str, &[&str])| {
        below(folder, place).is_some() && kinds.contains(&file.extension())
    };
    if NAMED.contains(&&*file.path) || package || KINDS.iter().any(kind) {
        return Vec::new();
    }
    let remedy = "move or remove it, or add its kind to the lists of xtask/src/tidy/places.rs";
    vec![Finding::new(&file.path, 0, "a stray file", remedy)]
}

/// How many folders deep `folder` lies below `place`, if it does.
fn below(folder: &str, place: &str) -> Option<usize> {
    let (folder, place): (Vec<_>, Vec<_>) = (folder.split('/').collect(), place.split('/').collect());
    let fits = place.iter().zip(&folder).all(|(wanted, got)| *wanted == "*" || wanted == got);
    if fits { folder.len().checked_sub(place.len()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn stray(path: &str) -> bool {
        !check(&made_up(path, "")).is_empty()
    }

    #[test]
    fn files_in_known_places_are_fine() {
        for path in [
            "Cargo.toml",
            ".ci/run",
            "crates/manx/Cargo.toml",
            "crates/manx/src/wait/park.rs",
            "crates/cli/tests/cmd/help.trycmd",
            "bench/cli/Cargo.toml",
            "bench/cli/tests/cmd/help.trycmd",
            "bench/engines/histogram.h",
            "bench/baselines/src/lock/ticket.rs",
            "twins/loom/baselines/Cargo.toml",
            "xtask/src/tidy/places.rs",
            "xtask/man/src/main.rs",
            "bench/rivals/README.md",
        ] {
            assert!(!stray(path), "{path}");
        }
    }

    #[test]
    fn files_in_no_known_place_are_found() {
        for path in [
            "notes.txt",
            "core",
            "crates/notes.md",
            "bench/notes.md",
            "crates/manx/notes.txt",
            "crates/manx/src/wait/park.rs.orig",
            "crates/manx/src/a.out",
            "other/src/lib.rs",
            "docs/results.json",
        ] {
            assert!(stray(path), "{path}");
        }
    }
}
