//! The engines as programs: they compile, run, and print what adds up; bad options are refused with
//! a reason.

mod support;

use std::path::PathBuf;
use std::process::{Command, Output as Ended};
use support::compiler;
use workload::engine::{
    self, Choice, Compiler, Engines, Kind, Libraries, Load, Output, Program, Start, library,
};
use workload::{Error, machine};

fn program(name: &str) -> PathBuf {
    compiler().program(name, &[], "").unwrap()
}

fn load(threads: usize, more: &[&str]) -> Load {
    Load { think_us: 100.0, ..support::load(threads, 1.2, more) }
}

/// Runs it and reads the result, which checks that histograms, seconds, classes and threads add up.
fn measured(program: &Program, load: &Load) -> Output {
    let sample = engine::run(program, Start::AsIs, load).unwrap();
    let output = Output::parse(sample.output.unwrap().get()).unwrap();
    assert_eq!(sample.values["max_ns"], output.all.max_ns as f64);
    assert_eq!(output.threads.len(), load.threads);
    assert_eq!(output.seconds.len(), load.seconds.ceil() as usize);
    assert!(
        output.seconds.iter().all(|second| second.normal.count + second.boosted.count > 0),
        "an empty second"
    );
    assert!(output.all.min_ns > 0 && output.all.min_ns <= output.all.max_ns);
    output
}

#[test]
fn the_built_in_engine_adds_up_with_reads_and_with_conflicts() {
    let program = Program::new(program("snapshot"));
    let options = ["--records=50", "--value-bytes=64", "--keys=zipfian", "--read-share=0.5", "--updates=3"];
    // Threads that get their CPUs one after the other do not conflict: there are several runs.
    let mut runs = (0..10).map(|_| measured(&program, &load(4, &options)));
    let output = runs.find(|output| output.conflicts > 0).expect("50 popular records, and conflicts");
    assert_eq!((output.engine.as_str(), output.errors), ("snapshot", 0));
    assert_eq!(output.boosted.count, 0);
    let fixed = Program { arguments: vec!["--fixed".into()], ..program };
    assert!(measured(&fixed, &load(4, &options)).version.contains("adaptive"));
}

#[test]
fn boosted_threads_are_counted_apart() {
    // Lowering needs no privilege.
    let program = Program::new(program("snapshot"));
    let mut load = load(4, &["--records=100"]);
    load.boost = 1;
    load.lowered = true;
    let output = measured(&program, &load);
    assert_eq!(output.threads.iter().filter(|thread| thread.boosted).count(), 1);
    let boosted: u64 =
        output.threads.iter().filter(|thread| thread.boosted).map(|thread| thread.operations).sum();
    assert!(boosted > 0);
    assert_eq!(output.boosted.count, boosted);
    assert_eq!(output.normal.count + output.boosted.count, output.all.count);
}

#[test]
fn threads_of_little_cpus_are_counted_apart_and_their_misses_with_them() {
    let cpus = machine::cpus();
    if cpus.len() < 2 {
        testing::skip("it takes two CPUs to tell them apart");
        return;
    }
    let little = format!("--little={}", cpus[1]);
    // No operation ends within a nanosecond, and none takes 17 minutes.
    for (slo, missed) in [("--slo-us=0.001", 1.0), ("--slo-us=1000000000", 0.0)] {
        let program = Program::new(program("plain"));
        let sample = engine::run(&program, Start::AsIs, &load(3, &["--pin", little.as_str(), slo])).unwrap();
        let output = Output::parse(sample.output.unwrap().get()).unwrap();
        // In turn: the second of three threads is on the second CPU.
        let classes: Vec<bool> = output.threads.iter().map(|thread| thread.little).collect();
        assert_eq!(classes, [false, true, false]);
        let (little, big) = (output.little.unwrap(), output.big.unwrap());
        assert_eq!(little.count, output.threads[1].operations);
        assert_eq!(little.count + big.count, output.all.count);
        assert_eq!(sample.values["little_missed"], missed, "{slo}");
        assert_eq!(sample.values["big_max_ns"], big.max_ns as f64);
        assert!(sample.values["little_p50_ns"] > 0.0);
    }
    let none = measured(&Program::new(program("plain")), &load(2, &["--pin", "--little="]));
    assert_eq!((none.little.unwrap().count, none.big.unwrap().count), (0, none.all.count));
    // Nothing is told apart that was not asked for.
    let plain = measured(&Program::new(program("plain")), &load(2, &["--pin"]));
    assert!(plain.little.is_none() && plain.big.is_none());
}

