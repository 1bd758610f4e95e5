//! Copies of a program side by side, each of which measures itself.
//!
//! 1. A copy is started once the one before it is warm and waits, so that warming up is the same alone and in a pair.
//!    They are let go together.
//! 2. A copy that has measured enough goes on without a word until all have: none of them is ever measured alone.
//! 3. Copies that have not measured enough within the limit are ended. What they measured until then counts, and the operation
//!    that runs counts with what it has taken so far.
//! 4. A copy that ends by itself before its input is closed, or badly after it, has failed.

use super::heard::Heard;
use crate::child::{self, collect, ending, has_ended, kill_group};
use crate::error::{Error, reason};
use crate::interrupt::{self, Registered};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Loading libraries and warming up, at most.
const WARM: Duration = Duration::from_secs(120);
/// How long a copy whose input was closed may take to end: the operation that runs, and its threads.
const END: Duration = Duration::from_secs(30);
/// How often it is looked whether the user interrupts.
const POLL: Duration = Duration::from_millis(50);

/// A line of the copy of this number, or the end of what it says.
type Line = (usize, Option<String>);

/// How the copies ended.
#[derive(Debug)]
pub struct Outcome {
    /// What each has said
    pub heard: Vec<Heard>,
    /// The limit was over before all had measured enough
    pub cut: bool,
    /// All ended in time once their input was closed; a busy waiter may not
    pub ended: bool,
}

/// A copy that runs; it is ended when this is dropped.
struct Copy {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    registered: Option<Registered>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

/// Runs a copy of each command on `cpus`, measured for at most `limit`.
///
/// # Errors
/// If one cannot be started or fails (Invariant 4), or the user interrupts.
pub fn run(commands: Vec<Command>, cpus: &[usize], limit: Duration) -> Result<Outcome, Error> {
    let (sender, lines) = channel();
    let mut copies: Vec<Copy> = Vec::new();
    let mut heard: Vec<Heard> = Vec::new();
    for command in commands {
        let at = copies.len();
        copies.push(Copy::start(at, command, cpus, &sender)?);
        heard.push(Heard::default());
        let warm = listen(&mut copies, &lines, &mut heard, Instant::now() + WARM, |heard| heard[at].ready)?;
        if !warm {
            return Err(copies[at].failed(&format!("was not warm within {} s", WARM.as_secs())));
        }
    }
    for copy in &mut copies {
        // One that is gone already says so by the end of its lines.
        let _ = copy.input.as_mut().map(|input| input.write_all(b"go\n"));
    }
    let done = |heard: &[Heard]| heard.iter().all(|one| one.cpu_ns.is_some());
    let cut = !listen(&mut copies, &lines, &mut heard, Instant::now() + limit, done)?;
    if cut {
        let now = now_ns();
        heard.iter_mut().filter(|one| one.cpu_ns.is_none()).for_each(|one| one.cut(now)); // Invariant 3
        return Ok(Outcome { heard, cut, ended: false });
    }
    let ended = finish(&mut copies)?;
    Ok(Outcome { heard, cut, ended })
}

/// Takes lines until `enough` says so or `deadline` is over; false then.
fn listen(
    copies: &mut [Copy],
    lines: &Receiver<Line>,
    heard: &mut [Heard],
    deadline: Instant,
    enough: impl Fn(&[Heard]) -> bool,
) -> Result<bool, Error> {
    loop {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        match lines.recv_timeout(POLL) {
            Ok((at, Some(line))) => heard[at].line(&line).map_err(|why| copies[at].failed(&why))?,
            Ok((at, None)) => {
                let why = copies[at].status();
                return Err(copies[at].failed(&why)); // Invariant 4
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if enough(heard) {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
    }
}

/// Closes all inputs, and waits for the ends; false if one did not come.
fn finish(copies: &mut [Copy]) -> Result<bool, Error> {
    copies.iter_mut().for_each(|copy| drop(copy.input.take()));
    let deadline = Instant::now() + END;
    for copy in copies {
        while !has_ended(copy.leader()) {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(POLL / 10);
        }
        let why = copy.status();
        if why != SUCCESS {
            return Err(copy.failed(&why));
        }
    }
    Ok(true)
}

/// What the status of a copy that did not fail says.
const SUCCESS: &str = "ended with status 0";

impl Copy {
    fn start(at: usize, mut command: Command, cpus: &[usize], sender: &Sender<Line>) -> Result<Copy, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        child::own_session(&mut command);
        pin(&mut command, cpus);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            Error::request(
                format!("{name}: {}", reason(&error)),
                "the program that is to be measured cannot be started",
            )
        })?;
        let registered = Registered::new(child.id() as i32);
        let (input, stdout) = (child.stdin.take(), child.stdout.take());
        let stderr = child.stderr.take().map(collect);
        let sender = sender.clone();
        std::thread::spawn(move || {
            // If nobody listens any more, the copies have been ended.
            for line in stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok)
            {
                let _ = sender.send((at, Some(line)));
            }
            let _ = sender.send((at, None));
        });
        Ok(Copy { name, child, input, registered: Some(registered), stderr })
    }

