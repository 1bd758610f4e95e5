//! Tests and steps that could not run here, or not in full, and which of them CI accepts.
//!
//! A test that returns early counts as passed. It calls `testing::skip` first, which appends a line
//! to the file that the variable [`VARIABLE`] names. A step that is skipped is added too. When all
//! steps are done, [`Skips`] reads the file. The summary has every line. With `CI=true` a line that
//! no entry of [`ACCEPTED`] covers is a failure, so that a test that stops running is noticed.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Result;
use crate::steps::Verdict;

/// The variable that tells tests the file. It is `testing::SKIPS`.
const VARIABLE: &str = "MANX_SKIPS";

/// A skip that does not fail CI.
struct Accepted {
    /// The beginning of `PACKAGE/TARGET TEST`, or of `step NAME`.
    test: &'static str,
    /// The beginning of the reason.
    reason: &'static str,
    /// Why CI goes on without the test.
    because: &'static str,
}

const fn accepted(test: &'static str, reason: &'static str, because: &'static str) -> Accepted {
    Accepted { test, reason, because }
}

const ACCEPTED: &[Accepted] = &[
    accepted("step aarch64", "its standard library", "the toolchain of CI may have one target only"),
    accepted("step tsan", "a program under ThreadSanitizer", "a setting of the host's kernel"),
    accepted("step go", "go is not installed", NOT_SET_UP),
    accepted("step go", "Go's modules cannot be fetched", "CI may have no network"),
    accepted(
        "xtask/xtask ",
        "WiredTiger is not built",
        "it takes minutes, and `setup wiredtiger` is asked for",
    ),
    accepted("doctor/diseases ", "the folder for tests is not on a disk", "a disk may be in memory"),
    accepted("doctor/diseases ", "Some(", "a setting of the host's kernel"),
    accepted("doctor/diseases ", "the lengths of waits", "a setting of the host's kernel"),
    accepted("doctor/diseases ", "samples inside the kernel", "a setting of the host's kernel"),
    accepted("cli/exporter ", "a pid namespace cannot be made", "a container may not allow it"),
    accepted("manx/pool_control ", "the machine is busy", "a neighbour on the host, and no idle CPU"),
    accepted("preload/adaptive_calls ", "with_a_mutex under", NO_YIELD),
    accepted("preload/adaptive_calls ", "with_a_spin_lock under", NO_YIELD),
    accepted("page/browser ", "axe-core is not set up", "it comes from npm, which may not be there"),
    accepted("mongo/drivers ", "pymongo is not set up", "it comes from PyPI, which may not be there"),
    accepted("mongo/drivers ", "mongodb of npm is not set up", "it comes from npm, which may not be there"),
    accepted("step bench-paper-000", "target/", "sources come from PyPI and from Go's registry"),
    accepted("preload/cpus_runtimes ", "node is not installed", NOT_SET_UP),
    accepted("preload/cpus_runtimes ", "java is not installed", NOT_SET_UP),
    accepted("preload/cpus_runtimes ", "go is not installed", NOT_SET_UP),
    accepted("preload/cpus_runtimes ", "python3 has no ", NOT_SET_UP),
];
/// Beside other programs the mutex may be held all the time, and then its waiters sleep.
const NO_YIELD: &str = "a neighbour on the host: in 36 s no release found a thread to yield to";
const NOT_SET_UP: &str = "`cargo xtask setup` does not install it: it is large";

/// The file with the skips of one run of `cargo xtask test`.
pub struct Skips {
    file: PathBuf,
}

/// One line of it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Skip {
    /// `PACKAGE/TARGET TEST`, or `step NAME`.
    test: String,
    reason: String,
}

impl Skips {
    /// The file in this folder.
    pub fn at(target: &Path) -> Skips {
        Skips { file: target.join("skips") }
    }

    /// Empties it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&self) -> Result {
        fs::write(&self.file, "").map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// Adds one that is no test's.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, what: &str, why: &str) -> Result {
        let why = why.lines().next().unwrap_or_default();
        let written = fs::File::options().append(true).open(&self.file);
        written
            .and_then(|mut file| file.write_all(format!("{what}\t{why}\n").as_bytes()))
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// Tells the tests that this command runs where the file is.
    pub fn tell(&self, command: &mut Command) {
        command.env(VARIABLE, &self.file);
    }

    /// Prints what was skipped. With `is_ci`, a skip that is not accepted is a failure; with
    /// `is_all`, entries of the list that nothing needed are named.
    pub fn judge(&self, is_ci: bool, is_all: bool) -> Verdict {
        match fs::read_to_string(&self.file) {
            Ok(text) => {
                let skips = parse(&text);
                print!("{}", table(&skips));
                if is_all {
                    print!("{}", unused(&skips, ACCEPTED));
                }
                verdict(&skips, ACCEPTED, is_ci)
            }
            Err(error) => Verdict::Failed(format!("{}: {error}", self.file.display())),
        }
    }
}

