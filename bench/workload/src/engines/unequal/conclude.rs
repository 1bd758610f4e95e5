//! From runs to tables and verdicts: each version beside the C library's locks, and each class of
//! threads by itself.

use super::version::{ALONE, ASL, GLIBC, at_the_tail_of, is_asl_with_a_target};
use crate::engines::Subject;
use crate::verdict::{self, Figure};
use report::Table;
use report::sheet::number;
use report::{Compared, Report, Sheet};

/// How the figures of each class of threads begin; each version has big threads.
const CLASSES: [(&str, &str); 3] = [("?big", "big_"), ("?little", "little_"), ("?all", "")];
const THROUGHPUTS: &str = "
    program = case | version = version | runs [] = count throughput_per_s
    throughput [op/s] = throughput_per_s
    of glibc [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s | target [µs] = slo_ns
    little p99 [of target] = little_p99_ns / slo_ns | big p99 [of target] = big_p99_ns / slo_ns
    little missed [%] = @missed | little operations [] = sum whole little_count
    slowest thread [of mean] = slowest_of_mean";
const LATENCIES: &str = "
    program = case | version = version | threads = part | operations [] = whole *count
    p50 [µs] = *p50_ns | p99 [µs] = *p99_ns | p99.9 [µs] = *p999_ns | max [ms] = *max_ns
    worst max [ms] = worst *max_ns";
/// A percentile this little above its target is on it.
const KEPT: f64 = 1.05;
/// As many databases are to reach what a target asks for.
const BEST: usize = 3;

/// Draws tables of what was measured, and judges the targets for unequal cores.
pub fn conclude(report: &mut Report, subjects: &[&'static Subject]) {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    let missed = |report: &Report, case: &str, version: &str, _: &str| {
        number(missed_percent(report, case, version).unwrap_or(f64::NAN))
    };
    for (title, sheet) in [
        ("Throughput and targets, medians of the rounds", Sheet::new(THROUGHPUTS).over(GLIBC).own(&missed)),
        ("Latencies by class of threads, medians of the rounds", Sheet::new(LATENCIES).parts(&CLASSES)),
    ] {
        report.show(sheet.of(report, title, &names));
    }
    report.show(against(report, &names));
    let measured = measured(report, names.iter().copied());
    verdict::judge_or(report, |_, id| match id {
        "unequal-third" => {
            let mut best: Vec<&Marked> = best_kept(&measured);
            best.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
            let why = || format!("only {} databases kept a target", best.len());
            best.get(BEST - 1).map(|marked| marked.figure()).ok_or_else(why)
        }
        "unequal-least" => {
            let least = measured.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
            let why = || "nothing was measured with a target".to_owned();
            least.map(Marked::figure).ok_or_else(why)
        }
        _ => Err(OTHER.to_owned()),
    });
    report.targets.retain(|target| target.reason.as_deref() != Some(OTHER));
}

/// The asymmetry-aware lock beside each other version: without a target, at the same target, and at
/// the target that is the other version's tail.
fn against(report: &Report, names: &[&str]) -> Table {
    let headers = [
        "program",
        "version",
        "beside",
        "throughput [of it]",
        "95 % []",
        "little p99 [of it]",
        "worst little max [of it]",
    ];
    let mut table = Table::new("asl beside the others, by pairs", &headers);
    for case in names {
        let versions = versions(report, case);
        for other in
            versions.iter().filter(|name| *name != ALONE && *name != ASL && !is_asl_with_a_target(name))
        {
            let same = match other.split_once(", ") {
                Some((_, target)) => format!("{ASL}, {target}"),
                None => ASL.to_owned(),
            };
            for asl in [same, format!("{ASL}, {}", at_the_tail_of(other))] {
                if !versions.contains(&asl) {
                    continue;
                }
                let [throughput, interval] = report.over(case, &asl, other, "throughput_per_s");
                let tail =
                    report.middle(case, &asl, "little_p99_ns") / report.middle(case, other, "little_p99_ns");
                let longest =
                    report.worst(case, &asl, "little_max_ns") / report.worst(case, other, "little_max_ns");
                table.row([
                    (*case).into(),
                    asl,
                    other.clone(),
                    throughput,
                    interval,
                    number(tail),
                    number(longest),
                ]);
            }
        }
    }
    table
}

/// Why a target of another experiment is not shown.
const OTHER: &str = "this is for equal cores";

/// The ratios that a program goes on for: each of its versions with a target may be the version
/// that counts. And so does the lock without a target, beside each of the others.
pub(super) fn watched(report: &Report, case: &str) -> Vec<Compared> {
    let marked = measured(report, [case].into_iter());
    let others = versions(report, case)
        .into_iter()
        .filter(|name| name != ASL && name != ALONE && !name.contains(", "));
    let others = others.map(|other| Compared::new(case, ASL, &other, "throughput_per_s"));
    marked.iter().map(Marked::compared).chain(others).collect()
}

/// A version with a target, by its medians.
#[derive(Clone, Debug)]
struct Marked {
    case: String,
    version: String,
    /// Throughput over the reference's
    ratio: f64,
    /// The percentile of the class that took longer, over the target
    of_slo: f64,
}

impl Marked {
    fn compared(&self) -> Compared {
        Compared::new(&self.case, &self.version, GLIBC, "throughput_per_s")
    }

    fn figure(&self) -> Figure {
        Figure::Ratio(self.compared())
    }
}

fn measured<'a>(report: &Report, cases: impl Iterator<Item = &'a str>) -> Vec<Marked> {
    let mut measured = Vec::new();
    for case in cases {
        for version in versions(report, case).into_iter().filter(|name| is_asl_with_a_target(name)) {
            let slo_ns = report.middle(case, &version, "slo_ns");
            let p99_ns = |class: &str| report.middle(case, &version, &format!("{class}p99_ns"));
            let of_slo = p99_ns("big_").max(p99_ns("little_")) / slo_ns;
            let ratio = verdict::ratio(report, case, &version, GLIBC, "throughput_per_s");
            if ratio.is_finite() && of_slo.is_finite() {
                measured.push(Marked { case: case.into(), version, ratio, of_slo });
            }
        }
    }
    measured
}