    fn leader(&self) -> i32 {
        self.child.id() as i32
    }

    /// Ends it, with all that it started, and says how it ended.
    fn status(&mut self) -> String {
        let deadline = Instant::now() + END;
        while !has_ended(self.leader()) && Instant::now() < deadline {
            std::thread::sleep(POLL / 10);
        }
        self.end();
        match self.child.wait() {
            Ok(status) => ending(status),
            Err(error) => reason(&error),
        }
    }

    fn end(&mut self) {
        // What is registered has not been reaped, and is forgotten before it is.
        if let Some(registered) = self.registered.take() {
            kill_group(self.leader());
            drop(registered);
        }
    }

    fn failed(&mut self, why: &str) -> Error {
        self.end();
        let _ = self.child.wait();
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Error::Failed { what: format!("{}: {why}", self.name), stderr }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

/// The child runs on these CPUs only.
fn pin(command: &mut Command, cpus: &[usize]) {
    // SAFETY: a set of no CPUs is all zeroes, and the indices are the kernel's own, which lie within it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        set
    };
    let hook = move || {
        // SAFETY: between fork and exec only this async-signal-safe call, on a copy of the set.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the hook allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
}

/// The monotonic clock, as the copies read it.
fn now_ns() -> u64 {
    // SAFETY: the clock exists, and the kernel writes the structure.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run(scripts: &[&str], limit_ms: u64) -> Result<Outcome, Error> {
        let commands = scripts.iter().map(|script| shell(script)).collect();
        super::run(commands, &crate::machine::cpus(), Duration::from_millis(limit_ms))
    }

    const LIMIT: u64 = 30_000;
    const GOOD: &str = "echo ready; read go; echo begin 5; echo op 9 4 aa; echo done 9 3; cat";

    #[test]
    fn each_is_measured_and_all_end_when_all_have_enough() {
        let outcome = run(&[GOOD, GOOD], LIMIT).unwrap();
        assert!(outcome.ended && !outcome.cut);
        for heard in &outcome.heard {
            assert_eq!((heard.latencies.count(), heard.cpu_ns), (1, Some(3)));
        }
    }

    #[test]
    fn one_that_takes_too_long_is_cut_off_and_keeps_what_it_measured() {
        let outcome =
            run(&[GOOD, "echo ready; read go; echo begin 5; echo op 9 4 aa; sleep 1000"], 300).unwrap();
        assert!(outcome.cut);
        let cut = &outcome.heard[1];
        assert_eq!((cut.latencies.count(), cut.cpu_ns), (2, None));
        assert!(cut.latencies.summary().max_ns > 1_000_000);
        assert_eq!(outcome.heard[0].latencies.count(), 1);
    }

    #[test]
    fn one_that_ends_before_its_time_has_failed_with_its_words() {
        let failed = |scripts: &[&str]| match run(scripts, LIMIT).unwrap_err() {
            Error::Failed { what, stderr } => (what, stderr),
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(&["echo why >&2; exit 3"]), ("sh: ended with status 3".into(), "why\n".into()));
        let (what, _) = failed(&[GOOD, "echo ready; read go; echo nonsense; cat"]);
        assert!(what.contains("'nonsense'"), "{what}");
        let (what, _) = failed(&["echo ready; read go; echo begin 1; echo done 2 1; cat; exit 4"]);
        assert_eq!(what, "sh: ended with status 4");
    }
}
