//! What the runs mean for the figures to reach: `report`'s targets of the bench `locks`.
//!
//! A target's id is `locks-CASE-THREADS-FIGURE`, so the file of targets alone says where each
//! figure is wanted. A placement has its own verdict, and a target has none if its case or thread
//! count did not run. A ratio is that of pairs: of two runs in one round and at one placement.

use super::round::{Entry, Outcome, Placement};
use crate::handover::median;
use report::Ratio;
use report::target::{Measured, Target, Verdict, of_bench};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
    run.all.max_ns as f64
}
fn share(run: &Outcome) -> f64 {
    run.slowest_over_mean
}
fn p99(run: &Outcome) -> f64 {
    run.all.p99_ns as f64
}
fn big_p99(run: &Outcome) -> f64 {
    run.big.p99_ns as f64
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

/// All runs of a lock at a thread count, of one placement.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: &'static str,
    /// How many threads.
    pub threads: usize,
    /// The lock.
    pub lock: String,
    /// Whether throughput is compared with it.
    pub barging: bool,
    /// Where the CPUs were.
    pub placement: Option<Placement>,
    /// The runs.
    pub runs: Vec<Outcome>,
    /// The round of each of them.
    pub rounds: Vec<usize>,
    /// Why runs failed.
    pub failures: Vec<String>,
}

impl Row {
    /// The median of something over the runs.
    pub fn of(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.runs.iter().map(value))
    }
}

/// Runs of one placement are never put together with those of another; `results` are by round.
pub fn rows(
    case: &'static str,
    threads: usize,
    entry: &Entry,
    results: Vec<Result<Outcome, String>>,
) -> Vec<Row> {
    let row = |placement, (rounds, runs), failures| Row {
        case,
        threads,
        lock: entry.name.clone(),
        barging: entry.barging,
        placement,
        runs,
        rounds,
        failures,
    };
    let (mut groups, mut failures) = (BTreeMap::<Placement, (Vec<usize>, Vec<Outcome>)>::new(), Vec::new());
    for (round, result) in results.into_iter().enumerate() {
        match result {
            Ok(outcome) => {
                let (rounds, runs) = groups.entry(outcome.placement()).or_default();
                rounds.push(round);
                runs.push(outcome);
            }
            Err(why) => failures.push(why),
        }
    }
    let mut rows: Vec<Row> =
        groups.into_iter().map(|(placement, runs)| row(Some(placement), runs, Vec::new())).collect();
    if !failures.is_empty() {
        rows.push(row(None, Default::default(), failures));
    }
    rows
}

/// The rows of one case, thread count after thread count; near and far apart.
pub fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>7} {:6} {:18} {:>4} {:>11} {:>8} {:>9} {:>9} {:>9} {:>10} {:>7} {:>7} {:>8}\n",
        "threads",
        "place",
        "lock",
        "runs",
        "epochs/s",
        "/best",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "/mean",
        "/fast",
        "pair ns"
    );
    for row in rows {
        let place = row.placement.map_or("-".into(), |place| format!("{place:?}").to_lowercase());
        let head = format!("{:>7} {place:6} {:18}", row.threads, row.lock);
        if let Some(why) = row.failures.first() {
            text += &format!("{head} {} failed: {why}\n", row.failures.len());
            continue;
        }
        let rate = row.of(|run| run.epochs_per_s);
        let best = rows
            .iter()
            .filter(|peer| peer.barging && (peer.threads, peer.placement) == (row.threads, row.placement))
            .filter(|peer| !peer.runs.is_empty())
            .map(|peer| peer.of(|run| run.epochs_per_s))
            .fold(f64::NAN, f64::max);
        let us = |value: fn(&Outcome) -> u64| row.of(|run| value(run) as f64) / 1e3;
        text += &format!(
            "{head} {:4} {rate:11.0} {:>8} {:>9} {:>9} {:>9} {:>10} {:7.2} {:7.2} {:>8}\n",
            row.runs.len(),
            cell(rate / best, 2),
            cell(us(|run| run.all.p50_ns), 2),
            cell(us(|run| run.all.p99_ns), 2),
            cell(us(|run| run.all.p999_ns), 1),
            cell(us(|run| run.all.max_ns), 1),
            row.of(|run| run.slowest_over_mean),
            row.of(|run| run.slowest_over_fastest),
            cell(row.of(|run| run.pair_ns), 2),
        );
        let pairs = || row.runs.iter().map(|run| run.pair_ns);
        let (fastest, slowest) = (pairs().fold(f64::INFINITY, f64::min), pairs().fold(0.0, f64::max));
        if slowest > 0.0 {
            text += &format!("{:33} pair from {fastest:.2} to {slowest:.2} ns\n", "");
        }
        if row.of(|run| run.little_part) > 0.0 {
            text += &format!(
                "{:33} big {:.0}/s, p99 {:.1} µs; little {:.0}/s, p99 {:.1} µs, part {:.2}\n",
                "",
                row.of(|run| run.epochs_per_s * (1.0 - run.little_part)),
                us(|run| run.big.p99_ns),
                row.of(|run| run.epochs_per_s * run.little_part),
                us(|run| run.little.p99_ns),
                row.of(|run| run.little_part),
            );
        }
    }
    text
}

/// A figure, or a dash where the case has none or there is no peer to compare with.
fn cell(value: f64, digits: usize) -> String {
    if value > 0.0 { format!("{value:.digits$}") } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::super::run::CASES;
    use super::*;
    use report::Summary;
    use report::target::Outcome as Reached;

    fn row(lock: &str, epochs_per_s: f64, max_ns: u64, round_trip_ns: f64) -> Row {
        let run = Outcome {
            epochs_per_s,
            all: Summary { max_ns, ..Summary::default() },
            slowest_over_mean: 0.9,
            slowest_over_fastest: 0.9,
            round_trips_ns: vec![round_trip_ns; 2],
            ..Outcome::default()
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
        let near = [row("manx", 99.0, 3_000_000, 100.0), row("std", 100.0, 9_000_000, 100.0)];
        let far = [row("manx", 50.0, 5_000_000, 300.0), row("parking_lot", 100.0, 2_000_000, 300.0)];
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
        let all = verdicts(&[row("manx", 99.0, 3_000_000, 100.0)]);
        assert_eq!(find(&all, "locks-scaling-8-throughput"), [(None, Reached::NotMeasured)]);
    }

    #[test]
    fn pairs_are_of_one_round_and_few_of_them_are_no_verdict() {
        let (mut mine, mut peer) =
            (row("manx", 100.0, 3_000_000, 100.0), row("std", 100.0, 9_000_000, 100.0));
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

    #[test]
    fn a_value_that_a_case_lacks_is_a_dash() {
        assert_eq!([cell(1.25, 1), cell(0.0, 2), cell(f64::NAN, 2)], ["1.2", "-", "-"]);
    }
}
