//! Second by second, with four threads boosted in the middle third: the paper's figures 2b and 3b.

use super::{AS_IS, Extent, FIXED, GUARDED, LOWERED, Setup, THINK_US, TIMELINE, Variant};
use crate::engine::{self, Load, Output};
use crate::error::Error;
use crate::harness::Bench;
use report::figure::three_digits;
use report::plot::{Series, plot};
use report::{Report, Summary, Table};
use std::ops::Range;

/// Seconds of a third.
const THIRD: usize = 5;
/// The same in a smoke check.
const THIRD_QUICK: usize = 1;

/// Runs each version once, through all three thirds.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: &Setup, bench: &mut Bench, boost: usize) -> Result<(), Error> {
    let third = if setup.extent == Extent::Quick { THIRD_QUICK } else { THIRD };
    let mut load = setup.load(40, THINK_US);
    load.seconds = (3 * third) as f64;
    load.boost = boost;
    load.window = Some((third as f64, 2.0 * third as f64));
    let variants: Vec<Variant> =
        [AS_IS, GUARDED, FIXED].into_iter().filter_map(|name| setup.variant(name, boost)).collect();
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    bench.compare(TIMELINE, &names, 1, load.expected(), |at, _| {
        engine::run(variants[at].program, variants[at].start, &Load { seed: 1, ..load.clone() })
    })
}

/// Adds the table and the pictures.
pub fn draw(report: &mut Report) {
    let mut lines: Vec<(String, Vec<Summary>)> = Vec::new();
    for run in report.runs.iter().filter(|run| run.case == TIMELINE) {
        let parsed = run.output.as_ref().and_then(|output| Output::parse(output.get()).ok());
        if let Some(seconds) = parsed.and_then(|output| summaries(&output)) {
            lines.push((run.variant.clone(), seconds));
        }
    }
    let Some(seconds) = lines.iter().map(|(_, line)| line.len()).max() else { return };
    let restored = !report.notes.iter().any(|note| note == LOWERED);
    let window = seconds / 3..if restored { 2 * seconds / 3 } else { seconds };
    report.tables.push(table(&lines, seconds, &window));
    let all = || lines.iter().flat_map(|(_, line)| line).filter(|summary| summary.count > 0);
    let low = all().map(|summary| summary.p50_ns).min().unwrap_or(1_000);
    let high = all().map(|summary| summary.max_ns).max().unwrap_or(1_000_000);
    for (variant, line) in &lines {
        let of = |mark, name, value: fn(&Summary) -> u64| Series {
            mark,
            name,
            values_ns: line.iter().map(value).collect(),
        };
        let series =
            [of('.', "p50", |s| s.p50_ns), of('o', "p99.9", |s| s.p999_ns), of('^', "max", |s| s.max_ns)];
        let title = format!("{variant}: latency over time, the boost between the bars");
        report.plots.push(plot(&title, &series, window.clone(), low..high));
    }
}

fn summaries(output: &Output) -> Option<Vec<Summary>> {
    output.seconds.iter().map(|second| second.all().ok().map(|all| all.summary())).collect()
}

fn table(lines: &[(String, Vec<Summary>)], seconds: usize, window: &Range<usize>) -> Table {
    let mut headers = vec!["second []".to_owned(), "boost".to_owned()];
    for (variant, _) in lines {
        headers.push(format!("{variant}: p50 [µs]"));
        headers.extend(["p99.9", "max"].map(|name| format!("{name} [ms]")));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("{TIMELINE} (figures 2b and 3b)"), &headers);
    for second in 0..seconds {
        let mut row = vec![second.to_string(), if window.contains(&second) { "on" } else { "" }.to_owned()];
        for (_, line) in lines {
            let cells = match line.get(second).filter(|summary| summary.count > 0) {
                Some(s) => {
                    [s.p50_ns as f64 / 1e3, s.p999_ns as f64 / 1e6, s.max_ns as f64 / 1e6].map(three_digits)
                }
                None => ["-", "-", "-"].map(str::to_owned),
            };
            row.extend(cells);
        }
        table.row(row);
    }
    table
}
