//! A process that maps files, as a process under Manx maps its library and its live file.

use super::Sandbox;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::Running;

/// Maps the files that it is given, says so, and waits for the end of its input. It runs a little
/// for each byte that it reads.
const HOLDER: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++) {
        int file = open(names[i], O_RDWR);
        if (file < 0 || mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
            return 1;
        close(file);
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}"#;

/// A process that maps `files`; it ends when this is dropped.
pub struct Holder(Running);

impl Holder {
    pub fn start(sandbox: &Sandbox, files: &[&Path]) -> Holder {
        Holder::named(sandbox, "holder", files)
    }

    /// The same, of a program whose file has this name.
    pub fn named(sandbox: &Sandbox, name: &str, files: &[&Path]) -> Holder {
        let program = Holder::program(sandbox, name);
        let mut running = Running::start(Command::new(program).args(files));
        assert_eq!(running.line().as_deref(), Some("ready"));
        Holder(running)
    }

    /// The file of the program.
    pub fn program(sandbox: &Sandbox, name: &str) -> PathBuf {
        let compiled = sandbox.compile("holder", HOLDER, &[]).expect("a C compiler");
        let program = sandbox.path(name);
        if program != compiled {
            fs::copy(compiled, &program).expect("copied");
        }
        program
    }

    pub fn pid(&self) -> u32 {
        self.0.child.id()
    }

    /// Lets it run a little.
    pub fn wake(&mut self) {
        self.0.child.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it lives");
    }
}
