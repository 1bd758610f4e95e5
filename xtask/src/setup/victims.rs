//! `cargo xtask setup victims`: the programs of `manx bench victims`, below the target folder or by
//! apt-get.
//!
//! | what | how | where |
//! | --- | --- | --- |
//! | scikit-learn, xgboost, MKL, Open MPI 5, … | pip, exact versions by hash (`bench/workload/victims/requirements.txt`) | `target/victims/env` |
//! | ggml | the source package of llama-cpp-python by hash (`ggml.txt`), built by cmake without OpenMP | `target/victims/ggml` |
//! | PyTorch, Open MPI, MPICH, Redis, PostgreSQL, Erlang, OpenBLAS, BLIS, cmake | apt-get, as root | the machine |
//!
//! No test needs any of it. What cannot be had is named with its reason, and the benchmark leaves
//! out what needs it. What is there is not made again: a folder that is complete has a file `made`
//! with the text that it was made from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{Need, Sign, announce_and_install, find, packages};
use crate::outcome::Result;
use crate::process::{capture, run as run_command};
use crate::workspace::{Workspace, root};

/// For a download of some 800 MB, and for building ggml.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The Python that the hashes are for.
const PYTHON: &str = "3.11";

const fn need(sign: Sign, package: &'static str, purpose: &'static str) -> Need {
    Need { sign, package, purpose, demo: false }
}

const NEEDS: &[Need] = &[
    need(Sign::Program("gcc"), "gcc", "compiles the drivers"),
    need(Sign::Program("cmake"), "cmake", "builds ggml"),
    need(Sign::Program("g++"), "g++", "builds ggml"),
    need(Sign::OpenMpi("mpirun"), "openmpi-bin", "the victim openmpi"),
    need(Sign::OpenMpi("mpicc"), "libopenmpi-dev", "the victim openmpi"),
    need(Sign::Program("mpiexec.mpich"), "mpich", "the victim mpich"),
    need(Sign::Program("mpicc.mpich"), "libmpich-dev", "the victim mpich"),
    need(Sign::Program("redis-server"), "redis-server", "the victim redis"),
    need(Sign::Program("initdb"), "postgresql", "the victim postgres"),
    need(Sign::Program("escript"), "erlang-base", "the victim erlang"),
    need(Sign::Program("rabbitmq-server"), "rabbitmq-server", "the victim rabbitmq"),
    need(Sign::Package("python3-torch"), "python3-torch", "the victims of PyTorch"),
    need(Sign::Library("libopenblas.so"), "libopenblas-pthread-dev", "the victim openblas"),
    need(Sign::Package("libblis-pthread-dev"), "libblis-pthread-dev", "the victim blis"),
];

/// Sets up what can be.
///
/// # Errors
/// None that the rest could not go on without: what is left out is printed.
pub fn run() -> Result {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.sign.is_there()).collect();
    if !missing.is_empty() {
        announce_and_install(&missing);
    }
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.sign.is_there()).collect();
    if !missing.is_empty() {
        println!("setup: left out; install by hand: apt-get install {}", packages(&missing).join(" "));
    }
    let folder = Workspace::load()?.target.join("victims");
    let python = match environment(&folder) {
        Ok(python) => python,
        Err(why) => {
            println!(
                "setup: left out: the Python packages, and ggml, whose sources one of them holds: {why}"
            );
            return Ok(());
        }
    };
    if let Err(why) = ggml(&folder, &python) {
        println!("setup: left out: ggml: {why}");
    }
    println!("setup: the victims are in {}", folder.display());
    Ok(())
}

/// The requirements of this name.
pub(super) fn requirements(name: &str) -> PathBuf {
    root().join("bench/workload/victims").join(name)
}

/// Makes the folder anew unless it was made from this text; `make` fills it.
pub(super) fn made_from(folder: &Path, text: &str, make: impl FnOnce() -> Result) -> Result {
    let made = folder.join("made");
    if fs::read_to_string(&made).is_ok_and(|from| from == text) {
        println!("setup: {} is complete", folder.display());
        return Ok(());
    }
    let writable = |result: std::io::Result<()>| result.map_err(|why| format!("{}: {why}", folder.display()));
    if folder.exists() {
        writable(fs::remove_dir_all(folder))?;
    }
    writable(fs::create_dir_all(folder))?;
    make()?;
    writable(fs::write(made, text))
}

