//! The locks that threads waited for, in the table and in the JSON.

use super::columns::{self, Falling};
use super::text::{Count, Duration, Place, QuotedOrNull, Shown, histogram, times};
use crate::histogram::Counts;
use crate::live::{Kind, LOCKS, Live, Lock, PASSED_ON, name};
use core::fmt::{self, Display, LowerHex, Write};
use core::sync::atomic::{AtomicU64, Ordering};

/// How many locks the table shows; the JSON has all.
const SHOWN: usize = 20;
/// The heads of the columns, in the order of [`Row::cells`].
const HEADS: [&str; 10] = [
    "LOCK",
    "KIND",
    "MODULE",
    "FIRST WAITED AT",
    "WAITS",
    "HANDED OVER",
    "STARVING",
    "WAITED",
    "P99",
    "LONGEST",
];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 4;

/// Writes the locks waited for longest, and how many are the C library's; nothing if there is none.
pub(super) fn table(live: &Live, out: &mut impl Write) -> fmt::Result {
    let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
    let (header, count) = (live.header(), falling(live).count());
    let dropped = load(&header.lock_waits_dropped);
    if count > 0 {
        let rate = load(&header.ticks_per_second);
        let rows = || falling(live).take(SHOWN).map(|lock| Row::read(lock, rate));
        columns::table(out, &HEADS, TEXT_COLUMNS, rows(), rows(), Row::cells)?;
    }
    if count > SHOWN {
        let more = (count - SHOWN) as u64;
        writeln!(out, "and {}: see the JSON", Count(more, "more lock", "more locks"))?;
    }
    if dropped > 0 {
        writeln!(out, "and {} for other locks: the file was full", Count(dropped, "wait", "waits"))?;
    }
    match live.passed_on() {
        0 => Ok(()),
        1 => writeln!(
            out,
            "\n1 mutex is shared between processes, robust, or has a priority protocol: it keeps the C library's waiting"
        ),
        count => {
            let or_more = if count == PASSED_ON { " or more" } else { "" };
            writeln!(
                out,
                "\n{count}{or_more} mutexes are shared between processes, robust, or have a priority protocol: they keep the C \
                 library's waiting"
            )
        }
    }
}

/// Writes the member `locks` of the JSON object.
pub(super) fn json(live: &Live, out: &mut impl Write) -> fmt::Result {
    let rate = live.header().ticks_per_second.load(Ordering::Relaxed);
    out.write_str("  \"locks\": [")?;
    let mut separator = "";
    for lock in falling(live) {
        let row = Row::read(lock, rate);
        write!(out, "{separator}\n    {{\"address\": {}, \"kind\": \"{}\"", row.address.0, row.kind)?;
        write!(out, ", \"module\": {}", QuotedOrNull(row.module.0))?;
        write!(out, ", \"symbol\": {}", QuotedOrNull(row.place.symbol))?;
        write!(out, ", \"offset\": {}", row.place.offset)?;
        for (key, value) in ["waits", "hand_overs", "overdue"].iter().zip(row.counts) {
            write!(out, ", \"{key}\": {value}")?;
        }
        times(out, row.waited, row.longest)?;
        histogram(out, "wait_histogram", &row.waits, row.longest.0.unwrap_or(0))?;
        out.write_str("}")?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "],\n" } else { "\n  ],\n" })
}

/// The locks that were waited for, the longest first; of equals the first in the table.
fn falling<'a>(live: &Live<'a>) -> Falling<'a, Lock, { LOCKS / 64 }> {
    Falling::new(live.lock_table(), |lock| {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        (load(&lock.address) != 0)
            .then(|| (load(&lock.waited_ticks), load(&lock.waits), load(&lock.starving)))
    })
}

/// An address, as programmers write it.
struct Address(u64);

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        LowerHex::fmt(&self.0, f)
    }
}

/// A lock's values. Each is loaded once, but not all at one moment.
struct Row<'a> {
    address: Address,
    kind: &'static str,
    module: Shown<'a>,
    place: Place<'a>,
    /// Waits, hand-overs, waits of starving threads.
    counts: [u64; 3],
    waited: Duration,
    waits: Counts,
    longest: Duration,
}

impl<'a> Row<'a> {
    fn read(lock: &'a Lock, ticks_per_second: u64) -> Row<'a> {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        // Acquire pairs with the release of the thread that has written kind, module and symbol;
        // until then they are not valid.
        let named = lock.named.load(Ordering::Acquire) == 1;
        let of = |bytes| if named { name(bytes) } else { &[][..] };
        let kind = Kind::from_number(lock.kind.load(Ordering::Relaxed)).filter(|_| named);
        Row {
            address: Address(load(&lock.address)),
            kind: kind.map_or("unknown", Kind::word),
            module: Shown(of(&lock.module)),
            place: Place { symbol: of(&lock.symbol), offset: load(&lock.offset) },
            counts: [load(&lock.waits), load(&lock.hand_overs), load(&lock.starving)],
            waited: Duration::of_ticks(load(&lock.waited_ticks), ticks_per_second),
            waits: lock.histogram.read(),
            longest: Duration::of_ticks(load(&lock.longest_ticks), ticks_per_second),
        }
    }

    /// Shows each cell of the table's line to `each`, with its column.
    fn cells(&self, each: &mut dyn FnMut(usize, &dyn Display)) {
        each(0, &self.address);
        each(1, &self.kind);
        if self.module.0.is_empty() {
            // The first waiter could not be found out.
            each(2, &"?");
            each(3, &"?");
        } else {
            each(2, &self.module);
            each(3, &self.place);
        }
        for (column, count) in self.counts.iter().enumerate() {
            each(TEXT_COLUMNS + column, count);
        }
        each(7, &self.waited);
        each(8, &Duration::percentile(&self.waits, 0.99, self.longest));
        each(9, &self.longest);
    }
}
