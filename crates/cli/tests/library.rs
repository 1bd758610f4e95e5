//! Where the preload library is found, and what it must be.

mod support;

use std::fs;
use support::{MANX, Sandbox, bare, fails, output, stderr, stdout};
use testing::process::copy_program;

#[test]
fn the_library_lies_beside_the_command_or_in_lib_manx() {
    let sandbox = Sandbox::new();
    for folder in ["bin", "lib", "lib/manx"] {
        fs::create_dir(sandbox.path(folder)).expect("made");
    }
    let manx = sandbox.path("bin/manx");
    copy_program(MANX, &manx);
    let print = ["run", "sh", "-c", "echo $LD_PRELOAD"];
    fails(
        bare(&manx).args(print),
        125,
        &["manx: libmanx_preload.so is neither in", "bin nor in ../lib/manx", "set MANX_PRELOAD"],
    );
    let installed = sandbox.path("lib/manx/libmanx_preload.so");
    fs::rename(sandbox.stand_in(), &installed).expect("moved");
    assert_eq!(stdout(&output(bare(&manx).args(print))), format!("{}\n", installed.display()));
    let beside = sandbox.path("bin/libmanx_preload.so");
    fs::copy(&installed, &beside).expect("copied");
    assert_eq!(stdout(&output(bare(&manx).args(print))), format!("{}\n", beside.display()));
    // A link to the command is followed to where it lies.
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&manx, &link).expect("linked");
    assert_eq!(stdout(&output(bare(&link).args(print))), format!("{}\n", beside.display()));
}

#[test]
fn the_variable_names_the_library() {
    let sandbox = Sandbox::new();
    let library = sandbox.stand_in();
    let named = |value: &str| {
        let mut command = sandbox.manx();
        command.env("MANX_PRELOAD", value).args(["run", "sh", "-c", "echo $LD_PRELOAD"]);
        command
    };
    // A relative path becomes an absolute one, since the program may work elsewhere.
    let run = output(&mut named("libmanx_preload.so"));
    assert_eq!(stdout(&run), format!("{}\n", library.display()), "{}", stderr(&run));
    fails(
        &mut named("/nonsense.so"),
        125,
        &["/nonsense.so: the preload library cannot be read: no such file"],
    );
    fs::create_dir(sandbox.path("a b")).expect("made");
    fs::copy(&library, sandbox.path("a b/l.so")).expect("copied");
    fails(&mut named("a b/l.so"), 125, &["LD_PRELOAD cannot carry a path with a space or a colon"]);
}

#[test]
fn the_library_must_be_of_this_version() {
    let sandbox = Sandbox::new();
    let none = sandbox.library("none.so", "int something_else;");
    let other = sandbox.library("other.so", "unsigned manx_preload_abi = 999;");
    let undefined = sandbox.library(
        "undefined.so",
        &format!("extern int {0}; int *use(void) {{ return &{0}; }}", preload_abi::VERSION_SYMBOL),
    );
    let text = sandbox.write("text.so", "no library at all, but some text");
    for (library, why) in [
        (&none, "not Manx's preload library"),
        (&other, "speaks version 999"),
        (&undefined, "not Manx's preload library"),
        (&text, "not a shared library"),
    ] {
        let why = format!("{}: {why}", library.display());
        fails(sandbox.manx().env("MANX_PRELOAD", library).args(["run", "true"]), 125, &[&why]);
    }
}

#[test]
fn the_library_that_sees_requests_is_added_if_there_is_a_target_for_them() {
    let sandbox = Sandbox::new();
    let library = sandbox.stand_in();
    let requests = sandbox.path("libmanx_requests.so");
    let preloaded = |options: &[&str]| {
        let mut command = sandbox.manx();
        command.arg("run").args(options).args(["sh", "-c", "echo $LD_PRELOAD"]);
        stdout(&output(&mut command))
    };
    let (one, both) =
        (format!("{}\n", library.display()), format!("{}:{}\n", library.display(), requests.display()));
    assert_eq!(preloaded(&[]), one);
    assert_eq!(preloaded(&["--slo", "7=2ms"]), one, "an epoch's target is none for requests");
    assert_eq!(preloaded(&["--slo", "2ms"]), both);
    assert_eq!(preloaded(&["--slo", "7=2ms", "--slo", "2ms@p50", "--lock=asl"]), both);
    let plan = output(sandbox.manx().args(["run", "--dry-run", "--slo", "2ms", "true"]));
    assert!(stdout(&plan).contains(&format!("library      {}\n", requests.display())), "{}", stdout(&plan));
    // An outer target holds for an inner `manx run`, and without one the library goes.
    let inner = |options: &str| {
        let mut command = sandbox.manx();
        command.env("MANX_OPTIONS", options).env("LD_PRELOAD", &requests);
        stdout(&output(command.args(["run", "sh", "-c", "echo $LD_PRELOAD"])))
    };
    assert_eq!((inner("slo=2000000:9900"), inner("")), (both, one));

    fs::remove_file(&requests).expect("removed");
    let slo = ["run", "--slo", "2ms", "true"];
    fails(
        sandbox.manx().args(slo),
        125,
        &["libmanx_requests.so: the preload library cannot be read: no such file"],
    );
    sandbox.library("libmanx_requests.so", "unsigned manx_requests_abi = 999;");
    fails(sandbox.manx().args(slo), 125, &["libmanx_requests.so: speaks version 999"]);
}