pub(super) fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

/// The packages of the demo, with what they need.
const DEMO: [&str; 7] =
    ["numpy", "scikit-learn", "scipy", "joblib", "cloudpickle", "threadpoolctl", "narwhals"];

/// Makes a virtual environment with the packages of the demo, unless there is one with all.
///
/// # Errors
/// If there is no Python of that version, or the registry cannot be reached.
pub fn demo() -> Result {
    let victims = Workspace::load()?.target.join("victims");
    if victims.join("env/made").exists() {
        return Ok(());
    }
    let folder = victims.join("demo");
    let all = text(&requirements("requirements.txt"))?;
    let list = folder.join("requirements.txt");
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let lines: String = DEMO.iter().map(|package| only(&all, package)).collect();
    fs::write(&list, lines).map_err(|why| format!("{}: {why}", list.display()))?;
    install_into(&folder.join("env"), &list).map(drop)
}

/// The Python that has this package, or why there is none.
///
/// # Errors
/// If none has it.
pub fn python(package: &str) -> Result<PathBuf> {
    let victims = Workspace::load()?.target.join("victims");
    let environments = ["env", "demo/env"].map(|name| victims.join(name));
    let made = environments.iter().find(|environment| environment.join("made").exists());
    made.map(|environment| environment.join("bin/python"))
        .ok_or_else(|| format!("Python {PYTHON} has no {package} (see target/demo/setup.log)"))
}

/// The lines of one package: its version, and the hashes behind it.
fn only(all: &str, package: &str) -> String {
    let mut lines = all.lines().skip_while(|line| !line.starts_with(&format!("{package}==")));
    let first: Vec<&str> = lines.next().into_iter().collect();
    first.into_iter().chain(lines.take_while(|line| line.starts_with(' '))).collect::<Vec<_>>().join("\n")
        + "\n"
}

/// The virtual environment with all packages, or why there is none.
fn environment(folder: &Path) -> Result<PathBuf> {
    install_into(&folder.join("env"), &requirements("requirements.txt"))
}

/// Makes a virtual environment with the packages of a list, unless it is there; returns its Python.
pub(super) fn install_into(env: &Path, list: &Path) -> Result<PathBuf> {
    let python = env.join("bin/python");
    made_from(env, &text(list)?, || {
        run_command(Command::new(base()?).args(["-m", "venv"]).arg(env), LIMIT)?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--require-hashes", "-r"]).arg(list);
        run_command(&mut pip, LIMIT)
    })?;
    Ok(python)
}

/// A Python of the right version.
fn base() -> Result<PathBuf> {
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let fits = |python: &PathBuf| {
        capture(Command::new(python).args(["-c", version])).is_ok_and(|answer| answer.trim() == PYTHON)
    };
    let found = ["python3.11", "python3"].iter().filter_map(|name| find(name)).find(fits);
    found.ok_or_else(|| format!("there is no Python {PYTHON} here, for which the packages are"))
}

