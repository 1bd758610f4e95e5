//! `--compare`: a result before a change beside one after it, figure by figure.
//!
//! Medians are compared. Rounds of two results are no pairs, because they did not run side by side:
//! their ratio also contains everything else that changed on the machine in between. A ratio with
//! at least five values on both sides has a 95 % interval, by a percentile bootstrap that draws
//! each side independently. The seed is fixed, so the same files always give the same page.

use super::bench::meaning;
use super::curves::percentiles;
use super::profile::title;
use super::words::{figure as written, is_more_better, median, number, sorted};
use crate::chart::forest;
use crate::chart::svg::{BAD, GOOD};
use crate::html::{Cell, Grid, Ids, Look, Picture};
use crate::input::Kind;
use crate::input::bench::Report;
use crate::input::doctor;
use crate::input::stats::Stats;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// With fewer values on a side, a ratio has no interval.
const VALUES_MIN: usize = 5;
/// The number of draws of a bootstrap.
const DRAWS: usize = 1000;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// The most rows of a picture.
const ROWS: usize = 24;
/// The most pictures of ratios, and of percentiles.
const PICTURES: usize = 8;

/// A figure before and after.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    /// What was measured: a case and its version, a cause, a program
    what: String,
    /// The figure's name
    figure: String,
    before: Vec<f64>,
    after: Vec<f64>,
}

/// Shows the comparison of two results, `before` and `after`, each with its name.
pub(crate) fn show(before: (&str, &Kind), after: (&str, &Kind), ids: &mut Ids) -> Markup {
    let pairs = match (before.1, after.1) {
        (Kind::Bench(one), Kind::Bench(other)) => bench(one, other),
        (Kind::Profile(one), Kind::Profile(other)) => profile(one, other),
        (Kind::Doctor(one), Kind::Doctor(other)) => doctors(one, other),
        (Kind::Pairs(one), Kind::Pairs(other)) => doctor_pairs(&one.as_it_is, &other.as_it_is, ""),
        (Kind::Stats(one), Kind::Stats(other)) => stats(one, other),
        _ => vec![],
    };
    html! {
        h2 { (before.0) " → " (after.0) }
        @if pairs.is_empty() {
            p.warn { "The two results have no figure in common: nothing can be compared." }
        } @else {
            @if let (Kind::Doctor(one), Kind::Doctor(other)) = (before.1, after.1) { (findings(one, other)) }
            (summary(&pairs))
            (forests(&pairs, ids))
            @if let (Kind::Bench(one), Kind::Bench(other)) = (before.1, after.1) {
                (overlaid((before.0, one), (after.0, other), ids))
            }
            (table(&pairs, before.0, after.0).markup(ids))
        }
    }
}

impl Pair {
    fn new(what: impl Into<String>, figure: &str, before: f64, after: f64) -> Pair {
        Pair { what: what.into(), figure: figure.into(), before: vec![before], after: vec![after] }
    }

    /// The median before, and the median after.
    fn medians(&self) -> (f64, f64) {
        (median(&self.before), median(&self.after))
    }

