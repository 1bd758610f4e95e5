//! Which figure each target is about.
//!
//! A peer is every lock that is not the default one and that locks. The best peer is the best in
//! this very run.

use super::case::{CONTENDED, SHARD, W1, W1_SHUFFLED, W2, W2_SHUFFLED, scaled};
use super::competitor::{Competitor, OWN, peer};
use super::standing;
use super::variant::PAIRS;
use crate::verdict::{self, Figure};
use report::figure::three_digits;
use report::{Compared, Report};

/// Adds the verdicts, and which the best peers were.
pub(super) fn judge(report: &mut Report) {
    let mut best = Vec::new();
    verdict::judge(report, |report, id| {
        let (figure, against) = figure(report, id)?;
        best.extend(against.filter(|text| !best.contains(text)));
        Some(figure)
    });
    report.notes.extend(best);
}

/// The ratios that a case goes on for.
pub(super) fn watched(report: &Report, case: &str) -> Vec<Compared> {
    verdict::watched(report, case, |report, id| Some(figure(report, id)?.0))
}

/// True of a version that locks blocks.
fn has_blocks(name: &str) -> bool {
    Competitor::ALL.iter().any(|competitor| competitor.has_blocks() && competitor.name() == name)
}

/// The peer whose figure is the largest, or the smallest; of all peers, or of the peers that do not
/// lock blocks.
fn best(report: &Report, case: &str, figure: &str, largest: bool, blocks: bool) -> Option<(f64, String)> {
    let of = |name: String| (report.middle(case, &name, figure), name);
    let takes_part = |name: &String| peer(name) && (blocks || !has_blocks(name));
    let peers = report.variants(case).into_iter().filter(takes_part).map(of);
    let better = |one: &(f64, String), other: &(f64, String)| one.0.total_cmp(&other.0);
    let peers = peers.filter(|(value, _)| value.is_finite());
    if largest { peers.max_by(better) } else { peers.min_by(better) }
}

/// What a target looks at, and which the best peer was, in words.
type Looks = (Figure, Option<String>);

/// What a target looks at by its id; `None` if there is no such figure.
fn figure(report: &Report, id: &str) -> Option<Looks> {
    let over_best = |case: &str, figure: &str, largest: bool| -> Looks {
        let own = report.middle(case, OWN, figure);
        // Locks of blocks that are told the workload's own grid lock numbers, not ranges: they are
        // named, and judge nothing.
        match best(report, case, figure, largest, false) {
            Some((_, name)) if own.is_finite() => {
                let mut text = format!("{case}: the best peer is {name}");
                if let Some((other, any)) =
                    best(report, case, figure, largest, true).filter(|(_, any)| has_blocks(any))
                {
                    let ratio = three_digits(own / other);
                    text.push_str(&format!(
                        "; {any} locks blocks of the very width that is asked for, and against it the figure is {ratio}"
                    ));
                }
                (Figure::ratio(case, OWN, &name, figure), Some(text))
            }
            _ => (Figure::missing(), None),
        }
    };
    // range-WORKLOAD-THREADS-AGAINST, range-WORKLOAD-shuffled-THREADS-AGAINST
    let words: Vec<&str> = id.split('-').collect();
    let workload = match words[..] {
        ["range", "w1", "shuffled", ..] => Some(W1_SHUFFLED),
        ["range", "w2", "shuffled", ..] => Some(W2_SHUFFLED),
        ["range", "w1", ..] => Some(W1),
        ["range", "w2", ..] => Some(W2),
        ["range", "shard", ..] => Some(SHARD),
        _ => None,
    };
    if let (Some(workload), [.., threads, against]) = (workload, &words[..]) {
        let case = scaled(workload, threads.parse().ok()?);
        return (*against == "peer").then(|| over_best(&case, PAIRS, true));
    }
    Some(match id {
        "range-contended-max" => over_best(CONTENDED, "acquire_max_ns", false),
        "range-grid-median" => {
            (standing::median_ratio(report).map_or_else(Figure::missing, Figure::Known), None)
        }
        "range-grid-least" => standing::least(report)
            .map_or((Figure::missing(), None), |(least, words)| (Figure::Ratio(least), Some(words))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::case::{KEYS, MEMORY, MEMORY_LASTING, SINGLE, THESIS, WIDTHS, blob};
    use report::Machine;

    fn add(report: &mut Report, case: &str, name: &str, values: &[(&str, f64)]) {
        let round = report.runs_of(case, name).count();
        report.add(case, name, round, values);
    }

    fn measured(report: &Report, id: &str) -> f64 {
        figure(report, id).expect("a known target").0.value(report)
    }

    #[test]
    fn the_best_peer_is_neither_the_own_lock_nor_none() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(W1, 8);
        for (name, pairs) in [("map", 10.0), ("x", 20.0), ("none", 400.0)] {
            add(&mut report, &case, name, &[(PAIRS, pairs)]);
        }
        assert!(measured(&report, "range-w1-8-peer").is_nan());
        add(&mut report, &case, OWN, &[(PAIRS, 100.0)]);
        assert_eq!(measured(&report, "range-w1-8-peer"), 5.0);
        super::super::conclude(&mut report);
        let noted = "w1, 8 threads: the best peer is x";
        assert!(report.notes.iter().any(|note| note == noted), "{:?}", report.notes);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "range-w1-8-peer").unwrap();
        assert_eq!((verdict.measured, verdict.pairs), (Some(5.0), Some(1)));
    }

    #[test]
    fn a_lock_of_blocks_is_named_and_judges_nothing() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(W1, 2);
        for (name, pairs) in [("map", 10.0), ("segments", 50.0), (OWN, 40.0)] {
            add(&mut report, &case, name, &[(PAIRS, pairs)]);
        }
        let (ratio, text) = figure(&report, "range-w1-2-peer").unwrap();
        assert_eq!(ratio.value(&report), 4.0);
        let text = text.unwrap();
        assert!(text.contains("the best peer is map; segments locks blocks"), "{text}");
        assert!(text.ends_with("against it the figure is 0.800"), "{text}");
    }

    #[test]
    fn of_maxima_the_smallest_is_the_best() {
        let mut report = Report::new("range", Machine::default(), 0);
        for (name, max_ns) in [("map", 10.0), ("x", 5.0), (OWN, 20.0)] {
            add(&mut report, CONTENDED, name, &[("acquire_max_ns", max_ns)]);
        }
        assert_eq!(measured(&report, "range-contended-max"), 4.0);
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let figure = |report: &Report, id: &str| Some(figure(report, id)?.0);
        let objects = [blob(THESIS), blob(4096)];
        let scaled =
            [W1, W2, KEYS, &objects[0], &objects[1]].into_iter().flat_map(|it| [2, 8].map(|n| scaled(it, n)));
        let single = [SINGLE, CONTENDED, WIDTHS, MEMORY, MEMORY_LASTING].map(str::to_owned);
        verdict::check_ids("range", &scaled.chain(single).collect::<Vec<_>>(), figure);
        assert!(figure(&Report::new("range", Machine::default(), 0), "range-w1-2-dog").is_none());
    }
}
