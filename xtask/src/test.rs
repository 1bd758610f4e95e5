//! `cargo xtask test`: all that CI runs, as a list of timed steps.
//!
//! A step that fails does not stop the others; the table at the end has every verdict, and the last
//! line the sums. Before it stands the list of all steps and tests that could not run here, with
//! their reasons; in CI each has to be an accepted one ([`skips`]). `--full`
//! runs the long proofs unabridged: model checking without a bound on preemptions, and many more
//! random cases. Tests of other crates learn of it by `MANX_FULL=1`.

mod advisories;
mod beside;
mod failures;
mod features;
mod go;
mod package;
mod programs;
mod public;
mod readme;
mod sanitizer;
mod skips;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::install::{self, Built};
use crate::outcome::Result;
use crate::process::{capture, root, run as run_command};
use crate::setup::{self, For};
use crate::steps::{Steps, Verdict};
use crate::workspace::{BENCH, Package, Workspace, cargo, is_ci, lacks, locked};
use crate::{bench, build, demo, dist, man, soak, tidy};
use beside::Lane;
use failures::Failures;
use programs::{APART, Set, Which};
use skips::Skips;

/// CI gives an hour; what is not begun by then would not end in it.
const ALL: Duration = Duration::from_secs(55 * 60);
/// Long proofs end when they end.
const ALL_FULL: Duration = Duration::from_secs(24 * 3600);
/// One step, so that one that hangs leaves time for the others.
const STEP: Duration = Duration::from_secs(15 * 60);
/// The build of all test programs, from nothing, and clippy's look at all of them.
const BUILD: Duration = Duration::from_secs(20 * 60);
/// A benchmark with `--quick` takes 45 s at most by itself, and a paper five minutes; beside others
/// it may take much longer.
const QUICK: Duration = Duration::from_secs(1200);

/// The benchmarks that run as smoke checks. Of `range` the tests of `workload` run all other parts.
const BENCHES: [(&str, &[&str]); 11] = [
    ("wait", &[]),
    ("guard", &[]),
    ("inversion", &[]),
    ("range", &["--part", "counters"]),
    ("pool", &[]),
    ("txn", &[]),
    ("victims", &[]),
    ("doctor", &[]),
    ("harm", &[]),
    ("calibrate", &[]),
    ("sim", &["m1", "mutex"]),
];
/// Packages with tests that look at how busy the machine is, and the test programs that do. They
/// come last, in steps of their own, when no step runs beside them any more.
const QUIET: [(&str, &str); 2] = [("doctor", "diseases"), ("manx", "pool_control")];

/// Steps that run beside others, in this order, and the step after which each may begin. What runs
/// beside another step must not depend on how busy the machine is.
///
/// All steps together take some 5,000 s of CPU time where a CPU is slow, so two CPUs have to be
/// busy until the end. The list of all steps builds, then tests, and the lane has as much to do as
/// the list. Programs that take CPU time of their own, in sessions of their own, run beside what
/// compiles and not beside tests. Cargo locks the folder of a profile while it builds. So what
/// builds in the folder of the tests stands in the lane before and after their build, and what
/// builds in others stands beside it.
const BESIDE: &[(&str, &str)] = &[
    ("clippy", "fmt"),
    ("go", "fmt"),
    ("soak", "build"),
    ("test-build-loom", "build"),
    ("test-baselines-loom", "build"),
    ("test-manx-loom", "build"),
    ("test-platform-loom", "build"),
    ("tsan", "build"),
    ("bench-wait", TESTS_BUILT),
    ("bench-guard", TESTS_BUILT),
    ("bench-inversion", TESTS_BUILT),
    ("bench-range", TESTS_BUILT),
    ("bench-pool", TESTS_BUILT),
    ("bench-txn", TESTS_BUILT),
    ("bench-victims", TESTS_BUILT),
    ("bench-doctor", TESTS_BUILT),
    ("bench-harm", TESTS_BUILT),
    ("bench-paper-000", TESTS_BUILT),
    ("bench-paper-003", TESTS_BUILT),
    ("bench-paper-004", TESTS_BUILT),
    ("bench-engines", TESTS_BUILT),
    ("bench-servers", TESTS_BUILT),
    ("readme", TESTS_BUILT),
    ("install", TESTS_BUILT),
    ("dist", TESTS_BUILT),
    ("package", TESTS_BUILT),
    ("features", TESTS_BUILT),
    ("demo", TESTS_BUILT),
    ("doc", TESTS_BUILT),
    ("aarch64", TESTS_BUILT),
    ("test-doc", TESTS_BUILT),
    ("test-build-shuttle", TESTS_BUILT),
    ("test-baselines-shuttle", TESTS_BUILT),
    ("test-manx-shuttle", TESTS_BUILT),
    ("test-platform-shuttle", TESTS_BUILT),
    ("test-baselines-sim", TESTS_BUILT),
    ("test-manx-sim", TESTS_BUILT),
    ("test-contend-sim", TESTS_BUILT),
    ("test-platform-sim", TESTS_BUILT),
    ("test-spinloop", TESTS_BUILT),
];
/// The step that builds most test programs.
const TESTS_BUILT: &str = "test-build";

