//! A figure of work that is read from a program's output: a pattern with one group, which is the
//! number. The figure of a run is the median of all numbers that its output has.
//!
//! Invariants:
//! 1. The program never waits for the doctor: each stream has a thread that reads it to its end,
//!    whatever is in it.
//! 2. Memory is bounded, whatever is written: by [`LINE_BYTES_MAX`] and [`NUMBERS_MAX`].

use command::statistics::median;
use regex_lite::Regex;
use serde::Serialize;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The rest of a longer line is not searched.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most numbers of a stream.
const NUMBERS_MAX: usize = 1 << 20;
/// How much is shown of a text that is no number.
const SHOWN_CHARACTERS_MAX: usize = 40;
/// The time to read the rest of the output when the program has ended. A process that it left
/// behind may keep the stream open.
const GRACE: Duration = Duration::from_secs(1);

/// The direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A time of a step
    Less,
    /// Requests in a second
    More,
}

/// A pattern for a number in a line.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The reason why it is none, or that it has not one group.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let regex = Regex::new(text).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("it is no regular expression: {reason}")
        })?;
        match regex.captures_len() - 1 {
            1 => Ok(Pattern(regex)),
            groups => Err(format!(
                "it has {groups} groups: write one, ( ), around the number, as in 'step ([0-9.]+) ms'; \
                 (?: ) is no group"
            )),
        }
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// The texts of the group in a line.
    fn groups<'a>(&'a self, line: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.captures_iter(line).filter_map(|found| Some(found.get(1)?.as_str()))
    }
}

/// The numbers that were found in the output of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Found {
    /// The median of the numbers
    pub median: Option<f64>,
    pub numbers: usize,
    /// A text that the group has found and that is no number
    pub no_number: Option<String>,
}

/// The threads that read a program's output.
pub struct Reading(Receiver<Result<f64, String>>);

impl Reading {
    /// Reads these streams from now on (Invariant 1).
    pub fn start(pattern: &Pattern, streams: Vec<Box<dyn Read + Send>>) -> Reading {
        let (sender, receiver) = channel();
        for stream in streams {
            let (pattern, sender) = (pattern.clone(), sender.clone());
            std::thread::spawn(move || search(stream, &pattern, &sender));
        }
        Reading(receiver)
    }

    /// The numbers of the whole output, when the program has ended.
    pub fn end(self) -> Found {
        let limit = Instant::now() + GRACE;
        let (mut numbers, mut no_number) = (Vec::new(), None);
        while let Ok(found) = self.0.recv_timeout(limit.saturating_duration_since(Instant::now())) {
            match found {
                Ok(number) => numbers.push(number),
                Err(text) => no_number = Some(text),
            }
        }
        let median = (!numbers.is_empty()).then(|| median(&numbers));
        Found { median, numbers: numbers.len(), no_number }
    }
}

/// Sends the numbers of a stream, and at most one text that is none.
fn search(stream: impl Read, pattern: &Pattern, sender: &Sender<Result<f64, String>>) {
    let (mut numbers, mut is_odd) = (0, false);
    lines(stream, |line| {
        for text in pattern.groups(line) {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            // If nobody receives any more, the stream is still read (Invariant 1).
            if let Some(number) = number.filter(|_| numbers < NUMBERS_MAX) {
                numbers += 1;
                let _ = sender.send(Ok(number));
            } else if number.is_none() && !std::mem::replace(&mut is_odd, true) {
                let _ = sender.send(Err(text.chars().take(SHOWN_CHARACTERS_MAX).collect()));
            }
        }
    });
}

/// Calls `each` for each line. A carriage return ends a line, too: a progress bar has no other end.
fn lines(mut stream: impl Read, mut each: impl FnMut(&str)) {
    let (mut line, mut chunk) = (Vec::new(), [0; 8192]);
    loop {
        let count = match stream.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        for &byte in &chunk[..count] {
            if byte == b'\n' || byte == b'\r' {
                each(&String::from_utf8_lossy(&line));
                line.clear();
            } else if line.len() < LINE_BYTES_MAX {
                line.push(byte);
            }
        }
    }
    each(&String::from_utf8_lossy(&line));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, output: &'static [u8]) -> Found {
        let pattern = Pattern::parse(pattern).expect("a pattern");
        Reading::start(&pattern, vec![Box::new(output)]).end()
    }

    #[test]
    fn a_run_has_the_median_of_all_numbers_in_its_output() {
        let output = b"start\nstep 2 ms\nstep 40 ms\rstep 3.5 ms step 3 ms\n\xff\nstep 4 ms";
        assert_eq!(
            found(r"step ([0-9.]+) ms", output),
            Found { median: Some(3.5), numbers: 5, no_number: None }
        );
        assert_eq!(found(r"n (\d+)", output), Found::default());
    }

    #[test]
    fn a_group_that_is_no_number_is_named() {
        let found = found(r"n (\S+)", b"n 1,000\nn NaN\nn 7\n");
        assert_eq!((found.median, found.no_number.as_deref()), (Some(7.0), Some("1,000")));
    }

    #[test]
    fn a_line_without_an_end_takes_little_room() {
        let mut longest = 0;
        lines(std::io::repeat(b'x').take(10 << 20), |line| longest = longest.max(line.len()));
        assert_eq!(longest, LINE_BYTES_MAX);
    }

    #[test]
    fn a_pattern_has_one_group() {
        let fault = |text: &str| Pattern::parse(text).expect_err("a fault");
        assert!(fault("step (").contains("found open group without closing ')'"), "{}", fault("step ("));
        assert!(fault(r"step \d+ ms").starts_with("it has 0 groups"));
        assert!(fault(r"(step) (\d+)").starts_with("it has 2 groups"));
        assert!(Pattern::parse(r"(?:step|n) (\d+)").is_ok());
    }
}
