//! How the locks of a cell stand to each other: which peer is the best fair one, and what the
//! default lock makes of it.
//!
//! Invariants:
//! 1. A peer is fair in a cell if its slowest thread's share of the mean is [`FAIR`] of what the
//!    default lock's is there: at most 0.9. So a peer that does not reach 0.9 itself still counts
//!    where the default lock does not reach 1 either, be it for the scheduler or by its own fault.
//!    Where ranges meet at edges only no thread waits for another, and every peer counts.
//! 2. Runs are short, so where threads outnumber CPUs a single run shows the turns of the
//!    scheduler: 32 threads on two CPUs have a slice of 3 ms each 48 ms. Each thread's pairs are
//!    therefore added up over all rounds there. That would hide a lock that prefers one thread for
//!    the whole of a run, and another in the next run; but preemption ends such a preference after
//!    a slice. Where each thread has a CPU nothing ends it, and there the share is the median of
//!    the runs' own.
//!
//! The best fair peer is found in the runs that it is compared in. So noise helps it, and the ratio
//! to it is a little too small rather than too large. The least cell is the least of many and is
//! too small for the same reason.

use super::cell::{Cell, GRID};
use super::competitor::{OWN, peer};
use super::variant::{Counted, PAIRS};
use contend::workers::slowest_share;
use report::{Compared, Ratio, Report, median};
use std::collections::BTreeMap;

/// Invariant 1.
pub(super) const FAIR: f64 = 0.9;
/// A peer whose share is below this part of the default lock's will hardly turn out to be fair.
const FAIR_YET: f64 = 0.6;
/// The number of peers that go on after their first round although they are not known to be fair.
const RIVALS: usize = 4;
/// The part of the cells that a round must have to count for the median of the grid.
const COMPLETE: f64 = 0.5;

/// The runs of one lock in a cell.
#[derive(Debug, Default)]
struct Runs {
    pairs_per_s: BTreeMap<usize, f64>,
    shares: Vec<f64>,
    thread_pairs: Vec<u64>,
}

impl Runs {
    fn median(&self) -> f64 {
        median(&self.pairs_per_s.values().copied().collect::<Vec<_>>())
    }
}

/// The runs of all locks in a cell.
#[derive(Debug)]
pub(super) struct Field {
    /// Threads outnumber CPUs.
    crowded: bool,
    /// Some ranges overlap.
    contended: bool,
    locks: BTreeMap<String, Runs>,
}

impl Field {
    /// The field of a cell, on this number of CPUs, before the first run.
    pub(super) fn of(cell: &Cell, cpus: usize) -> Field {
        Field { crowded: cell.threads > cpus, contended: cell.overlap.is_some(), locks: BTreeMap::new() }
    }

    /// The field after the cell's runs; `None` if the default lock has no run.
    fn read(report: &Report, cell: &Cell) -> Option<Field> {
        let (case, mut field) = (cell.case(), Field::of(cell, report.machine.cpus));
        for run in report.runs.iter().filter(|run| run.case == case) {
            let value = |name: &str| run.values.get(name).copied();
            let Some((pairs_per_s, share)) = value(PAIRS).zip(value("slowest_share")) else { continue };
            let output = run.output.as_ref().and_then(|output| serde_json::from_str(output.get()).ok());
            let Counted { thread_pairs } = output.unwrap_or_default();
            field.add(&run.variant, run.round, pairs_per_s, share, &thread_pairs);
        }
        field.locks.contains_key(OWN).then_some(field)
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        round: usize,
        pairs_per_s: f64,
        share: f64,
        thread_pairs: &[u64],
    ) {
        let runs = self.locks.entry(name.to_owned()).or_default();
        runs.pairs_per_s.insert(round, pairs_per_s);
        runs.shares.push(share);
        runs.thread_pairs.resize(runs.thread_pairs.len().max(thread_pairs.len()), 0);
        runs.thread_pairs.iter_mut().zip(thread_pairs).for_each(|(sum, pairs)| *sum += pairs);
    }

    /// The slowest thread's share; `NaN` without a run.
    pub(super) fn share(&self, name: &str) -> f64 {
        self.locks.get(name).map_or(f64::NAN, |runs| match self.crowded {
            true => slowest_share(runs.thread_pairs.iter().copied()),
            false => median(&runs.shares),
        })
    }

    /// The median of its pairs per second; `NaN` without a run.
    pub(super) fn pairs_per_s(&self, name: &str) -> f64 {
        self.locks.get(name).map_or(f64::NAN, Runs::median)
    }

