//! A result of `manx doctor`: the verdicts, the timeline of the threads, and the evidence.

use super::curves;
use super::words::{number, percent, time};
use crate::chart::timeline::{self, STATES, State};
use crate::html::{Cell, Grid, Ids, Look, Picture, facts, named};
use crate::input::doctor::{Evidence, Lock, Report, Timeline, Verdict, Waits};
use crate::input::latencies::Latencies;
use maud::{Markup, html};

/// The number of processes of a list that are shown whole.
const WHOLE: usize = 12;
/// The most threads in a timeline.
const THREADS: usize = 32;

/// The section: one process, or several.
pub(crate) fn show(reports: &[Report], ids: &mut Ids) -> Markup {
    if let [only] = reports {
        return process(only, ids);
    }
    let mut table = Grid::new("Processes", &["process", "PID #", "findings", "severity #", "threads #"]);
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_by(|one, other| other.severity().total_cmp(&one.severity()));
    for report in &sorted {
        let titles: Vec<&str> = report.verdicts.iter().map(|verdict| verdict.title.as_str()).collect();
        let look = if titles.is_empty() { Look::Good } else { Look::Bad };
        let titles = if titles.is_empty() { "none".to_owned() } else { titles.join("; ") };
        table.rows.push(vec![
            Cell::text(report.evidence.name.as_str()),
            Cell::number(report.evidence.pid as f64, report.evidence.pid.to_string()),
            Cell::text(titles).looks(look),
            Cell::number(report.severity(), number(report.severity())),
            Cell::count(report.evidence.threads.len() as u64),
        ]);
    }
    let found: Vec<&&Report> = sorted.iter().filter(|report| !report.verdicts.is_empty()).collect();
    html! {
        @if let Some(first) = reports.first() { (facts(&first.machine.facts())) }
        p.badges {
            @if !found.is_empty() { span.is-bad { (found.len()) " with findings" } " " }
            span.is-good { (reports.len() - found.len()) " without" }
        }
        (table.markup(ids))
        @for report in found.iter().take(WHOLE) {
            section.process { h3 { (report.title()) } (process(report, ids)) }
        }
        @if found.len() > WHOLE {
            p.small { (found.len() - WHOLE) " more processes with findings are in the table only." }
        }
    }
}

fn process(report: &Report, ids: &mut Ids) -> Markup {
    let evidence = &report.evidence;
    let budget = evidence.budget.map_or(String::new(), |cpus| format!("{} CPUs", number(cpus)));
    let why =
        if evidence.budget_why.is_empty() { String::new() } else { format!(" ({})", evidence.budget_why) };
    html! {
        (named(&[
            ("process", format!("{} ({})", evidence.name, evidence.pid)),
            ("command", evidence.command.join(" ")),
            ("Manx", report.manx.clone().unwrap_or_default()),
            ("watched for", format!("{}, {} looks", time(evidence.span_ns as f64), evidence.looks)),
            ("may use", budget + &why),
            ("threads that ran", number(evidence.per_time(|thread| thread.run_ns))),
            ("threads without a CPU", number(evidence.per_time(|thread| thread.wait_ns))),
            ("machine", machine(evidence)),
            ("the doctor used", evidence.own_cpus.map_or(String::new(), |cpus| format!("{} of a CPU", percent(cpus)))),
        ]))
        (facts(&report.machine.facts()))
        @if evidence.ended { p.warn { "The process ended while it was watched." } }
        h3 { "Verdicts" }
        @if report.verdicts.is_empty() {
            div.card.is-good { p { strong { "Nothing was found." } } }
        }
        @for verdict in &report.verdicts { (verdict_card(verdict)) }
        @if let Some(timeline) = &evidence.timeline { (timeline_picture(timeline, evidence, ids)) }
        h3 { "Evidence" }
        (threads(evidence).markup(ids))
        (locks(evidence).markup(ids))
        (waits(evidence, ids))
        (places(evidence).markup(ids))
        (groups(evidence).markup(ids))
        (neighbours(evidence).markup(ids))
        @if !evidence.unseen.is_empty() {
            h3 { "What could not be seen" }
            ul {
                @for unseen in &evidence.unseen {
                    li { (unseen.what) ": " (unseen.why) "; " (unseen.allow) }
                }
            }
        }
    }
}

