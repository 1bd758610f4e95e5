//! One process: what the list says of it, and below that its threads, loops and locks.
//!
//! The three lists share the rows that there are. Each gets what it needs if that is no more than a
//! third; what is left goes to the list that keys scroll, then to the others.

use crate::processes::cells::{percent, rate, time};
use crate::processes::row::{Inside, Manx, Row};
use crate::top::columns::{Spec, fit};
use crate::top::paper::{Paper, Weight};
use crate::top::state::{PARTS, State};

const THREADS: [Spec; 5] = [
    Spec::number("TID", 7, 0),
    Spec::text("NAME", 12, 40, 1),
    Spec::number("CPU%", 5, 2),
    Spec::number("DELAY", 5, 3),
    Spec::number("SLICES/S", 8, 4),
];
const LOOPS: [Spec; 7] = [
    Spec::text("MODULE", 12, 28, 3),
    Spec::text("LOOP", 22, 60, 0),
    Spec::number("WAITS/S", 7, 2),
    Spec::number("WAIT%", 5, 1),
    Spec::number("YIELDS/S", 8, 6),
    Spec::number("SLEEPS/S", 8, 5),
    Spec::number("LONGEST", 7, 4),
];
const LOCKS: [Spec; 9] = [
    Spec::text("MODULE", 12, 28, 3),
    Spec::text("FIRST WAITED AT", 22, 60, 0),
    Spec::number("WAITS/S", 7, 2),
    Spec::number("WAIT%", 5, 4),
    Spec::number("P50", 5, 6),
    Spec::number("P99", 5, 1),
    Spec::number("MAX", 5, 5),
    Spec::number("STARVING/S", 10, 8),
    Spec::text("ADDRESS", 14, 18, 7),
];

/// Draws it.
pub fn draw(state: &State, pid: u32, paper: &mut Paper) {
    let keys = "q quit  h help  esc back  tab next list  up down scroll  p pause";
    let last = paper.height().saturating_sub(1);
    paper.line(last, keys, Weight::Heads);
    paper.mark(last, Weight::Heads);
    let Some((row, inside)) = state.inside() else {
        paper.line(0, &format!("Process {pid} has ended."), Weight::Title);
        return;
    };
    let paused = if state.paused { "PAUSED  " } else { "" };
    paper.line(0, &format!("{paused}{} {}  {}", row.pid, row.name, row.command), Weight::Title);
    let facts = facts(row, inside);
    for (y, line) in facts.iter().enumerate() {
        paper.line(1 + y, line, Weight::Usual);
    }
    let above = 1 + facts.len();
    let Some(inside) = inside else { return };

    let lengths = state.lengths();
    let rows = share(lengths.map(|length| length.max(1)), last.saturating_sub(above + PARTS), state.part);
    let mut y = above;
    for part in 0..PARTS {
        let scrolled = state.scrolled[part].min(lengths[part].saturating_sub(rows[part]));
        let list = List {
            y,
            rows: rows[part],
            scrolled,
            mark: if part == state.part { ">" } else { " " },
            nothing: nothing(part, row),
        };
        match part {
            0 => list.draw(paper, &THREADS, &inside.threads, |thread, column| match column {
                0 => thread.tid.to_string(),
                1 => thread.name.clone(),
                2 => percent(thread.cpus),
                3 => percent(thread.delay),
                _ => rate(thread.slices_per_s),
            }),
            1 => list.draw(paper, &LOOPS, &inside.loops, |it, column| match column {
                0 => it.module.clone(),
                1 => it.place.clone(),
                2 => rate(Some(it.waits_per_s)),
                3 => percent(Some(it.waiting)),
                4 => rate(Some(it.yields_per_s)),
                5 => rate(Some(it.sleeps_per_s)),
                _ => time(Some(it.longest_ns)),
            }),
            _ => list.draw(paper, &LOCKS, &inside.locks, |lock, column| match column {
                0 => lock.module.clone(),
                1 => lock.place.clone(),
                2 => rate(Some(lock.waits_per_s)),
                3 => percent(Some(lock.waiting)),
                4 => time(lock.p50_ns),
                5 => time(lock.p99_ns),
                6 => time(lock.max_ns),
                7 => rate(Some(lock.starving_per_s)),
                _ => format!("{:#x}", lock.address),
            }),
        }
        y += rows[part] + 1;
    }
}

