//! Settings in a TOML file: what is long, or the same every time.
//!
//! The keys are the flags' names; see [`DOCUMENTATION`]. An error has the line and the column, what
//! is allowed there, and for a misspelt key the nearest one.

use super::layer::{Destination, Layer, parse_cpus, parse_entry};
use command::cores::{parse_cores, parse_dilation};
use command::duration::parse_us;
use command::failure::{Failure, USAGE, reason};
use command::slo::parse_slo;
use preload_abi::cpus::{Cpus, Place, Places};
use preload_abi::options::{Guard, Lock};
use preload_abi::slo::Slo;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The section of `--help` and the man page on the file.
pub const DOCUMENTATION: &str = r#"Settings in a file:
  --config names a TOML file with any of these keys:

    guard = "on"           # "on", "off" or "always"
    lock = "manx"          # "manx", "adaptive", "asl", "fifo" or "glibc"
    slo = ["2ms@p99"]      # as --slo, any number of them
    cores = "big:0"
    dilate = 1.0           # as --dilate
    cpus = "auto"          # "auto", "keep", or a number
    cpus-also = []         # any of "affinity", "configured" and "java"
    only = ["mongod"]      # as --only, any number of them
    not = ["libfoo.so*"]   # as --not, any number of them
    stats = "counts.json"  # a file, "stderr", "live", or "off"
    cache = true           # false: as --no-cache
    perf-map = false
    verbose = false
    quiet = false

    [wait]
    spins = 10
    yields = 1000
    sleep-step = "100us"
    sleep-max = "1ms"

  Except for `slo`, `cores`, `only`, `not` and `stats`, these are the defaults.
  A path is relative to the current folder. Flags win over the file, and the
  file wins over MANX_OPTIONS."#;

/// The longest file that is read; what `/dev/zero` holds does not end.
const BYTES_MAX: u64 = 1 << 20;

const KEYS: [&str; 15] = [
    "guard",
    "lock",
    "slo",
    "cores",
    "dilate",
    "cpus",
    "cpus-also",
    "only",
    "not",
    "stats",
    "cache",
    "perf-map",
    "verbose",
    "quiet",
    "wait",
];
const WAIT_KEYS: [&str; 4] = ["spins", "yields", "sleep-step", "sleep-max"];

/// Reads the settings in `file`.
///
/// # Errors
/// With code 2 if it cannot be read or understood.
pub fn read(file: &Path) -> Result<Layer, Failure> {
    let refuse = |why: &str| {
        let what = format!("--config: {}: {why}", file.display());
        Failure::new(USAGE, what, "name a TOML file that you may read")
    };
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| refuse(&reason(&error)))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(refuse("longer than any settings"));
    }
    let text = match str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let end = valid.len();
            return Err(Document { file, text: &valid }.fault(end..end, "not UTF-8", "TOML files are UTF-8"));
        }
    };
    Document { file, text }.parse()
}

/// A value, and where it is in the file.
type Setting<'a> = Spanned<DeValue<'a>>;

