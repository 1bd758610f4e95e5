//! The figures that the paper's text names, beside what was measured: a table, and rings in the
//! pictures.
//!
//! The text gives ratios: of a lock to another one, or of more threads to fewer. A ring stands
//! where the measured figure would be if it had the paper's ratio to the measured figure that it is
//! a ratio to.
//!
//! All are read plainly: "1.7x speedup", "outperforms by 2x" and "6.2x longer" are ratios of 1.7, 2
//! and 6.2, and "50 % better" is 1.5. The text is ambiguous where it has an x for throughput. In
//! Bench-1 LibASL has 50 % more than test-and-set at its tail, and "up to 1.2x speedup" with a
//! longer window; in SQLite its figures against MCS make 3.0 times test-and-set, and it says
//! "2.1x". Both would fit if 1 were added: 2.7, 2.2 and 5 in Bench-1, 3 in Bench-5.

use super::cases::{
    AGAINST_OPT, ALONE, BENCH_1, BENCH_2, BENCH_2_SLO, BENCH_4, BENCH_6, FIGURE_1, FIGURE_4, OPT, bench_3,
    bench_5, scaled,
};
use super::part::NOPS;
use super::printed;
use crate::drawing::ring;
use report::chart::Series;
use report::figure::three_digits;
use report::{Report, Table};

const RATE: &str = "epochs_per_s";
const P99: &str = "all_p99_ns";
const LITTLE_P99: &str = "little_p99_ns";
/// Threads on the paper's machine: big ones, all.
const BIG: usize = 4;
const ALL: usize = 8;

/// A figure of a version in a case.
type Cell = (String, &'static str, String);

/// How the paper's figure is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meant {
    As,
    AtMost,
    AtLeast,
}

/// A figure that the text names.
struct Named {
    /// Of the paper
    section: &'static str,
    /// Of the paper, with its bench
    figure: &'static str,
    /// The figure, and the one that it is a ratio to
    what: Cell,
    to: Cell,
    ratio: f64,
    meant: Meant,
}

fn cell(case: impl Into<String>, version: &'static str, figure: impl Into<String>) -> Cell {
    (case.into(), version, figure.into())
}

/// All of them.
fn all() -> Vec<Named> {
    use Meant::{As, AtLeast, AtMost};
    let mut all = Vec::new();
    let mut add = |section, figure, what: Cell, to: Cell, ratio, meant| {
        all.push(Named { section, figure, what, to, ratio, meant });
    };
    for (figure, case, tas) in [("1", FIGURE_1, 0.65), ("4", FIGURE_4, 1.32)] {
        let of = |threads, version, figure| cell(scaled(case, threads), version, figure);
        add("2.2", figure, of(ALL, "mcs", RATE), of(BIG, "mcs", RATE), 0.5, AtMost);
        add("2.2", figure, of(ALL, "tas", RATE), of(ALL, "mcs", RATE), tas, As);
    }
    let of = |version, figure| cell(scaled(FIGURE_1, ALL), version, figure);
    add("1", "1", of("tas", P99), of("mcs", P99), 6.2, As);

    let of = |version, figure| cell(BENCH_1, version, figure);
    add("4.1", "8a", of("asl 0", RATE), of("mcs", RATE), 1.0, As);
    add("4.1", "8a", of("asl max", RATE), of("mcs", RATE), 1.7, AtMost);
    add("4.1", "8a", of("asl max", RATE), of("tas", RATE), 1.2, AtMost);
    add("4.1", "8a", of("asl max", RATE), of("glibc", RATE), 4.0, AtMost);
    add("4.1", "8a", of("shfl-10", RATE), of("mcs", RATE), 1.2, As);
    add("4.1", "8a", of("shfl-10", LITTLE_P99), of("mcs", LITTLE_P99), 4.0, As);
    add("4.1", "8a", of("slo of shfl-10", RATE), of("shfl-10", RATE), 1.7, As);
    add("4.1", "8a", of("slo of tas", RATE), of("tas", RATE), 1.5, As);
    add("4.1", "8a", of(AGAINST_OPT, RATE), of(OPT, RATE), 0.94, As);

    let of = |version, figure: &str| cell(BENCH_2, version, figure);
    for phase in ["x1", "x128", "x1 again", "x1 to x255"] {
        let p99 = format!("{phase}: little_p99_ns");
        add("4.1", "8d", of(BENCH_2_SLO, &p99), of(BENCH_2_SLO, "slo_ns"), 1.0, AtMost);
    }
    let x1024 = |figure| format!("x1024: {figure}");
    let slo = |figure| of(BENCH_2_SLO, &x1024(figure));
    add("4.1", "8d", slo(LITTLE_P99), slo("big_p99_ns"), 1.0, As);
    add("4.1", "8d", slo(RATE), of("mcs", &x1024(RATE)), 1.0, As);

    let of = |long, version, figure| cell(bench_3(long), version, figure);
    add("4.1", "8c", of(50, AGAINST_OPT, RATE), of(50, OPT, RATE), 0.8, AtLeast);
    add("4.1", "8c", of(100, AGAINST_OPT, RATE), of(100, "mcs", RATE), 1.0, As);

    let of = |threads, version, figure| cell(scaled(BENCH_4, threads), version, figure);
    add("4.1", "8e", of(ALL, "asl 0", RATE), of(ALL, "mcs", RATE), 1.0, As);
    add("4.1", "8e", of(ALL, "asl max", RATE), of(BIG, "asl max", RATE), 1.0, As);
    add("4.1", "8f", of(ALL, "slo of tas", P99), of(ALL, "tas", P99), 1.0, As);

    let of = |nops, version| cell(bench_5(nops), version, RATE);
    let (first, last) = (NOPS[0], NOPS[NOPS.len() - 1]);
    add("4.1", "8g", of(first, "asl max"), of(first, "mcs"), 2.0, As);
    add("4.1", "8g", of(first, "asl max"), of(first, "tas"), 1.45, As);
    for nops in NOPS.into_iter().take_while(|nops| *nops <= 1_000) {
        add("4.1", "8g", of(nops, "asl max"), of(nops, ALONE), 1.0, As);
    }
    add("4.1", "8g", of(last, "asl max"), of(last, ALONE), 1.68, As);

    let of = |version| cell(BENCH_6, version, RATE);
    add("4.1", "8h", of("mcs-park"), of("glibc"), 0.04, As);
    add("4.1", "8h", of("asl max"), of("glibc"), 1.8, AtMost);
    all
}

