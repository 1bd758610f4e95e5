//! The measured programs: ordinary C programs in `engines/`, with no Manx inside.

pub mod compiler;
pub mod library;
pub mod output;
pub mod package;
pub mod rival;

pub use compiler::Compiler;
pub use library::{Libraries, Library};
pub use output::Output;
pub use package::Package;
pub use rival::Rival;

use crate::child;
use crate::error::{Error, reason};
use crate::harness::Sample;
use library::wiredtiger;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What starting and ending a program takes beside its run.
const STARTED: Duration = Duration::from_millis(200);

/// A program that was compiled, and what it is always told.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file
    pub path: PathBuf,
    /// Arguments before those of a run
    pub arguments: Vec<OsString>,
    /// It needs `--home`, a folder for its files
    pub home: bool,
}

impl Program {
    /// A program that needs nothing.
    pub fn new(path: PathBuf) -> Program {
        Program { path, arguments: Vec::new(), home: false }
    }
}

/// Cores of two speeds, made of two that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The CPU that is left alone
    pub big: usize,
    /// The CPU whose threads are slowed
    pub little: usize,
    /// How long these take, in thousandths of what they would take
    pub dilation: u32,
}

/// The name of a version: the program as it is.
pub const AS_IS: &str = "as it is";
/// The name of a version: the program under `manx run`.
pub const GUARDED: &str = "manx run";

/// How a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// By itself
    AsIs,
    /// Under `manx run`; the path is that of `manx`
    Guarded(&'a Path),
    /// Under `manx run --lock=MODE`; the path is that of `manx`
    Locked(&'a Path, &'a str),
    /// The same on cores of two speeds
    Unequal(&'a Path, &'a str, Cores),
    /// On cores of two speeds with a competitor's locks; the path is that of `manx`
    UnequalRival(&'a Path, &'a Rival, Cores),
    /// With a competitor's locks
    Preloaded(&'a Rival),
}

/// What a run of an engine is told.
#[derive(Clone, Debug)]
pub struct Load {
    /// Session threads
    pub threads: usize,
    /// Measured time, in seconds
    pub seconds: f64,
    /// Seconds before it
    pub warm_up: f64,
    /// Mean think time in microseconds; 0: closed loop
    pub think_us: f64,
    /// The CPUs, as a list
    pub cpus: String,
    /// Boosted threads
    pub boost: usize,
    /// Without the right to raise a priority: they keep theirs, and the others get niceness 19
    pub lowered: bool,
    /// Seconds of the measured time between which these threads are boosted; `None`: all the time
    pub window: Option<(f64, f64)>,
    /// Of keys and think times
    pub seed: u64,
    /// Further options
    pub more: Vec<String>,
}

impl Load {
    /// A closed loop without think times and without a boost, from seed 1.
    pub fn new(threads: usize, seconds: f64, warm_up: f64, cpus: &str) -> Load {
        let (think_us, boost, lowered, window, more) = (0.0, 0, false, None, Vec::new());
        Load { threads, seconds, warm_up, think_us, cpus: cpus.into(), boost, lowered, window, seed: 1, more }
    }

    /// The command line for it.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--threads={}", self.threads),
            format!("--seconds={}", self.seconds),
            format!("--warm-up={}", self.warm_up),
            format!("--think-us={}", self.think_us),
            format!("--cpus={}", self.cpus),
            format!("--seed={}", self.seed),
        ];
        if self.boost > 0 {
            arguments.push(format!("--boost={}", self.boost));
            if self.lowered {
                arguments.extend(["--nice=0".to_owned(), "--others=19".to_owned()]);
            }
            if let Some((from, to)) = self.window {
                arguments.extend([format!("--boost-from={from}"), format!("--boost-to={to}")]);
            }
        }
        arguments.extend(self.more.iter().cloned());
        arguments
    }

    /// About how long a run takes; a run that loads many records takes longer.
    pub fn expected(&self) -> Duration {
        Duration::from_secs_f64(self.seconds + self.warm_up + STARTED.as_secs_f64())
    }
}

/// Makes a library, `$0`, the next one behind Manx's, and becomes the program. Manx's preload
/// library passes calls that it leaves alone to the next library that has the function. So a call
/// is stretched first, and the competitor's lock is then taken in the place of the C library's.
const BEHIND: &str = r#"export LD_PRELOAD="$LD_PRELOAD:$0"; exec "$@""#;

/// The start of a command for cores of two speeds.
fn dilated(manx: &Path, lock: &str, Cores { big, little, dilation }: Cores) -> Command {
    let mut command = Command::new(manx);
    command.arg("run").arg(format!("--lock={lock}"));
    command.arg(format!("--dilate={}", f64::from(dilation) / 1000.0));
    command.arg(format!("--cores=big:{big},little:{little}"));
    command
}

