//! The file that a bench leaves behind: versioned JSON with every run, table, ratio and verdict.

use crate::figure::{interval, three_digits};
use crate::ratio::{Compared, Ratio, Samples};
use crate::target::{self, Verdict};
use command::machine::Machine;
use command::table::Table;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// What the JSON calls itself, in its field `schema`.
pub const SCHEMA: &str = "manx-bench";
/// The version of its fields. Fields may be added to a version; a reader ignores those it does not
/// know. Version 2 has intervals in the place of version 1's comparison of a version with itself;
/// files of version 1 can be read.
pub const VERSION: u32 = 2;

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
    /// It was ended early; this is what it measured until then
    pub interrupted: bool,
    /// What the orders of rounds were drawn from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The machine
    pub machine: Machine,
    /// What the reader must know
    pub notes: Vec<String>,
    /// Every run, round by round, and within a round in the order of the versions; `seed` says in
    /// which order they ran
    pub runs: Vec<Run>,
    /// The tables
    pub tables: Vec<Table>,
    /// Pictures, as lines of text
    pub plots: Vec<String>,
    /// The ratios that targets are about, and others that a bench shows, with their intervals
    #[serde(default)]
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
            seed: None,
            machine,
            notes: Vec::new(),
            runs: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            ratios: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Reads a report from the JSON text that its `Display` wrote: for tests, and for programs that
    /// evaluate results.
    ///
    /// # Errors
    /// The text is no report of a bench, or its version is later than [`VERSION`].
    pub fn from_json(text: &str) -> Result<Report, String> {
        let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.schema != SCHEMA {
            return Err(format!("schema '{}' is not '{SCHEMA}'", report.schema));
        }
        if report.version > VERSION {
            return Err(format!("version {}: versions up to {VERSION} are known here", report.version));
        }
        Ok(report)
    }

    /// Adds a run without an output.
    pub fn add(&mut self, case: &str, variant: &str, round: usize, values: &[(&str, f64)]) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.runs.push(Run { case: case.into(), variant: variant.into(), round, values, output: None });
    }

    /// Adds a table, if there is a row in it.
    pub fn show(&mut self, table: Table) {
        self.tables.extend((!table.rows.is_empty()).then_some(table));
    }

    /// The runs of one variant of a case.
    pub fn runs_of(&self, case: &str, variant: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.case == case && run.variant == variant)
    }

    /// The outputs of one variant of a case, as far as they are of this form.
    pub fn outputs<T: DeserializeOwned>(&self, case: &str, variant: &str) -> impl Iterator<Item = T> {
        let outputs = self.runs_of(case, variant).filter_map(|run| run.output.as_ref());
        outputs.filter_map(|output| serde_json::from_str(output.get()).ok())
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
        self.runs_of(case, variant).filter_map(|run| run.values.get(value).copied()).collect()
    }

    /// The ratio of two versions, of all rounds in which both were measured; `None` if there is no
    /// such round.
    pub fn ratio(&self, compared: &Compared) -> Option<Ratio> {
        let (over, under) = (self.by_round(&compared.over), self.by_round(&compared.under));
        let pairs = over.into_iter().filter_map(|(round, above)| Some((above, *under.get(&round)?)));
        Ratio::of(&compared.over.case, compared.names(), pairs, compared.factor)
    }

    /// The last round in which both of two versions were measured.
    pub fn last_pair(&self, compared: &Compared) -> Option<usize> {
        let under = self.by_round(&compared.under);
        self.by_round(&compared.over).into_keys().rfind(|round| under.contains_key(round))
    }

    fn by_round(&self, samples: &Samples) -> BTreeMap<usize, f64> {
        let value = |run: &Run| Some((run.round, *run.values.get(&samples.figure)?));
        self.runs_of(&samples.case, &samples.version).filter_map(value).collect()
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
        let facts = machine.facts().into_iter().filter(|(name, _)| !["processor", "kernel"].contains(name));
        let facts: Vec<String> = facts.map(|(name, fact)| format!("{name} {fact}")).collect();
        writeln!(f, "  {}", facts.join(", "))?;
        for note in &self.notes {
            writeln!(f, "  - {note}")?;
        }
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        for plot in &self.plots {
            write!(f, "\n{plot}")?;
        }
        if !self.ratios.is_empty() {
            write!(f, "\n{}", ratio_table(&self.ratios))?;
        }
        if self.targets.is_empty() {
            return writeln!(f, "\nTargets: none are set for this bench");
        }
        let left_out = self.targets.iter().filter(|target| target.has_no_run()).count();
        if left_out < self.targets.len() {
            write!(f, "\n{}", target::table(&self.targets))?;
        }
        if left_out > 0 {
            writeln!(f, "\nTargets of parts that were not measured: {left_out}")?;
        }
        Ok(())
    }
}