    /// The median after over the median before; `None` unless both are above 0.
    fn ratio(&self) -> Option<f64> {
        let (before, after) = self.medians();
        let ratio = after / before;
        (before > 0.0 && after > 0.0 && ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// The 95 % interval of the ratio; `None` if there are too few values.
    fn interval(&self) -> Option<(f64, f64)> {
        if self.before.len() < VALUES_MIN || self.after.len() < VALUES_MIN {
            return None;
        }
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut draw = |values: &[f64]| {
            let drawn: Vec<f64> = (0..values.len()).map(|_| values[random.usize(..values.len())]).collect();
            median(&drawn)
        };
        let ratios = sorted((0..DRAWS).map(|_| draw(&self.after) / draw(&self.before)).collect());
        let ends = (ratios[DRAWS / 40], ratios[DRAWS - 1 - DRAWS / 40]);
        (ends.0.is_finite() && ends.0 > 0.0 && ends.1.is_finite()).then_some(ends)
    }

    /// The change in words, and the look of its cell: good, bad or neither.
    fn change(&self) -> (String, Look) {
        let (before, after) = self.medians();
        let better = is_more_better(&self.figure);
        let look = |is_more: bool| match better {
            Some(more) if more == is_more => Look::Good,
            Some(_) => Look::Bad,
            None => Look::Plain,
        };
        match self.ratio() {
            Some(ratio) => {
                let colour = meaning(&self.figure, ratio, self.interval());
                let look = match colour {
                    GOOD => Look::Good,
                    BAD => Look::Bad,
                    _ => Look::Plain,
                };
                (format!("{}×", number(ratio)), look)
            }
            None if before == after => ("the same".into(), Look::Plain),
            None if after == 0.0 => ("gone".into(), look(false)),
            None if before == 0.0 => ("new".into(), look(true)),
            None => ("-".into(), Look::Plain),
        }
    }
}

/// The figures that both results of a bench have, for the cases and versions that both have.
fn bench(before: &Report, after: &Report) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let cases = after.cases();
    for case in before.cases().into_iter().filter(|case| cases.contains(case)) {
        let versions = after.versions(case);
        for version in before.versions(case).into_iter().filter(|version| versions.contains(version)) {
            for figure in before.figures(case) {
                let (one, other) =
                    (before.values(case, version, figure), after.values(case, version, figure));
                if !one.is_empty() && !other.is_empty() {
                    let what = format!("{case}: {version}");
                    pairs.push(Pair { what, figure: figure.into(), before: one, after: other });
                }
            }
        }
    }
    pairs
}

fn profile(before: &crate::input::profile::Profile, after: &crate::input::profile::Profile) -> Vec<Pair> {
    let (Some(one), Some(other)) = (&before.conclusion, &after.conclusion) else { return vec![] };
    let mut pairs = Vec::new();
    for (variant, was) in &one.points {
        let Some((_, is)) = other.points.iter().find(|(same, _)| same == variant) else { continue };
        let figures = [
            ("throughput_per_s", was.throughput_per_s, is.throughput_per_s),
            ("tail_ns", was.tail_ns, is.tail_ns),
            ("max_ns", was.max_ns, is.max_ns),
        ];
        for (figure, was, is) in figures {
            pairs.extend(was.zip(is).map(|(was, is)| Pair::new(title(variant), figure, was, is)));
        }
    }
    pairs
}

/// The figures of the processes that both results have. Two processes are the same if they have the
/// same name, and the same place among the processes of that name. If each result has a single
/// process, the two are compared whatever their names are.
fn doctors(before: &[doctor::Report], after: &[doctor::Report]) -> Vec<Pair> {
    if let ([one], [other]) = (before, after) {
        return doctor_pairs(one, other, "");
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pairs = Vec::new();
    for one in before {
        let name = one.evidence.name.as_str();
        let at = seen.entry(name).or_default();
        if let Some(other) = after.iter().filter(|other| other.evidence.name == name).nth(*at) {
            pairs.extend(doctor_pairs(one, other, &format!("{name}: ")));
        }
        *at += 1;
    }
    pairs
}

fn doctor_pairs(before: &doctor::Report, after: &doctor::Report, name: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let severity = |report: &doctor::Report, title: &str| {
        let found = report.verdicts.iter().find(|verdict| verdict.title == title);
        found.and_then(|verdict| verdict.severity).unwrap_or(0.0)
    };
    let mut titles: Vec<&str> = Vec::new();
    for verdict in before.verdicts.iter().chain(&after.verdicts) {
        if !titles.contains(&verdict.title.as_str()) {
            titles.push(&verdict.title);
        }
    }
    for title in titles {
        pairs.push(Pair::new(
            format!("{name}{title}"),
            "severity",
            severity(before, title),
            severity(after, title),
        ));
    }
    let (one, other) = (&before.evidence, &after.evidence);
    let per_time = |of: fn(&doctor::Thread) -> u64| (one.per_time(of), other.per_time(of));
    let waited = per_time(|thread| thread.wait_ns);
    pairs.push(Pair::new(format!("{name}without a CPU"), "waiting_threads", waited.0, waited.1));
    let ran = per_time(|thread| thread.run_ns);
    pairs.push(Pair::new(format!("{name}running"), "running", ran.0, ran.1));
    let lost = per_time(|thread| thread.involuntary);
    pairs.push(Pair::new(format!("{name}lost its CPU"), "times each second", lost.0 * 1e9, lost.1 * 1e9));
    pairs
}

fn stats(before: &[Stats], after: &[Stats]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (one, other) in before.iter().zip(after) {
        let name = if before.len() > 1 { format!("{}: ", one.program) } else { String::new() };
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0u64, u64::saturating_add) as f64;
        let sites =
            |of: fn(&crate::input::stats::Site) -> u64, stats: &Stats| sum(&mut stats.sites.iter().map(of));
        let locks =
            |of: fn(&crate::input::stats::Lock) -> u64, stats: &Stats| sum(&mut stats.locks.iter().map(of));
        let mut push = |what: &str, figure: &str, of: &dyn Fn(&Stats) -> f64| {
            pairs.push(Pair::new(format!("{name}{what}"), figure, of(one), of(other)));
        };
        push("all loops", "waits", &|stats| sites(|site| site.waits, stats));
        push("all loops", "waited_ns", &|stats| sites(|site| site.waited_ns.unwrap_or(0), stats));
        push("all locks", "waits", &|stats| locks(|lock| lock.waits, stats));
        push("all locks", "waited_ns", &|stats| locks(|lock| lock.waited_ns.unwrap_or(0), stats));
        let longest =
            |stats: &Stats| stats.locks.iter().filter_map(|lock| lock.longest_ns).max().unwrap_or(0) as f64;
        push("the longest wait for a lock", "longest_ns", &longest);
        for epoch in &one.epochs {
            let title = epoch.title();
            let Some(same) = other.epochs.iter().find(|same| same.title() == title) else { continue };
            let share = |epoch: &crate::input::stats::Epoch| epoch.missed as f64 / epoch.count.max(1) as f64;
            pairs.push(Pair::new(
                format!("{name}{title}, missed"),
                "missed_share",
                share(epoch),
                share(same),
            ));
            let longest =
                |epoch: &crate::input::stats::Epoch| epoch.longest_ns.map_or(f64::NAN, |ns| ns as f64);
            pairs.push(Pair::new(
                format!("{name}{title}, longest"),
                "longest_ns",
                longest(epoch),
                longest(same),
            ));
        }
    }
    pairs.retain(|pair| pair.before != pair.after || pair.before != [0.0]);
    pairs
}

/// A card with the causes that the doctor found before and after.
fn findings(before: &[doctor::Report], after: &[doctor::Report]) -> Markup {
    let titles = |reports: &[doctor::Report]| {
        let mut titles: Vec<String> = Vec::new();
        for verdict in reports.iter().flat_map(|report| &report.verdicts) {
            if !titles.contains(&verdict.title) {
                titles.push(verdict.title.clone());
            }
        }
        if titles.is_empty() { "nothing".to_owned() } else { titles.join(", ") }
    };
    let is_cured = after.iter().all(|report| report.verdicts.is_empty());
    html! {
        div.card.is-good[is_cured].is-open[!is_cured] {
            p { "Found before: " strong { (titles(before)) } }
            p { "Found after: " strong { (titles(after)) } }
        }
    }
}

fn summary(pairs: &[Pair]) -> Markup {
    let words = [
        (Look::Good, "is-good", "better"),
        (Look::Bad, "is-bad", "worse"),
        (Look::Plain, "is-open", "the same, unclear or neither"),
    ];
    let count = |look: Look| pairs.iter().filter(|pair| pair.change().1 == look).count();
    let counted = words.map(|(look, class, words)| (count(look), class, words));
    html! {
        p.badges {
            "Figures: "
            @for (count, class, words) in counted.into_iter().filter(|(count, ..)| *count > 0) {
                span class=(class) { (count) " " (words) } " "
            }
        }
    }
}

/// The order of the pictures, one for each figure: these come first, in this order.
const TELLING: [&str; 13] = [
    "severity",
    "throughput_per_s",
    "ops_per_s",
    "epochs_per_s",
    "p99_ns",
    "all_p99_ns",
    "tail_ns",
    "max_ns",
    "all_max_ns",
    "waited_ns",
    "longest_ns",
    "waiting_threads",
    "missed_share",
];

fn forests(pairs: &[Pair], ids: &mut Ids) -> Markup {
    let mut figures: Vec<&str> = Vec::new();
    let tells = |pair: &&Pair| pair.ratio().is_some() && is_more_better(&pair.figure).is_some();
    for pair in pairs.iter().filter(tells) {
        if !figures.contains(&pair.figure.as_str()) {
            figures.push(&pair.figure);
        }
    }
    let rank = |figure: &str| TELLING.iter().position(|telling| *telling == figure).unwrap_or(TELLING.len());
    figures.sort_by_key(|figure| rank(figure));
    if figures.is_empty() {
        return html! {};
    }
    html! {
        h3 { "After over before" }
        div.pictures { @for figure in figures.into_iter().take(PICTURES) { (forest_picture(figure, pairs, ids)) } }
    }
}

fn forest_picture(figure: &str, pairs: &[Pair], ids: &mut Ids) -> Markup {
    let with: Vec<(&Pair, f64)> = pairs
        .iter()
        .filter(|pair| pair.figure == figure)
        .filter_map(|pair| Some((pair, pair.ratio()?)))
        .collect();
    let row = |(pair, ratio): &(&Pair, f64)| {
        let interval = pair.interval();
        forest::Row {
            name: pair.what.clone(),
            ratio: *ratio,
            interval,
            colour: meaning(figure, *ratio, interval),
        }
    };
    let rows: Vec<forest::Row> = with.iter().take(ROWS).map(row).collect();
    let mut table = Grid::new(figure, &["what", "ratio #", "from #", "to #"]);
    for row in with.iter().map(row) {
        let (low, high) = row.interval.unwrap_or((f64::NAN, f64::NAN));
        let cell = |value: f64| Cell::number(value, number(value));
        table.rows.push(vec![Cell::text(row.name.as_str()), cell(row.ratio), cell(low), cell(high)]);
    }
    let better = match is_more_better(figure) {
        Some(true) => "More is better.",
        Some(false) => "Less is better.",
        None => "",
    };
    let more = with.len().saturating_sub(ROWS);
    let more = if more == 0 { String::new() } else { format!(" {more} more are in the table.") };
    let description = format!("The median after over the median before. {better}{more}");
    Picture { title: figure, description: &description, is_broad: false, table }
        .markup(ids, &|frame| forest::drawn(&rows, "after / before", frame))
}

/// The percentiles of both results in one picture for each case and version.
fn overlaid(before: (&str, &Report), after: (&str, &Report), ids: &mut Ids) -> Markup {
    let mut pictures = Vec::new();
    let cases = after.1.cases();
    for case in before.1.cases().into_iter().filter(|case| cases.contains(case)) {
        for version in before.1.versions(case) {
            let newer = after.1.latencies(case, version);
            for (name, was) in before.1.latencies(case, version) {
                let Some((_, is)) = newer.iter().find(|(other, _)| *other == name) else { continue };
                if pictures.len() >= PICTURES || !ids.has_room() {
                    break;
                }
                let part = if name.is_empty() || name == "all" { String::new() } else { format!(", {name}") };
                let both =
                    [(format!("before: {}", before.0), was), (format!("after: {}", after.0), is.clone())];
                pictures.push(percentiles(&format!("{case}: {version}{part}"), &both, None, ids));
            }
        }
    }
    html! {
        @if !pictures.is_empty() {
            h3 { "Percentiles" }
            div.pictures { @for picture in pictures { (picture) } }
        }
    }
}

fn table(pairs: &[Pair], before: &str, after: &str) -> Grid {
    let heads = ["what", "figure", "before #", "after #", "change #", "from #", "to #"];
    let mut table = Grid::new(format!("{before} → {after}, medians"), &heads);
    for pair in pairs {
        let ((one, other), (words, look)) = (pair.medians(), pair.change());
        let (low, high) = pair.interval().unwrap_or((f64::NAN, f64::NAN));
        table.rows.push(vec![
            Cell::text(pair.what.as_str()),
            Cell::text(pair.figure.as_str()),
            Cell::number(one, written(&pair.figure, one)),
            Cell::number(other, written(&pair.figure, other)),
            Cell { value: pair.ratio(), ..Cell::text(words) }.looks(look),
            Cell::number(low, number(low)),
            Cell::number(high, number(high)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_words_and_by_what_it_means() {
        for (figure, before, after, words, look) in [
            ("p99_ns", 100.0, 50.0, "0.500×", Look::Good),
            ("ops_per_s", 100.0, 50.0, "0.500×", Look::Bad),
            ("severity", 3.0, 0.0, "gone", Look::Good),
            ("severity", 0.0, 3.0, "new", Look::Bad),
            ("severity", 0.0, 0.0, "the same", Look::Plain),
            ("p99_ns", f64::NAN, 3.0, "-", Look::Plain),
        ] {
            assert_eq!(Pair::new("w", figure, before, after).change(), (words.to_owned(), look), "{figure}");
        }
    }

    #[test]
    fn five_values_on_both_sides_have_an_interval_around_the_ratio() {
        let of = |values: &[f64]| values.to_vec();
        let pair = Pair {
            what: String::new(),
            figure: "p99_ns".into(),
            before: of(&[10.0, 11.0, 9.0, 10.0, 10.5]),
            after: of(&[5.0, 5.5, 4.5, 5.0, 5.1]),
        };
        let (low, high) = pair.interval().unwrap();
        assert!(low <= 0.5 && 0.5 <= high && low > 0.4 && high < 0.62, "{low} {high}");
        assert_eq!(Pair { after: of(&[1.0; 4]), ..pair }.interval(), None);
    }
}
