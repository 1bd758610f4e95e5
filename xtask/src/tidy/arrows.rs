//! The dependency arrows of ARCHITECTURE.md are those that cargo knows, no more and no fewer.
//!
//! The page has a list with an item for each package, in code quotes: its name, its folder, and
//! behind [`USES`] the packages of this workspace that it depends on. What the page says and what
//! is built cannot drift apart.
//!
//! One rule stands above the page: nothing that is installed depends on what measures.

use super::finding::Finding;
use super::tree::{File, Tree};
use crate::workspace::{Package, root};
use std::path::Path;

/// The page with the list.
const PAGE: &str = "ARCHITECTURE.md";
/// The heading above the list.
const HEADING: &str = "## Arrows";
/// The word before the packages that a package depends on.
const USES: &str = " Uses ";

/// Where what measures lies.
const MEASURES: &str = "bench";
/// A twin of what measures.
const MEASURING_TWIN: &str = "contend-sim";
/// What links every command to write the manual pages, and is not installed.
const PAGES: &str = "xtask-man";

/// An item of the list.
struct Row {
    line: usize,
    package: String,
    needs: Vec<String>,
    folder: String,
}

/// Compares the page with the packages.
pub fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Finding::new(PAGE, 0, "the page is not there", "write it")];
    };
    let rows = rows(page);
    let mut findings = Vec::new();
    for package in packages {
        match rows.iter().find(|row| row.package == package.name) {
            Some(row) => findings.extend(compare(row, package, tree)),
            None => {
                let what = format!("`{}` has no item below {HEADING}", package.name);
                findings.push(Finding::new(PAGE, 0, what, "add one with the packages that it depends on"));
            }
        }
    }
    findings.extend(measured(packages, tree));
    for row in rows.iter().filter(|row| !packages.iter().any(|package| package.name == row.package)) {
        let what = format!("`{}` is no package of the workspace", row.package);
        findings.push(Finding::new(PAGE, row.line, what, "remove the item"));
    }
    findings
}

/// Finds packages that depend on what measures and do not measure themselves.
fn measured(packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let measures = |package: &Package| {
        package.manifest.starts_with(root().join(MEASURES)) || package.name == MEASURING_TWIN
    };
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| !measures(package) && package.name != PAGES) {
        for need in packages.iter().filter(|need| measures(need) && package.needs.contains(&need.name)) {
            let what = format!("`{}` depends on `{}`, which measures", package.name, need.name);
            let (manifest, line) = declared(package, &need.name, tree);
            let remedy = "move what it needs below both: what is installed measures nothing";
            findings.push(Finding::new(&manifest, line, what, remedy));
        }
    }
    findings
}

/// The manifest of a package, and its line that declares a dependency.
fn declared(package: &Package, need: &str, tree: &Tree) -> (String, usize) {
    let manifest = package.manifest.strip_prefix(root()).unwrap_or(&package.manifest).to_string_lossy();
    let declares = |line: &str| line.trim_start().starts_with(need) || line.contains(&format!("\"{need}\""));
    let file = tree.file(&manifest);
    let line = file.and_then(|file| file.lines().find(|(_, line)| declares(line))).map_or(0, |found| found.0);
    (manifest.into_owned(), line)
}

fn compare(row: &Row, package: &Package, tree: &Tree) -> Vec<Finding> {
    let name = &package.name;
    let mut findings = Vec::new();
    for need in package.needs.iter().filter(|need| !row.needs.contains(need)) {
        let (manifest, line) = declared(package, need, tree);
        let what = format!("`{name}` depends on `{need}`, an arrow that {PAGE} does not have");
        findings.push(Finding::new(&manifest, line, what, "do without it, or argue for it on that page"));
    }
    for need in row.needs.iter().filter(|need| !package.needs.contains(need)) {
        let what = format!("`{name}` does not depend on `{need}`");
        findings.push(Finding::new(PAGE, row.line, what, "correct the item"));
    }
    let folder = package.manifest.parent().and_then(|folder| folder.strip_prefix(root()).ok());
    if let Some(folder) = folder.filter(|folder| *folder != Path::new(&row.folder)) {
        let what = format!("`{name}` lies in `{}`, not in `{}`", folder.display(), row.folder);
        findings.push(Finding::new(PAGE, row.line, what, "correct the item"));
    }
    findings
}

