//! Every unsafe block says why it is sound, close by.
//!
//! Clippy checks the same where it looks; it does not look into macros and code that is configured
//! away, which is where the assembly of this project is.

use super::finding::Finding;
use super::tree::File;

/// How many lines above the block its reason may begin.
const NEAR: usize = 12;

/// Finds unsafe blocks without a reason near them.
pub fn check(file: &File) -> Vec<Finding> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let lines: Vec<&str> = file.lines().map(|(_, line)| line).collect();
    let reason =
        |index: usize| lines[index.saturating_sub(NEAR)..=index].iter().any(|line| line.contains("SAFETY:"));
    let block = concat!("unsafe", " {");
    let open = |line: &str| !line.trim_start().starts_with("//") && line.contains(block);
    (0..lines.len())
        .filter(|&index| open(lines[index]) && !reason(index))
        .map(|index| {
            let remedy = "write `// SAFETY:` above it and name the contract or invariant it stands on";
            Finding::new(&file.path, index + 1, "an unsafe block without a reason", remedy)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let text = text.replace("UNSAFE", concat!("unsafe", " {"));
        check(&made_up("a.rs", &text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_reason_above_or_beside_is_enough() {
        assert!(found("// SAFETY: by Invariant 1.\nUNSAFE a() }\n").is_empty());
        assert!(found("UNSAFE a() } // SAFETY: by Invariant 1.\n").is_empty());
        assert!(found("// UNSAFE in prose\n").is_empty());
    }

    #[test]
    fn none_or_one_far_above_is_found() {
        assert_eq!(found("let a = 1;\nUNSAFE a() }\n"), [2]);
        assert_eq!(found(&format!("// SAFETY: far.\n{}UNSAFE a() }}\n", "\n".repeat(NEAR))), [NEAR + 2]);
    }
}
