//! Tables as plain text: words to the left, numbers to the right, units in the header.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A column's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// What it holds
    pub name: String,
    /// Its unit; empty if it has none
    pub unit: String,
    /// Numbers stand to the right
    pub number: bool,
}

/// A table with its title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// One line above it
    pub title: String,
    /// The columns
    pub columns: Vec<Column>,
    /// The rows, a cell a column
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. A header `"p99.9 [ms]"` is a column of numbers with that unit, `"[]"`
    /// one of numbers without a unit, and one without brackets is a column of words.
    ///
    /// ```
    /// let mut table = command::table::Table::new("Lengths", &["what", "length [m]"]);
    /// table.row(["cat".into(), "0.46".into()]);
    /// table.row(["tail".into(), "0".into()]);
    /// assert_eq!(table.to_string(), "Lengths\n\nwhat  length m\ncat       0.46\ntail         0\n");
    /// ```
    pub fn new(title: &str, headers: &[&str]) -> Table {
        let columns = headers.iter().map(|header| match header.split_once(" [") {
            Some((name, unit)) => {
                Column { name: name.into(), unit: unit.trim_end_matches(']').into(), number: true }
            }
            None => Column { name: (*header).into(), unit: String::new(), number: false },
        });
        Table { title: title.into(), columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "{}: a row needs a cell for each column", self.title);
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> =
            self.columns.iter().map(|c| format!("{} {}", c.name, c.unit).trim_end().to_owned()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        writeln!(f, "{}\n", self.title)?;
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), width) in row.iter().zip(&self.columns).zip(&widths) {
                let separator = if line.is_empty() { "" } else { "  " };
                let cell = if column.number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                line = format!("{line}{separator}{cell}");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_in_one_column_also_beside_other_letters() {
        let mut table = Table::new("t", &["wait", "mean [µs]", "n []"]);
        table.row(["short".into(), "7".into(), "1".into()]);
        table.row(["µ".into(), "1234567".into(), "10".into()]);
        let lines: Vec<String> = table.to_string().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(lines, ["wait   mean µs   n", "short        7   1", "µ      1234567  10"]);
    }

    #[test]
    #[should_panic(expected = "a cell for each column")]
    fn a_short_row_is_refused() {
        Table::new("t", &["a", "b"]).row(["1".into()]);
    }
}
