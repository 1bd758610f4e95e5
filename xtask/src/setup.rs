//! `cargo xtask setup`: the Debian packages that tests and engines need, and nothing else.
//!
//! The command and the library themselves need cargo and a C compiler for linking, no package. What
//! is looked for is the thing itself (a program in PATH, a header, a library), so that a machine of
//! another kind, where somebody installed it by hand, needs nothing; only the remedy speaks of
//! Debian. Where several packages can stand behind one name (`mpirun`, `libopenblas.so`), the one
//! that is needed is looked for and used by a name of its own, whichever the system prefers.
//! Without the rights to install, the list of what is missing is printed, and the steps that need
//! it say that they are left out.

mod axe;
pub mod harm;
pub mod mongo;
pub mod victims;
pub mod wiredtiger;

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::outcome::Result;
use crate::process::{capture, run as run_command};

/// Something that tests, engines or the demo use.
struct Need {
    /// The program, header or library that shows that it is there.
    sign: Sign,
    /// The Debian package that has it.
    package: &'static str,
    /// What it is for.
    purpose: &'static str,
    /// Whether the demo uses it too.
    demo: bool,
}

enum Sign {
    Program(&'static str),
    /// All of these programs
    Programs(Vec<&'static str>),
    /// A package, by its name
    Package(&'static str),
    Header(&'static str),
    Library(&'static str),
    /// A program of Open MPI
    OpenMpi(&'static str),
}

const fn program(name: &'static str, package: &'static str, purpose: &'static str) -> Need {
    Need { sign: Sign::Program(name), package, purpose, demo: false }
}

const fn header(name: &'static str, package: &'static str) -> Need {
    Need { sign: Sign::Header(name), package, purpose: DATABASE, demo: false }
}

/// What the databases are for.
const DATABASE: &str = "a real program of `manx bench engines`";

const NEEDS: &[Need] = &[
    Need { sign: Sign::Program("gcc"), package: "gcc", purpose: "builds the engines' drivers", demo: true },
    Need {
        sign: Sign::Header("stdlib.h"),
        package: "libc6-dev",
        purpose: "builds the engines' drivers",
        demo: true,
    },
    Need {
        sign: Sign::Header("wiredtiger.h"),
        package: "libwiredtiger-dev",
        purpose: "the real engine of the demo and of the inversion benchmark",
        demo: true,
    },
    header("sqlite3.h", "libsqlite3-dev"),
    header("leveldb/c.h", "libleveldb-dev"),
    header("kclangc.h", "libkyotocabinet-dev"),
    header("lmdb.h", "liblmdb-dev"),
    header("rocksdb/c.h", "librocksdb-dev"),
    program("g++", "g++", "builds C++ programs that must run unchanged, and a competitor"),
    Need {
        sign: Sign::Library("libopenblas.so"),
        package: "libopenblas-pthread-dev",
        purpose: "a library whose threads wait busily",
        demo: false,
    },
    program("clang", "clang", "builds programs that wait busily, as gcc does"),
    program("objdump", "binutils", "a second opinion on machine code"),
    program("valgrind", "valgrind", "counts instructions where the processor does not"),
    program("gdb", "gdb", "a program under a debugger must run unchanged"),
    program("tmux", "tmux", "a terminal in which `manx top` is tried"),
    program("chromium", "chromium", "shows the pages of `manx report` in tests"),
    program("pkg-config", "pkg-config", "finds what is installed for C programs"),
    program("mmdebstrap", "mmdebstrap", "fetches the system that packages are linked with and tried in"),
    program("prometheus", "prometheus", "scrapes `manx exporter`, and checks its rules"),
    program("etcd", "etcd-server", "a cluster, on which the features `etcd` and `cluster` are tried"),
    program("etcdctl", "etcd-client", "makes users in a cluster"),
    program("git", "git", "a real program that must run unchanged"),
    program("openssl", "openssl", "a real program that must run unchanged"),
    program("python3", "python3", "a real program with threads that must run unchanged"),
    program("redis-server", "redis-server", "a real server that must run unchanged"),
    program("redis-benchmark", "redis-tools", "loads redis-server"),
    program("sqlite3", "sqlite3", "a real program that must run unchanged"),
    program("mariadbd", "mariadb-server", SERVER),
    program("sysbench", "sysbench", "loads mariadbd"),
    program("memcached", "memcached", SERVER),
    program("postgres", "postgresql", SERVER),
];

/// The purpose of the servers.
const SERVER: &str = "a server of `manx bench servers`";

/// What is set up only if it is asked for.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum More {
    /// The programs of `manx bench victims`: Python packages, ggml, Open MPI, Redis,
    /// PostgreSQL, Erlang, OpenBLAS
    Victims,
    /// The programs of `manx bench harm`: OpenMP, Java, stress-ng, servers and their clients
    Harm,
    /// MongoDB's drivers, with which bench/mongo is tried
    Mongo,
    /// WiredTiger 11.3.1 from its source, as it is and with the paper's repairs
    Wiredtiger,
    /// What `cargo xtask demo` needs, which sets it up by itself
    Demo,
}

/// For whom something is installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// All that the tests use.
    Tests,
    /// What the demo uses.
    Demo,
}

/// Installs what is missing, or says what to install by hand.
///
/// # Errors
/// None that the rest could not go on without; see [`ensure`].
pub fn run() -> Result {
    if let Some(missing) = ensure(For::Tests) {
        println!("{missing}");
    }
    Ok(())
}

/// Installs what is missing and possible. What is still missing afterwards comes back as a
/// sentence.
pub fn ensure(whom: For) -> Option<String> {
    if whom == For::Tests
        && let Err(why) = axe::run(find("npm"))
    {
        println!("setup: left out: axe-core, which checks pages: {why}");
    }
    let missing = missing(whom);
    if missing.is_empty() {
        println!("setup: nothing is missing");
        return None;
    }
    announce_and_install(&missing);
    let missing = self::missing(whom);
    if missing.is_empty() {
        return None;
    }
    Some(format!("install by hand: apt-get install {}", packages(&missing).join(" ")))
}

fn announce_and_install(missing: &[&Need]) {
    for need in missing {
        println!("setup: {} is missing ({})", need.package, need.purpose);
    }
    if let Err(why) = install(missing) {
        println!("setup: {why}");
    }
}

/// What to install if none of the databases of `manx bench engines` is there; with one of them it
/// runs.
pub fn without_databases() -> Option<String> {
    without_any("database", DATABASE)
}

/// The same for the servers of `manx bench servers`.
pub fn without_servers() -> Option<String> {
    without_any("server", SERVER)
}

fn without_any(what: &str, purpose: &str) -> Option<String> {
    let needs: Vec<&Need> = NEEDS.iter().filter(|need| need.purpose == purpose).collect();
    if needs.iter().any(|need| need.sign.is_there()) {
        return None;
    }
    Some(format!("there is no {what} to measure: apt-get install {}", packages(&needs).join(" ")))
}

fn missing(whom: For) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| (whom == For::Tests || need.demo) && !need.sign.is_there()).collect()
}

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    let mut names: Vec<_> = needs.iter().map(|need| need.package).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn install(missing: &[&Need]) -> Result {
    let apt = find("apt-get").ok_or("there is no apt-get here, so nothing is installed")?;
    if capture(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err("only root may install packages, so nothing is installed".into());
    }
    let _quiet = NoServices::new();
    let apt = |words: &[&str], limit| {
        let mut command = Command::new(&apt);
        // No question is asked, and a server that is installed is not started where that can be
        // told.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command.args(["-q", "-o", "DPkg::Lock::Timeout=120"]).args(words);
        run_command(&mut command, Duration::from_secs(limit))
    };
    // Old lists may still do, so the installation is tried even if this fails.
    let update = apt(&["update"], 180);
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(packages(missing));
    apt(&words, 480).map_err(|why| match update {
        Ok(()) => why,
        Err(first) => format!("{first}; {why}"),
    })
}

/// The script that packages ask before they start a service. It answers no until the drop of this,
/// so that no service that was installed disturbs a measurement. A script that the machine has
/// already stays as it is.
struct NoServices(Option<&'static Path>);

impl NoServices {
    fn new() -> NoServices {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy);
        let written = file.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n"));
        NoServices(written.is_ok().then_some(policy))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.0 {
            // The script is ours. If it is gone already, there is nothing to do.
            let _ = std::fs::remove_file(policy);
        }
    }
}

/// Where Debian has the OpenBLAS whose threads wait busily.
const OPENBLAS: &str = "/usr/lib/x86_64-linux-gnu/openblas-pthread";

impl Sign {
    fn is_there(&self) -> bool {
        match self {
            Sign::Program(name) => find(name).is_some(),
            Sign::Programs(names) => names.iter().all(|name| find(name).is_some()),
            Sign::Package(name) => {
                let asked =
                    capture(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", name]));
                asked.is_ok_and(|status| status == "installed")
            }
            Sign::Header(name) => {
                let folders = ["/usr/include", "/usr/local/include", "/usr/include/x86_64-linux-gnu"].iter();
                folders.map(Path::new).any(|folder| folder.join(name).is_file())
            }
            Sign::Library(name) => {
                // Not the folder in which Debian's `libopenblas.so` is any of three libraries.
                let folders = [OPENBLAS, "/usr/local/lib", "/usr/lib64", "/usr/lib"].iter();
                folders.map(Path::new).any(|folder| folder.join(name).is_file())
            }
            Sign::OpenMpi(name) => open_mpi(name).is_ok(),
        }
    }
}

/// The first file of this name in the folders of PATH and of servers. Debian leaves those of
/// servers out of PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let servers = versions.map(|version| version.path().join("bin")).chain(["/usr/sbin".into()]);
    env::split_paths(&path).chain(servers).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The program of Open MPI of this name, `mpirun` or `mpicc`, also where the system prefers another
/// MPI.
///
/// # Errors
/// If there is none; the error names the program that is in its place.
pub fn open_mpi(name: &str) -> Result<PathBuf> {
    if let Some(own) = find(&format!("{name}.openmpi")) {
        return Ok(own);
    }
    let file = find(name).ok_or_else(|| format!("{name} is not installed"))?;
    let says =
        capture(Command::new(&file).arg(if name == "mpicc" { "--showme:version" } else { "--version" }));
    if says.is_ok_and(|says| says.contains("Open MPI")) {
        return Ok(file);
    }
    Err(format!("{} is not Open MPI's, and there is no {name}.openmpi", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_headers_are_looked_for() {
        assert!(Sign::Program("sh").is_there());
        assert!(!Sign::Program("no-such-program-of-manx").is_there());
        assert!(Sign::Programs(vec!["sh", "ls"]).is_there());
        assert!(!Sign::Programs(vec!["sh", "no-such-program-of-manx"]).is_there());
        assert!(!Sign::Package("no-such-package-of-manx").is_there());
        assert!(!Sign::Header("no-such-header-of-manx.h").is_there());
        assert!(!Sign::Library("libno-such-library-of-manx.so").is_there());
        assert!(!Sign::OpenMpi("no-such-program-of-manx").is_there());
        // It is there, and is not Open MPI's.
        assert!(open_mpi("sh").unwrap_err().contains("/sh is not Open MPI's"));
    }

    #[test]
    fn a_package_is_named_once() {
        let twice = [&NEEDS[0], &NEEDS[2], &NEEDS[0]];
        assert_eq!(packages(&twice), ["gcc", "libwiredtiger-dev"]);
    }

    #[test]
    fn one_database_is_enough() {
        let names = NEEDS.iter().filter(|need| need.purpose == DATABASE).count();
        let there = NEEDS.iter().filter(|need| need.purpose == DATABASE && need.sign.is_there()).count();
        assert!(names > 1);
        assert_eq!(without_databases().is_none(), there > 0);
    }

    #[test]
    fn each_server_is_a_need() {
        let packages: Vec<&str> =
            NEEDS.iter().filter(|need| need.purpose == SERVER).map(|need| need.package).collect();
        assert_eq!(packages, ["mariadb-server", "memcached", "postgresql"]);
    }

    #[test]
    fn the_demo_needs_no_more_than_the_tests() {
        let engine = NEEDS.iter().find(|need| need.package == "libwiredtiger-dev").unwrap();
        assert!(engine.demo);
        assert!(missing(For::Demo).len() <= missing(For::Tests).len());
    }
}
