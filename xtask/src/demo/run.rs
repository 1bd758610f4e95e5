//! Runs of the demo's programs, and the latencies that they print.
//!
//! 1. A copy starts when the copy before it is warm, and all begin together.
//! 2. A copy that has measured enough goes on without output until all have, so no copy is measured
//!    alone. One that has not measured enough within the limit is ended; what it measured counts,
//!    and the operation that it is in counts with the time that it has taken so far.
//! 3. A copy has a session of its own, and so a scheduling group of its own, as services have. It
//!    ends with this process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::progress::tail;
use crate::outcome::Result;
use crate::process::{capture, root};

/// Loading libraries and warming up, at most; so is the whole run of an engine.
const WARM_MAX: Duration = Duration::from_secs(300);
/// The interval between two looks at the copies: nothing else should run meanwhile.
const POLL: Duration = Duration::from_millis(100);

/// How often each latency was measured, in nanoseconds.
#[derive(Clone, Default)]
pub struct Latencies(BTreeMap<u64, u64>);

impl Latencies {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Latencies) {
        other.0.iter().for_each(|(ns, count)| self.record(*ns, *count));
    }

    fn record(&mut self, ns: u64, count: u64) {
        *self.0.entry(ns).or_default() += count;
    }

    /// The least latency that this share of the operations does not exceed; none without
    /// operations.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let rank = (share * self.0.values().sum::<u64>() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.0
            .iter()
            .find(|(_, count)| {
                seen += *count;
                seen >= rank
            })
            .map(|(ns, _)| *ns)
    }
}

impl FromIterator<u64> for Latencies {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Latencies {
        let mut latencies = Latencies::default();
        all.into_iter().for_each(|ns| latencies.record(ns, 1));
        latencies
    }
}

/// The CPUs of the demo: the first two that there are.
pub fn cpus() -> Vec<usize> {
    // SAFETY: a set of no CPUs is all zeroes, and the kernel writes what fits.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: each index lies within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).take(2).collect()
}

/// Whether this process may raise a thread's priority (root, or CAP_SYS_NICE).
pub fn may_boost() -> bool {
    // In a thread of its own, which takes the changed niceness with it.
    // SAFETY: the call has no memory effects.
    let tried = thread::spawn(|| unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0 });
    tried.join().unwrap_or(false)
}

/// Compiles a C program of `bench`, and returns its path.
///
/// # Errors
/// If it does not compile; the text ends with what the compiler said.
pub fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Result<String> {
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-std=gnu11", "-pthread", "-I"]).arg(root().join("bench/engines"));
    compiler.arg("-o").arg(&program).arg(root().join(source)).args(flags).arg("-lm");
    capture(&mut compiler).map_err(|why| {
        let error = why.lines().find(|line| line.contains("error")).unwrap_or(&why);
        format!("it does not compile here: {}", error.trim())
    })?;
    Ok(program.display().to_string())
}

/// Runs copies side by side for at most `limit`, and returns the latencies of all.
///
/// # Errors
/// If a copy cannot be started, or ends before it has measured enough.
pub fn copies(commands: Vec<Command>, folder: &Path, limit: Duration) -> Result<Latencies> {
    let mut copies: Vec<Copy> = Vec::new();
    for (number, command) in commands.into_iter().enumerate() {
        copies.push(Copy::start(command, &folder.join(format!("copy-{number}")))?);
        if !wait_for(&mut copies[number..], "ready", WARM_MAX)? {
            return Err(format!("it is not warm after {} s", WARM_MAX.as_secs()));
        }
    }
    for copy in &mut copies {
        // A copy that has ended already is found below.
        let _ = copy.child.stdin.as_mut().map(|input| input.write_all(b"go\n"));
    }
    wait_for(&mut copies, "done", limit)?;
    let now_ns = now_ns();
    let mut all = Latencies::default();
    copies
        .iter()
        .try_for_each(|copy| copy.said().and_then(|text| parse(&text, now_ns)).map(|one| all.add(&one)))?;
    Ok(all)
}

/// Waits until the last line of each copy begins with `word`; false if the time is over before.
fn wait_for(copies: &mut [Copy], word: &str, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let mut all = true;
        for copy in &mut *copies {
            if let Ok(Some(status)) = copy.child.try_wait() {
                return Err(format!("it ended with {status}: {}", tail(&copy.error, 1)));
            }
            all &= copy.said()?.lines().last().is_some_and(|line| line.starts_with(word));
        }
        if all || Instant::now() > deadline {
            return Ok(all);
        }
        thread::sleep(POLL);
    }
}

