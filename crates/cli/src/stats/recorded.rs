//! The JSON that a program left, as the image of a live file, so that one definition renders both.

use host::image::Image;
use preload_abi::histogram::{Counts, bucket_of};
use preload_abi::live::{
    self, CAPACITY, Cure, EPOCHS, EPOCHS_AT, Epoch, EpochName, FORMAT, Header, How, Kind, LOCKS, LOCKS_AT,
    Lock, MAGIC, PASSED_ON, REQUESTS_ID, Site, Trial,
};
use preload_abi::render::{JSON_SCHEMA, JSON_VERSION};
use serde::Deserialize;
use std::mem::offset_of;

/// The clock of an image that is built from JSON, whose times are in nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// Builds the image that `text`, JSON, describes.
///
/// # Errors
/// Why it cannot.
pub fn image_of(text: &[u8]) -> Result<Image, String> {
    let label: Label = serde_json::from_slice(text).map_err(|_| "not a statistics file of Manx")?;
    if label.schema != JSON_SCHEMA {
        return Err("not a statistics file of Manx".to_owned());
    }
    if label.version != JSON_VERSION {
        return Err(format!(
            "written by another version of Manx: its schema is {}, this manx reads {JSON_VERSION}",
            label.version
        ));
    }
    let recorded: Recorded =
        serde_json::from_slice(text).map_err(|error| format!("a damaged statistics file: {error}"))?;
    if recorded.sites.len() > CAPACITY {
        return Err(format!("a damaged statistics file: more than {CAPACITY} sites"));
    }
    if recorded.locks.len() > LOCKS {
        return Err(format!("a damaged statistics file: more than {LOCKS} locks"));
    }
    if recorded.epochs.len() > EPOCHS {
        return Err(format!("a damaged statistics file: more than {EPOCHS} epochs"));
    }
    Ok(recorded.image())
}

fn put(image: &mut Image, offset: usize, bytes: &[u8]) {
    image.bytes()[offset..][..bytes.len()].copy_from_slice(bytes);
}

fn put_numbers<const N: usize>(image: &mut Image, base: usize, numbers: [(usize, u64); N]) {
    numbers.into_iter().for_each(|(offset, number)| put(image, base + offset, &number.to_ne_bytes()));
}

/// Puts the counts of buckets, told by where each ends. Buckets that no version wrote are put
/// together.
fn put_histogram(image: &mut Image, offset: usize, buckets: &[(u64, u64)]) {
    let mut counts = Counts::default();
    for &(end_ns, count) in buckets {
        let place = &mut counts.0[bucket_of(end_ns)];
        *place = place.saturating_add(count);
    }
    for (bucket, count) in counts.0.iter().enumerate() {
        put(image, offset + bucket * size_of::<u64>(), &count.to_ne_bytes());
    }
}

/// Puts `text` into a field of `room` bytes, whole characters only.
fn put_name(image: &mut Image, offset: usize, room: usize, text: &str) {
    put(image, offset, &text.as_bytes()[..text.floor_char_boundary(room)]);
}

/// What any version of the JSON begins with.
#[derive(Deserialize)]
struct Label {
    schema: String,
    version: u32,
}

/// The JSON of [`preload_abi::render::json`].
#[derive(Deserialize)]
struct Recorded {
    program: String,
    pid: u32,
    state: String,
    started_unix_ms: u64,
    modules: u64,
    text_bytes: u64,
    scans: u64,
    scan_ns: u64,
    sites_dropped: u64,
    sites: Vec<RecordedSite>,
    // Older versions of Manx had no such cache.
    #[serde(default)]
    modules_cached: u64,
    // Versions of Manx that knew no locks wrote neither.
    #[serde(default)]
    lock_waits_dropped: u64,
    #[serde(default)]
    locks: Vec<RecordedLock>,
    // Versions of Manx that did not count them.
    #[serde(default)]
    mutexes_passed_on: usize,
    // Versions of Manx that did not record epochs.
    #[serde(default)]
    epochs_dropped: u64,
    #[serde(default)]
    epochs: Vec<RecordedEpoch>,
    // Versions of Manx that did not ask the program.
    #[serde(default)]
    trials: Vec<RecordedTrial>,
}

#[derive(Deserialize)]
struct RecordedTrial {
    waits: String,
    cured: bool,
    kept: u32,
    dropped: u32,
    work_as_written_ns: u64,
    work_cured_ns: u64,
}

