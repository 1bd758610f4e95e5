//! Tests of the table and the JSON, on live files built in memory.

use super::*;
use crate::live;
use crate::live::{
    Answer, Cure, FILE_BYTES, FORMAT, Header, Kind, LOCKS, LOCKS_AT, Lock, MAGIC, NO_HELP, PASSED_ON,
    REQUESTS_ID, RUNNING,
};

/// A live file's bytes, which start at a page boundary as a mapping does.
struct Image {
    room: Vec<u8>,
    start: usize,
}

impl Image {
    fn new(program: &[u8], ticks_per_second: u64) -> Image {
        let room = vec![0; FILE_BYTES + align_of::<Header>()];
        let start = room.as_ptr().align_offset(align_of::<Header>());
        let mut image = Image { room, start };
        image.put(core::mem::offset_of!(Header, magic), &MAGIC.to_ne_bytes());
        image.put(core::mem::offset_of!(Header, format), &FORMAT.to_ne_bytes());
        image.put(core::mem::offset_of!(Header, program), program);
        let live = image.live();
        let header = live.header();
        header.pid.store(42, Ordering::Relaxed);
        header.state.store(RUNNING, Ordering::Relaxed);
        header.started_ns.store(1_700_000_000_123_456_789, Ordering::Relaxed);
        header.ticks_per_second.store(ticks_per_second, Ordering::Relaxed);
        header.modules.store(3, Ordering::Relaxed);
        header.text_bytes.store(5 << 20, Ordering::Relaxed);
        header.scans.store(1, Ordering::Relaxed);
        header.scan_ns.store(12_345_678, Ordering::Relaxed);
        image
    }

