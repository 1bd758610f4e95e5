//! Real runtimes under `manx run`, in real control groups: all of them agree with the budget.
//!
//! What is not installed is left out, and so is all where no group can be made; the reason is
//! printed. Go, Java and Rust bring a compiler, which makes the smallest program that says the
//! number.
#![cfg(target_arch = "x86_64")]

mod common;
#[path = "../../manx/tests/common/groups.rs"]
mod groups;

use common::machine::{allowed, budget, online};
use common::{finish, folder, manx, program_with};
use groups::Group;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testing::process::is_installed;

/// Variables that would be somebody's word before ours.
const VARIABLES: [&str; 16] = [
    "BLIS_NUM_THREADS",
    "DOTNET_PROCESSOR_COUNT",
    "GOMAXPROCS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "PYTHON_CPU_COUNT",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
];

/// A runtime, and the command that writes how many CPUs it takes there to be.
struct Runtime {
    name: &'static str,
    words: Vec<OsString>,
}

impl Runtime {
    /// What it makes of a quota in thousandths of a CPU, by its own rule.
    fn rounded(&self, quota: u64) -> usize {
        let up = quota.div_ceil(1000) as usize;
        let count = match self.name {
            "Go" => up.max(2),
            "Java" => up,
            _ => (quota as usize / 1000).max(1),
        };
        count.min(allowed())
    }
}

/// Compiles with `words`, in a folder that has `file`; `None`, with the reason printed, if that
/// fails.
fn compiled(file: &str, source: &str, words: &[&str], made: &str) -> Option<PathBuf> {
    let place = folder().join(format!("runtime-{}", words[0]));
    fs::create_dir_all(&place).expect("a folder");
    fs::write(place.join(file), source).expect("written");
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(&place);
    command.env("GOCACHE", place.join("cache")).env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
    let output = command.output().expect("it is installed");
    if !output.status.success() {
        testing::skip(format_args!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    Some(place.join(made))
}

const NO_OPENBLAS: &str = "libopenblas.so.0 is not installed";

/// Those that are installed. Tests run side by side: one compiles, the others wait.
fn runtimes() -> &'static [Runtime] {
    static ALL: std::sync::OnceLock<Vec<Runtime>> = std::sync::OnceLock::new();
    ALL.get_or_init(find)
}

fn find() -> Vec<Runtime> {
    let mut all = Vec::new();
    let mut add = |name, words: &[&str]| {
        all.push(Runtime { name, words: words.iter().map(OsString::from).collect() });
    };
    for (name, words) in [
        ("C", &["getconf", "_NPROCESSORS_ONLN"][..]),
        ("nproc", &["nproc"]),
        ("Python", &["python3", "-c", "import os; print(os.cpu_count())"]),
        ("Python multiprocessing", &["python3", "-c", "import multiprocessing as m; print(m.cpu_count())"]),
        ("Node.js", &["node", "-p", "require('os').availableParallelism()"]),
    ] {
        if is_installed(words[0], "--version") {
            add(name, words);
        }
    }
    const RUST: &str = "fn main() { println!(\"{}\", std::thread::available_parallelism().unwrap()); }";
    if is_installed("rustc", "--version")
        && let Some(made) = compiled("main.rs", RUST, &["rustc", "-o", "rust", "main.rs"], "rust")
    {
        add("Rust", &[made.to_str().expect("utf-8")]);
    }
    const GO: &str = "package main\nimport \"runtime\"\nimport \"fmt\"\nfunc main() { fmt.Println(runtime.GOMAXPROCS(0)) }\n";
    if is_installed("go", "version")
        && let Some(made) = compiled("main.go", GO, &["go", "build", "-o", "go", "main.go"], "go")
    {
        add("Go", &[made.to_str().expect("utf-8")]);
    }
    const OPENBLAS: &str = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void) {
            // Whichever the system prefers: one of the others has no threads.
            void *library = dlopen("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", RTLD_NOW);
            if (library == NULL) library = dlopen("libopenblas.so.0", RTLD_NOW);
            int (*threads)(void) = library ? (int (*)(void))dlsym(library, "openblas_get_num_threads") : NULL;
            if (threads == NULL) return 77;
            printf("%d\n", threads());
            return 0;
        }"#;
    if let Some(made) = compiled("blas.c", OPENBLAS, &["cc", "-o", "blas", "blas.c", "-ldl"], "blas") {
        let there = Command::new(&made).stdout(Stdio::null()).status().is_ok_and(|status| status.success());
        if there {
            add("OpenBLAS", &[made.to_str().expect("utf-8")]);
        } else {
            testing::skip(NO_OPENBLAS);
        }
    }
    for (name, script) in [
        ("Numba", "import numba; print(numba.get_num_threads())"),
        ("NumExpr", "import numexpr; print(numexpr.utils._init_num_threads())"),
    ] {
        let mut command = Command::new("python3");
        let there = command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if there.is_ok_and(|status| status.success()) {
            add(name, &["python3", "-c", script]);
        } else {
            testing::skip(format_args!("python3 has no {name}"));
        }
    }
    const JAVA: &str = "class Cpus { public static void main(String[] a) { System.out.println(Runtime.getRuntime().availableProcessors()); } }";
    if is_installed("java", "-version")
        && is_installed("javac", "-version")
        && let Some(made) = compiled("Cpus.java", JAVA, &["javac", "Cpus.java"], "Cpus.class")
    {
        let folder = made.parent().expect("a folder").to_str().expect("utf-8");
        add("Java", &["java", "-cp", folder, "Cpus"]);
    }
    all
}

