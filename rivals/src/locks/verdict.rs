//! What the runs mean for the figures to reach: `report`'s targets of the bench `locks`.
//!
//! A target's id is `locks-CASE-THREADS-FIGURE`, so the file of targets alone says where each figure is wanted. A
//! placement has its own verdict, and a target whose case or thread count did not run has none.

use std::collections::BTreeSet;

use report::Spread;
use report::target::{Target, Verdict, of_bench};

use super::outcome::{Outcome, Placement};
use super::table::Row;

/// A longest epoch up to this is never held against a lock in the case `scaling`.
const MAX_NS: f64 = 4e6;
/// Whom throughput is compared with where the best barging peer is not asked for.
const STOCK: [&str; 2] = ["std", "parking_lot"];
/// A rival that counts as a peer of two threads if the user names it so.
const PAIR_PEER: &str = "flexguard";

/// Something of a run.
type Value = fn(&Outcome) -> f64;

/// The runs of one case, thread count and placement.
struct Group<'a>(Vec<&'a Row>);

/// What a target asks for.
struct Wanted<'a> {
    case: &'a str,
    threads: usize,
    figure: &'a str,
}

impl<'a> Wanted<'a> {
    /// The parts of an id; `None` if it is none of this bench.
    fn parse(id: &'a str) -> Option<Self> {
        let (rest, figure) = id.strip_prefix("locks-")?.rsplit_once('-')?;
        let (case, threads) = rest.rsplit_once('-')?;
        Some(Self { case, threads: threads.parse().ok()?, figure })
    }
}

impl Group<'_> {
    /// The median over the runs of a lock.
    fn of(&self, lock: &str, value: Value) -> Option<f64> {
        self.0.iter().find(|row| row.lock == lock).map(|row| row.of(value))
    }

    /// The highest throughput among the peers that the case is compared with.
    fn best_rate(&self, wanted: &Wanted) -> Option<f64> {
        let counts = |row: &Row| match wanted.case {
            "scaling" => row.barging || (wanted.threads == 2 && row.lock.eq_ignore_ascii_case(PAIR_PEER)),
            _ => STOCK.contains(&row.lock.as_str()),
        };
        let rates = self.0.iter().filter(|row| counts(row)).map(|row| row.of(rate));
        rates.reduce(f64::max)
    }

    /// The figure, and what of a run it is made of.
    fn figure(&self, wanted: &Wanted) -> Option<(f64, Value)> {
        let over = |mine: &str, peer: &str, value: Value| {
            Some((self.of(mine, value)? / self.of(peer, value)?, value))
        };
        match wanted.figure {
            "pair" => over("manx", "parking_lot", pair),
            "interposed" => over("preload-manx", "glibc", pair),
            "throughput" => Some((self.of("manx", rate)? / self.best_rate(wanted)?, rate)),
            "gain" => over("manx", "std", rate),
            "max" => {
                let floor = if wanted.case == "scaling" { MAX_NS } else { 0.0 };
                Some((self.of("manx", max)? / self.of("parking_lot", max)?.max(floor), max))
            }
            "share" => Some((self.of("manx", share)?, share)),
            "p99" => over("manx", "std", p99),
            "bigp99" => over("manx", "std", big_p99),
            _ => None,
        }
    }

    /// `std` against itself.
    fn spread(&self, case: &str, value: Value) -> Option<Spread> {
        let samples = |lock: &str| -> Option<Vec<f64>> {
            let row = self.0.iter().find(|row| row.lock == lock)?;
            Some(row.runs.iter().map(value).collect())
        };
        Spread::new(case, "std against std", &samples("std")?, &samples("std-again")?)
    }
}

fn rate(run: &Outcome) -> f64 {
    run.epochs_per_s
}
fn pair(run: &Outcome) -> f64 {
    run.pair_ns
}
fn max(run: &Outcome) -> f64 {
    run.all.max_ns
}
fn share(run: &Outcome) -> f64 {
    run.slowest_over_mean
}
fn p99(run: &Outcome) -> f64 {
    run.all.p99_ns
}
fn big_p99(run: &Outcome) -> f64 {
    run.big.p99_ns
}

/// The verdicts on everything that ran.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    of_bench("locks").iter().flat_map(|target| judge(target, rows)).collect()
}

