//! The suite of harm from end to end, with small rows and a `manx` of a few lines of shell.

mod support;

use report::{Machine, Report};
use std::path::Path;
use workload::Error;
use workload::engine::Compiler;
use workload::engines::{AS_IS, MANX};
use workload::harm::{self, Place, Setup, suite};
use workload::harness::{Bench, Silent};

/// Measures the rows of this suite under a `manx` that does this with the program.
fn measure(rows: &str, does: &str) -> (Report, Result<(), Error>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("suite.toml");
    std::fs::write(&file, rows).unwrap();
    std::fs::write(folder.path().join("words"), "of the suite").unwrap();
    let manx = support::script(folder.path(), "manx", &format!("shift 2\n{does}"));
    let setup = Setup {
        rows: suite::read(&file).unwrap(),
        place: Place::find(Some(&file), &manx).unwrap(),
        compiler: Compiler::new("cc", Path::new(env!("CARGO_TARGET_TMPDIR"))),
        manx,
        quick: false,
    };
    let mut progress = Silent;
    let mut bench = Bench::new("harm", Machine::default(), None, &mut progress);
    bench.resolution.pairs_max = Some(5);
    let result = harm::measure(&setup, &mut bench);
    let mut report = bench.finish(&result);
    harm::conclude(&mut report, &setup.rows);
    (report, result)
}

/// Two copies, each beside one neighbour, that say what they find; and a time.
const ROWS: &str = r#"
[[row]]
name = "copies"
prepare = 'cp "$SOURCES/words" prepared'
command = '''
test "$(cat prepared)" = "of the suite" && test -n "$PORT" && test $SECONDS -gt 0
$RUN sh -c 'echo "rate $((100 * THREADS * ${FASTER:-1})) p50 $THREADS p99 5 max 7"'
'''
figure = 'rate (\d+)'
loads = [{ threads = 3, copies = 2, neighbours = 1 }]

[[row]]
name = "time"
command = '$RUN sh -c "echo took \$((8 / \${FASTER:-1})) s"'
figure = 'took (\d+) s'
better = "lower"
threads = 1
"#;

#[test]
fn rows_are_measured_in_pairs_and_judged() {
    let (report, result) = measure(ROWS, "export FASTER=2; exec \"$@\"");
    result.unwrap();
    let copies = "copies, 3 threads beside 1";
    assert_eq!(report.values(copies, AS_IS, "throughput_per_s"), [600.0; 5], "both copies, added up");
    assert_eq!(report.values(copies, MANX, "throughput_per_s"), [1200.0; 5]);
    assert_eq!(report.values("time", MANX, "throughput_per_s"), [0.25; 5], "less time is more speed");
    let names: Vec<[&str; 3]> =
        report.tables[0].rows.iter().map(|row| [&*row[0], &*row[3], &*row[8]]).collect();
    assert_eq!(names, [[copies, "2.00", "harmless"], ["time", "2.00", "harmless"]]);
    assert_eq!(report.values(copies, MANX, "max_ns"), [7.0; 5]);
    let ratios: Vec<_> = report.ratios.iter().map(|ratio| (ratio.ratio, ratio.interval())).collect();
    assert_eq!(ratios, [(2.0, Some((2.0, 2.0))); 2]);
}

#[test]
fn what_is_missing_is_left_out_with_how_to_get_it_and_the_rest_goes_on() {
    let rows = format!(
        "{ROWS}\n[[row]]\nname = 'absent'\nthreads = 1\ncommand = 'true'\nneeds = ['no-such-program-of-manx']\n\
         get = 'apt-get install absent'\n\
         [[row]]\nname = 'unready'\nthreads = 1\ncommand = 'true'\nprepare = 'echo no header >&2; exit 3'\n\
         get = 'apt-get install unready'\n"
    );
    let (report, result) = measure(&rows, "exec \"$@\"");
    result.unwrap();
    for note in [
        "absent: left out: no-such-program-of-manx is not installed: apt-get install absent",
        "unready: left out: cannot be prepared (no header): apt-get install unready",
        "2 of 4 rows measured: 0 harmed, 0 unclear, 2 harmless",
    ] {
        assert!(report.notes.iter().any(|known| known == note), "{note}: {:?}", report.notes);
    }
}

#[test]
fn a_crash_under_manx_and_a_figure_that_is_not_there_are_failures() {
    for (does, why) in [("kill -SEGV $$", "139"), ("echo nothing", "no figure in the output")] {
        let (report, result) = measure(ROWS, does);
        let Err(Error::Failed { stderr, .. }) = result else { panic!("{result:?}") };
        assert!(stderr.contains(why), "{why}: {stderr}");
        assert!(!report.values("time", AS_IS, "throughput_per_s").is_empty());
        assert!(report.values("time", MANX, "throughput_per_s").is_empty());
    }
}

#[test]
fn a_server_is_awaited_and_ends_with_the_row() {
    let row = r#"
[[row]]
name = "server"
command = '''
serve $RUN "$PYTHON" -m http.server --bind 127.0.0.1 $PORT
"$PYTHON" -c 'import sys, urllib.request as r; r.urlopen("http://127.0.0.1:" + sys.argv[1]).read(); print("rate 5")' $PORT
'''
figure = 'rate (\d+)'
threads = 1
"#;
    let (report, result) = measure(row, "exec \"$@\"");
    match result {
        Err(Error::Failed { stderr, .. }) if stderr.contains("python3: not found") => {
            return testing::skip("python3 is not installed");
        }
        other => other.unwrap(),
    }
    assert_eq!(report.values("server", MANX, "throughput_per_s"), [5.0; 5]);
    let (_, result) = measure(&row.replace("-m http.server", "-m no_such_module"), "exec \"$@\"");
    let Err(Error::Failed { stderr, .. }) = result else { panic!("{result:?}") };
    assert!(stderr.contains("no_such_module"), "{stderr}");
}
