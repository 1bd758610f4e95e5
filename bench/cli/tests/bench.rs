//! `manx-bench` from outside: Ctrl-C, and a measured program that fails, lose nothing and leave
//! nothing.
//!
//! The built-in engine is measured, or what is expected depends on what is installed, and nothing
//! here depends on how fast anything is.

mod support;

use report::Report;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `manx bench inversion` with the built-in engine.
fn inversion(folder: &Path) -> Command {
    bench(folder, &["inversion", "--engine", "snapshot", "--quick"])
}

/// `manx bench` whose programs are compiled below the build folder.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = support::manx_bench();
    command.args(arguments).arg("--json").arg(folder.join("x.json"));
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    // There is no such library: whatever is started under `manx run` fails, and says so.
    command.env("MANX_PRELOAD", folder.join("missing.so"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn report(folder: &Path) -> Report {
    Report::from_json(&std::fs::read_to_string(folder.join("x.json")).unwrap()).unwrap()
}

/// Runs a command to its end; returns its exit code, and what it wrote to both outputs.
fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let ended = command.output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap())
}

/// The same with the names of the pictures that it leaves, which it also says.
fn pictured(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String, Vec<String>) {
    let plots = folder.join("plots");
    let (code, stdout, stderr) = said(bench(folder, arguments).arg("--plots").arg(&plots));
    let entries = plots.read_dir().into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.iter().all(|name| stderr.contains(name.as_str())), "{stderr}");
    (code, stdout, stderr, names)
}

/// Reads standard error until it has shown this number of steps, and returns the rest.
fn wait_for(child: &mut Child, steps: usize) -> BufReader<impl Read + use<>> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut shown) = (String::new(), 0);
    while shown < steps {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended after {shown} steps");
        shown += usize::from(line.contains(": pair "));
    }
    lines
}

/// The process ids of engines whose parent is `manx`.
fn engines_of(manx: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{manx}/task/{manx}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// A seed by which the first round of two versions begins with the first of them.
fn seed() -> String {
    (0..).find(|&seed| report::Order::new(seed).draw(2) == [0, 1]).unwrap().to_string()
}

#[test]
fn ctrl_c_ends_the_measured_program_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    // Five protocols, with and without a boost, whatever is installed; each runs for longer than
    // progress is silent.
    let arguments = ["txn", "--part", "allocation", "--threads", "2", "--time", "1.2", "--value-bytes", "48"];
    let mut command = bench(folder.path(), &arguments);
    let mut manx = command.env("CC", "/no/such/cc").spawn().unwrap();
    let _stderr = wait_for(&mut manx, 2);
    let engine = loop {
        if let [engine] = engines_of(manx.id())[..] {
            break engine;
        }
        std::thread::yield_now();
    };
    // SAFETY: kill has no memory effects; the process is our child and has not been waited for.
    assert_eq!(unsafe { libc::kill(manx.id() as i32, libc::SIGINT) }, 0);
    let mut stdout = String::new();
    manx.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(manx.wait().unwrap().code(), Some(130));

    assert!(!Path::new(&format!("/proc/{engine}")).exists(), "the engine still runs");
    let report = report(folder.path());
    assert!(report.interrupted && !report.quick);
    assert_eq!(report.runs.len(), 1);
    assert!(stdout.contains("ended early") && stdout.contains("Targets"), "{stdout}");
    assert!(report.targets.iter().all(|target| target.measured.is_none()));
}

#[test]
fn a_program_that_fails_is_reported_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = said(inversion(folder.path()).args(["--seed", &seed()]));
    assert_eq!(code, Some(125), "{stderr}");
    assert!(
        stderr.contains("manx: bench inversion: ") && stderr.contains("ended with status 125"),
        "{stderr}"
    );
    assert!(stderr.contains("missing.so"), "what `manx run` said is lost: {stderr}");
    let report = report(folder.path());
    assert_eq!(report.runs.len(), 1);
    assert_eq!(report.seed.map(|seed| seed.to_string()), Some(seed()));
    assert!(stdout.contains("as it is") && stdout.contains(&format!("from seed {}", seed())), "{stdout}");
    assert!(report.runs.iter().all(|run| run.output.is_some()));
    assert!(report.ratios.is_empty(), "a version alone is no pair");
}

