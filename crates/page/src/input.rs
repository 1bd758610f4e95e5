//! What a page is made from: the results of Manx's commands, known by their content.
//!
//! | result | how it is known | file |
//! | --- | --- | --- |
//! | `manx bench` | `"schema": "manx-bench"` | [`bench`] |
//! | `manx profile` | `"schema": "manx-profile"` | [`profile`] |
//! | `manx stats --json` | `"schema": "manx-stats"` | [`stats`] |
//! | `manx doctor --json` | `"schema": "manx-doctor"`, or a list of such | [`doctor`] |
//! | `manx doctor --json -- PROGRAM` | `"schema": "manx-doctor-pairs"` | [`doctor`] |
//!
//! Invariants:
//! 1. A reader takes what it knows and leaves the rest: fields that come later are no error, and a
//!    field that is missing is empty. A later version of a schema is an error, because its fields
//!    may mean something else.
//! 2. Strings lose what could mislead a reader of the page: control characters, and those that
//!    turn the direction of the text. Very long ones are cut. All else is escaped where it is
//!    written.

/// Structs of what a page reads: what a result lacks has its default, and what a later version adds
/// is passed over.
macro_rules! read {
    ($($(#[$its:meta])* struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$its])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default)]
        pub(crate) struct $name { $($(#[$of_field])* pub(crate) $field: $type,)* }
    )*};
}

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod latencies;
pub(crate) mod machine;
pub(crate) mod profile;
pub(crate) mod stats;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A result.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Bench(bench::Report),
    Profile(profile::Profile),
    /// One process, or several
    Doctor(Vec<doctor::Report>),
    /// A program as it is and under `manx run`
    Pairs(Box<doctor::Pairs>),
    Stats(Vec<stats::Stats>),
}

impl Kind {
    /// The command that wrote it.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            Kind::Bench(_) => "manx bench",
            Kind::Profile(_) => "manx profile",
            Kind::Doctor(_) => "manx doctor",
            Kind::Pairs(_) => "manx doctor -- PROGRAM",
            Kind::Stats(_) => "manx stats",
        }
    }
}

/// Why a text is no result, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong
    pub what: String,
    /// What to do
    pub help: String,
}

impl Fault {
    fn new(what: impl Into<String>, help: &str) -> Fault {
        Fault { what: what.into(), help: help.into() }
    }
}

const GIVE: &str = "give a file that `manx bench --json`, `manx profile --json`, `manx doctor --json` or \
                    `manx stats --json` wrote";
const WHOLE: &str = "the file is damaged, or was changed: write it again";

/// A result and its JSON, as the page keeps it for download.
pub(crate) fn read(text: &str) -> Result<(Kind, Value), Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new(
            "it is empty",
            "the command that was to write it has written nothing: run it again",
        ));
    }
    let mut value: Value = serde_json::from_str(text).map_err(|error| {
        let help = if error.is_eof() { WHOLE } else { GIVE };
        Fault::new(format!("no JSON: {error}"), help)
    })?;
    let whole = value.clone();
    clean(&mut value);
    Ok((kind(value)?, whole))
}

fn kind(value: Value) -> Result<Kind, Fault> {
    if let Value::Array(list) = value {
        return several(list);
    }
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default().to_owned();
    match schema.as_str() {
        "manx-bench" => Ok(Kind::Bench(of(value, &schema, 2)?)),
        "manx-profile" => Ok(Kind::Profile(of(value, &schema, 1)?)),
        "manx-stats" => Ok(Kind::Stats(vec![of(value, &schema, 1)?])),
        "manx-doctor" => Ok(Kind::Doctor(vec![of(value, &schema, 1)?])),
        "manx-doctor-pairs" => Ok(Kind::Pairs(of(value, &schema, 1)?)),
        "" if value.is_object() => Err(Fault::new("the JSON is no result of Manx: it has no `schema`", GIVE)),
        "" => Err(Fault::new("the JSON is no result of Manx: it is neither an object nor a list", GIVE)),
        other => Err(Fault::new(format!("schema '{}' is not known", brief(other)), GIVE)),
    }
}

/// A list of results of one kind.
fn several(list: Vec<Value>) -> Result<Kind, Fault> {
    if list.is_empty() {
        return Err(Fault::new("it is an empty list", "watch a process that runs"));
    }
    let (mut doctors, mut stats) = (Vec::new(), Vec::new());
    for (at, value) in list.into_iter().enumerate() {
        let in_list = |fault: Fault| Fault { what: format!("entry {}: {}", at + 1, fault.what), ..fault };
        match kind(value).map_err(in_list)? {
            Kind::Doctor(one) => doctors.extend(one),
            Kind::Stats(one) => stats.extend(one),
            _ => return Err(Fault::new("a list of this kind is not known", "give each result as a file")),
        }
    }
    match (doctors.is_empty(), stats.is_empty()) {
        (false, true) => Ok(Kind::Doctor(doctors)),
        (true, false) => Ok(Kind::Stats(stats)),
        _ => Err(Fault::new("it is a list of several kinds", "give each result as a file")),
    }
}

