//! What is `pub` is named outside its file.
//!
//! The compiler finds what is not used only if it is not public. So an item that is public without
//! need hides that nothing calls it any more. Names are compared as words, in all files but prose:
//! an item that shares its name with something else is not found. An item that its own file uses
//! may also be public because public documentation links to it.

use std::collections::HashMap;

use super::finding::Finding;
use super::tree::{File, Tree};

/// Where an item is public for users, who are not in this tree.
const FOR_USERS: &str = "crates/manx/src/";
/// The words between `pub` and the kind of an item.
const BETWEEN: [&str; 6] = ["async", "const", "extern", "unsafe", "\"C\"", "\"C-unwind\""];
/// Kinds of items whose types stand in the signatures of others, which may be all that is used.
const TYPES: [&str; 5] = ["enum", "struct", "trait", "type", "union"];

/// Finds public items that no other file names.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut files: HashMap<&str, Vec<&File>> = HashMap::new();
    for file in tree.files.iter().filter(|file| file.extension() != "md") {
        for word in code(file).flat_map(|(_, line)| words(line)) {
            let files = files.entry(word).or_default();
            // The first two say whether there is another one.
            if files.len() < 2 && files.last().is_none_or(|last| last.path != file.path) {
                files.push(file);
            }
        }
    }
    let is_library = |file: &&File| {
        file.extension() == "rs" && file.path.contains("/src/") && !file.path.starts_with(FOR_USERS)
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(is_library) {
        for (line, text) in code(file) {
            let Some((kind, name)) = public(text) else { continue };
            let uses = code(file).flat_map(|(_, line)| words(line)).filter(|word| *word == name).count();
            let has_link = || file.lines().any(|(_, line)| line.contains(&format!("{name}`]")));
            if files[name].len() == 1 && (uses == 1 || !TYPES.contains(&kind) && !has_link()) {
                let what = format!("no other file names `{name}`");
                findings.push(Finding::new(&file.path, line, what, "take `pub` away, or the item"));
            }
        }
    }
    findings
}

/// The lines that are no comments, with their numbers.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The kind and the name of the item that begins in this line, if it is public.
fn public(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().strip_prefix("pub ")?;
    let mut parts = line.split(' ').peekable();
    let mut kind = parts.next()?;
    while BETWEEN.contains(&kind) && parts.peek().is_some_and(|next| *next == "fn" || BETWEEN.contains(next))
    {
        kind = parts.next()?;
    }
    let is_item = TYPES.contains(&kind) || ["const", "fn", "static"].contains(&kind);
    let name = parts.find(|part| *part != "mut")?;
    Some((kind, words(name).next()?)).filter(|_| is_item)
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn what_no_other_file_names_is_found_but_not_in_a_library_for_users() {
        let text = "//! See `seldom`, [`linked`].\npub const fn seldom<T>() {}\nfn f() { seldom(); linked(); }\n\
                    pub static mut LEFT: u8 = 0;\n    pub unsafe extern \"C\" fn by_c() {}\n\
                    pub struct Field;\npub struct Seen { field: Field }\npub trait Gone {}\n\
                    pub(crate) fn private() {}\npub use other::name;\npub const HIGH: u8 = 1;\npub fn linked() {}\n";
        let other = "// seldom\nuse a::{Seen, HIGH};\n";
        let tree = |folder: &str| {
            Tree::of(vec![
                made_up(&format!("{folder}/src/a.rs"), text),
                made_up("crates/a/tests/b.rs", other),
                made_up("crates/a/tests/c.c", "int main(void) { by_c(); }"),
                made_up("docs/a.md", "`seldom`, `LEFT`"),
            ])
        };
        let found: Vec<String> = check(&tree("crates/a")).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/a.rs:2: no other file names `seldom`: take `pub` away, or the item",
                "crates/a/src/a.rs:4: no other file names `LEFT`: take `pub` away, or the item",
                "crates/a/src/a.rs:8: no other file names `Gone`: take `pub` away, or the item",
            ]
        );
        assert_eq!(check(&tree("crates/manx")), []);
    }
}
