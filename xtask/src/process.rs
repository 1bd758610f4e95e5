//! Running another program: shown before it starts, without standard input, and never for ever.
//!
//! A step that hangs would take the whole of CI's time with it, so [`run`] ends a program that
//! passes its limit, together with everything that it started. The children stay in our own process
//! group, so that an interrupt from the terminal reaches them as well; hence the family tree is
//! read from `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Result;

/// How long the last lines of a command that has ended are waited for.
const DRAINED: Duration = Duration::from_secs(2);
/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The folder of the workspace's Cargo.toml, known when this tool is compiled. Commands run there.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Runs a command to its end, with our standard output and error.
///
/// # Errors
/// If it cannot be started, fails, or is still running after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result {
    let shown = show(command);
    println!("$ {shown}");
    let status = wait(command.stdin(Stdio::null()), limit, &shown)?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}

/// Runs a command to its end, with our standard output and error, and shows each line of its
/// standard output to `look` as well.
///
/// # Errors
/// Those of [`run`].
pub fn run_and_look(
    command: &mut Command,
    limit: Duration,
    mut look: impl FnMut(&str) + Send + 'static,
) -> Result {
    run_and_take(command, limit, move |line| {
        let _ = io::stdout().write_all(line);
        look(String::from_utf8_lossy(line).trim_end());
    })
}

/// Runs a command to its end, with our standard error, and gives each line of its standard output
/// to `take`, with the line's end.
///
/// # Errors
/// Those of [`run`].
pub fn run_and_take(
    command: &mut Command,
    limit: Duration,
    mut take: impl FnMut(&[u8]) + Send + 'static,
) -> Result {
    let (reader, writer) = io::pipe().map_err(|error| format!("no pipe: {error}"))?;
    let (ended, end) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ended = ended;
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            take(&line);
            line.clear();
        }
    });
    let result = run(command.stdout(writer), limit);
    // The command keeps a copy of the pipe's end.
    command.stdout(Stdio::null());
    // A process that the command left behind may have the pipe still open.
    let _ = end.recv_timeout(DRAINED);
    result
}

/// Runs a command to its end and returns what it printed on standard output.
///
/// # Errors
/// If it cannot be started or fails; the text has what it printed on standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{shown}` could not be started: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{shown}` failed: {}\n{}", output.status, text.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{shown}` printed something that is not UTF-8"))
}

fn wait(command: &mut Command, limit: Duration, shown: &str) -> Result<ExitStatus> {
    let begin = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("`{shown}` could not be started: {error}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begin.elapsed() < limit => thread::sleep(POLL),
            Ok(None) => {
                end_family(child.id());
                // It was told to end and cannot refuse; this collects it.
                let _ = child.wait();
                return Err(format!("`{shown}` was still running after {} s and was ended", limit.as_secs()));
            }
            Err(error) => return Err(format!("`{shown}` could not be waited for: {error}")),
        }
    }
}

/// Ends a process and all that descend from it. The whole tree is read first: what loses its parent
/// can no longer be found by it.
fn end_family(process: u32) {
    let parents = parents();
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0));
        next += 1;
    }
    let numbers = family.iter().map(u32::to_string);
    let _ = Command::new("kill").arg("-KILL").args(numbers).stderr(Stdio::null()).status();
}

/// Every process of the machine that we may see, with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, in parentheses, may hold anything; behind it come the state and the parent.
            let (_, rest) = stat.rsplit_once(')')?;
            Some((process, rest.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

/// The command as one would type it.
pub fn show(command: &Command) -> String {
    let environment =
        command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.display(), quote(value?))));
    let program = Path::new(command.get_program());
    // The path of the cargo that runs us is of no interest to whoever wants to type it.
    let program = if program.ends_with("cargo") { Path::new("cargo") } else { program };
    let words = std::iter::once(program.as_os_str()).chain(command.get_args()).map(quote);
    environment.chain(words).collect::<Vec<_>>().join(" ")
}

/// One word of it. Paths below the root are given from there, which is where commands run.
fn quote(word: &OsStr) -> String {
    let inside = Path::new(word).strip_prefix(root()).ok().filter(|path| !path.as_os_str().is_empty());
    let text = inside.map_or(word, Path::as_os_str).to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./:,+@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command.args(["test", "it's", "a b", ""]).env("RUSTFLAGS", "-D warnings").env_remove("CI");
        assert_eq!(show(&command), r"RUSTFLAGS='-D warnings' cargo test 'it'\''s' 'a b' ''");
    }

    #[test]
    fn paths_are_given_from_the_root() {
        let command = Command::new(root().join("target/release/manx"));
        assert_eq!(show(&command), "target/release/manx");
        assert_eq!(show(&Command::new("/opt/rust/bin/cargo")), "cargo");
    }

    #[test]
    fn a_failure_names_the_command_and_its_status() {
        let error = run(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(60)).unwrap_err();
        assert_eq!(error, "`sh -c 'exit 3'` failed: exit status: 3");
    }

    #[test]
    fn each_line_is_looked_at_even_if_a_child_stays_behind() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 20 & echo one; printf two; exit 3"]);
        let look = move |line: &str| seen.lock().unwrap().push(line.to_owned());
        let error = run_and_look(&mut command, Duration::from_secs(60), look).unwrap_err();
        assert!(error.ends_with("exit status: 3"), "{error}");
        assert_eq!(lines.lock().unwrap()[0], "one");
    }

    #[test]
    fn output_of_a_failing_command_is_kept() {
        let error = capture(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).unwrap_err();
        assert!(error.ends_with("exit status: 1\nwhy"), "{error}");
    }

    #[test]
    fn a_program_that_never_ends_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let script = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
        // On a busy machine the shell may begin late.
        let has_begun = (0..7).map(|power| 1 << power).any(|seconds| {
            let mut command = Command::new("sh");
            let error = run(command.args(["-c", &script]), Duration::from_secs(seconds)).unwrap_err();
            assert!(error.contains(&format!("still running after {seconds} s")), "{error}");
            fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
        });
        assert!(has_begun);
        let child: u32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        // Dead, or dead and not yet collected by its new parent.
        let gone = || {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
        };
        let begin = Instant::now();
        while !gone() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(POLL);
        }
        assert!(gone(), "process {child} is still there");
    }
}
