//! The table and the JSON that show a [`Live`] file; the library writes them at a normal exit, and
//! `manx stats` at any time, from this one definition.
//!
//! At an exit this runs inside somebody else's program, on a stack of unknown size, while other threads
//! may still count:
//! 1. Nothing is allocated, and the largest thing on the stack is a bit for each site.
//! 2. Each site is shown once, whatever happens to its counters meanwhile: sites are picked in falling
//!    order of the time waited, and a bit remembers those that were picked.
//! 3. Names are the program's bytes: what is not UTF-8 or not printable is replaced or escaped, so that
//!    they can neither break the JSON nor reach a terminal as control sequences.

use crate::live::{CAPACITY, ENDED, How, Live, Site, name};
use core::fmt::{self, Display, Write};
use core::sync::atomic::{AtomicU64, Ordering};

/// What the JSON calls itself, in its field `schema`.
pub const JSON_SCHEMA: &str = "manx-stats";
/// The version of the JSON's fields, in its field `version`. Fields may be added to a version.
pub const JSON_VERSION: u32 = 1;

/// The counters' heads, in the order of [`Row::cells`].
const HEADS: [&str; 9] =
    ["MODULE", "SITE", "HOW", "WAITS", "VISITS", "YIELDS", "SLEEPS", "WAITED", "LONGEST"];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 3;

/// Writes a table of every site, those waited at longest first.
///
/// # Errors
/// Those of `out`.
pub fn table(live: &Live, out: &mut impl Write) -> fmt::Result {
    let header = live.header();
    let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
    let (pid, state) = (header.pid.load(Ordering::Relaxed), header.state.load(Ordering::Acquire));
    let ended = if state == ENDED { "ended" } else { "running, or ended from outside" };
    writeln!(out, "manx: {} (process {pid}, {ended})", Shown(name(&header.program)))?;
    writeln!(
        out,
        "searched {} of {} in {}, {}",
        Bytes(load(&header.text_bytes)),
        Count(load(&header.modules), "module", "modules"),
        Duration(Some(load(&header.scan_ns))),
        Count(load(&header.scans), "search", "searches"),
    )?;

    let rate = load(&header.ticks_per_second);
    let left = live.sites().iter().filter(|site| is_left(site)).count();
    let waited = live.sites().len() - left;
    if waited > 0 {
        let mut widths = HEADS.map(|head| head.len());
        for site in live.sites().iter().filter(|site| !is_left(site)) {
            Row::read(site, rate).cells(|column, cell| widths[column] = widths[column].max(width(cell)));
        }
        writeln!(out)?;
        line(out, &widths, |column, put| put(&HEADS[column]))?;
        for site in Falling::new(live).filter(|site| !is_left(site)) {
            let row = Row::read(site, rate);
            line(out, &widths, |column, put| {
                let mut result = Ok(());
                row.cells(|at, cell| {
                    if at == column {
                        result = put(cell);
                    }
                });
                result
            })?;
        }
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
    if waited + left == 0 {
        writeln!(out, "\nno busy-wait loop was found")?;
    }
    match load(&header.dropped) {
        0 => Ok(()),
        dropped => writeln!(out, "\nand {}: the file was full", Count(dropped, "more site", "more sites")),
    }
}

/// Writes one JSON object and a line break. Times are in nanoseconds, `null` where the clock's rate is not
/// known; a site has a `symbol` or `null`, and a `reason` if it was left alone, else `null`.
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
    ] {
        writeln!(out, "  \"{key}\": {value},")?;
    }
    out.write_str("  \"sites\": [")?;
    let rate = load(&header.ticks_per_second);
    let mut separator = "";
    for site in Falling::new(live) {
        let row = Row::read(site, rate);
        write!(out, "{separator}\n    {{\"module\": {}", Quoted(name(&site.module)))?;
        write!(out, ", \"symbol\": {}", QuotedOrNull(name(&site.symbol)))?;
        write!(out, ", \"offset\": {}, \"how\": \"{}\"", load(&site.offset), row.how)?;
        write!(out, ", \"reason\": {}", QuotedOrNull(name(&site.reason)))?;
        for (key, value) in ["waits", "visits", "yields", "sleeps"].iter().zip(row.counts) {
            write!(out, ", \"{key}\": {value}")?;
        }
        for (key, Duration(ns)) in [("waited_ns", row.waited), ("longest_ns", row.longest)] {
            match ns {
                Some(ns) => write!(out, ", \"{key}\": {ns}")?,
                None => write!(out, ", \"{key}\": null")?,
            }
        }
        out.write_str("}")?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" })
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
        let time = |field: &AtomicU64| {
            let ns = u128::from(load(field)) * 1_000_000_000;
            Duration(ns.checked_div(ticks_per_second.into()).map(|ns| ns.try_into().unwrap_or(u64::MAX)))
        };
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
    fn cells(&self, mut each: impl FnMut(usize, &dyn Display)) {
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

/// Writes one line of the table, whose cells `cell` puts out by column.
fn line<W: Write>(
    out: &mut W,
    widths: &[usize; 9],
    cell: impl Fn(usize, &mut dyn FnMut(&dyn Display) -> fmt::Result) -> fmt::Result,
) -> fmt::Result {
    for (column, &wide) in widths.iter().enumerate() {
        cell(column, &mut |value| {
            if column < TEXT_COLUMNS {
                pad_after(out, value, wide)
            } else {
                spaces(out, wide - width(value).min(wide))?;
                write!(out, "{value}")?;
                out.write_str(if column + 1 < widths.len() { "  " } else { "\n" })
            }
        })?;
    }
    Ok(())
}

fn pad_after(out: &mut impl Write, value: &dyn Display, wide: usize) -> fmt::Result {
    write!(out, "{value}")?;
    spaces(out, wide - width(value).min(wide) + 2)
}

fn spaces(out: &mut impl Write, count: usize) -> fmt::Result {
    (0..count).try_for_each(|_| out.write_char(' '))
}

/// How many characters `value` takes.
fn width(value: &dyn Display) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.chars().count();
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A counter never fails, and neither do the values of this module.
    let _ = write!(counter, "{value}");
    counter.0
}

/// The sites, those waited at longest first (Invariant 2).
struct Falling<'a> {
    sites: &'a [Site],
    picked: [u64; CAPACITY / 64],
}

