//! No dead links in the documents: the file or heading that a Markdown file points to exists.
//!
//! Three kinds of reference are checked: a relative link `[text](path#heading)` and its anchor, a
//! reference definition `[name]: path`, and a path in code quotes that begins with a folder of the
//! root (`crates/…`). Addresses of the web are not followed: a test must not depend on somebody
//! else's server.

use super::finding::Finding;
use super::tree::{File, Tree};

/// Folders of the root. Text in code quotes that begins with one of them is a path.
const FOLDERS: [&str; 6] = ["bench/", "crates/", "twins/", "xtask/", "docs/", ".ci/"];

/// Finds dead links in every Markdown file outside test data.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents =
        tree.files.iter().filter(|file| file.extension() == "md" && !file.path.contains("/tests/"));
    documents.flat_map(|file| in_document(file, tree)).collect()
}

fn in_document(file: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose(file) {
        for target in targets(&line) {
            if let Some(what) = problem_with_link(&target, file, tree) {
                let remedy = "correct the link, or what it points to";
                findings.push(Finding::new(&file.path, number, what, remedy));
            }
        }
        for path in quoted(&line).filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder))) {
            let plain = path.trim_end_matches('/');
            if !path.contains(['*', '{', '…', ' ', '<']) && !tree.has(plain) {
                let what = format!("`{path}` is not there");
                findings.push(Finding::new(&file.path, number, what, "correct the path"));
            }
        }
    }
    findings
}

/// The lines outside fenced code.
fn prose(file: &File) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number, line.to_string()));
        }
    }
    lines
}

/// The texts in code quotes on a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Where the links of a line lead.
fn targets(line: &str) -> Vec<String> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let mut targets: Vec<String> = plain
        .match_indices("](")
        .filter_map(|(start, _)| plain[start + 2..].split([')', ' ']).next())
        .map(String::from)
        .collect();
    if let Some((name, target)) = plain.split_once("]: ")
        && name.starts_with('[')
        && !name.contains(']')
    {
        targets.extend(target.split_whitespace().next().map(String::from));
    }
    targets
}

/// What to report about a link's target; `None` if it exists, or leads to the web. (The caller
/// checks paths in code quotes.)
fn problem_with_link(target: &str, from: &File, tree: &Tree) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path_from_root = if path.is_empty() { Some(from.path.clone()) } else { resolve(&from.path, path) };
    let Some(path_from_root) = path_from_root.filter(|path| tree.has(path)) else {
        return Some(format!("a link to `{path}`, which is not there"));
    };
    if anchor.is_empty() {
        return None;
    }
    let headings = tree.file(&path_from_root).map(anchors).unwrap_or_default();
    (!headings.iter().any(|heading| heading == anchor))
        .then(|| format!("a link to `#{anchor}`, and {path_from_root} has no such heading"))
}

/// The path from the root to which the relative path `path` in the file `from` leads; `None` if it
/// leaves the tree.
pub fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, as the usual hosts make them.
fn anchors(file: &File) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(file) {
        let Some(heading) = line.strip_prefix('#') else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let earlier = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(vec![
            made_up(path, text),
            made_up("OTHER.md", "# One\n## What it can't do\n## One\n```\n# not a heading\n```\n"),
            made_up("crates/a/src/lib.rs", "//! A.\n"),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn live_links_pass() {
        let text = "[a](OTHER.md) [b](crates/a/) [c](OTHER.md#what-it-cant-do) [d](#here) \
                    [e](https://example.org/x) [f](OTHER.md#one-1)\n\n# Here\n\n[name]: ./OTHER.md\n\
                    see `crates/a/src/lib.rs`, `crates/*/src` and `cargo test`\n";
        assert_eq!(found("README.md", text), Vec::<String>::new());
        assert_eq!(found("crates/a/README.md", "[up](../../OTHER.md)\n"), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found_with_their_line() {
        let cases = [
            ("[a](GONE.md)", "a link to `GONE.md`"),
            ("[a](OTHER.md#two)", "a link to `#two`, and OTHER.md"),
            ("[a](OTHER.md#not-a-heading)", "a link to `#not-a-heading`"),
            ("[a](#nowhere)", "a link to `#nowhere`, and README.md"),
            ("[a](../outside.md)", "a link to `../outside.md`"),
            ("[name]: GONE.md", "a link to `GONE.md`"),
            ("see `crates/b/src`", "`crates/b/src` is not there"),
        ];
        for (text, expected) in cases {
            let found = found("README.md", &format!("first\n{text}\n"));
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].starts_with(&format!("README.md:2: {expected}")), "{found:?}");
        }
    }

    #[test]
    fn code_is_not_searched_for_links() {
        assert!(found("README.md", "```\n[a](GONE.md)\n```\nand `[a](GONE.md)`\n").is_empty());
    }
}
