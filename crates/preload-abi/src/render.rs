//! The table and the JSON that show a [`Live`] file; the library writes them at a normal exit, and
//! `manx stats` at any time, from this one definition.
//!
//! At an exit this runs inside a program that is not ours, on a stack of unknown size, while other
//! threads may still count:
//! 1. Nothing is allocated, and the largest thing on the stack is a histogram's counts (2 KiB).
//! 2. Each site and each lock is shown once, whatever happens to its counters meanwhile: they are
//!    picked in falling order of the time waited, and a bit remembers those that were picked.
//! 3. Names are the program's bytes: what is not UTF-8 or not printable is replaced or escaped, so
//!    that they can neither break the JSON nor reach a terminal as control sequences.

mod columns;
mod epochs;
mod locks;
mod text;
mod trials;

use crate::live::{CAPACITY, ENDED, How, Live, Site, name};
use columns::{Falling, pad_after, width};
use core::fmt::{self, Display, Write};
use core::sync::atomic::{AtomicU64, Ordering};
use text::{Bytes, Count, Duration, Place, Quoted, QuotedOrNull, Shown, times};

/// What the JSON calls itself, in its field `schema`.
pub const JSON_SCHEMA: &str = "manx-stats";
/// The version of the JSON's fields, in its field `version`. Fields may be added to a version.
pub const JSON_VERSION: u32 = 1;

/// The counters' heads, in the order of [`Row::cells`].
const HEADS: [&str; 9] =
    ["MODULE", "SITE", "HOW", "WAITS", "VISITS", "YIELDS", "SLEEPS", "WAITED", "LONGEST"];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 3;

/// Writes a table of every site, those waited at longest first, one of the locks most waited for,
/// and one of the epochs that ended.
///
/// # Errors
/// Those of `out`.
pub fn table<'a>(live: &Live<'a>, out: &mut impl Write) -> fmt::Result {
    let header = live.header();
    let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
    let (pid, state) = (header.pid.load(Ordering::Relaxed), header.state.load(Ordering::Acquire));
    let ended = if state == ENDED { "ended" } else { "running, or ended from outside" };
    writeln!(out, "manx: {} (process {pid}, {ended})", Shown(name(&header.program)))?;
    let scans = load(&header.scans);
    if scans > 0 {
        write!(
            out,
            "searched {} of {} in {}, {}",
            Bytes(load(&header.text_bytes)),
            Count(load(&header.modules), "module", "modules"),
            Duration(Some(load(&header.scan_ns))),
            Count(scans, "search", "searches"),
        )?;
        match load(&header.cached) {
            0 => writeln!(out)?,
            cached => writeln!(out, "; {} from the cache", Count(cached, "module", "modules"))?,
        }
    }

    let rate = load(&header.ticks_per_second);
    let left = live.sites().iter().filter(|site| is_left(site)).count();
    let waited = live.sites().len() - left;
    if waited > 0 {
        let waited_at = |site: &&'a Site| !is_left(site);
        let read = |site: &'a Site| Row::read(site, rate);
        let measured = live.sites().iter().filter(waited_at).map(read);
        let shown = falling(live).filter(waited_at).map(read);
        columns::table(out, &HEADS, TEXT_COLUMNS, measured, shown, Row::cells)?;
    }
    if left > 0 {
        writeln!(out, "\nleft alone:")?;
        let mut widths = [0; 2];
        for row in live.sites().iter().filter(|site| is_left(site)).map(|site| Row::read(site, rate)) {
            widths = [widths[0].max(width(&row.module)), widths[1].max(width(&row.place))];
        }
        for site in live.sites().iter().filter(|site| is_left(site)) {
            let row = Row::read(site, rate);
            pad_after(out, &row.module, widths[0])?;
            pad_after(out, &row.place, widths[1])?;
            writeln!(out, "{}", Shown(name(&site.reason)))?;
        }
    }
    if waited + left == 0 && scans > 0 {
        writeln!(out, "\nno busy-wait loop was found")?;
    }
    match load(&header.dropped) {
        0 => {}
        dropped => writeln!(out, "\nand {}: the file was full", Count(dropped, "more site", "more sites"))?,
    }
    trials::table(live, out)?;
    locks::table(live, out)?;
    epochs::table(live, out)
}