/// The rest of the machine in a few words.
fn machine(evidence: &Evidence) -> String {
    let machine = &evidence.machine;
    let mut words = Vec::new();
    for (value, name) in [
        (machine.busy_cpus, "CPUs busy"),
        (machine.idle_cpus, "idle"),
        (machine.stolen_cpus, "stolen by the host"),
    ] {
        words.extend(value.map(|cpus| format!("{} {name}", number(cpus))));
    }
    for (value, name) in
        [(machine.cpu_stalled, "CPUs"), (machine.memory_stalled, "memory"), (machine.io_stalled, "disks")]
    {
        words.extend(
            value.map(|share| format!("{} of the time some thread waited for {name}", percent(share))),
        );
    }
    words.join(", ")
}

fn verdict_card(verdict: &Verdict) -> Markup {
    let severity = verdict.severity.unwrap_or(f64::NAN);
    html! {
        div.card.is-bad[verdict.curable].is-open[!verdict.curable] {
            p {
                strong { (verdict.title) }
                " " span.small { "severity " (number(severity)) " threads" @if !verdict.curable { ", not Manx's business" } }
            }
            p { (verdict.headline) }
            @if !verdict.evidence.is_empty() {
                ul { @for line in &verdict.evidence { li { (line) } } }
            }
            @for remedy in &verdict.remedies {
                p { (remedy.what) @if remedy.command.is_some() { ":" } }
                @if let Some(command) = &remedy.command { pre tabindex="0" { code { (command) } } }
            }
            @for doubt in &verdict.doubts { p.small { "Doubt: " (doubt) } }
        }
    }
}

fn timeline_picture(timeline: &Timeline, evidence: &Evidence, ids: &mut Ids) -> Markup {
    let mut heads: Vec<String> = vec!["thread".into(), "TID #".into()];
    heads.extend(STATES.iter().map(|(_, words)| format!("{words} #")));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Grid::new("Share of the looks in each state", &heads);
    let mut rows = Vec::new();
    for thread in &timeline.threads {
        let states: Vec<State> = thread.states.chars().map(State::of).collect();
        let there = states.iter().filter(|state| **state != State::Absent).count().max(1) as f64;
        let mut row =
            vec![Cell::text(thread.name.as_str()), Cell::number(thread.tid as f64, thread.tid.to_string())];
        for (kind, _) in STATES {
            let share = states.iter().filter(|state| state.kind() == kind).count() as f64 / there;
            row.push(Cell::number(share, percent(share)));
        }
        table.rows.push(row);
        if rows.len() < THREADS {
            rows.push(timeline::Row { name: format!("{} {}", thread.name, thread.tid), states });
        }
    }
    if rows.is_empty() {
        return html! {};
    }
    let left_out = timeline.threads.len() - rows.len();
    let more =
        if left_out == 0 { String::new() } else { format!(" {left_out} more threads are in the table.") };
    let description = format!("What each thread did at each of {} looks.{more}", timeline.looks_ns.len());
    let letters = evidence
        .locks
        .iter()
        .zip('A'..='Z')
        .filter(|(_, letter)| timeline.threads.iter().any(|thread| thread.states.contains(*letter)));
    let locks: Vec<String> =
        letters.map(|(lock, letter)| format!("{letter} is the lock in {}", lock.place)).collect();
    html! {
        h3 { "Timeline" }
        div.pictures.one {
            (Picture { title: "Threads over time", description: &description, is_broad: true, table }
                .markup(ids, &|frame| timeline::drawn(&rows, &timeline.looks_ns, frame)))
        }
        @if !locks.is_empty() { p.small { (locks.join("; ")) "." } }
    }
}

fn threads(evidence: &Evidence) -> Grid {
    let heads = [
        "thread",
        "TID #",
        "ran #",
        "waited for a CPU #",
        "gave its CPU away #",
        "lost its CPU #",
        "samples #",
        "in waiting loops #",
    ];
    let mut table = Grid::new("Threads", &heads);
    for thread in &evidence.threads {
        table.rows.push(vec![
            Cell::text(thread.name.as_str()),
            Cell::number(thread.tid as f64, thread.tid.to_string()),
            Cell::number(thread.run_ns as f64, time(thread.run_ns as f64)),
            Cell::number(thread.wait_ns as f64, time(thread.wait_ns as f64)),
            Cell::count(thread.voluntary),
            Cell::count(thread.involuntary),
            Cell::count(thread.samples),
            Cell::count(thread.waiting_samples),
        ]);
    }
    table
}

