//! System calls live only in `platform`: everything else can then run on another platform, and a
//! change of kernel or architecture is a change in one place. Tests may look at the kernel for
//! themselves.

use super::finding::Finding;
use super::tree::File;

/// How a system call looks in source, each in two halves so that this file does not find itself.
const SIGNS: [&str; 6] = [
    concat!("libc::sys", "call("),
    concat!("\"sys", "call"),
    concat!("\"sv", "c 0"),
    concat!("\"sv", "c #0"),
    concat!("rust", "ix::"),
    concat!("ni", "x::"),
];

/// Finds system calls outside `platform`.
pub fn check(file: &File) -> Vec<Finding> {
    let ours =
        ["crates/", "bench/"].iter().any(|folder| file.path.starts_with(folder)) && file.extension() == "rs";
    if !ours || file.path.starts_with("crates/platform/") || file.path.contains("/tests/") {
        return Vec::new();
    }
    let call =
        |line: &str| !line.trim_start().starts_with("//") && SIGNS.iter().any(|sign| names(line, sign));
    file.lines()
        .filter(|(_, line)| call(line))
        .map(|(number, _)| {
            let remedy = "move it to crates/platform and call it from here";
            Finding::new(&file.path, number, "a system call outside `platform`", remedy)
        })
        .collect()
}

/// Whether the line has the sign, and not as the end of a longer name.
fn names(line: &str, sign: &str) -> bool {
    line.match_indices(sign).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|character| character.is_alphanumeric() || character == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    #[test]
    fn a_call_is_found_outside_platform_only() {
        for sign in SIGNS {
            let text = format!("//! A.\n    {sign} 1);\n");
            for path in ["crates/manx/src/a.rs", "bench/a/src/a.rs"] {
                assert_eq!(check(&made_up(path, &text)).len(), 1, "{sign} in {path}");
            }
            for path in ["crates/platform/src/a.rs", "crates/preload/tests/a.rs", "xtask/src/a.rs"] {
                assert!(check(&made_up(path, &text)).is_empty(), "{path}");
            }
        }
    }

    #[test]
    fn prose_and_longer_names_are_not_calls() {
        let text = format!("//! {}\nuse std::os::u{}MetadataExt;\n", SIGNS[0], SIGNS[5]);
        assert!(check(&made_up("crates/manx/src/a.rs", &text)).is_empty());
    }
}
