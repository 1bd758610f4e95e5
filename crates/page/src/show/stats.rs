//! A result of `manx stats`: where a program waited, in loops and for locks, and its epochs.

use super::curves::{histogram, percentiles};
use super::words::{date, size, time};
use crate::html::{Cell, Grid, Ids, Look, facts, named};
use crate::input::latencies::Latencies;
use crate::input::stats::{Epoch, Stats};
use maud::{Markup, html};

/// The most histograms of locks.
const LOCKS: usize = 6;

/// The section: one process, or several.
pub(crate) fn show(all: &[Stats], ids: &mut Ids) -> Markup {
    if let [only] = all {
        return process(only, ids);
    }
    html! {
        @for stats in all {
            section.process { h3 { (stats.program) ", process " (stats.pid) } (process(stats, ids)) }
        }
    }
}

fn process(stats: &Stats, ids: &mut Ids) -> Markup {
    let started = if stats.started_unix_ms > 0 { date(stats.started_unix_ms / 1000) } else { String::new() };
    let dropped = stats.sites_dropped > 0 || stats.lock_waits_dropped > 0;
    html! {
        (named(&[
            ("program", stats.program.clone()),
            ("process", stats.pid.to_string()),
            ("Manx", stats.manx.clone().unwrap_or_default()),
            ("state", stats.state.clone()),
            ("began", started),
            ("searched", format!("{} of {} modules in {}", size(stats.text_bytes as f64), stats.modules, time(stats.scan_ns as f64))),
            ("mutexes left to the C library", stats.mutexes_passed_on.to_string()),
        ]))
        (facts(&stats.machine.facts()))
        @if dropped {
            p.warn {
                "The file was full: " (stats.sites_dropped) " sites and " (stats.lock_waits_dropped)
                " waits for locks are not in it."
            }
        }
        (epochs(&stats.epochs, ids))
        h3 { "Locks" }
        @if stats.locks.is_empty() { p { "No thread waited for a lock." } }
        (lock_pictures(stats, ids))
        (locks(stats).markup(ids))
        h3 { "Loops that wait" }
        @if stats.sites.is_empty() { p { "No loop that waits was found." } }
        (sites(stats).markup(ids))
    }
}

fn epochs(all: &[Epoch], ids: &mut Ids) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    let heads = ["epoch", "count #", "target #", "missed #", "missed share #", "p99 #", "longest #"];
    let mut table = Grid::new("Epochs", &heads);
    for epoch in all {
        let share = epoch.missed as f64 / epoch.count.max(1) as f64;
        // A target is for the 99th percentile unless the result says another one.
        let look = match epoch.target_ns {
            None => Look::Plain,
            Some(_) if share <= 0.01 => Look::Good,
            Some(_) => Look::Bad,
        };
        let target = epoch.target_ns.map_or(f64::NAN, |ns| ns as f64);
        let p99 = epoch.latencies().map_or(f64::NAN, |latencies| latencies.quantile_ns(0.99) as f64);
        let longest = epoch.longest_ns.map_or(f64::NAN, |ns| ns as f64);
        table.rows.push(vec![
            Cell::text(epoch.title()),
            Cell::count(epoch.count),
            Cell::number(target, time(target)),
            Cell::count(epoch.missed),
            Cell::number(share, super::words::percent(share)).looks(look),
            Cell::number(p99, time(p99)),
            Cell::number(longest, time(longest)),
        ]);
    }
    let shown = all.iter().filter_map(|epoch| Some((epoch, epoch.latencies()?)));
    let shown: Vec<(&Epoch, Latencies)> = shown.collect();
    html! {
        h3 { "Epochs" }
        (table.markup(ids))
        div.pictures {
            @for (epoch, latencies) in &shown {
                @let named = [(epoch.title(), latencies.clone())];
                (percentiles(&format!("{}: percentiles", epoch.title()), &named, epoch.target_ns, ids))
                (histogram(&format!("{}: latencies", epoch.title()), "epochs", latencies, epoch.target_ns, ids))
            }
        }
    }
}

fn lock_pictures(stats: &Stats, ids: &mut Ids) -> Markup {
    let with = stats.locks.iter().filter_map(|lock| Some((lock.place(), lock.latencies()?)));
    let all: Vec<(String, Latencies)> = with.collect();
    if all.is_empty() {
        return html! {};
    }
    html! {
        div.pictures {
            (percentiles("Waits for locks", &all, None, ids))
            @for (place, latencies) in all.iter().take(LOCKS) {
                (histogram(&format!("Waits for {place}"), "waits", latencies, None, ids))
            }
        }
    }
}

fn or_nan(ns: Option<u64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns as f64)
}

fn locks(stats: &Stats) -> Grid {
    let heads = [
        "first waited at",
        "kind",
        "address",
        "waits #",
        "handed over #",
        "starving #",
        "waited #",
        "longest #",
    ];
    let mut table = Grid::new("Locks that threads waited for", &heads);
    for lock in &stats.locks {
        table.rows.push(vec![
            Cell::code(lock.place()),
            Cell::text(lock.kind.as_str()),
            Cell::code(format!("{:#x}", lock.address)),
            Cell::count(lock.waits),
            Cell::count(lock.hand_overs),
            Cell::count(lock.overdue),
            Cell::number(or_nan(lock.waited_ns), time(or_nan(lock.waited_ns))),
            Cell::number(or_nan(lock.longest_ns), time(or_nan(lock.longest_ns))),
        ]);
    }
    table
}

fn sites(stats: &Stats) -> Grid {
    let heads = [
        "loop",
        "how",
        "waits #",
        "visits #",
        "yields #",
        "sleeps #",
        "waited #",
        "longest #",
        "left alone because",
    ];
    let mut table = Grid::new("Loops", &heads);
    for site in &stats.sites {
        table.rows.push(vec![
            Cell::code(site.place()),
            Cell::text(site.how.as_str()),
            Cell::count(site.waits),
            Cell::count(site.visits),
            Cell::count(site.yields),
            Cell::count(site.sleeps),
            Cell::number(or_nan(site.waited_ns), time(or_nan(site.waited_ns))),
            Cell::number(or_nan(site.longest_ns), time(or_nan(site.longest_ns))),
            Cell::text(site.reason.clone().unwrap_or_default()),
        ]);
    }
    table
}
