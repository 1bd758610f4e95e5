//! Results with anything in them: never a panic, never a page that is too large.

mod common;

use common::{RESULTS, page_of, result};
use page::{BYTES_MAX, Options};
use proptest::prelude::*;
use serde_json::Value;

/// A value of any kind, with numbers at the ends of what they can be.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1e-9, 1e18]).prop_map(Value::from),
        prop::sample::select(vec![0, 1, u64::MAX, u64::MAX - 1, i64::MAX as u64]).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::from("rqsdwlAZ \u{0}é")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<u64>(), any::<u64>()), 0..8).prop_map(|pairs| {
                Value::from(
                    pairs
                        .into_iter()
                        .map(|(value, count)| Value::from(vec![value, count]))
                        .collect::<Vec<_>>(),
                )
            }),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every value in a result, counted; the one in this place is replaced.
fn put(value: &mut Value, place: &mut usize, new: &Value) {
    if *place == 0 {
        *value = new.clone();
        *place = usize::MAX;
        return;
    }
    *place -= usize::from(*place != usize::MAX);
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| put(one, place, new)),
        Value::Object(members) => members.values_mut().for_each(|one| put(one, place, new)),
        _ => {}
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn check(results: &[(&str, &str)], compare: bool) {
    match page_of(results, &Options { title: None, compare }) {
        Ok(page) => assert!(page.len() <= BYTES_MAX && page.ends_with("</html>")),
        Err(fault) => assert!(!fault.is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if testing::full() { 4000 } else { 150 }))]

    #[test]
    fn a_result_with_odd_values(
        which in 0..RESULTS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), anything()), 1..5),
    ) {
        let whole = result(RESULTS[which]);
        let mut odd: Value = serde_json::from_str(&whole).unwrap();
        for (place, new) in changes {
            let mut place = place.index(size(&odd));
            put(&mut odd, &mut place, &new);
        }
        let odd = odd.to_string();
        check(&[("odd.json", &odd)], false);
        check(&[("whole.json", &whole), ("odd.json", &odd)], true);
        check(&[("odd.json", &odd), ("whole.json", &whole)], true);
    }

    #[test]
    fn a_result_that_was_cut_off(which in 0..RESULTS.len(), at: prop::sample::Index) {
        let whole = result(RESULTS[which]);
        let end = (0..=at.index(whole.len())).rev().find(|end| whole.is_char_boundary(*end)).unwrap_or(0);
        check(&[("cut.json", &whole[..end])], false);
    }

    #[test]
    fn any_json(value in anything(), schema in prop::sample::select(vec!["manx-bench", "manx-profile", "manx-stats", "x"])) {
        check(&[("any.json", &value.to_string())], false);
        if let Value::Object(mut members) = value {
            members.insert("schema".into(), schema.into());
            members.insert("version".into(), 1.into());
            check(&[("any.json", &Value::Object(members).to_string())], false);
        }
    }
}