/// The command that starts `program`.
pub fn command(program: &Path, start: Start) -> Command {
    match start {
        Start::AsIs => Command::new(program),
        Start::Guarded(manx) => {
            let mut command = Command::new(manx);
            command.args(["run", "--"]).arg(program);
            command
        }
        Start::Locked(manx, lock) => {
            let mut command = Command::new(manx);
            command.arg("run").arg(format!("--lock={lock}")).arg("--").arg(program);
            command
        }
        Start::Unequal(manx, lock, cores) => {
            let mut command = dilated(manx, lock, cores);
            command.arg("--").arg(program);
            command
        }
        Start::UnequalRival(manx, rival, cores) => {
            let mut command = dilated(manx, "glibc", cores);
            // Its waiters wait as its authors wrote it.
            let file = rival.library.file_name().unwrap_or_default().to_string_lossy();
            command.arg(format!("--not={file}")).args(["--", "sh", "-c", BEHIND]);
            command.arg(&rival.library).arg(program).envs(rival.variable());
            command
        }
        Start::Preloaded(rival) => {
            let mut command = Command::new(program);
            command.env("LD_PRELOAD", &rival.library).envs(rival.variable());
            command
        }
    }
}

/// How much longer than asked for an engine is measured at most, if no operation ended before.
const LONGER_MAX: f64 = 32.0;

/// Runs an engine once. Its database, if it has one, lies in a temporary folder and is gone
/// afterwards. A stalled engine may begin no operation within a short measured time: then it runs
/// again, for twice the time, since a rate of zero has no ratio.
///
/// # Errors
/// If it fails, prints what does not add up, counts errors, or ended no operation within
/// `LONGER_MAX` times the measured time.
pub fn run(program: &Program, start: Start, load: &Load) -> Result<Sample, Error> {
    run_within(program, start, load, patience(load))
}

/// A stalled engine takes far longer than it was asked to; an engine that hangs must end all the
/// same.
fn patience(load: &Load) -> Duration {
    load.expected() * 5 + Duration::from_secs(60)
}

/// The same, with another limit on the time from start to end.
///
/// # Errors
/// As [`run`].
pub fn run_within(program: &Program, start: Start, load: &Load, limit: Duration) -> Result<Sample, Error> {
    let mut longer = load.clone();
    let limit = |longer: &Load| limit + patience(longer).saturating_sub(patience(load));
    while longer.seconds < load.seconds * LONGER_MAX {
        if let Some(sample) = attempt(program, start, &longer, limit(&longer), |_| ())? {
            return Ok(sample);
        }
        longer.seconds *= 2.0;
    }
    run_beside(program, start, &longer, limit(&longer), |_| ())
}

/// Runs it once. `begun` gets the number of its process as soon as there is one.
///
/// # Errors
/// As [`run`], and if no operation ended.
pub fn run_beside(
    program: &Program,
    start: Start,
    load: &Load,
    limit: Duration,
    begun: impl FnOnce(i32),
) -> Result<Sample, Error> {
    attempt(program, start, load, limit, begun)?.ok_or_else(|| {
        // Which version it is, its arguments say.
        let own = program.arguments.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = own.chain(load.arguments().into_iter().map(Into::into)).collect();
        Error::failed(format!("{} {}: no operation ended", program.path.display(), words.join(" ")))
    })
}

/// A run; `None` if no operation ended.
fn attempt(
    program: &Program,
    start: Start,
    load: &Load,
    limit: Duration,
    begun: impl FnOnce(i32),
) -> Result<Option<Sample>, Error> {
    let mut command = command(&program.path, start);
    command.args(&program.arguments).args(load.arguments());
    let home = if program.home {
        let folder = tempfile::Builder::new().prefix("manx-bench-").tempdir().map_err(|error| {
            Error::request(
                format!("{}: {}", std::env::temp_dir().display(), reason(&error)),
                "databases are kept there while they are measured; TMPDIR names another folder",
            )
        })?;
        command.arg("--home").arg(folder.path());
        Some(folder)
    } else {
        None
    };
    let finished = child::run_beside(command, limit, begun)?;
    drop(home);
    Output::sample(&finished.stdout).map_err(|reason| Error::Failed {
        what: format!("{}: {reason}", program.path.display()),
        stderr: finished.stderr,
    })
}

/// What brings WiredTiger to this machine.
const PACKAGE: &str = "libwiredtiger-dev";

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The real one
    WiredTiger,
    /// The built-in one with the same protocol
    Snapshot,
}

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The engine; `None`: WiredTiger, or the built-in one where that is missing
    pub kind: Option<Kind>,
    /// Its libraries, if it is WiredTiger
    pub libraries: Libraries,
}

/// The programs that are compared.
#[derive(Clone, Debug)]
pub struct Engines {
    /// Which engine it is
    pub kind: Kind,
    /// With the busy wait
    pub as_is: Program,
    /// With the source repaired, or the reason why there is none
    pub fixed: Result<Program, String>,
    /// What the reader must know
    pub notes: Vec<String>,
}

