//! Known vulnerabilities in crates that are not ours.
//!
//! RustSec keeps a database of them. It is on the network, which CI does not reach, and a check
//! that is skipped is none. So the repository has an extract of it, `advisories.tsv`: a line for
//! each advisory, without its text.
//!
//! 1. A version in Cargo.lock that an advisory of the extract is about fails the step. So does a
//!    dependency that is added later, because the extract has all crates. A crate without a
//!    maintainer is printed only.
//! 2. Where `cargo deny` is installed and reaches the database, the step asks it for newer ones.
//! 3. With the variable [`extract::DATABASE`], which names a checkout of the database, the extract
//!    is made anew first.
//!
//! What needs no database (licences, sources, versions, unused dependencies) is `cargo xtask
//! tidy`'s.

mod extract;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::{Version, VersionReq};

use crate::outcome::Result;
use crate::process::{capture, root, run as run_command};
use crate::steps::Verdict;
use crate::workspace::cargo;

/// The extract, from the root.
const EXTRACT: &str = "xtask/src/test/advisories.tsv";
/// Advisories about a version that is used all the same, each with the reason.
const ACCEPTED: [(&str, &str); 0] = [];
/// How `cargo deny` says that there is no database to ask.
const NOT_FETCHED: &str = "failed to fetch advisory database";

/// A line of the extract.
struct Advisory {
    package: String,
    id: String,
    /// Nothing for a vulnerability; else a word of the database, such as `unmaintained`.
    kind: String,
    /// The versions that it is not about.
    fine: Vec<VersionReq>,
}

/// Checks Cargo.lock against the extract, and against the database itself if that can be reached.
pub fn run(limit: Duration) -> Verdict {
    match extracted().and_then(|text| check(&text)) {
        Ok(()) => newest(limit),
        Err(why) => Verdict::Failed(why),
    }
}

/// The extract, made anew if that is wished.
fn extracted() -> Result<String> {
    let file = root().join(EXTRACT);
    if let Some(database) = std::env::var_os(extract::DATABASE).map(PathBuf::from) {
        let text = extract::make(&database)?;
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    read(&file)
}

fn check(text: &str) -> Result {
    let advisories =
        text.lines().filter(|line| !line.starts_with('#')).map(parse).collect::<Result<Vec<_>>>()?;
    let lock = read(&root().join("Cargo.lock"))?;
    let locked = packages(&lock);
    println!("{} advisories about {} versions", advisories.len(), locked.len());
    println!("{}", text.lines().next().unwrap_or_default().trim_start_matches("# "));
    let mut found = Vec::new();
    for advisory in &advisories {
        let about = locked.iter().filter(|(name, version)| advisory.is_about(name, version));
        for (name, version) in about {
            let line = format!("{name} {version}: {} {}", advisory.id, advisory.kind);
            let is_accepted = ACCEPTED.iter().any(|(id, _)| *id == advisory.id);
            match advisory.kind.as_str() {
                "unmaintained" | "notice" => println!("{line}"),
                _ if is_accepted => println!("{line}, accepted"),
                _ => found.push(line.trim_end().to_owned()),
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} known vulnerabilities: cargo update, or see https://rustsec.org/advisories\n{}",
        found.len(),
        found.join("\n")
    ))
}

/// What `cargo deny` says.
fn newest(limit: Duration) -> Verdict {
    if capture(cargo().args(["deny", "--version"])).is_err() {
        println!("(for newer ones: cargo install --locked cargo-deny)");
        return Verdict::Passed;
    }
    match capture(cargo().args(["deny", "fetch", "db"])) {
        Err(why) if why.contains(NOT_FETCHED) => {
            println!("(for newer ones the database has to be reached: {NOT_FETCHED})");
            Verdict::Passed
        }
        Err(why) => Verdict::Failed(why),
        Ok(_) => run_command(cargo().args(["deny", "check", "advisories"]), limit).into(),
    }
}

impl Advisory {
    fn is_about(&self, name: &str, version: &Version) -> bool {
        self.package == name && !self.fine.iter().any(|fine| fine.matches(version))
    }
}

/// A line of the extract: the crate, the advisory's name, its kind, and the versions that it is not
/// about.
fn parse(line: &str) -> Result<Advisory> {
    let wrong = || format!("{EXTRACT}: `{line}` is no crate, advisory, kind and versions, with tabs between");
    let [package, id, kind, fine] = line.split('\t').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let fine = fine.split('|').filter(|one| !one.is_empty());
    let fine = fine.map(|one| VersionReq::parse(one).map_err(|_| wrong())).collect::<Result<_>>()?;
    Ok(Advisory { package: package.into(), id: id.into(), kind: kind.into(), fine })
}

/// The names and versions in a Cargo.lock.
fn packages(lock: &str) -> BTreeSet<(&str, Version)> {
    let packages = lock.split("[[package]]").skip(1).filter(|package| package.contains("\nsource = "));
    let both = packages.filter_map(|package| {
        let value = |key: &str| package.split_once(key)?.1.split('"').next();
        Some((value("\nname = \"")?, Version::parse(value("\nversion = \"")?).ok()?))
    });
    both.collect()
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_affected_unless_one_of_the_ranges_has_it() {
        let advisory = parse("tokio\tRUSTSEC-2021-0072\t\t>= 1.5.1, < 1.6.0|>= 1.6.3|< 0.3.0").unwrap();
        for (version, is_about) in
            [("1.5.0", true), ("1.5.1", false), ("1.6.0", true), ("1.54.1", false), ("0.2.9", false)]
        {
            let version = Version::parse(version).unwrap();
            assert_eq!(advisory.is_about("tokio", &version), is_about, "{version}");
            assert!(!advisory.is_about("tokio-util", &version));
        }
        let every = parse("json\tRUSTSEC-2022-0081\tunmaintained\t").unwrap();
        assert!(every.is_about("json", &Version::new(0, 12, 4)));
        assert!(parse("tokio\tRUSTSEC-2021-0072\t\t>= one").is_err());
        assert!(parse("tokio\tRUSTSEC-2021-0072").is_err());
    }

    #[test]
    fn packages_of_the_registry_are_read_and_our_own_are_not() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"registry\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        assert_eq!(packages(lock), [("a", Version::new(1, 2, 3))].into());
    }

    #[test]
    fn the_extract_knows_an_old_vulnerability() {
        let text = read(&root().join(EXTRACT)).unwrap();
        assert!(text.lines().next().unwrap().starts_with("# RustSec"));
        let advisories: Vec<_> =
            text.lines().filter(|line| !line.starts_with('#')).map(|line| parse(line).unwrap()).collect();
        let version = Version::new(0, 8, 1);
        assert!(advisories.len() > 1_000);
        assert!(advisories.iter().any(|advisory| advisory.is_about("smallvec", &Version::new(1, 6, 0))));
        assert!(!advisories.iter().any(|advisory| advisory.is_about("crossbeam-deque", &version)));
    }
}
