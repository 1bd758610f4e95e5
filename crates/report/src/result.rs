//! The file that a bench leaves behind: versioned JSON with every run, table, spread and verdict.

use crate::ratio::Ratio;
use crate::statistics::Spread;
use crate::table::Table;
use crate::target::{self, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// What the JSON calls itself, in its field `schema`.
pub const SCHEMA: &str = "manx-bench";
/// The version of its fields. Fields may be added to a version; a reader ignores those it does not know.
pub const VERSION: u32 = 1;

/// Where something was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name
    pub processor: String,
    /// CPUs that the process may use
    pub cpus: usize,
    /// The kernel's name and release
    pub kernel: String,
}

/// One run of one variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The experiment
    pub case: String,
    /// Which of the compared versions
    pub variant: String,
    /// In which round
    pub round: usize,
    /// Its figures by name; the unit is the end of the name
    pub values: BTreeMap<String, f64>,
    /// What the measured program printed, whole
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
}

/// Everything about one run of a bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: String,
    /// [`VERSION`]
    pub version: u32,
    /// The bench's name
    pub bench: String,
    /// The version of Manx
    pub manx: String,
    /// When it began, seconds since 1970
    pub started_unix_s: u64,
    /// How long it took
    pub wall_s: f64,
    /// A smoke check, not a measurement
    pub quick: bool,
    /// It was ended before its time; what there is stands here
    pub interrupted: bool,
    /// The machine
    pub machine: Machine,
    /// What the reader must know
    pub notes: Vec<String>,
    /// Every run, in the order of running
    pub runs: Vec<Run>,
    /// The tables
    pub tables: Vec<Table>,
    /// Pictures, as lines of text
    pub plots: Vec<String>,
    /// A against A
    pub spreads: Vec<Spread>,
    /// Versions against each other, with intervals
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    /// The targets
    pub targets: Vec<Verdict>,
}

impl Report {
    /// An empty one.
    pub fn new(bench: &str, machine: Machine, started_unix_s: u64) -> Report {
        Report {
            schema: SCHEMA.into(),
            version: VERSION,
            bench: bench.into(),
            manx: env!("CARGO_PKG_VERSION").into(),
            started_unix_s,
            wall_s: 0.0,
            quick: false,
            interrupted: false,
            machine,
            notes: Vec::new(),
            runs: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            spreads: Vec::new(),
            ratios: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Reads the JSON.
    ///
    /// # Errors
    /// If it is not such a file, or one of a later version.
    pub fn from_json(text: &str) -> Result<Report, String> {
        let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.schema != SCHEMA {
            return Err(format!("schema '{}' is not '{SCHEMA}'", report.schema));
        }
        if report.version > VERSION {
            return Err(format!("version {}: this Manx reads up to version {VERSION}", report.version));
        }
        Ok(report)
    }

    /// The cases, in the order in which they were measured first.
    pub fn cases(&self) -> Vec<String> {
        in_order(self.runs.iter().map(|run| &run.case))
    }

    /// A case's variants, in the order in which they were measured first.
    pub fn variants(&self, case: &str) -> Vec<String> {
        in_order(self.runs.iter().filter(|run| run.case == case).map(|run| &run.variant))
    }

    /// The values of one figure of one variant, in the order of the rounds.
    pub fn values(&self, case: &str, variant: &str, value: &str) -> Vec<f64> {
        let of = |run: &&Run| run.case == case && run.variant == variant;
        self.runs.iter().filter(of).filter_map(|run| run.values.get(value).copied()).collect()
    }
}

/// Each name once, where it comes first.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    once
}

impl fmt::Display for Report {
    /// The text that `manx bench` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            f,
            "manx bench {}: {}, {} CPUs, {}",
            self.bench, machine.processor, machine.cpus, machine.kernel
        )?;
        for note in &self.notes {
            writeln!(f, "  - {note}")?;
        }
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        for plot in &self.plots {
            write!(f, "\n{plot}")?;
        }
        if !self.spreads.is_empty() {
            write!(f, "\n{}", spread_table(&self.spreads))?;
        }
        if self.targets.is_empty() {
            return writeln!(f, "\nTargets: none are set for this bench");
        }
        write!(f, "\n{}", target::table(&self.targets))
    }
}

fn spread_table(spreads: &[Spread]) -> Table {
    let mut table = Table::new(
        "A against A: the same version twice, in turn",
        &["case", "figure", "pairs []", "ratio []", "smallest []", "largest []", "spread [x]"],
    );
    for spread in spreads {
        let number = |value: f64| format!("{value:.3}");
        table.row([
            spread.case.clone(),
            spread.measure.clone(),
            spread.pairs.to_string(),
            number(spread.ratio),
            number(spread.low),
            number(spread.high),
            number(spread.factor),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_json_and_a_later_version_is_refused() {
        let mut report = Report::new("b", Machine::default(), 7);
        report.runs.push(Run {
            case: "c".into(),
            variant: "v".into(),
            round: 0,
            values: BTreeMap::from([("throughput_per_s".into(), 4.5)]),
            output: Some(RawValue::from_string(r#"{"x":[1,2]}"#.into()).unwrap()),
        });
        let text = serde_json::to_string(&report).unwrap();
        let back = Report::from_json(&text).unwrap();
        assert_eq!(back.values("c", "v", "throughput_per_s"), [4.5]);
        assert_eq!(back.values("c", "w", "throughput_per_s"), [] as [f64; 0]);
        assert_eq!(back.runs[0].output.as_ref().unwrap().get(), r#"{"x":[1,2]}"#);
        let error = Report::from_json(&text.replace("\"version\":1", "\"version\":2")).unwrap_err();
        assert!(error.contains("reads up to version 1"), "{error}");
        assert!(Report::from_json(&text.replace(SCHEMA, "other")).unwrap_err().contains("other"));
    }
}