struct Document<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Document<'_> {
    fn parse(&self) -> Result<Layer, Failure> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fault(span, error.message(), "correct the file: see https://toml.io for the syntax")
        })?;
        let mut layer = Layer::default();
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "guard" => layer.guard = Some(self.guard(value)?),
                "lock" => layer.lock = Some(self.lock(value)?),
                "slo" => layer.slos = Some(self.slos(value)?),
                "cores" => layer.cores = Some(self.cores(value)?),
                "dilate" => layer.dilation = Some(self.dilation(value)?),
                "cpus" => layer.cpus = Some(self.cpus(value)?),
                "cpus-also" => layer.cpus_also = Some(self.cpus_also(value)?),
                "only" => layer.only = Some(self.filter(value)?),
                "not" => layer.not = Some(self.filter(value)?),
                "stats" => layer.stats = Some(self.stats(value)?),
                "cache" => layer.cache = Some(self.switch(value)?),
                "perf-map" => layer.perf_map = Some(self.switch(value)?),
                "verbose" => layer.verbose = Some(self.switch(value)?),
                "quiet" => layer.quiet = Some(self.switch(value)?),
                "wait" => self.wait(value, &mut layer)?,
                unknown => return Err(self.unknown_key(unknown, key.span(), &KEYS, "")),
            }
        }
        Ok(layer)
    }

    fn wait(&self, value: &Setting<'_>, layer: &mut Layer) -> Result<(), Failure> {
        let DeValue::Table(table) = value.get_ref() else {
            let help = "write [wait], and its keys below";
            return Err(self.fault(value.span(), "`wait` is not a table", help));
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "spins" => layer.spins = Some(self.count(value)?),
                "yields" => layer.yields = Some(self.count(value)?),
                "sleep-step" => layer.sleep_step_us = Some(self.duration(value)?),
                "sleep-max" => layer.sleep_max_us = Some(self.duration(value)?),
                unknown => return Err(self.unknown_key(unknown, key.span(), &WAIT_KEYS, " in [wait]")),
            }
        }
        Ok(())
    }

    /// Reads a string. The error is `what`, followed by the reason of `read` if it gives one. A
    /// value that is no string gives `what` alone.
    fn word<T>(
        &self,
        value: &Setting<'_>,
        read: impl Fn(&str) -> Result<T, String>,
        what: &str,
        help: &str,
    ) -> Result<T, Failure> {
        let why = match value.get_ref().as_str().map(read) {
            Some(Ok(parsed)) => return Ok(parsed),
            Some(Err(why)) if !why.is_empty() => format!(": {why}"),
            _ => String::new(),
        };
        Err(self.fault(value.span(), format!("{what}{why}"), help))
    }

    /// Reads each string of a list.
    fn words<T>(
        &self,
        value: &Setting<'_>,
        read: impl Fn(&str) -> Result<T, String>,
        [no_list, what]: [&str; 2],
        help: &str,
    ) -> Result<Vec<T>, Failure> {
        let DeValue::Array(values) = value.get_ref() else {
            return Err(self.fault(value.span(), no_list, help));
        };
        values.iter().map(|value| self.word(value, &read, what, help)).collect()
    }

    fn guard(&self, value: &Setting<'_>) -> Result<Guard, Failure> {
        let read = |word: &str| Guard::from_word(word.as_bytes()).ok_or_else(String::new);
        let help = r#"allowed are "on", "off" and "always", in quotation marks"#;
        self.word(value, read, "not a way to guard", help)
    }

    fn lock(&self, value: &Setting<'_>) -> Result<Lock, Failure> {
        let read = |word: &str| Lock::from_word(word.as_bytes()).ok_or_else(String::new);
        let help = r#"allowed are "manx", "adaptive", "asl", "fifo" and "glibc", in quotation marks"#;
        self.word(value, read, "not a lock", help)
    }

    fn slos(&self, value: &Setting<'_>) -> Result<Vec<Slo>, Failure> {
        let help = r#"allowed are strings in brackets, as ["2ms@p99", "7=500us"]"#;
        self.words(value, parse_slo, ["not a list of latency targets", "not a latency target"], help)
    }

    /// Reads which CPUs are big and which are little.
    fn cores(&self, value: &Setting<'_>) -> Result<String, Failure> {
        let help = r#"write as "big:0-3,little:4-7", with the CPUs of this machine"#;
        self.word(value, parse_cores, "not classes of cores", help)
    }

    /// Reads the ratio by which little CPUs are to be slower: a number.
    fn dilation(&self, value: &Setting<'_>) -> Result<u32, Failure> {
        let ratio = match value.get_ref() {
            DeValue::Float(ratio) => parse_dilation(ratio.as_str()),
            DeValue::Integer(ratio) => parse_dilation(ratio.as_str()),
            _ => Err("not a number".to_owned()),
        };
        let help = "write as 3.75, without quotation marks";
        ratio.map_err(|why| self.fault(value.span(), format!("not a ratio: {why}"), help))
    }

    fn cpus(&self, value: &Setting<'_>) -> Result<Cpus, Failure> {
        let said = match value.get_ref() {
            DeValue::String(word) => parse_cpus(word).ok(),
            DeValue::Integer(n) => u32::from_str_radix(n.as_str(), n.radix()).ok().and_then(Cpus::of),
            _ => None,
        };
        said.ok_or_else(|| {
            let help = format!(r#"allowed are "auto", "keep", and whole numbers from 1 to {}"#, Cpus::MAX);
            self.fault(value.span(), "not a count of CPUs", help)
        })
    }

    fn cpus_also(&self, value: &Setting<'_>) -> Result<Places, Failure> {
        let help = r#"allowed are "affinity", "configured" and "java", in brackets, as ["java"]"#;
        let read =
            |word: &str| Place::ALL.into_iter().find(|place| place.word() == word).ok_or_else(String::new);
        let places = self.words(value, read, ["not a list of places", "not such a place"], help)?;
        Ok(places.into_iter().fold(Places::NONE, Places::with))
    }

    fn filter(&self, value: &Setting<'_>) -> Result<Vec<String>, Failure> {
        let help = r#"allowed are strings in brackets, as ["mongod", "libfoo.so.1", "libbar.so*:spin", "libbar.so:0x1a2b"]"#;
        self.words(value, parse_entry, ["not a list of names", "not such a name"], help)
    }

    fn stats(&self, value: &Setting<'_>) -> Result<Destination, Failure> {
        let read = |word: &str| match word {
            "" => Err(String::new()),
            _ => Ok(Destination::from_word(word.as_ref())),
        };
        let help = r#"allowed are a file's path, "stderr", "live" and "off", in quotation marks"#;
        self.word(value, read, "not a destination for statistics", help)
    }

    fn switch(&self, value: &Setting<'_>) -> Result<bool, Failure> {
        let help = "allowed are true and false, without quotation marks";
        value.get_ref().as_bool().ok_or_else(|| self.fault(value.span(), "neither true nor false", help))
    }

    fn count(&self, value: &Setting<'_>) -> Result<u32, Failure> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok());
        let help = || format!("allowed are whole numbers from 0 to {}", u32::MAX);
        number.ok_or_else(|| self.fault(value.span(), "not a count", help()))
    }

    fn duration(&self, value: &Setting<'_>) -> Result<u32, Failure> {
        let help = r#"allowed are a number and its unit in quotation marks, as "100us" or "1ms""#;
        self.word(value, parse_us, "not a duration", help)
    }

    fn unknown_key(&self, key: &str, span: Range<usize>, known: &[&str], place: &str) -> Failure {
        let mut help = format!("the keys{place} are {}", known.join(", "));
        let likeness = |candidate: &&&str| (strsim::jaro_winkler(key, candidate) * 1e6) as u64;
        if let Some(nearest) = known.iter().max_by_key(likeness).filter(|n| likeness(n) > 700_000) {
            help.insert_str(0, &format!("the nearest key is `{nearest}`\n"));
        } else if WAIT_KEYS.contains(&key) {
            help.insert_str(0, &format!("`{key}` belongs below [wait]\n"));
        }
        self.fault(span, format!("there is no key `{key}`{place}"), help)
    }

    fn fault(&self, span: Range<usize>, what: impl AsRef<str>, help: impl Into<String>) -> Failure {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        Failure::new(USAGE, format!("{}:{line}:{column}: {}", self.file.display(), what.as_ref()), help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Layer, Failure> {
        Document { file: Path::new("m.toml"), text }.parse()
    }

    #[test]
    fn the_documented_file_is_the_defaults() {
        let example: String = DOCUMENTATION
            .lines()
            .filter(|l| l.starts_with("    "))
            .fold(String::new(), |all, l| all + l + "\n");
        let layer = parse(&example).expect("the documented file");
        let default = preload_abi::options::Options::default();
        let here = std::env::current_dir().expect("a current folder");
        assert_eq!(
            layer,
            Layer {
                guard: Some(default.guard),
                lock: Some(default.lock),
                slos: Some(vec![parse_slo("2ms@p99").expect("a target")]),
                cores: Some("big:0".to_owned()),
                dilation: Some(1000),
                short: None,
                cpus: Some(default.cpus),
                cpus_also: Some(default.cpus_also),
                only: Some(vec!["mongod".to_owned()]),
                not: Some(vec!["libfoo.so*".to_owned()]),
                stats: Some(Destination::File(here.join("counts.json"))),
                spins: Some(default.spins),
                yields: Some(default.yields),
                sleep_step_us: Some(default.step_us),
                sleep_max_us: Some(default.ceiling_us),
                cache: Some(default.cache),
                perf_map: Some(default.perf_map),
                verbose: Some(default.verbose),
                quiet: Some(false),
            }
        );
        assert!(KEYS.iter().chain(&WAIT_KEYS).all(|key| example.contains(key)));
        assert_eq!(parse("").expect("an empty file"), Layer::default());
    }

    #[test]
    fn counts_of_cpus_are_numbers_or_words() {
        let said = |text: &str| parse(text).expect(text);
        assert_eq!(said("cpus = 0x10").cpus, Some(Cpus::Count(16)));
        assert_eq!(said("cpus = \"3\"").cpus, Some(Cpus::Count(3)));
        assert_eq!(said("cpus = \"keep\"").cpus, Some(Cpus::Keep));
        let both = said("cpus-also = [\"java\", \"affinity\"]").cpus_also;
        assert_eq!(both, Some(Places::NONE.with(Place::Java).with(Place::Affinity)));
    }

    #[test]
    fn faults_have_a_place_and_a_way_out() {
        for (text, place, what, help) in [
            ("gaurd = \"on\"", "1:1", "no key `gaurd`", "nearest key is `guard`"),
            ("spins = 3", "1:1", "no key `spins`", "belongs below [wait]"),
            (
                "[wait]\n  sleep_max = \"1ms\"",
                "2:3",
                "no key `sleep_max` in [wait]",
                "nearest key is `sleep-max`",
            ),
            ("zebra = 1", "1:1", "no key `zebra`", "the keys are guard, lock, slo"),
            ("\nguard = on", "2:9", "", "toml.io"),
            ("guard = \"maybe\"", "1:9", "not a way", "\"always\""),
            ("guard = true", "1:9", "not a way", "\"always\""),
            ("lock = \"mcs\"", "1:8", "not a lock", "\"fifo\""),
            ("lock = 1", "1:8", "not a lock", "\"fifo\""),
            ("slo = \"2ms\"", "1:7", "not a list", "[\"2ms@p99\""),
            ("slo = [\"2\"]", "1:8", "unit is missing", "[\"2ms@p99\""),
            ("slo = [2]", "1:8", "not a latency target", "[\"2ms@p99\""),
            ("dilate = 0.5", "1:10", "not a ratio", "3.75"),
            ("dilate = \"2\"", "1:10", "not a ratio", "3.75"),
            ("cores = 2", "1:9", "not classes", "big:0-3"),
            ("cores = \"big:x\"", "1:9", "not classes", "big:0-3"),
            ("cpus = 0", "1:8", "not a count of CPUs", "\"keep\""),
            ("cpus = true", "1:8", "not a count of CPUs", "\"keep\""),
            ("cpus = \"many\"", "1:8", "not a count of CPUs", "\"keep\""),
            ("cpus-also = \"java\"", "1:13", "not a list", "[\"java\"]"),
            ("cpus-also = [\"java\", 2]", "1:22", "not such a place", "\"affinity\""),
            ("only = \"sh\"", "1:8", "not a list of names", "[\"mongod\""),
            ("only = [\"sh\", 2]", "1:15", "not such a name", "[\"mongod\""),
            ("not = [\"/bin/sh\"]", "1:8", "without its folder", "[\"mongod\""),
            ("stats = \"\"", "1:9", "not a destination", "\"stderr\""),
            ("quiet = 1", "1:9", "neither true nor false", "true and false"),
            ("wait = 3", "1:8", "not a table", "[wait]"),
            ("wait.spins = -1", "1:14", "not a count", "4294967295"),
            ("wait.yields = \"5\"", "1:15", "not a count", "4294967295"),
            ("# é\nwait.sleep-step = 100", "2:19", "not a duration", "\"100us\""),
            ("wait.sleep-step = \"100\"", "1:19", "unit is missing", "\"100us\""),
            ("guard = \"on\"\nguard = \"off\"", "2:1", "duplicate key", "toml.io"),
        ] {
            let failure = parse(text).expect_err(text);
            assert_eq!(failure.code, USAGE);
            assert!(failure.what.starts_with(&format!("m.toml:{place}: ")), "{text}: {failure}");
            assert!(failure.what.contains(what) && failure.help.contains(help), "{text}: {failure}");
        }
    }
}
