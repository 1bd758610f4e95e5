//! Copies of a program side by side; each copy measures itself.
//!
//! Invariants:
//! 1. A copy starts when the copy before it is warm and waits. So the warm-up is the same alone and
//!    in a pair. All copies begin together.
//! 2. A copy that has measured enough goes on without output until all copies have: no copy is ever
//!    measured alone.
//! 3. Copies that have not measured enough within the limit are ended. Their figures until then
//!    count, and the current operation counts with the time that it has taken so far.
//! 4. A copy has failed if it ends before its input has a second line, or later with an error. The
//!    line is there because Open MPI 5 does not tell a rank that the input is closed.
//! 5. Nothing else runs meanwhile. The copies write to files in memory, and this process parses the
//!    files at the end; until then it wakes up four times a second for some microseconds. A reader
//!    of pipes would be a neighbour. Only standard error is read from a pipe: a run without an
//!    error writes nothing there.

use crate::child::{self, collect, ending, has_ended, kill_group};
use crate::error::{Error, reason};
use crate::interrupt::{self, Registered};
use crate::machine;
use report::Histogram;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Loading libraries and warming up, at most.
const WARM: Duration = Duration::from_secs(120);
/// The time that a copy may need to end after it was told to: for the current operation, and
/// for its threads.
const END: Duration = Duration::from_secs(30);
/// The interval between two looks at the output of the copies and at interrupts.
const POLL: Duration = Duration::from_millis(250);

/// How the copies ended.
#[derive(Debug)]
pub struct Outcome {
    /// The figures of each
    pub outputs: Vec<Output>,
    /// The limit was over before all had measured enough
    pub cut: bool,
    /// All ended in time once they were told to; a busy waiter may not
    pub ended: bool,
}