impl<'a> Falling<'a> {
    fn new(live: &Live<'a>) -> Falling<'a> {
        Falling { sites: live.sites(), picked: [0; CAPACITY / 64] }
    }
}

impl<'a> Iterator for Falling<'a> {
    type Item = &'a Site;

    fn next(&mut self) -> Option<&'a Site> {
        let key = |site: &Site| {
            let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
            (load(&site.waited_ticks), load(&site.waits), load(&site.visits))
        };
        let mut best = None;
        for (index, site) in self.sites.iter().enumerate() {
            if self.picked[index / 64] & 1 << (index % 64) == 0 {
                let key = key(site);
                // Of equals the first: the order in which they were found is the order of addresses.
                if best.is_none_or(|(longest, _)| key > longest) {
                    best = Some((key, index));
                }
            }
        }
        let (_, index) = best?;
        self.picked[index / 64] |= 1 << (index % 64);
        Some(&self.sites[index])
    }
}

/// A site within its module: its symbol and the offset in it, or its address in the file.
struct Place<'a> {
    symbol: &'a [u8],
    offset: u64,
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.symbol.is_empty() { write!(f, "{:#x}", self.offset) } else { Shown(self.symbol).fmt(f) }
    }
}

/// Bytes as text for a terminal (Invariant 3).
struct Shown<'a>(&'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_char(
            self.0,
            |c| if c.is_control() { write!(f, "{}", c.escape_unicode()) } else { f.write_char(c) },
        )
    }
}

/// Bytes as a JSON string (Invariant 3).
struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        each_char(self.0, |c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            // Every control character is below U+00A0, so four digits suffice.
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })?;
        f.write_char('"')
    }
}

struct QuotedOrNull<'a>(&'a [u8]);

impl Display for QuotedOrNull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("null") } else { Quoted(self.0).fmt(f) }
    }
}

fn each_char(bytes: &[u8], mut each: impl FnMut(char) -> fmt::Result) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().try_for_each(&mut each)?;
        if !chunk.invalid().is_empty() {
            each(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(())
}

/// A number and its noun.
struct Count(u64, &'static str, &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { self.1 } else { self.2 })
    }
}

/// Nanoseconds in the unit that suits them, with three figures; `?` where the clock's rate is not known.
struct Duration(Option<u64>);

impl Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("?"),
            Some(ns) => scaled(f, ns, &[("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)]),
        }
    }
}

/// Bytes in the unit that suits them, with three figures.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, &[("bytes", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
    }
}

/// Writes `value` in the largest unit that it reaches; the first unit is 1.
fn scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, scale) = *units.iter().rev().find(|(_, scale)| value >= *scale).unwrap_or(&units[0]);
    let (whole, rest) = (value / scale, value % scale);
    match whole {
        _ if scale == 1 => write!(f, "{whole} {unit}"),
        0..10 => write!(f, "{whole}.{:02} {unit}", rest * 100 / scale),
        10..100 => write!(f, "{whole}.{} {unit}", rest * 10 / scale),
        _ => write!(f, "{whole} {unit}"),
    }
}

#[cfg(test)]
mod tests;
