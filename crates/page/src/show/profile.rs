//! A result of `manx profile`: what a latency target costs and brings, and the one to take.

use super::curves::{line, measured, times};
use super::words::{number, throughput, time};
use crate::chart::svg::{MUTED, PALETTE};
use crate::chart::{Chart, Panel, Series};
use crate::html::{Cell, Grid, Ids, Look, Picture, facts, named};
use crate::input::profile::{Conclusion, Point, Profile, Variant};
use maud::{Markup, html};

/// The version that a point measured, in words.
pub(crate) fn title(variant: &Variant) -> String {
    match variant {
        Variant::Plain => "without Manx".into(),
        Variant::Fifo => "FIFO".into(),
        Variant::SloNs(slo_ns) => time(*slo_ns as f64),
        Variant::Other(other) => other.to_string(),
    }
}

/// The section.
pub(crate) fn show(profile: &Profile, ids: &mut Ids) -> Markup {
    let sweep = &profile.sweep;
    let epoch = sweep.epoch.map_or("requests".into(), |epoch| format!("epoch {epoch}"));
    html! {
        (named(&[
            ("program", sweep.program.join(" ")),
            ("Manx", profile.manx.clone()),
            ("target of", epoch),
            ("percentile", profile.percentile()),
            ("mutexes", sweep.lock.clone()),
            ("rounds", sweep.repeats.to_string()),
        ]))
        (facts(&profile.machine.facts()))
        @match &profile.conclusion {
            None => p.warn { "The sweep has no conclusion: it was ended before its end. `manx profile --resume` continues it." },
            Some(conclusion) => (concluded(profile, conclusion, ids)),
        }
    }
}

fn concluded(profile: &Profile, conclusion: &Conclusion, ids: &mut Ids) -> Markup {
    let advice = &conclusion.advice;
    html! {
        h3 { "Suggestion" }
        div.card.is-open[advice.slo_ns.is_none()].is-good[advice.slo_ns.is_some()] {
            p { strong {
                @match advice.slo_ns {
                    Some(slo_ns) => { "A target of " (time(slo_ns as f64)) },
                    None => "No target",
                }
            } }
            p { (advice.reason) }
        }
        h3 { "Curves" }
        div.pictures { (over_target(profile, conclusion, ids)) (over_latency(profile, conclusion, ids)) }
        (table(profile, conclusion, "Points").markup(ids))
    }
}

/// The points of targets, sorted.
fn slos(conclusion: &Conclusion) -> Vec<(u64, &Point)> {
    let mut slos: Vec<(u64, &Point)> = Vec::new();
    for (variant, point) in &conclusion.points {
        if let Variant::SloNs(slo_ns) = variant {
            slos.push((*slo_ns, point));
        }
    }
    slos.sort_by_key(|(slo_ns, _)| *slo_ns);
    slos
}

fn dots(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    Series { dots: true, ..measured(name, colour, points) }
}

fn dot(name: &str, colour: u32, point: (f64, f64)) -> Series {
    Series { line: false, ..dots(name, colour, vec![point]) }
}