/// A copy that runs; it is ended when this is dropped.
struct Copy {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    /// Its standard output
    output: File,
    /// Its output so far
    said: Vec<u8>,
    registered: Option<Registered>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

/// Runs a copy of each command on `cpus`, measured for at most `limit`. `begin` gets the process of
/// the first copy when all are warm, and `end` what `begin` returned when all have measured enough,
/// while they still run.
///
/// # Errors
/// If one cannot be started or fails (Invariant 4), if the user interrupts, and those of `begin`
/// and `end`.
pub fn run_beside<B, E>(
    commands: Vec<Command>,
    cpus: &[usize],
    limit: Duration,
    begin: impl FnOnce(i32) -> Result<B, Error>,
    end: impl FnOnce(B) -> Result<E, Error>,
) -> Result<(Outcome, E), Error> {
    let mut copies: Vec<Copy> = Vec::new();
    for command in commands {
        copies.push(Copy::start(command, cpus)?);
        let at = copies.len() - 1;
        if !wait_for(&mut copies[at..], "ready", Instant::now() + WARM)? {
            return Err(copies[at].failed(&format!("was not warm within {} s", WARM.as_secs())));
        }
    }
    let begun = begin(copies[0].leader())?;
    for copy in &mut copies {
        // A copy that has ended already is found below.
        let _ = copy.input.as_mut().map(|input| input.write_all(b"go\n"));
    }
    let cut = !wait_for(&mut copies, "done", Instant::now() + limit)?;
    // The monotonic clock, as the copies read it.
    let now = platform::clock::now_ns();
    let at_end = end(begun)?;
    let ended = !cut && finish(&mut copies)?;
    let mut outputs = copies.iter_mut().map(Copy::parse).collect::<Result<Vec<_>, _>>()?;
    if cut {
        outputs.iter_mut().filter(|one| one.cpu_ns.is_none()).for_each(|one| one.cut(now)); // Invariant 3
    }
    Ok((Outcome { outputs, cut, ended }, at_end))
}

/// Waits until the last line of each copy begins with `word`; false if `deadline` passes before.
fn wait_for(copies: &mut [Copy], word: &str, deadline: Instant) -> Result<bool, Error> {
    loop {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let mut all = true;
        for copy in &mut *copies {
            if has_ended(copy.leader()) {
                let why = copy.status();
                return Err(copy.failed(&why)); // Invariant 4
            }
            copy.read()?;
            all &= copy.last_word() == word.as_bytes();
        }
        if all {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}

/// Tells all copies to end, and waits until they have; false if one has not.
fn finish(copies: &mut [Copy]) -> Result<bool, Error> {
    for mut input in copies.iter_mut().filter_map(|copy| copy.input.take()) {
        // A copy that has ended already is found below.
        let _ = input.write_all(b"end\n");
    }
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

/// The status of a copy that did not fail, in words.
const SUCCESS: &str = "ended with status 0";

impl Copy {
    fn start(mut command: Command, cpus: &[usize]) -> Result<Copy, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |why: String| {
            Error::request(format!("{name}: {why}"), "the program that is to be measured cannot be started")
        };
        child::own_session(&mut command);
        pin(&mut command, cpus);
        let output = tempfile::tempfile().map_err(|error| failed(reason(&error)))?;
        let stdout = output.try_clone().map_err(|error| failed(reason(&error)))?;
        command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(reason(&error)))?;
        let registered = Some(Registered::new(child.id() as i32));
        let input = child.stdin.take();
        let stderr = child.stderr.take().map(collect);
        Ok(Copy { name, child, input, output, said: Vec::new(), registered, stderr })
    }

    /// Reads its new output.
    fn read(&mut self) -> Result<(), Error> {
        loop {
            let before = self.said.len();
            self.said.resize(before + (1 << 16), 0);
            let read = self.output.read_at(&mut self.said[before..], before as u64);
            self.said.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(self.failed(&reason(&error))),
            }
        }
    }

    /// The first word of its last whole line.
    fn last_word(&self) -> &[u8] {
        let whole = self.said.strip_suffix(b"\n").unwrap_or_default();
        let line = whole.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        line.split(|&byte| byte == b' ').next().unwrap_or_default()
    }

    /// Parses its output; an unfinished last line is left out.
    fn parse(&mut self) -> Result<Output, Error> {
        self.read()?;
        let said = String::from_utf8_lossy(&self.said);
        let mut output = Output::default();
        let wrong = said
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .find_map(|line| output.line(line).err());
        match wrong {
            None => Ok(output),
            Some(why) => Err(self.failed(&why)),
        }
    }

    fn leader(&self) -> i32 {
        self.child.id() as i32
    }

    /// Ends it and its process group, and returns how it ended.
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
pub(crate) fn pin(command: &mut Command, cpus: &[usize]) {
    let set = machine::set(cpus);
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

/// The figures that one copy of a victim has printed so far.
#[derive(Debug, Default)]
pub struct Output {
    /// The latency of each operation
    pub latencies: Histogram,
    /// The checksums of the results, each once
    pub checksums: BTreeSet<String>,
    /// When it began, and when its last operation ended, by the monotonic clock
    pub begin_ns: u64,
    pub last_ns: u64,
    /// CPU time of the measured part, once that is over
    pub cpu_ns: Option<u64>,
}

impl Output {
    /// Takes one line.
    ///
    /// # Errors
    /// It does not belong to the protocol.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{line}': '{text}' is no number"));
        match words[..] {
            // It is warm, and waits for the signal to begin.
            ["ready"] => {}
            ["begin", now] => {
                self.begin_ns = number(now)?;
                self.last_ns = self.begin_ns;
            }
            ["op", now, latency, checksum] => {
                self.last_ns = number(now)?;
                self.latencies.record(number(latency)?);
                if !self.checksums.contains(checksum) {
                    self.checksums.insert(checksum.to_owned());
                }
            }
            ["many", latency, count] => self.latencies.record_many(number(latency)?, number(count)?),
            ["done", now, cpu] => {
                self.last_ns = number(now)?;
                self.cpu_ns = Some(number(cpu)?);
            }
            _ => return Err(format!("'{line}': not what a victim says")),
        }
        Ok(())
    }

    /// Counts the operation that still runs at `now_ns` with the time that it has taken so far.
    pub fn cut(&mut self, now_ns: u64) {
        if self.begin_ns > 0 {
            self.latencies.record(now_ns.saturating_sub(self.last_ns));
            self.last_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::shell;

    fn run(scripts: &[&str], limit_ms: u64) -> Result<Outcome, Error> {
        let commands = scripts.iter().map(|script| shell(script)).collect();
        let (cpus, limit) = (crate::machine::cpus(), Duration::from_millis(limit_ms));
        run_beside(commands, &cpus, limit, |_| Ok(()), |()| Ok(())).map(|(outcome, ())| outcome)
    }

    const LIMIT: u64 = 30_000;
    const GOOD: &str = "echo ready; read go; echo begin 5; echo op 9 4 aa; echo done 9 3; read end";

    #[test]
    fn each_is_measured_and_all_end_when_all_have_enough() {
        let outcome = run(&[GOOD, GOOD], LIMIT).unwrap();
        assert!(outcome.ended && !outcome.cut);
        for output in &outcome.outputs {
            assert_eq!((output.latencies.count(), output.cpu_ns), (1, Some(3)));
        }
    }

    #[test]
    fn one_that_takes_too_long_is_cut_off_and_keeps_what_it_measured() {
        let scripts =
            [GOOD, "echo ready; read go; echo begin 5; echo op 9 4 aa; printf 'op 20 1'; sleep 1000"];
        // On a busy machine they may be cut off before they have written what they measured.
        let outcome = (0..8)
            .map(|power| run(&scripts, 300 << power).unwrap())
            .find(|outcome| outcome.outputs.iter().all(|output| output.latencies.count() > 0))
            .unwrap();
        assert!(outcome.cut);
        let cut = &outcome.outputs[1];
        assert_eq!((cut.latencies.count(), cut.cpu_ns), (2, None));
        assert!(cut.latencies.summary().max_ns > 1_000_000);
        assert_eq!(outcome.outputs[0].latencies.count(), 1);
    }

    #[test]
    fn one_that_ends_before_its_time_has_failed_with_its_words() {
        let failed = |scripts: &[&str]| match run(scripts, LIMIT).unwrap_err() {
            Error::Failed { what, stderr } => (what, stderr),
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(&["echo why >&2; exit 3"]), ("sh: ended with status 3".into(), "why\n".into()));
        let (what, _) = failed(&[GOOD, "echo ready; read go; echo nonsense; echo done 2 1; read end"]);
        assert!(what.contains("'nonsense'"), "{what}");
        let (what, _) = failed(&["echo ready; read go; echo begin 1; echo done 2 1; read end; exit 4"]);
        assert_eq!(what, "sh: ended with status 4");
    }

    fn output(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.line(line).unwrap());
        output
    }

    #[test]
    fn operations_and_their_results_are_kept() {
        let all = output("ready\nbegin 100\nop 150 50 0a\nop 250 100 0a\nmany 70 2\ndone 260 300");
        assert_eq!((all.latencies.count(), all.latencies.summary().max_ns), (4, 100));
        assert_eq!((all.checksums.len(), all.begin_ns, all.last_ns, all.cpu_ns), (1, 100, 260, Some(300)));
    }

    #[test]
    fn one_that_is_cut_off_counts_with_what_it_has_taken() {
        let mut all = output("ready\nbegin 100\nop 150 50 0a");
        all.cut(1150);
        assert_eq!((all.latencies.count(), all.latencies.summary().max_ns), (2, 1000));
        let mut nothing = output("ready");
        nothing.cut(1150);
        assert_eq!(nothing.latencies.count(), 0);
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "op 1 2", "op a 2 3", "many 1", "hello"] {
            assert!(Output::default().line(line).is_err(), "{line}");
        }
    }
}