#[derive(Deserialize)]
struct RecordedSite {
    module: String,
    symbol: Option<String>,
    offset: u64,
    how: String,
    reason: Option<String>,
    waits: u64,
    visits: u64,
    yields: u64,
    sleeps: u64,
    waited_ns: Option<u64>,
    longest_ns: Option<u64>,
}

#[derive(Deserialize)]
struct RecordedLock {
    address: u64,
    kind: String,
    module: Option<String>,
    symbol: Option<String>,
    offset: u64,
    waits: u64,
    hand_overs: u64,
    overdue: u64,
    waited_ns: Option<u64>,
    longest_ns: Option<u64>,
    #[serde(default)]
    wait_histogram: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct RecordedEpoch {
    name: String,
    missed: u64,
    target_ns: u64,
    percentile: f64,
    total_ns: u64,
    longest_ns: u64,
    span_ns: Option<u64>,
    latency_histogram: Vec<(u64, u64)>,
}

impl Recorded {
    fn image(&self) -> Image {
        let mut image = Image::default();
        let state = if self.state == "ended" { live::ENDED } else { live::RUNNING };
        // One clock for all: a file whose times are not known has none in any site or lock.
        let timed = self.sites.iter().all(|site| site.waited_ns.is_some())
            && self.locks.iter().all(|lock| lock.waited_ns.is_some());
        for (offset, value) in [
            (offset_of!(Header, format), FORMAT),
            (offset_of!(Header, pid), self.pid),
            (offset_of!(Header, state), state),
            (offset_of!(Header, sites), self.sites.len() as u32),
        ] {
            put(&mut image, offset, &value.to_ne_bytes());
        }
        let numbers = [
            (offset_of!(Header, magic), MAGIC),
            (offset_of!(Header, started_ns), self.started_unix_ms.saturating_mul(1_000_000)),
            (offset_of!(Header, ticks_per_second), if timed { TICKS_PER_SECOND } else { 0 }),
            (offset_of!(Header, modules), self.modules),
            (offset_of!(Header, text_bytes), self.text_bytes),
            (offset_of!(Header, scan_ns), self.scan_ns),
            (offset_of!(Header, scans), self.scans),
            (offset_of!(Header, dropped), self.sites_dropped),
            (offset_of!(Header, cached), self.modules_cached),
            (offset_of!(Header, lock_waits_dropped), self.lock_waits_dropped),
            (offset_of!(Header, epochs_dropped), self.epochs_dropped),
        ];
        put_numbers(&mut image, 0, numbers);
        put_name(&mut image, offset_of!(Header, program), 512, &self.program);
        for index in 0..self.mutexes_passed_on.min(PASSED_ON) {
            // Any address: they are only counted.
            let address = index as u64 + 1;
            put(&mut image, offset_of!(Header, passed_on) + index * size_of::<u64>(), &address.to_ne_bytes());
        }
        for trial in &self.trials {
            trial.put(&mut image);
        }
        for (index, site) in self.sites.iter().enumerate() {
            site.put(&mut image, size_of::<Header>() + index * size_of::<Site>());
        }
        for (index, lock) in self.locks.iter().enumerate() {
            lock.put(&mut image, LOCKS_AT + index * size_of::<Lock>());
        }
        for (index, epoch) in self.epochs.iter().enumerate() {
            epoch.put(&mut image, EPOCHS_AT + index * size_of::<Epoch>());
        }
        image
    }
}

impl RecordedTrial {
    /// Puts it where its cure is; a cure of a later version has no place.
    fn put(&self, image: &mut Image) {
        let Some(cure) = Cure::from_word(self.waits.as_bytes()) else { return };
        let base = offset_of!(Header, trials) + cure as usize * size_of::<Trial>();
        for (offset, value) in [
            (offset_of!(Trial, acts), u32::from(self.cured)),
            (offset_of!(Trial, kept), self.kept),
            (offset_of!(Trial, dropped), self.dropped),
        ] {
            put(image, base + offset, &value.to_ne_bytes());
        }
        let numbers = [
            (offset_of!(Trial, as_written_ns), self.work_as_written_ns),
            (offset_of!(Trial, cured_ns), self.work_cured_ns),
        ];
        put_numbers(image, base, numbers);
    }
}

impl RecordedSite {
    fn put(&self, image: &mut Image, base: usize) {
        let how = (0..).map_while(How::from_number).find(|how| how.word() == self.how);
        // A word of a later version stays what it is here, too: unknown.
        let how = how.map_or(u32::MAX, |how| how as u32);
        put(image, base + offset_of!(Site, how), &how.to_ne_bytes());
        let numbers = [
            (offset_of!(Site, offset), self.offset),
            (offset_of!(Site, waits), self.waits),
            (offset_of!(Site, visits), self.visits),
            (offset_of!(Site, yields), self.yields),
            (offset_of!(Site, sleeps), self.sleeps),
            (offset_of!(Site, waited_ticks), self.waited_ns.unwrap_or(0)),
            (offset_of!(Site, longest_ticks), self.longest_ns.unwrap_or(0)),
        ];
        put_numbers(image, base, numbers);
        for (offset, text) in [
            (offset_of!(Site, module), Some(&self.module)),
            (offset_of!(Site, symbol), self.symbol.as_ref()),
            (offset_of!(Site, reason), self.reason.as_ref()),
        ] {
            put_name(image, base + offset, 64, text.map_or("", String::as_str));
        }
    }
}

impl RecordedLock {
    fn put(&self, image: &mut Image, base: usize) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == self.kind);
        let kind = kind.map_or(u32::MAX, |kind| kind as u32);
        put(image, base + offset_of!(Lock, kind), &kind.to_ne_bytes());
        put(image, base + offset_of!(Lock, named), &1_u32.to_ne_bytes());
        let numbers = [
            (offset_of!(Lock, address), self.address),
            (offset_of!(Lock, offset), self.offset),
            (offset_of!(Lock, waits), self.waits),
            (offset_of!(Lock, hand_overs), self.hand_overs),
            (offset_of!(Lock, starving), self.overdue),
            (offset_of!(Lock, waited_ticks), self.waited_ns.unwrap_or(0)),
            (offset_of!(Lock, longest_ticks), self.longest_ns.unwrap_or(0)),
        ];
        put_numbers(image, base, numbers);
        for (offset, text) in
            [(offset_of!(Lock, module), &self.module), (offset_of!(Lock, symbol), &self.symbol)]
        {
            put_name(image, base + offset, 64, text.as_deref().unwrap_or(""));
        }
        put_histogram(image, base + offset_of!(Lock, histogram), &self.wait_histogram);
    }
}

