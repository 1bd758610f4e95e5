//! The columns of the list of processes: their heads, their cells and their orders.

use crate::processes::cells::{count, percent, rate, time};
use crate::processes::row::{Manx, Row};
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// The process id
    Pid,
    /// The name
    Name,
    /// Whether it runs under Manx
    Manx,
    /// The number of threads
    Threads,
    /// CPUs used, in percent of one
    Cpu,
    /// Run-queue delay: threads that waited for a CPU, in percent of one
    Delay,
    /// The share of periods in which a quota was used up
    Throttled,
    /// CPU time lost to waiting in loops, in percent of a CPU
    Lost,
    /// Locks that some thread waited for
    Locks,
    /// Waits for locks per second
    Waits,
    /// The median of the waits for locks
    P50,
    /// Their 99th percentile
    P99,
    /// The longest of them
    Max,
    /// Repaired loops
    Sites,
    /// The command line
    #[value(skip)]
    Command,
}

/// All, from left to right.
pub const COLUMNS: [Column; 15] = [
    Column::Pid,
    Column::Name,
    Column::Manx,
    Column::Threads,
    Column::Cpu,
    Column::Delay,
    Column::Throttled,
    Column::Lost,
    Column::Locks,
    Column::Waits,
    Column::P50,
    Column::P99,
    Column::Max,
    Column::Sites,
    Column::Command,
];

impl Column {
    /// Its place and its head. Ranks begin at 1: 0 is free for the one by which rows are sorted.
    pub const fn spec(self) -> Spec {
        match self {
            Column::Pid => Spec::number("PID", 7, 1),
            Column::Name => Spec::text("NAME", 12, 20, 2),
            Column::Manx => Spec::text("MANX", 4, 4, 6),
            Column::Threads => Spec::number("THR", 5, 13),
            Column::Cpu => Spec::number("CPU%", 5, 4),
            Column::Delay => Spec::number("DELAY", 5, 3),
            Column::Throttled => Spec::number("THROT", 5, 8),
            Column::Lost => Spec::number("LOST", 5, 7),
            Column::Locks => Spec::number("LOCKS", 5, 10),
            Column::Waits => Spec::number("WAITS", 5, 14),
            Column::P50 => Spec::number("P50", 5, 11),
            Column::P99 => Spec::number("P99", 5, 5),
            Column::Max => Spec::number("MAX", 5, 9),
            Column::Sites => Spec::number("SITES", 5, 12),
            Column::Command => Spec::text("COMMAND", 24, 400, 15),
        }
    }

    /// What a row has in it.
    pub fn cell(self, row: &Row) -> String {
        match self {
            Column::Pid => row.pid.to_string(),
            Column::Name => row.name.clone(),
            Column::Manx => match row.manx {
                Manx::Unknown => "?".into(),
                Manx::No => String::new(),
                Manx::On | Manx::Counts => "on".into(),
            },
            Column::Threads => row.threads.to_string(),
            Column::Cpu => percent(row.cpus),
            Column::Delay => percent(row.delay),
            Column::Throttled => percent(row.throttled),
            Column::Lost => percent(row.lost),
            Column::Locks => count(row.locks),
            Column::Waits => rate(row.lock_waits_per_s),
            Column::P50 => time(row.p50_ns),
            Column::P99 => time(row.p99_ns),
            Column::Max => time(row.max_ns),
            Column::Sites => count(row.sites),
            Column::Command => row.command.clone(),
        }
    }

    /// The order of two rows: most first, names from A to Z; what is not known comes last. Of equal
    /// rows the one that used more CPU comes first, then the one with the lower number.
    pub fn order(self, one: &Row, other: &Row) -> Ordering {
        let falling = |of: fn(&Row) -> Option<f64>| {
            let key = |row| of(row).unwrap_or(f64::NEG_INFINITY);
            key(other).total_cmp(&key(one))
        };
        let first = match self {
            Column::Pid => one.pid.cmp(&other.pid),
            Column::Name => one.name.cmp(&other.name),
            Column::Command => one.command.cmp(&other.command),
            Column::Manx => other.manx.cmp(&one.manx),
            Column::Threads => other.threads.cmp(&one.threads),
            Column::Cpu => Ordering::Equal,
            Column::Delay => falling(|row| row.delay),
            Column::Throttled => falling(|row| row.throttled),
            Column::Lost => falling(|row| row.lost),
            Column::Locks => other.locks.cmp(&one.locks),
            Column::Waits => falling(|row| row.lock_waits_per_s),
            Column::P50 => other.p50_ns.cmp(&one.p50_ns),
            Column::P99 => other.p99_ns.cmp(&one.p99_ns),
            Column::Max => other.max_ns.cmp(&one.max_ns),
            Column::Sites => other.sites.cmp(&one.sites),
        };
        first.then_with(|| falling(|row| row.cpus)).then_with(|| one.pid.cmp(&other.pid))
    }

    /// How bad a cell is: 0 as it should be, 1 remarkable, 2 bad.
    pub fn alarm(self, row: &Row) -> u8 {
        let share = match self {
            Column::Delay => row.delay,
            Column::Throttled => row.throttled,
            Column::Lost => row.lost,
            _ => None,
        };
        share.map_or(0, |share| u8::from(share >= 0.1) + u8::from(share >= 0.5))
    }

