//! A verdict: one cause of slowness, how much it costs, what shows it, and what to do.
//!
//! The *severity* is the number of threads that the cause keeps from their work on average: seconds
//! of threads that are lost in a second of wall time. A thread that waits for a CPU, one that
//! sleeps for a lock and one that burns its CPU in a loop count alike, so causes can be compared.

use crate::evidence::Evidence;
use serde::Serialize;

/// Less than this is no finding.
const SEVERITY_MIN: f64 = 0.1;
/// Less than this part of all that the threads did is none either.
pub const PART_MIN: f64 = 0.05;
/// With fewer looks a verdict is doubtful.
const LOOKS_MIN: u32 = 10;
/// The longest command line that is shown.
const COMMAND_CHARACTERS_MAX: usize = 200;

/// What makes a program slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A holder with a worse priority than its waiters is kept from running.
    PriorityInversion,
    /// Threads sleep for a lock that others hold.
    ContendedLock,
    /// Threads spin for a lock whose holder has page faults.
    PageFaults,
    /// Threads burn CPU in loops until another thread has done something.
    BusyWaiting,
    /// A control group has used up its quota.
    Quota,
    /// The program has more runnable threads than there are CPUs for it.
    TooManyThreads,
    /// Other processes run on its CPUs.
    Neighbours,
    /// The host runs other machines on this machine's CPUs.
    Steal,
    /// Pages have to be read from a disk.
    Memory,
    /// Threads wait for a disk.
    Disk,
}

impl Cause {
    /// The cause in a few words.
    ///
    /// ```
    /// assert_eq!(doctor::verdict::Cause::ContendedLock.title(), "a contended lock");
    /// ```
    pub const fn title(self) -> &'static str {
        match self {
            Cause::PriorityInversion => "priority inversion",
            Cause::ContendedLock => "a contended lock",
            Cause::PageFaults => "page faults under a spin lock",
            Cause::BusyWaiting => "busy waiting",
            Cause::Quota => "throttled by a quota",
            Cause::TooManyThreads => "more runnable threads than CPUs",
            Cause::Neighbours => "neighbours on the same CPUs",
            Cause::Steal => "CPU time stolen by the host",
            Cause::Memory => "waits for memory",
            Cause::Disk => "waits for a disk",
        }
    }

    /// Whether Manx can do something about it.
    pub const fn is_curable(self) -> bool {
        !matches!(self, Cause::Neighbours | Cause::Steal | Cause::Memory | Cause::Disk)
    }
}

/// A remedy: a command, or advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What the command does; or the whole advice if there is no command
    pub what: String,
    /// A command to copy
    pub command: Option<String>,
}

impl Remedy {
    /// The remedy to start the program under `manx run` with these options. If the program already
    /// runs so, the remedy says so.
    pub fn manx_run(evidence: &Evidence, options: &str, what: impl Into<String>) -> Remedy {
        if evidence.manx.as_ref().is_some_and(|manx| manx.does(options)) {
            let option = if options.is_empty() { "the guard" } else { options };
            return Remedy::advice(format!(
                "it runs under `manx run` with {option} already; `manx stats {}` shows what that does",
                evidence.pid
            ));
        }
        let options = if options.is_empty() { String::new() } else { format!("{options} ") };
        let command = format!("manx run {options}-- {}", command_line(&evidence.command));
        Remedy { what: what.into(), command: Some(command) }
    }

    /// Advice without a command.
    pub fn advice(what: impl Into<String>) -> Remedy {
        Remedy { what: what.into(), command: None }
    }
}

/// One cause, and what shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The cause
    pub cause: Cause,
    /// The number of threads that it keeps from their work, on average
    pub severity: f64,
    /// What happened, in one line
    pub headline: String,
    /// The figures
    pub evidence: Vec<String>,
    /// What to do
    pub remedies: Vec<Remedy>,
    /// Why this may be wrong
    pub doubts: Vec<String>,
}

impl Verdict {
    /// A verdict without figures yet.
    pub fn new(cause: Cause, severity: f64, headline: impl Into<String>) -> Verdict {
        let (evidence, remedies, doubts) = (vec![], vec![], vec![]);
        Verdict { cause, severity, headline: headline.into(), evidence, remedies, doubts }
    }
}

