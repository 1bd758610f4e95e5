//! `manx cpus`, and what `manx run` adds to a program's environment so that it knows its CPUs.

mod support;

use serde_json::Value;
use std::process::Command;
use support::{Sandbox, fails, output, stderr, stdout};

/// The variables that are set where the user has set none of them.
const VARIABLES: [&str; 10] = [
    "GOMAXPROCS",
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "POLARS_MAX_THREADS",
    "DOTNET_PROCESSOR_COUNT",
    "PYTHON_CPU_COUNT",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];
/// Others that matter to them.
const OTHERS: [&str; 7] = [
    "JULIA_NUM_THREADS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "GOTO_NUM_THREADS",
    "RAYON_RS_NUM_CPUS",
    "COMPlus_PROCESSOR_COUNT",
];

fn budget() -> usize {
    std::thread::available_parallelism().expect("a count").get()
}

fn one_cpu_only() -> bool {
    if budget() == 1 {
        testing::skip("there is one CPU, and everybody knows it");
    }
    budget() == 1
}

/// `manx` with none of these variables.
fn manx(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.manx();
    VARIABLES.iter().chain(&OTHERS).for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// What of these variables a program gets.
fn told(command: &mut Command) -> Vec<String> {
    let run = output(command.args(["--", "env"]));
    assert!(run.status.success(), "{}", stderr(&run));
    let ours = |line: &&str| {
        let name = line.split('=').next().expect("a name");
        VARIABLES.contains(&name) || OTHERS.contains(&name)
    };
    let mut lines: Vec<_> = stdout(&run).lines().filter(ours).map(str::to_owned).collect();
    lines.sort();
    lines
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn a_number_is_told_by_every_variable() {
    if one_cpu_only() {
        return;
    }
    let sandbox = Sandbox::new();
    let all = sorted(VARIABLES.map(|name| format!("{name}=1")).to_vec());
    assert_eq!(told(manx(&sandbox).args(["run", "--cpus=1"])), all);
    sandbox.write("manx.toml", "cpus = 1\n");
    assert_eq!(told(manx(&sandbox).args(["run", "--config=manx.toml"])), all);
    assert_eq!(told(manx(&sandbox).env("MANX_OPTIONS", "cpus=1").arg("run")), all);
    assert_eq!(told(manx(&sandbox).args(["run", "--config=manx.toml", "--cpus=keep"])), [""; 0]);
    assert_eq!(told(manx(&sandbox).env("MANX", "off").args(["run", "--cpus=1"])), [""; 0]);
}

#[test]
fn what_the_user_has_set_stays() {
    if one_cpu_only() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = manx(&sandbox);
    command.env("OMP_NUM_THREADS", "7").env("GOMAXPROCS", "").env("JULIA_NUM_THREADS", "auto");
    command.env("JAVA_TOOL_OPTIONS", "-Dx=1").args(["run", "--cpus=1", "--cpus-also=java,affinity"]);
    assert_eq!(
        told(&mut command),
        [
            "DOTNET_PROCESSOR_COUNT=1",
            "GOMAXPROCS=",
            "JAVA_TOOL_OPTIONS=-Dx=1 -XX:ActiveProcessorCount=1",
            "JULIA_NUM_THREADS=1",
            "OMP_NUM_THREADS=7",
            "POLARS_MAX_THREADS=1",
            "PYTHON_CPU_COUNT=1",
            "RAYON_NUM_THREADS=1",
            "TOKIO_WORKER_THREADS=1",
        ]
    );
}

#[test]
fn an_affinity_narrows_what_is_told() {
    if one_cpu_only() || !testing::process::is_installed("taskset", "-V") {
        return;
    }
    let sandbox = Sandbox::new();
    let cpu = output(Command::new("sh").args(["-c", "taskset -cp $$ | sed 's/.*: //; s/[-,].*//'"]));
    // Those who look at their affinity know it already.
    let mut command = Command::new("taskset");
    command.args(["-c", stdout(&cpu).trim(), support::MANX, "run"]).env("MANX_PRELOAD", sandbox.stand_in());
    VARIABLES.iter().chain(&OTHERS).chain(&["MANX", "MANX_OPTIONS"]).for_each(|name| {
        command.env_remove(name);
    });
    assert_eq!(told(&mut command), ["NUMEXPR_NUM_THREADS=1", "PYTHON_CPU_COUNT=1"]);
}

#[test]
fn a_program_that_nothing_can_be_preloaded_into_has_its_variables() {
    if one_cpu_only() {
        return;
    }
    let sandbox = Sandbox::new();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv(\"GOMAXPROCS\") ? getenv(\"GOMAXPROCS\") : \"none\"); }";
    let program = match sandbox.compile("static", source, &["-static"]) {
        Ok(program) => program,
        Err(why) => return testing::skip(why),
    };
    let run = output(manx(&sandbox).args(["run", "--cpus=1"]).arg(&program));
    assert_eq!(stdout(&run), "1\n");
    assert!(stderr(&run).contains("but for variables that tell it of 1 CPU\n"), "{}", stderr(&run));
    let run = output(manx(&sandbox).args(["run", "--cpus=keep"]).arg(&program));
    assert_eq!(stdout(&run), "none\n");
    assert!(stderr(&run).ends_with("preloaded into it: it runs unchanged\n"), "{}", stderr(&run));
    let plan = output(manx(&sandbox).args(["run", "--dry-run", "--cpus=1"]).arg(&program));
    assert!(stdout(&plan).contains("runs unchanged: it is linked statically"), "{}", stdout(&plan));
    assert!(stdout(&plan).contains("environment  GOMAXPROCS=1\n"), "{}", stdout(&plan));
}

#[test]
fn a_dry_run_says_what_is_told_and_why() {
    let sandbox = Sandbox::new();
    let plan = |option: &str| {
        let run = output(manx(&sandbox).args(["run", "--dry-run", option, "true"]));
        assert!(run.status.success() && stderr(&run).is_empty(), "{}", stderr(&run));
        stdout(&run)
    };
    assert!(plan("--cpus=keep").contains("\nCPUs         as without Manx\n"));
    let auto = plan("--cpus=auto");
    assert!(auto.contains(&format!("\nCPUs         {} (", budget())), "{auto}");
    assert!(plan("--cpus=1").contains("\nCPUs         1, as said ("));
    let more = plan("--cpus=8192");
    assert!(more.contains("\n             --cpus=8192: this machine has "), "{more}");
}

#[test]
fn more_than_there_is_is_a_warning() {
    let sandbox = Sandbox::new();
    let run = output(manx(&sandbox).args(["run", "--cpus=8192", "true"]));
    assert!(run.status.success());
    assert!(stderr(&run).starts_with("manx: warning: --cpus=8192: this machine has "), "{}", stderr(&run));
    let quiet = output(manx(&sandbox).args(["run", "--quiet", "--cpus=8192", "true"]));
    assert_eq!(stderr(&quiet), "");
}

#[test]
fn one_number_for_scripts() {
    let sandbox = Sandbox::new();
    let count = |arguments: &[&str]| {
        let run = output(manx(&sandbox).args(["cpus", "--count"]).args(arguments));
        assert!(run.status.success(), "{}", stderr(&run));
        stdout(&run)
    };
    assert_eq!(count(&[]), format!("{}\n", budget()));
    assert_eq!(count(&["--rounding", "floor"]), count(&[]));
    let exact: f64 = count(&["--rounding=exact"]).trim().parse().expect("a number");
    let ceil: f64 = count(&["--rounding=ceil"]).trim().parse().expect("a number");
    assert!(exact > 0.0 && ceil == exact.ceil().max(1.0), "{exact}, {ceil}");
}

fn json(command: &mut Command) -> Value {
    let run = output(command);
    assert!(run.status.success(), "{}", stderr(&run));
    serde_json::from_slice(&run.stdout).expect("JSON")
}

#[test]
fn the_json_has_every_limit_and_one_that_decides() {
    let sandbox = Sandbox::new();
    let shown = json(manx(&sandbox).args(["cpus", "--json", "--no-runtimes"]));
    assert_eq!((&shown["schema"], &shown["version"]), (&"manx-cpus".into(), &1.into()));
    assert_eq!(shown["count_floor"], budget());
    let limits = shown["limits"].as_array().expect("a list");
    let deciding: Vec<_> = limits.iter().filter(|limit| limit["binds"] == true).collect();
    assert_eq!(deciding.len(), 1, "{shown:#}");
    assert_eq!(deciding[0]["kind"], shown["source"]);
    assert!(limits.iter().any(|limit| limit["kind"] == "affinity" && limit["list"].is_string()));
    assert_eq!(shown["runtimes"], Value::Array(Vec::new()));
}

#[test]
fn runtimes_are_asked_and_who_does_not_answer_has_no_row() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("bin");
    std::fs::create_dir(&folder).expect("made");
    for (name, answer) in
        [("nproc", "echo 3"), ("python3", "echo many"), ("node", "exit 1"), ("java", "kill -9 $$")]
    {
        sandbox.executable(&format!("bin/{name}"), format!("#!/bin/sh\n{answer}\n"));
    }
    let shown = json(manx(&sandbox).env("PATH", &folder).args(["cpus", "--json"]));
    let rows = shown["runtimes"].as_array().expect("a list");
    let names: Vec<_> = rows.iter().map(|row| row["runtime"].as_str().expect("a name")).collect();
    for name in ["C", "OpenMP", "Rust", "nproc"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in ["Python", "Node.js", "Java", "Go"] {
        assert!(!names.contains(&name), "{names:?}");
    }
    let nproc = rows.iter().find(|row| row["runtime"] == "nproc").expect("asked");
    assert_eq!((&nproc["alone"], &nproc["under_manx"]), (&3.into(), &3.into()));
    let rust = rows.iter().find(|row| row["runtime"] == "Rust").expect("asked");
    assert_eq!(rust["alone"], budget());
}

#[test]
fn without_the_library_the_column_is_empty_and_says_why() {
    let sandbox = Sandbox::new();
    let empty = sandbox.path("empty");
    std::fs::create_dir(&empty).expect("made");
    let run = output(manx(&sandbox).env("MANX_PRELOAD", "/nonsense").env("PATH", empty).arg("cpus"));
    let text = stdout(&run);
    assert!(run.status.success() && stderr(&run).is_empty(), "{}", stderr(&run));
    let row = text.lines().find(|line| line.starts_with("C ")).expect("a row");
    assert!(row.ends_with(" -"), "{text}");
    assert!(text.contains("\nnot asked under `manx run`: /nonsense: "), "{text}");
}

#[test]
fn the_table_begins_with_the_budget() {
    let sandbox = Sandbox::new();
    let run = output(manx(&sandbox).args(["cpus", "--no-runtimes"]));
    let text = stdout(&run);
    let why = json(manx(&sandbox).args(["cpus", "--json", "--no-runtimes"]))["why"].clone();
    assert_eq!(text.lines().next(), why.as_str());
    assert!(text.contains("\nlimit ") && text.contains(" *  "), "{text}");
    assert!(text.contains(&format!("\nthreads   {}", budget())), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    for arguments in [&["cpus", "--no-runtimes"][..], &["cpus", "--watch"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = manx(&sandbox);
        let status = command.args(arguments).stdout(writer).status().expect("manx");
        assert!(status.success(), "{arguments:?}");
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut command = manx(&sandbox);
    command.args(["cpus", "--no-runtimes"]).stdout(full);
    fails(&mut command, 125, &["standard output cannot be written: no space left on device"]);
}
