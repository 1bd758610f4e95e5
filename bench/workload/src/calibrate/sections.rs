//! The machine file as a list of keys with their figures, and its text (TOML).
//!
//! One list serves twice: for the table, which also says where each figure comes from, and for the
//! file. A figure that the simulator cannot mean (not a number, or below 0) is refused here, and
//! the text is read once by the simulator's own parser before it is given out.

use platform_sim::machine::Machine;
use std::fmt::Write as _;

/// The figure of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A whole number, which is rounded when it is written
    Whole(f64),
    /// A number with decimals
    Decimal(f64),
    /// Yes or no
    Flag(bool),
}

/// A key of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name; the unit is the end of the name
    pub key: &'static str,
    /// Its figure
    pub figure: Figure,
    /// Where the figure comes from
    pub origin: String,
    /// Whether it is a guess
    pub is_guess: bool,
}

impl Entry {
    /// A key whose figure was measured or read.
    pub fn known(key: &'static str, figure: Figure, origin: impl Into<String>) -> Entry {
        Entry { key, figure, origin: origin.into(), is_guess: false }
    }

    /// A key whose figure is a guess.
    pub fn guess(key: &'static str, figure: Figure, why: impl Into<String>) -> Entry {
        Entry { key, figure, origin: format!("a guess: {}", why.into()), is_guess: true }
    }
}

/// A part of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its header; empty for the first part
    pub header: &'static str,
    /// Its keys
    pub entries: Vec<Entry>,
}

/// The text of a machine file whose `source` says where it comes from.
///
/// # Errors
/// A figure is no number or below 0, or the simulator refuses the file; in words.
pub fn toml(source: &str, sections: &[Section]) -> Result<String, String> {
    let mut text = format!("source = {}\n", quoted(source));
    for section in sections {
        if !section.header.is_empty() {
            let _ = write!(text, "\n{}\n", section.header);
        }
        for entry in &section.entries {
            let _ = writeln!(text, "{} = {}", entry.key, written(entry)?);
        }
    }
    Machine::parse(&text).map_err(|error| format!("the simulator refuses the file: {error}"))?;
    Ok(text)
}

/// A figure as the file has it.
///
/// # Errors
/// It is no number or below 0.
pub fn written(entry: &Entry) -> Result<String, String> {
    let usable = |value: f64| match value {
        value if !value.is_finite() => Err(format!("{} was not measured", entry.key)),
        value if value < 0.0 => {
            Err(format!("{} came out below 0 ({value:.1}): the machine was too busy", entry.key))
        }
        value => Ok(value),
    };
    Ok(match entry.figure {
        Figure::Whole(value) => format!("{:.0}", usable(value)?),
        Figure::Decimal(value) => format!("{:?}", (usable(value)? * 100.0).round() / 100.0),
        Figure::Flag(flag) => flag.to_string(),
    })
}

/// A basic string of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use Figure::{Decimal, Flag, Whole};

    fn section(header: &'static str, figures: &[(&'static str, Figure)]) -> Section {
        let entry = |(key, figure): &(&'static str, Figure)| Entry::known(key, *figure, "a test");
        Section { header, entries: figures.iter().map(entry).collect() }
    }

    /// A whole machine, with this figure of a pause.
    fn machine(pause_ns: Figure) -> Vec<Section> {
        vec![
            section("", &[("line_bytes", Whole(64.0))]),
            section("[[group]]", &[("cores", Whole(2.0)), ("core_ns", Whole(59.6))]),
            section(
                "[[group]]",
                &[("cores", Whole(1.0)), ("speed", Decimal(0.501)), ("core_ns", Whole(70.0))],
            ),
            section(
                "[distance]",
                &[("thread_ns", 20.0), ("group_ns", 60.0), ("socket_ns", 60.0), ("memory_ns", 90.0)]
                    .map(|(key, value)| (key, Whole(value))),
            ),
            section(
                "[cost]",
                &[
                    ("step_ns", Decimal(1.0)),
                    ("hit_ns", Decimal(1.0)),
                    ("change_ns", Decimal(4.567)),
                    ("pause_ns", pause_ns),
                    ("clock_ns", Decimal(20.0)),
                    ("call_ns", Decimal(150.0)),
                    ("futex_ns", Decimal(100.0)),
                    ("wake_ns", Decimal(900.0)),
                    ("idle_wake_ns", Whole(4000.0)),
                    ("kick_ns", Decimal(300.0)),
                    ("switch_ns", Whole(1200.0)),
                    ("slack_ns", Whole(50_000.0)),
                ],
            ),
            section(
                "[scheduler]",
                &[
                    ("hz", Whole(250.0)),
                    ("slice_ns", Whole(1_400_000.0)),
                    ("hot_ns", Whole(500_000.0)),
                    ("balance_ns", Whole(32_000_000.0)),
                    ("yield_forfeits", Flag(true)),
                ],
            ),
        ]
    }

    #[test]
    fn the_simulator_reads_what_is_written() {
        let source = "a \"test\"\nwith a C:\\path";
        let text = toml(source, &machine(Decimal(18.0))).unwrap();
        let read = Machine::parse(&text).unwrap();
        assert_eq!(read.source, "a \"test\" with a C:\\path");
        assert_eq!((read.cpus().len(), read.group[0].core_ns, read.cost.change_ns), (3, 60, 4.57));
        assert_eq!((read.group[1].speed, read.cost.pause_ns), (0.5, 18.0));
        assert!(read.scheduler.yield_forfeits);
    }

    #[test]
    fn a_wrong_figure_is_refused_with_its_key() {
        for wrong in [f64::NAN, f64::INFINITY, -0.5] {
            for figure in [Decimal(wrong), Whole(wrong)] {
                let error = toml("a test", &machine(figure)).unwrap_err();
                assert!(error.contains("pause_ns"), "{error}");
            }
        }
        let without = &machine(Decimal(1.0))[..4];
        let error = toml("a test", without).unwrap_err();
        assert!(error.contains("cost") || error.contains("scheduler"), "{error}");
    }
}
