//! The epochs and requests that ended, in the table and in the JSON.

use super::columns::{self, Falling};
use super::text::{Count, Duration, histogram};
use crate::histogram::Counts;
use crate::live::{EPOCHS, Epoch, EpochName, Live};
use core::fmt::{self, Display, Write};
use core::sync::atomic::{AtomicU64, Ordering};

/// The heads of the columns, in the order of [`Row::cells`].
const HEADS: [&str; 8] = ["EPOCH", "COUNT", "TARGET", "MISSED", "P50", "P99", "P99.9", "LONGEST"];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 1;

/// Writes the epochs, the most frequent first; nothing if there is none.
pub(super) fn table(live: &Live, out: &mut impl Write) -> fmt::Result {
    let rows = || falling(live).map(Row::read);
    if falling(live).next().is_some() {
        columns::table(out, &HEADS, TEXT_COLUMNS, rows(), rows(), Row::cells)?;
    }
    match live.header().epochs_dropped.load(Ordering::Relaxed) {
        0 => Ok(()),
        dropped => {
            writeln!(out, "and {} with other ids: the file was full", Count(dropped, "epoch", "epochs"))
        }
    }
}

/// Writes the member `epochs` of the JSON object, the last one.
pub(super) fn json(live: &Live, out: &mut impl Write) -> fmt::Result {
    let rate = live.header().ticks_per_second.load(Ordering::Relaxed);
    out.write_str("  \"epochs\": [")?;
    let mut separator = "";
    for epoch in falling(live) {
        let row = Row::read(epoch);
        let hundredths = load(&epoch.percentile);
        write!(out, "{separator}\n    {{\"name\": \"{}\", \"count\": {}", row.name, row.latencies.count())?;
        write!(out, ", \"missed\": {}, \"target_ns\": {}", row.missed, load(&epoch.target_ns))?;
        write!(out, ", \"percentile\": {}.{:02}", hundredths / 100, hundredths % 100)?;
        write!(out, ", \"total_ns\": {}, \"longest_ns\": {}", load(&epoch.total_ns), row.longest_ns)?;
        // From the end of the first one to the end of the last one.
        let ticks = load(&epoch.last_ticks).saturating_sub(load(&epoch.first_ticks));
        match Duration::of_ticks(ticks, rate).0 {
            Some(span_ns) => write!(out, ", \"span_ns\": {span_ns}")?,
            None => out.write_str(", \"span_ns\": null")?,
        }
        histogram(out, "latency_histogram", &row.latencies, row.longest_ns)?;
        out.write_str("}")?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "]\n" } else { "\n  ]\n" })
}

/// The epochs, the most frequent first; of equals the first in the table.
fn falling<'a>(live: &Live<'a>) -> Falling<'a, Epoch, { EPOCHS / 64 }> {
    Falling::new(live.epochs(), |epoch| {
        epoch.id().map(|_| (epoch.histogram.read().count(), load(&epoch.total_ns), 0))
    })
}

fn load(field: &AtomicU64) -> u64 {
    field.load(Ordering::Relaxed)
}

/// The values of an epoch's record, each loaded once.
struct Row {
    name: EpochName,
    target: Duration,
    missed: u64,
    latencies: Counts,
    longest_ns: u64,
}

impl Row {
    fn read(epoch: &Epoch) -> Row {
        Row {
            name: EpochName(epoch.id().unwrap_or(0)),
            target: Duration(Some(load(&epoch.target_ns))),
            missed: load(&epoch.missed),
            latencies: epoch.histogram.read(),
            longest_ns: load(&epoch.longest_ns),
        }
    }

    /// Shows each cell of the table's line to `each`, with its column.
    fn cells(&self, each: &mut dyn FnMut(usize, &dyn Display)) {
        let longest = Duration(Some(self.longest_ns));
        each(0, &self.name);
        each(1, &self.latencies.count());
        each(2, &self.target);
        each(3, &self.missed);
        for (column, share) in [(4, 0.5), (5, 0.99), (6, 0.999)] {
            each(column, &Duration::percentile(&self.latencies, share, longest));
        }
        each(7, &longest);
    }
}