/// The items of the list below the heading.
fn rows(page: &File) -> Vec<Row> {
    let below = page.lines().skip_while(|(_, line)| *line != HEADING).skip(1);
    let mut items: Vec<(usize, String)> = Vec::new();
    for (line, text) in below.take_while(|(_, line)| !line.starts_with("## ")) {
        if let Some(item) = text.strip_prefix("- ") {
            items.push((line, item.into()));
        } else if let (Some(more), Some((_, item))) = (text.strip_prefix("  "), items.last_mut()) {
            *item += &format!(" {more}");
        }
    }
    let row = |(line, item): (usize, String)| {
        let (head, needs) = item.split_once(USES).unwrap_or((&item, ""));
        let mut names = quoted(head);
        Some(Row { line, package: names.next()?, folder: names.next()?, needs: quoted(needs).collect() })
    };
    items.into_iter().filter_map(row).collect()
}

fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    const LIST: &str = "# Title\n## Arrows\n\nWords.\n- `a`, `crates/a`: none, like `b`.\n\
                        - `b`, `crates/b`: more.\n  Uses `a`.\n## Next\n- `c`, `crates/c`. Uses `a`.\n";

    fn package(name: &str, needs: &[&str]) -> Package {
        let needs = needs.iter().map(|need| String::from(*need)).collect();
        let manifest = root().join(format!("crates/{name}/Cargo.toml"));
        Package {
            name: name.into(),
            manifest,
            needs,
            tests: Vec::new(),
            has_examples: false,
            features: Vec::new(),
        }
    }

    fn found(packages: &[Package]) -> Vec<String> {
        let manifest =
            made_up("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n");
        let tree = Tree::of(vec![made_up(PAGE, LIST), manifest]);
        check(&tree, packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_true_list_passes() {
        assert_eq!(found(&[package("a", &[]), package("b", &["a"])]), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_is_not_on_the_page_is_found_where_it_is_declared() {
        let found = found(&[package("a", &["b"]), package("b", &["a"])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/Cargo.toml:4: `a` depends on `b`"), "{found:?}");
    }

    #[test]
    fn an_arrow_that_is_not_in_cargo_is_found_on_the_page() {
        let found = found(&[package("a", &[]), package("b", &[])]);
        assert_eq!(found, ["ARCHITECTURE.md:6: `b` does not depend on `a`: correct the item"]);
    }

    #[test]
    fn a_package_in_another_folder_is_found_on_the_page() {
        let moved = Package { manifest: root().join("bench/b/Cargo.toml"), ..package("b", &["a"]) };
        let found = found(&[package("a", &[]), moved]);
        assert_eq!(found, ["ARCHITECTURE.md:6: `b` lies in `bench/b`, not in `crates/b`: correct the item"]);
    }

    #[test]
    fn what_measures_is_needed_only_by_what_measures() {
        let manifest = made_up("crates/a/Cargo.toml", "[dependencies]\nc.workspace = true\n");
        let tree = Tree::of(vec![manifest]);
        let bench = |name, needs| {
            let manifest = root().join(format!("bench/{name}/Cargo.toml"));
            Package { manifest, ..package(name, needs) }
        };
        let found = |packages: &[Package]| {
            measured(packages, &tree).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (c, d) = (bench("c", &["a", "d"]), bench("d", &[]));
        let fine = [c.clone(), d.clone(), package("a", &[]), package("b", &["a"]), package(PAGES, &["c"])];
        assert_eq!(found(&fine), Vec::<String>::new());
        let wrong = found(&[c, d, package("a", &["c"])]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/Cargo.toml:2: `a` depends on `c`"), "{wrong:?}");
    }

    #[test]
    fn packages_without_an_item_and_items_without_a_package_are_found() {
        let found = found(&[package("a", &[]), package("c", &[])]);
        assert!(found.iter().any(|text| text.contains("`c` has no item")), "{found:?}");
        assert!(found.iter().any(|text| text.contains(":6: `b` is no package")), "{found:?}");
    }
}