/// The lines, sorted; each once, as a test may come to the same obstacle again.
fn parse(text: &str) -> Vec<Skip> {
    let mut skips: Vec<Skip> = text
        .lines()
        .map(|line| {
            let (test, reason) = line.split_once('\t').unwrap_or((line, "?"));
            Skip { test: test.into(), reason: reason.into() }
        })
        .collect();
    skips.sort();
    skips.dedup();
    skips
}

fn table(skips: &[Skip]) -> String {
    let width = skips.iter().map(|skip| skip.test.len()).max().unwrap_or(0);
    let mut text = String::new();
    for skip in skips {
        let _ = writeln!(text, "skipped  {:width$}  {}", skip.test, skip.reason);
    }
    text
}

impl Accepted {
    fn covers(&self, skip: &Skip) -> bool {
        skip.test.starts_with(self.test) && skip.reason.starts_with(self.reason)
    }
}

/// The entries that cover none of the skips. That is no failure, because machines differ.
fn unused(skips: &[Skip], list: &[Accepted]) -> String {
    let unused = list.iter().filter(|entry| !skips.iter().any(|skip| entry.covers(skip)));
    unused.fold(String::new(), |mut text, entry| {
        let _ = writeln!(text, "not needed here: {} … {} ({})", entry.test, entry.reason, entry.because);
        text
    })
}

fn verdict(skips: &[Skip], list: &[Accepted], is_ci: bool) -> Verdict {
    let refused = |skip: &&Skip| !list.iter().any(|entry| entry.covers(skip));
    let refused: Vec<&Skip> = skips.iter().filter(refused).collect();
    if !is_ci || refused.is_empty() {
        return Verdict::Passed;
    }
    let lines = refused.iter().map(|skip| format!("{}: {}\n", skip.test, skip.reason));
    Verdict::Failed(format!(
        "{} skips are not on the list of accepted ones (xtask/src/test/skips.rs)\n{}",
        refused.len(),
        lines.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[Accepted] = &[
        accepted("preload/cpus_runtimes ", "java is not installed", "it is large"),
        accepted("manx/real_time ", "", "containers give no real-time class"),
    ];

    fn skips(lines: &[&str]) -> Vec<Skip> {
        parse(&lines.join("\n"))
    }

    #[test]
    fn a_skip_that_is_not_on_the_list_fails_ci_and_nothing_else() {
        let skips = skips(&["preload/cpus_runtimes a_test\tjava is not installed", "cli/run other\tno root"]);
        assert_eq!(verdict(&skips, LIST, false), Verdict::Passed);
        let Verdict::Failed(why) = verdict(&skips, LIST, true) else { panic!("it passed") };
        assert!(why.starts_with("1 skips"), "{why}");
        assert!(why.ends_with("\ncli/run other: no root\n"), "{why}");
        assert_eq!(verdict(&skips[1..], LIST, true), Verdict::Passed);
    }

    #[test]
    fn an_entry_covers_no_other_reason_and_no_other_target() {
        let other = skips(&["preload/cpus_runtimes a_test\tgo is not installed"]);
        assert!(matches!(verdict(&other, LIST, true), Verdict::Failed(_)));
        let other = skips(&["preload/cpus_runtimes_too a_test\tjava is not installed"]);
        assert!(matches!(verdict(&other, LIST, true), Verdict::Failed(_)));
    }

    #[test]
    fn each_skip_is_listed_once_and_entries_that_nothing_needs_are_named() {
        let skips = skips(&["b/c long_name\twhy", "a/b test\tno CPU", "b/c long_name\twhy"]);
        assert_eq!(table(&skips), "skipped  a/b test       no CPU\nskipped  b/c long_name  why\n");
        assert_eq!(unused(&skips, LIST).lines().count(), 2);
    }

    #[test]
    fn what_a_test_says_arrives() {
        assert_eq!(VARIABLE, testing::SKIPS);
        let folder = tempfile::tempdir().unwrap();
        let told = Skips::at(folder.path());
        told.begin().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "test::skips::tests::child"]).env(ROLE, "1");
        told.tell(command.env("CARGO_PKG_NAME", "made-up"));
        assert!(command.output().unwrap().status.success());
        let skips = parse(&fs::read_to_string(&told.file).unwrap());
        assert_eq!(
            skips,
            [Skip {
                test: "made-up/xtask test::skips::tests::child".into(),
                reason: "needs two lines".into()
            }]
        );
        assert!(matches!(told.judge(true, false), Verdict::Failed(_)));
        assert_eq!(told.judge(false, false), Verdict::Passed);
    }

    const ROLE: &str = "MANX_TEST_SKIPS";

    /// A test that skips: nothing unless the test above started it.
    #[test]
    fn child() {
        if std::env::var_os(ROLE).is_some() {
            testing::skip("needs\n\ttwo  lines");
        }
    }
}