impl RecordedEpoch {
    fn put(&self, image: &mut Image, base: usize) {
        let requests = EpochName(REQUESTS_ID).to_string();
        // A name that no version wrote is an epoch that is not shown.
        let id = if self.name == requests { Some(REQUESTS_ID) } else { self.name.parse().ok() };
        let numbers = [
            (offset_of!(Epoch, key), id.map_or(0, Epoch::key_of)),
            (offset_of!(Epoch, target_ns), self.target_ns),
            (offset_of!(Epoch, percentile), (self.percentile * 100.0).round() as u64),
            (offset_of!(Epoch, missed), self.missed),
            (offset_of!(Epoch, total_ns), self.total_ns),
            (offset_of!(Epoch, longest_ns), self.longest_ns),
            (offset_of!(Epoch, last_ticks), self.span_ns.unwrap_or(0)),
        ];
        put_numbers(image, base, numbers);
        put_histogram(image, base + offset_of!(Epoch, histogram), &self.latency_histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::render;
    use serde_json::{Value, json};

    fn recorded() -> Value {
        json!({
            "schema": "manx-stats", "version": 1, "program": "/bin/server", "pid": 42, "state": "ended",
            "started_unix_ms": 1_700_000_000_123_u64, "modules": 3, "text_bytes": 5_000_000, "scans": 1,
            "scan_ns": 12_345_678, "sites_dropped": 2,
            "sites": [
                {"module": "liba.so", "symbol": "spin+0x1", "offset": 4096, "how": "jump", "reason": null,
                 "waits": 1, "visits": 2, "yields": 3, "sleeps": 4, "waited_ns": 500, "longest_ns": 60},
                {"module": "libb.so", "symbol": null, "offset": 77, "how": "left", "reason": "too far",
                 "waits": 0, "visits": 0, "yields": 0, "sleeps": 0, "waited_ns": 0, "longest_ns": 0},
            ],
            "modules_cached": 4,
            "lock_waits_dropped": 3,
            "mutexes_passed_on": 7,
            "epochs_dropped": 5,
            "trials": [
                {"waits": "yield", "cured": true, "kept": 2, "dropped": 1,
                 "work_as_written_ns": 40, "work_cured_ns": 900},
            ],
            "epochs": [
                {"name": "requests", "count": 5, "missed": 1, "target_ns": 1_000_000, "percentile": 99.9,
                 "total_ns": 90_000_600_000_u64, "longest_ns": 90_000_000_000_u64, "span_ns": 2_000,
                 "latency_histogram": [[205_296, 4], [90_000_000_000_u64, 1]]},
                {"name": "7", "count": 0, "missed": 0, "target_ns": 1, "percentile": 50.0, "total_ns": 0,
                 "longest_ns": 0, "span_ns": 0, "latency_histogram": []},
            ],
            "locks": [
                {"address": 0x7f00_1234, "kind": "recursive", "module": "liba.so", "symbol": "take+0x8",
                 "offset": 77, "waits": 9, "hand_overs": 4, "overdue": 2, "waited_ns": 900, "longest_ns": 80,
                 "wait_histogram": [[953, 8], [66_559, 1]]},
                {"address": 64, "kind": "normal", "module": null, "symbol": null, "offset": 0, "waits": 1,
                 "hand_overs": 0, "overdue": 0, "waited_ns": 1, "longest_ns": 1, "wait_histogram": []},
            ],
        })
    }

    fn back(value: &Value) -> Value {
        let image = image_of(value.to_string().as_bytes()).expect("an image");
        let mut text = String::new();
        render::json(&image.live().expect("a live file"), &mut text).expect("writing to a String");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn json_survives_the_way_through_an_image() {
        let value = recorded();
        assert_eq!(back(&value), value);
    }

    #[test]
    fn times_that_are_not_known_stay_so() {
        let mut value = recorded();
        for list in ["sites", "locks"] {
            for record in value[list].as_array_mut().expect("records") {
                record["waited_ns"] = Value::Null;
                record["longest_ns"] = Value::Null;
            }
        }
        for epoch in value["epochs"].as_array_mut().expect("records") {
            epoch["span_ns"] = Value::Null;
        }
        assert_eq!(back(&value), value);
    }

    #[test]
    fn json_from_before_there_were_locks_is_read() {
        let mut value = recorded();
        let map = value.as_object_mut().expect("an object");
        for key in ["locks", "lock_waits_dropped", "mutexes_passed_on", "epochs", "epochs_dropped", "trials"]
        {
            assert!(map.remove(key).is_some());
        }
        let back = back(&value);
        assert_eq!((&back["locks"], &back["lock_waits_dropped"]), (&json!([]), &json!(0)));
        assert_eq!(back["mutexes_passed_on"], 0);
        assert_eq!(back["sites"], value["sites"]);
    }

    #[test]
    fn what_is_too_long_or_new_does_no_harm() {
        let mut value = recorded();
        value["program"] = "ü".repeat(400).into();
        value["sites"][0]["module"] = format!("a{}", "ü".repeat(60)).into();
        value["sites"][0]["how"] = "magic".into();
        value["sites"][0]["added_later"] = 1.into();
        let back = back(&value);
        assert_eq!(back["program"], "ü".repeat(256));
        assert_eq!(back["sites"][0]["module"], format!("a{}", "ü".repeat(31)));
        assert_eq!(back["sites"][0]["how"], "unknown");
    }

    #[test]
    fn other_json_is_refused() {
        let refuse = |text: &str| image_of(text.as_bytes()).expect_err(text);
        for text in ["", "[]", "{\"schema\": \"x\", \"version\": 1}", "{\"schema\":", "\u{0}"] {
            assert_eq!(refuse(text), "not a statistics file of Manx");
        }
        assert!(refuse("{\"schema\": \"manx-stats\", \"version\": 9}").contains("its schema is 9"));
        assert!(refuse("{\"schema\": \"manx-stats\", \"version\": 1}").contains("damaged"));
        let mut value = recorded();
        value["sites"] = vec![value["sites"][0].clone(); CAPACITY + 1].into();
        assert!(refuse(&value.to_string()).contains("more than 4096 sites"));
        let mut value = recorded();
        value["locks"] = vec![value["locks"][0].clone(); LOCKS + 1].into();
        assert!(refuse(&value.to_string()).contains("more than 1024 locks"));
        let mut value = recorded();
        value["epochs"] = vec![value["epochs"][0].clone(); EPOCHS + 1].into();
        assert!(refuse(&value.to_string()).contains("more than 64 epochs"));
    }
}
