//! The keys, and what the columns mean.

use crate::top::input::KEYS;
use crate::top::paper::{Paper, Weight};

/// Columns whose heads need words.
const MEANINGS: [(&str, &str); 8] = [
    ("DELAY", "threads that were runnable and waited for a CPU, in %"),
    ("THROT", "% of the periods in which the CPU quota was used up"),
    ("LOST", "CPU time lost in repaired loops, estimated, in %"),
    ("LOCKS", "locks that threads waited for since the last look"),
    ("P50 P99 MAX", "how long these waits took"),
    ("SITES", "loops that wait, repaired by Manx"),
    ("%", "100 is one CPU, or one thread, all the time"),
    ("-", "not known, or nothing to say"),
];

/// Draws it. On a low screen the end is cut off; the keys come first.
pub fn draw(paper: &mut Paper) {
    paper.line(0, "manx top: keys", Weight::Title);
    for (y, (key, what)) in KEYS.iter().enumerate() {
        paper.line(1 + y, &format!("{key:<28} {what}"), Weight::Usual);
    }
    let y = 1 + KEYS.len();
    for (line, (head, what)) in MEANINGS.iter().enumerate() {
        paper.line(y + line, &format!("{head:<12} {what}"), Weight::Usual);
    }
}
