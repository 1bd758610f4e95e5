//! Every Rust file begins with its argument, every C file with a comment that says what it is.

use super::finding::Finding;
use super::tree::File;

/// Finds a file without a header.
pub fn check(file: &File) -> Vec<Finding> {
    let text = file.text.as_deref().unwrap_or_default();
    let begins = |heads: &[&str]| heads.iter().any(|head| text.trim_start().starts_with(head));
    let (fine, remedy) = match file.extension() {
        "rs" => (begins(&["//! "]), "begin with `//!` and say which problem it solves and how"),
        "c" | "h" | "hpp" | "cpp" | "go" => {
            (begins(&["/*", "//"]), "begin with a comment that says what it does")
        }
        _ => return Vec::new(),
    };
    if fine { Vec::new() } else { vec![Finding::new(&file.path, 1, "no header", remedy)] }
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn a_rust_file_needs_inner_documentation_first() {
        assert!(check(&made_up("a.rs", "//! A lock.\n")).is_empty());
        for text in ["", "// A lock.\n", "use std::fs;\n//! late\n", "/// outer\nfn a() {}\n"] {
            assert_eq!(check(&made_up("a.rs", text)).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_c_file_needs_a_comment_first() {
        assert!(check(&made_up("a.c", "/* A driver. */\n")).is_empty());
        assert!(check(&made_up("a.h", "// A header.\n")).is_empty());
        assert_eq!(check(&made_up("a.c", "#include <stdio.h>\n")).len(), 1);
    }

    #[test]
    fn other_files_need_none() {
        assert!(check(&made_up("a.toml", "a = 1\n")).is_empty());
    }
}