impl Engines {
    /// Compiles what the choice asks for.
    ///
    /// # Errors
    /// If something named cannot be found or compiled.
    pub fn prepare(choice: &Choice, compiler: &Compiler) -> Result<Engines, Error> {
        let named = choice.libraries.are_named();
        match choice.kind {
            Some(Kind::Snapshot) if named => Err(Error::request(
                "--engine snapshot: --library and --fixed name WiredTiger libraries",
                "leave them out, or choose --engine wiredtiger",
            )),
            Some(Kind::Snapshot) => Engines::snapshot(compiler, None),
            Some(Kind::WiredTiger) => Engines::wiredtiger(choice, compiler),
            None if named => Engines::wiredtiger(choice, compiler),
            None => match Engines::wiredtiger(choice, compiler) {
                Err(Error::Missing { help, .. }) if help.contains(PACKAGE) => {
                    let why = format!("WiredTiger is not installed (Debian: apt-get install {PACKAGE})");
                    Engines::snapshot(compiler, Some(&why))
                }
                other => other,
            },
        }
    }

    fn wiredtiger(choice: &Choice, compiler: &Compiler) -> Result<Engines, Error> {
        let pair = choice.libraries.pair()?;
        let program = |library| Ok(Program { home: true, ..Program::new(wiredtiger(compiler, library)?) });
        let fixed = match &pair.fixed {
            Ok(library) => Ok(program(Some(library))?),
            Err(why) => Err(why.clone()),
        };
        let as_is = program(pair.as_is.as_ref())?;
        Ok(Engines { kind: Kind::WiredTiger, as_is, fixed, notes: pair.note.into_iter().collect() })
    }

    fn snapshot(compiler: &Compiler, why: Option<&str>) -> Result<Engines, Error> {
        let as_is = Program::new(compiler.program("snapshot", &[], "")?);
        let fixed = Program { arguments: vec!["--fixed".into()], ..as_is.clone() };
        let reason = why.map_or(String::new(), |why| format!(": {why}"));
        let notes = vec![format!("a small built-in engine with the paper's protocol is measured{reason}")];
        Ok(Engines { kind: Kind::Snapshot, as_is, fixed: Ok(fixed), notes })
    }

    /// Makes loading quick, for smoke checks.
    pub fn shrink(&self, load: &mut Load) {
        load.more.push("--records=20000".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|w| w.to_string_lossy().into())
            .collect()
    }

    #[test]
    fn the_guarded_program_is_the_same_file() {
        let program = Path::new("/x/driver");
        assert_eq!(words(&command(program, Start::AsIs)), ["/x/driver"]);
        let guarded = command(program, Start::Guarded(Path::new("/y/manx")));
        assert_eq!(words(&guarded), ["/y/manx", "run", "--", "/x/driver"]);
        let locked = command(program, Start::Locked(Path::new("/y/manx"), "fifo"));
        assert_eq!(words(&locked), ["/y/manx", "run", "--lock=fifo", "--", "/x/driver"]);
        let cores = Cores { big: 2, little: 3, dilation: 3750 };
        let unequal = command(program, Start::Unequal(Path::new("/y/manx"), "glibc", cores));
        let cores = ["--dilate=3.75", "--cores=big:2,little:3"];
        assert_eq!(
            words(&unequal),
            [&["/y/manx", "run", "--lock=glibc"], &cores[..], &["--", "/x/driver"]].concat()
        );
        let rival = Rival { name: "tas".into(), library: "/z/lock.so".into(), lock: Some("tas") };
        let preloaded = command(program, Start::Preloaded(&rival));
        assert_eq!(words(&preloaded), ["/x/driver"]);
        let variables: Vec<_> = preloaded.get_envs().collect();
        let lock = (rival::VARIABLE.as_ref(), Some("tas".as_ref()));
        assert_eq!(variables, [("LD_PRELOAD".as_ref(), Some("/z/lock.so".as_ref())), lock]);
        let behind = command(
            program,
            Start::UnequalRival(Path::new("/y/manx"), &rival, Cores { big: 2, little: 3, dilation: 3750 }),
        );
        let ended = ["--not=lock.so", "--", "sh", "-c", BEHIND, "/z/lock.so", "/x/driver"];
        assert_eq!(words(&behind)[2..], [&["--lock=glibc"], &cores[..], &ended].concat());
        assert_eq!(behind.get_envs().collect::<Vec<_>>(), [lock]);
    }

    #[test]
    fn options_of_a_boost_are_passed_only_with_a_boost() {
        let load = |boost| Load {
            think_us: 300.0,
            boost,
            lowered: boost == 3,
            window: Some((1.0, 2.0)),
            more: vec!["--records=5".into()],
            ..Load::new(4, 3.0, 0.5, "0,1")
        };
        assert!(!load(0).arguments().iter().any(|argument| argument.starts_with("--boost")));
        assert!(load(3).arguments().contains(&"--others=19".to_owned()));
        let boosted = load(2).arguments();
        assert!(!boosted.iter().any(|argument| argument.starts_with("--others")));
        for option in
            ["--boost=2", "--boost-from=1", "--boost-to=2", "--threads=4", "--think-us=300", "--records=5"]
        {
            assert!(boosted.iter().any(|argument| argument == option), "{option}: {boosted:?}");
        }
    }
}
