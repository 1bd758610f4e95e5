//! Settings in a TOML file: what is long, or the same every time.
//!
//! The keys are those of the table of settings; see [`documentation`]. An error has the line and
//! the column, what is allowed there, and for a misspelt key the nearest one.

use super::forms;
use command::failure::{Failure, USAGE, reason};
use preload_abi::cpus::Cpus;
use preload_abi::options::{SETTINGS, Setting};
use preload_abi::setting::{Form, Section};
use preload_abi::words::Word;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The section of `--help` and the man page on the file.
pub fn documentation() -> String {
    let mut text = "Settings in a file:\n  --config names a TOML file with any of these keys:\n\n".to_owned();
    let lines = of_section(None).map(|setting| (example(setting), remark(setting))).collect::<Vec<_>>();
    let remarked = lines.iter().filter(|(_, remark)| !remark.is_empty());
    let width = remarked.map(|(line, _)| line.len()).max().unwrap_or(0);
    for (line, remark) in &lines {
        let line = if remark.is_empty() { line.clone() } else { format!("{line:width$}  # {remark}") };
        writeln!(text, "    {line}").expect("writing to a String");
    }
    for section in sections() {
        writeln!(text, "\n    [{}]", section.table).expect("writing to a String");
        for setting in of_section(Some(section)) {
            writeln!(text, "    {}", example(setting)).expect("writing to a String");
        }
    }
    let others = SETTINGS.iter().filter(|setting| !setting.example.is_empty());
    let others: Vec<_> = others.map(|setting| format!("`{}`", setting.key)).collect();
    write!(
        text,
        "
  Except for {}, these are the defaults.
  A path is relative to the current folder. Flags win over the file, and the
  file wins over MANX_OPTIONS.",
        listed(&others, "and")
    )
    .expect("writing to a String");
    text
}

/// A setting as a line of a file.
fn example(setting: &Setting) -> String {
    let default = forms::default(setting);
    let value = match setting.form {
        _ if !setting.example.is_empty() => setting.example.to_owned(),
        Form::Switch => (default == "on").to_string(),
        Form::Number => default,
        Form::Thousandths => format!("{:?}", default.parse::<f64>().expect("a number") / 1000.0),
        Form::Words(..) | Form::Slos | Form::Entries => "[]".to_owned(),
        _ => format!("{default:?}"),
    };
    format!("{} = {value}", setting.key)
}

/// What a line of a file may have instead.
fn remark(setting: &Setting) -> String {
    let flag = setting.flag();
    match setting.form {
        Form::Word(words, _) => listed(&quoted(words), "or"),
        Form::Words(words, _) => format!("any of {}", listed(&quoted(words), "and")),
        Form::Slos | Form::Entries => format!("as --{flag}, any number of them"),
        Form::Thousandths => format!("as --{flag}"),
        Form::Cpus => r#""auto", "keep", or a number"#.to_owned(),
        Form::Stats => r#"a file, "stderr", "live", or "off""#.to_owned(),
        Form::Switch if flag != setting.key => format!("false: as --{flag}"),
        Form::Switch | Form::Number | Form::Microseconds | Form::Cores => String::new(),
    }
}

fn quoted(words: &[Word]) -> Vec<String> {
    words.iter().map(|word| format!("{:?}", word.word)).collect()
}

/// `a, b and c`
fn listed(items: &[String], last: &str) -> String {
    match items.split_last() {
        Some((end, before)) if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => items.concat(),
    }
}

fn of_section(section: Option<Section>) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.is_in_files() && setting.section == section)
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<_> = SETTINGS.iter().filter_map(|setting| setting.section).collect();
    sections.dedup();
    sections
}