/// Whether the runs were made on the machine of the paper.
fn is_its_machine(report: &Report) -> bool {
    let mut words = report.machine.processor.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case("m1"))
}

/// The measured figure; NaN if there is none.
fn measured(report: &Report, (case, version, figure): &Cell) -> f64 {
    report.middle(case, version, figure)
}

/// The figure with LibASL as it is printed in place of ours; `None` if ours is in neither part of
/// it.
fn measured_printed(report: &Report, named: &Named) -> Option<f64> {
    let swap = |(case, version, figure): &Cell| {
        let printed = printed::of(report, case, version);
        (printed.is_some(), report.middle(case, printed.as_deref().unwrap_or(version), figure))
    };
    let (what, to) = (swap(&named.what), swap(&named.to));
    let ratio = what.1 / to.1;
    ((what.0 || to.0) && ratio.is_finite()).then_some(ratio)
}

/// Each figure that the text names and that was measured, beside what was measured; `None` on
/// another machine than the paper's.
pub(super) fn table(report: &Report) -> Option<Table> {
    let headers = [
        "figure",
        "section",
        "what",
        "of",
        "paper []",
        "here []",
        "here / paper []",
        "LibASL as printed, here []",
    ];
    let mut table = Table::new("The paper's figures, and what was measured here", &headers);
    for named in all() {
        let here = measured(report, &named.what) / measured(report, &named.to);
        if !here.is_finite() {
            continue;
        }
        let printed = measured_printed(report, &named).map_or_else(String::new, three_digits);
        let words = |(case, version, figure): &Cell| format!("{case}: {version}, {figure}");
        let meant = match named.meant {
            Meant::As => "",
            Meant::AtMost => "up to ",
            Meant::AtLeast => "at least ",
        };
        table.row([
            named.figure.into(),
            named.section.into(),
            words(&named.what),
            words(&named.to),
            format!("{meant}{}", three_digits(named.ratio)),
            three_digits(here),
            three_digits(here / named.ratio),
            printed,
        ]);
    }
    (is_its_machine(report) && !table.rows.is_empty()).then_some(table)
}

/// A ring for each figure of this name that the text names and that `place` has an x and a colour
/// for, which it knows by the case and the version.
pub(super) fn rings(
    report: &Report,
    figure: &str,
    place: impl Fn(&str, &str) -> Option<(f64, u32)>,
) -> Vec<Series> {
    let y = |named: &Named| (named.what.2 == figure).then(|| measured(report, &named.to) * named.ratio);
    drawn(report, |named| &named.what, place, y)
}

