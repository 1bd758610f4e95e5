//! No file uses a file that uses it, however long the way round.
//!
//! Files that need each other can only be read together. Then they are one file; or a part of one,
//! which both need, belongs in a file below both. Which file uses which is read from the paths in
//! the source (`modules.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::modules::{self, Ties};
use super::tree::Tree;

/// Finds the circles between files of one package.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.files.iter().map(|file| &*file.path).filter(|path| is_root(path));
    let found = |root| {
        let ties = modules::ties(tree, root);
        circles(&ties).iter().map(|circle| finding(circle, &ties)).collect::<Vec<_>>()
    };
    roots.flat_map(found).collect()
}

/// Whether a package begins with this file.
fn is_root(path: &str) -> bool {
    ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(&format!("/{root}")))
}

/// The files of each circle.
fn circles(ties: &Ties) -> Vec<BTreeSet<&str>> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (user, used) in ties.keys() {
        uses.entry(user).or_default().insert(used);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (*file, reach(&uses, file))).collect();
    let comes_back = |from: &str, to: &str| reached.get(from).is_some_and(|reached| reached.contains(to));
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, reached) in reached.iter().filter(|(file, reached)| reached.contains(*file)) {
        if !seen.insert(*file) {
            continue;
        }
        let circle: BTreeSet<&str> =
            reached.iter().copied().filter(|other| comes_back(other, file)).collect();
        seen.extend(&circle);
        circles.push(circle);
    }
    circles
}

/// The files that a file needs, itself only if it is in a circle.
fn reach<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, file: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        next.extend(uses.get(file).into_iter().flatten().filter(|used| reached.insert(**used)));
    }
    reached
}

fn finding(circle: &BTreeSet<&str>, ties: &Ties) -> Finding {
    let inside = ties.iter().filter(|((user, used), _)| circle.contains(&**user) && circle.contains(&**used));
    let mut what = format!("a circle of {} files", circle.len());
    let mut first = None;
    for ((user, used), ties) in inside {
        first.get_or_insert((user, ties.first().map_or(0, |(line, _)| *line)));
        let at: Vec<String> = ties.iter().map(|(line, path)| format!("{line} `{path}`")).collect();
        what += &format!("; {user} uses {used} in line {}", at.join(", "));
    }
    let (path, line) = first.map_or(("", 0), |(path, line)| (&**path, line));
    Finding::new(path, line, what, "move what both need below both, or make them one file")
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    /// The findings in a package of these files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(name, text): &(&str, &str)| made_up(&format!("crates/a/src/{name}"), text);
        check(&Tree::of(files.iter().map(file).collect())).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_found_with_their_lines() {
        let found = found(&[
            ("lib.rs", "mod b;\nmod c;\n"),
            ("b.rs", "use crate::c::Low;\npub fn high() -> Low { Low }\n"),
            ("c.rs", "pub struct Low;\nfn f() {\n    super::b::high();\n}\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/b.rs:1: a circle of 2 files"), "{found:?}");
        assert!(
            found[0].contains("b.rs uses crates/a/src/c.rs in line 1 `crate::c::Low`, 2 `Low`"),
            "{found:?}"
        );
        assert!(found[0].contains("c.rs uses crates/a/src/b.rs in line 3 `super::b::high`"), "{found:?}");
    }

    #[test]
    fn a_long_way_round_is_one_circle_and_what_hangs_on_it_is_not_in_it() {
        let found = found(&[
            ("lib.rs", "mod b; mod c; mod d; mod e;\n"),
            ("b.rs", "use crate::c::C; pub struct B(C);\n"),
            ("c.rs", "use crate::d::{D, E as F}; pub struct C(D, F);\n"),
            ("d.rs", "pub use crate::e::E; pub struct D(Box<super::b::B>);\n"),
            ("e.rs", "pub struct E;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a circle of 3 files") && !found[0].contains("e.rs"), "{found:?}");
    }

    #[test]
    fn a_name_that_is_handed_on_belongs_to_the_file_that_defines_it() {
        let facade = [
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", "mod b; mod c;\npub use b::*; pub(crate) use c::{self as see, C};\n"),
            ("a/b.rs", "use super::C; use super::see::other; pub struct B(C);\n"),
            ("a/c.rs", "pub struct C; pub fn other() {}\n"),
        ];
        assert_eq!(found(&facade), Vec::<String>::new());
        let mut used = facade;
        used[1].1 = "mod b; mod c;\npub use b::*; pub use c::{self as see, C};\nfn f(b: B) {}\npub const N: u8 = 1;\n";
        used[3].1 = "pub struct C; pub fn other() { super::N; }\n";
        let found = found(&used);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a circle of 3 files"), "{found:?}");
    }

    #[test]
    fn tests_comments_texts_methods_and_other_crates_tie_nothing() {
        let found = found(&[
            ("lib.rs", "mod b; mod c;\n"),
            ("b.rs", "use crate::c::C; pub struct B(C);\npub mod c { pub struct Own; }\n"),
            (
                "c.rs",
                "//! See [`crate::b::B`].\n#![allow(unused)]\nuse ::std::fmt; use libc;\npub struct C {\n\
                 #[cfg(test)] b: crate::b::B,\n other: u8 }\n\
                 #[cfg(all(test, unix))]\nuse crate::b::B;\n\
                 /* crate::b::B */ fn f<'b>(x: &'b C) { x.b().b; \"crate::b::B\"; std::b::B; libc::b::B; }\n\
                 #[cfg(test)]\nmod tests { use crate::b::B; }\n",
            ),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn paths_in_macros_and_inline_modules_tie() {
        let found = found(&[
            ("lib.rs", "mod b; mod c;\n"),
            ("b.rs", "platform::os_only! { use crate::c::inner::C; pub struct B(C); }\n"),
            (
                "c.rs",
                "pub mod inner { pub struct C; }\n\
                 macro_rules! make { () => { $crate::b::B::new() } }\n#[cfg(not(test))] fn f() {}\n",
            ),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("c.rs uses crates/a/src/b.rs in line 2 `crate::b::B::new`"), "{found:?}");
    }
}
