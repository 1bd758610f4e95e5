//! A finding: where, what, and what to do.

use std::fmt;

/// Something to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the root of the tree.
    pub path: String,
    /// The line, from 1; 0 if it is about the whole file.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    /// A finding at a line, counted from 1; 0 for the whole file.
    pub fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Finding { path, line, what, remedy } = self;
        match line {
            0 => write!(formatter, "{path}: {what}: {remedy}"),
            _ => write!(formatter, "{path}:{line}: {what}: {remedy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_can_jump_to_it() {
        let at = Finding::new("src/lock.rs", 7, "too long", "split it");
        assert_eq!(at.to_string(), "src/lock.rs:7: too long: split it");
        let whole = Finding::new("src/lock.rs", 0, "too long", "split it");
        assert_eq!(whole.to_string(), "src/lock.rs: too long: split it");
    }
}