#[test]
fn it_goes_on_until_the_ratio_is_known_or_the_time_is_over_and_says_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // A ratio is known to ±100 % after five rounds or some more; to ±0.01 % it never is, but the
    // time is over after five.
    for (width, limit) in [("100", "10"), ("0.01", "0")] {
        let more = ["--repeats", "50", "--width", width, "--minutes", limit];
        let arguments = [&["range", "--quick", "--part", "single"], &more[..]].concat();
        let (code, stdout, stderr) = said(&mut bench(folder.path(), &arguments));
        assert_eq!(code, Some(0), "{stderr}");
        let report = report(folder.path());
        let values = |version| report.values("single, lock and unlock", version, "pairs_per_s");
        let (own, other) = (values("manx"), values("skip_list_published"));
        // A run of some milliseconds counts nothing if its thread gets no CPU. Then there is no
        // ratio of that round.
        let pairs = own.iter().zip(&other).filter(|(own, other)| **own > 0.0 && **other > 0.0).count();
        let rounds = if limit == "0" { 5..=5 } else { 5..=49 };
        assert!(rounds.contains(&own.len()), "{own:?} {other:?}");
        assert!(stderr.contains("single, lock and unlock: pair 1, "), "{stderr}");
        assert_eq!(stdout.contains("its time was over after 5 pairs"), limit == "0", "{stdout}");
        let verdict = report.targets.iter().find(|target| target.id == "range-single-thesis").unwrap();
        assert_eq!(verdict.pairs, Some(pairs));
        assert_eq!(verdict.interval.is_some(), pairs >= 5, "{verdict:?}");
        assert_eq!(verdict.reason.is_none(), pairs >= 5, "{verdict:?}");
    }
}

#[test]
fn on_unequal_cores_a_missing_library_is_told_and_nothing_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["engines", "--unequal", "kyoto-cache", "--seconds", "0.1", "--repeats", "1"];
    let (code, _, stderr, names) = pictured(folder.path(), &arguments);
    if code == Some(2) {
        assert!(stderr.contains("there is one CPU only"), "{stderr}");
        return testing::skip("in part: there is one CPU only");
    }
    assert_eq!(code, Some(125), "{stderr}");
    let report = report(folder.path());
    assert!(report.runs.is_empty() && report.tables.is_empty());
    let left_out = report.notes.iter().any(|note| note.starts_with("kyoto-cache: left out"));
    assert!(
        left_out || stderr.contains("kyoto-cache, first: glibc failed") && stderr.contains("missing.so"),
        "{stderr}"
    );
    assert!(names.is_empty(), "pictures of nothing");
}

#[test]
fn a_database_that_fails_under_manx_is_noted_and_the_others_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["engines", "lmdb", "kyoto-cache", "--seconds", "0.1", "--repeats", "1"];
    let (code, stdout, stderr) = said(&mut bench(folder.path(), &arguments));
    // Without the packages and without the preload library alike.
    assert_eq!(code, Some(125), "{stderr}");
    let report = report(folder.path());
    let missing = |name: &str| report.notes.iter().any(|note| note.starts_with(&format!("{name}: left out")));
    if missing("lmdb") && missing("kyoto-cache") {
        testing::skip("neither LMDB nor Kyoto Cabinet is installed");
        return;
    }
    for name in ["lmdb", "kyoto-cache"].iter().filter(|name| !missing(name)) {
        let failed = format!("{name}: manx run failed: manx: ended with status 125");
        assert!(stderr.contains(&failed) && stderr.contains("missing.so"), "{stderr}");
        assert!(stdout.contains(&failed), "{stdout}");
        assert_eq!(report.runs.iter().filter(|run| run.case == **name).count(), 1);
    }
    assert!(!report.targets.is_empty());
    for target in &report.targets {
        assert!(target.measured.is_none());
        assert!(target.id.starts_with("lmdb-") || target.id.starts_with("kyoto-cache-"), "{}", target.id);
    }
}

