//! The protobuf format of Prometheus: messages `io.prometheus.client.MetricFamily`, each preceded
//! by its length. Only this format carries native histograms.
//!
//! Few fields are needed, so they are written by hand (`metrics.proto` of
//! `prometheus/client_model`):
//!
//! | message | fields: number and type |
//! | --- | --- |
//! | `MetricFamily` | name 1 string, help 2 string, type 3 enum, metric 4 message |
//! | `Metric` | label 1, gauge 2, counter 3, histogram 7: messages |
//! | `LabelPair` | name 1, value 2: strings |
//! | `Gauge`, `Counter` | value 1 double |
//! | `Histogram` | sample_count 1 uint64, sample_sum 2 double, schema 5 sint32, zero_threshold 6 double, zero_count 7 uint64, positive_span 12 message, positive_delta 13 sint64 (packed) |
//! | `BucketSpan` | offset 1 sint32, length 2 uint32 |
//!
//! **Buckets.** Bucket `i` of a native histogram of schema 3 ends at 2^(i/8) seconds. So ours has
//! the index `i + 8 × FIRST_EXPONENT`. Our first bucket has all up to 2^-20 s: it is the zero
//! bucket, whose threshold is that. Our last one has no end. It gets the next index, so Prometheus
//! shows it as 64 to 70 s.

use crate::metric::{Family, Histogram, Kind, Sample, Value, seconds};
use preload_abi::histogram::{BUCKETS_PER_DOUBLING, FIRST_EXPONENT, SCHEMA};

/// Index of our bucket 0 among those of Prometheus.
const FIRST_INDEX: i32 = FIRST_EXPONENT * BUCKETS_PER_DOUBLING as i32;

/// The fields of a message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn uint(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// A number with a sign, so that small ones are short.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Writes all families that have samples.
///
/// ```
/// use exporter::metric::{Description, Family, Kind};
///
/// const UP: Description =
///     Description { name: "up", kind: Kind::Gauge, unit: "", labels: &[], help: "" };
/// let mut family = Family::new(&UP);
/// family.number(&[], 1.0);
/// let bytes = exporter::protobuf::write(&[family]);
/// assert_eq!(&bytes[..6], [21, 10, 2, b'u', b'p', 18], "the length, then field 1");
/// ```
pub fn write(families: &[Family]) -> Vec<u8> {
    let mut out = Message::default();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let message = family_message(family).0;
        out.varint(message.len() as u64);
        out.0.extend_from_slice(&message);
    }
    out.0
}

fn family_message(family: &Family) -> Message {
    let (described, mut message) = (family.description, Message::default());
    let (suffix, kind) = match described.kind {
        Kind::Counter => ("_total", 0),
        Kind::Gauge => ("", 1),
        Kind::Histogram => ("", 4),
    };
    message.bytes(1, format!("{}{suffix}", described.name).as_bytes());
    message.bytes(2, described.help.as_bytes());
    message.uint(3, kind);
    for sample in &family.samples {
        message.bytes(4, &metric(family, sample).0);
    }
    message
}

/// One sample as a message `Metric`.
fn metric(family: &Family, sample: &Sample) -> Message {
    let mut metric = Message::default();
    for (name, value) in family.description.labels.iter().zip(&sample.labels) {
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.bytes(2, value.as_bytes());
        metric.bytes(1, &pair.0);
    }
    match &sample.value {
        Value::Number(number) => {
            let mut value = Message::default();
            value.double(1, *number);
            metric.bytes(if family.description.kind == Kind::Counter { 3 } else { 2 }, &value.0);
        }
        Value::Histogram(histogram) => metric.bytes(7, &native(histogram).0),
    }
    metric
}

fn native(histogram: &Histogram) -> Message {
    let counts = &histogram.counts;
    let mut message = Message::default();
    message.uint(1, counts.count());
    message.double(2, seconds(histogram.sum_ns));
    message.uint(5, zigzag(i64::from(SCHEMA)));
    message.double(6, f64::from(FIRST_EXPONENT).exp2());
    message.uint(7, counts.0[0]);
    // Runs of buckets that are not empty. A span's offset counts from the end of the one before.
    let (mut deltas, mut before) = (Message::default(), 0);
    let mut end = 0;
    let mut bucket = 1;
    while bucket < counts.0.len() {
        let length = counts.0[bucket..].iter().take_while(|count| **count > 0).count();
        if length == 0 {
            bucket += 1;
            continue;
        }
        let index = FIRST_INDEX + bucket as i32;
        let mut span = Message::default();
        span.uint(1, zigzag(i64::from(index - end)));
        span.uint(2, length as u64);
        message.bytes(12, &span.0);
        for &count in &counts.0[bucket..bucket + length] {
            deltas.varint(zigzag(count as i64 - before));
            before = count as i64;
        }
        end = index + length as i32;
        bucket += length;
    }
    if deltas.0.is_empty() {
        // A span without buckets says that the histogram is a native one.
        let mut span = Message::default();
        span.uint(1, 0);
        span.uint(2, 0);
        message.bytes(12, &span.0);
    } else {
        message.bytes(13, &deltas.0);
    }
    message
}
