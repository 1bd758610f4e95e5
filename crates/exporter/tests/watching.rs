//! The watch on real processes: their files are found, shared files count once, and processes that
//! end leave their counts.

mod support;

use exporter::catalogue::{ALL, families};
use exporter::metric::{Family, Value};
use exporter::registry::Limits;
use exporter::watch::{Scope, Watch};
use preload_abi::live::{Answer, Cure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::Fake;
use testing::process::{Running, compiler};

/// Plenty for a pass.
const NS_MAX: u64 = 10_000_000_000;

const HOLDER: &str = include_str!("support/holder.c");

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A stand-in for the library, and a program of this name.
    fn holder(&self, name: &str) -> (PathBuf, PathBuf) {
        let (source, program) = (self.path().join("holder.c"), self.path().join(name));
        fs::write(&source, HOLDER).expect("written");
        assert!(compiler(&source).arg("-o").arg(&program).status().expect("a C compiler").success());
        let library = self.path().join(preload_abi::LIBRARY_NAME);
        fs::write(&library, "stand-in").expect("written");
        (program, library)
    }
}

fn start(program: &Path, children: usize, files: &[&Path]) -> Running {
    let mut running = Running::start(Command::new(program).arg(children.to_string()).args(files));
    assert_eq!(running.line().as_deref(), Some("ready"));
    running
}

/// The value of a metric for a program, with its last label if it has two.
fn value(families: &[Family], name: &str, labels: &[&str]) -> Option<f64> {
    let family = families.iter().find(|family| family.description.name == name).expect(name);
    let sample = family.samples.iter().find(|sample| sample.labels == labels)?;
    match &sample.value {
        Value::Number(number) => Some(*number),
        Value::Histogram(histogram) => Some(histogram.counts.count() as f64),
    }
}

#[test]
fn the_counts_of_processes_that_share_a_file_are_counted_once_and_stay() {
    let place = Place::new();
    let (program, library) = place.holder("shared-holder");
    let fake = Fake::new(place.path(), "7.live", 5);
    fake.lock(3, "put+0x1", 4, 1_000_000);
    fake.site(0, 7, 1_000_000_000);
    let mut running = start(&program, 3, &[&library, &fake.path]);
    let mut watch = Watch::new(Scope::Tree(running.child.id()), Limits::default());
    watch.pass(NS_MAX);
    let now = families(&watch);
    let of = |name: &str| value(&now, name, &["shared-holder"]);
    assert_eq!(value(&now, "manx_processes", &["shared-holder", "counted"]), Some(4.0));
    assert_eq!(value(&now, "manx_sites", &["shared-holder", "repaired"]), Some(1.0));
    assert_eq!((of("manx_threads"), of("manx_loop_waits")), (Some(4.0), Some(7.0)));
    assert_eq!(of("manx_loop_wait_seconds"), Some(1.0));
    assert!(of("manx_cpu_seconds") > Some(0.0) && of("manx_run_delay_seconds").is_some());
    assert!(of("manx_budget_cpus").is_none_or(|cpus| cpus > 0.0));
    let lock = ["shared-holder", "libengine.so:put+0x1"];
    assert_eq!(value(&now, "manx_lock_wait_seconds", &lock), Some(4.0));

    // Counts are read again when a process has run.
    fake.lock(3, "put+0x1", 6, 1_000_000);
    running.ask("go", "done");
    watch.pass(NS_MAX);
    assert_eq!(value(&families(&watch), "manx_lock_wait_seconds", &lock), Some(6.0));

    // The last counts come when all have ended.
    fake.lock(3, "put+0x1", 9, 1_000_000);
    drop(running.child.stdin.take());
    running.child.wait().expect("ended");
    watch.pass(NS_MAX);
    let last = families(&watch);
    assert_eq!(value(&last, "manx_lock_wait_seconds", &lock), Some(9.0));
    assert_eq!(value(&last, "manx_processes", &["shared-holder", "counted"]), Some(0.0));
    assert!(value(&last, "manx_cpu_seconds", &["shared-holder"]) >= of("manx_cpu_seconds"));
}