#[test]
fn locks_under_a_target_leave_tables_json_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["asl", "--quick", "--part", "bench-2,figure-1", "--unpinned", "--dilate", "1.8"];
    let (code, stdout, stderr, names) = pictured(folder.path(), &arguments);
    if code == Some(2) {
        assert!(stderr.contains("need a CPU each"), "{stderr}");
        return testing::skip("in part: big and little threads need a CPU each");
    }
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("unpinned: ") && stdout.contains("it takes 1.8 times as long"), "{stdout}");
    assert!(stdout.contains("x1024") && stdout.contains("figure 1, 2 threads"), "{stdout}");
    assert_eq!(names, ["bench-2.svg", "figure-1.svg"]);
    let report = report(folder.path());
    // Two of these versions are ours, and each has LibASL as it is printed beside it.
    assert_eq!(report.runs.iter().filter(|run| run.case.starts_with("bench-2")).count(), 5);
    for run in &report.runs {
        let slices = run.output.as_ref().unwrap().get().contains("\"slices\":[{");
        assert_eq!(slices, run.case.starts_with("bench-2"), "{}", run.case);
    }
}

#[test]
fn locks_of_ranges_leave_tables_json_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["range", "--quick", "--part", "single,w1,contended", "--threads", "2,1,2"];
    let (code, stdout, stderr, names) = pictured(folder.path(), &arguments);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("w1, 2 threads") && stdout.contains("acquired p50"), "{stdout}");
    assert_eq!(names, ["contended.svg", "w1.svg"]);
    let report = report(folder.path());
    for case in ["single, lock and unlock", "w1, 1 thread", "w1, 2 threads"] {
        let runs = || report.runs.iter().filter(|run| run.case == case);
        // Each lock once, and no lock at all.
        assert_eq!(runs().filter(|run| run.variant == "map").count(), 1, "{case}");
        assert_eq!(runs().filter(|run| run.variant == "manx").count(), 1, "{case}");
        assert_eq!(runs().filter(|run| run.variant == "none").count(), 1, "{case}");
    }
    assert!(report.runs.iter().all(|run| run.case != "w1, 8 threads"), "nobody asked for 8 threads");
    assert!(!report.targets.is_empty());
}

#[test]
fn locks_of_ranges_that_are_checked_have_no_violations() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["range", "--check", "--quick", "--part", "contended,w2", "--threads", "3"];
    let (code, _, stderr) = said(&mut bench(folder.path(), &arguments));
    assert_eq!(code, Some(0), "{stderr}");
    let report = report(folder.path());
    assert!(!report.runs.is_empty());
    assert!(report.runs.iter().all(|run| run.values["violations"] == 0.0));
    assert!(report.targets.iter().all(|target| target.measured.is_none()));
}

#[test]
fn a_folder_for_pictures_that_cannot_be_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (code, stdout, stderr) = said(bench(folder.path(), &["asl", "--quick"]).arg("--plots").arg(&file));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--plots") && stderr.contains("name a folder"), "{stderr}");
    assert!(stdout.is_empty());
}

/// The processes whose parent is `parent`, once there are `count` of them.
fn children(parent: u32, count: usize) -> Vec<u32> {
    loop {
        let found = engines_of(parent);
        if found.len() == count {
            return found;
        }
        std::thread::yield_now();
    }
}

