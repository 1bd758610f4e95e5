//! Statistics as they are handed to the user: plain structures, and a table of them to print.

use super::histogram::Histogram;
use super::names::named;
use super::table::{self, Slot};
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::duration_ns;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The statistics of all locks: sorted by the total time of their waiters, longest first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// One row for each name, and one for each lock without a name.
    pub locks: Vec<LockStatistics>,
    /// Events of locks that found no room in the table: see [`super::CAPACITY`].
    pub dropped: u64,
}

/// The statistics of one lock, or of all locks with the same name.
///
/// ```
/// use manx::lock::{Mutex, Observe};
///
/// static TABLE: Mutex<u32> = Mutex::new(0);
/// manx::lock::observe(Observe::STATISTICS);
/// manx::lock::name(&TABLE, "table");
/// *TABLE.lock() += 1;
/// let statistics = manx::lock::statistics();
/// let table = statistics.locks.iter().find(|row| row.name.as_deref() == Some("table")).unwrap();
/// assert_eq!((table.acquisitions, table.contended), (1, 0));
/// assert_eq!((table.label(), table.contended_share()), ("table".into(), 0.0));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockStatistics {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Its address; of the first, if there are several.
    pub address: usize,
    /// How many locks have this name: at least 1.
    pub locks: u64,
    /// Where it was first taken, or waited for.
    pub first_taken: Option<&'static Location<'static>>,
    /// Times that it was taken, by readers too.
    pub acquisitions: u64,
    /// Of these, by readers.
    pub shared: u64,
    /// Of all, after a wait.
    pub contended: u64,
    /// Times that a thread took it without a wait while others waited.
    pub overtakes: u64,
    /// Times that a waiter's window was over before it was served.
    pub starving: u64,
    /// Times that it was handed to a waiter, rather than released.
    pub handed_over: u64,
    /// Times that a waiter gave up.
    pub gave_up: u64,
    /// How long the waiters waited that got it.
    pub wait: Histogram,
    /// How long it was held.
    pub hold: Histogram,
}

impl LockStatistics {
    fn new(slot: &Slot) -> LockStatistics {
        let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let address = slot.address.load(Ordering::Relaxed);
        LockStatistics {
            name: named(address).map(Into::into),
            address,
            locks: 1,
            first_taken: slot.first(),
            acquisitions: number(&slot.acquisitions),
            shared: number(&slot.shared),
            contended: number(&slot.contended),
            overtakes: number(&slot.overtakes),
            starving: number(&slot.starving),
            handed_over: number(&slot.handed_over),
            gave_up: number(&slot.gave_up),
            wait: slot.wait.snapshot(),
            hold: slot.hold.snapshot(),
        }
    }

    fn merge(&mut self, other: &LockStatistics) {
        self.locks += other.locks;
        self.acquisitions += other.acquisitions;
        self.shared += other.shared;
        self.contended += other.contended;
        self.overtakes += other.overtakes;
        self.starving += other.starving;
        self.handed_over += other.handed_over;
        self.gave_up += other.gave_up;
        self.wait.merge(&other.wait);
        self.hold.merge(&other.hold);
    }

    /// The share of acquisitions that waited, from 0 to 1.
    pub fn contended_share(&self) -> f64 {
        if self.acquisitions == 0 { 0.0 } else { self.contended as f64 / self.acquisitions as f64 }
    }

    /// What it is called: its name and how many have it, or its address and where it was first
    /// taken.
    pub fn label(&self) -> String {
        match (&self.name, self.first_taken) {
            (Some(name), _) if self.locks > 1 => format!("{name} (x{})", self.locks),
            (Some(name), _) => name.clone(),
            (None, Some(place)) => format!("{:#x} ({}:{})", self.address, place.file(), place.line()),
            (None, None) => format!("{:#x}", self.address),
        }
    }
}

/// The statistics of all locks that were used since [`super::observe`] switched them on.
pub fn statistics() -> Statistics {
    let (slots, dropped) = table::known();
    let mut locks: Vec<LockStatistics> = Vec::new();
    for row in slots.map(LockStatistics::new) {
        let same = locks.iter_mut().find(|other| row.name.is_some() && other.name == row.name);
        match same {
            Some(same) => same.merge(&row),
            None => locks.push(row),
        }
    }
    locks.sort_by_key(|row| std::cmp::Reverse((row.wait.sum(), row.acquisitions)));
    Statistics { locks, dropped }
}

/// A column's heading, and what it says of a lock.
type Column = (&'static str, fn(&LockStatistics) -> String);

const COLUMNS: [Column; 12] = [
    ("acquired", |row| row.acquisitions.to_string()),
    ("shared", |row| row.shared.to_string()),
    ("contended", |row| format!("{:.1} %", 100.0 * row.contended_share())),
    ("wait p50", |row| percentile(&row.wait, 0.5)),
    ("p99", |row| percentile(&row.wait, 0.99)),
    ("max", |row| longest(&row.wait)),
    ("hold p50", |row| percentile(&row.hold, 0.5)),
    ("p99", |row| percentile(&row.hold, 0.99)),
    ("max", |row| longest(&row.hold)),
    ("overtakes", |row| row.overtakes.to_string()),
    ("starving", |row| row.starving.to_string()),
    ("handed over", |row| row.handed_over.to_string()),
];

fn percentile(histogram: &Histogram, share: f64) -> String {
    histogram.percentile(share).map_or_else(|| "-".to_owned(), duration)
}

fn longest(histogram: &Histogram) -> String {
    percentile(histogram, 1.0)
}

/// Three digits and a unit.
fn duration(duration: Duration) -> String {
    let ns = duration_ns(duration);
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// A line for each lock under a heading, names to the left and numbers to the right.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading =
            std::iter::once("lock".to_owned()).chain(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        let mut lines: Vec<Vec<String>> = vec![heading.collect()];
        for row in &self.locks {
            lines.push(
                std::iter::once(row.label()).chain(COLUMNS.iter().map(|(_, cell)| cell(row))).collect(),
            );
        }
        let wide = |cell: &String| cell.chars().count();
        let widths: Vec<usize> = (0..=COLUMNS.len())
            .map(|at| lines.iter().map(|line| wide(&line[at])).max().unwrap_or(0))
            .collect();
        for line in &lines {
            write!(f, "{:<width$}", line[0], width = widths[0])?;
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        if self.dropped > 0 {
            writeln!(f, "({} more acquisitions and waits of locks that found no room)", self.dropped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let cases =
            [(0, "0 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (12_340, "12.3 µs"), (123_400, "123 µs")];
        for (ns, text) in cases {
            assert_eq!(duration(Duration::from_nanos(ns)), text);
        }
        assert_eq!(duration(Duration::from_micros(2_500)), "2.50 ms");
        assert_eq!(duration(Duration::from_secs(61)), "61.0 s");
    }
}
