//! `manx bench engines` as an experiment: a failure is never a figure, and what it does not touch
//! goes on.
//!
//! `manx` is a shell script here, so that nothing depends on the preload library or on what it
//! does. Without any of the databases a test skips, with a line that says so.

mod support;

use report::target::Outcome;
use report::{Machine, Report};
use support::{compiler, script};
use workload::engine::{Compiler, Cores, Rival};
use workload::engines::{self, AS_IS, MANX, Setup, Version, unequal};
use workload::harness::{Bench, Silent};
use workload::{Error, machine};

/// A setup for short runs of LMDB, and the folder of its `manx`; `None` without LMDB.
fn setup(manx: &str) -> Option<(Setup, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        subjects: engines::choose(&["lmdb".into()]).unwrap(),
        versions: Version::always(),
        compiler: compiler(),
        manx: script(folder.path(), "manx", manx),
        seconds: 0.1,
        threads: 2,
        cpus: machine::cpu_list(2),
        slo_ns: Some(1_000_000),
    };
    match setup.subjects[0].program(&setup.compiler) {
        Ok(_) => Some((setup, folder)),
        Err(error @ Error::Missing { .. }) => {
            testing::skip(error);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Measures and concludes.
fn measured(setup: &Setup) -> (Result<(), Error>, Report) {
    let mut progress = Silent;
    let mut bench = Bench::new("engines", Machine::default(), None, &mut progress);
    bench.resolution.pairs_max = Some(2);
    let result = engines::measure(setup, &mut bench);
    let mut report = bench.finish(&result);
    engines::conclude(&mut report, &setup.subjects);
    (result, report)
}

fn runs(report: &Report, version: &str) -> usize {
    report.runs.iter().filter(|run| run.variant == version).count()
}

/// `manx run [--lock=MODE] -- PROGRAM ...` that runs the program as it is.
const PASSES: &str = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";

#[test]
fn every_version_runs_in_every_round_and_the_chosen_programs_targets_are_judged() {
    let Some((mut setup, _folder)) = setup(PASSES) else { return };
    setup.versions.push(Version::lock("fifo"));
    let (result, report) = measured(&setup);
    result.unwrap();
    for version in [AS_IS, MANX, "manx run --lock=fifo"] {
        assert_eq!(runs(&report, version), 2, "{version}");
    }
    assert!(report.runs.iter().all(|run| run.output.is_some() && run.values["verified_updates"] > 0.0));
    let ids: Vec<&str> = report.targets.iter().map(|target| target.id.as_str()).collect();
    assert_eq!(ids, ["lmdb-throughput"]);
    assert!(report.targets.iter().all(|target| target.measured.is_some()));
    assert_eq!(report.tables[0].rows.len(), 3);
    let no_verdict = |target: &report::Verdict| target.reason.as_deref() == Some("fewer than five pairs");
    assert!(report.targets.iter().all(no_verdict), "two rounds are not five: {:?}", report.targets);
    assert!(report.notes.iter().any(|note| note.starts_with("measured: LMDB ")), "{:?}", report.notes);
}

#[test]
fn a_program_that_fails_under_manx_has_no_figure_and_is_the_experiments_failure() {
    // The first time it does as it should: what was measured then counts for nothing any more.
    let once =
        format!("[ -e \"$0.ran\" ] && {{ echo 'self-check: lost' >&2; exit 1; }}; : > \"$0.ran\"; {PASSES}");
    let Some((setup, _folder)) = setup(&once) else { return };
    let (result, report) = measured(&setup);
    let Err(Error::Failed { stderr, .. }) = result else { panic!("{result:?}") };
    assert!(
        stderr.contains("lmdb: manx run failed: manx: ended with status 1 (self-check: lost)"),
        "{stderr}"
    );
    assert_eq!((runs(&report, AS_IS), runs(&report, MANX)), (2, 0));
    assert!(!report.interrupted, "what could be measured was measured");
    for target in &report.targets {
        assert_eq!(target.verdict, Outcome::NotMeasured);
        assert!(target.reason.as_ref().unwrap().contains("self-check: lost"), "{target:?}");
    }
}

#[test]
fn a_rival_that_fails_is_noted_and_the_rest_goes_on() {
    let Some((mut setup, folder)) = setup(PASSES) else { return };
    let source = folder.path().join("rival.c");
    std::fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { _Exit(7); }\n",
    )
    .unwrap();
    let library = folder.path().join("rival.so");
    let mut cc = std::process::Command::new("cc");
    assert!(cc.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap().success());
    let rival = Rival { name: "worse".into(), library: library.clone(), lock: None };
    setup.versions.push(Version::rival(rival));
    let (result, report) = measured(&setup);
    result.unwrap();
    assert_eq!((runs(&report, MANX), runs(&report, "worse")), (2, 0));
    assert!(report.notes.iter().any(|note| note.contains("worse failed: lmdb: ended with status 7")));
    assert!(report.targets.iter().all(|target| target.measured.is_some()));
}

#[test]
fn what_is_not_installed_is_named_and_the_rest_is_measured() {
    let Some((mut setup, folder)) = setup(PASSES) else { return };
    let cc = script(
        folder.path(),
        "cc",
        "case \"$*\" in *lsqlite3*) echo 'sqlite.c:14:10: fatal error: sqlite3.h: No such file or directory' >&2; exit 1;; esac\nexec cc \"$@\"",
    );
    setup.compiler = Compiler::new(&cc, folder.path().join("cache"));
    setup.subjects = engines::choose(&["sqlite-wal".into(), "lmdb".into()]).unwrap();
    let (result, report) = measured(&setup);
    result.unwrap();
    let left_out = |text: &str| text.contains("apt-get install libsqlite3-dev");
    assert!(report.notes.iter().any(|note| note.starts_with("sqlite-wal: left out: ") && left_out(note)));
    let reasons: Vec<bool> =
        report.targets.iter().map(|t| t.reason.as_deref().is_some_and(left_out)).collect();
    assert_eq!(reasons, [true, true, false]);

    setup.subjects = engines::choose(&["sqlite-wal".into()]).unwrap();
    let (result, _) = measured(&setup);
    assert!(matches!(&result, Err(Error::Missing { help, .. }) if left_out(help)), "{result:?}");
}

#[test]
fn targets_compare_manx_with_the_program_as_it_is() {
    let mut report = Report::new("engines", Machine::default(), 0);
    let versions = [(AS_IS, 100.0), (MANX, 250.0)];
    for (version, throughput) in versions {
        for round in 0..5 {
            // 1.5 times as long, but no more than 200 µs.
            let tail = 1000.0 * if version == MANX { 150.0 } else { 100.0 };
            let values = [("throughput_per_s", throughput), ("p999_ns", tail), ("max_ns", 3.0 * tail)];
            for case in ["leveldb-read", "sqlite-wal"] {
                report.add(case, version, round, &values);
            }
        }
    }
    let chosen = engines::choose(&["leveldb-read", "sqlite-wal", "lmdb"].map(str::to_owned)).unwrap();
    engines::conclude(&mut report, &chosen);
    let found: Vec<(&str, Option<f64>, Outcome)> =
        report.targets.iter().map(|target| (target.id.as_str(), target.measured, target.verdict)).collect();
    let expected = [
        ("sqlite-wal-throughput", Some(2.5), Outcome::Met),
        ("sqlite-wal-max", Some(1.5), Outcome::FallsShort),
        ("leveldb-read-throughput", Some(2.5), Outcome::Met),
        ("leveldb-read-p999", Some(1.5), Outcome::Met),
        ("lmdb-throughput", None, Outcome::NotMeasured),
    ];
    assert_eq!(found, expected);
    assert_eq!(report.targets[3].reason.as_deref(), Some("150 µs"));
    assert_eq!(report.targets[4].reason.as_deref(), Some("there are too few runs"));
    assert_eq!(report.ratios.len(), 4);
    assert_eq!(report.targets[0].interval, Some((2.5, 2.5)));
}

#[test]
fn every_program_has_targets_and_every_target_a_program() {
    let all = engines::choose(&[]).unwrap();
    let mut report = Report::new("engines", Machine::default(), 0);
    engines::conclude(&mut report, &all);
    // None is left out as one of a program that nobody knows; cores of two speeds have theirs
    // apart.
    let mut known = report::target::of_bench("engines");
    known.retain(|target| !target.id.starts_with("unequal-"));
    assert_eq!(report.targets.len(), known.len());
    for subject in all {
        let id = format!("{}-throughput", subject.name);
        assert!(report.targets.iter().any(|target| target.id == id), "no target {id}");
    }
    assert!(report.tables.is_empty() && report.ratios.is_empty());
}

/// The same experiment on cores of two speeds; `None` without LMDB or with one CPU.
fn unequal_setup(manx: &str) -> Option<(unequal::Setup, tempfile::TempDir)> {
    let (setup, folder) = setup(manx)?;
    let [big, little, ..] = machine::cpus()[..] else {
        testing::skip("it takes two CPUs");
        return None;
    };
    let setup = unequal::Setup {
        subjects: engines::choose(&["lmdb-private".into()]).unwrap(),
        locks: Vec::new(),
        rivals: Vec::new(),
        compiler: setup.compiler,
        manx: setup.manx,
        seconds: 0.1,
        threads: 2,
        cores: Cores { big, little, dilation: 3750 },
        slos_ns: Vec::new(),
    };
    Some((setup, folder))
}

/// Measures, concludes, and draws; the names of the pictures come with the report. On a busy
/// machine a thread may get no CPU for a while: then runs take longer, and `anew` begins again.
fn unequal_measured(setup: &mut unequal::Setup, anew: impl Fn()) -> (Result<(), Error>, Report, Vec<String>) {
    let (result, mut report) = loop {
        let mut progress = Silent;
        let mut bench = Bench::new("engines", Machine::default(), None, &mut progress);
        bench.resolution.pairs_max = Some(2);
        let result = unequal::measure(setup, &mut bench);
        let report = bench.finish(&result);
        let lacks = |run: &report::Run, class| !run.values.contains_key(class);
        let one_class_none = report.runs.iter().any(|run| {
            lacks(run, "big_count") || run.variant != "glibc, big alone" && lacks(run, "little_count")
        });
        if !one_class_none || setup.seconds > 60.0 {
            break (result, report);
        }
        setup.seconds *= 4.0;
        anew();
    };
    unequal::conclude(&mut report, &setup.subjects);
    let charts = unequal::draw(&report, &setup.subjects);
    (result, report, charts.into_iter().map(|(name, _)| name).collect())
}

#[test]
fn on_unequal_cores_every_version_is_dilated_and_targets_follow_from_the_reference() {
    let Some((mut setup, folder)) = unequal_setup(
        "echo \"$*\" >>\"$0.told\"; while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"",
    ) else {
        return;
    };
    setup.locks.push("fifo".into());
    let told = folder.path().join("manx.told");
    let (result, report, pictures) = unequal_measured(&mut setup, || std::fs::remove_file(&told).unwrap());
    result.unwrap();
    for version in [
        "glibc",
        "glibc, big alone",
        "manx",
        "adaptive",
        "fifo",
        "asl",
        "asl, 1.20x",
        "asl, 2.00x",
        "asl, 4.00x",
    ] {
        // The reference also in the runs that targets follow from.
        let first = if version == "glibc" { 2 } else { 0 };
        assert_eq!(runs(&report, version), 2 + first, "{version}");
    }
    let told = std::fs::read_to_string(&told).unwrap();
    let cores = format!("--dilate=3.75 --cores=big:{},little:{} -- ", setup.cores.big, setup.cores.little);
    // Alone, big threads are told that nobody is slow.
    let alone = |line: &&str| line.contains("--little= ") && line.contains("--threads=1 ");
    assert_eq!(told.lines().filter(alone).count(), 2, "{told}");
    assert!(told.lines().all(|line| line.starts_with("run --lock=") && line.contains(&cores)), "{told}");
    assert_eq!(told.lines().filter(|line| line.contains("--slo-us=")).count(), 6);

    let reference_ns = report::median(&report.values("lmdb-private, first", "glibc", "little_p99_ns"));
    for (version, factor) in [("asl, 1.20x", 1.2), ("asl, 4.00x", 4.0)] {
        for slo_ns in report.values("lmdb-private", version, "slo_ns") {
            assert!((slo_ns - reference_ns * factor).abs() <= 1.0, "{version}: {slo_ns} of {reference_ns}");
        }
        assert_eq!(report.values("lmdb-private", version, "little_missed").len(), 2);
    }
    for run in &report.runs {
        let little = run.values.get("little_count").copied();
        assert_eq!(little.is_none(), run.variant == "glibc, big alone");
        assert_eq!(run.values["big_count"] + little.unwrap_or(0.0), run.values["count"]);
    }
    let ids: Vec<&str> = report.targets.iter().map(|target| target.id.as_str()).collect();
    assert_eq!(ids, ["unequal-third", "unequal-least"]);
    // One database is not three, and says so.
    assert!(report.targets[0].reason.as_ref().unwrap().starts_with("only "), "{:?}", report.targets);
    assert!(report.targets[1].measured.is_some());
    assert_eq!(pictures, ["lmdb-private-latency", "lmdb-private-targets"]);
}

#[test]
fn a_lock_that_fails_on_unequal_cores_is_left_out_and_without_the_reference_nothing_is_measured() {
    let fails = |mode: &str| {
        format!("[ \"$2\" = --lock={mode} ] && {{ echo 'self-check: lost' >&2; exit 1; }}; {PASSES}")
    };
    let Some((mut setup, _folder)) = unequal_setup(&fails("adaptive")) else { return };
    setup.slos_ns = vec![100_000];
    let (result, report, _) = unequal_measured(&mut setup, || ());
    let Err(Error::Failed { stderr, .. }) = result else { panic!("{result:?}") };
    assert!(stderr.contains("lmdb-private: adaptive failed: manx: ended with status 1"), "{stderr}");
    assert_eq!(
        (
            runs(&report, "adaptive"),
            runs(&report, "asl, 100 µs"),
            report.variants("lmdb-private, first").len()
        ),
        (0, 2, 0)
    );

    let Some((mut setup, _folder)) = unequal_setup(&fails("glibc")) else { return };
    let (result, report, pictures) = unequal_measured(&mut setup, || ());
    assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
    assert!(report.runs.is_empty() && pictures.is_empty());
    assert!(report.targets.iter().all(|target| target.verdict == Outcome::NotMeasured));
}
