//! No file uses a file that uses it, however long the way round; and no module, with all that lies
//! below it, uses a module beside it that uses it.
//!
//! Files that need each other can only be read together. Then they are one file; or a part of one,
//! which both need, belongs in a file below both. Which file uses which is read from the paths in
//! the source (`modules.rs`), and from the `#include` of files in C and C++.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::links::resolve;
use super::modules::{self, Ties};
use super::tree::Tree;

/// Finds the circles between files of one target of cargo, and between files in C and C++.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.files.iter().map(|file| &*file.path).filter(|path| is_root(path));
    let mut found = findings(&includes(tree));
    for root in roots {
        let ties = modules::ties(tree, root);
        let files = findings(&ties);
        // A circle of files may be one of modules, too.
        found.extend(if files.is_empty() { findings(&by_module(&ties)) } else { files });
    }
    found
}

/// Which file in C or C++ includes which one.
fn includes(tree: &Tree) -> Ties {
    let mut ties = Ties::new();
    for file in tree.files.iter().filter(|file| ["c", "cpp", "h", "hpp"].contains(&file.extension())) {
        for (line, text) in file.lines() {
            let Some(name) = text.trim().strip_prefix("#include \"").and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            if let Some(used) = resolve(&file.path, name) {
                ties.entry((file.path.clone(), used)).or_default().insert((line, name.into()));
            }
        }
    }
    ties
}

/// Whether cargo takes this file for the root of a library, a program, a test or an example.
fn is_root(path: &str) -> bool {
    const KINDS: [&str; 3] = ["benches", "examples", "tests"];
    let mut parts = path.rsplit('/');
    match (parts.next(), parts.next()) {
        (Some("main.rs"), _) | (Some("lib.rs"), Some("src")) => true,
        (Some(name), Some(folder)) => name.ends_with(".rs") && KINDS.contains(&folder),
        _ => false,
    }
}

fn findings(ties: &Ties) -> Vec<Finding> {
    circles(ties).iter().map(|circle| finding(circle, ties)).collect()
}

/// The ties between modules that lie side by side, each with all that lies below it: for each file
/// that uses another, the first. A module may use what lies below it, and be used by that.
fn by_module(ties: &Ties) -> Ties {
    let mut modules = Ties::new();
    for ((user, used), lines) in ties {
        let (user_parts, used_parts) = (parts(user), parts(used));
        let same = user_parts.iter().zip(&used_parts).take_while(|(user, used)| user == used).count();
        if user_parts.len() > same && used_parts.len() > same {
            let (line, path) = &lines.first().expect("a tie has a line");
            let module = |parts: &[&str]| parts[..=same].join("/");
            let tie = (*line, format!("{path}` of `{user}"));
            modules.entry((module(&user_parts), module(&used_parts))).or_default().insert(tie);
        }
    }
    modules
}

/// The folders and the name of a module; those of its folder for a `mod.rs` and a package's root.
fn parts(file: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    parts.pop_if(|name| ["lib", "main", "mod"].contains(name));
    parts
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
    let are_files = circle.iter().all(|path| path.contains('.'));
    let mut what = format!("a circle of {} {}", circle.len(), if are_files { "files" } else { "modules" });
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
    fn a_name_of_both_a_module_and_an_item_leads_to_the_item_at_the_end_of_a_path() {
        let by_facade = found(&[
            ("lib.rs", "mod collection; mod reply;\n"),
            ("collection.rs", "mod copy;\npub use copy::copy;\n"),
            ("collection/copy.rs", "use crate::reply::Reply; pub fn copy() -> Reply { Reply }\n"),
            ("reply.rs", "use crate::collection; pub struct Reply; fn f() { collection::copy(); }\n"),
        ]);
        assert_eq!(by_facade.len(), 1, "{by_facade:?}");
        assert!(by_facade[0].contains("collection/copy.rs"), "{by_facade:?}");
        assert!(by_facade[0].contains("in line 1 `collection::copy`"), "{by_facade:?}");
        let by_use = found(&[
            ("lib.rs", "mod copy; mod reply; pub use copy::copy;\n"),
            ("copy.rs", "use crate::reply::Reply; pub fn copy() -> Reply { Reply } pub fn other() {}\n"),
            ("reply.rs", "use crate::copy; pub struct Reply; fn f() { copy(); copy::other(); }\n"),
        ]);
        assert_eq!(by_use.len(), 1, "{by_use:?}");
        assert!(by_use[0].contains("in line 1 `copy`, 1 `copy::other`, 1 `crate::copy`"), "{by_use:?}");
        let by_glob = found(&[
            ("lib.rs", "mod copy; mod reply; pub use copy::copy;\n"),
            ("copy.rs", "use crate::reply::Reply; pub fn copy() -> Reply { Reply }\n"),
            ("reply.rs", "use super::*; pub struct Reply; fn f() { copy(); }\n"),
        ]);
        assert_eq!(by_glob.len(), 1, "{by_glob:?}");
    }

    #[test]
    fn a_module_and_one_beside_it_that_use_files_of_each_other_are_found() {
        let files = [
            ("lib.rs", "mod engines; mod turns;\n"),
            ("engines.rs", "mod version; pub use version::Version; fn f() { crate::turns::take(); }\n"),
            ("engines/version.rs", "pub struct Version;\n"),
            ("turns.rs", "use crate::engines::Version; pub fn take() {}\n"),
        ];
        let circle = found(&files);
        assert_eq!(circle.len(), 1, "{circle:?}");
        assert!(circle[0].starts_with("crates/a/src/engines:1: a circle of 2 modules"), "{circle:?}");
        assert!(
            circle[0].contains("in line 1 `crate::engines::Version` of `crates/a/src/turns.rs`"),
            "{circle:?}"
        );
        let mut mended = files;
        mended[3].1 = "pub fn take() {}\n";
        assert_eq!(found(&mended), Vec::<String>::new());
    }

    #[test]
    fn modules_that_bring_in_all_of_each_other_end_the_search_and_tests_are_searched() {
        let glob = "use super::*; pub use super::b::*; pub use super::c::*; pub use super::d::*;";
        let all = |own: &str| format!("{glob} pub fn {own}() {{ unknown(); }}");
        let file = |name: &str, text: &str| made_up(&format!("crates/a/{name}"), text);
        let mut files = vec![file("tests/t.rs", "mod b; mod c; mod d; use b::*; use c::*; use d::*;")];
        files.extend(["b", "c", "d"].map(|name| file(&format!("tests/{name}.rs"), &all(name))));
        assert_eq!(check(&Tree::of(files)), []);
        let found = check(&Tree::of(vec![
            file("tests/t/main.rs", "mod common; const TEXT: u8 = 0; fn f() { common::run(); }"),
            file("tests/t/common.rs", "use crate::TEXT; pub fn run() {}"),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn headers_that_include_each_other_are_found() {
        let header = |name: &str, includes: &str| made_up(&format!("bench/engines/{name}"), includes);
        let tree = |last: &str| {
            Tree::of(vec![
                header("store.c", "#include \"engine.h\"\n"),
                header("engine.h", "#include <time.h>\n#include \"../engines/ledger.h\"\n"),
                header("ledger.h", last),
            ])
        };
        let found = check(&tree("// Fine.\n#include \"engine.h\"\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        let text = found[0].to_string();
        assert!(text.contains("a circle of 2 files") && !text.contains("store.c"), "{text}");
        assert!(text.contains("ledger.h uses bench/engines/engine.h in line 2 `engine.h`"), "{text}");
        assert_eq!(check(&tree("#include <stdio.h>\n")), []);
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