/// A command under `manx run` with these options, in a group.
fn under(words: &[OsString], options: &[&str], group: &Group) -> Option<Command> {
    let mut command = manx()?;
    command.args(["run", "--quiet"]).args(options).arg("--").args(words);
    VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    group.hold(&mut command);
    Some(command)
}

/// Quotas of a group and of one below it, in thousandths of a CPU.
const LAYOUTS: [(Option<u64>, Option<u64>); 6] = [
    (None, Some(500)),
    (None, Some(1000)),
    (None, Some(1500)),
    (Some(1000), None),
    (Some(1500), None),
    (None, None),
];

#[test]
fn every_runtime_takes_the_budget() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let child = group.child("child");
    for (parent, own) in LAYOUTS {
        // A group may have no more than its parent, at any moment.
        child.set_quota(None);
        group.set_quota(parent);
        child.set_quota(own);
        for runtime in runtimes() {
            let Some(mut command) = under(&runtime.words, &[], &child) else { return };
            let outcome = finish(&mut command);
            let said = outcome.succeeded().stdout.trim();
            let told = parent.or(own).map_or_else(budget, |quota| runtime.rounded(quota));
            let name = runtime.name;
            assert_eq!(said, told.to_string(), "{name}, {parent:?} above {own:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn every_runtime_takes_a_number_that_was_said() {
    let Some(group) = Group::or_skip("cpu") else { return };
    for Runtime { name, words } in runtimes() {
        // Rust's own library counts the mask, as threads are bound by it.
        let also = if *name == "Rust" { "--cpus-also=affinity" } else { "--cpus-also=configured" };
        let Some(mut command) = under(words, &["--cpus=1", also], &group) else { return };
        assert_eq!(finish(&mut command).succeeded().stdout.trim(), "1", "{name}");
        let Some(mut command) = under(words, &["--cpus=keep"], &group) else { return };
        assert_eq!(finish(&mut command).succeeded().stdout.trim(), budget().to_string(), "{name}, kept");
    }
}

#[test]
fn cpp_and_openmp_take_the_budget() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let program = program_with("cpus_cpp", &["-fopenmp"]);
    for (parent, _) in LAYOUTS {
        group.set_quota(parent);
        let told = parent.map_or_else(budget, |quota| (quota as usize / 1000).clamp(1, allowed()));
        // In between what a mask has that was not touched.
        let count = |count: usize| OsString::from(count.to_string());
        let words = [program.as_os_str().into(), count(told), count(allowed()), count(told)];
        let Some(mut command) = under(&words, &[], &group) else { return };
        finish(&mut command).succeeded();
    }
}

#[test]
fn a_variable_of_the_users_speaks_for_libraries_that_read_it_too() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let Some(runtime) = runtimes().iter().find(|runtime| runtime.name == "OpenBLAS") else {
        return testing::skip(NO_OPENBLAS);
    };
    if allowed() < 2 {
        testing::skip("with one CPU OpenBLAS has one thread, whatever is said");
        return;
    }
    let Some(mut command) = under(&runtime.words, &["--cpus=1"], &group) else { return };
    command.env("OMP_NUM_THREADS", "2");
    assert_eq!(finish(&mut command).succeeded().stdout.trim(), "2");
}

