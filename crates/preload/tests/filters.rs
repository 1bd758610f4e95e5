//! Filters (`only`, `not`): programs, libraries and loops that are not meant are left as they are.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, finish, folder, preloaded, program, run, shared_library, under_manx};
use std::path::PathBuf;
use std::process::Command;

/// What the reports say of a loop that a filter leaves out.
const NOT_MEANT: &str = "not meant";

/// Whether the library did anything in the program: it leaves a report, and the loop there is
/// meant.
#[track_caller]
fn is_cured(outcome: &Outcome) -> bool {
    outcome.succeeded();
    outcome.report.is_some() && are_meant(outcome, "wait_by_row")
}

/// Whether the loops of a function are meant. There are some.
#[track_caller]
fn are_meant(outcome: &Outcome, function: &str) -> bool {
    let sites = outcome.sites(function);
    let meant = |site: &serde_json::Value| site["reason"] != NOT_MEANT;
    assert!(!sites.is_empty() && sites.iter().all(|site| meant(site) == meant(sites[0])), "{sites:#?}");
    meant(sites[0])
}

#[test]
fn an_executable_that_is_not_meant_is_left_alone() {
    for (options, cured) in [
        ("only=turns", true),
        ("only=other+t*s", true),
        ("not=other", true),
        ("only=exe:turns,not=other", true),
        ("only=other", false),
        ("not=turns", false),
        ("not=exe:tu*", false),
        ("only=turns,not=turns", false),
    ] {
        assert_eq!(is_cured(&under_manx("turns", &[], options)), cured, "{options}");
    }
    // Not even asked to say everything does it say a word.
    let silent = under_manx("turns", &[], "not=turns,verbose=1");
    assert_eq!((silent.succeeded().stdout.as_str(), silent.stderr.as_str()), ("200\n", ""));
}

#[test]
fn a_link_and_a_script_are_names_of_the_program_too() {
    let link = folder().join("server-1.0");
    std::os::unix::fs::symlink(program("turns"), &link).expect("a link");
    for (options, cured) in [("not=server-*", false), ("not=turns", false), ("only=server-1.0", true)] {
        assert_eq!(is_cured(&run(Command::new(&link), options)), cured, "{options}");
    }
    // A script's interpreter is the program.
    let script = folder().join("serve.sh");
    std::fs::write(&script, format!("#!{}\n", program("turns").display())).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("executable");
    for (options, cured) in [("not=serve.sh", false), ("not=turns", false), ("only=serve.sh", true)] {
        assert_eq!(is_cured(&run(Command::new(&script), options)), cured, "{options}");
    }
}

#[test]
fn a_started_program_is_judged_by_its_own_name() {
    // The shell does not end with exec, so the program is its child.
    let shell = |options: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{}; true", program("turns").display()));
        run(command, options)
    };
    let meant = shell("only=turns,verbose=1");
    assert!(is_cured(&meant), "a child of a program that is not meant");
    assert_eq!((meant.stdout.as_str(), meant.stderr.as_str()), ("200\n", ""));
    for (options, cured) in [("not=sh+dash+bash", true), ("only=*sh", false), ("not=turns", false)] {
        let outcome = shell(options);
        assert_eq!((is_cured(&outcome), outcome.stdout.as_str()), (cured, "200\n"), "{options}");
    }
}

#[test]
fn a_program_that_is_not_meant_is_told_no_count_of_cpus() {
    let count = |options: &str| {
        finish(preloaded("getconf", options).arg("_NPROCESSORS_ONLN")).succeeded().stdout.clone()
    };
    // SAFETY: only reads.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    if online < 2 {
        testing::skip("with one CPU the answers are the same");
        return;
    }
    assert_eq!(count("cpus=1"), "1\n");
    assert_eq!(count("cpus=1,only=getconf"), "1\n");
    assert_eq!(count("cpus=1,not=getconf"), format!("{online}\n"));
    assert_eq!(count("cpus=1,only=mongod"), format!("{online}\n"));
    // A library's name says nothing of programs.
    assert_eq!(count("cpus=1,only=libfoo.so"), "1\n");
}