/// The packages that are checked for the other architecture, as far as they can be without a C
/// compiler for it.
const PORTABLE: [&str; 7] =
    ["manx-platform", "manx", "baselines", "spinloop", "preload-abi", "preload", "preload-requests"];

const OTHER: &str = "aarch64-unknown-linux-gnu";

/// What to test, and how long.
#[derive(clap::Args)]
pub struct Options {
    /// Run the long proofs in full
    #[arg(long)]
    full: bool,
    /// Name the steps and do nothing
    #[arg(long)]
    list: bool,
    /// Do this step alone, for a run of all steps that prints it later
    #[arg(long, value_name = "STEP", hide = true)]
    part: Option<String>,
    /// Only these steps; without any, all
    #[arg(value_name = "STEP")]
    only: Vec<String>,
}

/// A step: its name, and what it does.
type Step<'w> = (String, Work<'w>);
type Work<'w> = Box<dyn FnOnce() -> Verdict + 'w>;

/// Runs the steps.
///
/// # Errors
/// If a step failed, or one is named that does not exist.
pub fn run(options: &Options) -> Result {
    let workspace = Workspace::load()?;
    let skips = Skips::at(&workspace.target);
    let names: Vec<String> =
        all(&workspace, &skips, options.full, &[]).into_iter().map(|step| step.0).collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(name)) {
        return Err(format!("there is no step `{unknown}`; `cargo xtask test --list` names them"));
    }
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    let mut todo = all(&workspace, &skips, options.full, &options.only);
    if !options.only.is_empty() {
        todo.retain(|step| is_wanted(&step.0, &options.only) || is_of_all(&step.0));
    }
    // Where steps that run beside others leave their output.
    let beside_in = workspace.target.join("steps");
    if let Some(part) = &options.part {
        let step = todo.into_iter().find(|step| step.0 == *part);
        let (_, work) = step.ok_or_else(|| format!("there is no step `{part}`"))?;
        return beside::part(part, &beside_in, work);
    }
    skips.begin()?;
    let lane = options.only.is_empty().then(|| Lane::begin(BESIDE, beside_in, options.full));
    let mut steps = Steps::new(if options.full { ALL_FULL } else { ALL });
    for (name, work) in todo {
        let lane = lane.as_ref();
        let beside = lane.filter(|_| BESIDE.iter().any(|(step, _)| *step == name));
        steps.timed_step(&name, || {
            let (verdict, took) = match beside {
                Some(lane) => lane.join(&name),
                None => {
                    let begin = Instant::now();
                    (work(), begin.elapsed())
                }
            };
            if let Verdict::Skipped(why) = &verdict
                && let Err(why) = skips.add(&format!("step {name}"), why)
            {
                return (Verdict::Failed(why), took);
            }
            (verdict, took)
        });
        lane.inspect(|lane| lane.done(&name));
    }
    steps.step("skips", || skips.judge(is_ci(), options.only.is_empty()));
    steps.finish()
}

/// The step that tests a package.
fn step_of(package: &Package) -> String {
    format!("test-{}", package.name)
}

/// Whether a step needs a machine of its own.
fn is_quiet(step: &str) -> bool {
    step.starts_with("quiet-")
}

/// Whether these names of steps ask for a step. The one of a package asks for its quiet part, too.
fn is_wanted(step: &str, names: &[String]) -> bool {
    let of_package = step.strip_prefix("quiet-").map(|package| format!("test-{package}"));
    names.iter().any(|name| name == step || Some(name) == of_package.as_ref())
}

