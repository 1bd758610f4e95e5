//! `manx stats` without a process: what runs under Manx on this host, a line each.

use crate::processes::cells::time;
use crate::processes::totals::{Total, TotalCounts, UnderManxNow, now};
use command::failure::Failure;
use command::sigpipe::print;
use command::table::Table;
use serde_json::json;

/// The heads of the table, in the order of [`cells`].
const HEADS: [&str; 10] = [
    "PID []",
    "NAME",
    "THREADS []",
    "LOOPS []",
    "WAITED []",
    "LOCKS []",
    "LOCK WAITS []",
    "P99 []",
    "LONGEST []",
    "COMMAND",
];

/// Writes the list.
///
/// # Errors
/// With code 125 if standard output cannot be written.
pub fn run(is_json: bool) -> Result<u8, Failure> {
    let found = now();
    print(&if is_json { as_json(&found) } else { as_text(&found) }).map(|()| 0)
}

fn as_json(found: &UnderManxNow) -> String {
    let (processes, unseen) = (&found.processes, found.unseen);
    let schema = "manx-stats-list";
    format!("{:#}\n", json!({ "schema": schema, "version": 1, "processes": processes, "unseen": unseen }))
}

fn as_text(found: &UnderManxNow) -> String {
    let mut out = String::new();
    if found.processes.is_empty() {
        out += "no process runs under Manx: `manx run --stats -- PROGRAM` starts one\n";
    } else {
        let count = found.processes.len();
        let processes = if count == 1 { "process runs" } else { "processes run" };
        let mut table =
            Table::new(&format!("{count} {processes} under Manx; totals since they began:"), &HEADS);
        found.processes.iter().for_each(|total| table.row(cells(total)));
        out += &format!(
            "{table}\n`manx stats PID` shows the loops and locks of one, `manx top` what happens now\n"
        );
        if found.processes.iter().any(|total| total.counts.is_none()) {
            out += "those without numbers keep none that this version of Manx reads; `manx run --stats` keeps them\n";
        }
    }
    match found.unseen {
        0 => {}
        1 => out += "1 process cannot be looked at: run manx stats as its user, or as root\n",
        unseen => {
            out += &format!(
                "{unseen} processes cannot be looked at: run manx stats as their user, or as root\n"
            );
        }
    }
    out
}

fn cells(total: &Total) -> [String; HEADS.len()] {
    let of = |cell: fn(&TotalCounts) -> String| total.counts.as_ref().map_or("-".into(), cell);
    [
        total.pid.to_string(),
        total.name.clone(),
        total.threads.to_string(),
        of(|counts| counts.sites.to_string()),
        of(|counts| time(Some(counts.loops_waited_ns))),
        of(|counts| counts.locks.to_string()),
        of(|counts| counts.lock_waits.to_string()),
        of(|counts| time(counts.p99_ns)),
        of(|counts| time(counts.longest_ns)),
        total.command.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_counts_has_its_line_and_the_way_to_them() {
        let counts = TotalCounts {
            sites: 3,
            loops_waited_ns: 1_500_000_000,
            locks: 2,
            lock_waits: 77,
            p99_ns: Some(2_000_000),
            longest_ns: Some(3_000_000),
        };
        let with =
            Total { pid: 7, name: "server".into(), threads: 9, counts: Some(counts), ..Total::default() };
        let without = Total { pid: 12, name: "shell".into(), threads: 1, ..Total::default() };
        let text = as_text(&UnderManxNow { processes: vec![with, without], unseen: 1 });
        assert!(text.starts_with("2 processes run under Manx"), "{text}");
        let words = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).expect("a line");
            line.split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(words("server"), ["7", "server", "9", "3", "1.5s", "2", "77", "2.0ms", "3.0ms"]);
        assert_eq!(words("shell")[3..], ["-"; 6]);
        assert!(text.contains("those without numbers") && text.contains("1 process cannot"), "{text}");
    }

    #[test]
    fn nothing_under_manx_is_said_and_is_no_error() {
        let text = as_text(&UnderManxNow::default());
        assert!(text.starts_with("no process runs under Manx") && text.lines().count() == 1, "{text}");
        let value: serde_json::Value =
            serde_json::from_str(&as_json(&UnderManxNow::default())).expect("JSON");
        assert_eq!(value["schema"], "manx-stats-list");
        assert_eq!(value["processes"].as_array().map(Vec::len), Some(0));
    }
}