    fn live(&self) -> Live<'_> {
        Live::new(&self.room[self.start..]).expect("a live file")
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.room[self.start + offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn add(&mut self, how: How, module: &[u8], symbol: &[u8], reason: &[u8], counters: [u64; 6]) {
        let index = self.live().sites().len();
        let base = size_of::<Header>() + size_of_val(self.live().sites());
        for (offset, text) in [
            (core::mem::offset_of!(Site, module), module),
            (core::mem::offset_of!(Site, symbol), symbol),
            (core::mem::offset_of!(Site, reason), reason),
        ] {
            self.put(base + offset, text);
        }
        self.live().header().sites.fetch_add(1, Ordering::Release);
        let live = self.live();
        let site = &live.sites()[index];
        site.how.store(how as u32, Ordering::Relaxed);
        site.offset.store(0x1000 + index as u64, Ordering::Relaxed);
        let fields =
            [&site.waits, &site.visits, &site.yields, &site.sleeps, &site.waited_ticks, &site.longest_ticks];
        for (field, value) in fields.into_iter().zip(counters) {
            field.store(value, Ordering::Relaxed);
        }
    }

    /// Puts a lock at a place of the table; counters are waits, hand-overs, starving, ticks,
    /// longest.
    fn add_lock(&mut self, at: usize, address: u64, kind: Kind, place: [&[u8]; 2], counters: [u64; 5]) {
        let base = LOCKS_AT + at * size_of::<Lock>();
        self.put(base + core::mem::offset_of!(Lock, module), place[0]);
        self.put(base + core::mem::offset_of!(Lock, symbol), place[1]);
        let live = self.live();
        let lock = &live.lock_table()[at];
        lock.address.store(address, Ordering::Relaxed);
        lock.kind.store(kind as u32, Ordering::Relaxed);
        lock.offset.store(0x1234, Ordering::Relaxed);
        lock.named.store(1, Ordering::Relaxed);
        // Waits of equal length, on a clock with two ticks a nanosecond.
        (0..counters[0]).for_each(|_| lock.histogram.record(counters[3] / 2 / counters[0]));
        let fields = [&lock.waits, &lock.hand_overs, &lock.starving, &lock.waited_ticks, &lock.longest_ticks];
        for (field, value) in fields.into_iter().zip(counters) {
            field.store(value, Ordering::Relaxed);
        }
    }

    /// Puts epochs with these latencies, in microseconds, at a place of the table.
    fn add_epochs(&mut self, at: usize, id: u64, target_us: u64, latencies_us: &[u64]) {
        let live = self.live();
        let epoch = &live.epochs()[at];
        epoch.key.store(live::Epoch::key_of(id), Ordering::Relaxed);
        epoch.target_ns.store(target_us * 1000, Ordering::Relaxed);
        epoch.percentile.store(9905, Ordering::Relaxed);
        epoch.first_ticks.store(1_000, Ordering::Relaxed);
        epoch.last_ticks.store(5_000, Ordering::Relaxed);
        for latency_us in latencies_us {
            let ns = latency_us * 1000;
            epoch.missed.fetch_add(u64::from(latency_us > &target_us), Ordering::Relaxed);
            epoch.total_ns.fetch_add(ns, Ordering::Relaxed);
            epoch.longest_ns.fetch_max(ns, Ordering::Relaxed);
            epoch.histogram.record(ns);
        }
    }

    /// Puts an answer: whether the cure acts, and the work as written and cured, in hundredths of a
    /// CPU.
    fn answer(&mut self, cure: Cure, acts: bool, work: [u64; 2]) {
        let live = self.live();
        let trial = &live.header().trials[cure as usize];
        trial.acts.store(u32::from(acts), Ordering::Relaxed);
        trial.kept.store(u32::from(acts), Ordering::Relaxed);
        trial.dropped.store(3, Ordering::Relaxed);
        trial.as_written_ns.store(work[0] * 10_000_000, Ordering::Relaxed);
        trial.cured_ns.store(work[1] * 10_000_000, Ordering::Relaxed);
    }

    fn table(&self) -> String {
        let mut text = String::new();
        table(&self.live(), &mut text).expect("writing to a String");
        text
    }

    fn json(&self) -> serde_json::Value {
        let mut text = String::new();
        json(&self.live(), &mut text).expect("writing to a String");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }
}

fn sample() -> Image {
    let mut image = Image::new(b"/usr/bin/server", 2_000_000_000);
    image.add(How::Closed, b"libb.so", b"", b"", [1, 20, 3, 0, 4_000, 4_000]);
    image.add(How::Left, b"libgomp.so.1", b"do_spin+0x1c", b"a counter ends it", [0; 6]);
    image.add(
        How::Jump,
        b"libwiredtiger.so",
        b"snapshot+0x94",
        b"",
        [900, 81234, 5000, 77, 9_000_000_000, 1 << 21],
    );
    image
}

#[test]
fn the_table_is_aligned_and_sorted_by_time_waited() {
    assert_eq!(
        sample().table(),
        "\
manx: /usr/bin/server (process 42, running, or ended from outside)
searched 5.00 MiB of 3 modules in 12.3 ms, 1 search

MODULE            SITE           HOW     WAITS  VISITS  YIELDS  SLEEPS   WAITED  LONGEST
libwiredtiger.so  snapshot+0x94  jump      900   81234    5000      77   4.50 s  1.04 ms
libb.so           0x1000         closed      1      20       3       0  2.00 us  2.00 us

left alone:
libgomp.so.1  do_spin+0x1c  a counter ends it
"
    );
}

#[test]
fn an_empty_file_says_so() {
    let image = Image::new(b"true", 1);
    image.live().header().state.store(ENDED, Ordering::Relaxed);
    assert_eq!(
        image.table(),
        "manx: true (process 42, ended)\nsearched 5.00 MiB of 3 modules in 12.3 ms, 1 search\n\n\
         no busy-wait loop was found\n"
    );
    let json = image.json();
    assert_eq!(json["state"], "ended");
    assert_eq!(json["sites"].as_array().map(Vec::len), Some(0));
}

#[test]
fn the_json_carries_everything_in_the_same_order() {
    let json = sample().json();
    assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some(JSON_SCHEMA), Some(1)));
    assert_eq!(json["program"], "/usr/bin/server");
    assert_eq!(json["pid"], 42);
    assert_eq!(json["state"], "running");
    assert_eq!(json["started_unix_ms"], 1_700_000_000_123_u64);
    assert_eq!(json["scan_ns"], 12_345_678);
    assert_eq!(
        json["sites"][0],
        serde_json::json!({
            "module": "libwiredtiger.so", "symbol": "snapshot+0x94", "offset": 0x1002, "how": "jump",
            "reason": null, "waits": 900, "visits": 81234, "yields": 5000, "sleeps": 77,
            "waited_ns": 4_500_000_000_u64, "longest_ns": 1 << 20,
        })
    );
    assert_eq!(json["sites"][1]["symbol"], serde_json::Value::Null);
    assert_eq!(json["sites"][2]["reason"], "a counter ends it");
}