/// Whether a step is for all packages that are tested.
fn is_of_all(step: &str) -> bool {
    ["test-build", "test-doc"].iter().any(|name| step.starts_with(name))
}

/// The steps. If only some are wanted, all others are there too, but tests are built for the
/// packages that are wanted.
fn all<'w>(workspace: &'w Workspace, skips: &'w Skips, full: bool, only: &[String]) -> Vec<Step<'w>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut add = |name: &str, work: Work<'w>| steps.push((name.into(), work));
    let limit = if full { ALL_FULL } else { STEP };

    add("setup", Box::new(set_up));
    add("fmt", Box::new(format));
    add("build", Box::new(|| build_all(workspace).into()));
    add("tidy", Box::new(|| tidy::run().into()));
    add("advisories", Box::new(|| advisories::run(STEP)));
    let all_packages = only.is_empty() || only.iter().any(|name| is_of_all(name));
    let is_chosen = |package: &&Package| {
        let steps = [step_of(package), format!("quiet-{}", package.name)];
        all_packages || steps.iter().any(|step| only.contains(step))
    };
    let (apart, together): (Vec<&Package>, Vec<&Package>) =
        workspace.packages.iter().filter(is_chosen).partition(|package| APART.contains(&&*package.name));
    let (loom, others): (Vec<&Package>, Vec<&Package>) =
        together.into_iter().partition(|package| package.name.ends_with("-loom"));
    let (shuttle, others): (Vec<&Package>, Vec<&Package>) =
        others.into_iter().partition(|package| package.name.ends_with("-shuttle"));
    let of_set = |suffix: &str, packages: Vec<&'w Package>, is_release| -> Vec<Step<'w>> {
        let Some(set) = Set::of(packages.clone(), is_release).map(Rc::new) else { return Vec::new() };
        let of = || Rc::clone(&set);
        let (build, document) = (of(), of());
        let borrows = is_ci() && packages.iter().any(|package| package.name == BENCH);
        let first: Work = Box::new(move || {
            let built = build.build(BUILD);
            built.and_then(|()| if borrows { build::borrow_bench(workspace) } else { Ok(()) }).into()
        });
        let step = |name: String, package: &'w Package, which: Which| {
            let set = of();
            let ran = move || set.run(package, which, |command| prepare(command, skips, full), limit).into();
            (name, Box::new(ran) as Work)
        };
        let quiet = |package: &Package| {
            let found = QUIET.iter().find(|(name, _)| *name == package.name);
            found.map(|(_, program)| *program)
        };
        let mut steps: Vec<Step> = vec![(format!("test-build{suffix}"), first)];
        for (name, program) in QUIET {
            let package = packages.iter().find(|package| package.name == name);
            let package = package.map(|package| step(format!("quiet-{name}"), package, Which::Only(program)));
            steps.extend(package);
        }
        steps.extend(packages.iter().map(|package| {
            let which = quiet(package).map_or(Which::All, Which::Without);
            step(step_of(package), package, which)
        }));
        if document.has_examples() {
            steps.push((format!("test-doc{suffix}"), Box::new(move || document.document(STEP).into())));
        }
        steps
    };
    let tests = of_set("", others, false);
    let (quiet, tests): (Vec<Step>, Vec<Step>) = tests.into_iter().partition(|(name, _)| is_quiet(name));
    let (beside, tests): (Vec<Step>, Vec<Step>) =
        tests.into_iter().partition(|(name, _)| BESIDE.iter().any(|(step, _)| step == name));
    let mut tests = tests.into_iter();
    tests.next().into_iter().for_each(|(name, build)| add(&name, build));
    // Most of them start the commands that the others have built, and sleep: the lane has much to
    // do.
    for package in apart {
        add(&step_of(package), Box::new(move || test_apart(&package.name, skips, full, limit)));
    }
    tests.for_each(|(name, work)| add(&name, work));
    add("clippy", Box::new(clippy));
    add("go", Box::new(|| go::check(STEP)));
    add("soak", Box::new(soak::smoke));
    of_set("-loom", loom, true).into_iter().for_each(|(name, work)| add(&name, work));
    add("tsan", Box::new(|| sanitizer::run(workspace, skips, STEP)));
    for (name, options) in BENCHES {
        add(&format!("bench-{name}"), Box::new(move || bench::smoke(name, options, QUICK).into()));
    }
    add("bench-paper-000", Box::new(paper_000));
    add("bench-paper-003", Box::new(|| bench::smoke("paper", &["003", "--time=0.2"], QUICK).into()));
    add("bench-paper-004", Box::new(|| bench::smoke("paper", &["004", "--time=0.01"], QUICK).into()));
    add("bench-engines", Box::new(|| smoke_unless("engines", setup::without_databases())));
    add("bench-servers", Box::new(|| smoke_unless("servers", setup::without_servers())));
    // In a run of all steps the tests' build has made what writes the pages.
    let is_all = only.is_empty();
    let pages = move || if is_all { man::built(workspace) } else { man::made(workspace) };
    add("readme", Box::new(|| readme::check(workspace).into()));
    add("install", Box::new(move || install(workspace, pages()).into()));
    add("dist", Box::new(move || pages().map_or_else(Verdict::Failed, |it| dist::check(workspace, &it))));
    add("package", Box::new(|| package::check(workspace, STEP).into()));
    add("features", Box::new(move || features::run(workspace, full, STEP)));
    add("demo", Box::new(demo::smoke));
    add("doc", Box::new(|| doc(workspace)));
    add("aarch64", Box::new(other_architecture));
    let shuttle = of_set("-shuttle", shuttle, false);
    beside.into_iter().chain(shuttle).chain(quiet).for_each(|(name, work)| add(&name, work));
    steps
}