/// True of a process that is gone, or is only waited for.
fn gone(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_else(|_| ") Z".into());
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

#[test]
fn ctrl_c_ends_all_processes_of_a_crowd_and_removes_their_groups() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["pool", "--part", "mixed", "--kind", "ignorant", "--time", "600", "--sessions", "each"];
    let mut manx = bench(folder.path(), &arguments).spawn().unwrap();
    let _stderr = wait_for(&mut manx, 1);
    let leader = children(manx.id(), 1)[0];
    let processes = children(leader, 2);
    // SAFETY: kill has no memory effects; the process is our child and has not been waited for.
    assert_eq!(unsafe { libc::kill(manx.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(manx.wait().unwrap().code(), Some(130));
    // They die with their leader, each when the kernel comes to it: if they lived on, this would
    // not end.
    while !processes.iter().all(|process| gone(*process)) {
        std::thread::yield_now();
    }
    let own = format!("manx-bench-pool-{}-", manx.id());
    for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"] {
        for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            assert!(!name.starts_with(&own), "{name} is left in {root}");
        }
    }
    assert!(report(folder.path()).interrupted);
}

#[test]
fn pools_leave_tables_json_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["pool", "--quick", "--part", "burst,idle,neighbours", "--kind", "ignorant,rayon,manx", "--poisson"];
    let (code, stdout, stderr, names) = pictured(folder.path(), &arguments);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("at random (Poisson)") && stdout.contains("idle: a pool that has nothing to do"),
        "{stdout}"
    );
    assert!(names.contains(&"overload.svg".into()) && names.contains(&"burst.svg".into()), "{names:?}");
    let report = report(folder.path());
    let variants = report.variants("burst");
    assert_eq!(variants, ["ignorant", "manx", "rayon"]);
    for run in report.runs.iter().filter(|run| run.case.ends_with("processes")) {
        for latency in ["queue", "service", "total", "late"] {
            assert!(run.values.contains_key(&format!("{latency}_max_ns")), "{}: {}", run.case, run.variant);
        }
        assert!(run.output.as_ref().unwrap().get().contains("\"histograms\""));
    }
    assert!(report.runs.iter().any(|run| run.case == "overload, 2 processes"));
    assert!(report.targets.iter().any(|target| target.id == "pool-burst" && target.measured.is_some()));
}

#[test]
fn a_missed_target_is_an_error_only_with_check() {
    let folder = tempfile::tempdir().unwrap();
    // Whether a figure is reached is the machine's business; the code must agree with it.
    let arguments = ["pool", "--quick", "--part", "burst,submit", "--kind", "manx,rayon", "--check"];
    let (code, _, stderr) = said(&mut bench(folder.path(), &arguments));
    let missed = report(folder.path())
        .targets
        .iter()
        .filter(|target| target.verdict == report::target::Outcome::FallsShort)
        .count();
    assert_eq!(code, Some(if missed > 0 { 125 } else { 0 }), "{stderr}");
    assert_eq!(stderr.contains("missed"), missed > 0, "{stderr}");
}

#[test]
fn a_server_that_is_not_installed_is_left_out_with_a_note_that_names_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench(folder.path(), &["servers", "--quick", "mariadb-update", "memcached"]);
    let (code, stdout, stderr) = said(command.env("PATH", folder.path()));
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains(" is not installed\n"), "{stderr}");
    assert!(stdout.is_empty(), "nothing was measured: {stdout}");
    let report = report(folder.path());
    assert!(report.runs.is_empty());
    for (case, packages) in [("mariadb-update", "mariadb-server sysbench"), ("memcached", "memcached")] {
        let note = report.notes.iter().find(|note| note.starts_with(&format!("{case}: left out: ")));
        let note = note.unwrap_or_else(|| panic!("{:?}", report.notes));
        assert!(note.ends_with(&format!("(Debian: apt-get install {packages})")), "{note}");
    }
}

#[test]
fn ctrl_c_stops_the_servers_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench(folder.path(), &["servers", "memcached", "--seconds", "2"]);
    // In the order of this seed the server as it is comes first; the other one cannot start.
    let mut manx = command.args(["--seed", &seed()]).spawn().unwrap();
    let mut lines = BufReader::new(manx.stderr.take().unwrap());
    let (mut line, mut shown) = (String::new(), 0);
    while shown < 3 {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            testing::skip("memcached is not installed, or nobody cannot run manx");
            manx.wait().unwrap();
            return;
        }
        shown += usize::from(line.contains(": pair "));
    }
    let [server] = engines_of(manx.id())[..] else { panic!("not one server: {:?}", engines_of(manx.id())) };
    // SAFETY: kill has no memory effects; the process is our child and has not been waited for.
    assert_eq!(unsafe { libc::kill(manx.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(manx.wait().unwrap().code(), Some(130));
    assert!(!Path::new(&format!("/proc/{server}")).exists(), "the server still runs");
    let report = report(folder.path());
    assert!(report.interrupted && !report.runs.is_empty());
    let failed = report.notes.iter().any(|note| note.starts_with("memcached: manx run failed: "));
    assert!(failed, "{:?}", report.notes);
}
