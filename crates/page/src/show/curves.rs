//! Pictures of latencies: curves of percentiles up to the maximum, and histograms.

use super::words::{percentile, time};
use crate::chart::columns::Columns;
use crate::chart::svg::{MUTED, PALETTE};
use crate::chart::{Chart, Panel, Series};
use crate::html::{Cell, Grid, Ids, Picture};
use crate::input::latencies::Latencies;
use maud::{Markup, html};

/// The most curves of one picture.
const CURVES: usize = 8;
/// The percentiles of the table.
const SHARES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// The colour of the series in this place.
pub(crate) fn colour(at: usize) -> u32 {
    PALETTE[at % PALETTE.len()]
}

/// A series of points that are joined.
pub(crate) fn line(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), colour, line: true, dots: false, rings: false, points }
}

/// The same of what was measured: two points make no line.
pub(crate) fn measured(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    let is_curve = points.len() > 2;
    Series { line: is_curve, dots: !is_curve, ..line(name, colour, points) }
}

/// A panel of times.
pub(crate) fn times(name: &str, series: Vec<Series>) -> Panel {
    Panel { name: name.into(), logarithmic: true, label: time, series }
}

/// Curves of percentiles; `target_ns` is a line across.
pub(crate) fn percentiles(
    title: &str,
    all: &[(String, Latencies)],
    target_ns: Option<u64>,
    ids: &mut Ids,
) -> Markup {
    let shown = &all[..all.len().min(CURVES)];
    let curves = shown.iter().enumerate();
    let mut series: Vec<Series> =
        curves.map(|(at, (name, latencies))| measured(name, colour(at), latencies.curve())).collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return html! {};
    }
    if let Some(target_ns) = target_ns {
        let x = series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let (low, high) = x.fold((f64::INFINITY, 1.0), |(low, high), x| (x.min(low), x.max(high)));
        series.push(line("target", MUTED, vec![(low, target_ns as f64), (high, target_ns as f64)]));
    }
    let mut table = Grid::new(
        title,
        &["of", "count #", "p50 #", "p90 #", "p99 #", "p99.9 #", "p99.99 #", "p99.999 #", "max #"],
    );
    for (name, latencies) in all {
        let mut row = vec![Cell::text(name.as_str()), Cell::count(latencies.count())];
        for share in SHARES {
            let has = latencies.count() as f64 * (1.0 - share) >= 1.0;
            let value = if has { latencies.quantile_ns(share) as f64 } else { f64::NAN };
            row.push(Cell::number(value, time(value)));
        }
        row.push(Cell::number(latencies.max_ns() as f64, time(latencies.max_ns() as f64)));
        table.rows.push(row);
    }
    let left_out = all.len() - shown.len();
    let more = if left_out == 0 { String::new() } else { format!(" {left_out} more are in the table.") };
    let description = format!(
        "Latency at each percentile, up to the maximum. Each step to the right is one more nine.{more}"
    );
    let panels = vec![times("latency", series)];
    let chart = Chart {
        title: title.into(),
        name: "percentile".into(),
        logarithmic: true,
        label: percentile,
        panels,
    };
    Picture { title, description: &description, is_broad: false, table }
        .markup(ids, &|frame| chart.drawn(frame))
}

/// A histogram with its target.
pub(crate) fn histogram(
    title: &str,
    unit: &str,
    latencies: &Latencies,
    target_ns: Option<u64>,
    ids: &mut Ids,
) -> Markup {
    let buckets: Vec<(f64, u64)> =
        latencies.buckets().iter().map(|(ns, count)| ((*ns).max(1) as f64, *count)).collect();
    let target = target_ns.filter(|ns| *ns > 0).map(|ns| (ns as f64, format!("target {}", time(ns as f64))));
    let columns = Columns { name: "latency".into(), unit: unit.into(), buckets, target, label: time };
    let mut table = Grid::new(title, &["up to #", "count #"]);
    for (ns, count) in latencies.buckets().iter().take(ids.rows_max.min(80)) {
        table.rows.push(vec![Cell::number(*ns as f64, time(*ns as f64)), Cell::count(*count)]);
    }
    let description = format!(
        "{} {unit}, the longest {}. Both axes are logarithmic.",
        latencies.count(),
        time(latencies.max_ns() as f64)
    );
    Picture { title, description: &description, is_broad: false, table }
        .markup(ids, &|frame| columns.drawn(frame))
}
