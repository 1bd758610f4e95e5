//! From runs to tables and verdicts.
//!
//! A latency of a version is the median of its rounds' p50, or p99; its maximum is the largest of
//! all rounds. A ratio of maxima is the median of the rounds' ratios, as any other ratio is,
//! because the largest of many rounds is one disturbed moment.

use super::catalogue::{ALONE, VICTIMS, Victim};
use crate::engines::{AS_IS, MANX as GUARDED};
use crate::verdict::{Figure, judge_or, unknown};
use report::sheet::number;
use report::{Report, Sheet};

/// The figure of a target.
#[derive(Clone, Copy)]
enum Looks {
    /// Under `manx run` over the best setting
    ToSetting(&'static str),
    /// Under `manx run` over the program as it is
    ToAsIs(&'static str),
    /// Under `manx run`, in milliseconds: the median over the rounds
    Milliseconds(&'static str),
    /// Under `manx run`, in milliseconds: the largest of all rounds
    Largest(&'static str),
}
use Looks::{Largest, Milliseconds, ToAsIs, ToSetting};

/// Each target of the cured, its case and its figure, but for two kinds whose names say it: those
/// of victims alone are called `alone-p50-NAME` and `alone-p99-NAME`, and those under a quota
/// `quota-CPUS-THREADS-p99-NAME` and `quota-CPUS-THREADS-throughput-NAME`.
const JUDGED: [(&str, &str, Looks); 45] = [
    ("pytorch-p50", "pytorch, pair", ToSetting("p50_ns")),
    ("pytorch-max", "pytorch, pair", ToSetting("max_ns")),
    ("scikit-learn-p50", "scikit-learn, pair", ToSetting("p50_ns")),
    ("scikit-learn-max", "scikit-learn, pair", ToSetting("max_ns")),
    ("xgboost-p50", "xgboost, pair", ToSetting("p50_ns")),
    ("xgboost-max", "xgboost, pair", ToSetting("max_ns")),
    ("lightgbm-p50", "lightgbm, pair", ToSetting("p50_ns")),
    ("lightgbm-max", "lightgbm, pair", ToSetting("max_ns")),
    ("numba-omp-p50", "numba-omp, pair", ToSetting("p50_ns")),
    ("numba-omp-p99", "numba-omp, pair", Milliseconds("p99_ns")),
    ("numpy-150-p50", "numpy-150, pair", Milliseconds("p50_ns")),
    ("numpy-150-p99", "numpy-150, pair", Milliseconds("p99_ns")),
    ("numpy-600-p50", "numpy-600, pair", Milliseconds("p50_ns")),
    ("onnxruntime-16-p50", "onnxruntime, 16 threads", ToSetting("p50_ns")),
    ("onnxruntime-16-p99", "onnxruntime, 16 threads", ToSetting("p99_ns")),
    ("onnxruntime-4-p50", "onnxruntime, 4 threads", ToSetting("p50_ns")),
    ("onnxruntime-4-p99", "onnxruntime, 4 threads", ToSetting("p99_ns")),
    ("onnxruntime-pair-p50", "onnxruntime, pair", ToSetting("p50_ns")),
    ("onnxruntime-pair-p99", "onnxruntime, pair", ToSetting("p99_ns")),
    ("spin-lock-max", "spin-lock, 16 threads", Largest("max_ns")),
    ("spin-lock-throughput", "spin-lock, 16 threads", ToAsIs("throughput_per_s")),
    ("ggml-4-p50", "ggml, 4 threads", Milliseconds("p50_ns")),
    ("ggml-8-p50", "ggml, 8 threads", Milliseconds("p50_ns")),
    ("ggml-pair-p50", "ggml, pair", Milliseconds("p50_ns")),
    ("gang-p50", "gang, pair", ToSetting("p50_ns")),
    ("openblas-p50", "openblas, pair", ToSetting("p50_ns")),
    ("openmpi-p50", "openmpi, 5 ranks", ToSetting("p50_ns")),
    ("mpich-3-p50", "mpich, 3 ranks", Milliseconds("p50_ns")),
    ("mpich-5-p50", "mpich, 5 ranks", Milliseconds("p50_ns")),
    ("openmpi-5-3-p50", "openmpi-5, 3 ranks", ToSetting("p50_ns")),
    ("openmpi-5-5-p50", "openmpi-5, 5 ranks", ToSetting("p50_ns")),
    ("pytorch-convolution-p50", "pytorch-convolution, pair", ToSetting("p50_ns")),
    ("pytorch-loader-p50", "pytorch-loader, pair", ToSetting("p50_ns")),
    ("mkl-p50", "mkl, pair", ToSetting("p50_ns")),
    ("erlang-p50", "erlang, beside a busy loop", ToSetting("p50_ns")),
    ("rabbitmq-throughput", "rabbitmq, beside a busy loop", ToAsIs("throughput_per_s")),
    ("rabbitmq-p99", "rabbitmq, beside a busy loop", ToAsIs("p99_ns")),
    ("postgres-throughput", "postgres, 64 clients beside a busy loop", ToAsIs("throughput_per_s")),
    ("quota-1-4-p99-redis", "redis, quota 1, 4 io-threads", ToSetting("p99_ns")),
    ("quota-1.5-4-p99-redis", "redis, quota 1.5, 4 io-threads", ToSetting("p99_ns")),
    ("kmeans-p50", "kmeans, pair", ToSetting("p50_ns")),
    ("joblib-p50", "joblib, pair", ToSetting("p50_ns")),
    ("blis-p50", "blis, pair", Milliseconds("p50_ns")),
    ("redis-p50", "redis, 4 io-threads", ToSetting("p50_ns")),
    ("numba-tbb-p50", "numba-tbb, pair", ToSetting("p50_ns")),
];

/// The setting with the smallest p50 of a case, if there is one.
pub(super) fn best(report: &Report, case: &str) -> Option<String> {
    let settings = report.variants(case).into_iter().filter(|name| name != AS_IS && name != GUARDED);
    let measured = settings.filter(|name| report.middle(case, name, "p50_ns").is_finite());
    measured.min_by(|a, b| report.middle(case, a, "p50_ns").total_cmp(&report.middle(case, b, "p50_ns")))
}

const LATENCIES: &str = "
    victim = case | version = version | rounds [] = count p50_ns
    p50 [] = p50_ns | p99 [] = p99_ns | max [] = worst max_ns | rate [] = throughput_per_s
    CPU each [] = cpu_each_ns | cut off = @";
const RATIOS: &str = "
    victim = case | over = version | p50 [] = @ratio p50_ns | 95 % [] = @interval p50_ns
    p99 [] = @ratio p99_ns | 95 % [] = @interval p99_ns
    max [] = @ratio max_ns | 95 % [] = @interval max_ns
    CPU each [] = @ratio cpu_each_ns | 95 % [] = @interval cpu_each_ns";

/// How many runs were cut off.
fn cut_off(report: &Report, case: &str, version: &str, _: &str) -> String {
    let cut = report.values(case, version, "longer_than_s");
    cut.first()
        .map_or(String::new(), |limit| format!("{} of them: longer than {} s", cut.len(), number(*limit)))
}

/// `manx run` over a version, or the interval of that ratio.
fn guarded_over(report: &Report, case: &str, version: &str, what: &str) -> String {
    let (kind, figure) = what.split_once(' ').unwrap_or_default();
    let [ratio, interval] = report.over(case, GUARDED, version, figure);
    if kind == "ratio" { ratio } else { interval }
}

/// Draws tables from the runs, and judges the targets of the victims that were to be measured.
pub fn conclude(report: &mut Report, victims: &[&'static Victim]) {
    for alone in [false, true] {
        let cases: Vec<String> = report
            .cases()
            .into_iter()
            .filter(|case| case.ends_with(&format!(", {ALONE}")) == alone)
            .collect();
        if cases.is_empty() {
            continue;
        }
        let (title, ratios) = match alone {
            true => ("Alone, two threads on two CPUs: nothing to cure", "Alone"),
            false => ("CPUs are short", "CPUs are short"),
        };
        report.show(Sheet::new(LATENCIES).own(&cut_off).of(report, title, &cases));
        let title = format!("{ratios}: `manx run` over the others");
        report.show(Sheet::new(RATIOS).own(&guarded_over).without(GUARDED).of(report, &title, &cases));
    }
    judge_or(report, figure);
    report.targets.retain(|verdict| victim(&verdict.id).is_none_or(|of| victims.contains(&of)));
}

/// The victim of a target.
fn victim(id: &str) -> Option<&'static Victim> {
    let case;
    let name = match id.strip_prefix("alone-") {
        Some(rest) => rest.split_once('-')?.1,
        None => {
            case = looked_at(id)?.0;
            case.split_once(", ")?.0
        }
    };
    VICTIMS.iter().find(|victim| victim.name == name)
}

/// The case of a target that is not of a victim alone, and the figure.
fn looked_at(id: &str) -> Option<(String, Looks)> {
    if let Some((_, case, looks)) = JUDGED.iter().find(|(known, ..)| *known == id) {
        return Some(((*case).to_owned(), *looks));
    }
    let parts: Vec<&str> = id.strip_prefix("quota-")?.splitn(4, '-').collect();
    let [cpus, threads, figure, name] = parts[..] else { return None };
    let value = match figure {
        "p99" => "p99_ns",
        "throughput" => "throughput_per_s",
        _ => return None,
    };
    Some((format!("{name}, quota {cpus}, {threads} threads"), ToSetting(value)))
}

/// What a target looks at, or why there is nothing to look at.
pub(super) fn figure(report: &Report, id: &str) -> Result<Figure, String> {
    if let Some((percentile, _)) = id.strip_prefix("alone-").and_then(|rest| rest.split_once('-'))
        && let Some(victim) = victim(id)
    {
        let case = format!("{}, {ALONE}", victim.name);
        measured(report, &case)?;
        return Ok(Figure::ratio(&case, GUARDED, AS_IS, &format!("{percentile}_ns")));
    }
    let (case, looks) = looked_at(id).ok_or_else(|| unknown(id))?;
    measured(report, &case)?;
    Ok(match looks {
        ToSetting(value) => {
            let best = best(report, &case).ok_or("no setting was measured")?;
            Figure::ratio(&case, GUARDED, &best, value)
        }
        ToAsIs(value) => Figure::ratio(&case, GUARDED, AS_IS, value),
        Milliseconds(value) => Figure::Plain(report.middle(&case, GUARDED, value) / 1e6),
        Largest(value) => Figure::Plain(report.worst(&case, GUARDED, value) / 1e6),
    })
}

fn measured(report: &Report, case: &str) -> Result<(), String> {
    let there = report.runs_of(case, GUARDED).any(|run| !run.values.is_empty());
    if there { Ok(()) } else { Err("it was not run".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::victims::choose;
    use report::Machine;
    use report::target::{Outcome, of_bench};

    /// A case, a version, and its figures, the same in five rounds.
    type Runs<'a> = [(&'a str, &'a str, &'a [(&'a str, f64)])];

    fn report(runs: &Runs) -> Report {
        let mut report = Report::new("victims", Machine::default(), 0);
        for round in 0..5 {
            for (case, variant, values) in runs {
                report.add(case, variant, round, values);
            }
        }
        report
    }

    #[test]
    fn every_target_is_known_and_every_figure_has_a_target_and_a_case() {
        let mut empty = report(&[]);
        conclude(&mut empty, &choose::<&str>(&[]).unwrap());
        assert_eq!(empty.targets.len(), of_bench("victims").len());
        for verdict in &empty.targets {
            assert_eq!(
                (verdict.verdict, verdict.reason.as_deref()),
                (Outcome::NotMeasured, Some("it was not run")),
                "{}",
                verdict.id
            );
        }
        for (id, ..) in &JUDGED {
            assert!(of_bench("victims").iter().any(|target| target.id == *id), "{id}");
        }
        for target in of_bench("victims").iter().filter(|target| !target.id.starts_with("alone-")) {
            let (case, _) = looked_at(&target.id).unwrap();
            let mut cases =
                VICTIMS.iter().flat_map(|victim| victim.loads.iter().map(|load| victim.case(load)));
            assert!(cases.any(|known| known == case), "{case}");
        }
        for victim in &VICTIMS {
            for percentile in ["p50", "p99"] {
                let id = format!("alone-{percentile}-{}", victim.name);
                assert!(of_bench("victims").iter().any(|target| target.id == id), "{id}");
            }
        }
    }

    #[test]
    fn the_best_setting_is_the_mark_and_maxima_are_largest() {
        let case = "numpy-600, pair";
        let values = |p50: f64| [("p50_ns", p50), ("max_ns", 2.0 * p50)];
        let mut found = report(&[
            (case, AS_IS, &values(24e6)),
            (case, GUARDED, &values(11e6)),
            (case, "one thread", &values(9e6)),
            (case, "timeout 1", &values(12e6)),
        ]);
        assert_eq!(best(&found, case).as_deref(), Some("one thread"));
        conclude(&mut found, &choose::<&str>(&[]).unwrap());
        let verdict = found.targets.iter().find(|verdict| verdict.id == "numpy-600-p50").unwrap();
        assert_eq!((verdict.measured, verdict.verdict), (Some(11.0), Outcome::Met));
        let ratios = &found.tables[1].rows;
        assert_eq!(ratios.len(), 3);
        assert_eq!(ratios[0][1..6], [AS_IS, "0.458", "0.458 to 0.458", "-", "-"]);
        assert_eq!(ratios[1][1..4], ["one thread", "1.22", "1.22 to 1.22"]);
        assert!(found.tables[0].rows[1].contains(&"22.0 ms".to_owned()), "{}", found.tables[0]);
    }

    #[test]
    fn four_rounds_make_no_interval_and_no_verdict() {
        let case = "numpy-600, pair";
        let values = [("p50_ns", 24e6)];
        let alone = "numpy-600, alone";
        let mut found = report(&[
            (case, AS_IS, &values),
            (case, GUARDED, &values),
            (alone, AS_IS, &values),
            (alone, GUARDED, &values),
        ]);
        found.runs.retain(|run| run.round < 4);
        conclude(&mut found, &choose(&["numpy-600"]).unwrap());
        assert_eq!(found.tables[1].rows[0][2..4], ["1.00", "-"]);
        let verdict = found.targets.iter().find(|verdict| verdict.id == "alone-p50-numpy-600").unwrap();
        assert_eq!((verdict.measured, verdict.verdict), (Some(1.0), Outcome::NotMeasured));
    }

    #[test]
    fn only_what_was_asked_for_is_judged() {
        let mut empty = report(&[]);
        conclude(&mut empty, &choose(&["ggml"]).unwrap());
        let ids: Vec<&str> = empty.targets.iter().map(|verdict| verdict.id.as_str()).collect();
        assert_eq!(ids, ["ggml-4-p50", "ggml-8-p50", "ggml-pair-p50", "alone-p50-ggml", "alone-p99-ggml"]);
    }

    #[test]
    fn runs_that_were_cut_off_are_named() {
        let case = "scikit-learn, pair";
        let mut found =
            report(&[(case, AS_IS, &[("p50_ns", 8e9), ("max_ns", 6e10), ("longer_than_s", 60.0)])]);
        conclude(&mut found, &choose::<&str>(&[]).unwrap());
        assert!(
            found.tables[0].rows[0].contains(&"5 of them: longer than 60.0 s".to_owned()),
            "{}",
            found.tables[0]
        );
    }
}
