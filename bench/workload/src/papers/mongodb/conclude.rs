//! From runs to tables, pictures, and the paper's claims.

use super::cases::{GUARDED, ORIGINAL, REPAIRED, UNRESTRICTED, boosted_case, headline_case, repairs_case};
use super::client::{Said, Window};
use crate::drawing::{Charts, chart, colour, dots, lines, panels, rates, those, times, whole};
use crate::papers::{Claim, Here, table};
use crate::verdict::{Figure, judge_or, unknown};
use report::chart::{Chart, Panel, Series};
use report::{Compared, Report, Samples, Sheet};

const TABLE: &str = "
    ?case = case | version = version | runs [] = count max_ns | throughput [op/s] = throughput_per_s
    of the original [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    mean [] = mean_ns | p50 [] = p50_ns | p99.9 [] = p999_ns | max [] = worst max_ns
    slowest client [of mean] = slowest_of_mean";

/// The names of the cases of a kind, by the number of clients.
type Name = fn(usize) -> String;

/// The cases of a kind that were measured, by the number of clients.
fn cases(report: &Report, name: Name) -> Vec<(usize, String)> {
    let measured = report.cases();
    let named = (1..=4096).map(|clients| (clients, name(clients)));
    named.filter(|(_, case)| measured.contains(case)).collect()
}

/// The case with the most clients of a kind.
fn last(report: &Report, name: Name) -> String {
    cases(report, name).pop().map_or_else(|| name(0), |(_, case)| case)
}

/// Adds tables and the paper's claims, and judges the targets.
pub fn conclude(report: &mut Report) {
    let kinds: [(Name, &str); 3] = [
        (headline_case, "Figures 2 and 3: unrestricted, and restricted with a boost in the middle third"),
        (boosted_case, "Figure 4: restricted and boosted all the time"),
        (repairs_case, "Section II-B: each repair, restricted and boosted all the time"),
    ];
    for (name, title) in kinds {
        let measured: Vec<String> = cases(report, name).into_iter().map(|(_, case)| case).collect();
        if !measured.is_empty() {
            report.show(Sheet::new(TABLE).over(ORIGINAL).of(report, title, &measured));
        }
    }
    let claims = claims(report);
    table(report, "The paper's numbers and these", &claims);
    judge_or(report, figure);
}

/// The paper's claims, in its order.
fn claims(report: &Report) -> Vec<Claim> {
    let headline = last(report, headline_case);
    let most = last(report, boosted_case);
    let ratio = |text: &str, paper, over: &str, under: &str, figure: &str| Claim {
        text: text.into(),
        paper,
        here: Here::Ratio(Compared::new(&headline, over, under, figure)),
    };
    let [original, repaired, guarded] = UNRESTRICTED;
    vec![
        Claim {
            text: "mean, original, unrestricted (figure 2a)".into(),
            paper: "890 µs",
            here: Here::Median(headline.clone(), original, "mean_ns"),
        },
        ratio("mean, unrestricted: repaired / original (3a, 2a)", "similar", repaired, original, "mean_ns"),
        ratio("P999, original: restricted and boosted / unrestricted", "22.7", ORIGINAL, original, "p999_ns"),
        ratio("P999, repaired: the same", "1.07", REPAIRED, repaired, "p999_ns"),
        ratio("P999, the original under `manx run`: the same", "", GUARDED, guarded, "p999_ns"),
        Claim {
            text: "longest update in the window, original (figure 2b)".into(),
            paper: "1 s",
            here: Here::Worst(headline.clone(), ORIGINAL, "window_max_ns"),
        },
        Claim {
            text: "the same, repaired (figure 3b)".into(),
            paper: "no peak",
            here: Here::Worst(headline.clone(), REPAIRED, "window_max_ns"),
        },
        Claim {
            text: format!("{most}: P999 repaired / mean original (figure 4b)"),
            paper: "below 1",
            here: Here::Ratio(tail_to_mean(&most, REPAIRED)),
        },
        Claim {
            text: format!("{most}: throughput, repaired / original (figure 4a)"),
            paper: "above 1",
            here: Here::Ratio(Compared::new(&most, REPAIRED, ORIGINAL, "throughput_per_s")),
        },
        Claim {
            text: format!("{most}: throughput, `manx run` / repaired"),
            paper: "",
            here: Here::Ratio(Compared::new(&most, GUARDED, REPAIRED, "throughput_per_s")),
        },
    ]
}

/// The 99.9th percentile of a version over the mean of the original.
fn tail_to_mean(case: &str, version: &str) -> Compared {
    let of = |version: &str, figure: &str| Samples {
        case: case.into(),
        version: version.into(),
        figure: figure.into(),
    };
    Compared { over: of(version, "p999_ns"), under: of(ORIGINAL, "mean_ns"), factor: 1.0 }
}

/// The figure of a target, or the reason why there is none.
pub(super) fn figure(report: &Report, id: &str) -> Result<Figure, String> {
    let headline = last(report, headline_case);
    let most = last(report, boosted_case);
    let [original, repaired, guarded] = UNRESTRICTED;
    let rise = |over, under| Figure::ratio(&headline, over, under, "p999_ns");
    Ok(match id {
        "paper-000-original" => rise(ORIGINAL, original),
        "paper-000-repaired" => rise(REPAIRED, repaired),
        "paper-000-manx-run" => rise(GUARDED, guarded),
        "paper-000-unrestricted" => Figure::ratio(&headline, guarded, original, "mean_ns"),
        "paper-000-most-clients" => Figure::Ratio(tail_to_mean(&most, REPAIRED)),
        "paper-000-throughput" => Figure::ratio(&most, GUARDED, REPAIRED, "throughput_per_s"),
        _ => return Err(unknown(id)),
    })
}

/// The pictures, under names for their files.
#[must_use]
pub fn draw(report: &Report) -> Charts {
    let headline = last(report, headline_case);
    those([
        ("figure-2", over_time(report, &headline, [UNRESTRICTED[0], ORIGINAL], "original (figures 2a, 2b)")),
        ("figure-3", over_time(report, &headline, [UNRESTRICTED[1], REPAIRED], "repaired (figures 3a, 3b)")),
        (
            "figure-3-manx-run",
            over_time(report, &headline, [UNRESTRICTED[2], GUARDED], "the original under manx run"),
        ),
        ("figure-4", over_clients(report)),
    ])
}

fn seconds(second: f64) -> String {
    format!("{second} s")
}

/// Latencies of the last round by the second.
fn over_time(report: &Report, case: &str, versions: [&str; 2], title: &str) -> Option<Chart> {
    type Of = fn(&Window) -> f64;
    let figures: [(&str, Of); 3] =
        [("mean", |one| one.mean_ns), ("p99.9", |one| one.p999_ns as f64), ("max", |one| one.max_ns as f64)];
    let mut all: Vec<Panel> = Vec::new();
    let said: Vec<(&str, Said)> =
        versions.iter().filter_map(|name| Some((*name, report.outputs(case, name).last()?))).collect();
    for (figure, of) in figures {
        let series = |(at, (name, said)): (usize, &(&str, Said))| -> Series {
            let points = said.windows.iter().filter(|one| one.operations > 0);
            dots(name, colour(at), points.map(|one| (one.second as f64 + 0.5, of(one))).collect())
        };
        all.push(times(figure, said.iter().enumerate().map(series).collect()));
    }
    let series = said.iter().enumerate().map(|(at, (name, said))| {
        dots(
            name,
            colour(at),
            said.windows.iter().map(|one| (one.second as f64 + 0.5, one.operations as f64)).collect(),
        )
    });
    all.push(rates("updates a second", series.collect()));
    chart(title, ("time", false, seconds), all)
}

/// Figure 4.
fn over_clients(report: &Report) -> Option<Chart> {
    let places = cases(report, boosted_case);
    let names = [ORIGINAL, REPAIRED, GUARDED].map(str::to_owned);
    let series = |figure: &str| {
        lines(&names, |name| {
            places
                .iter()
                .map(|(clients, case)| (*clients as f64, report.middle(case, name, figure)))
                .collect()
        })
    };
    let figures = "updates a second = throughput_per_s | mean = mean_ns | p99.9 = p999_ns | max = max_ns";
    chart("restricted and boosted (figure 4)", ("clients", false, whole), panels(figures, series))
}