/// Builds ggml as static libraries.
fn ggml(folder: &Path, python: &Path) -> Result {
    let (ggml, list) = (folder.join("ggml"), requirements("ggml.txt"));
    let cmake = find("cmake").ok_or("there is no cmake")?;
    made_from(&ggml, &text(&list)?, || {
        let source = unpack(&ggml, python, &list)?;
        let build = ggml.join("build");
        let mut configure = Command::new(&cmake);
        configure.arg("-S").arg(&source).arg("-B").arg(&build).args([
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=OFF",
            "-DGGML_OPENMP=OFF",
            "-DGGML_NATIVE=ON",
            "-DGGML_LLAMAFILE=OFF",
            "-DGGML_CCACHE=OFF",
            "-DGGML_BUILD_TESTS=OFF",
            "-DGGML_BUILD_EXAMPLES=OFF",
            // Its warnings are not ours to mend.
            "-DCMAKE_C_FLAGS=-w",
            "-DCMAKE_CXX_FLAGS=-w",
        ]);
        run_command(&mut configure, LIMIT)?;
        let jobs = thread::available_parallelism().map_or(1, usize::from).to_string();
        let mut make = Command::new(&cmake);
        make.arg("--build").arg(&build).args(["--target", "ggml", "--parallel", &jobs]);
        run_command(&mut make, LIMIT)?;
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(source.join("include")).arg(&ggml);
        run_command(&mut copy, LIMIT)?;
        let lib = ggml.join("lib");
        fs::create_dir_all(&lib).map_err(|why| format!("{}: {why}", lib.display()))?;
        for name in ["libggml.a", "libggml-cpu.a", "libggml-base.a"] {
            let built = build.join("src").join(name);
            fs::copy(&built, lib.join(name)).map_err(|why| format!("{}: {why}", built.display()))?;
        }
        [source.as_path(), &build].iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        Ok(())
    })
}

/// Downloads the one source package of a list into a folder, and returns its archive.
pub(super) fn download(into: &Path, python: &Path, list: &Path) -> Result<PathBuf> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    // Without isolation nothing is fetched but the package: pip asks it for its name and version
    // with what is installed.
    pip.args(["--no-binary", ":all:", "--no-build-isolation", "--require-hashes", "-r"]).arg(list);
    run_command(pip.arg("--dest").arg(into), LIMIT)?;
    let entries = fs::read_dir(into).map_err(|why| format!("{}: {why}", into.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).next().ok_or("pip brought no package")?)
}

/// Downloads the source package and takes ggml out of it.
fn unpack(ggml: &Path, python: &Path, list: &Path) -> Result<PathBuf> {
    let (folder, source) = (ggml.join("download"), ggml.join("source"));
    let package = download(&folder, python, list)?;
    fs::create_dir_all(&source).map_err(|why| format!("{}: {why}", source.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&package).arg("-C").arg(&source);
    // The package's own folder, and vendor/llama.cpp/ggml in it.
    tar.args(["--strip-components=4", "--wildcards", "*/vendor/llama.cpp/ggml/*"]);
    run_command(&mut tar, LIMIT)?;
    // The package leaves out a template that is only installed; its place must not be empty.
    let template = source.join("ggml.pc.in");
    if !template.exists() {
        fs::write(&template, "").map_err(|why| format!("{}: {why}", template.display()))?;
    }
    // Its work is done, and it is large.
    let _ = fs::remove_dir_all(&folder);
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_an_exact_version_and_a_hash() {
        for name in ["requirements.txt", "ggml.txt", "wiredtiger.txt", "setuptools.txt"] {
            let text = text(&requirements(name)).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.len() >= 2 && lines.len().is_multiple_of(2), "{name}");
            for pair in lines.chunks(2) {
                assert!(pair[0].contains("==") && pair[0].ends_with(" \\"), "{name}: {}", pair[0]);
                let hash = pair[1].strip_prefix("    --hash=sha256:").unwrap_or_default();
                assert!(
                    hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
                    "{name}: {}",
                    pair[1]
                );
            }
        }
    }

    #[test]
    fn one_package_is_taken_with_its_hash() {
        let numpy = only(&text(&requirements("requirements.txt")).unwrap(), "numpy");
        assert!(numpy.starts_with("numpy==") && numpy.lines().count() == 2, "{numpy}");
        assert!(numpy.contains("--hash=sha256:"), "{numpy}");
    }

    #[test]
    fn a_folder_is_made_once_for_each_text() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("made-here");
        let mut made = 0;
        let mut make = |text: &str, fails: bool| {
            let result = made_from(&folder, text, || {
                made += 1;
                if fails { Err("no network".into()) } else { Ok(()) }
            });
            (result, made)
        };
        assert_eq!(make("a", true), (Err("no network".into()), 1));
        assert_eq!(make("a", false), (Ok(()), 2));
        assert_eq!(make("a", false), (Ok(()), 2));
        assert_eq!(make("b", false), (Ok(()), 3));
    }
}
