//! What the runs mean for the figures to reach: `report`'s targets of the bench `locks`.
//!
//! A target's id is `locks-CASE-THREADS-FIGURE`, so the file of targets alone says where each
//! figure is wanted. A placement has its own verdict, and a target has none if its case or thread
//! count did not run. A ratio is that of pairs: of two runs in one round and at one placement.

use std::collections::BTreeSet;

use report::Ratio;
use report::target::{Measured, Target, Verdict, of_bench};

use super::outcome::{Outcome, Placement};
use super::table::Row;

/// A longest epoch up to this is never held against a lock in the case `scaling`.
const MAX_NS: f64 = 4e6;
/// The peers that throughput is compared with where the best barging peer is not asked for.
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
    fn row(&self, lock: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.lock == lock).copied()
    }

    /// Returns the peer with the highest throughput among the peers that the case is compared with.
    fn best(&self, wanted: &Wanted) -> Option<&str> {
        let counts = |row: &Row| match wanted.case {
            "scaling" => row.barging || (wanted.threads == 2 && row.lock.eq_ignore_ascii_case(PAIR_PEER)),
            _ => STOCK.contains(&row.lock.as_str()),
        };
        let rates = self.0.iter().filter(|row| counts(row)).map(|row| (row.of(rate), row.lock.as_str()));
        rates.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, lock)| lock)
    }

    /// A lock's figures over a peer's, by round; a peer's figure counts as `floor` at least.
    fn ratio(&self, wanted: &Wanted, mine: &str, peer: &str, value: Value, floor: f64) -> Option<Measured> {
        let (mine, peer) = (self.row(mine)?, self.row(peer)?);
        let of = |row: &Row, round| row.rounds.iter().position(|&other| other == round);
        let pairs = mine.rounds.iter().enumerate().filter_map(|(at, &round)| {
            Some((value(&mine.runs[at]), value(&peer.runs[of(peer, round)?]).max(floor)))
        });
        let (over, under): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let case = format!("{}, {} threads", wanted.case, wanted.threads);
        let ratio = Ratio::new(&case, (&mine.lock, &over), (&peer.lock, &under), wanted.figure)?;
        Some(Measured::Ratio(ratio))
    }

    /// What a target asks for.
    fn figure(&self, wanted: &Wanted) -> Option<Measured> {
        let over = |mine: &str, peer: &str, value: Value| self.ratio(wanted, mine, peer, value, 0.0);
        match wanted.figure {
            "pair" => over("manx", "parking_lot", pair),
            "interposed" => over("preload-manx", "glibc", pair),
            "throughput" => over("manx", self.best(wanted)?, rate),
            "gain" => over("manx", "std", rate),
            "max" => {
                let floor = if wanted.case == "scaling" { MAX_NS } else { 0.0 };
                self.ratio(wanted, "manx", "parking_lot", max, floor)
            }
            "share" => Some(Measured::Plain(self.row("manx")?.of(share))),
            "p99" => over("manx", "std", p99),
            "bigp99" => over("manx", "std", big_p99),
            _ => None,
        }
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

/// The ratios of a case and thread count that targets are about: it goes on until they are known.
pub fn watched(rows: &[Row]) -> Vec<Ratio> {
    let mut watched = Vec::new();
    for target in of_bench("locks").iter().filter(|target| target.relative) {
        let Some(wanted) = Wanted::parse(&target.id) else { continue };
        for (_, measured) in figures(&wanted, rows) {
            if let Measured::Ratio(ratio) = measured {
                watched.push(ratio);
            }
        }
    }
    watched
}

/// The rows that a target is about.
fn ran<'a>(wanted: &Wanted, rows: &'a [Row]) -> Vec<&'a Row> {
    rows.iter().filter(|row| (row.case, row.threads) == (wanted.case, wanted.threads)).collect()
}

/// What a target asks for, at each placement.
fn figures(wanted: &Wanted, rows: &[Row]) -> Vec<(Placement, Measured)> {
    let ran = ran(wanted, rows);
    let places: BTreeSet<Placement> = ran.iter().filter_map(|row| row.placement).collect();
    let of = |place| {
        let group = Group(ran.iter().copied().filter(|row| row.placement == Some(place)).collect());
        Some((place, group.figure(wanted)?))
    };
    places.into_iter().filter(|&place| place != Placement::Mixed).filter_map(of).collect()
}

fn judge(target: &Target, rows: &[Row]) -> Vec<Verdict> {
    let Some(wanted) = Wanted::parse(&target.id) else {
        return vec![target.unmeasured("no figure of this bench")];
    };
    let mut verdicts = Vec::new();
    for (place, measured) in figures(&wanted, rows) {
        let mut verdict = target.judge(&measured);
        if place != Placement::Alone {
            verdict.name += &format!(", {}", format!("{place:?}").to_lowercase());
        }
        verdicts.push(verdict);
    }
    if verdicts.is_empty() && !ran(&wanted, rows).is_empty() {
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
            runs: vec![run; 5],
            rounds: (0..5).collect(),
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
        // Near, `parking_lot` did not run; far, its maximum is below what is never held against a
        // lock.
        assert_eq!(find(&all, "locks-scaling-8-max"), [(Some(1.25), Reached::FallsShort)]);
        assert_eq!(find(&all, "locks-scaling-8-share").len(), 2);
        assert!(find(&all, "locks-scaling-16-max").is_empty(), "16 threads did not run");
    }

    #[test]
    fn a_target_without_its_peer_is_not_measured() {
        let all = verdicts(&[row("manx", 99.0, 3e6, 100.0)]);
        assert_eq!(find(&all, "locks-scaling-8-throughput"), [(None, Reached::NotMeasured)]);
    }

    #[test]
    fn pairs_are_of_one_round_and_few_of_them_are_no_verdict() {
        let (mut mine, mut peer) = (row("manx", 100.0, 3e6, 100.0), row("std", 100.0, 9e6, 100.0));
        // In odd rounds the machine is half as fast, and `std` lacks the round before the last.
        for (at, run) in mine.runs.iter_mut().enumerate().chain(peer.runs.iter_mut().enumerate()) {
            run.epochs_per_s /= (1 + at % 2) as f64;
        }
        peer.runs.remove(3);
        peer.rounds.remove(3);
        let rows = [mine, peer];
        let rates = find(&verdicts(&rows), "locks-scaling-8-throughput");
        assert_eq!(rates, [(Some(1.0), Reached::NotMeasured)], "four pairs");
        let watched = watched(&rows);
        assert_eq!(watched.len(), 1, "the maximum's peer did not run: {watched:?}");
        assert_eq!(watched[0].pairs, [1.0; 4]);
    }
}
