//! `manx run` becomes the program: whatever a program gets from its parent or gives back passes
//! unchanged.

mod support;

use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use support::{MANX, Sandbox, bare, fails, loses_its_reader, output, stderr, stdout};

#[test]
fn the_exit_status_is_the_programs() {
    let sandbox = Sandbox::new();
    for code in [0, 3, 2, 125, 126, 127, 255] {
        let script = format!("exit {code}");
        let run = output(sandbox.manx().args(["run", "--", "sh", "-c", &script]));
        assert_eq!((run.status.code(), stderr(&run).as_str()), (Some(code), ""));
    }
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let script = format!("kill -{signal} $$");
        let run = output(sandbox.manx().args(["run", "sh", "-c", &script]));
        assert_eq!(run.status.signal(), Some(signal));
    }
}

#[test]
fn the_process_is_the_same_one() {
    let sandbox = Sandbox::new();
    let child = sandbox
        .manx()
        .args(["run", "sh", "-c", "echo $$ $MANX_OPTIONS"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("manx");
    let pid = child.id();
    let run = child.wait_with_output().expect("output");
    assert_eq!(stdout(&run), format!("{pid} guard=on,pid={pid}\n"));
}

#[test]
fn standard_input_and_output_are_untouched() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .manx()
        .args(["run", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("manx");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let to_write = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&to_write));
    let run = child.wait_with_output().expect("output");
    writer.join().expect("no panic").expect("written");
    assert!(run.status.success() && run.stdout == bytes);
}

#[test]
fn arguments_arrive_as_they_are() {
    let sandbox = Sandbox::new();
    let print = ["sh", "-c", "printf '<%s>' \"$0\" \"$@\"", "zero"];
    let odd = ["--stats", "", "-h", "--", "a b", "*", "--guard=off"];
    let run = output(sandbox.manx().arg("run").args(print).args(odd));
    assert_eq!(stdout(&run), "<zero><--stats><><-h><--><a b><*><--guard=off>");
    // Without a shell between: the program's own argument zero is the name it was called by.
    let run = output(sandbox.manx().args(["run", "cat", "/proc/self/cmdline"]));
    assert_eq!(run.stdout, b"cat\0/proc/self/cmdline\0");
}

/// The signals in a line of `/proc/self/status`, as this test's child sees them through `manx run`.
fn signals(sandbox: &Sandbox, line: &str, prepare: impl Fn() + Send + Sync + 'static) -> u64 {
    let mut command = sandbox.manx();
    command.args(["run", "grep", line, "/proc/self/status"]);
    // SAFETY: `prepare` calls only `signal` and `sigprocmask`, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            prepare();
            Ok(())
        })
    };
    let run = output(&mut command);
    let out = stdout(&run);
    let hex = out.split_whitespace().nth(1).unwrap_or_else(|| panic!("{out}{}", stderr(&run)));
    u64::from_str_radix(hex, 16).expect("a mask")
}

#[test]
fn signals_are_as_the_parent_left_them() {
    let sandbox = Sandbox::new();
    const SIGPIPE: u64 = 1 << (libc::SIGPIPE - 1);
    let dispose = |how| {
        // SAFETY: both dispositions are valid and run no code.
        move || unsafe {
            libc::signal(libc::SIGPIPE, how);
        }
    };
    assert_eq!(signals(&sandbox, "SigIgn", dispose(libc::SIG_DFL)) & SIGPIPE, 0);
    assert_eq!(signals(&sandbox, "SigIgn", dispose(libc::SIG_IGN)) & SIGPIPE, SIGPIPE);
    let block = || {
        // SAFETY: the set is initialised before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
    };
    assert_eq!(signals(&sandbox, "SigBlk", block), 1 << (libc::SIGUSR1 - 1));
}

