//! The usual clients of Redis, unchanged, with their usual calls: `redis-py`, `ioredis`, `go-redis`
//! and Jedis.
//!
//! Each has a program here. Its packages, of fixed versions, come from the language's registry into
//! a temporary folder. Where the language is missing, or the registry cannot be reached, the test
//! is skipped.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testing::process::{is_installed, succeed};

/// For an attempt to install, in seconds. Now and then a registry does not answer one of many
/// requests, and its client waits for good; …
const INSTALLATION_S: &str = "80";
/// … a registry that fails in this number of attempts counts as one that is not there.
const ATTEMPTS: usize = 3;

/// A server that is killed at the end.
struct Served {
    process: Child,
    host: String,
    port: String,
}

impl Served {
    fn start(model: &str) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manx-serve"));
        command.args(["--listen", "127.0.0.1:0", "--model", model]);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("manx-serve starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("manx: listening on ").and_then(|rest| rest.split(',').next());
        let (host, port) = address.and_then(|address| address.rsplit_once(':')).expect("an address");
        Served { process, host: host.into(), port: port.into() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file beside this one.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a command that needs a registry in this folder. If it fails the test is skipped.
fn install(folder: &Path, words: &[&str]) -> bool {
    let attempt = || {
        let mut command = Command::new("timeout");
        command.arg(INSTALLATION_S).args(words).current_dir(folder).stdin(Stdio::null());
        let output = command.output().expect("timeout is a program of coreutils");
        (!output.status.success()).then(|| testing::process::text(&[output.stdout, output.stderr].concat()))
    };
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        failed = attempt();
        if failed.is_none() {
            break;
        }
    }
    if let Some(why) = &failed {
        let last = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word about it");
        testing::skip(format!("packages cannot be installed: {}: {last}", words.join(" ")));
    }
    failed.is_none()
}

/// Runs the client with a server of each model: `client` is its command, to which the server's host
/// and port are added.
fn run(client: impl Fn(&Served) -> Command) {
    for model in ["pool", "threads"] {
        let served = Served::start(model);
        assert_eq!(succeed(&mut client(&served)).trim(), "done", "{model}");
    }
}

#[test]
fn redis_py() {
    if !is_installed("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pip = ["python3", "-m", "pip", "install", "--quiet", "--target", ".", "redis==5.2.1"];
    if !install(folder.path(), &pip) {
        return;
    }
    run(|Served { host, port, .. }| {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(source("python/client.py")).args([host, port]);
        command
    });
}

#[test]
fn ioredis() {
    if !is_installed("node", "--version") || !is_installed("npm", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Node trusts a list of its own; a proxy of the network may be in the machine's alone.
    let trusted = "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt";
    let npm = ["env", trusted, "npm", "install", "--prefix", ".", "--no-audit", "--no-fund", "ioredis@5.4.1"];
    if !install(folder.path(), &npm) {
        return;
    }
    run(|Served { host, port, .. }| {
        let mut command = Command::new("node");
        command.env("NODE_PATH", folder.path().join("node_modules"));
        command.arg(source("node/client.js")).args([host, port]);
        command
    });
}

#[test]
fn go_redis() {
    if !is_installed("go", "version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["client.go", "go.mod", "go.sum"] {
        std::fs::copy(source("go").join(name), folder.path().join(name)).unwrap();
    }
    // The compiler itself comes from no registry.
    if !install(folder.path(), &["env", "GOTOOLCHAIN=local", "go", "mod", "download"]) {
        return;
    }
    let mut build = Command::new("go");
    build.args(["build", "-o", "client", "."]).env("GOTOOLCHAIN", "local").current_dir(folder.path());
    assert!(build.status().expect("go is there").success(), "{build:?}");
    run(|Served { host, port, .. }| {
        let mut command = Command::new(folder.path().join("client"));
        command.arg(format!("{host}:{port}"));
        command
    });
}

#[test]
fn jedis() {
    if !is_installed("javac", "-version") || !is_installed("mvn", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(source("java/pom.xml"), folder.path().join("pom.xml")).unwrap();
    let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    if !install(folder.path(), &["mvn", "-q", "-B", copy, "-DoutputDirectory=lib"]) {
        return;
    }
    let file = source("java/Client.java");
    // With options in this variable, both write about it to standard error.
    let java = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder.path()).env_remove("JAVA_TOOL_OPTIONS");
        command
    };
    succeed(java("javac").args(["-cp", "lib/*", "-d", "."]).arg(file));
    run(|Served { host, port, .. }| {
        let mut command = java("java");
        command.args(["-cp", "lib/*:.", "Client", host, port]);
        command
    });
}
