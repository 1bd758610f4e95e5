//! What is measured: Manx's store in a process of its own, and other engines by their drivers in C.

use super::arguments::{Way, What};
use crate::child;
use crate::engine::library::{self, Library};
use crate::engine::{self, Compiler, Libraries, Load, Program, Start, run_within};
use crate::error::Error;
use crate::harness::{Bench, Sample};
use std::path::Path;
use std::time::Duration;

/// The hidden option of `manx bench txn`: be a measured process with the arguments that follow.
pub const DRIVE: &str = "drive";
/// The time that a run may take for loading and checking, beyond the time that it was asked for.
const SLACK: Duration = Duration::from_secs(60);

/// How it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// By itself
    AsIs,
    /// Under `manx run`
    Guarded,
}

/// One version of a case.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) program: Program,
    pub(super) how: How,
    pub(super) boost: usize,
    pub(super) more: Vec<String>,
}

impl Variant {
    fn new(name: &str, program: Program, how: How) -> Variant {
        Variant { name: name.into(), program, how, boost: 0, more: Vec::new() }
    }

    /// Manx's store, or what else this command measures; `own` is this command.
    pub(super) fn manx(own: &Path, name: &str, what: What, way: Way) -> Variant {
        let arguments = ["txn", "--drive"].map(Into::into).into();
        let home = matches!(what, What::Durable | What::Component);
        let program = Program { path: own.to_owned(), arguments, home };
        let more = vec![format!("--what={}", what.name()), format!("--protocol={}", way.name())];
        Variant { more, ..Variant::new(name, program, How::AsIs) }
    }

    /// Another engine.
    pub(super) fn peer(name: &str, program: &Program, how: How) -> Variant {
        Variant::new(name, program.clone(), how)
    }

    /// The same under another name.
    pub(super) fn called(&self, name: String) -> Variant {
        Variant { name, ..self.clone() }
    }

    /// The same with `boost` threads boosted.
    pub(super) fn boosted(&self, boost: usize) -> Variant {
        Variant { boost, ..self.called(super::cases::boosted(&self.name)) }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// As [`crate::engine::run`].
    pub(super) fn run(&self, manx: &Path, load: &Load) -> Result<Sample, Error> {
        let more = load.more.iter().chain(&self.more).cloned().collect();
        let load = Load { boost: self.boost, more, ..load.clone() };
        let start = match self.how {
            How::AsIs => Start::AsIs,
            How::Guarded => Start::Guarded(manx),
        };
        run_within(&self.program, start, &load, load.expected() * 5 + SLACK)
    }
}

/// The engines that are on this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    pub(super) wiredtiger: Option<Program>,
    pub(super) fixed: Option<Program>,
    /// `manx run` works
    pub(super) guard: bool,
    pub(super) others: Vec<(&'static str, Program)>,
}

/// Engines beside WiredTiger: the name, the driver, its library, whether it has files.
const OTHERS: [(&str, &str, &str, bool); 3] = [
    (super::cases::LMDB, "ycsb_lmdb", "-llmdb", true),
    (super::cases::ROCKSDB, "ycsb_rocksdb", "-lrocksdb", false),
    (super::cases::SQLITE, "ycsb_sqlite", "-lsqlite3", true),
];

impl Peers {
    /// WiredTiger, if it is asked for or there, and a repaired one if it is named or built. What is
    /// missing is noted.
    ///
    /// # Errors
    /// If something named cannot be found or compiled.
    pub(super) fn wiredtiger(
        &mut self,
        compiler: &Compiler,
        libraries: &Libraries,
        bench: &mut Bench,
    ) -> Result<(), Error> {
        const SOURCE: &str = "ycsb_wiredtiger";
        let program = |library: Option<&Library>| {
            library::driver(compiler, SOURCE, library)
                .map(|path| Program { home: true, ..Program::new(path) })
        };
        let pair = libraries.pair()?;
        pair.note.into_iter().for_each(|note| bench.note(note));
        // Only what the user has named must be there.
        let mut found = |made: Result<Program, Error>, is_named: bool, name: &str| match made {
            Ok(program) => Ok(Some(program)),
            Err(missing @ Error::Missing { .. }) if !is_named => {
                note(bench, name, &missing);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let as_is = program(pair.as_is.as_ref());
        self.wiredtiger = found(as_is, libraries.library.is_some(), super::cases::WIREDTIGER)?;
        match &pair.fixed {
            Ok(fixed) => {
                self.fixed = found(program(Some(fixed)), libraries.fixed.is_some(), super::cases::FIXED)?;
            }
            Err(why) => bench.note(format!("{}: left out: {why}", super::cases::FIXED)),
        }
        Ok(())
    }

    /// Whether `manx run` works: it needs its library, which is built apart from this command. If
    /// not, that is noted.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(super) fn guard(&mut self, manx: &Path, bench: &mut Bench) -> Result<(), Error> {
        match child::run(engine::command(Path::new("true"), Start::Guarded(manx)), SLACK) {
            Ok(_) => self.guard = true,
            Err(Error::Failed { stderr, .. }) => {
                let why = stderr.trim().replace("\n  ", "; ");
                bench.note(format!(
                    "{}: left out: {}",
                    super::cases::GUARDED,
                    why.trim_start_matches("manx: ")
                ));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The other engines. What is missing is noted.
    ///
    /// # Errors
    /// If an engine that is there cannot be compiled.
    pub(super) fn others(&mut self, compiler: &Compiler, bench: &mut Bench) -> Result<(), Error> {
        for (name, source, flag, home) in OTHERS {
            match compiler.program(source, &[flag.into()], "") {
                Ok(path) => self.others.push((name, Program { home, ..Program::new(path) })),
                Err(missing @ Error::Missing { .. }) => note(bench, name, &missing),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn note(bench: &mut Bench, name: &str, missing: &Error) {
    let why = match missing {
        Error::Missing { help, .. } => help.clone(),
        other => other.to_string(),
    };
    bench.note(format!("{name}: left out: {}", why.replace('\n', "; ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::arguments::Arguments;

    #[test]
    fn manx_understands_the_arguments_of_its_variants() {
        for what in What::ALL {
            for way in Way::ALL {
                let variant = Variant::manx(Path::new("/y/manx-bench"), "m", what, way).boosted(2);
                assert_eq!(variant.name, "m, boosted");
                let arguments = Arguments::parse(&variant.more).unwrap();
                assert_eq!((arguments.what, arguments.way), (what, way));
                assert_eq!(variant.program.arguments, ["txn", "--drive"]);
            }
        }
    }
}
