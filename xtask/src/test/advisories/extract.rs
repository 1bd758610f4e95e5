//! The extract of RustSec's database: what a check needs of each advisory, and nothing else.
//!
//! An advisory is a file `crates/CRATE/RUSTSEC-….md` that begins with a block of TOML. Its keys are
//! few and plain, so their values are found by the key at the beginning of a line, and a list's
//! values by their quotes. A withdrawn advisory is left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Result;
use crate::process::capture;

/// Names a checkout of <https://github.com/rustsec/advisory-db>, from which the extract is made.
pub const DATABASE: &str = "MANX_ADVISORIES";

/// Reads a checkout.
///
/// # Errors
/// If it cannot be read, or has an advisory without a block.
pub fn make(database: &Path) -> Result<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(database).args(["log", "-1", "--format=%h of %cs"]);
    let mut lines = Vec::new();
    for package in entries(&database.join("crates"))? {
        let files =
            entries(&package)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "md"));
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let block = text.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("\n```"));
            let (block, _) = block.ok_or_else(|| format!("{}: it has no block of TOML", file.display()))?;
            lines.extend(line(block));
        }
    }
    lines.sort();
    Ok(format!(
        "# RustSec advisory database (public domain), commit {}\n# crate, advisory, kind, versions that it is not \
         about; made by {}=DIR cargo xtask test advisories\n{}\n",
        capture(&mut git)?.trim(),
        DATABASE,
        lines.join("\n")
    ))
}

/// What a folder has, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// The line of an advisory.
fn line(block: &str) -> Option<String> {
    if value(block, "withdrawn").is_some() {
        return None;
    }
    let one = |key: &str| value(block, key).and_then(|value| quoted(value).next()).unwrap_or_default();
    let list = |key: &str| value(block, key).map(|value| value.split(']').next().unwrap_or_default());
    let fine = ["patched", "unaffected"].into_iter().filter_map(list).flat_map(quoted);
    let fine: Vec<&str> = fine.collect();
    Some([one("package"), one("id"), one("informational"), &fine.join("|")].join("\t"))
}

/// What stands behind a key at the beginning of a line.
fn value<'b>(block: &'b str, key: &str) -> Option<&'b str> {
    let mut lines = block.split_inclusive('\n');
    let mut at = 0;
    lines.find_map(|line| {
        let begin = at;
        at += line.len();
        let rest = line.strip_prefix(key)?.trim_start();
        rest.starts_with('=').then(|| &block[begin + key.len()..])
    })
}

/// The texts between quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = "[advisory]\nid = \"RUSTSEC-1\"\npackage = \"a\"\nkeywords = [\"patched\"]\n\n[affected]\n\
                         functions = { \"a::b\" = [\"< 1\"] }\n[versions]\npatched = [\n  \">= 1.1, < 2\",\n  \"> 3\"]\n\
                         unaffected = []\n";

    #[test]
    fn a_line_has_the_versions_that_are_fine() {
        assert_eq!(line(BLOCK).as_deref(), Some("a\tRUSTSEC-1\t\t>= 1.1, < 2|> 3"));
        let unmaintained = BLOCK.replace("keywords", "informational = \"unmaintained\"\nkeywords");
        assert_eq!(line(&unmaintained).as_deref(), Some("a\tRUSTSEC-1\tunmaintained\t>= 1.1, < 2|> 3"));
        assert_eq!(line(&BLOCK.replace("keywords", "withdrawn = \"2020-01-01\"\nkeywords")), None);
    }

    #[test]
    fn a_checkout_becomes_an_extract() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("crates/a");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("RUSTSEC-1.md"), format!("```toml\n{BLOCK}```\n# Text\n")).unwrap();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
            capture(&mut git).unwrap()
        };
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "--message=first"]);
        let text = make(folder.path()).unwrap();
        assert!(text.ends_with("\na\tRUSTSEC-1\t\t>= 1.1, < 2|> 3\n"), "{text}");
        assert!(make(&package).unwrap_err().contains("crates"));
    }
}
