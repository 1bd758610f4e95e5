//! The machine of a result, in words.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Where something was measured. All fields are shown, those that come later under their names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Fields whose names are not what people call them.
const NAMES: [(&str, &str); 10] = [
    ("processor", "processor"),
    ("cpus", "CPUs"),
    ("kernel", "kernel"),
    ("commit", "commit"),
    ("c_library", "C library"),
    ("governor", "governor"),
    ("smt", "SMT"),
    ("steal_percent", "steal"),
    ("load", "load"),
    ("load_average", "load"),
];

impl Machine {
    /// The name of each fact and the fact, the known ones first; those that every result should
    /// have are `unknown` if they are missing.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        if self.fields.is_empty() {
            return Vec::new();
        }
        let known = NAMES.iter().filter_map(|(field, name)| match self.fields.get(*field) {
            Some(value) => Some(((*name).to_owned(), fact(field, value))),
            None if field.starts_with("load") => None,
            None => Some(((*name).to_owned(), "unknown".to_owned())),
        });
        let others = self.fields.iter().filter(|(field, _)| !NAMES.iter().any(|(known, _)| known == field));
        let others = others.filter(|(_, value)| !value.is_object());
        known.chain(others.map(|(field, value)| (field.replace('_', " "), fact(field, value)))).collect()
    }
}

fn fact(field: &str, value: &Value) -> String {
    match value {
        Value::Null => "unknown".into(),
        Value::Bool(on) => if *on { "on" } else { "off" }.into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if field.ends_with("_percent") => {
            format!("{:.1} %", number.as_f64().unwrap_or(f64::NAN))
        }
        Value::Array(list) => list.iter().map(|one| fact(field, one)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_facts_come_first_and_later_ones_are_shown() {
        let machine: Machine = serde_json::from_str(
            r#"{"cpus": 2, "smt": false, "steal_percent": 0.25, "load": [1.5, 2], "huge_pages": "never"}"#,
        )
        .unwrap();
        let facts = machine.facts();
        let of = |name: &str| facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.as_str());
        assert_eq!((of("processor"), of("CPUs"), of("SMT")), (Some("unknown"), Some("2"), Some("off")));
        assert_eq!((of("steal"), of("load")), (Some("0.2 %"), Some("1.5, 2")));
        assert_eq!(facts.last().unwrap(), &("huge pages".to_owned(), "never".to_owned()));
        assert!(Machine::default().facts().is_empty());
    }
}
