//! Which figure each target is about.
//!
//! A target is about a figure of Manx's pool (`ms`, `jobs/s`, `percent`), or about its ratio to
//! that of the named peer in the same round (`ratio`). Of two processes of one run the ratio is the
//! first's to the second's: each run is a pair.

use super::cases::{Amount, BURST, IDLE, MIXED, SUBMIT_INSIDE, SUBMIT_OUTSIDE, neighbours, pair, quota};
use super::spec::Kind;
use crate::verdict::Figure;
use report::{Compared, Report, Samples};

const OWN: &str = Kind::Manx.name();
const IGNORANT: &str = Kind::Ignorant.name();
const FRIENDLY: &str = Kind::FriendlyPool.name();
const RAYON: &str = Kind::Rayon.name();
const JOBS: &str = "jobs_per_s";
const SERVICE: &str = "service_p99_ns";
const TOTAL: &str = "total_p99_ns";
const NS_IN_MS: f64 = 1e6;

/// What a target looks at by its id; `None` if there is no such figure.
pub(super) fn figure(report: &Report, id: &str) -> Option<Figure> {
    let ms = |case: &str, figure: &str| Figure::Plain(report.middle(case, OWN, figure) / NS_IN_MS);
    let plain = |case: &str, figure: &str| Figure::Plain(report.middle(case, OWN, figure));
    let over = |case: &str, peer: &str, figure: &str| Figure::ratio(case, OWN, peer, figure);
    let (room, overload) = (|n| neighbours(Amount::Room, n), |n| neighbours(Amount::Overload, n));
    let beside = || {
        let version = pair(Kind::Manx, Kind::Ignorant);
        let of =
            |figure: &str| Samples { case: MIXED.into(), version: version.clone(), figure: figure.into() };
        Figure::Ratio(Compared { over: of("first_per_s"), under: of("second_per_s"), factor: 1.0 })
    };
    // pool-PART-WHICH-FIGURE[-PEER]
    let words: Vec<&str> = id.split('-').collect();
    let count = |text: &str| text.parse::<usize>().ok();
    Some(match words[..] {
        ["pool", "room", n, "total"] => ms(&room(count(n)?), TOTAL),
        ["pool", "room", n, "total", "ignorant"] => over(&room(count(n)?), IGNORANT, TOTAL),
        ["pool", "room", n, "total", "friendlypool"] => over(&room(count(n)?), FRIENDLY, TOTAL),
        ["pool", "overload", n, "service"] => ms(&overload(count(n)?), SERVICE),
        ["pool", "overload", n, "service", "ignorant"] => over(&overload(count(n)?), IGNORANT, SERVICE),
        ["pool", "overload", n, "throughput", "ignorant"] => over(&overload(count(n)?), IGNORANT, JOBS),
        ["pool", "quota", cpus, "service"] => ms(&quota(cpus.parse().ok()?), SERVICE),
        ["pool", "quota", cpus, "service", "ignorant"] => over(&quota(cpus.parse().ok()?), IGNORANT, SERVICE),
        ["pool", "quota", cpus, "throughput"] => plain(&quota(cpus.parse().ok()?), JOBS),
        ["pool", "quota", cpus, "throughput", "ignorant"] => over(&quota(cpus.parse().ok()?), IGNORANT, JOBS),
        ["pool", "mixed"] => beside(),
        ["pool", "burst"] => ms(BURST, "ramp_p99_ns"),
        ["pool", "idle"] => plain(IDLE, "idle_cpu_percent"),
        ["pool", "control"] => plain(&overload(1), "control_percent"),
        ["pool", "submit", "outside", "rayon"] => over(SUBMIT_OUTSIDE, RAYON, "ns_per_job"),
        ["pool", "submit", "inside", "rayon"] => over(SUBMIT_INSIDE, RAYON, "ns_per_job"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    #[test]
    fn figures_stand_alone_or_over_the_peers_of_the_same_case() {
        let case = neighbours(Amount::Room, 2);
        let mut report = Report::new("pool", Machine::default(), 0);
        for (variant, ns) in [(IGNORANT, 8e6), (FRIENDLY, 5e6), (OWN, 4e6)] {
            report.add(&case, variant, 0, &[(TOTAL, ns)]);
        }
        report.add(MIXED, "manx + ignorant", 0, &[("first_per_s", 75.0), ("second_per_s", 100.0)]);
        let value = |report: &Report, id: &str| figure(report, id).unwrap().value(report);
        assert_eq!(value(&report, "pool-room-2-total"), 4.0);
        assert_eq!(value(&report, "pool-room-2-total-ignorant"), 0.5);
        assert_eq!(value(&report, "pool-room-2-total-friendlypool"), 0.8);
        assert_eq!(value(&report, "pool-mixed"), 0.75);
        assert!(value(&report, "pool-room-4-total").is_nan());
        super::super::conclude(&mut report);
        let verdict =
            report.targets.iter().find(|verdict| verdict.id == "pool-room-2-total-ignorant").unwrap();
        assert_eq!((verdict.measured, verdict.pairs, verdict.interval), (Some(0.5), Some(1), None));
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let others = ["pool-nothing", "pool-room-many-total", "range-w1", "pool-room-2"];
        crate::verdict::check_ids("pool", figure, &others);
    }
}