    /// The peers whose slowest thread has at least this part of the default lock's share; the
    /// fastest comes first.
    fn fastest_with(&self, part: f64) -> Vec<&str> {
        let own = self.locks.get(OWN).map_or(1.0, |_| self.share(OWN));
        let counts = |name: &str| !self.contended || self.share(name) >= part * own;
        let names = self.locks.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|name| peer(name) && counts(name)).collect();
        names.sort_by(|a, b| self.pairs_per_s(b).total_cmp(&self.pairs_per_s(a)));
        names
    }

    /// The fastest of the fair peers.
    pub(super) fn best_fair(&self) -> Option<&str> {
        self.fastest_with(FAIR).first().copied()
    }

    /// The fastest peer.
    pub(super) fn fastest(&self) -> Option<&str> {
        self.fastest_with(0.0).first().copied()
    }

    /// Whether a lock goes on: a lock that has not run, the default lock, the best fair peer so
    /// far, and the fastest peers that may be fair yet.
    pub(super) fn goes_on(&self, name: &str) -> bool {
        !self.locks.contains_key(name)
            || !peer(name)
            || self.best_fair() == Some(name)
            || self.fastest_with(FAIR_YET).iter().take(RIVALS).any(|rival| *rival == name)
    }
}

/// A cell that was measured.
pub(super) struct Measured {
    pub(super) cell: Cell,
    pub(super) field: Field,
    /// The ratio to the best fair peer, if there is one.
    pub(super) ratio: Option<Ratio>,
    /// The ratio to the fastest peer.
    pub(super) to_fastest: Option<Ratio>,
}

/// The ratio of the default lock to the named one.
fn compared(cell: &Cell, peer: &str) -> Compared {
    Compared::new(&cell.case(), OWN, peer, PAIRS)
}

/// The ratio of this cell to its best fair peer so far.
pub(super) fn of_cell(report: &Report, cell: &Cell) -> Option<Compared> {
    Some(compared(cell, Field::read(report, cell)?.best_fair()?))
}

/// All cells that were measured.
pub(super) fn measured(report: &Report) -> Vec<Measured> {
    let of = |cell: Cell| {
        let field = Field::read(report, &cell)?;
        let to = |peer: Option<&str>| report.ratio(&compared(&cell, peer?));
        let (ratio, to_fastest) = (to(field.best_fair()), to(field.fastest()));
        Some(Measured { cell, field, ratio, to_fastest })
    };
    Cell::all().filter_map(of).collect()
}

/// The median of the ratios of all cells to their best fair peers, round by round.
pub(super) fn median_ratio(report: &Report) -> Option<Ratio> {
    let mut rounds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let found = measured(report);
    for cell in &found {
        let runs = |name: &str| &cell.field.locks[name].pairs_per_s;
        let Some(best) = cell.field.best_fair() else { continue };
        for (round, own) in runs(OWN) {
            if let Some(other) = runs(best).get(round) {
                rounds.entry(*round).or_default().push(own / other);
            }
        }
    }
    rounds.retain(|_, ratios| ratios.len() as f64 >= COMPLETE * found.len() as f64);
    let medians: Vec<f64> = rounds.values().map(|ratios| median(ratios)).collect();
    let ones = vec![1.0; medians.len()];
    Ratio::new(GRID, (OWN, &medians), ("best fair peer of each cell", &ones), PAIRS)
}