/// Three lines on the process, and one on the trial if it has asked.
fn facts(row: &Row, inside: Option<&Inside>) -> Vec<String> {
    let read = match row.threads_read {
        read if read < row.threads => format!(" ({read} of them read)"),
        _ => String::new(),
    };
    let quota = match (row.throttled, inside.and_then(|inside| inside.group.as_deref())) {
        (Some(share), Some(group)) => {
            format!("throttled in {} % of the periods of {group}", percent(Some(share)))
        }
        _ => "no quota".into(),
    };
    let times = format!(
        "{}{read}, CPU {} %, run-queue delay {} %, {quota}",
        number(row.threads, "thread"),
        percent(row.cpus),
        percent(row.delay)
    );
    let [loops, locks] = match row.manx {
        Manx::Unknown => {
            ["whether it runs under Manx cannot be seen".into(), "look as its user, or as root".into()]
        }
        Manx::No => ["it does not run under Manx".into(), String::new()],
        Manx::On => [
            "it runs under Manx without statistics that this version reads".into(),
            "`manx run --stats` keeps them".into(),
        ],
        Manx::Counts => [
            format!(
                "under Manx: {} repaired, {} % of a CPU lost in them",
                number(row.sites.unwrap_or(0), "loop"),
                percent(row.lost)
            ),
            format!(
                "{} contended, {} waits/s: p50 {}, p99 {}, max {}",
                number(row.locks.unwrap_or(0), "lock"),
                rate(row.lock_waits_per_s),
                time(row.p50_ns),
                time(row.p99_ns),
                time(row.max_ns),
            ),
        ],
    };
    let trials = inside.map_or(&[][..], |inside| &inside.trials);
    let trials = (!trials.is_empty()).then(|| format!("trial of work: {}", trials.join(", ")));
    [times, loops, locks].into_iter().chain(trials).collect()
}

fn number(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What stands in the place of an empty list.
fn nothing(part: usize, row: &Row) -> &'static str {
    match (part, row.manx) {
        (0, _) => "no thread's times can be read",
        (1, Manx::Counts) => "no loop that waits is repaired",
        (_, Manx::Counts) => "no thread has waited for a lock",
        _ => "seen under `manx run --stats` only",
    }
}

/// How many rows each list gets of `rows`.
fn share(needs: [usize; PARTS], rows: usize, favourite: usize) -> [usize; PARTS] {
    let third = rows / PARTS;
    let mut shares = needs.map(|need| need.min(third));
    let mut left = rows - shares.iter().sum::<usize>();
    for part in std::iter::once(favourite).chain(0..PARTS) {
        let more = left.min(needs[part] - shares[part]);
        shares[part] += more;
        left -= more;
    }
    shares
}

/// One of the lists.
struct List<'a> {
    y: usize,
    rows: usize,
    scrolled: usize,
    mark: &'a str,
    nothing: &'a str,
}

impl List<'_> {
    fn draw<T>(&self, paper: &mut Paper, specs: &[Spec], items: &[T], cell: impl Fn(&T, usize) -> String) {
        let last = paper.height().saturating_sub(1);
        if self.y >= last {
            return;
        }
        let placed = fit(specs, paper.width().saturating_sub(1));
        paper.heads(1, self.y, specs, &placed, None);
        paper.put(0, self.y, self.mark, 1, Weight::Heads);
        if items.is_empty() && self.rows > 0 {
            paper.put(1, self.y + 1, self.nothing, paper.width(), Weight::Usual);
        }
        for (index, item) in items.iter().skip(self.scrolled).take(self.rows).enumerate() {
            paper.row(1, self.y + 1 + index, specs, &placed, |column| (cell(item, column), Weight::Usual));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_list_that_is_read_gets_what_others_leave() {
        assert_eq!(share([50, 1, 2], 18, 0), [15, 1, 2]);
        assert_eq!(share([50, 50, 50], 18, 1), [6, 6, 6]);
        assert_eq!(share([50, 1, 50], 18, 2), [6, 1, 11]);
        assert_eq!(share([1, 1, 1], 18, 0), [1, 1, 1]);
        assert_eq!(share([9, 9, 9], 0, 0), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_more_rows_are_given_than_there_are(needs in [1..99_usize, 1..99, 1..99], rows in 0..99_usize, favourite in 0..PARTS) {
            let shares = share(needs, rows, favourite);
            prop_assert_eq!(shares.iter().sum::<usize>(), rows.min(needs.iter().sum()));
            prop_assert!(shares.iter().zip(needs).all(|(share, need)| *share <= need));
        }
    }
}