#[test]
fn the_answers_of_the_trial_are_shown_and_that_manx_does_not_help() {
    let mut image = Image::new(b"p", 1);
    assert!(!image.table().contains("DROPPED") && image.live().asked().next().is_none());
    image.answer(Cure::Spin, true, [52, 193]);
    image.answer(Cure::Yield, false, [190, 20]);
    let shown = "
WAITS THAT  NOW         KEPT  DROPPED  AS WRITTEN  WITH MANX
spin        with Manx      1        3   0.52 CPUs  1.93 CPUs
yield       as written     0        3   1.90 CPUs  0.20 CPUs
";
    assert!(image.table().ends_with(shown), "{}", image.table());
    let of_yield = serde_json::json!({
        "waits": "yield", "cured": false, "kept": 0, "dropped": 3,
        "work_as_written_ns": 1_900_000_000_u64, "work_cured_ns": 200_000_000,
    });
    assert_eq!(image.json()["trials"][1], of_yield);
    image.answer(Cure::Spin, false, [52, 51]);
    assert!(image.table().ends_with(&format!("\n{NO_HELP}\n")), "{}", image.table());
}

#[test]
fn a_cure_that_does_not_act_was_dropped_if_the_work_differs_by_a_fifth() {
    let mut image = Image::new(b"p", 1);
    for (acts, work, answer, words) in [
        (true, [100, 300], Answer::Kept, "spin kept (1.00 to 3.00 CPUs)"),
        (false, [121, 100], Answer::Dropped, "spin dropped (1.21 to 1.00 CPUs)"),
        (false, [120, 100], Answer::Tie, "spin tie (1.20 to 1.00 CPUs)"),
        (false, [100, 140], Answer::Tie, "spin tie (1.00 to 1.40 CPUs)"),
    ] {
        image.answer(Cure::Spin, acts, work);
        let asked: Vec<_> = image.live().asked().collect();
        assert_eq!((asked.len(), asked[0].answer, asked[0].to_string()), (1, answer, words.to_owned()));
    }
}

fn with_locks() -> Image {
    let mut image = Image::new(b"/usr/bin/server", 2_000_000_000);
    let header = image.live().header();
    for field in [&header.scans, &header.scan_ns, &header.modules, &header.text_bytes] {
        field.store(0, Ordering::Relaxed);
    }
    image.add_lock(900, 0x7f00_1000, Kind::Recursive, [b"libb.so", b""], [5, 0, 0, 4_000, 2_000]);
    image.add_lock(3, 0x5555_0040, Kind::Normal, [b"server", b"serve+0x1f"], [70, 9, 12, 9_000_000, 800_000]);
    image.add_lock(LOCKS - 1, 0x10, Kind::ErrorCheck, [b"", b""], [1, 1, 1, 1, 1]);
    image
}

#[test]
fn locks_are_shown_by_time_waited() {
    assert_eq!(
        with_locks().table(),
        "\
manx: /usr/bin/server (process 42, running, or ended from outside)

LOCK        KIND        MODULE   FIRST WAITED AT  WAITS  HANDED OVER  STARVING   WAITED      P99  LONGEST
0x55550040  normal      server   serve+0x1f          70            9        12  4.50 ms  66.5 us   400 us
0x7f001000  recursive   libb.so  0x1234               5            0         0  2.00 us   953 ns  1.00 us
0x10        errorcheck  ?        ?                    1            1         1     0 ns     0 ns     0 ns
"
    );
}

