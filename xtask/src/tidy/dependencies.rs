//! What comes from elsewhere: its licence, its source, in how many versions, and whether it is
//! used.
//!
//! 1. Each package that is built on Linux has a licence of which [`LICENSES`] allow one way.
//! 2. It comes from crates.io or lies in this repository.
//! 3. It comes in one version, but for [`TWICE`].
//! 4. A direct dependency is named in the package's source, but for [`UNNAMED`].
//!
//! `cargo deny` and `cargo machete` check the same and more. CI does not use them for that: both
//! have to be compiled first, `cargo deny` out of some hundred crates, and CI builds all from
//! nothing within 20 minutes. Advisories are a step of `cargo xtask test`, with an extract of their
//! database.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::Finding;
use super::links::resolve;
use super::tree::{File, Tree};
use crate::outcome::Result;
use crate::process::capture;
use crate::workspace::{cargo, locked};

/// The licences that everything may have, as SPDX names them.
const LICENSES: [&str; 9] = [
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Packages with another licence, and this licence. Nothing that is installed links them.
const EXCEPTIONS: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Packages of which another dependency still needs an older version.
const TWICE: [&str; 19] = [
    "base64",
    "bit-vec",
    "const-oid",
    "foldhash",
    "getrandom",
    "hashbrown",
    "lock_api",
    "parking_lot",
    "parking_lot_core",
    "prettyplease",
    "rand",
    "rand_chacha",
    "rand_core",
    "shlex",
    "signal-hook",
    "syn",
    "toml",
    "toml_datetime",
    "winnow",
];
/// Dependencies that no source of the package itself names: a library that is built beside a test,
/// and what the source of a twin names.
const UNNAMED: [(&str, &str); 4] = [
    ("preload", "preload-requests"),
    ("contend-sim", "baselines"),
    ("contend-sim", "manx"),
    ("contend-sim", "report"),
];
/// What is built for; others' packages are not even downloaded.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Asks cargo, and checks all four.
///
/// # Errors
/// If cargo does not answer.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--all-features"]).args(locked());
    command.args(TARGETS.iter().flat_map(|target| ["--filter-platform", target]));
    let answer: Value = serde_json::from_str(&capture(&mut command)?)
        .map_err(|error| format!("`cargo metadata`: {error}"))?;
    let root = answer["workspace_root"].as_str().unwrap_or_default();
    let packages = answer["packages"].as_array().ok_or("`cargo metadata` names no packages")?;
    let mut findings: Vec<Finding> = packages.iter().filter_map(licence).collect();
    findings.extend(packages.iter().filter_map(source));
    findings.extend(versions(packages));
    let members = packages.iter().filter(|package| package["source"].is_null());
    findings.extend(members.flat_map(|package| unused(tree, package, root)));
    Ok(findings)
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

fn finding(what: String, remedy: &str) -> Finding {
    Finding::new("Cargo.lock", 0, what, remedy)
}

fn licence(package: &Value) -> Option<Finding> {
    let (name, says) = (name(package), package["license"].as_str().unwrap_or_default());
    let fine = |licence: &str| LICENSES.contains(&licence) || EXCEPTIONS.contains(&(name, licence));
    let what = format!("{name}: the licence `{says}` is not allowed");
    (!is_allowed(says, fine)).then(|| finding(what, "do without it, or see xtask/src/tidy/dependencies.rs"))
}

/// Whether an SPDX expression can be met by licences that are fine. An exception to a licence
/// (`WITH`) only gives more rights. A slash is an old `OR`.
fn is_allowed(expression: &str, fine: impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    !words.is_empty() && any(&mut rest, &fine) && rest.is_empty()
}

/// Terms with `OR` between them. All are read, also behind one that is fine.
fn any(rest: &mut &[&str], fine: &impl Fn(&str) -> bool) -> bool {
    let mut is_fine = all(rest, fine);
    while let ["OR", behind @ ..] = *rest {
        *rest = behind;
        is_fine |= all(rest, fine);
    }
    is_fine
}

/// Licences with `AND` between them.
fn all(rest: &mut &[&str], fine: &impl Fn(&str) -> bool) -> bool {
    let mut is_fine = one(rest, fine);
    while let ["AND", behind @ ..] = *rest {
        *rest = behind;
        is_fine &= one(rest, fine);
    }
    is_fine
}

/// A licence, or an expression in parentheses.
fn one(rest: &mut &[&str], fine: &impl Fn(&str) -> bool) -> bool {
    match *rest {
        ["(", behind @ ..] => {
            *rest = behind;
            let is_fine = any(rest, fine);
            let closes = rest.first() == Some(&")");
            *rest = &rest[usize::from(closes)..];
            is_fine && closes
        }
        [licence, "WITH", _, behind @ ..] | [licence, behind @ ..] => {
            *rest = behind;
            fine(licence)
        }
        [] => false,
    }
}

fn source(package: &Value) -> Option<Finding> {
    let source = package["source"].as_str().unwrap_or(REGISTRY);
    let what = format!("{} comes from {source}", name(package));
    (source != REGISTRY).then(|| finding(what, "take it from crates.io"))
}

fn versions(packages: &[Value]) -> Vec<Finding> {
    let names: Vec<&str> = packages.iter().map(name).collect();
    let twice: BTreeSet<&str> =
        names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1).copied().collect();
    let finding = |name: &&str| {
        let remedy = format!("`cargo tree -d` says by which way: update, or name it in {}", file!());
        Finding::new("Cargo.lock", 0, format!("{name} comes in several versions"), remedy)
    };
    twice.iter().filter(|name| !TWICE.contains(name)).map(finding).collect()
}