#[test]
fn wiredtiger_adds_up_where_it_is_installed() {
    let made = library::wiredtiger(&compiler(), None);
    let Some(path) = support::installed(made, "libwiredtiger-dev") else { return };
    let program = Program { home: true, ..Program::new(path) };
    let options = ["--records=500", "--value-bytes=100", "--read-share=0.3", "--updates=2", "--cache-mb=50"];
    let output = measured(&program, &load(3, &options));
    assert!(output.version.contains("WiredTiger"), "{}", output.version);
    assert_eq!(output.errors, 0);
}

#[test]
fn the_shim_is_a_library_with_one_name() {
    let Some(shim) = support::installed(library::shim(&compiler(), None), "libwiredtiger-dev") else {
        return;
    };
    let names = testing::process::succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&shim));
    let names: Vec<&str> = names.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["manx_wiredtiger"]);
}

#[test]
fn programs_that_need_no_repair_run() {
    for name in ["bounded", "plain", "spinlock"] {
        assert_eq!(measured(&Program::new(program(name)), &load(2, &[])).engine, name);
    }
}

#[test]
fn memory_grows_with_the_threads() {
    let bytes = |threads: &str| {
        let ended = Command::new(program("threads")).args(["--threads", threads]).output().unwrap();
        assert!(ended.status.success());
        let sizes: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(sizes["threads"].to_string(), threads);
        sizes["private_bytes"].as_f64().unwrap()
    };
    let (few, many) = (bytes("1"), bytes("101"));
    assert!(many >= few + 100.0 * 4096.0, "a hundred stacks in {} bytes", many - few);
}

#[test]
fn libraries_that_cannot_be_opened_are_counted() {
    let ended = Command::new(program("startup")).args(["/no/such/library.so"]).output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((result["opened"].as_u64(), result["skipped"].as_u64()), (Some(0), Some(1)));
}

#[test]
fn bad_options_are_refused_with_a_reason() {
    let refused = |arguments: &[&str]| {
        let Ended { status, stdout, stderr } =
            Command::new(program("snapshot")).args(arguments).output().unwrap();
        assert_eq!((status.code(), stdout.len()), (Some(2), 0), "{arguments:?}");
        String::from_utf8(stderr).unwrap()
    };
    for (arguments, reason) in [
        (&["--threads", "0"][..], "'0' is not a whole number from 1 to 4096"),
        (&["--threads", "-1"], "is not a whole number"),
        (&["--threads", "4x"], "is not a whole number"),
        (&["--seconds", "nan"], "is not a number from"),
        (&["--think-us"], "a value is missing"),
        (&["--keys", "normal"], "not one of uniform|zipfian"),
        (&["--cpus", "1-0"], "not a list of CPUs"),
        (&["--cpus", "0,"], "not a list of CPUs"),
        (&["--little", "0"], "--pin is missing"),
        (&["--pin", "--little", "x"], "--little: 'x' is not a list of CPUs"),
        (&["--pin", "--little", "1023"], "CPUs that this process may use"),
        (&["--pin=1"], "takes no value"),
        (&["--boost", "9", "--threads", "8"], "only 8 threads"),
        (&["--boost-from", "1"], "--boost-to is missing"),
        (&["--boost-from", "2", "--boost-to", "1"], "not between"),
        (&["--records", "2", "--updates", "3"], "only 2 records"),
        (&["--fixed=yes"], "takes no value"),
        (&["--thread", "1"], "no such option"),
        (&["8"], "not an option"),
    ] {
        let words = refused(arguments);
        assert!(words.contains(reason), "{arguments:?}: {words}");
    }
}

