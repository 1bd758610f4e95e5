//! How far the demo is, for people to look at, and what a failed part has said.

use std::cell::OnceCell;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Instant;

/// One line that says what happens now. Where the output is no terminal, each new stage is a line.
#[derive(Default)]
pub struct Progress {
    begin: OnceCell<Instant>,
}

impl Progress {
    /// Begins a stage.
    pub fn say(&self, stage: &str) {
        self.show(stage);
        if !io::stdout().is_terminal() {
            println!();
        }
    }

    /// Shows how far the stage is, on a terminal alone.
    pub fn update(&self, stage: &str) {
        if io::stdout().is_terminal() {
            self.show(stage);
        }
    }

    fn show(&self, stage: &str) {
        let seconds = self.begin.get_or_init(Instant::now).elapsed().as_secs();
        let clear = if io::stdout().is_terminal() { "\r\x1b[K" } else { "" };
        print!("{clear}{}:{:02}  {stage}", seconds / 60, seconds % 60);
        // It is for people to look at: if it cannot be written, the demo goes on.
        let _ = io::stdout().flush();
    }

    /// Takes the line away.
    pub fn end(&self) {
        if io::stdout().is_terminal() {
            print!("\r\x1b[K");
        }
    }
}

/// The last lines of a file, for the message of a failure.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
