//! The JSON of a profile: what is swept, what was measured of it, and what follows from that.

use report::{Machine, figure};
use serde::{Deserialize, Serialize};

/// The value of the JSON's field `schema`.
pub const SCHEMA: &str = "manx-profile";
/// The version of the JSON's fields.
pub const VERSION: u32 = 1;

/// What is swept. Two profiles can be put together if and only if this is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// The program and its arguments
    pub program: Vec<String>,
    /// The command that measures it, if it does not do so itself
    pub measure: Option<String>,
    /// The epoch whose target is swept; without it, the target of requests is swept
    pub epoch: Option<u64>,
    /// The mutexes, as `manx run --lock` takes them
    pub lock: String,
    /// The cores, as `manx run --cores` takes them
    pub cores: Option<String>,
    /// How many thousandths of their time threads on little cores take, as `manx run --dilate` has
    /// it
    #[serde(default)]
    pub dilation: Option<u32>,
    /// The percentile, in hundredths of a percent
    pub percentile: u16,
    /// The shortest target
    pub from_ns: u64,
    /// The longest
    pub to_ns: u64,
    /// How many, in equal ratios
    pub steps: usize,
    /// Rounds
    pub repeats: usize,
}

/// What a run is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Without Manx
    Plain,
    /// Locks in the order of arrival, without a target
    Fifo,
    /// With this target, in nanoseconds
    SloNs(u64),
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Variant::Plain => f.write_str("without Manx"),
            Variant::Fifo => f.write_str("FIFO"),
            Variant::SloNs(slo_ns) => f.write_str(&figure::duration(*slo_ns)),
        }
    }
}

impl Sweep {
    /// What is measured in each round, the comparisons first and then from the shortest target to
    /// the longest.
    pub fn variants(&self) -> Vec<Variant> {
        let ratio = self.to_ns as f64 / self.from_ns.max(1) as f64;
        let last = self.steps.saturating_sub(1).max(1);
        let mut slos_ns: Vec<u64> = (0..self.steps)
            .map(|step| (self.from_ns as f64 * ratio.powf(step as f64 / last as f64)).round() as u64)
            .collect();
        slos_ns.dedup();
        [Variant::Plain, Variant::Fifo].into_iter().chain(slos_ns.into_iter().map(Variant::SloNs)).collect()
    }

    /// The percentile as people write it: `p99.9`.
    pub fn percentile_name(&self) -> String {
        format!("p{}", f64::from(self.percentile) / 100.0)
    }
}

/// What a run says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Operations a second
    pub throughput_per_s: f64,
    /// The percentile's latency
    pub tail_ns: f64,
    /// The longest latency, if it is said
    pub max_ns: Option<u64>,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of what
    pub variant: Variant,
    /// In which round
    pub round: usize,
    /// Operations a second
    pub throughput_per_s: f64,
    /// The percentile's latency
    pub tail_ns: f64,
    /// The longest latency, if the program reports it
    pub max_ns: Option<u64>,
}

/// The medians of a variant's runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Operations a second
    pub throughput_per_s: f64,
    /// The percentile's latency
    pub tail_ns: f64,
    /// The median of the runs' longest operations, if the program reports them
    pub max_ns: Option<f64>,
    /// The number of runs that these are medians of
    pub runs: usize,
}

/// What follows from the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// Every variant that was measured, comparisons first, then by target
    pub points: Vec<(Variant, Point)>,
    /// The target at the knee of throughput over the logarithm of the target
    pub knee_slo_ns: Option<u64>,
    /// The suggestion
    pub advice: Advice,
}

/// A target to take, or none, and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The target
    pub slo_ns: Option<u64>,
    /// Why this one, or why none
    pub reason: String,
}

/// A sweep, and what was measured of it so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    schema: String,
    version: u32,
    /// The version of Manx
    pub manx: String,
    /// The machine
    pub machine: Machine,
    /// What is swept
    pub sweep: Sweep,
    /// In the order of running
    pub runs: Vec<Run>,
    /// What follows from them
    pub conclusion: Option<Conclusion>,
}

impl Profile {
    /// An empty one.
    pub fn new(sweep: Sweep, machine: Machine) -> Profile {
        let manx = env!("CARGO_PKG_VERSION").into();
        Profile {
            schema: SCHEMA.into(),
            version: VERSION,
            manx,
            machine,
            sweep,
            runs: Vec::new(),
            conclusion: None,
        }
    }

    /// Reads an earlier one, to be continued with `sweep`.
    ///
    /// # Errors
    /// If it is no profile, or one of another sweep; then it says what differs.
    pub fn resume(text: &str, sweep: &Sweep) -> Result<Profile, String> {
        let profile: Profile = serde_json::from_str(text).map_err(|error| format!("no profile: {error}"))?;
        if profile.schema != SCHEMA || profile.version != VERSION {
            return Err(format!(
                "'{}' version {} instead of '{SCHEMA}' version {VERSION}",
                profile.schema, profile.version
            ));
        }
        let fields = |sweep: &Sweep| match serde_json::to_value(sweep) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (was, is) = (fields(&profile.sweep), fields(sweep));
        match is.iter().find(|(name, value)| was.get(*name) != Some(value)) {
            None => Ok(profile),
            Some((name, value)) => {
                let before = was.get(name).unwrap_or(&serde_json::Value::Null);
                Err(format!("of another sweep: its {name} is {before}, not {value}"))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn sweep() -> Sweep {
        Sweep {
            program: vec!["p".into()],
            measure: None,
            epoch: None,
            lock: "asl".into(),
            cores: None,
            dilation: None,
            percentile: 9900,
            from_ns: 50_000,
            to_ns: 5_000_000,
            steps: 12,
            repeats: 3,
        }
    }

    proptest! {
        #[test]
        fn targets_rise_in_equal_ratios_from_the_first_to_the_last(from_ns in 1_000u64..1_000_000, factor in 2u64..1000, steps in 2usize..30) {
            let sweep = Sweep { from_ns, to_ns: from_ns * factor, steps, ..sweep() };
            let slos: Vec<f64> = sweep.variants().into_iter().filter_map(|v| match v {
                Variant::SloNs(slo_ns) => Some(slo_ns as f64),
                _ => None,
            }).collect();
            prop_assert_eq!((slos[0], slos[slos.len() - 1]), (from_ns as f64, sweep.to_ns as f64));
            let ratio = (factor as f64).powf(1.0 / (steps - 1) as f64);
            for pair in slos.windows(2) {
                prop_assert!((pair[1] - pair[0] * ratio).abs() <= 1.0 + ratio);
            }
        }
    }

    #[test]
    fn only_the_same_sweep_is_continued() {
        let profile = Profile::new(sweep(), Machine::default());
        let text = serde_json::to_string(&profile).unwrap();
        assert!(Profile::resume(&text, &sweep()).is_ok());
        let error = Profile::resume(&text, &Sweep { steps: 13, ..sweep() }).unwrap_err();
        assert_eq!(error, "of another sweep: its steps is 12, not 13");
        assert!(Profile::resume("{}", &sweep()).unwrap_err().starts_with("no profile"));
    }
}