/// Builds what is installed. In CI the command is linked at once as the package needs it, or the
/// step `dist` would link it again.
fn build_all(workspace: &Workspace) -> Result {
    if !is_ci() {
        return build::run();
    }
    match dist::linking(workspace) {
        Ok(linking) => build::run_linked(&linking),
        Err(why) => {
            println!("the command is linked with this machine's C library: {why}");
            build::run()
        }
    }
}

/// The smoke check of paper 000, after what it needs is made; none where that cannot be had.
fn paper_000() -> Verdict {
    match setup::mongo::for_smoke().and_then(|()| setup::mongo::missing()) {
        Ok(None) => bench::smoke("paper", &["000", "--clients=8,8", "--time=1"], QUICK).into(),
        Ok(Some(missing)) => Verdict::Skipped(format!("{missing} is not there")),
        Err(why) => Verdict::Failed(why),
    }
}

/// A benchmark that measures nothing of its own, unless all of it is missing.
fn smoke_unless(name: &str, missing: Option<String>) -> Verdict {
    match missing {
        None => bench::smoke(name, &[], QUICK).into(),
        Some(missing) => Verdict::Skipped(missing),
    }
}

/// Installs into a folder of its own what is built, with these pages.
fn install(workspace: &Workspace, pages: Result<PathBuf>) -> Result {
    let built = Built { folder: &workspace.release(), pages: &pages? };
    install::check(built, &workspace.target.join("install-check"))
}

fn set_up() -> Verdict {
    match setup::ensure(For::Tests) {
        None => Verdict::Passed,
        Some(missing) => Verdict::Skipped(missing),
    }
}

/// Runs cargo with these words and this environment.
fn cargo_step(words: &[&str], environment: &[(&str, &str)]) -> Verdict {
    run_command(cargo().args(words).envs(environment.iter().copied()), STEP).into()
}

/// All files by name: `cargo fmt` does not find modules that are declared inside of a macro.
fn format() -> Verdict {
    if let Some(missing) = lacks("fmt", "rustfmt") {
        return Verdict::Skipped(missing);
    }
    let files = match tidy::files("rs") {
        Ok(files) => files,
        Err(why) => return Verdict::Failed(why),
    };
    println!("$ rustfmt --check --edition 2024 ({} files)", files.len());
    let status = Command::new("rustfmt")
        .args(["--check", "--edition", "2024"])
        .args(files)
        .current_dir(root())
        .status();
    match status {
        Ok(status) if status.success() => Verdict::Passed,
        Ok(_) => Verdict::Failed("not formatted: git ls-files '*.rs' | xargs rustfmt --edition 2024".into()),
        Err(error) => Verdict::Failed(format!("rustfmt could not be started: {error}")),
    }
}

