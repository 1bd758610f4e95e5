//! The experiment of victims from end to end, on the one that needs a C compiler only, with a
//! `manx` of a few lines of shell.

mod support;

use report::Machine;
use std::path::Path;
use std::time::Duration;
use workload::Error;
use workload::engine::Compiler;
use workload::harness::{Bench, Silent};
use workload::victims::{self, AS_IS, GUARDED, Place, Setup};

/// Measures the spin lock, or the gang, under a `manx` that does this with the program.
fn measure(name: &str, does: &str) -> Result<(report::Report, Result<(), Error>), Error> {
    let folder = tempfile::tempdir().unwrap();
    let manx = support::script(folder.path(), "manx", &format!("shift 2\n{does}"));
    let compiler = Compiler::new("cc", Path::new(env!("CARGO_TARGET_TMPDIR")));
    let setup = Setup {
        victims: victims::choose(&[name])?,
        place: Place::find(&manx, compiler)?,
        manx: manx.clone(),
        quick: true,
        cpus: workload::machine::cpus(),
        limit: Duration::from_secs(30),
    };
    let mut progress = Silent;
    let mut bench = Bench::new("victims", Machine::default(), None, &mut progress);
    bench.resolution.pairs_max = Some(1);
    let result = victims::measure(&setup, &mut bench);
    let mut report = bench.finish(&result);
    victims::conclude(&mut report, &setup.victims);
    Ok((report, result))
}

#[test]
fn each_version_is_measured_with_its_maximum_and_its_cpu_time() {
    let (report, result) = match measure("gang", "exec \"$@\"") {
        Err(Error::Missing { what, .. }) => return testing::skip(what),
        other => other.unwrap(),
    };
    if let Err(Error::Missing { what, .. }) = &result {
        return testing::skip(what);
    }
    result.unwrap();
    for version in [AS_IS, GUARDED, "passive"] {
        for value in ["p50_ns", "p99_ns", "max_ns", "cpu_each_ns", "operations"] {
            assert_eq!(report.values("gang, pair", version, value).len(), 1, "{version}: {value}");
        }
        let values = |name: &str| report.values("gang, pair", version, name)[0];
        assert!(values("p50_ns") <= values("p99_ns") && values("p99_ns") <= values("max_ns"));
    }
    let ratios = &report.tables[1].rows;
    assert_eq!(ratios.len(), 2);
    for row in ratios {
        assert!([2, 4, 6, 8].iter().all(|&ratio| row[ratio] != "-" && row[ratio + 1] == "-"), "{row:?}");
    }
    assert_eq!(report.ratios.len(), 3, "those that targets are about");
    assert!(report.targets.iter().any(|verdict| verdict.id == "gang-p50" && verdict.measured.is_some()));
    // Both copies' operations are in the histogram that is kept.
    let output = report.runs[0].output.as_ref().unwrap().get();
    assert!(output.contains("\"latencies\"") && output.contains("\"checksums\""), "{output}");
}

#[test]
fn another_result_and_a_crash_under_manx_are_failures_and_never_figures() {
    let wrong = "\"$@\" | sed -u '/^op/s/........$/deadbeef/'";
    for (does, why) in [(wrong, "another result"), ("kill -SEGV $$", "signal 11")] {
        let (report, result) = measure("gang", does).unwrap();
        match result {
            Err(Error::Missing { what, .. }) => return testing::skip(what),
            Err(Error::Failed { stderr, .. }) => assert!(stderr.contains(why), "{stderr}"),
            other => panic!("{why}: {other:?}"),
        }
        assert_eq!(report.values("gang, pair", AS_IS, "p50_ns").len(), 1);
        assert_eq!(report.values("gang, pair", GUARDED, "p50_ns").len(), 0);
    }
}

#[test]
fn what_is_not_set_up_is_missing_and_says_what_brings_it() {
    if std::env::var_os("MANX_VICTIMS").is_some() {
        return testing::skip("MANX_VICTIMS is set, so something may be there");
    }
    let (report, result) = measure("xgboost", "exec \"$@\"").unwrap();
    let Err(Error::Missing { help, .. }) = result else { panic!("{result:?}") };
    assert!(help.contains("cargo xtask setup victims"), "{help}");
    assert!(report.notes.iter().any(|note| note.starts_with("xgboost: left out")), "{:?}", report.notes);
}
