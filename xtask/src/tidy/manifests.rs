//! Every package takes from the workspace what must be the same everywhere, and no profile aborts
//! on panic.
//!
//! Cargo takes a profile for the whole workspace, so that one line for one package would change how
//! the preload library behaves when a thread that waits in it is cancelled: it unwinds through us.

use super::finding::Finding;
use super::tree::File;

/// What each package's manifest says, each a line of its own.
const SAYS: [&str; 4] =
    ["edition.workspace = true", "license.workspace = true", "rust-version.workspace = true", "[lints]"];

/// Finds what is missing, and what must not be there.
pub fn check(file: &File) -> Vec<Finding> {
    if file.path != "Cargo.toml" && !file.path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = Vec::new();
    let bare = |line: &str| line.split('#').next().unwrap_or_default().split_whitespace().collect::<String>();
    for (number, _) in file.lines().filter(|(_, line)| bare(line) == r#"panic="abort""#) {
        let remedy = "take it out: threads that are cancelled unwind through the preload library";
        findings.push(Finding::new(&file.path, number, "a profile that aborts on panic", remedy));
    }
    if file.lines().any(|(_, line)| line == "[package]") {
        for says in SAYS.iter().filter(|says| !file.lines().any(|(_, line)| line == **says)) {
            let what = format!("no `{says}`");
            findings.push(Finding::new(&file.path, 0, what, "take it from the workspace"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn a_package_that_takes_all_from_the_workspace_passes() {
        let text = format!("[package]\nname = \"a\"\n{}\nworkspace = true\n", SAYS.join("\n"));
        assert!(check(&made_up("crates/a/Cargo.toml", &text)).is_empty());
        assert!(check(&made_up("Cargo.toml", "[workspace]\n[profile.release]\ndebug = true\n")).is_empty());
    }

    #[test]
    fn fields_that_a_manifest_does_not_inherit_are_found() {
        let found = check(&made_up("crates/a/Cargo.toml", "[package]\nname = \"a\"\nedition = \"2021\"\n"));
        assert_eq!(found.len(), SAYS.len());
    }

    #[test]
    fn a_profile_that_aborts_is_found_with_its_line() {
        let found = check(&made_up("Cargo.toml", "[profile.release]\n panic = \"abort\" # small\n"));
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
