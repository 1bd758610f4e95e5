//! A terminal for a test: a shell in tmux, with a server of its own.

use super::{MANX, Sandbox, bare};
use std::process::Command;
use testing::eventually;
use testing::process::{is_installed, succeed};

/// A shell in a terminal. It ends when this is dropped.
pub struct Terminal<'a> {
    sandbox: &'a Sandbox,
}

impl Terminal<'_> {
    /// A terminal of this size; `None` if there is no tmux, and the test is skipped.
    pub fn open(sandbox: &Sandbox, columns: u16, rows: u16) -> Option<Terminal<'_>> {
        if !is_installed("tmux", "-V") {
            return None;
        }
        let it = Terminal { sandbox };
        let size = ["-x".to_owned(), columns.to_string(), "-y".to_owned(), rows.to_string()];
        // `manx` is a function, so that what is typed fits into a line.
        let shell = sandbox.write("rc", format!("PS1='$ '; ulimit -c 0; manx() {{ '{MANX}' \"$@\"; }}\n"));
        let mut command = it.tmux(&["-f", "/dev/null", "new-session", "-d"]);
        command.args(size).arg(format!("ENV='{}' exec sh", shell.display()));
        succeed(command.current_dir(sandbox.path("")));
        it.wait("a prompt", |screen| screen.starts_with("$"));
        Some(it)
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = bare("tmux");
        for variable in ["TMUX", "NO_COLOR", "TERM"] {
            command.env_remove(variable);
        }
        command.arg("-S").arg(self.sandbox.path("tmux")).args(arguments);
        command
    }

    /// Types keys, as tmux names them.
    pub fn keys(&self, keys: &[&str]) {
        succeed(self.tmux(&["send-keys"]).args(keys));
    }

    /// Types a line to the shell.
    pub fn line(&self, line: &str) {
        succeed(&mut self.tmux(&["send-keys", "-l", line]));
        self.keys(&["Enter"]);
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        succeed(&mut self.tmux(&["capture-pane", "-p"]))
    }

    /// The same with its attributes and colours.
    pub fn coloured(&self) -> String {
        succeed(&mut self.tmux(&["capture-pane", "-p", "-e"]))
    }

    /// Waits until the screen is as it should be, and returns it.
    #[track_caller]
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let began = std::time::Instant::now();
        eventually(what, || {
            last = self.screen();
            // The screen says more than the limit of `eventually` would.
            assert!(began.elapsed() < testing::LONG / 2, "it does not come: {what}; the screen is\n{last}");
            is_so(&last).then_some(())
        });
        last
    }

    /// Whether a program has taken the screen for itself.
    pub fn is_alternate(&self) -> bool {
        succeed(&mut self.tmux(&["display-message", "-p", "#{alternate_on}"])).trim() == "1"
    }

    /// Another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = ["-x".to_owned(), columns.to_string(), "-y".to_owned(), rows.to_string()];
        succeed(self.tmux(&["resize-window"]).args(size));
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}
