//! The answers of the trial, a line for each cure.

use super::columns;
use crate::live::{Answer, Live, NO_HELP, Work};
use core::fmt::{self, Write};

/// The columns' heads.
const HEADS: [&str; 6] = ["WAITS THAT", "NOW", "KEPT", "DROPPED", "AS WRITTEN", "WITH MANX"];
/// The columns of text, which stand to the left; numbers stand to the right.
const TEXT_COLUMNS: usize = 2;

/// Writes a table of the cures that were asked about, if there are any.
///
/// # Errors
/// Those of `out`.
pub(super) fn table(live: &Live, out: &mut impl Write) -> fmt::Result {
    if live.asked().next().is_none() {
        return Ok(());
    }
    columns::table(out, &HEADS, TEXT_COLUMNS, live.asked(), live.asked(), |row, put| {
        put(0, &row.cure.word());
        put(1, &if row.answer == Answer::Kept { "with Manx" } else { "as written" });
        put(2, &row.kept);
        put(3, &row.dropped);
        put(4, &format_args!("{} CPUs", Work(row.as_written_ns)));
        put(5, &format_args!("{} CPUs", Work(row.cured_ns)));
    })?;
    if live.asked().all(|row| row.answer != Answer::Kept) {
        writeln!(out, "\n{NO_HELP}")?;
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
    for row in live.asked() {
        let cured = row.answer == Answer::Kept;
        write!(out, "{separator}\n    {{\"waits\": \"{}\", \"cured\": {cured}", row.cure.word())?;
        write!(out, ", \"kept\": {}, \"dropped\": {}", row.kept, row.dropped)?;
        let (as_written_ns, cured_ns) = (row.as_written_ns, row.cured_ns);
        write!(out, ", \"work_as_written_ns\": {as_written_ns}, \"work_cured_ns\": {cured_ns}}}")?;
        separator = ",";
    }
    out.write_str(if separator.is_empty() { "],\n" } else { "\n  ],\n" })
}