fn judge(target: &Target, rows: &[Row]) -> Vec<Verdict> {
    let Some(wanted) = Wanted::parse(&target.id) else {
        return vec![target.unmeasured("no figure of this bench")];
    };
    let ran: Vec<&Row> =
        rows.iter().filter(|row| (row.case, row.threads) == (wanted.case, wanted.threads)).collect();
    let places: BTreeSet<Placement> = ran.iter().filter_map(|row| row.placement).collect();
    let mut verdicts = Vec::new();
    for place in places.into_iter().filter(|&place| place != Placement::Mixed) {
        let group = Group(ran.iter().copied().filter(|row| row.placement == Some(place)).collect());
        if let Some((measured, value)) = group.figure(&wanted) {
            let mut verdict = target.judge(measured, group.spread(wanted.case, value).as_ref());
            if place != Placement::Alone {
                verdict.name += &format!(", {}", format!("{place:?}").to_lowercase());
            }
            verdicts.push(verdict);
        }
    }
    if verdicts.is_empty() && !ran.is_empty() {
        verdicts.push(target.unmeasured("the locks that it compares did not run at one placement"));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Latency;
    use super::*;
    use crate::locks::case::CASES;
    use report::target::Outcome as Reached;

    fn row(lock: &str, epochs_per_s: f64, max_ns: f64, round_trip_ns: f64) -> Row {
        let run = Outcome {
            epochs_per_s,
            pair_ns: 0.0,
            all: Latency { max_ns, ..Latency::default() },
            big: Latency::default(),
            little: Latency::default(),
            little_part: 0.0,
            slowest_over_mean: 0.9,
            slowest_over_fastest: 0.9,
            round_trips_ns: vec![round_trip_ns; 2],
        };
        Row {
            case: "scaling",
            threads: 8,
            lock: lock.into(),
            barging: STOCK.contains(&lock),
            placement: Some(run.placement()),
            runs: vec![run],
            failures: Vec::new(),
        }
    }

    fn find(verdicts: &[Verdict], id: &str) -> Vec<(Option<f64>, Reached)> {
        let of = verdicts.iter().filter(|verdict| verdict.id == id);
        of.map(|verdict| (verdict.measured, verdict.verdict)).collect()
    }

    #[test]
    fn every_target_is_of_a_case_that_runs_at_its_thread_count() {
        let targets = of_bench("locks");
        assert!(!targets.is_empty());
        for target in targets {
            let wanted = Wanted::parse(&target.id).unwrap_or_else(|| panic!("{}", target.id));
            let case = CASES.iter().find(|case| case.name == wanted.case);
            assert!(case.unwrap().threads.contains(&wanted.threads), "{}", target.id);
            let figures = ["pair", "interposed", "throughput", "gain", "max", "share", "p99", "bigp99"];
            assert!(figures.contains(&wanted.figure), "{}", target.id);
        }
    }

    #[test]
    fn near_and_far_have_verdicts_of_their_own() {
        let near = [row("manx", 99.0, 3e6, 100.0), row("std", 100.0, 9e6, 100.0)];
        let far = [row("manx", 50.0, 5e6, 300.0), row("parking_lot", 100.0, 2e6, 300.0)];
        let all = verdicts(&near.into_iter().chain(far).collect::<Vec<_>>());
        let rates = find(&all, "locks-scaling-8-throughput");
        assert_eq!(rates, [(Some(0.99), Reached::Met), (Some(0.5), Reached::FallsShort)]);
        // Near, `parking_lot` did not run; far, its maximum is below what is never held against a lock.
        assert_eq!(find(&all, "locks-scaling-8-max"), [(Some(1.25), Reached::FallsShort)]);
        assert_eq!(find(&all, "locks-scaling-8-share").len(), 2);
        assert!(find(&all, "locks-scaling-16-max").is_empty(), "16 threads did not run");
    }

    #[test]
    fn what_lacks_a_peer_is_not_measured() {
        let all = verdicts(&[row("manx", 99.0, 3e6, 100.0)]);
        assert_eq!(find(&all, "locks-scaling-8-throughput"), [(None, Reached::NotMeasured)]);
    }
}