/// A result, unless its version is later than `version_max`.
fn of<T: DeserializeOwned>(value: Value, schema: &str, version_max: u64) -> Result<T, Fault> {
    let version = value.get("version").and_then(Value::as_u64);
    match version {
        Some(version) if version > version_max => Err(Fault::new(
            format!("{schema} version {version}: versions up to {version_max} are known here"),
            "use the `manx report` of the Manx that wrote it, or a later one",
        )),
        None if version_max > 1 => Err(Fault::new(format!("{schema} without a version"), WHOLE)),
        _ => parsed(value, schema),
    }
}

fn parsed<T: DeserializeOwned>(value: Value, what: &str) -> Result<T, Fault> {
    serde_json::from_value(value)
        .map_err(|error| Fault::new(format!("no whole result of {what}: {error}"), WHOLE))
}

/// The beginning of a word, short enough for an error message.
fn brief(word: &str) -> String {
    word.chars().take(40).collect()
}

/// Strings are cut after this number of characters.
const CHARACTERS_MAX: usize = 2_000;
/// The member whose strings are not cut: they have one character for each look at a process.
const STATES: &str = "states";

/// Replaces what could mislead a reader (Invariant 2), in strings and in names of members.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > CHARACTERS_MAX || text.chars().any(misleads) => {
            *text = cleaned(text)
        }
        Value::Array(list) => list.iter_mut().for_each(clean),
        Value::Object(members) => {
            if members.keys().any(|key| key.chars().any(misleads)) {
                *members =
                    std::mem::take(members).into_iter().map(|(key, value)| (cleaned(&key), value)).collect();
            }
            members.iter_mut().filter(|(key, _)| *key != STATES).for_each(|(_, value)| clean(value));
        }
        _ => {}
    }
}

/// A text without what could mislead a reader, cut if it is too long.
pub(crate) fn cleaned(text: &str) -> String {
    let mut characters = text.chars();
    let shown = characters.by_ref().take(CHARACTERS_MAX);
    let mut cleaned: String =
        shown.map(|character| if misleads(character) { '\u{fffd}' } else { character }).collect();
    cleaned.extend(characters.next().map(|_| '…'));
    cleaned
}

/// Whether a character could mislead a reader: it turns the direction of text, or controls a
/// terminal. Line ends and tabs do not.
fn misleads(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control() && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let fault = read(text).unwrap_err();
        assert!(!fault.help.is_empty());
        fault.what
    }

    #[test]
    fn a_file_that_is_no_result_is_refused_with_the_reason() {
        for (text, expected) in [
            ("", "it is empty"),
            ("  \n", "it is empty"),
            ("{", "no JSON: EOF"),
            ("7", "it is neither an object nor a list"),
            ("{}", "it has no `schema`"),
            ("[]", "it is an empty list"),
            ("[7]", "entry 1: the JSON is no result"),
            (r#"{"schema": "other"}"#, "schema 'other' is not known"),
            (r#"{"schema": "manx-bench"}"#, "manx-bench without a version"),
            (r#"{"schema": "manx-bench", "version": 3}"#, "versions up to 2 are known"),
            (
                r#"{"schema": "manx-bench", "version": 2, "runs": 7}"#,
                "no whole result of manx-bench: invalid type",
            ),
            (r#"[{"schema": "manx-doctor"}, {"schema": "manx-stats"}]"#, "several kinds"),
            (r#"[{"schema": "manx-doctor-pairs"}]"#, "a list of this kind"),
        ] {
            assert!(fault(text).contains(expected), "{text}: {}", fault(text));
        }
        assert!(fault(&"[".repeat(100_000)).contains("recursion"));
    }

    #[test]
    fn each_kind_is_known_by_its_content() {
        for (text, command) in [
            (r#"{"schema": "manx-bench", "version": 2}"#, "manx bench"),
            (r#"{"schema": "manx-profile", "version": 1}"#, "manx profile"),
            (r#"{"schema": "manx-stats", "version": 1}"#, "manx stats"),
            (r#"{"schema": "manx-doctor", "evidence": {"later": 1}}"#, "manx doctor"),
            (r#"[{"schema": "manx-doctor"}]"#, "manx doctor"),
            (r#"{"schema": "manx-doctor-pairs"}"#, "manx doctor -- PROGRAM"),
        ] {
            assert_eq!(read(text).unwrap().0.command(), command);
        }
    }

    #[test]
    fn a_name_does_not_turn_the_text() {
        let (kind, whole) = read("{\"schema\": \"manx-stats\", \"program\": \"a\\u202eb\\u0007c\"}").unwrap();
        let Kind::Stats(stats) = kind else { panic!("{kind:?}") };
        assert_eq!(stats[0].program, "a\u{fffd}b\u{fffd}c");
        assert_eq!(whole["program"], "a\u{202e}b\u{7}c");
    }
}
