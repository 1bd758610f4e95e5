//! `cargo xtask tidy`: style as a test.
//!
//! Each check is a function from what it looks at to its findings, in a file of its own; this one
//! lists them. A finding is one line, `path:line: what: what to do`, so that an editor can jump to
//! it. What rustfmt, rustc and clippy know already is not checked again.

mod arrows;
mod circles;
mod columns;
mod dependencies;
mod finding;
mod headers;
mod length;
mod library;
mod links;
mod manifests;
mod modules;
mod places;
mod public;
mod safety;
mod slim;
mod syscalls;
mod tree;
mod words;

use crate::outcome::Result;
use crate::workspace::{Workspace, root};
use finding::Finding;
use tree::{File, Tree};

/// The checks that look at one file at a time.
const FILE_CHECKS: [fn(&File) -> Vec<Finding>; 8] = [
    places::check,
    headers::check,
    columns::check,
    length::check,
    words::check,
    safety::check,
    syscalls::check,
    manifests::check,
];

/// The paths of all files with an extension, from the root.
///
/// # Errors
/// If the tree cannot be read.
pub fn files(extension: &str) -> Result<Vec<String>> {
    let files = Tree::load(root())?.files.into_iter();
    Ok(files.filter(|file| file.extension() == extension).map(|file| file.path).collect())
}

/// Runs every check and prints what it finds.
///
/// # Errors
/// If anything is found, or the tree cannot be read.
pub fn run() -> Result {
    let tree = Tree::load(root())?;
    let workspace = Workspace::load()?;
    let mut findings: Vec<Finding> =
        tree.files.iter().flat_map(|file| FILE_CHECKS.iter().flat_map(move |check| check(file))).collect();
    findings.extend(links::check(&tree));
    findings.extend(arrows::check(&tree, &workspace.packages));
    findings.extend(circles::check(&tree));
    findings.extend(public::check(&tree));
    findings.extend(dependencies::check(&tree)?);
    let (found, left_out) = library::check(&workspace.release(), &tree);
    findings.extend(found);
    let (found, too) = slim::check(&workspace.release())?;
    findings.extend(found);
    for why in left_out.into_iter().chain(too) {
        println!("tidy: left out: {why}");
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    match findings.len() {
        0 => Ok(()),
        1 => Err("tidy found 1 thing to mend".into()),
        count => Err(format!("tidy found {count} things to mend")),
    }
}
