//! The list as plain text, and as JSON, for a standard output that is no terminal.

use super::columns::{COLUMNS, Column};
use super::state::State;
use super::view::{host, summary};
use command::table::Table;

/// A table of all columns. The command line comes last.
pub fn table(state: &State) -> String {
    let heads = COLUMNS.map(|column| match column.spec().is_text {
        true => column.spec().head.to_owned(),
        false => format!("{} []", column.spec().head),
    });
    let title = format!("{}\n{}", host(&state.snapshot.host), summary(state));
    let mut table = Table::new(&title, &heads.each_ref().map(String::as_str));
    for row in state.rows() {
        table.row(COLUMNS.map(|column: Column| column.cell(row)));
    }
    table.to_string()
}

/// One line of JSON: the host, and the processes in the order of the rows.
pub fn json(state: &State) -> String {
    let mut snapshot = state.snapshot.clone();
    snapshot.processes = state.rows().cloned().collect();
    let mut value = serde_json::to_value(&snapshot).expect("numbers and text");
    let label = [("schema", "manx-top".into()), ("version", 1.into())];
    value.as_object_mut().expect("an object").extend(label.map(|(key, it)| (key.to_owned(), it)));
    format!("{value}\n")
}