#[test]
fn libraries_are_filtered_by_their_file_names() {
    let library = shared_library("waiting");
    let sites = |options: &str| {
        let outcome = under_manx("opens", &[library.to_str().expect("utf-8")], options);
        outcome.succeeded();
        outcome.sites("wait_in_library").len()
    };
    for (options, expected) in [
        ("only=libwaiting.so", 1),
        ("not=libother.so+lib:sh", 1),
        ("not=libwaiting.so", 0),
        ("not=lib*.so", 0),
        ("only=libother.so*", 0),
        ("only=lib:opens", 0),
    ] {
        assert_eq!(sites(options), expected, "{options}");
    }
}

#[test]
fn loops_are_filtered_by_function_and_by_offset() {
    // Whether the two loops are meant.
    let each = |options: &str| {
        let outcome = under_manx("each", &[], options);
        outcome.succeeded();
        ["wait_by_row", "wait_by_short"].map(|function| are_meant(&outcome, function))
    };
    let all = under_manx("each", &[], "");
    all.succeeded();
    let offset = all.sites("wait_by_row")[0]["offset"].as_u64().expect("a number");
    for (options, meant) in [
        (String::new(), [true, true]),
        ("not=each:wait_by_row".to_owned(), [false, true]),
        ("not=lib:each:*row".to_owned(), [false, true]),
        (format!("not=each:{offset:#x}"), [false, true]),
        ("only=e*:wait_by_short".to_owned(), [false, true]),
        (format!("only=each:{offset:#x}"), [true, false]),
        // Neither a part of a name nor a neighbour's offset is a loop's own.
        (format!("not=each:wait+each:{:#x}", offset + 1), [true, true]),
    ] {
        assert_eq!(each(&options), meant, "{options}");
    }
}

#[test]
fn a_function_that_is_not_exported_is_known_by_its_offset_only() {
    let library: PathBuf = shared_library("unexported");
    let run = |options: &str| {
        let outcome = under_manx("opens", &[library.to_str().expect("utf-8")], options);
        outcome.succeeded();
        let sites = outcome.report.as_ref().expect("a report")["sites"].as_array().expect("a list").clone();
        let of_library = |site: &serde_json::Value| {
            let module = site["module"].as_str().is_some_and(|path| path.ends_with("libunexported.so"));
            module.then(|| (site["reason"] == NOT_MEANT, site["offset"].as_u64().expect("a number")))
        };
        let found: Vec<_> = sites.iter().filter_map(of_library).collect();
        assert_eq!(found.len(), 1, "{sites:#?}");
        found[0]
    };
    let (left, offset) = run("");
    assert!(!left);
    assert_eq!(
        run("not=libunexported.so:wait_inside"),
        (false, offset),
        "its name is not in the library's table"
    );
    assert_eq!(run(&format!("not=libunexported.so:{offset:#x}")), (true, offset));
}

#[test]
fn filters_survive_a_program_that_clears_its_environment() {
    let library = shared_library("waiting");
    let mut command = Command::new(program("opens"));
    command.arg(&library).arg("clears");
    let outcome = run(command, "not=libwaiting.so");
    assert_eq!(outcome.succeeded().sites("wait_in_library").len(), 0);
}

#[test]
fn a_filter_that_is_not_understood_is_named_when_asked() {
    for bad in ["only=a++b", "not=libfoo.so:0x", "not=/bin/true", "only=exe:a:b"] {
        let outcome = under_manx("turns", &[], &format!("verbose=1,{bad}"));
        let told = format!("MANX_OPTIONS: \"{bad}\" is not understood");
        assert!(outcome.succeeded().stderr.contains(&told), "{}", outcome.stderr);
        assert!(is_cured(&outcome), "as without it");
    }
}