#[test]
fn java_is_told_by_its_variable_on_request() {
    let Some(group) = Group::or_skip("cpu") else { return };
    if budget() < 2 {
        return testing::skip("with one CPU Java knows");
    }
    if !is_installed("java", "-version") {
        return;
    }
    group.set_quota(Some(1000));
    let words: Vec<OsString> = ["java", "-Xlog:gc+init", "-version"].map(OsString::from).into();
    let Some(mut command) = under(&words, &["--cpus-also=java"], &group) else { return };
    command.env("JAVA_TOOL_OPTIONS", "-Dmine=1");
    let outcome = finish(&mut command);
    let stderr = &outcome.succeeded().stderr;
    assert!(stderr.contains("JAVA_TOOL_OPTIONS: -Dmine=1 -XX:ActiveProcessorCount=1"), "{stderr}");
    assert!(outcome.stdout.contains(", 1 available"), "{}", outcome.stdout);
}

#[test]
fn the_table_shows_which_runtimes_knew_and_which_did_not() {
    let Some(group) = Group::or_skip("cpu") else { return };
    if budget() < 2 {
        testing::skip("with one CPU everybody knows");
        return;
    }
    let child = group.child("child");
    group.set_quota(Some(1000));
    let Some(mut command) = manx() else { return };
    command.args(["cpus", "--json"]);
    VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    child.hold(&mut command);
    let outcome = finish(&mut command);
    let json: serde_json::Value = serde_json::from_str(&outcome.succeeded().stdout).expect("JSON");
    assert_eq!((json["cpus"].as_f64(), json["source"].as_str()), (Some(1.0), Some("quota")), "{json:#}");
    let why = json["why"].as_str().expect("a reason");
    assert!(why.contains("quota 100000/100000 of the parent group ") && why.ends_with("/child"), "{why}");
    let row = |asked: &str| {
        let rows = json["runtimes"].as_array().expect("a list");
        rows.iter().find(|row| row["asked"].as_str().is_some_and(|name| name.starts_with(asked))).cloned()
    };
    // A program that could bind threads by the count is told the truth.
    for (asked, told) in [("sysconf", 1), ("the same", online() as u64)] {
        let row = row(asked).expect("always there");
        assert_eq!(
            (row["alone"].as_u64(), row["under_manx"].as_u64()),
            (Some(online() as u64), Some(told)),
            "{row}"
        );
    }
    let rust = row("available_parallelism").expect("always there");
    assert_eq!((rust["alone"].as_u64(), rust["under_manx"].as_u64()), (Some(1), Some(1)), "{rust}");
    let go = 2.min(allowed() as u64);
    for (program, argument, asked, told) in [
        ("node", "--version", "os.availableParallelism", 1),
        ("java", "-version", "availableProcessors", 1),
        ("go", "version", "GOMAXPROCS", go),
    ] {
        if is_installed(program, argument) {
            assert_eq!(row(asked).expect(asked)["under_manx"].as_u64(), Some(told), "{asked}: {json:#}");
        }
    }
    let variable = |name: &str| {
        let rows = json["variables"].as_array().expect("a list");
        rows.iter().find(|row| row["variable"] == name).cloned().expect(name)
    };
    let openmp = variable("OMP_NUM_THREADS");
    assert_eq!(
        (openmp["alone"].as_u64(), openmp["told"].as_u64()),
        (Some(allowed() as u64), Some(1)),
        "{openmp}"
    );
    let go = variable("GOMAXPROCS");
    assert_eq!(
        (go["told"].as_u64(), go["fraction"].as_str()),
        ((allowed() > 2).then_some(2), Some("up, at least 2"))
    );
}

#[test]
fn a_watch_has_a_line_for_each_change() {
    use std::io::{BufRead as _, BufReader};
    let Some(group) = Group::or_skip("cpu") else { return };
    group.set_quota(Some(1000));
    let Some(mut command) = manx() else { return };
    command.args(["cpus", "--watch", "--count", "--rounding=exact"]).stdout(Stdio::piped());
    group.hold(&mut command);
    let mut child = command.spawn().expect("manx");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("read");
    assert_eq!(next(), "1");
    for (quota, line) in [(500, "0.5"), (250, "0.25"), (750, "0.75")] {
        group.set_quota(Some(quota));
        assert_eq!(next(), line);
    }
    // It ends when nobody reads any more and there is something to say.
    drop(lines);
    group.set_quota(Some(300));
    assert!(child.wait().expect("a child").success());
}
