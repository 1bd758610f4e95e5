//! Paper 003 on this machine: the experiments of [`crate::pool`] that are the paper's, at its
//! parameters, and its numbers beside them.
//!
//! | part | of the paper |
//! | --- | --- |
//! | threads | figures 2 and 3 |
//! | quota | figure 5 |
//! | neighbours | figure 7, and the abstract's 6.7x and 1.4x |
//! | overcommit | figure 8 |
//!
//! Each of these is five runs of 5 s. Where there are few CPUs, as here, pools of many processes
//! have a thread each at least and stay overcommitted: `manx bench sim` shows figure 7 on 16 and 64
//! CPUs.

use super::{Claim, Here, table};
use crate::error::Error;
use crate::harness::Bench;
use crate::pool::cases::{self, Amount};
use crate::pool::{self, Kind, Part, Setup};
use crate::verdict::{Figure, judge_or, unknown};
use report::{Compared, Report, Samples};

/// The parts that are the paper's.
const PARTS: [Part; 4] = [Part::Threads, Part::Quota, Part::Neighbours, Part::Overcommit];
/// The kinds of pools that are the paper's, and ours.
pub const KINDS: [Kind; 5] = [Kind::Ignorant, Kind::Optimal, Kind::FriendlyPool, Kind::Manx, Kind::Go];

/// Runs them; the results are in `bench.report`.
///
/// # Errors
/// As [`pool::measure`].
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    pool::measure(&PARTS, setup, bench)
}

/// Adds tables and the paper's claims, and judges the targets.
pub fn conclude(report: &mut Report) {
    pool::tables(report);
    let claims = claims(report);
    table(report, "The paper's numbers and these", &claims);
    judge_or(report, figure);
}

/// The numbers of processes of figure 7 that were measured.
fn neighbours(report: &Report) -> Vec<usize> {
    let measured = report.cases();
    (2..=64).filter(|&count| measured.contains(&cases::neighbours(Amount::Overload, count))).collect()
}

/// Two versions of two cases.
fn across(over: (&str, &str), under: (&str, &str), figure: &str) -> Compared {
    let of = |(case, version): (&str, &str)| Samples {
        case: case.into(),
        version: version.into(),
        figure: figure.into(),
    };
    Compared { over: of(over), under: of(under), factor: 1.0 }
}

fn claims(report: &Report) -> Vec<Claim> {
    let cpus = report.machine.cpus.max(1);
    let (ignorant, friendly, manx) = (Kind::Ignorant.name(), Kind::FriendlyPool.name(), Kind::Manx.name());
    let ratio = |text: String, paper, compared| Claim { text, paper, here: Here::Ratio(compared) };
    let (as_many, twice) = (cases::threads(cpus), cases::threads(2 * cpus));
    let two = |version: &str, figure: &str| across((&twice, version), (&as_many, version), figure);
    let no_lock = cases::NO_LOCK;
    let mut claims = vec![
        ratio(
            "service p99, twice as many threads as CPUs / as many (figure 2a)".into(),
            "above 1",
            two(no_lock, "service_p99_ns"),
        ),
        ratio("throughput, the same (figure 2b)".into(), "about 1", two(no_lock, "jobs_per_s")),
        ratio(
            "service p99 under a mutex, the same (figure 3a)".into(),
            "above 1",
            two("std", "service_p99_ns"),
        ),
        ratio("throughput under a mutex, the same (figure 3b)".into(), "1", two("std", "jobs_per_s")),
    ];
    for quota in [0.5, 1.0, 1.5, cpus as f64] {
        let case = cases::quota(quota);
        let of = |figure| Compared::new(&case, cases::GO_AUTOMATIC, cases::GO_MANUAL, figure);
        if report.cases().contains(&case) {
            let text = format!("Go, {case}: service p99, automatic / manual (figure 5a)");
            claims.push(ratio(text, "above 1, to 1 at all CPUs", of("service_p99_ns")));
            let text = format!("Go, {case}: throughput, automatic / manual (figure 5b)");
            claims.push(ratio(text, "up to 1", of("jobs_per_s")));
        }
    }
    for count in neighbours(report) {
        let case = cases::neighbours(Amount::Overload, count);
        for (kind, [tail, rate]) in [(friendly, ["up to 6.7", "up to 1.4"]), (manx, ["", ""])] {
            let of = |figure| Compared::new(&case, ignorant, kind, figure);
            let text = format!("{case}: service maximum, {ignorant} / {kind} (figure 7a)");
            claims.push(ratio(text, tail, of("service_max_ns")));
            let text = format!("{case}: throughput, {ignorant} / {kind} (figure 7b)");
            claims.push(ratio(text, rate, of("jobs_per_s")));
        }
    }
    let case = cases::overcommit(2);
    let of = |figure| Compared::new(&case, &cases::factor(4.0), &cases::factor(1.0), figure);
    let text = |what: &str, panel| format!("{case}: {what}, a factor of 4 / of 1 (figure 8{panel})");
    claims.push(ratio(text("service p99", 'a'), "above 1", of("service_p99_ns")));
    claims.push(ratio(text("throughput", 'b'), "above 1", of("jobs_per_s")));
    claims
}

/// The figure of a target, or the reason why there is none.
fn figure(report: &Report, id: &str) -> Result<Figure, String> {
    let count = neighbours(report).pop().unwrap_or(2);
    let case = cases::neighbours(Amount::Overload, count);
    let of = |over: Kind, under: Kind, figure| Figure::ratio(&case, over.name(), under.name(), figure);
    Ok(match id {
        "paper-003-service-max" => of(Kind::Ignorant, Kind::FriendlyPool, "service_max_ns"),
        "paper-003-throughput" => of(Kind::Ignorant, Kind::FriendlyPool, "jobs_per_s"),
        "paper-003-service-max-manx" => of(Kind::Manx, Kind::FriendlyPool, "service_max_ns"),
        "paper-003-throughput-manx" => of(Kind::Manx, Kind::FriendlyPool, "jobs_per_s"),
        _ => return Err(unknown(id)),
    })
}
