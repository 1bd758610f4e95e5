//! One run of a program: in a session and a folder of its own, within a limit.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::group::Group;
use super::programs::Prepared;
use crate::outcome::Result;
use crate::setup::find;

/// How often a run is looked at.
const POLL: Duration = Duration::from_millis(50);
/// The number of lines of a failed run's standard error that are shown.
const WORDS: usize = 15;

/// How a program is started.
pub enum Start<'a> {
    /// By itself
    AsIs,
    /// Under `manx run`; the path is that of `manx`
    Guarded(&'a Path),
}

/// How a run ended.
pub enum Ended {
    /// With status 0; this is what it printed
    Well(String),
    /// In any other way, in words
    Badly(String),
}

/// Runs it once.
///
/// # Errors
/// If it cannot be started.
pub fn run(
    program: &Prepared,
    start: Start,
    scratch: &Path,
    group: Option<&Group>,
    limit: Duration,
) -> Result<Ended> {
    let folder = Folder::new(scratch, program.name)?;
    // The shell joins the group by itself, so all that it starts is in it.
    let join = group.map_or(String::new(), |group| format!("echo $$ > '{}'\n", group.members().display()));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{join}exec \"$@\""), "sh"]);
    if let Start::Guarded(manx) = start {
        command.arg(manx).args(["run", "--"]);
    }
    command.args(["sh", "-c", &program.script]);
    // As it is, a program with more threads than CPUs may not end for minutes; its result is the
    // same with one.
    command.env("MANY", if matches!(start, Start::AsIs) { "1" } else { "4" });
    command.current_dir(&folder.path).env("LC_ALL", "C").env("HOME", &folder.path);
    let (said, complained) = (folder.path.join(".stdout"), folder.path.join(".stderr"));
    let open = |path: &Path| fs::File::create(path).map_err(|why| format!("{}: {why}", path.display()));
    command.stdin(Stdio::null()).stdout(open(&said)?).stderr(open(&complained)?);
    let hook = || {
        // SAFETY: between fork and exec only these async-signal-safe calls, on constants.
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        Ok(())
    };
    // SAFETY: the hook allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
    let mut child = command.spawn().map_err(|why| format!("sh could not be started: {why}"))?;
    let begin = Instant::now();
    while !has_ended(child.id()) && begin.elapsed() < limit {
        thread::sleep(POLL);
    }
    let hangs = !has_ended(child.id());
    let stacks = if hangs { stacks(child.id()) } else { String::new() };
    // All that is left of its session, which is its own as long as its leader has not been reaped.
    for process in session(child.id()) {
        // SAFETY: kill has no memory effects; the process descends from our child.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
    let status = child.wait().map_err(|why| format!("sh could not be waited for: {why}"))?;
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let words = text(&complained);
    let words: Vec<&str> = words.lines().collect();
    let words = words[words.len().saturating_sub(WORDS)..].join("\n");
    if hangs {
        let seconds = limit.as_secs();
        return Ok(Ended::Badly(format!("hangs: still running after {seconds} s\n{words}\n{stacks}")));
    }
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) => Ended::Well(text(&said)),
        (Some(code), _) => Ended::Badly(format!("ended with status {code}\n{words}")),
        (None, signal) => {
            Ended::Badly(format!("was ended by signal {}\n{words}", signal.unwrap_or_default()))
        }
    })
}

/// True once a child can be reaped; it is not reaped yet, so its number is still its own.
fn has_ended(child: u32) -> bool {
    // SAFETY: `info` is a plain output structure for which all zeroes are valid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, child, &mut info, options) == 0 && info.si_pid() == child as i32
    }
}

/// The processes of a session.
fn session(leader: u32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let of_session = |entry: fs::DirEntry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name in parentheses: state, parent, group, session.
        let session: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()?;
        (session == leader).then_some(process)
    };
    entries.flatten().filter_map(of_session).collect()
}

/// The stacks of all threads of a session, as far as gdb or the kernel tells.
fn stacks(leader: u32) -> String {
    let mut text = String::new();
    for process in session(leader) {
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        text += &format!("-- process {process}: {}\n", command.replace('\0', " "));
        if find("gdb").is_none() {
            text += "gdb is not installed, so there is no stack\n";
            continue;
        }
        let mut gdb = Command::new("timeout");
        gdb.args(["60", "gdb", "-nx", "-batch", "-ex", "thread apply all bt 12", "-p", &process.to_string()]);
        match gdb.stdin(Stdio::null()).stderr(Stdio::null()).output() {
            Ok(output) => text += &String::from_utf8_lossy(&output.stdout),
            Err(why) => text += &format!("gdb: {why}\n"),
        }
    }
    text
}

/// A folder for one run.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(scratch: &Path, name: &str) -> Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the numbers have to differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = scratch.join(format!("run-{}-{number}-{name}", std::process::id()));
        fs::create_dir_all(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A process that has not quite ended may still write to it; the next build's cleaning takes
        // it.
        let _ = fs::remove_dir_all(&self.path);
    }
}
