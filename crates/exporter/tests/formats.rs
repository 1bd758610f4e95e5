//! The formats, read back by parsers that share no code with the writers.

use exporter::metric::{Description, Family, Histogram, Kind, Value};
use exporter::protobuf;
use exporter::text::{Dialect, write};
use preload_abi::histogram::{BUCKETS, Counts, upper_ns};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

static COUNTER: Description = Description {
    name: "a_seconds",
    kind: Kind::Counter,
    unit: "seconds",
    labels: &["program"],
    help: "Some \"help\" with a \\ and\na line.",
};
static GAUGE: Description =
    Description { name: "b", kind: Kind::Gauge, unit: "", labels: &["program", "state"], help: "B." };
static HISTOGRAM: Description = Description {
    name: "c_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    labels: &["program", "lock"],
    help: "C.",
};

/// The labels of a sample by their names.
type Labels = BTreeMap<String, String>;

/// A sample as a parser sees it: its name, its labels, its value.
type Parsed = (String, Labels, f64);

/// Reads OpenMetrics character by character, and insists on its rules: what describes a family
/// comes before its samples, families do not mix, and `# EOF` ends it.
fn parse_openmetrics(text: &str) -> Vec<Parsed> {
    let body = text.strip_suffix("# EOF\n").expect("an end");
    assert!(body.is_empty() || body.ends_with('\n'));
    let (mut samples, mut families) = (Vec::new(), Vec::new());
    for line in body.split_terminator('\n') {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name) = (words.next().unwrap(), words.next().unwrap());
            if what == "TYPE" {
                assert!(!families.contains(&name.to_owned()), "{name} stands twice");
                families.push(name.to_owned());
            } else {
                assert!(["HELP", "UNIT"].contains(&what), "{line}");
                assert_eq!(families.last().unwrap(), name);
            }
            continue;
        }
        let sample = sample(line);
        let family = families.last().unwrap();
        let suffix = sample.0.strip_prefix(family.as_str()).expect("of the family before it");
        assert!(["", "_total", "_bucket", "_sum", "_count"].contains(&suffix), "{line}");
        samples.push(sample);
    }
    samples
}

fn sample(line: &str) -> Parsed {
    let mut rest = line.chars().peekable();
    let mut name = String::new();
    while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    let mut labels = BTreeMap::new();
    if rest.next_if_eq(&'{').is_some() {
        loop {
            let mut label = String::new();
            while let Some(c) = rest.next_if(|c| *c != '=') {
                label.push(c);
            }
            assert_eq!((rest.next(), rest.next()), (Some('='), Some('"')), "{line}");
            let mut value = String::new();
            loop {
                match rest.next().expect("a quotation mark") {
                    '"' => break,
                    '\\' => match rest.next().expect("what is escaped") {
                        'n' => value.push('\n'),
                        c @ ('"' | '\\') => value.push(c),
                        c => panic!("`\\{c}` in {line}"),
                    },
                    c => value.push(c),
                }
            }
            assert_eq!(labels.insert(label, value), None);
            match rest.next() {
                Some(',') => {}
                Some('}') => break,
                other => panic!("{other:?} in {line}"),
            }
        }
    }
    assert_eq!(rest.next(), Some(' '), "{line}");
    let value: String = rest.collect();
    (name, labels, value.parse().expect("a number"))
}