#[test]
fn mutexes_that_keep_the_c_librarys_waiting_are_counted() {
    let image = with_locks();
    let without = image.table();
    assert_eq!(image.json()["mutexes_passed_on"], 0);
    for (count, line) in [
        (
            1,
            "\n1 mutex is shared between processes, robust, or has a priority protocol: it keeps the C library's waiting\n",
        ),
        (
            3,
            "\n3 mutexes are shared between processes, robust, or have a priority protocol: they keep the C library's waiting\n",
        ),
        (
            PASSED_ON,
            "\n256 or more mutexes are shared between processes, robust, or have a priority protocol: they keep the C library's \
             waiting\n",
        ),
    ] {
        for place in image.live().header().passed_on.iter().rev().take(count) {
            place.store(0x7f00_0000, Ordering::Relaxed);
        }
        assert_eq!(image.table(), format!("{without}{line}"));
        assert_eq!(image.json()["mutexes_passed_on"], count);
    }
}

#[test]
fn the_json_has_the_locks_in_the_same_order() {
    let json = with_locks().json();
    assert_eq!(json["lock_waits_dropped"], 0);
    assert_eq!(json["locks"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        json["locks"][0],
        serde_json::json!({
            "address": 0x5555_0040, "kind": "normal", "module": "server", "symbol": "serve+0x1f",
            "offset": 0x1234, "waits": 70, "hand_overs": 9, "overdue": 12, "waited_ns": 4_500_000,
            "longest_ns": 400_000, "wait_histogram": [[66_559, 70]],
        })
    );
    assert_eq!(json["locks"][2]["module"], serde_json::Value::Null);
}

#[test]
fn a_lock_that_is_being_described_shows_no_half_of_a_name() {
    let image = with_locks();
    let live = image.live();
    live.lock_table()[3].named.store(0, Ordering::Relaxed);
    live.lock_table()[900].kind.store(99, Ordering::Relaxed);
    let json = image.json();
    assert_eq!(
        (&json["locks"][0]["symbol"], &json["locks"][0]["kind"]),
        (&serde_json::Value::Null, &"unknown".into())
    );
    assert_eq!(json["locks"][1]["kind"], "unknown");
}

#[test]
fn the_table_of_locks_is_short_and_tells_what_it_leaves_out() {
    let mut image = with_locks();
    for at in 100..125 {
        image.add_lock(at, 0x1000 + at as u64, Kind::Adaptive, [b"m", b"f+0x1"], [1, 0, 0, 100_000, 1]);
    }
    image.live().header().lock_waits_dropped.store(1, Ordering::Relaxed);
    let table = image.table();
    assert_eq!(table.matches("  adaptive  ").count(), 19, "{table}");
    assert!(
        table.ends_with("and 8 more locks: see the JSON\nand 1 wait for other locks: the file was full\n"),
        "{table}"
    );
    assert_eq!(image.json()["locks"].as_array().map(Vec::len), Some(28));
}

#[test]
fn epochs_are_shown_with_their_percentiles_the_most_frequent_first() {
    let mut image = with_locks();
    image.add_epochs(9, 7, 300, &[500]);
    image.add_epochs(63, REQUESTS_ID, 1000, &[200, 200, 200, 90_000_000]);
    let table = image.table();
    let shown = "
EPOCH     COUNT   TARGET  MISSED     P50     P99   P99.9  LONGEST
requests      4  1.00 ms       1  205 us  90.0 s  90.0 s   90.0 s
7             1   300 us       1  500 us  500 us  500 us   500 us
";
    assert!(table.ends_with(shown), "{table}");
    image.live().header().epochs_dropped.store(2, Ordering::Relaxed);
    assert!(image.table().ends_with("and 2 epochs with other ids: the file was full\n"));
    assert_eq!(
        image.json()["epochs"],
        serde_json::json!([
            {
                "name": "requests", "count": 4, "missed": 1, "target_ns": 1_000_000, "percentile": 99.05,
                "total_ns": 90_000_600_000_u64, "longest_ns": 90_000_000_000_u64, "span_ns": 2_000,
                "latency_histogram": [[205_296, 3], [90_000_000_000_u64, 1]],
            },
            {
                "name": "7", "count": 1, "missed": 1, "target_ns": 300_000, "percentile": 99.05,
                "total_ns": 500_000, "longest_ns": 500_000, "span_ns": 2_000,
                "latency_histogram": [[532_474, 1]],
            },
        ])
    );
}

#[test]
fn names_of_locks_cannot_break_out() {
    let mut image = Image::new(b"p", 1);
    image.add_lock(0, 1, Kind::Normal, [b"\x1b[2J\"\\", b"f\n\xff"], [1; 5]);
    assert_eq!(image.json()["locks"][0]["module"], "\x1b[2J\"\\");
    assert_eq!(image.json()["locks"][0]["symbol"], "f\n\u{fffd}");
    assert!(image.table().chars().all(|c| c == '\n' || !c.is_control()), "{}", image.table());
}

#[test]
fn names_cannot_break_out() {
    let mut image = Image::new(b"/tmp/\"a\\b\"\x1b[2J\xff", 1);
    image.add(How::Jump, b"lib\n\x7f.so", b"f\t\"+0x1", b"", [1; 6]);
    let json = image.json();
    assert_eq!(json["program"], "/tmp/\"a\\b\"\x1b[2J\u{fffd}");
    assert_eq!(json["sites"][0]["module"], "lib\n\x7f.so");
    assert_eq!(json["sites"][0]["symbol"], "f\t\"+0x1");
    let table = image.table();
    assert!(
        table.contains("/tmp/\"a\\b\"\\u{1b}[2J\u{fffd}") && table.contains("lib\\u{a}\\u{7f}.so"),
        "{table}"
    );
    assert!(table.lines().count() == 5 && table.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn names_that_fill_their_field_are_whole() {
    let mut image = Image::new(&[b'p'; 512], 1);
    image.add(How::Jump, &[b'm'; 64], &[b's'; 64], b"", [1; 6]);
    let json = image.json();
    assert_eq!(json["program"].as_str().map(str::len), Some(512));
    assert_eq!(json["sites"][0]["module"].as_str(), Some("m".repeat(64).as_str()));
    assert_eq!(json["sites"][0]["symbol"].as_str(), Some("s".repeat(64).as_str()));
}

#[test]
fn an_unknown_rate_is_not_shown_as_no_time() {
    let mut image = Image::new(b"p", 0);
    image.add(How::Jump, b"m", b"s", b"", [1, 1, 1, 1, 500, 500]);
    assert_eq!(image.json()["sites"][0]["waited_ns"], serde_json::Value::Null);
    assert!(image.table().ends_with("?        ?\n"), "{}", image.table());
}

#[test]
fn a_number_that_no_version_wrote_and_a_full_file_are_told() {
    let mut image = Image::new(b"p", 1);
    image.add(How::Closed, b"m", b"s", b"", [0; 6]);
    image.live().sites()[0].how.store(77, Ordering::Relaxed);
    image.live().header().dropped.store(1, Ordering::Relaxed);
    assert_eq!(image.json()["sites"][0]["how"], "unknown");
    assert_eq!(image.json()["sites_dropped"], 1);
    assert!(image.table().ends_with("and 1 more site: the file was full\n"));
}

#[test]
fn every_site_of_a_full_file_is_shown_once_even_if_all_are_equal() {
    let mut image = Image::new(b"p", 1);
    image.live().header().sites.store(CAPACITY as u32, Ordering::Relaxed);
    image.put(size_of::<Header>() + core::mem::offset_of!(Site, module), b"m");
    assert_eq!(falling(&image.live()).count(), CAPACITY);
    for (index, site) in image.live().sites().iter().enumerate() {
        site.waited_ticks.store((index as u64).wrapping_mul(2_654_435_761) % 1000, Ordering::Relaxed);
    }
    let times: Vec<u64> =
        falling(&image.live()).map(|site| site.waited_ticks.load(Ordering::Relaxed)).collect();
    assert!(times.len() == CAPACITY && times.is_sorted_by(|a, b| a >= b));
}

#[test]
fn durations_and_sizes_have_three_figures() {
    for (ns, text) in [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (12_345, "12.3 us"),
        (999_999, "999 us"),
        (1_000_000_000, "1.00 s"),
        (u64::MAX, "18446744073 s"),
    ] {
        assert_eq!(Duration(Some(ns)).to_string(), text);
    }
    assert_eq!(Bytes(1023).to_string(), "1023 bytes");
    assert_eq!(Bytes(100 << 20).to_string(), "100 MiB");
}