/// The cell with the least ratio, and which it is in words.
pub(super) fn least(report: &Report) -> Option<(Compared, String)> {
    let found = measured(report);
    let ratio = |cell: &&Measured| cell.ratio.as_ref().map(|ratio| ratio.ratio);
    let least = found.iter().filter(|cell| cell.ratio.is_some());
    let least = least.min_by(|a, b| ratio(a).unwrap_or(f64::NAN).total_cmp(&ratio(b).unwrap_or(f64::NAN)))?;
    let best = least.field.best_fair()?;
    Some((
        compared(&least.cell, best),
        format!("{}: the least cell of the grid; its best fair peer is {best}", least.cell.case()),
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use report::{Machine, Run};
    use serde_json::value::RawValue;

    const CELL: Cell = Cell { threads: 2, hold_ns: 500, overlap: Some(31), readers_percent: 0 };

    /// The pairs of two threads in a round.
    pub(in super::super) fn add(report: &mut Report, cell: &Cell, name: &str, round: usize, pairs: [u64; 2]) {
        let share = slowest_share(pairs.into_iter());
        let values = [(PAIRS.to_owned(), (pairs[0] + pairs[1]) as f64), ("slowest_share".to_owned(), share)];
        let output = serde_json::to_string(&Counted { thread_pairs: pairs.to_vec() }).unwrap();
        let output = RawValue::from_string(output).ok();
        report.runs.push(Run {
            case: cell.case(),
            variant: name.into(),
            round,
            values: values.into(),
            output,
        });
    }

    /// Five rounds of two cells on this number of CPUs, with two fair peers and a faster unfair
    /// one.
    pub(in super::super) fn report(cpus: usize) -> Report {
        let mut report = Report::new("range", Machine { cpus, ..Machine::default() }, 0);
        for round in 0..5 {
            for (cell, own) in [(CELL, 60), (Cell { hold_ns: 0, ..CELL }, 100)] {
                add(&mut report, &cell, OWN, round, [own, own]);
                add(&mut report, &cell, "map", round, [80, 80]);
                add(&mut report, &cell, "song", round, [70, 70]);
                // Another thread is the slow one in each round.
                let mut pairs = [50, 400];
                pairs.rotate_left(round % 2);
                add(&mut report, &cell, "kogan", round, pairs);
            }
        }
        report
    }

    #[test]
    fn the_best_fair_peer_is_not_the_fastest() {
        let report = report(2);
        let field = Field::read(&report, &CELL).unwrap();
        assert_eq!((field.best_fair(), field.fastest()), (Some("map"), Some("kogan")));
        let ratio = report.ratio(&of_cell(&report, &CELL).unwrap()).unwrap();
        assert_eq!((ratio.under.as_str(), ratio.ratio, ratio.pairs.len()), ("map", 0.75, 5));
    }

    #[test]
    fn turns_of_the_scheduler_even_out_over_rounds_and_a_preference_where_each_has_a_cpu_does_not() {
        let share = |cpus: usize, rounds: usize| {
            let mut field = Field::of(&CELL, cpus);
            for round in 0..rounds {
                let mut pairs = [50, 150];
                pairs.rotate_left(round % 2);
                field.add("x", round, 1.0, slowest_share(pairs.into_iter()), &pairs);
            }
            field.share("x")
        };
        assert_eq!([share(1, 1), share(1, 4), share(2, 4)], [0.5, 1.0, 0.5]);
    }

    #[test]
    fn the_fastest_that_may_be_fair_go_on_and_the_next_one_if_one_of_them_is_not() {
        let mut field = Field::of(&CELL, 2);
        for (name, pairs_per_s, share) in [
            (OWN, 10.0, 1.0),
            ("a", 100.0, 0.5),
            ("b", 90.0, 0.7),
            ("c", 80.0, 0.7),
            ("d", 70.0, 0.7),
            ("e", 60.0, 0.7),
            ("f", 50.0, 0.7),
            ("g", 40.0, 1.0),
            ("h", 30.0, 1.0),
        ] {
            assert!(field.goes_on(name), "each runs in the first round");
            field.add(name, 0, pairs_per_s, share, &[]);
        }
        let go_on = |field: &Field| -> String {
            ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().filter(|name| field.goes_on(name)).collect()
        };
        assert!(field.goes_on(OWN));
        assert_eq!(go_on(&field), "bcdeg");
        field.add("b", 1, 90.0, 0.1, &[]);
        assert_eq!(go_on(&field), "cdefg");
    }

    #[test]
    fn a_peer_counts_as_fair_if_it_is_about_as_fair_as_the_default_lock_or_nobody_waits() {
        let best = |cell: Cell, own: f64| {
            let mut field = Field::of(&cell, 2);
            field.add(OWN, 0, 10.0, own, &[]);
            field.add("kogan", 0, 100.0, 0.5, &[]);
            field.add("map", 0, 50.0, 0.85, &[]);
            field.best_fair().map(str::to_owned)
        };
        let edges = Cell { overlap: None, ..CELL };
        assert_eq!(
            [best(CELL, 1.0), best(CELL, 0.9), best(CELL, 0.55)],
            [None, Some("map".into()), Some("kogan".into())]
        );
        assert_eq!(best(edges, 1.0).as_deref(), Some("kogan"));
    }

    #[test]
    fn the_median_is_that_of_the_cells_and_the_least_is_named() {
        let report = report(2);
        let middle = median_ratio(&report).unwrap();
        assert_eq!((middle.ratio, middle.pairs.len()), (1.0, 5), "of 0.75 and 1.25");
        let (least, words) = least(&report).unwrap();
        assert_eq!(report.ratio(&least).unwrap().ratio, 0.75);
        assert!(words.contains("500 ns, 31 %, exclusive") && words.ends_with("is map"), "{words}");
    }
}