/// Writes one JSON object and a line break. Times are in nanoseconds, `null` where the clock's rate
/// is not known; `mutexes_passed_on` is [`PASSED_ON`](crate::live::PASSED_ON) if there may be more;
/// a site has a `symbol` or `null`, and a `reason` if it was left alone, else `null`. The `module`,
/// `symbol` and `offset` of a lock are where it was first waited for. An epoch has the `name` that
/// the table shows, and its `percentile` is in percent. The work of a trial is the CPU time that
/// the process used in a second, less what its waits burned.
///
/// # Errors
/// Those of `out`.
pub fn json(live: &Live, out: &mut impl Write) -> fmt::Result {
    let header = live.header();
    let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
    let state = if header.state.load(Ordering::Acquire) == ENDED { "ended" } else { "running" };
    writeln!(out, "{{\n  \"schema\": \"{JSON_SCHEMA}\",\n  \"version\": {JSON_VERSION},")?;
    writeln!(out, "  \"program\": {},", Quoted(name(&header.program)))?;
    writeln!(out, "  \"pid\": {},\n  \"state\": \"{state}\",", header.pid.load(Ordering::Relaxed))?;
    for (key, value) in [
        ("started_unix_ms", load(&header.started_ns) / 1_000_000),
        ("modules", load(&header.modules)),
        ("text_bytes", load(&header.text_bytes)),
        ("scans", load(&header.scans)),
        ("scan_ns", load(&header.scan_ns)),
        ("sites_dropped", load(&header.dropped)),
        ("modules_cached", load(&header.cached)),
        ("lock_waits_dropped", load(&header.lock_waits_dropped)),
        ("epochs_dropped", load(&header.epochs_dropped)),
        ("mutexes_passed_on", live.passed_on() as u64),
    ] {
        writeln!(out, "  \"{key}\": {value},")?;
    }
    out.write_str("  \"sites\": [")?;
    let rate = load(&header.ticks_per_second);
    let mut separator = "";
    for site in falling(live) {
        let row = Row::read(site, rate);
        write!(out, "{separator}\n    {{\"module\": {}", Quoted(name(&site.module)))?;
        write!(out, ", \"symbol\": {}", QuotedOrNull(name(&site.symbol)))?;
        write!(out, ", \"offset\": {}, \"how\": \"{}\"", load(&site.offset), row.how)?;
        write!(out, ", \"reason\": {}", QuotedOrNull(name(&site.reason)))?;
        for (key, value) in ["waits", "visits", "yields", "sleeps"].iter().zip(row.counts) {
            write!(out, ", \"{key}\": {value}")?;
        }
        times(out, row.waited, row.longest)?;
        out.write_str("}")?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "],\n" } else { "\n  ],\n" })?;
    trials::json(live, out)?;
    locks::json(live, out)?;
    epochs::json(live, out)?;
    out.write_str("}\n")
}

/// The sites, those waited at longest first. Of equals the first found, which is the order of
/// addresses.
fn falling<'a>(live: &Live<'a>) -> Falling<'a, Site, { CAPACITY / 64 }> {
    Falling::new(live.sites(), |site| {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        Some((load(&site.waited_ticks), load(&site.waits), load(&site.visits)))
    })
}

fn is_left(site: &Site) -> bool {
    site.how.load(Ordering::Relaxed) == How::Left as u32
}

/// A site's values, each loaded once.
struct Row<'a> {
    module: Shown<'a>,
    place: Place<'a>,
    how: &'static str,
    /// waits, visits, yields, sleeps
    counts: [u64; 4],
    waited: Duration,
    longest: Duration,
}

impl<'a> Row<'a> {
    fn read(site: &'a Site, ticks_per_second: u64) -> Row<'a> {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let time = |field: &AtomicU64| Duration::of_ticks(load(field), ticks_per_second);
        Row {
            module: Shown(name(&site.module)),
            place: Place { symbol: name(&site.symbol), offset: load(&site.offset) },
            how: How::from_number(site.how.load(Ordering::Relaxed)).map_or("unknown", How::word),
            counts: [load(&site.waits), load(&site.visits), load(&site.yields), load(&site.sleeps)],
            waited: time(&site.waited_ticks),
            longest: time(&site.longest_ticks),
        }
    }

    /// Shows each cell of the table's line to `each`, with its column.
    fn cells(&self, each: &mut dyn FnMut(usize, &dyn Display)) {
        each(0, &self.module);
        each(1, &self.place);
        each(2, &self.how);
        for (column, count) in self.counts.iter().enumerate() {
            each(TEXT_COLUMNS + column, count);
        }
        each(7, &self.waited);
        each(8, &self.longest);
    }
}

#[cfg(test)]
mod tests;