/// The direct dependencies of a member that none of its files names.
fn unused(tree: &Tree, package: &Value, root: &str) -> Vec<Finding> {
    let inside = |path: &Value| {
        let path = path.as_str().unwrap_or_default();
        path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned()
    };
    let manifest = inside(&package["manifest_path"]);
    let targets = package["targets"].as_array().into_iter().flatten();
    // A twin's source is another package's: `twins/sim/manx/../../../crates/manx/src/lib.rs`.
    let targets = targets.filter_map(|target| resolve("", &inside(&target["src_path"])));
    let files = sources(tree, targets.chain([manifest.clone()]));
    let is_named = |name: &str| files.iter().any(|file| names(file, &name.replace('-', "_")));
    let needs = package["dependencies"].as_array().into_iter().flatten();
    let needs = needs.filter_map(|need| need["rename"].as_str().or(need["name"].as_str()));
    needs
        .filter(|need| !is_named(need) && !UNNAMED.contains(&(name(package), *need)))
        .map(|need| Finding::new(&manifest, 0, format!("{need} is not used"), "take it out"))
        .collect()
}

/// The Rust files in the folders of these files, and those that they include by a path.
fn sources(tree: &Tree, begin: impl Iterator<Item = String>) -> Vec<&File> {
    let folders: BTreeSet<String> =
        begin.filter_map(|path| path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"))).collect();
    let is_inside = |file: &&File| folders.iter().any(|folder| file.path.starts_with(folder));
    let mut files: Vec<&File> =
        tree.files.iter().filter(|file| file.extension() == "rs").filter(is_inside).collect();
    let mut next = 0;
    while let Some(&file) = files.get(next) {
        for (_, line) in file.lines() {
            let path = line.trim().strip_prefix("#[path = \"").and_then(|rest| rest.split('"').next());
            let included = path.and_then(|path| tree.file(&resolve(&file.path, path)?));
            if let Some(included) = included.filter(|other| files.iter().all(|file| file.path != other.path))
            {
                files.push(included);
            }
        }
        next += 1;
    }
    files
}

/// Whether a line of code has this word.
fn names(file: &File, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    file.lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .any(|(_, line)| line.split(|letter| !is_part(letter)).any(|found| found == word))
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;
    use serde_json::json;

    #[test]
    fn an_expression_is_met_by_what_is_fine() {
        let fine = |licence: &str| ["MIT", "ISC"].contains(&licence);
        for allowed in [
            "MIT",
            "GPL-3.0 OR MIT",
            "Apache-2.0/MIT",
            "(GPL-3.0 OR MIT) AND ISC",
            "MIT WITH more",
            "ISC AND MIT OR GPL-3.0",
        ] {
            assert!(is_allowed(allowed, fine), "{allowed}");
        }
        for refused in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT", "GPL-3.0 AND (MIT OR ISC)", "OR MIT"]
        {
            assert!(!is_allowed(refused, fine), "{refused}");
        }
    }

    #[test]
    fn a_package_without_a_licence_from_elsewhere_and_in_two_versions_is_found() {
        let package = |name: &str, license: Value, source: &str| json!({"name": name, "license": license, "source": source});
        let packages = [
            package("a", json!(null), REGISTRY),
            package("b", json!("MIT"), "git+https://example.org/b"),
            package("b", json!("MIT"), REGISTRY),
            package("syn", json!("MIT"), REGISTRY),
            package("syn", json!("MIT"), REGISTRY),
        ];
        assert_eq!(packages.iter().filter_map(licence).count(), 1);
        assert_eq!(packages.iter().filter_map(source).count(), 1);
        assert_eq!(versions(&packages).len(), 1);
        assert!(licence(&package("other", json!("MPL-2.0"), REGISTRY)).is_some());
        assert!(licence(&package("cbindgen", json!("MPL-2.0"), REGISTRY)).is_none());
    }

    #[test]
    fn a_dependency_is_used_where_code_names_it_also_in_a_file_that_is_included() {
        let tree = Tree::of(vec![
            made_up("crates/a/src/lib.rs", "// unused_one is fine\nuse used_one::X;\n"),
            made_up("crates/a/tests/t.rs", "#[path = \"../../b/tests/common.rs\"]\nmod common;\n"),
            made_up("crates/b/tests/common.rs", "use third;\n"),
        ]);
        let needs: Vec<Value> =
            ["used-one", "unused-one", "third"].iter().map(|name| json!({"name": name})).collect();
        let package = json!({"name": "a", "manifest_path": "/w/crates/a/Cargo.toml", "dependencies": needs,
            "targets": [{"src_path": "/w/crates/a/src/lib.rs"}]});
        let found = unused(&tree, &package, "/w");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].to_string(), "crates/a/Cargo.toml: unused-one is not used: take it out");
    }
}