/// Drops what is too little, adds the doubts that hold for all, and puts the worst first. `all` is
/// what all threads did, in threads.
///
/// A quota that stopped the program comes before what makes the program use it up: busy waiting and
/// too many threads. To remove it costs nothing, and its verdict has the remedies for these too.
pub fn order(mut verdicts: Vec<Verdict>, evidence: &Evidence, all: f64) -> Vec<Verdict> {
    verdicts.retain(|verdict| verdict.severity >= SEVERITY_MIN.max(PART_MIN * all));
    let uses_quota = |verdict: &&Verdict| {
        matches!(verdict.cause, Cause::Quota | Cause::BusyWaiting | Cause::PageFaults | Cause::TooManyThreads)
    };
    let most = verdicts.iter().filter(uses_quota).map(|verdict| verdict.severity).fold(0.0, f64::max);
    let is_quota = |verdict: &Verdict| verdict.cause == Cause::Quota;
    let rank = |verdict: &Verdict| if is_quota(verdict) { most } else { verdict.severity };
    verdicts.sort_by(|one, other| {
        let by_severity = rank(other).total_cmp(&rank(one));
        by_severity.then(is_quota(other).cmp(&is_quota(one))).then(one.cause.cmp(&other.cause))
    });
    if evidence.looks < LOOKS_MIN {
        let doubt = format!("it rests on {} looks only: watch for longer", evidence.looks);
        verdicts.iter_mut().for_each(|verdict| verdict.doubts.push(doubt.clone()));
    }
    verdicts
}

/// A number of threads in words.
///
/// ```
/// assert_eq!(doctor::verdict::threads(1), "1 thread");
/// ```
pub fn threads(count: usize) -> String {
    if count == 1 { "1 thread".into() } else { format!("{count} threads") }
}

/// A count with its thousands apart.
///
/// ```
/// assert_eq!(doctor::verdict::grouped(1_234_567), "1,234,567");
/// assert_eq!(doctor::verdict::grouped(99), "99");
/// ```
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in the unit that suits it, with two figures.
///
/// ```
/// let words = [999, 80_000, 3_100_000, 12_400_000].map(doctor::verdict::duration);
/// assert_eq!(words, ["999 ns", "80 µs", "3.1 ms", "12 ms"]);
/// ```
pub fn duration(ns: u64) -> String {
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let reached = units.iter().rev().find(|(_, scale)| (ns as f64 / scale) >= 0.9995);
    let (unit, scale) = *reached.unwrap_or(&units[0]);
    let value = ns as f64 / scale;
    if scale > 1.0 && value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// A command line to copy: quoted for a shell, and cut if it is long.
///
/// ```
/// let words = ["./my server", "--port", "80"].map(String::from);
/// assert_eq!(doctor::verdict::command_line(&words), "'./my server' --port 80");
/// assert_eq!(doctor::verdict::command_line(&[]), "PROGRAM");
/// ```
pub fn command_line(words: &[String]) -> String {
    if words.is_empty() {
        return "PROGRAM".into();
    }
    let is_plain = |word: &str| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        !word.is_empty() && word.chars().all(plain)
    };
    let mut line = String::new();
    for word in words {
        let separator = if line.is_empty() { "" } else { " " };
        let word = if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
        if line.chars().count() + word.chars().count() + 3 > COMMAND_CHARACTERS_MAX {
            return format!("{line}{separator}…");
        }
        line = format!("{line}{separator}{word}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_little_things_are_left_out() {
        let verdicts = [(Cause::Quota, 0.2), (Cause::ContendedLock, 3.0), (Cause::Disk, 0.05)]
            .map(|(cause, severity)| Verdict::new(cause, severity, "it"));
        let evidence = Evidence { looks: 100, ..Evidence::default() };
        let causes = |all| {
            let ordered = order(verdicts.to_vec(), &evidence, all);
            ordered.iter().map(|verdict| verdict.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(3.5), [Cause::ContendedLock, Cause::Quota]);
        assert_eq!(causes(10.0), [Cause::ContendedLock]);
    }

    #[test]
    fn a_quota_comes_before_what_uses_it_up() {
        let of = |cause, severity| Verdict::new(cause, severity, "it");
        let verdicts = vec![
            of(Cause::BusyWaiting, 2.0),
            of(Cause::Quota, 0.5),
            of(Cause::TooManyThreads, 1.0),
            of(Cause::ContendedLock, 3.0),
        ];
        let evidence = Evidence { looks: 100, ..Evidence::default() };
        let causes = order(verdicts, &evidence, 6.5).into_iter().map(|verdict| verdict.cause);
        let expected = [Cause::ContendedLock, Cause::Quota, Cause::BusyWaiting, Cause::TooManyThreads];
        assert_eq!(causes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn few_looks_are_a_doubt() {
        let verdicts = vec![Verdict::new(Cause::Quota, 1.0, "it")];
        let evidence = Evidence { looks: 3, ..Evidence::default() };
        assert_eq!(order(verdicts, &evidence, 1.0)[0].doubts, ["it rests on 3 looks only: watch for longer"]);
    }

    #[test]
    fn a_long_command_line_is_cut() {
        let words: Vec<String> = (0..100).map(|word| format!("word{word}")).collect();
        let line = command_line(&words);
        assert!(line.ends_with(" …") && line.chars().count() <= COMMAND_CHARACTERS_MAX, "{line}");
    }
}