/// Of each database that kept a target the version with the largest ratio that did.
fn best_kept(measured: &[Marked]) -> Vec<&Marked> {
    let mut best: Vec<&Marked> = Vec::new();
    for marked in measured.iter().filter(|marked| marked.of_slo <= KEPT) {
        match best.iter_mut().find(|known| known.case == marked.case) {
            Some(known) if known.ratio < marked.ratio => *known = marked,
            Some(_) => {}
            None => best.push(marked),
        }
    }
    best
}

/// The versions of a program that were measured, in their order.
pub(super) fn versions(report: &Report, case: &str) -> Vec<String> {
    report.variants(case)
}

/// Operations of little threads that took longer than they were to, in percent of theirs, over all
/// rounds.
fn missed_percent(report: &Report, case: &str, version: &str) -> Option<f64> {
    let (mut missed, mut count) = (0.0, 0.0);
    for run in report.runs_of(case, version) {
        let (share, operations) = (run.values.get("little_missed")?, run.values.get("little_count")?);
        missed += share * operations;
        count += operations;
    }
    (count > 0.0).then_some(missed / count * 100.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engines::choose;
    use report::Machine;
    use report::target::Outcome;

    /// Five rounds of each version of three databases; with a target throughput is `gain` times the
    /// reference's, and little threads' percentile is `of_slo` of it.
    pub fn report(gain: [f64; 3], of_slo: f64) -> (Report, Vec<&'static Subject>) {
        let names = ["kyoto-cache", "leveldb-get", "sqlite-scan"].map(str::to_owned);
        let subjects = choose(&names).unwrap();
        let mut report = Report::new("engines", Machine::default(), 0);
        for (subject, gain) in subjects.iter().zip(gain) {
            for round in 0..5 {
                for version in [GLIBC, ASL, "asl, 2.00x", "asl, 4.00x"] {
                    let slo_ns = 20_000.0;
                    let marked = version.starts_with("asl, ");
                    let (rate, tail_ns) = match version {
                        "asl, 4.00x" => (1000.0 * gain, of_slo * slo_ns),
                        "asl, 2.00x" => (1100.0, slo_ns),
                        ASL => (9000.0, 1e8),
                        _ => (998.0 + round as f64, 10_000.0),
                    };
                    let mut values = vec![
                        ("throughput_per_s", rate),
                        ("slowest_of_mean", 0.5),
                        ("count", rate),
                        ("big_count", rate),
                        ("little_count", 100.0 * (1.0 + round as f64)),
                        ("little_p99_ns", tail_ns),
                        ("big_p99_ns", 5_000.0),
                    ];
                    if marked {
                        values.extend([("slo_ns", slo_ns), ("little_missed", 0.01 * round as f64)]);
                    }
                    report.add(subject.name, version, round, &values);
                }
            }
        }
        (report, subjects)
    }

    fn verdicts(gain: [f64; 3], of_slo: f64) -> Vec<(String, Option<f64>, Outcome)> {
        let (mut report, subjects) = report(gain, of_slo);
        conclude(&mut report, &subjects);
        report.targets.into_iter().map(|target| (target.id, target.measured, target.verdict)).collect()
    }

    #[test]
    fn the_third_best_database_that_kept_a_target_decides() {
        let met = verdicts([1.5, 3.0, 2.0], 1.04);
        assert_eq!(met.len(), 2, "{met:?}");
        assert_eq!((met[0].0.as_str(), met[0].2), ("unequal-third", Outcome::Met));
        assert!((met[0].1.unwrap() - 1500.0 / 1000.0).abs() < 1e-9, "{met:?}");
        // A database that misses a target counts with the targets that it keeps, however fast it
        // is.
        let missed = verdicts([1.5, 3.0, 2.0], 1.06);
        assert_eq!(missed[0].2, Outcome::FallsShort);
        assert!((missed[0].1.unwrap() - 1100.0 / 1000.0).abs() < 1e-9, "{missed:?}");
    }

    #[test]
    fn no_database_may_be_slower_whether_it_keeps_the_target_or_not() {
        for of_slo in [0.5, 2.0] {
            let slower = verdicts([0.5, 3.0, 2.0], of_slo);
            assert_eq!((slower[1].0.as_str(), slower[1].2), ("unequal-least", Outcome::FallsShort));
        }
        assert_eq!(verdicts([1.0, 3.0, 2.0], 0.5)[1].2, Outcome::Met);
    }

    #[test]
    fn misses_are_counted_over_all_rounds_and_every_class_has_its_row() {
        let (mut report, subjects) = report([1.0; 3], 1.0);
        // 0 of 100, 1 % of 200, 2 % of 300, 3 % of 400, 4 % of 500.
        let missed = missed_percent(&report, "kyoto-cache", "asl, 4.00x").unwrap();
        assert!((missed - 40.0 / 1500.0 * 100.0).abs() < 1e-9, "{missed}");
        assert_eq!(missed_percent(&report, "kyoto-cache", GLIBC), None);
        conclude(&mut report, &subjects);
        let [throughputs, latencies, against] = &report.tables[..] else {
            panic!("{} tables", report.tables.len())
        };
        assert_eq!(throughputs.rows.len(), 3 * 4);
        assert_eq!(latencies.rows.len(), 3 * 4 * 3);
        let beside: Vec<_> = against.rows.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
        assert_eq!(beside, [(ASL, GLIBC); 3]);
        let marked = throughputs.rows.iter().find(|row| row[1] == "asl, 4.00x").unwrap();
        assert_eq!((marked[6].as_str(), marked[10].as_str()), ("20.0", "1500"));
        assert_eq!(marked[4..6], ["1.00", "0.998 to 1.00"]);
        assert!(report.to_string().contains("unequal-") || report.targets.len() == 2);
        assert_eq!(report.ratios.len(), 2, "one of each target");
    }

    #[test]
    fn nothing_measured_is_no_verdict() {
        let mut report = Report::new("engines", Machine::default(), 0);
        conclude(&mut report, &choose(&[]).unwrap());
        assert!(report.tables.is_empty());
        assert_eq!(report.targets.len(), 2);
        assert!(report.targets.iter().all(|target| target.verdict == Outcome::NotMeasured));
    }
}