/// The latencies that a copy has printed. One that is not done is in an operation until `now_ns`.
fn parse(said: &str, now_ns: u64) -> Result<Latencies> {
    let (mut latencies, mut last_ns, mut is_done) = (Latencies::default(), None, false);
    // The last line may be half written.
    for line in said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("it said '{line}'"));
        match words[..] {
            ["begin", now] => last_ns = Some(number(now)?),
            ["op", now, latency, _] => {
                last_ns = Some(number(now)?);
                latencies.record(number(latency)?, 1);
            }
            ["many", latency, count] => latencies.record(number(latency)?, number(count)?),
            ["done", ..] => is_done = true,
            ["ready"] => {}
            _ => return Err(format!("it said '{line}'")),
        }
    }
    if let Some(last_ns) = last_ns.filter(|_| !is_done) {
        latencies.record(now_ns.saturating_sub(last_ns), 1);
    }
    Ok(latencies)
}

/// Runs an engine, and returns the latencies of its result.
///
/// # Errors
/// If it fails, or prints no result.
pub fn engine(mut command: Command, folder: &Path) -> Result<Latencies> {
    let home = folder.join("home");
    // It is the home of an earlier run, if there is one.
    let _ = fs::remove_dir_all(&home);
    fs::create_dir(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    command.arg("--home").arg(&home);
    let mut run = Copy::start(command, &folder.join("engine"))?;
    let deadline = Instant::now() + WARM_MAX;
    let status = loop {
        match run.child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            _ => return Err(format!("it did not end within {} s", WARM_MAX.as_secs())),
        }
    };
    if !status.success() {
        return Err(format!("it ended with {status}: {}", tail(&run.error, 1)));
    }
    let result: Value = serde_json::from_str(&run.said()?).map_err(|error| format!("its result: {error}"))?;
    let all = &result["all"];
    let mut latencies = Latencies::default();
    let number = |value: &Value| value.as_u64().ok_or("its result has no latencies");
    let buckets = all["counts"].as_array().ok_or("its result has no latencies")?;
    for (at, bucket) in buckets.iter().enumerate() {
        // A bucket is less than 1 % wide. Of the last one the maximum is known.
        let ns = if at + 1 == buckets.len() { &all["max_ns"] } else { &bucket[0] };
        latencies.record(number(ns)?, number(&bucket[1])?);
    }
    Ok(latencies)
}

/// A copy that runs; it is ended when this is dropped.
struct Copy {
    child: Child,
    /// Its standard output
    output: PathBuf,
    /// Its standard error
    error: PathBuf,
}

impl Copy {
    fn start(mut command: Command, path: &Path) -> Result<Copy> {
        let (output, error) = (path.with_extension("out"), path.with_extension("err"));
        let file = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        command.stdin(Stdio::piped()).stdout(file(&output)?).stderr(file(&error)?);
        // SAFETY: a set of no CPUs is all zeroes, and the indices are the kernel's own.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            cpus().iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
            set
        };
        let before = move || {
            // SAFETY: between fork and exec only async-signal-safe calls, which read a copy of the
            // set.
            unsafe {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
            }
            Ok(())
        };
        // SAFETY: the hook allocates nothing and takes no lock.
        unsafe { command.pre_exec(before) };
        let child = command.spawn().map_err(|why| format!("{}: {why}", command.get_program().display()))?;
        Ok(Copy { child, output, error })
    }

    fn said(&self) -> Result<String> {
        fs::read_to_string(&self.output).map_err(|error| format!("{}: {error}", self.output.display()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latencies: Latencies = (1..=100).collect();
        let of = |share| latencies.percentile(share);
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], [Some(1), Some(50), Some(99), Some(100)]);
        assert_eq!(Latencies::default().percentile(0.5), None);
    }

    #[test]
    fn an_operation_that_was_cut_off_counts_as_long_as_it_took() {
        let said = "ready\nbegin 100\nop 150 50 ab\nmany 7 3\nop 4";
        let latencies = parse(said, 1150).unwrap();
        assert_eq!(latencies.0, BTreeMap::from([(7, 3), (50, 1), (1000, 1)]));
        assert_eq!(parse(&said.replace("op 4", "done 200 1\n"), 1150).unwrap().percentile(1.0), Some(50));
        assert!(parse("ready\nfire\n", 0).is_err_and(|why| why.contains("fire")));
    }

    #[test]
    fn copies_begin_together_and_one_that_fails_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let copy = "echo ready; read go; echo begin 1; echo op 9 8 x; echo done 9 1; read end";
        let all = copies(vec![shell(copy), shell(copy)], folder.path(), WARM_MAX).unwrap();
        assert_eq!(all.0, BTreeMap::from([(8, 2)]));
        let failed = copies(vec![shell("echo broken >&2; exit 3")], folder.path(), WARM_MAX);
        assert!(failed.is_err_and(|why| why.contains('3') && why.contains("broken")));
    }
}