    /// The column that is this number of places to the right; the first follows the last.
    pub fn step(self, by: isize) -> Column {
        // The command line has no order that helps.
        let sortable = COLUMNS.len() - 1;
        let at = COLUMNS.iter().position(|&column| column == self).unwrap_or(0);
        COLUMNS[(at + sortable).saturating_add_signed(by) % sortable]
    }
}

/// The places of all columns, with room for the one by which rows are sorted.
pub fn specs(sort: Column) -> [Spec; COLUMNS.len()] {
    COLUMNS.map(|column| Spec { rank: if column == sort { 0 } else { column.spec().rank }, ..column.spec() })
}

// Which columns of a table fit into a width, and where they stand.
//
// Each column has a rank; those of the lowest ranks are taken first, as long as their least widths
// fit. What is left over goes to the columns that can use it, in the same order.

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its head
    pub head: &'static str,
    /// Its least width
    pub least: usize,
    /// The width that it can use
    pub most: usize,
    /// Words stand to the left, numbers to the right
    pub is_text: bool,
    /// Columns of a higher rank are left out first
    pub rank: usize,
}

impl Spec {
    /// A column of numbers.
    pub const fn number(head: &'static str, width: usize, rank: usize) -> Spec {
        Spec { head, least: width, most: width, is_text: false, rank }
    }

    /// A column of words.
    pub const fn text(head: &'static str, least: usize, most: usize, rank: usize) -> Spec {
        Spec { head, least, most, is_text: true, rank }
    }
}

/// A column that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its index among the columns
    pub column: usize,
    /// Where it begins
    pub x: usize,
    /// How wide it is
    pub width: usize,
}

/// Places columns in `width` characters, with a space between two.
pub fn fit(specs: &[Spec], width: usize) -> Vec<Placed> {
    let mut order: Vec<usize> = (0..specs.len()).collect();
    order.sort_by_key(|&column| specs[column].rank);
    let mut taken = Vec::new();
    let mut left = width + 1;
    for column in order {
        let Some(rest) = left.checked_sub(specs[column].least + 1) else { break };
        left = rest;
        taken.push(Placed { column, x: 0, width: specs[column].least });
    }
    for place in &mut taken {
        let more = left.min(specs[place.column].most - place.width);
        left -= more;
        place.width += more;
    }
    taken.sort_by_key(|place| place.column);
    let mut x = 0;
    for place in &mut taken {
        place.x = x;
        x += place.width + 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_most_comes_first_and_the_unknown_last() {
        let row = |pid, delay, cpus| Row { pid, delay, cpus, ..Row::default() };
        let mut rows = [
            row(1, None, None),
            row(2, Some(0.1), None),
            row(3, Some(0.1), Some(1.0)),
            row(4, Some(9.0), None),
        ];
        rows.sort_by(|one, other| Column::Delay.order(one, other));
        assert_eq!(rows.map(|row| row.pid), [4, 3, 2, 1]);
    }

    #[test]
    fn a_round_of_steps_passes_each_column_once_in_both_directions() {
        for by in [1, -1] {
            let mut seen = vec![Column::Delay];
            while seen.len() < COLUMNS.len() - 1 {
                seen.push(seen[seen.len() - 1].step(by));
            }
            let heads: BTreeSet<&str> = seen.iter().map(|column| column.spec().head).collect();
            assert_eq!(heads.len(), seen.len());
            assert_eq!(seen[seen.len() - 1].step(by), Column::Delay);
        }
    }

    #[test]
    fn no_two_columns_have_one_rank() {
        let ranks: BTreeSet<usize> = COLUMNS.iter().map(|column| column.spec().rank).collect();
        assert_eq!(ranks, (1..=COLUMNS.len()).collect());
    }

    const SPECS: [Spec; 4] = [
        Spec::number("PID", 7, 0),
        Spec::text("NAME", 8, 20, 1),
        Spec::number("A", 5, 3),
        Spec::number("B", 5, 2),
    ];

    fn heads(width: usize) -> Vec<(&'static str, usize, usize)> {
        fit(&SPECS, width).into_iter().map(|it| (SPECS[it.column].head, it.x, it.width)).collect()
    }

    #[test]
    fn the_highest_rank_is_left_out_first() {
        assert_eq!(heads(80), [("PID", 0, 7), ("NAME", 8, 20), ("A", 29, 5), ("B", 35, 5)]);
        assert_eq!(heads(25), [("PID", 0, 7), ("NAME", 8, 11), ("B", 20, 5)]);
        assert_eq!(heads(7), [("PID", 0, 7)]);
        assert_eq!(heads(6), []);
    }

    proptest! {
        #[test]
        fn columns_stay_within_the_width_and_apart(width in 0..200_usize) {
            let mut free = 0;
            for placed in fit(&SPECS, width) {
                prop_assert!(placed.x >= free && placed.x + placed.width <= width);
                free = placed.x + placed.width + 1;
            }
        }
    }
}
