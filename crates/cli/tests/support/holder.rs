//! A process that maps files, as a process under Manx maps its library and its live file.

use super::Sandbox;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::{Running, copy_program};

const HOLDER: &str = include_str!("../../../exporter/tests/support/holder.c");

/// A process that maps `files`; it ends when this is dropped.
pub struct Holder(Running);

impl Holder {
    pub fn start(sandbox: &Sandbox, files: &[&Path]) -> Holder {
        Holder::named(sandbox, "holder", files)
    }

    /// The same, of a program whose file has this name.
    pub fn named(sandbox: &Sandbox, name: &str, files: &[&Path]) -> Holder {
        let program = Holder::program(sandbox, name);
        let mut running = Running::start(Command::new(program).arg("0").args(files));
        assert_eq!(running.line().as_deref(), Some("ready"));
        Holder(running)
    }

    /// The file of the program.
    pub fn program(sandbox: &Sandbox, name: &str) -> PathBuf {
        let compiled = sandbox.compile("holder", HOLDER, &[]).expect("a C compiler");
        let program = sandbox.path(name);
        if program != compiled {
            copy_program(compiled, &program);
        }
        program
    }

    pub fn pid(&self) -> u32 {
        self.0.child.id()
    }

    /// Lets it run a little.
    pub fn wake(&mut self) {
        self.0.child.stdin.as_mut().expect("a pipe").write_all(b"x\n").expect("it lives");
    }
}
