//! No public signature of `manx` names a type of the package `platform`: that package is for the
//! rooms of `manx`, and its types change with them.
//!
//! rustdoc has resolved all names, so the check reads its pages. A declaration that links to a page
//! of `platform` names one of its items, and a page whose source is a file of `platform` shows an
//! item that `manx` re-exports. Text and hidden items do not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::Result;

/// The documented library.
const LIBRARY: &str = "manx";
/// The folder of the pages to which no declaration may link.
const INTERNAL: &str = "platform";
/// How the link to the source of a page's item begins.
const SOURCE: &str = "<a class=\"src\" href=\"";
/// How the elements that hold declarations begin and end: whole items, implementations and
/// variants, methods.
const DECLARATIONS: [(&str, &str); 3] = [
    ("<pre class=\"rust item-decl\">", "</pre>"),
    ("<h3 class=\"code-header\">", "</h3>"),
    ("<h4 class=\"code-header\">", "</h4>"),
];

/// Removes the pages of an earlier build, since rustdoc leaves those of items that are gone.
///
/// # Errors
/// If the folder cannot be removed.
pub fn begin(docs: &Path) -> Result {
    let folder = docs.join(LIBRARY);
    match fs::remove_dir_all(&folder) {
        Err(error) if folder.exists() => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

/// Checks the pages below `docs`, the folder into which rustdoc has written.
///
/// # Errors
/// If a declaration names an internal type; the error lists the pages and the declarations. Also if
/// the pages are not there.
pub fn check(docs: &Path) -> Result {
    let mut pages = Vec::new();
    pages_below(&docs.join(LIBRARY), &mut pages)?;
    if pages.is_empty() || !docs.join(INTERNAL).is_dir() {
        return Err(format!("{}: no pages of {LIBRARY} and {INTERNAL}", docs.display()));
    }
    let mut found = Vec::new();
    for page in pages {
        let html = read(&page)?;
        let name = page.strip_prefix(docs).unwrap_or(&page).display();
        if is_internal(&html) {
            found.push(format!("{name}: re-exports the item"));
        }
        found.extend(declarations(&html).into_iter().map(|item| format!("{name}: {item}")));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} public declarations of {LIBRARY} name items of {INTERNAL}: hide them (#[doc(hidden)]), or take a type of \
         the standard library:\n{}",
        found.len(),
        found.join("\n")
    ))
}

/// All HTML files in a folder and below it, in the order of their names.
fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) -> Result {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            pages_below(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

fn read(page: &Path) -> Result<String> {
    fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))
}

/// The declarations of a page that name an internal item, as text. Of a whole item, the lines that
/// do so.
fn declarations(html: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (begin, end) in DECLARATIONS {
        for element in html.split(begin).skip(1) {
            let element = element.split_once(end).map_or(element, |it| it.0);
            let parts: Vec<&str> = if end == "</pre>" { element.lines().collect() } else { vec![element] };
            found.extend(parts.into_iter().filter(|part| names_internal(part)).map(text));
        }
    }
    found
}

/// Whether a link leads out of the library into the internal one.
fn names_internal(html: &str) -> bool {
    links(html, "href=\"").any(|path| path.split('/').next() == Some(INTERNAL))
}

/// Whether the item of a page is an internal one.
fn is_internal(html: &str) -> bool {
    links(html, SOURCE)
        .any(|path| path.strip_prefix("src/").is_some_and(|it| it.split('/').next() == Some(INTERNAL)))
}

/// Where the links lead that begin like this and leave the library, from the folder of all
/// libraries.
fn links<'h>(html: &'h str, begin: &'h str) -> impl Iterator<Item = &'h str> {
    let links = html.split(begin).skip(1).filter_map(|rest| rest.split('"').next());
    links.filter(|link| link.starts_with("../")).map(|link| link.trim_start_matches("../"))
}

