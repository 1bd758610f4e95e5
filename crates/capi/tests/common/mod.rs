//! Compiles programs in C and C++ against libmanx as it was built beside the test, and runs them.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use testing::process::{compiler, succeed};

/// How a program comes to libmanx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// By the shared library.
    Shared,
    /// By the static library.
    Static,
    /// By the static library, with the program's own names visible to other libraries.
    StaticExported,
    /// Not at all.
    Nothing,
}

/// A program to compile.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its source, from the package's folder.
    pub source: &'a str,
    /// The language's version, such as `c99` or `c++17`.
    pub standard: &'a str,
    /// How it is linked.
    pub link: Link,
}

/// The package's folder.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder for this test process's files.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")).path()
}

fn built(name: &str) -> PathBuf {
    let file = std::env::current_exe().expect("the test's own path").with_file_name(name);
    assert!(file.exists(), "{}: not built", file.display());
    file
}

/// The preload library.
pub fn preload() -> PathBuf {
    built("libmanx_preload.so")
}

/// Where `libmanx.a`, `libmanx.so` and `libmanx.so.0` are, made from what cargo built.
pub fn libraries() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let into = folder().join("lib");
        std::fs::create_dir_all(&into).expect("a folder");
        let archive = into.join("libmanx.a");
        std::os::unix::fs::symlink(built("libmanx_c.a"), &archive).expect("a link");
        std::os::unix::fs::symlink("libmanx.so.0", into.join("libmanx.so")).expect("a link");
        let mut script = std::ffi::OsString::from("-Wl,--version-script=");
        script.push(package().join("link/manx.map"));
        let mut linker = Command::new("cc");
        linker.args(["-shared", "-Wl,-soname,libmanx.so.0", "-Wl,--gc-sections", "-Wl,-z,defs"]).arg(script);
        linker.arg("-o").arg(into.join("libmanx.so.0"));
        linker.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
        succeed(&mut linker);
        into
    })
}

/// Compiles a program with all warnings as errors, and returns its path.
pub fn compile(program: Program, flags: &[&str]) -> PathBuf {
    let Program { source, standard, link } = program;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let into = folder().join(format!("{number}-{}-{standard}-{link:?}", source.replace('/', "-")));
    let mut compiler = compiler(&package().join(source));
    compiler.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"]);
    compiler.arg(format!("-std={standard}")).arg("-I").arg(package().join("include"));
    compiler.args(flags).arg("-o").arg(&into);
    match link {
        Link::Shared => {
            compiler.arg("-L").arg(libraries()).arg("-lmanx");
            compiler.arg(format!("-Wl,-rpath,{}", libraries().display()));
        }
        Link::Static | Link::StaticExported => {
            compiler.arg(libraries().join("libmanx.a")).args(["-ldl", "-lm"]);
        }
        Link::Nothing => {}
    }
    if link == Link::StaticExported {
        compiler.arg("-rdynamic");
    }
    succeed(&mut compiler);
    into
}

/// Compiles a source with all warnings as errors and links nothing; `of` names it if that fails.
#[track_caller]
pub fn check(of: &str, standard: &str, source: &str) {
    let (compiler, extension) = if standard.starts_with("c++") { ("c++", "cpp") } else { ("cc", "c") };
    let file = folder().join(format!("{}.{extension}", of.replace('/', "-")));
    std::fs::write(&file, source).expect("a written file");
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_DEFAULT_SOURCE"]);
    command.arg(format!("-std={standard}")).arg("-I").arg(package().join("include")).arg(file);
    succeed(&mut command);
}

/// Runs a program, with the preload library or without it. It must succeed and complain about
/// nothing; what it said is returned.
#[track_caller]
pub fn run(program: &Path, arguments: &[&str], preloaded: bool) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    // Cargo sets a path to other builds of the same libraries.
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "MANX", "MANX_OPTIONS", "MANX_CORES"] {
        command.env_remove(variable);
    }
    if preloaded {
        command.env("LD_PRELOAD", preload()).env("MANX_OPTIONS", "lock=manx");
    }
    succeed(&mut command)
}
