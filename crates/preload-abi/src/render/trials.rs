//! What the trial says of each cure.

use super::columns;
use crate::live::{Cure, Live, Trial};
use core::fmt::{self, Display, Write};
use core::sync::atomic::Ordering;

/// The columns' heads.
const HEADS: [&str; 6] = ["WAITS THAT", "NOW", "KEPT", "DROPPED", "AS WRITTEN", "WITH MANX"];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 2;

/// Work in a second: CPU time without that of waits, so a number of CPUs.
struct Work(u64);

impl Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} CPUs", self.0 / 1_000_000_000, self.0 / 10_000_000 % 100)
    }
}

/// A cure, and the words that say whether it acts.
struct Row {
    cure: Cure,
    acts: bool,
    counts: [u32; 2],
    work_ns: [u64; 2],
}

/// The cures that were asked about.
fn asked<'a>(live: &Live<'a>) -> impl Iterator<Item = Row> + use<'a> {
    let trials: &'a [Trial] = &live.header().trials;
    Cure::ALL.into_iter().zip(trials).filter_map(|(cure, trial)| {
        let counts = [&trial.kept, &trial.dropped].map(|count| count.load(Ordering::Relaxed));
        (counts != [0; 2]).then(|| Row {
            cure,
            acts: trial.acts.load(Ordering::Relaxed) != 0,
            counts,
            work_ns: [&trial.as_written_ns, &trial.cured_ns].map(|work| work.load(Ordering::Relaxed)),
        })
    })
}

/// Writes a table of the cures that were asked about, if there are any.
///
/// # Errors
/// Those of `out`.
pub(super) fn table(live: &Live, out: &mut impl Write) -> fmt::Result {
    if asked(live).next().is_none() {
        return Ok(());
    }
    columns::table(out, &HEADS, TEXT_COLUMNS, asked(live), asked(live), |row, put| {
        put(0, &row.cure.word());
        put(1, &if row.acts { "with Manx" } else { "as written" });
        put(2, &row.counts[0]);
        put(3, &row.counts[1]);
        put(4, &Work(row.work_ns[0]));
        put(5, &Work(row.work_ns[1]));
    })?;
    if asked(live).all(|row| !row.acts) {
        writeln!(out, "\nManx does not help this program now: it waits as its author wrote.")?;
    }
    Ok(())
}

/// Writes the field `trials` of the JSON.
///
/// # Errors
/// Those of `out`.
pub(super) fn json(live: &Live, out: &mut impl Write) -> fmt::Result {
    out.write_str("  \"trials\": [")?;
    let mut separator = "";
    for row in asked(live) {
        write!(out, "{separator}\n    {{\"waits\": \"{}\", \"cured\": {}", row.cure.word(), row.acts)?;
        write!(out, ", \"kept\": {}, \"dropped\": {}", row.counts[0], row.counts[1])?;
        write!(out, ", \"work_as_written_ns\": {}, \"work_cured_ns\": {}}}", row.work_ns[0], row.work_ns[1])?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "],\n" } else { "\n  ],\n" })
}