/// A ring for each ratio of the version `mine` to another one that the text names.
pub(super) fn ratio_rings(
    report: &Report,
    mine: &str,
    place: impl Fn(&str, &str) -> Option<(f64, u32)>,
) -> Vec<Series> {
    let y = |named: &Named| {
        let is_ratio = named.what.1 == mine && named.what.0 == named.to.0;
        (is_ratio && measured(report, &named.to).is_finite()).then_some(named.ratio)
    };
    drawn(report, |named| &named.to, place, y)
}

/// The rings that have both an x and a y. `of` is the cell that the ring's name and x are of.
fn drawn(
    report: &Report,
    of: impl Fn(&Named) -> &Cell,
    place: impl Fn(&str, &str) -> Option<(f64, u32)>,
    y: impl Fn(&Named) -> Option<f64>,
) -> Vec<Series> {
    let mut rings: Vec<Series> = Vec::new();
    for named in all().iter().filter(|_| is_its_machine(report)) {
        let (case, version, _) = of(named);
        let (Some((x, colour)), Some(y)) = (place(case, version), y(named)) else { continue };
        if !(x.is_finite() && y.is_finite()) {
            continue;
        }
        let name = format!("paper: {version}");
        match rings.iter_mut().find(|ring| ring.name == name) {
            Some(ring) => ring.points.push((x, y)),
            None => rings.push(ring(&name, colour, (x, y))),
        }
    }
    rings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asl::draw;
    use report::Machine;

    /// Throughputs of Bench-5's and figure 1's versions.
    fn report(processor: &str) -> Report {
        let mut report = Report::new("asl", Machine { processor: processor.into(), ..Machine::default() }, 0);
        let mut add = |case: &str, version, rate| report.add(case, version, 0, &[(RATE, rate)]);
        add(&bench_5(1), "asl max", 40.0);
        add(&bench_5(1), "libasl max", 30.0);
        add(&bench_5(1), "mcs", 10.0);
        for threads in 1..=ALL {
            let case = scaled(FIGURE_1, threads);
            add(&case, "mcs", if threads <= BIG { 100.0 } else { 30.0 });
            add(&case, "tas", 39.0);
        }
        report
    }

    #[test]
    fn a_figure_of_the_paper_stands_beside_the_measured_one_in_the_table_and_in_the_picture() {
        let report = report("m1, simulated");
        let table = table(&report).expect("it is the paper's machine");
        let last = |at: usize| table.rows[at][4..].join(" ");
        assert_eq!(table.rows.len(), 3, "{table}");
        assert_eq!(last(0), "up to 0.500 0.300 0.600 ");
        assert_eq!(last(1), "0.650 1.30 2.00 ");
        assert_eq!(last(2), "2.00 4.00 2.00 3.00");
        let charts = draw(&report);
        let rings = |name: &str| {
            let (_, chart) = charts.iter().find(|(its, _)| its == name).expect("a picture");
            assert!(chart.svg().contains("r=\"6\" fill=\"none\""), "{name}");
            let series = chart.panels.iter().flat_map(|panel| &panel.series).filter(|series| series.rings);
            series.map(|series| (series.name.clone(), series.points.clone())).collect::<Vec<_>>()
        };
        // Half of MCS's figure with four threads, and 0.65 of that with eight.
        let of = |name: &str, point| (format!("paper: {name}"), vec![point]);
        assert_eq!(rings("figure-1"), [of("mcs", (8.0, 50.0)), of("tas", (8.0, 19.5))]);
        assert_eq!(rings("bench-5"), [of("mcs", (1.0, 2.0))]);
    }

    #[test]
    fn another_machine_has_no_figures_of_the_paper() {
        let report = report("xeon-40, simulated");
        assert_eq!(table(&report), None);
        let charts = draw(&report);
        assert!(!charts.is_empty());
        let mut series = charts.iter().flat_map(|(_, chart)| &chart.panels).flat_map(|panel| &panel.series);
        assert!(series.all(|series| !series.rings));
    }

    #[test]
    fn a_figure_is_named_once_and_is_a_ratio_to_another_one() {
        let all = all();
        for (at, named) in all.iter().enumerate() {
            assert!(named.what != named.to && named.ratio > 0.0, "{:?}", named.what);
            let again = |other: &Named| other.what == named.what && other.to == named.to;
            assert!(!all[..at].iter().any(again), "{:?}", named.what);
        }
    }
}