#[test]
fn descriptors_are_as_the_parent_left_them() {
    let sandbox = Sandbox::new();
    // `ls` opens the folder as its lowest free descriptor, so an open or closed one more would
    // show.
    let list = |manx: &str| {
        let mut command = bare("sh");
        command.env("MANX_PRELOAD", sandbox.stand_in());
        command.args(["-c", &format!("exec {manx} ls /proc/self/fd <&-")]);
        let run = output(&mut command);
        assert!(run.status.success(), "{}", stderr(&run));
        stdout(&run)
    };
    assert_eq!(list(&format!("{MANX} run --")), list(""));
}

#[test]
fn the_environment_is_added_to() {
    let sandbox = Sandbox::new();
    let library = sandbox.stand_in();
    let library = library.display();
    let other = sandbox.library("other.so", "int other;");
    let print = ["run", "--spins=7", "--", "sh", "-c", "echo $LD_PRELOAD; echo $MANX_OPTIONS; echo $OTHER"];
    let mut command = sandbox.manx();
    command
        .args(print)
        .env("LD_PRELOAD", &other)
        .env("MANX_OPTIONS", "spins=3,yields=4,pid=1")
        .env("OTHER", "x");
    let child = command.stdout(Stdio::piped()).spawn().expect("manx");
    let pid = child.id();
    let run = child.wait_with_output().expect("output");
    assert_eq!(
        stdout(&run),
        format!("{}:{library}\nguard=on,spins=7,yields=4,pid={pid}\nx\n", other.display())
    );
    // Under another `manx run` the library stands once.
    let nested =
        ["run", "--guard=off", "--", MANX, "run", "--", "sh", "-c", "echo $LD_PRELOAD $MANX_OPTIONS"];
    let child = sandbox.manx().args(nested).stdout(Stdio::piped()).spawn().expect("manx");
    let pid = child.id();
    let run = child.wait_with_output().expect("output");
    assert_eq!(stdout(&run), format!("{library} guard=off,pid={pid}\n"));
}

#[test]
fn settings_come_from_flags_then_file_then_environment() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manx.toml",
        "guard = \"always\"\nlock = \"fifo\"\nperf-map = true\nverbose = true\n[wait]\nspins = 1\nyields = 2\nsleep-max = \"2ms\"\n",
    );
    let run = output(
        sandbox
            .manx()
            .env("MANX_OPTIONS", "yields=9,step_us=9,lock=glibc")
            .args(["run", "--config=manx.toml", "--spins=5", "--sleep-step=1.5ms", "--lock=adaptive"])
            .args(["--stats=out, it.json", "--", "sh", "-c", "echo ${MANX_OPTIONS%,pid=*}"]),
    );
    let file = sandbox.path("out%2C%20it.json");
    assert_eq!(
        stdout(&run),
        format!(
            "guard=always,lock=adaptive,stats={},perf_map=on,verbose=on,spins=5,yields=2,sleep_step_us=1500,sleep_max_us=2000\n",
            file.display()
        ),
        "{}",
        stderr(&run)
    );
}

#[test]
fn switched_off_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let print = ["run", "--stats", "--", "sh", "-c", "echo \"$LD_PRELOAD,$MANX_OPTIONS\""];
    let run = output(sandbox.manx().env("MANX", "off").env("MANX_PRELOAD", "/nonsense").args(print));
    assert_eq!((stdout(&run).as_str(), stderr(&run).as_str()), (",\n", ""));
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let sandbox = Sandbox::new();
    for folder in ["first", "second"] {
        std::fs::create_dir(sandbox.path(folder)).expect("made");
    }
    sandbox.write("first/tool", "#!/bin/sh\necho first\n");
    sandbox.executable("second/tool", "#!/bin/sh\necho second\n");
    let path =
        format!("{}:{}:/usr/bin:/bin", sandbox.path("first").display(), sandbox.path("second").display());
    let run = output(sandbox.manx().env("PATH", &path).args(["run", "tool"]));
    assert_eq!(stdout(&run), "second\n");
    // An empty element is the current folder; a name with a slash is not sought.
    sandbox.executable("here", "echo here $1\n");
    let run = output(sandbox.manx().env("PATH", ":/usr/bin:/bin").args(["run", "here", "too"]));
    assert_eq!(stdout(&run), "here too\n");
    let only_refused = sandbox.path("first");
    fails(sandbox.manx().env("PATH", only_refused).args(["run", "tool"]), 126, &["first/tool: you may not"]);
    fails(sandbox.manx().args(["run", "./first/tool"]), 126, &["chmod +x ./first/tool"]);
    // A folder is not what anybody means.
    std::fs::create_dir(sandbox.path("first/folder")).expect("made");
    let first = sandbox.path("first");
    fails(sandbox.manx().env("PATH", first).args(["run", "folder"]), 127, &["folder: no such program"]);
    fails(sandbox.manx().env_remove("PATH").args(["run", "tool"]), 127, &["tool: no such program"]);
}