fn rates(series: Vec<Series>) -> Panel {
    Panel { name: "throughput".into(), logarithmic: false, label: throughput, series }
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// The points that are no target's, with their colours.
fn others(conclusion: &Conclusion) -> Vec<(String, u32, &Point)> {
    let colour = |variant: &Variant| match variant {
        Variant::Fifo => Some(PALETTE[1]),
        Variant::Plain => Some(PALETTE[2]),
        _ => None,
    };
    let points = conclusion.points.iter();
    points.filter_map(|(variant, point)| Some((title(variant), colour(variant)?, point))).collect()
}

fn over_target(profile: &Profile, conclusion: &Conclusion, ids: &mut Ids) -> Markup {
    let slos = slos(conclusion);
    let over = |of: fn(&Point) -> Option<f64>| {
        slos.iter().map(|(slo_ns, point)| (*slo_ns as f64, or_nan(of(point)))).collect::<Vec<_>>()
    };
    let percentile = profile.percentile();
    let mut tails = vec![
        dots(&percentile, PALETTE[0], over(|point| point.tail_ns)),
        line("target", MUTED, slos.iter().map(|(slo_ns, _)| (*slo_ns as f64, *slo_ns as f64)).collect()),
    ];
    let longest = over(|point| point.max_ns);
    if longest.iter().any(|(_, ns)| ns.is_finite()) {
        tails.push(dots("max", PALETTE[5], longest));
    }
    let mut throughputs = vec![dots("throughput", PALETTE[0], over(|point| point.throughput_per_s))];
    for (name, colour, point) in others(conclusion) {
        let tail = or_nan(point.tail_ns);
        tails.push(dot(&name, colour, (tail, tail)));
        throughputs.push(dot(&name, colour, (tail, or_nan(point.throughput_per_s))));
    }
    throughputs
        .extend(marks(conclusion, &slos, |slo_ns, point| (slo_ns as f64, or_nan(point.throughput_per_s))));
    let chart = Chart {
        title: String::new(),
        name: "target".into(),
        logarithmic: true,
        label: time,
        panels: vec![times(&format!("{percentile} latency"), tails), rates(throughputs)],
    };
    let description = "Latency and throughput at each target. On the line, latency is the target; below it, the \
                       target is kept. FIFO and the program without Manx stand at their own latency.";
    let table = table(profile, conclusion, "Latency and throughput over the target");
    Picture { title: "What a target costs and brings", description, is_broad: false, table }
        .markup(ids, &|frame| chart.drawn(frame))
}

/// The knee and the suggestion, as dots.
fn marks(
    conclusion: &Conclusion,
    slos: &[(u64, &Point)],
    place: impl Fn(u64, &Point) -> (f64, f64),
) -> Vec<Series> {
    let at = |wanted: Option<u64>, name: &str, colour: u32| {
        let (slo_ns, point) = slos.iter().find(|(slo_ns, _)| Some(*slo_ns) == wanted)?;
        Some(dot(name, colour, place(*slo_ns, point)))
    };
    let (knee, advice) = (conclusion.knee_slo_ns, conclusion.advice.slo_ns);
    let both = if knee == advice { "knee, suggested" } else { "knee" };
    let advice = advice.filter(|_| advice != knee);
    [at(knee, both, PALETTE[5]), at(advice, "suggested", PALETTE[3])].into_iter().flatten().collect()
}

fn over_latency(profile: &Profile, conclusion: &Conclusion, ids: &mut Ids) -> Markup {
    let slos = slos(conclusion);
    let place = |point: &Point| (or_nan(point.tail_ns), or_nan(point.throughput_per_s));
    let mut series = vec![dots(
        "targets, in their order",
        PALETTE[0],
        slos.iter().map(|(_, point)| place(point)).collect(),
    )];
    for (name, colour, point) in others(conclusion) {
        series.push(dot(&name, colour, place(point)));
    }
    series.extend(marks(conclusion, &slos, |_, point| place(point)));
    if let Some(slo_ns) = conclusion.advice.slo_ns {
        let most = series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
        let name = format!("suggested target, {}", time(slo_ns as f64));
        series.push(line(&name, MUTED, vec![(slo_ns as f64, 0.0), (slo_ns as f64, most)]));
    }
    let name = format!("{} latency", profile.percentile());
    let chart =
        Chart { title: String::new(), name, logarithmic: true, label: time, panels: vec![rates(series)] };
    let description = "Up and to the left is better: more throughput at less latency.";
    let table = table(profile, conclusion, "Throughput over latency");
    Picture { title: "Latency and throughput", description, is_broad: false, table }
        .markup(ids, &|frame| chart.drawn(frame))
}

fn table(profile: &Profile, conclusion: &Conclusion, caption: &str) -> Grid {
    let tail = format!("{} #", profile.percentile());
    let mut table = Grid::new(
        caption,
        &["target #", &tail, "of the target #", "max #", "throughput #", "runs #", "remark"],
    );
    for (variant, point) in &conclusion.points {
        let slo_ns = if let Variant::SloNs(slo_ns) = variant { Some(*slo_ns) } else { None };
        let mut remarks = Vec::new();
        if slo_ns.is_some() && slo_ns == conclusion.knee_slo_ns {
            remarks.push("knee");
        }
        if slo_ns.is_some() && slo_ns == conclusion.advice.slo_ns {
            remarks.push("suggested");
        }
        let of = slo_ns.map_or(f64::NAN, |slo_ns| or_nan(point.tail_ns) / slo_ns as f64);
        let tail = or_nan(point.tail_ns);
        let is_kept = slo_ns.map(|_| of <= 1.05);
        let look = match is_kept {
            Some(true) => Look::Good,
            Some(false) => Look::Bad,
            None => Look::Plain,
        };
        table.rows.push(vec![
            Cell::number(slo_ns.map_or(0.0, |slo_ns| slo_ns as f64), title(variant)),
            Cell::number(tail, time(tail)),
            Cell::number(of, if of.is_finite() { format!("{} %", number(of * 100.0)) } else { "-".into() })
                .looks(look),
            Cell::number(or_nan(point.max_ns), time(or_nan(point.max_ns))),
            Cell::number(or_nan(point.throughput_per_s), throughput(or_nan(point.throughput_per_s))),
            Cell::count(point.runs),
            Cell::text(remarks.join(", ")),
        ]);
    }
    table
}