fn locks(evidence: &Evidence) -> Grid {
    let mut table =
        Grid::new("Locks", &["lock", "address", "waiters #", "most at once #", "looks #", "waited for in"]);
    for lock in &evidence.locks {
        let waiters = lock.waiters.unwrap_or(f64::NAN);
        let callers: Vec<String> =
            lock.callers.iter().take(4).map(|(function, count)| format!("{function} ({count})")).collect();
        table.rows.push(vec![
            Cell::text(lock.place.as_str()),
            Cell::code(format!("{:#x}", lock.address)),
            Cell::number(waiters, number(waiters)),
            Cell::count(lock.waiters_max),
            Cell::count(lock.looks),
            Cell::text(callers.join(", ")),
        ]);
    }
    table
}

/// How long the waits lasted, for each lock and function that was seen.
fn waits(evidence: &Evidence, ids: &mut Ids) -> Markup {
    let mut all: Vec<(&Lock, &Waits)> = Vec::new();
    for lock in &evidence.locks {
        all.extend(lock.waits.iter().map(|waits| (lock, waits)));
    }
    if all.is_empty() {
        return html! {};
    }
    let heads = ["waits from", "lock", "address", "seen #", "waited in all #", "p50 #", "p99 #", "max #"];
    let mut table = Grid::new("Waits for locks by function", &heads);
    for (lock, waits) in &all {
        let latencies = waits.latencies();
        let quantile = |share: f64| {
            let has = latencies.count() as f64 * (1.0 - share) >= 1.0;
            if has { latencies.quantile_ns(share) as f64 } else { f64::NAN }
        };
        let times = [waits.waited_ns as f64, quantile(0.5), quantile(0.99), waits.max_ns as f64];
        let mut row = vec![
            Cell::text(waits.function.as_str()),
            Cell::text(lock.place.as_str()),
            Cell::code(format!("{:#x}", lock.address)),
            Cell::count(waits.count),
        ];
        row.extend(times.map(|ns| Cell::number(ns, time(ns))));
        table.rows.push(row);
    }
    let curves: Vec<(String, Latencies)> =
        all.iter().map(|(_, waits)| (waits.function.clone(), waits.latencies())).collect();
    html! {
        (table.markup(ids))
        div.pictures { (curves::percentiles("Waits for locks", &curves, None, ids)) }
    }
}

fn places(evidence: &Evidence) -> Grid {
    let mut table = Grid::new("Where threads ran", &["function", "file", "samples #", "waits until"]);
    let mut sorted: Vec<_> = evidence.places.iter().collect();
    sorted.sort_by_key(|place| std::cmp::Reverse(place.samples));
    for place in sorted {
        table.rows.push(vec![
            Cell::code(place.function.as_str()),
            Cell::text(place.module.as_str()),
            Cell::count(place.samples),
            Cell::text(place.waits.clone().unwrap_or_default()),
        ]);
    }
    table
}

fn groups(evidence: &Evidence) -> Grid {
    let mut table =
        Grid::new("Quotas", &["control group", "CPUs #", "periods #", "throttled #", "stopped for #"]);
    for group in &evidence.groups {
        let cpus = group.cpus.unwrap_or(f64::NAN);
        table.rows.push(vec![
            Cell::text(group.group.as_str()),
            Cell::number(cpus, number(cpus)),
            Cell::count(group.periods),
            Cell::count(group.throttled),
            Cell::number(group.throttled_ns as f64, time(group.throttled_ns as f64)),
        ]);
    }
    table
}

fn neighbours(evidence: &Evidence) -> Grid {
    let mut table = Grid::new("Other processes that ran", &["name", "CPUs #", "in loops that wait % #"]);
    for neighbour in &evidence.machine.neighbours {
        let cpus = neighbour.cpus.unwrap_or(f64::NAN);
        let percent = 100.0 * neighbour.spinning.unwrap_or(f64::NAN);
        table.rows.push(vec![
            Cell::text(neighbour.name.as_str()),
            Cell::number(cpus, number(cpus)),
            Cell::number(percent, number(percent)),
        ]);
    }
    table
}