/// The fields of a message: their numbers, and their values as bytes or numbers.
#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().expect("more bytes");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (double, rest) = bytes.split_first_chunk::<8>().expect("eight bytes");
                bytes = rest;
                Field::Double(f64::from_le_bytes(*double))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(part)
            }
            wire => panic!("wire type {wire}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn signed(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}

/// What a native histogram says: its counts by the index of the bucket, the number of durations,
/// their sum, and how many are in the zero bucket.
#[derive(Debug, Default, PartialEq)]
struct Native {
    counts: BTreeMap<i64, u64>,
    count: u64,
    sum: f64,
    zero: u64,
}

fn native(bytes: &[u8]) -> Native {
    let (mut native, mut spans, mut deltas) = (Native::default(), Vec::new(), Vec::new());
    for field in fields(bytes) {
        match field {
            (1, Field::Number(count)) => native.count = count,
            (2, Field::Double(sum)) => native.sum = sum,
            (5, Field::Number(schema)) => assert_eq!(signed(schema), 3),
            (6, Field::Double(threshold)) => assert_eq!(threshold, 2.0_f64.powi(-20)),
            (7, Field::Number(zero)) => native.zero = zero,
            (12, Field::Bytes(span)) => {
                let (mut offset, mut length) = (0, 0);
                for field in fields(span) {
                    match field {
                        (1, Field::Number(number)) => offset = signed(number),
                        (2, Field::Number(number)) => length = number,
                        other => panic!("{other:?}"),
                    }
                }
                spans.push((offset, length));
            }
            (13, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    deltas.push(signed(varint(&mut packed)));
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!spans.is_empty(), "without a span it would be taken for a classic histogram");
    let (mut index, mut value) = (0, 0);
    let mut deltas = deltas.into_iter();
    for (offset, length) in spans {
        index += offset;
        for _ in 0..length {
            value += deltas.next().expect("a delta for each bucket");
            native.counts.insert(index, value as u64);
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    native
}

/// A sample of the protobuf format: its labels, and a number or a histogram.
type Decoded = (Labels, Result<f64, Native>);

/// The families of the protobuf format: name, type, samples.
fn parse_protobuf(mut bytes: &[u8]) -> Vec<(String, u64, Vec<Decoded>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut families = Vec::new();
    while !bytes.is_empty() {
        let length = varint(&mut bytes) as usize;
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        let (mut name, mut kind, mut samples) = (String::new(), 0, Vec::new());
        for field in fields(message) {
            match field {
                (1, Field::Bytes(it)) => name = text(it),
                (2, Field::Bytes(_)) => {}
                (3, Field::Number(it)) => kind = it,
                (4, Field::Bytes(metric)) => {
                    let (mut labels, mut value) = (Labels::new(), None);
                    for field in fields(metric) {
                        match field {
                            (1, Field::Bytes(pair)) => {
                                let [(1, Field::Bytes(label)), (2, Field::Bytes(of))] = fields(pair)[..]
                                else {
                                    panic!("no pair")
                                };
                                labels.insert(text(label), text(of));
                            }
                            (2 | 3, Field::Bytes(number)) => {
                                let [(1, Field::Double(number))] = fields(number)[..] else {
                                    panic!("no number")
                                };
                                value = Some(Ok(number));
                            }
                            (7, Field::Bytes(histogram)) => value = Some(Err(native(histogram))),
                            other => panic!("{other:?}"),
                        }
                    }
                    samples.push((labels, value.expect("a value")));
                }
                other => panic!("{other:?}"),
            }
        }
        families.push((name, kind, samples));
    }
    families
}

fn some_histogram() -> impl Strategy<Value = Histogram> {
    let bucket = (0..BUCKETS, 1..1_000_000_u64);
    (proptest::collection::vec(bucket, 0..40), 0..u64::from(u32::MAX)).prop_map(|(filled, sum_ns)| {
        let mut counts = Counts::default();
        filled.into_iter().for_each(|(bucket, count)| counts.0[bucket] += count);
        Histogram { counts, sum_ns }
    })
}

fn all_families(names: &BTreeSet<String>, numbers: &[f64], histogram: &Histogram) -> Vec<Family> {
    let mut families = [&COUNTER, &GAUGE, &HISTOGRAM].map(Family::new);
    for (at, name) in names.iter().enumerate() {
        let number = numbers.get(at).copied().unwrap_or(0.0);
        families[0].number(&[name], number);
        families[1].number(&[name, "x"], -number);
        families[2].histogram(&[name, "lock\"\\\n"], histogram.clone());
    }
    families.into()
}

proptest! {
    #[test]
    fn openmetrics_is_read_back_as_it_was(
        names in proptest::collection::btree_set(any::<String>(), 0..4),
        numbers in proptest::collection::vec(0.0..1e12, 4),
        histogram in some_histogram(),
    ) {
        let families = all_families(&names, &numbers, &histogram);
        let parsed = parse_openmetrics(&write(&families, Dialect::OpenMetrics));
        let mut expected = 0;
        for family in &families {
            for sample in &family.samples {
                let of_sample = |parsed: &&Parsed| {
                    let names = family.description.labels.iter();
                    parsed.0.starts_with(family.description.name)
                        && names.zip(&sample.labels).all(|(name, value)| parsed.1.get(*name) == Some(value))
                };
                let found: Vec<&Parsed> = parsed.iter().filter(of_sample).collect();
                prop_assert!(!found.is_empty(), "{:?}", sample.labels);
                match &sample.value {
                    Value::Number(number) => prop_assert_eq!(found[0].2, *number),
                    Value::Histogram(_) => {
                        let bounded = found.iter().filter_map(|it| Some((it.1.get("le")?, it.2)));
                        for (le, below) in bounded {
                            let bound: f64 = le.parse().unwrap();
                            let counted = histogram.counts.0.iter().enumerate();
                            let expected = counted.filter(|(bucket, _)| {
                                bound.is_infinite() || upper_ns(*bucket) as f64 <= bound * 1e9
                            });
                            prop_assert_eq!(expected.map(|(_, count)| count).sum::<u64>() as f64, below);
                        }
                    }
                }
                expected += match sample.value { Value::Number(_) => 1, Value::Histogram(_) => 27 + 1 + 2 };
            }
        }
        prop_assert_eq!(parsed.len(), expected);
    }

    #[test]
    fn protobuf_is_read_back_as_it_was(
        names in proptest::collection::btree_set(any::<String>(), 1..4),
        numbers in proptest::collection::vec(0.0..1e12, 4),
        histogram in some_histogram(),
    ) {
        let families = all_families(&names, &numbers, &histogram);
        let parsed = parse_protobuf(&protobuf::write(&families));
        let heads: Vec<(&str, u64)> = parsed.iter().map(|(name, kind, _)| (name.as_str(), *kind)).collect();
        prop_assert_eq!(heads, [("a_seconds_total", 0), ("b", 1), ("c_seconds", 4)]);
        for (family, (_, _, samples)) in families.iter().zip(&parsed) {
            prop_assert_eq!(family.samples.len(), samples.len());
            for (sample, (labels, value)) in family.samples.iter().zip(samples) {
                let expected: Labels = family.description.labels.iter().map(|it| (*it).to_owned())
                    .zip(sample.labels.iter().cloned()).collect();
                prop_assert_eq!(&expected, labels);
                match (&sample.value, value) {
                    (Value::Number(number), Ok(read)) => prop_assert_eq!(number, read),
                    (Value::Histogram(_), Err(read)) => {
                        prop_assert_eq!(read.count, histogram.counts.count());
                        prop_assert_eq!(read.zero, histogram.counts.0[0]);
                        prop_assert_eq!(read.counts.values().sum::<u64>() + read.zero, read.count);
                        for (index, count) in &read.counts {
                            // Bucket `index` of Prometheus ends at 2^(index / 8) seconds.
                            let end_ns = (*index as f64 / 8.0).exp2() * 1e9;
                            let bucket = (index + 160) as usize;
                            prop_assert_eq!(histogram.counts.0[bucket], *count);
                            let ours_ns = upper_ns(bucket) as f64;
                            prop_assert!(bucket == BUCKETS - 1 || (ours_ns - end_ns).abs() <= 1.0 + end_ns * 1e-9);
                        }
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

#[test]
fn the_old_format_names_counters_as_their_samples_and_has_no_end() {
    let mut family = Family::new(&COUNTER);
    family.number(&["x"], 1.5);
    assert_eq!(
        write(&[family], Dialect::Prometheus),
        "# TYPE a_seconds_total counter\n\
         # HELP a_seconds_total Some \"help\" with a \\\\ and\\na line.\n\
         a_seconds_total{program=\"x\"} 1.5\n"
    );
}

#[test]
fn an_empty_histogram_is_a_native_one() {
    let mut family = Family::new(&HISTOGRAM);
    family.histogram(&["p", "l"], Histogram::default());
    let parsed = parse_protobuf(&protobuf::write(&[family]));
    assert_eq!(parsed[0].2[0].1.as_ref().unwrap_err(), &Native::default());
}
