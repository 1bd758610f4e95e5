//! Where the victims' programs are: a folder that `cargo xtask setup victims` fills, and what the
//! machine has installed.
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `env/bin/python` | a virtual environment with the Python packages |
//! | `ggml/include`, `ggml/lib` | ggml, built without OpenMP |
//!
//! `MANX_VICTIMS` names the folder, or the virtual environment alone; otherwise it is `victims` in
//! the target folder that `manx` lies in.

use super::catalogue::{Driver, Mpi, Victim};
use crate::engine::Compiler;
use crate::error::{Error, reason};
use crate::machine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The drivers that nobody compiles, by file name.
const SCRIPTS: [(&str, &str); 17] = [
    ("victim.py", include_str!("../../victims/victim.py")),
    ("fit_scikit.py", include_str!("../../victims/fit_scikit.py")),
    ("fit_kmeans.py", include_str!("../../victims/fit_kmeans.py")),
    ("products_joblib.py", include_str!("../../victims/products_joblib.py")),
    ("broadcast_yield.py", include_str!("../../victims/broadcast_yield.py")),
    ("step_pytorch.py", include_str!("../../victims/step_pytorch.py")),
    ("fit_xgboost.py", include_str!("../../victims/fit_xgboost.py")),
    ("fit_lightgbm.py", include_str!("../../victims/fit_lightgbm.py")),
    ("product_numpy.py", include_str!("../../victims/product_numpy.py")),
    ("loop_numba.py", include_str!("../../victims/loop_numba.py")),
    ("layers_onnxruntime.py", include_str!("../../victims/layers_onnxruntime.py")),
    ("batch_redis.py", include_str!("../../victims/batch_redis.py")),
    ("loader_pytorch.py", include_str!("../../victims/loader_pytorch.py")),
    ("product_mkl.py", include_str!("../../victims/product_mkl.py")),
    ("transactions_postgres.py", include_str!("../../victims/transactions_postgres.py")),
    ("messages_rabbitmq.py", include_str!("../../victims/messages_rabbitmq.py")),
    ("messages_erlang.erl", include_str!("../../victims/messages_erlang.erl")),
];

/// What brings the packages.
const SETUP: &str = "`cargo xtask setup victims` brings it, or MANX_VICTIMS names the folder that has it";

/// Libraries of ggml, for the linker; each needs those behind it.
const GGML: [&str; 3] = ["libggml.a", "libggml-cpu.a", "libggml-base.a"];

/// A program that is ready to be started, and what stands before its own arguments.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The program, and its first arguments
    pub words: Vec<OsString>,
    /// Where options of a launcher go, if there is one
    pub launcher: Option<Launcher>,
}

/// What starts the program: `mpirun`.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The launcher, and its first arguments
    pub words: Vec<OsString>,
    /// The MPI that it belongs to
    pub mpi: Mpi,
}

/// Where things are.
#[derive(Debug)]
pub struct Place {
    folder: Option<PathBuf>,
    scripts: tempfile::TempDir,
    compiler: Compiler,
    modules: RefCell<BTreeMap<&'static str, bool>>,
}