/// HTML without its tags, with single spaces.
fn text(html: &str) -> String {
    let mut text = String::new();
    for (at, part) in html.split('<').enumerate() {
        text.push_str(if at == 0 { part } else { part.split_once('>').map_or("", |it| it.1) });
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct with a field of an internal type, and one method of each kind.
    const PAGE: &str = r##"<section id="main"><pre class="rust item-decl"><code>pub struct Node&lt;S&gt; {
    pub side: <a class="struct" href="../../../platform/cell/struct.UnsafeCell.html" title="struct">UnsafeCell</a>&lt;S&gt;,
    pub next: <a class="struct" href="struct.Node.html">Node</a>,
}</code></pre><p>See <a href="../../../platform/cell/index.html"><code>platform::cell</code></a>.</p>
<h4 class="code-header">pub fn <a href="#method.until" class="fn">until</a>(&amp;self, until: <a class="struct" href="../../../platform/futex/struct.Deadline.html">Deadline</a>)</h4>
<h4 class="code-header">pub fn <a href="#method.name" class="fn">name</a>(&amp;self) -> <a class="struct" href="../../platform/struct.Own.html">Own</a></h4>
<h4 class="code-header">pub fn <a href="#method.next" class="fn">next</a>(&amp;self) -> <a class="struct" href="../struct.Next.html">Next</a></h4>
<h3 class="code-header">impl From&lt;<a class="enum" href="../../platform/futex/enum.Clock.html">Clock</a>&gt; for Node</h3>"##;

    #[test]
    fn declarations_with_internal_types_are_found_and_texts_are_not() {
        let expected = [
            "impl From<Clock> for Node",
            "pub fn name(&self) -> Own",
            "pub fn until(&self, until: Deadline)",
            "pub side: UnsafeCell<S>,",
        ];
        assert_eq!(declarations(PAGE), expected.map(str::to_owned).into());
    }

    #[test]
    fn a_module_of_the_same_name_and_other_libraries_are_not_internal() {
        for link in [
            "platform/index.html",
            "../platform_loom/index.html",
            "../other/platform/index.html",
            "#platform/",
        ] {
            assert!(!names_internal(&format!("<a href=\"{link}\">")), "{link}");
        }
        assert!(names_internal("<a href=\"../platform/index.html\">"));
    }

    #[test]
    fn a_page_whose_source_is_internal_is_found_and_a_method_is_not() {
        let page = |class: &str, link: &str| format!("<a class=\"{class}\" href=\"{link}\">Source</a>");
        assert!(is_internal(&page("src", "../../src/platform/futex.rs.html#39")));
        for (class, link) in [
            ("src rightside", "../../src/platform/futex.rs.html"),
            ("src", "../../src/manx/platform/a.rs.html"),
        ] {
            assert!(!is_internal(&page(class, link)), "{class} {link}");
        }
    }

    #[test]
    fn the_error_names_the_page_and_the_declaration() {
        let docs = tempfile::tempdir().expect("a folder");
        let missing = check(docs.path()).expect_err("no pages");
        assert!(missing.contains("manx"), "{missing}");
        for folder in ["manx/lock", "platform"] {
            fs::create_dir_all(docs.path().join(folder)).expect("made");
        }
        fs::write(docs.path().join("manx/index.html"), "<p>Nothing</p>").expect("written");
        assert_eq!(check(docs.path()), Ok(()));
        fs::write(docs.path().join("manx/lock/struct.Node.html"), PAGE).expect("written");
        let error = check(docs.path()).expect_err("internal types");
        assert!(error.contains("manx/lock/struct.Node.html: pub side: UnsafeCell<S>,"), "{error}");
        assert!(error.starts_with("4 public declarations"), "{error}");
        begin(docs.path()).expect("removed");
        begin(docs.path()).expect("nothing to remove");
        assert!(!docs.path().join("manx").exists() && docs.path().join("platform").is_dir());
    }
}