fn ratio_table(ratios: &[Ratio]) -> Table {
    let mut table = Table::new(
        "Ratios of pairs: one round, one pair; their median, and its interval by bootstrap",
        &["case", "figure", "of", "over", "pairs []", "ratio []", "95 % interval []", "half of it [%]"],
    );
    for ratio in ratios {
        table.row([
            ratio.case.clone(),
            ratio.measure.clone(),
            ratio.over.clone(),
            ratio.under.clone(),
            ratio.pairs.len().to_string(),
            three_digits(ratio.ratio),
            interval(ratio.interval()),
            ratio.interval().map_or("-".into(), |_| format!("±{:.1}", ratio.half_width() * 100.0)),
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
        let error = Report::from_json(&text.replace("\"version\":2", "\"version\":3")).unwrap_err();
        assert!(error.contains("versions up to 2 are known"), "{error}");
        assert!(Report::from_json(&text.replace(SCHEMA, "other")).unwrap_err().contains("other"));
    }

    fn run(variant: &str, round: usize, value: f64) -> Run {
        let values = BTreeMap::from([("x".into(), value)]);
        Run { case: "c".into(), variant: variant.into(), round, values, output: None }
    }

    #[test]
    fn pairs_are_of_one_round_whatever_the_order_and_whatever_failed() {
        let mut report = Report::new("b", Machine::default(), 7);
        for round in 0..6 {
            let mut both = [run("a", round, 10.0 + round as f64), run("b", round, 20.0 + 2.0 * round as f64)];
            if round % 2 == 0 {
                both.reverse();
            }
            report.runs.extend(both);
        }
        report.runs.retain(|run| !(run.variant == "a" && run.round == 2));
        let compared = Compared::new("c", "b", "a", "x");
        let ratio = report.ratio(&compared).unwrap();
        assert_eq!((ratio.pairs.as_slice(), ratio.ratio), (&[2.0; 5][..], 2.0));
        assert_eq!(report.last_pair(&compared), Some(5));
        report.ratios.push(ratio);
        let text = report.to_string();
        assert!(text.contains("c     x       b   a         5   2.00   2.00 to 2.00          ±0.0"), "{text}");
        report.runs.retain(|run| !(run.variant == "a" && run.round == 5));
        assert_eq!(report.last_pair(&compared), Some(4));
        assert_eq!(report.ratio(&Compared { factor: 0.5, ..compared }).unwrap().ratio, 1.0);
        assert_eq!(report.ratio(&Compared::new("c", "b", "none", "x")), None);
    }

    #[test]
    fn a_file_of_the_first_version_is_read() {
        let text = r#"{"schema":"manx-bench","version":1,"bench":"b","manx":"0","started_unix_s":1,"wall_s":1.0,
            "quick":false,"interrupted":false,"machine":{"processor":"p","cpus":2,"kernel":"k"},"notes":[],"runs":[],
            "tables":[],"plots":[],
            "spreads":[{"case":"c","measure":"m","pairs":5,"ratio":1.0,"low":0.9,"high":1.1,"factor":1.1}],
            "ratios":[{"case":"c","over":"b","under":"a","measure":"m","rounds":6,"ratio":1.0,"low":0.9,"high":1.1}],
            "targets":[{"id":"x","name":"x","unit":"ratio","measured":1.0,"to_reach":"≥ 0.98","spread":1.1,"verdict":"not-resolvable"}]}"#;
        let report = Report::from_json(text).unwrap();
        assert_eq!(report.ratios[0].interval(), Some((0.9, 1.1)));
        assert_eq!(report.targets[0].verdict, target::Outcome::Open);
    }
}