impl Place {
    /// Finds the folder, and writes the drivers to a temporary one.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn find(manx: &Path, compiler: Compiler) -> Result<Place, Error> {
        let unwritable = |error: std::io::Error| {
            Error::request(
                format!("{}: {}", env::temp_dir().display(), reason(&error)),
                "the drivers are kept there; TMPDIR names another folder",
            )
        };
        let scripts = tempfile::Builder::new().prefix("manx-victims-").tempdir().map_err(unwritable)?;
        for (name, text) in SCRIPTS {
            std::fs::write(scripts.path().join(name), text).map_err(unwritable)?;
        }
        let named = env::var_os("MANX_VICTIMS").filter(|named| !named.is_empty()).map(PathBuf::from);
        let built = manx.parent().and_then(Path::parent).map(|target| target.join("victims"));
        let folder = named.or(built.filter(|folder| folder.is_dir()));
        let folder = folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
        Ok(Place { folder, scripts, compiler, modules: RefCell::default() })
    }

    /// What starts a victim.
    ///
    /// # Errors
    /// [`Error::Missing`] if something is not there.
    pub fn ready(&self, victim: &Victim) -> Result<Ready, Error> {
        let alone = |words: Vec<OsString>| Ready { words, launcher: None };
        match victim.driver {
            Driver::Python(script, module) => {
                Ok(alone(vec![self.python(module)?.into(), self.script(script)]))
            }
            Driver::Beside(script, program) => {
                machine::program(program).ok_or_else(|| missing(program))?;
                let python = self.environment().or_else(|| machine::program("python3"));
                let python = python.ok_or_else(|| missing("python3"))?;
                Ok(alone(vec![python.into(), self.script(script)]))
            }
            Driver::OfMachine(script, module) => {
                let python = Path::new("/usr/bin/python3");
                let mut command = Command::new(python);
                command.args(["-c", &format!("import {module}")]);
                let has = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
                if !has.is_ok_and(|status| status.success()) {
                    return Err(missing(&format!("python3-{module}")));
                }
                Ok(alone(vec![python.into(), self.script(script)]))
            }
            Driver::Erlang(script) => {
                let escript = machine::program("escript").ok_or_else(|| missing("escript"))?;
                let script = self.scripts.path().join(format!("{script}.erl"));
                Ok(alone(vec![escript.into(), script.into()]))
            }
            Driver::C(source, flags) => {
                let flags: Vec<OsString> = flags.iter().map(Into::into).collect();
                Ok(alone(vec![self.compiler.program(source, &flags, "")?.into()]))
            }
            Driver::Ggml(source) => Ok(alone(vec![self.ggml(source)?.into()])),
            Driver::Mpi(source, Mpi::Ch) => {
                let of_mpich = |name: &str| machine::program(name).ok_or_else(|| missing(name));
                let words = vec![of_mpich("mpiexec.mpich")?.into()];
                let compiler = self.compiler.clone().with_c(of_mpich("mpicc.mpich")?);
                let program = compiler.program(source, &[], "mpich")?;
                let launcher = Some(Launcher { words, mpi: Mpi::Ch });
                Ok(Ready { words: vec![program.into()], launcher })
            }
            Driver::Mpi(source, mpi) => {
                let [mpirun, mpicc] = match mpi {
                    Mpi::OpenFive => {
                        let python = self.python("openmpi")?;
                        ["mpirun", "mpicc"].map(|name| python.with_file_name(name))
                    }
                    _ => [open_mpi("mpirun", "--version")?, open_mpi("mpicc", "--showme:version")?],
                };
                // A program of another compiler is another program.
                let state = mpicc.display().to_string();
                let program = self.compiler.clone().with_c(mpicc).program(source, &[], &state)?;
                let mut words = vec![mpirun.into()];
                if mpi == Mpi::OpenFive {
                    // Otherwise it refuses to start more ranks than there are CPUs to bind them to.
                    words.extend(["--bind-to".into(), "none".into()]);
                }
                // SAFETY: geteuid cannot fail and touches no memory.
                if unsafe { libc::geteuid() } == 0 {
                    words.push("--allow-run-as-root".into());
                }
                Ok(Ready { words: vec![program.into()], launcher: Some(Launcher { words, mpi }) })
            }
        }
    }

    fn script(&self, name: &str) -> OsString {
        self.scripts.path().join(format!("{name}.py")).into()
    }

    /// The python of the virtual environment.
    fn environment(&self) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        ["env/bin/python", "bin/python"].iter().map(|name| folder.join(name)).find(|python| python.exists())
    }

    /// The same, if it has the module.
    fn python(&self, module: &'static str) -> Result<PathBuf, Error> {
        let python = self
            .environment()
            .ok_or_else(|| Error::missing("no Python environment of the victims", SETUP))?;
        let has = *self.modules.borrow_mut().entry(module).or_insert_with(|| {
            let find = format!("import importlib.metadata, sys\ntry: importlib.metadata.distribution({:?})\nexcept Exception: sys.exit(1)", distribution(module));
            let mut command = Command::new(&python);
            command.args(["-c", &find]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        if has {
            Ok(python)
        } else {
            Err(Error::missing(format!("{}: no module {module}", python.display()), SETUP))
        }
    }

    fn ggml(&self, source: &str) -> Result<PathBuf, Error> {
        let folder = self.folder.as_ref().map(|folder| folder.join("ggml"));
        let folder = folder.filter(|folder| folder.join("lib").join(GGML[0]).is_file());
        let folder = folder.ok_or_else(|| Error::missing("ggml is not built", SETUP))?;
        let mut flags = vec![OsString::from("-I"), folder.join("include").into()];
        flags.extend(GGML.iter().map(|name| folder.join("lib").join(name).into()));
        flags.extend(["-lstdc++".into(), "-lm".into()]);
        let state = std::fs::metadata(folder.join("lib").join(GGML[1])).and_then(|found| found.modified());
        self.compiler.program(source, &flags, &format!("{state:?}"))
    }
}

/// The name of a module's package, where it is another one.
fn distribution(module: &str) -> &str {
    if module == "sklearn" { "scikit-learn" } else { module }
}

/// A program of Open MPI, also where the system prefers another MPI; `version` asks it what it is.
fn open_mpi(name: &str, version: &str) -> Result<PathBuf, Error> {
    if let Some(own) = machine::program(&format!("{name}.openmpi")) {
        return Ok(own);
    }
    let program = machine::program(name).ok_or_else(|| missing(name))?;
    let says = Command::new(&program).arg(version).output();
    if says.is_ok_and(|says| String::from_utf8_lossy(&says.stdout).contains("Open MPI")) {
        return Ok(program);
    }
    Err(missing(&format!("{} is not Open MPI's, and {name}.openmpi", program.display())))
}

fn missing(program: &str) -> Error {
    Error::missing(
        format!("{program} is not installed"),
        "`cargo xtask setup victims` installs it as root, with apt-get",
    )
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::VICTIMS;
    use super::*;

    #[test]
    fn every_script_is_here() {
        for victim in &VICTIMS {
            let name = match victim.driver {
                Driver::Python(script, _) | Driver::Beside(script, _) | Driver::OfMachine(script, _) => {
                    format!("{script}.py")
                }
                Driver::Erlang(script) => format!("{script}.erl"),
                Driver::C(..) | Driver::Ggml(_) | Driver::Mpi(..) => continue,
            };
            assert!(SCRIPTS.iter().any(|(file, _)| *file == name), "{name}");
        }
    }

    #[test]
    fn a_missing_victim_says_what_installs_it() {
        let cache = tempfile::tempdir().unwrap();
        let compiler = Compiler::new("cc", cache.path());
        let place = Place::find(&cache.path().join("bin/manx"), compiler).unwrap();
        // Without a folder; where the user names one, there is nothing to be seen of this.
        if place.folder.is_none() {
            for victim in
                VICTIMS.iter().filter(|victim| matches!(victim.driver, Driver::Python(..) | Driver::Ggml(_)))
            {
                let error = place.ready(victim).unwrap_err();
                assert!(
                    matches!(error, Error::Missing { .. }) && error.to_string().contains("setup victims"),
                    "{error}"
                );
            }
        }
    }
}
