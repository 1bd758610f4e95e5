//! Second by second, with some threads boosted in the middle third: figures 2b and 3b of Andreoli
//! and Cucinotta.

use crate::child;
use crate::engine::{Load, Output};
use crate::harness::Bench;
use report::figure::three_digits;
use report::plot::{Series, plot};
use report::{Report, Summary, Table};
use std::ops::Range;

/// The note on a machine that does not let us raise a priority. The kernel's weights are 88761 to
/// 1024 for niceness -20 to 0, and 1024 to 15 for 0 to 19: nearly the same ratio.
pub const LOWERED: &str = "niceness below 0 needs root or CAP_SYS_NICE: instead of 4 threads at -20 beside others at 0, there are 4 at 0 beside others at 19, which weighs nearly the same (in the timeline, until its end)";
/// Notes what this machine does not let a boost do.
pub(crate) fn describe(bench: &mut Bench) {
    if let Err(why) = child::autogroup() {
        bench.note(format!(
            "measured programs have no scheduling group of their own: {why}; niceness then also weighs against other programs"
        ));
    }
    if !child::may_boost() {
        bench.note(LOWERED);
    }
}

/// Seconds of a third.
const THIRD: usize = 5;
/// The same in a smoke check.
const THIRD_QUICK: usize = 1;

/// The load for as long as three thirds, with its boost in the second.
pub(crate) fn thirds(load: Load, quick: bool) -> Load {
    let third = if quick { THIRD_QUICK } else { THIRD } as f64;
    Load { seconds: 3.0 * third, window: Some((third, 2.0 * third)), ..load }
}

/// A version's seconds.
pub(crate) type Line = (String, Vec<Summary>);

/// What was measured, by version.
pub(crate) fn lines(report: &Report, case: &str) -> Vec<Line> {
    let runs = report.runs.iter().filter(|run| run.case == case);
    runs.filter_map(|run| {
        let output = Output::parse(run.output.as_ref()?.get()).ok()?;
        let seconds = output.seconds.iter().map(|second| second.all().ok().map(|all| all.summary()));
        Some((run.variant.clone(), seconds.collect::<Option<Vec<_>>>()?))
    })
    .collect()
}

/// The seconds with the boost.
pub(crate) fn window(report: &Report, lines: &[Line]) -> Range<usize> {
    let seconds = lines.iter().map(|(_, line)| line.len()).max().unwrap_or(0);
    // A process that may not raise a priority cannot take back what was lowered either.
    let restored = !report.notes.iter().any(|note| note == LOWERED);
    seconds / 3..if restored { 2 * seconds / 3 } else { seconds }
}

/// Adds the table and the pictures in characters.
pub(crate) fn tables(report: &mut Report, case: &str) {
    let lines = lines(report, case);
    if lines.is_empty() {
        return;
    }
    let window = window(report, &lines);
    report.tables.push(table(case, &lines, &window));
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

fn table(case: &str, lines: &[Line], window: &Range<usize>) -> Table {
    let mut headers = vec!["second []".to_owned(), "boost".to_owned()];
    for (variant, _) in lines {
        headers.push(format!("{variant}: p50 [µs]"));
        headers.extend(["p99.9", "max"].map(|name| format!("{name} [ms]")));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("{case} (figures 2b and 3b of the paper)"), &headers);
    for second in 0..lines.iter().map(|(_, line)| line.len()).max().unwrap_or(0) {
        let mut row = vec![second.to_string(), if window.contains(&second) { "on" } else { "" }.to_owned()];
        for (_, line) in lines {
            row.extend(match line.get(second).filter(|summary| summary.count > 0) {
                Some(s) => {
                    [s.p50_ns as f64 / 1e3, s.p999_ns as f64 / 1e6, s.max_ns as f64 / 1e6].map(three_digits)
                }
                None => ["-", "-", "-"].map(str::to_owned),
            });
        }
        table.row(row);
    }
    table
}