fn clippy() -> Verdict {
    if let Some(missing) = lacks("clippy", "clippy") {
        return Verdict::Skipped(missing);
    }
    // xtask by itself, as for its tests: see `programs.rs`.
    let look = |packages: &[&str], limit| {
        let words = [&["clippy", "--all-targets", "--keep-going"], packages, locked()].concat();
        run_command(cargo().args(words).args(["--", "-D", "warnings"]), limit)
    };
    let (others, ours) = (look(&["--workspace", "--exclude", "xtask"], BUILD), look(&["-p", "xtask"], STEP));
    others.and(ours).into()
}

/// Builds the documentation, and looks at what it shows.
fn doc(workspace: &Workspace) -> Verdict {
    let docs = workspace.target.join("doc");
    if let Err(why) = public::begin(&docs) {
        return Verdict::Failed(why);
    }
    let words = [&["doc", "--workspace", "--no-deps"], locked()];
    match cargo_step(&words.concat(), &[("RUSTDOCFLAGS", "-D warnings")]) {
        Verdict::Passed => public::check(&docs).into(),
        other => other,
    }
}

/// What the tests of a package see besides.
fn prepare(command: &mut Command, skips: &Skips, full: bool) {
    skips.tell(command);
    if full {
        command.env("MANX_FULL", "1").env("PROPTEST_CASES", "20000");
    }
}

/// The tests of a package that is built by itself, with its own features only.
fn test_apart(package: &str, skips: &Skips, full: bool, limit: Duration) -> Verdict {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast", "--all-features", "-p", package]).args(locked());
    prepare(&mut command, skips, full);
    Failures::of(&mut command, limit).into()
}

fn other_architecture() -> Verdict {
    if !installed(OTHER) {
        return Verdict::Skipped(format!("its standard library is not here (rustup target add {OTHER})"));
    }
    let mut words = vec!["check", "--all-features", "--target", OTHER];
    PORTABLE.iter().for_each(|package| words.extend(["-p", package]));
    words.extend(locked());
    cargo_step(&words, &[])
}

/// Whether the toolchain has the standard library of a target.
fn installed(target: &str) -> bool {
    let folder = capture(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let workspace = Workspace::load().unwrap();
        let skips = Skips::at(&workspace.target);
        all(&workspace, &skips, false, &[]).into_iter().map(|step| step.0).collect()
    }

    #[test]
    fn every_package_is_tested_and_every_step_has_a_name_of_its_own() {
        let mut names = names();
        for package in Workspace::load().unwrap().packages {
            assert!(names.contains(&format!("test-{}", package.name)), "{}", package.name);
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn build_comes_before_the_steps_that_use_its_files() {
        let names = names();
        let place = |name: &str| names.iter().position(|other| other == name).unwrap();
        for name in ["tidy", "install", "dist", "bench-inversion", "soak"] {
            assert!(place("build") < place(name), "{name}");
        }
    }

    #[test]
    fn steps_beside_others_can_begin_before_their_place() {
        let names = names();
        let place = |name: &str| names.iter().position(|other| other == name).unwrap();
        for (index, (name, _)) in BESIDE.iter().enumerate() {
            for (_, after) in &BESIDE[..=index] {
                assert!(place(after) < place(name), "{name} would wait for {after} for ever");
            }
        }
    }

    #[test]
    fn nothing_runs_beside_what_needs_a_machine_of_its_own() {
        let names = names();
        let place = |name: &str| names.iter().position(|other| other == name).unwrap();
        let first = QUIET.map(|(package, _)| place(&format!("quiet-{package}"))).into_iter().min().unwrap();
        assert!(names[first..].iter().all(|name| is_quiet(name)), "{:?}", &names[first..]);
        for (name, _) in BESIDE {
            assert!(place(name) < first, "{name}");
        }
    }

    #[test]
    fn the_step_of_a_package_asks_for_its_quiet_part() {
        let names = ["test-manx".to_owned(), "fmt".to_owned()];
        let wanted = |step: &str| is_wanted(step, &names);
        assert!(wanted("test-manx") && wanted("quiet-manx") && wanted("fmt"));
        assert!(!wanted("quiet-doctor") && !wanted("test-manx-bench"));
        for (package, program) in QUIET {
            let tests = root().join("crates").join(package).join("tests");
            assert!(tests.join(program).with_extension("rs").is_file(), "{program}");
        }
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused_before_anything_runs() {
        let only = vec!["fmt".into(), "nonsense".into()];
        let options = Options { full: false, list: false, part: None, only };
        let error = run(&options).unwrap_err();
        assert!(error.contains("`nonsense`") && error.contains("--list"), "{error}");
    }
}
