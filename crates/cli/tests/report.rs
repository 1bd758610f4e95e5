//! `manx report`: where the page goes, and from where results come.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const RESULT: &str = r#"{"schema": "manx-stats", "version": 1, "program": "server", "pid": 7}"#;

fn report(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manx"));
    command.current_dir(folder).arg("report").args(arguments);
    command
}

#[track_caller]
fn succeed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    said
}

#[test]
fn a_page_stands_beside_its_result_and_takes_the_place_of_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), RESULT).unwrap();
    for _ in 0..2 {
        assert_eq!(succeed(&report(folder.path(), &["a.json"]).output().unwrap()), "");
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    }
    let mut names: Vec<_> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.html", "a.json"], "nothing else is left there");
}

#[test]
fn a_result_may_come_from_standard_input_and_a_page_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), RESULT).unwrap();
    let from_file = succeed(&report(folder.path(), &["a.json", "-o", "-", "--title", "T"]).output().unwrap());
    assert!(from_file.contains("<title>Manx: T</title>"), "{from_file}");
    let mut command = report(folder.path(), &["-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(RESULT.as_bytes()).unwrap();
    let from_input = succeed(&child.wait_with_output().unwrap());
    assert!(from_input.contains("standard input: stats of server"), "{from_input}");
    let whole = folder.path().join("a.json");
    let whole = whole.to_str().unwrap();
    let page = succeed(&report(folder.path(), &[whole, "-o", "-"]).output().unwrap());
    assert!(page.contains("<h2>a.json: stats of server") && !page.contains(whole), "{page}");
    let twice = succeed(&report(folder.path(), &["a.json", whole, "-o", "-"]).output().unwrap());
    assert!(twice.contains(&format!("<h2>{whole}: stats of server")), "{twice}");
}

#[test]
fn a_page_that_cannot_be_put_in_place_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), RESULT).unwrap();
    fs::create_dir(folder.path().join("a.html")).unwrap();
    let output = report(folder.path(), &["a.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

#[test]
fn what_other_commands_write_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = Command::new(env!("CARGO_BIN_EXE_manx"))
        .args(["doctor", "--json", "--quiet", "--for", "200ms", &std::process::id().to_string()])
        .output()
        .unwrap();
    fs::write(folder.path().join("doctor.json"), &doctor.stdout).unwrap();
    let page = succeed(&report(folder.path(), &["doctor.json", "-o", "-"]).output().unwrap());
    assert!(page.contains("watched for") && page.contains("Threads"), "{page}");
}
