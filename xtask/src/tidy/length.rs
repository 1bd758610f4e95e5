//! A file is one mechanism; one that grows past [`LINES`] holds more than one. What shares one
//! state word is one mechanism.

use super::finding::Finding;
use super::tree::File;

/// The most lines of a file that is written by hand.
const LINES: usize = 900;
/// Written by a program from what is elsewhere.
const GENERATED: &str = "docs/options.md";

/// Finds a file that is too long.
pub fn check(file: &File) -> Vec<Finding> {
    let is_counted = ["rs", "c", "h", "hpp", "cpp", "md", "sh", "py"].contains(&file.extension());
    if !is_counted || file.path == GENERATED {
        return Vec::new();
    }
    let lines = file.lines().count();
    if lines <= LINES {
        return Vec::new();
    }
    let what = format!("{lines} lines, and {LINES} are the most");
    vec![Finding::new(&file.path, LINES + 1, what, "split it where one mechanism ends")]
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn the_limit_itself_is_fine() {
        assert!(check(&made_up("a.rs", &"\n".repeat(LINES))).is_empty());
        assert_eq!(check(&made_up("a.rs", &"\n".repeat(LINES + 1))).len(), 1);
        for not_counted in ["Cargo.lock", GENERATED] {
            assert!(check(&made_up(not_counted, &"\n".repeat(LINES + 1))).is_empty());
        }
    }
}