#[test]
fn scripts_run_by_the_interpreter_that_they_name() {
    let sandbox = Sandbox::new();
    let script = sandbox
        .executable("script", "#! /bin/sh -e\necho \"$0,$1,${LD_PRELOAD##*/}\"\nfalse\necho not here\n");
    let run = output(sandbox.manx().args(["run", "--", "./script", "x"]));
    assert_eq!((stdout(&run).as_str(), run.status.code()), ("./script,x,libmanx_preload.so\n", Some(1)));
    let plan = output(sandbox.manx().args(["run", "--dry-run"]).arg(&script));
    assert!(stdout(&plan).contains(&format!("  through    {}\n", script.display())), "{}", stdout(&plan));

    sandbox.executable("dos", "#!/bin/sh\r\necho\r\n");
    fails(sandbox.manx().args(["run", "./dos"]), 127, &["./dos: its first line ends in a carriage return"]);
    sandbox.executable("lost", "#!/nonsense/interpreter\n");
    fails(
        sandbox.manx().args(["run", "./lost"]),
        127,
        &["./lost: its first line names the interpreter /nonsense/interpreter, which does not exist"],
    );
    sandbox.write("plain", "");
    let plain = format!("#!{}\n", sandbox.path("plain").display());
    sandbox.executable("blocked", plain);
    fails(sandbox.manx().args(["run", "./blocked"]), 126, &["which cannot be executed"]);
    let itself = format!("#!{}\n", sandbox.path("loop").display());
    sandbox.executable("loop", itself);
    fails(sandbox.manx().args(["run", "./loop"]), 126, &["./loop: too many scripts"]);
}

#[test]
fn a_dry_run_runs_nothing() {
    let sandbox = Sandbox::new();
    let run = output(sandbox.manx().args(["run", "--dry-run", "--guard=off", "touch", "made"]));
    let out = stdout(&run);
    assert!(run.status.success() && !sandbox.path("made").exists());
    let library = sandbox.path("libmanx_preload.so");
    for part in [
        format!("library      {}\n", library.display()),
        format!("environment  LD_PRELOAD={}\n", library.display()),
        "             MANX_OPTIONS=guard=off,pid=".to_owned(),
        "\nlocks        manx\n".to_owned(),
        "no loop is repaired: the guard is off\n".to_owned(),
    ] {
        assert!(out.contains(&part), "no `{part}` in {out}");
    }
    let run = output(sandbox.manx().env("MANX", "off").args(["run", "--dry-run", "true"]));
    assert!(stdout(&run).ends_with("runs unchanged: MANX=off is set\n"), "{}", stdout(&run));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    loses_its_reader(sandbox.manx().args(["run", "--dry-run", "true"]));
}

#[test]
fn a_warning_that_nobody_hears_stops_nothing() {
    let sandbox = Sandbox::new();
    let program = sandbox
        .compile("bare", "void _start(void) { for (;;) __builtin_trap(); }", &["-static", "-nostdlib"])
        .expect("a C compiler");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = sandbox.manx().arg("run").arg(program).stderr(writer).status().expect("manx");
    assert!([libc::SIGILL, libc::SIGTRAP].contains(&status.signal().expect("a signal")), "{status:?}");
}
