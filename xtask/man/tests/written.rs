//! The program writes a page for each command and subcommand, and completions for each shell.
//!
//! It is a test of its own so that cargo builds the program with the tests: `cargo xtask test`
//! installs the pages that it writes.

use std::fs;
use std::process::Command;

fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_xtask-man");
    assert!(Command::new(program).arg(folder.path()).status().unwrap().success());
    folder
}

#[test]
fn the_page_of_a_subcommand_is_that_of_the_program_behind_it() {
    let folder = written();
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    for (name, words) in [
        ("manx.1", "manx\\-profile(1)"),
        ("manx-run.1", "\\-\\-guard"),
        ("manx-bench.1", "manx\\-bench\\-range(1)"),
        ("manx-bench-range.1", "\\-\\-threads"),
        ("manx-profile.1", "\\-\\-resume"),
    ] {
        assert!(page(name).contains(words), "{name}: no {words} in: {}", page(name));
    }
}

#[test]
fn each_command_has_completions_for_each_shell() {
    let folder = written();
    for (name, words) in [
        ("bash/manx.bash", "--guard"),
        ("zsh/_manx", "--guard"),
        ("zsh/_manx-bench", "--threads"),
        ("fish/manx.fish", "-l guard"),
    ] {
        let text = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        assert!(text.contains(words), "{name}: no {words} in: {text}");
    }
}

#[test]
fn without_a_folder_it_says_what_to_give() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask-man")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("folder"));
}