/// The longest file that is read; what `/dev/zero` holds does not end.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the settings in `file`, as pairs of `MANX_OPTIONS`.
///
/// # Errors
/// With code 2 if it cannot be read or understood.
pub fn read(file: &Path) -> Result<String, Failure> {
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
type Located<'a> = Spanned<DeValue<'a>>;

struct Document<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Document<'_> {
    fn parse(&self) -> Result<String, Failure> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fault(span, error.message(), "correct the file: see https://toml.io for the syntax")
        })?;
        let mut text = String::new();
        self.section(table.get_ref(), None, &mut text)?;
        Ok(text)
    }

    fn section(
        &self,
        table: &DeTable<'_>,
        section: Option<Section>,
        text: &mut String,
    ) -> Result<(), Failure> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if let Some(setting) = of_section(section).find(|setting| setting.key == name) {
                push(text, setting, &self.value(setting, value)?);
            } else if let Some(inner) =
                sections().into_iter().find(|it| section.is_none() && it.table == name)
            {
                let DeValue::Table(table) = value.get_ref() else {
                    let help = format!("write [{name}], and its keys below");
                    return Err(self.fault(value.span(), format!("`{name}` is not a table"), help));
                };
                self.section(table, Some(inner), text)?;
            } else {
                return Err(self.unknown_key(name, key.span(), section));
            }
        }
        Ok(())
    }

    /// Reads a value, and writes it as it stands in `MANX_OPTIONS`.
    fn value(&self, setting: &Setting, value: &Located<'_>) -> Result<String, Failure> {
        let form = setting.form;
        if !matches!(form, Form::Words(..) | Form::Slos | Form::Entries) {
            return self.item(form, value);
        }
        let DeValue::Array(values) = value.get_ref() else {
            let [no_list, _, help] = expected(form);
            return Err(self.fault(value.span(), no_list, help));
        };
        let values: Result<Vec<_>, _> = values.iter().map(|value| self.item(form, value)).collect();
        Ok(values?.join("+"))
    }

    /// Reads a value that is no list, or one of a list.
    fn item(&self, form: Form, value: &Located<'_>) -> Result<String, Failure> {
        let text = match (form, value.get_ref()) {
            (Form::Switch, DeValue::Boolean(on)) => Some(on.to_string()),
            (Form::Thousandths, DeValue::Float(ratio)) => Some(ratio.as_str().to_owned()),
            (Form::Number | Form::Thousandths | Form::Cpus, DeValue::Integer(number)) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
            }
            (Form::Switch | Form::Number | Form::Thousandths, _) => None,
            (_, value) => value.as_str().map(str::to_owned),
        };
        let unfit = if matches!(form, Form::Thousandths) { "not a number" } else { "" };
        text.ok_or_else(|| unfit.to_owned()).and_then(|text| forms::read(form, &text)).map_err(|why| {
            let [_, what, help] = expected(form);
            // The reason of these is in the help already.
            let is_said = why.is_empty() || matches!(form, Form::Number | Form::Cpus);
            self.fault(value.span(), if is_said { what } else { format!("{what}: {why}") }, help)
        })
    }

    fn unknown_key(&self, key: &str, span: Range<usize>, section: Option<Section>) -> Failure {
        let (place, inner) = match section {
            Some(section) => (format!(" in [{}]", section.table), Vec::new()),
            None => (String::new(), sections()),
        };
        let tables = inner.iter().map(|section| section.table);
        let known: Vec<_> = of_section(section).map(|setting| setting.key).chain(tables).collect();
        let mut help = format!("the keys{place} are {}", known.join(", "));
        let likeness = |candidate: &&&str| (strsim::jaro_winkler(key, candidate) * 1e6) as u64;
        if let Some(nearest) = known.iter().max_by_key(likeness).filter(|n| likeness(n) > 700_000) {
            help.insert_str(0, &format!("the nearest key is `{nearest}`\n"));
        } else if let Some(section) =
            inner.iter().find(|section| of_section(Some(**section)).any(|setting| setting.key == key))
        {
            help.insert_str(0, &format!("`{key}` belongs below [{}]\n", section.table));
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

/// What is said of a value that is not what is expected: of what is no list, of the value, and what
/// to write.
fn expected(form: Form) -> [String; 3] {
    let (no_list, what, help) = match form {
        Form::Word(words, noun) => {
            let help = format!("allowed are {}, in quotation marks", listed(&quoted(words), "and"));
            return [String::new(), format!("not {noun}"), help];
        }
        Form::Words(words, noun) => {
            let words = quoted(words);
            let example = words.last().cloned().unwrap_or_default();
            let help = format!("allowed are {}, in brackets, as [{example}]", listed(&words, "and"));
            return [format!("not a list of {noun}s"), format!("not such a {noun}"), help];
        }
        Form::Number => {
            let help = format!("allowed are whole numbers from 0 to {}", u32::MAX);
            return [String::new(), "not a count".to_owned(), help];
        }
        Form::Cpus => {
            let help = format!(r#"allowed are "auto", "keep", and whole numbers from 1 to {}"#, Cpus::MAX);
            return [String::new(), "not a count of CPUs".to_owned(), help];
        }
        Form::Switch => ("", "neither true nor false", "allowed are true and false, without quotation marks"),
        Form::Microseconds => (
            "",
            "not a duration",
            r#"allowed are a number and its unit in quotation marks, as "100us" or "1ms""#,
        ),
        Form::Thousandths => ("", "not a ratio", "write as 3.75, without quotation marks"),
        Form::Cores => {
            ("", "not classes of cores", r#"write as "big:0-3,little:4-7", with the CPUs of this machine"#)
        }
        Form::Slos => (
            "not a list of latency targets",
            "not a latency target",
            r#"allowed are strings in brackets, as ["2ms@p99", "7=500us"]"#,
        ),
        Form::Entries => (
            "not a list of names",
            "not such a name",
            r#"allowed are strings in brackets, as ["mongod", "libfoo.so.1", "libbar.so*:spin", "libbar.so:0x1a2b"]"#,
        ),
        Form::Stats => (
            "",
            "not a destination for statistics",
            r#"allowed are a file's path, "stderr", "live" and "off", in quotation marks"#,
        ),
    };
    [no_list, what, help].map(str::to_owned)
}

/// Says a setting, by its value as in `MANX_OPTIONS`.
pub(super) fn push(text: &mut String, setting: &Setting, value: &str) {
    write!(text, ",{}={value}", setting.name).expect("writing to a String");
    if matches!(setting.form, Form::Stats) {
        // The file is this process's own, and no longer that of an outer `manx run`.
        text.push_str(",pid=0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::options::Options;

    fn parse(text: &str) -> Result<String, Failure> {
        Document { file: Path::new("m.toml"), text }.parse()
    }

    #[test]
    fn the_documented_file_has_each_key_and_its_default() {
        let documentation = documentation();
        let lines = documentation.lines().filter(|line| line.starts_with("    "));
        let example = lines.fold(String::new(), |all, line| all + line + "\n");
        let text = parse(&example).expect("the documented file");
        let read = Options::parse_all(text.as_bytes());
        assert_eq!(read.rejected, None);
        for setting in SETTINGS {
            let is_there = text.contains(&format!(",{}=", setting.name));
            assert_eq!(is_there, setting.is_in_files() || setting.name == "pid", "{}", setting.name);
            assert_eq!((setting.is_default)(&read), setting.example.is_empty(), "{}", setting.name);
        }
        assert_eq!(parse("").expect("an empty file"), "");
    }

    #[test]
    fn counts_of_cpus_are_numbers_or_words() {
        for (text, pair) in [
            ("cpus = 0x10", ",cpus=16"),
            ("cpus = \"3\"", ",cpus=3"),
            ("cpus = \"keep\"", ",cpus=keep"),
            ("cpus-also = [\"java\", \"affinity\"]", ",cpus_also=java+affinity"),
            ("wait.spins = 0x10", ",spins=16"),
        ] {
            assert_eq!(parse(text).expect(text), pair);
        }
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
            ("cpus-also = \"java\"", "1:13", "not a list", "[\"online\"]"),
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
