//! The examples in C and C++ of the pages that users read compile without a warning, each as a file
//! of its own.

mod common;

use common::check;
use std::fs;
use std::path::PathBuf;

/// The pages with such examples.
const PAGES: [&str; 3] = ["README.md", "docs/c.md", "docs/slo.md"];

/// The fenced blocks of a language.
fn examples<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let begin = format!("```{language}\n");
    page.split(&*begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_examples_of_the_pages_compile() {
    for page in PAGES {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = fs::read_to_string(&path).expect(page);
        let mut count = 0;
        for (language, standards) in [("c", ["c99", "c17"]), ("cpp", ["c++11", "c++20"])] {
            for example in examples(&text, language) {
                count += 1;
                standards.iter().for_each(|standard| check(page, standard, example));
            }
        }
        assert!(count > 0, "{page}: it has no example in C");
    }
}
