//! Comments are read in columns: a line of one has at most [`COLUMNS`] characters.
//!
//! Tables and code between fences cannot be wrapped, and are left out; so is a line without a space
//! to wrap it at.

use super::finding::Finding;
use super::tree::File;

/// The most characters of a line that is a comment.
const COLUMNS: usize = 100;

/// Finds comment lines of Rust files that are too long.
pub fn check(file: &File) -> Vec<Finding> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let mut fenced = false;
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            fenced = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        fenced ^= text.starts_with("```");
        let columns = line.chars().count();
        if fenced || text.starts_with('|') || columns <= COLUMNS || !text.contains(' ') {
            continue;
        }
        let what = format!("a comment of {columns} columns, and {COLUMNS} are the most");
        findings.push(Finding::new(&file.path, number, what, "wrap its paragraph"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&made_up("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_long_comment_is_found_and_a_long_table_or_example_is_not() {
        let long = "a word ".repeat(20);
        assert_eq!(lines(&format!("//! A.\n//! {long}\n    // {long}\nlet a = 1;\n/// {long}\n")), [2, 3, 5]);
        assert_eq!(lines(&format!("//! | {long} |\nlet a = \"{long}\";\n")), [0; 0]);
        assert_eq!(lines(&format!("/// ```\n/// {long}\n/// ```\n/// {long}\n")), [4]);
        assert_eq!(lines(&format!("// {}\n// {}\n", "x".repeat(200), "é ".repeat(48))), [0; 0]);
    }
}