#[test]
fn the_answers_of_the_trial_are_those_of_all_processes_of_a_program() {
    let place = Place::new();
    let (program, library) = place.holder("asked-holder");
    let fakes = ["7.live", "8.live"].map(|name| Fake::new(place.path(), name, 5));
    let mut running = fakes.each_ref().map(|fake| start(&program, 0, &[&library, &fake.path]));
    let mut watch = Watch::new(Scope::Tree(std::process::id()), Limits::default());
    watch.pass(NS_MAX);
    let answers = |watch: &Watch, cure: Cure| {
        let families = families(watch);
        Answer::ALL.map(|answer| {
            value(&families, "manx_trial_processes", &["asked-holder", cure.word(), answer.word()])
        })
    };
    for cure in Cure::ALL {
        assert_eq!(answers(&watch, cure), [None; Answer::ALL.len()], "nothing was asked");
    }

    fakes[0].trial(Cure::Spin, true, [500_000_000, 2_000_000_000]);
    fakes[1].trial(Cure::Spin, false, [1_000_000_000, 1_000_000_000]);
    for running in &mut running {
        running.ask("go", "done");
    }
    watch.pass(NS_MAX);
    let [kept, dropped, tie] = answers(&watch, Cure::Spin);
    assert_eq!((kept, dropped, tie), (Some(1.0), Some(0.0), Some(1.0)));
    assert_eq!(answers(&watch, Cure::Yield), [None; Answer::ALL.len()]);
    let now = families(&watch);
    let work = |way: &str| value(&now, "manx_trial_work_cpus", &["asked-holder", "spin", way]);
    assert_eq!((work("as_written"), work("cured")), (Some(1.5), Some(3.0)));
}

#[test]
fn a_file_that_goes_away_is_counted_to_its_end() {
    let place = Place::new();
    let (program, library) = place.holder("removed-holder");
    let fake = Fake::new(place.path(), "7.live", 5);
    let mut running = start(&program, 0, &[&library, &fake.path]);
    let mut watch = Watch::new(Scope::Tree(running.child.id()), Limits::default());
    watch.pass(NS_MAX);
    fake.site(0, 3, 0);
    fs::remove_file(&fake.path).expect("removed");
    drop(running.child.stdin.take());
    running.child.wait().expect("ended");
    watch.pass(NS_MAX);
    assert_eq!(value(&families(&watch), "manx_loop_waits", &["removed-holder"]), Some(3.0));
}

#[test]
fn the_host_is_watched_and_young_processes_come_with_the_second_pass() {
    let place = Place::new();
    // Other tests may run a program like this at the same time.
    let name = format!("young-{}", std::process::id());
    let (program, library) = place.holder(&name);
    let mut watch = Watch::new(Scope::Host, Limits { programs: 5000, locks: 1 });
    watch.pass(NS_MAX);
    let own = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    assert!(value(&families(&watch), "manx_processes", &[&own, "plain"]) >= Some(1.0));
    assert_eq!(families(&watch).iter().map(|it| it.description.name).collect::<Vec<_>>(), names());
    let _running = start(&program, 0, &[&library]);
    let guarded = |watch: &Watch| value(&families(watch), "manx_processes", &[&name, "manx"]);
    watch.pass(NS_MAX);
    assert_eq!(guarded(&watch), None);
    watch.pass(NS_MAX);
    assert_eq!(guarded(&watch), Some(1.0));
}

#[test]
fn a_pass_without_time_goes_on_where_the_last_one_stopped() {
    let place = Place::new();
    let (program, library) = place.holder("slow-holder");
    let _running: Vec<Running> = (0..12).map(|_| start(&program, 0, &[&library])).collect();
    let mut watch = Watch::new(Scope::Tree(std::process::id()), Limits::default());
    let guarded = |watch: &Watch| value(&families(watch), "manx_processes", &["slow-holder", "manx"]);
    let mut passes = 0;
    while guarded(&watch) != Some(12.0) {
        // No time at all: each pass looks at a few.
        watch.pass(0);
        passes += 1;
        assert!(passes < 100, "{:?}", guarded(&watch));
    }
    assert!(passes > 1, "one pass had time for all");
}

fn names() -> Vec<&'static str> {
    ALL.iter().map(|description| description.name).collect()
}

#[test]
fn names_are_as_openmetrics_wants_them() {
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let mut known = names();
    for description in ALL {
        assert!(is_name(description.name) && description.name.starts_with("manx_"), "{description:?}");
        assert!(description.name.ends_with(description.unit), "{description:?}");
        assert!(!description.name.ends_with("_total") && description.help.ends_with('.'), "{description:?}");
        assert!(description.labels.iter().all(|label| is_name(label)), "{description:?}");
    }
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), ALL.len());
}