#[test]
fn a_library_cannot_be_named_for_the_built_in_engine() {
    let libraries = Libraries { library: Some("x.so".into()), ..Libraries::default() };
    let choice = Choice { kind: Some(Kind::Snapshot), libraries };
    let error = Engines::prepare(&choice, &compiler()).unwrap_err();
    assert!(matches!(error, Error::Request { .. }), "{error}");
    let choice = Choice { kind: Some(Kind::Snapshot), ..Choice::default() };
    let engines = Engines::prepare(&choice, &compiler()).unwrap();
    assert!(engines.fixed.is_ok() && engines.notes[0].contains("built-in"));
}

#[test]
fn without_the_library_the_built_in_engine_is_measured_and_says_so() {
    // A compiler that knows no WiredTiger, whatever this machine has installed.
    let folder = tempfile::tempdir().unwrap();
    let text =
        "case \"$*\" in *wiredtiger*) echo 'wiredtiger.h: No such file' >&2; exit 1;; esac\nexec cc \"$@\"";
    let script = support::script(folder.path(), "cc", text);
    let compiler = Compiler::new(&script, folder.path().join("cache"));
    let engines = Engines::prepare(&Choice::default(), &compiler).unwrap();
    assert_eq!(engines.kind, Kind::Snapshot);
    assert!(engines.notes[0].contains("libwiredtiger-dev"), "{:?}", engines.notes);
    let asked = Choice { kind: Some(Kind::WiredTiger), ..Choice::default() };
    assert!(matches!(Engines::prepare(&asked, &compiler), Err(Error::Missing { .. })));
}

#[test]
fn a_run_in_which_nothing_ended_is_made_again_for_longer() {
    let real = program("snapshot");
    let sample = engine::run(&Program::new(real.clone()), Start::AsIs, &load(2, &[])).unwrap();
    let mut stalled: serde_json::Value = serde_json::from_str(sample.output.unwrap().get()).unwrap();
    let none = stalled["boosted"].clone();
    assert_eq!(none["count"], 0);
    for class in ["all", "normal"] {
        stalled[class] = none.clone();
    }
    stalled["seconds"].as_array_mut().unwrap().iter_mut().for_each(|second| second["normal"] = none.clone());
    stalled["threads"].as_array_mut().unwrap().iter_mut().for_each(|thread| thread["operations"] = 0.into());

    let folder = tempfile::tempdir().unwrap();
    let (output, log) = (folder.path().join("stalled.json"), folder.path().join("log"));
    std::fs::write(&output, stalled.to_string()).unwrap();
    let run = |stalls: &str| {
        let text = format!(
            "case \"$*\" in {stalls}) echo >> {log}; cat {output};; *) exec {real} \"$@\";; esac",
            log = log.display(),
            output = output.display(),
            real = real.display()
        );
        let program = Program::new(support::script(folder.path(), "engine", &text));
        let ended = engine::run(&program, Start::AsIs, &support::load(2, 0.2, &[]));
        let stalled = std::fs::read_to_string(&log).unwrap().lines().count();
        std::fs::remove_file(&log).unwrap();
        (ended, stalled)
    };
    let (ended, stalled) = run("*--seconds=0.2*|*--seconds=0.4*");
    assert_eq!((ended.map(|sample| sample.values["count"] > 0.0), stalled), (Ok(true), 2));
    let (ended, stalled) = run("*");
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("no operation ended") && stalled == 6, "{stalled} runs: {error}");
}

#[test]
fn an_output_that_does_not_add_up_is_not_believed() {
    let sample = engine::run(&Program::new(program("plain")), Start::AsIs, &load(1, &[])).unwrap();
    let text = sample.output.unwrap().get().to_owned();
    let thread = text.find("\"operations\":").unwrap();
    let wrong = format!("{}\"operations\":1{}", &text[..thread], &text[thread + "\"operations\":".len()..]);
    assert!(Output::parse(&wrong).unwrap_err().contains("operations in all"));
    let classes = text.replacen(
        "\"all\":",
        "\"big\":{\"count\":0,\"min_ns\":0,\"max_ns\":0,\"sum_ns\":0,\"counts\":[]},\"all\":",
        1,
    );
    assert!(Output::parse(&classes).unwrap_err().contains("of big threads"));
    assert!(
        Output::parse(&text.replacen("\"format\":1", "\"format\":9", 1)).unwrap_err().contains("format 9")
    );
    assert!(Output::parse("").is_err());
}
