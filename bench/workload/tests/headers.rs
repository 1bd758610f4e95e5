//! The engines' C headers by themselves: the histogram's error, and the distributions of keys and
//! think times.

use std::path::Path;
use std::process::{Command, Output};

/// Compiles a few lines of C against the headers, runs them, and returns the numbers that they
/// print.
fn numbers(body: &str) -> Vec<f64> {
    let output = compiled("engine.h", "", body);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// The same with another header and functions before the lines; what the program did comes back.
fn compiled(header: &str, functions: &str, body: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("x.c"), folder.path().join("x"));
    let text = format!(
        "#include \"{header}\"\n{functions}\nint main(void) {{ (void)engine_main; (void)worker_main;\n{body}\nreturn 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines");
    let mut compile = Command::new("cc");
    compile
        .args(["-std=gnu11", "-O1", "-pthread", "-I"])
        .arg(headers)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-lm");
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Command::new(&program).output().unwrap()
}

#[test]
fn a_bucket_names_its_values_within_one_percent_and_in_order() {
    let pairs = numbers(
        r#"
        struct random r = {42};
        for (int bits = 0; bits < 40; bits++)
            for (int i = 0; i < 200; i++) {
                uint64_t v = (1ull << bits) + random_below(&r, 1ull << bits);
                printf("%llu %llu\n", (unsigned long long)v, (unsigned long long)histogram_value(histogram_bucket(v)));
            }
        uint64_t last = 0;
        for (uint32_t b = 1; b < HISTOGRAM_BUCKETS; b++) { // every bucket is its own value's bucket
            uint64_t v = histogram_value(b);
            if (histogram_bucket(v) != b || v <= last)
                return 1;
            last = v;
        }
        if (histogram_bucket(UINT64_MAX) != HISTOGRAM_BUCKETS - 1)
            return 1;
        "#,
    );
    assert_eq!(pairs.len(), 2 * 40 * 200);
    for pair in pairs.chunks(2) {
        assert!((pair[0] - pair[1]).abs() <= 0.004 * pair[0], "{} is counted as {}", pair[0], pair[1]);
    }
}

#[test]
fn giving_moves_everything_once() {
    let found = numbers(
        r#"
        struct histogram *h = allocate(1, sizeof *h);
        struct shared_histogram *s = allocate(1, sizeof *s);
        histogram_clear(h);
        shared_histogram_clear(s);
        histogram_record(h, 70);
        histogram_record(h, 5000000);
        histogram_give(h, s);
        histogram_give(h, s);
        histogram_record(h, 9);
        histogram_give(h, s);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
            sum += s->buckets[i];
        printf("%llu %llu %llu %llu %llu\n", (unsigned long long)sum, (unsigned long long)s->count,
               (unsigned long long)s->sum_ns, (unsigned long long)s->min_ns, (unsigned long long)s->max_ns);
        "#,
    );
    assert_eq!(found, [3.0, 3.0, 5_000_079.0, 9.0, 5_000_000.0]);
}

#[test]
fn think_times_are_exponential_and_keys_are_drawn_as_asked() {
    let found = numbers(
        r#"
        enum { DRAWS = 200000, ITEMS = 1000 };
        struct random r = {7};
        double sum = 0, above = 0;
        for (int i = 0; i < DRAWS; i++) {
            double x = random_exponential(&r, 300);
            sum += x;
            above += x > 300;
        }
        static uint64_t uniform[ITEMS], popular[ITEMS];
        struct zipfian z;
        zipfian_init(&z, ITEMS);
        for (int i = 0; i < DRAWS; i++) {
            uniform[random_below(&r, ITEMS)]++;
            popular[zipfian_draw(&z, &r)]++;
        }
        uint64_t most = 0, least = DRAWS, top = 0;
        for (int i = 0; i < ITEMS; i++) {
            most = uniform[i] > most ? uniform[i] : most;
            least = uniform[i] < least ? uniform[i] : least;
            top = popular[i] > top ? popular[i] : top;
        }
        printf("%f %f %f %f %f %f\n", sum / DRAWS, above / DRAWS, (double)most / (DRAWS / ITEMS),
               (double)least / (DRAWS / ITEMS), (double)top / DRAWS, 1 / z.zeta);
        "#,
    );
    // The draws are seeded, so these bounds hold always or never.
    assert!((found[0] - 300.0).abs() < 5.0, "mean {}", found[0]);
    assert!((found[1] - (-1f64).exp()).abs() < 0.01, "share above the mean {}", found[1]);
    assert!(found[2] < 1.5 && found[3] > 0.6, "uniform keys from {} to {} of the mean", found[3], found[2]);
    // The most popular key of a zipfian distribution has the share 1/zeta; others may share its
    // place.
    assert!(found[4] > 0.95 * found[5] && found[4] < 1.4 * found[5], "{} instead of {}", found[4], found[5]);
}

/// A store of one value, three keys and two threads, and what it takes to put and to look.
const STORE: &str = r#"
static struct worker thread[2] = {{.index = 0}, {.index = 1}};
static char value[100];
static void begin(void) {
    ledger_init(2, 3, sizeof value);
    ledger_load(value, 2);
}
static void put(unsigned by, uint64_t key) {
    ledger_next(value, key, &thread[by], 0);
    ledger_note(key, &thread[by]);
}
"#;

/// Puts, then what is settled at the end: the exit status and the reason.
fn settled(body: &str) -> (Option<i32>, String) {
    let output = compiled("ledger.h", STORE, &format!("begin();\n{body}"));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_ledger_accepts_the_last_put_of_any_thread_and_what_was_loaded() {
    for body in [
        "ledger_settle(value, 100, 2);",
        "put(0, 2); put(1, 2); ledger_settle(value, 100, 2);",
        // Which of two threads came last, nobody knows.
        "put(0, 2); put(1, 2); ledger_stamp(value, 2, 0, 1); ledger_settle(value, 100, 2);",
        "put(1, 2); if (ledger_found(value, 100, 2, &thread[0]) != DONE) return 9;",
        "put(0, 2); if (ledger_found(value, 100, 2, &thread[0]) != DONE) return 9;",
        "put(0, 1); put(1, 3); put(1, 3); if (ledger_puts() != 3) return 9;",
    ] {
        assert_eq!(settled(body), (Some(0), String::new()), "{body}");
    }
}

#[test]
fn the_ledger_sees_what_was_lost_torn_or_mixed_up() {
    for (body, reason) in [
        ("put(0, 2); ledger_load(value, 2); ledger_settle(value, 100, 2);", "what was loaded, but thread 0"),
        (
            "put(0, 2); put(0, 2); ledger_stamp(value, 2, 0, 1); ledger_settle(value, 100, 2);",
            "put 2 came later",
        ),
        ("put(0, 1); ledger_settle(value, 100, 2);", "belongs to another key"),
        ("ledger_settle(NULL, 0, 2);", "the record is gone"),
        ("ledger_settle(value, 99, 2);", "another size"),
        ("put(0, 2); ledger_stamp(value, 2, 7, 1); ledger_settle(value, 100, 2);", "does not exist"),
        ("value[17]++; ledger_settle(value, 100, 2);", "not what anybody put"),
        (
            "put(0, 2); char other[100]; memcpy(other, value, 100); put(1, 2); memcpy(value, other, 50); \
             ledger_settle(value, 100, 2);",
            "two different puts",
        ),
    ] {
        let (status, words) = settled(body);
        assert!(status == Some(1) && words.contains(reason), "{body}: {status:?} {words}");
    }
}

#[test]
fn a_thread_that_reads_an_older_put_of_its_own_has_failed() {
    let body = "put(0, 2); put(0, 2); ledger_stamp(value, 2, 0, 1); \
                if (ledger_found(value, 100, 2, &thread[0]) != FAILED) return 9; \
                if (ledger_found(value, 100, 2, &thread[1]) != DONE) return 9; \
                fputs(first_error, stderr);";
    let (status, words) = settled(body);
    assert!(status == Some(0) && words.contains("a later one was lost"), "{status:?} {words}");
}

/// The same of a hundred records under YCSB's workloads.
const RECORDS: &str = r#"
static char value[100];
static void load(uint64_t first, uint64_t end) { (void)first, (void)end; }
static void begin(const char *workload) {
    option_workload = workload;
    option_records = option_value_bytes = 100;
    ycsb_open(2);
}
static void holds(uint64_t number, uint32_t version) { ledger_stamp(value, number, LEDGER_LOADER, version); }
"#;

#[test]
fn records_lie_under_the_same_keys_in_every_version_of_the_drivers() {
    let body = r#"begin("a"); fprintf(stderr, "%016llx", (unsigned long long)be64toh(ycsb_key(1)));"#;
    let output = compiled("ycsb.h", RECORDS, body);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "5692161d100b05e5");
}

#[test]
fn versions_are_as_many_as_changes() {
    for (body, reason) in [
        ("holds(2, 2); ycsb_settle(value, 100, 2);", ""),
        ("holds(2, 1); ycsb_settle(value, 100, 2);", "updates were lost"),
        ("holds(2, 3); ycsb_settle(value, 100, 2);", "made twice"),
        ("holds(1, 2); ycsb_settle(value, 100, 2);", "belongs to another key"),
        ("holds(101, 0); ycsb_settle(value, 100, 101);", ""),
        ("holds(101, 1); ycsb_settle(value, 100, 101);", "made twice"),
        ("ycsb_settle(NULL, 0, 2);", "the record is gone"),
    ] {
        let output = compiled("ycsb.h", RECORDS, &format!("begin(\"change\"); ycsb_changes[2] = 2;\n{body}"));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() == reason.is_empty() && words.contains(reason), "{body}: {words}");
    }
}

#[test]
fn what_arrives_out_of_order_is_there_when_all_before_it_are() {
    let body = "begin(\"d\"); ycsb_arrived(102); if (ycsb_there != 100) return 9; \
                ycsb_arrived(101); if (ycsb_there != 102) return 8; \
                ycsb_arrived(104); if (ycsb_there != 102) return 7;";
    assert_eq!(compiled("ycsb.h", RECORDS, body).status.code(), Some(0));
}

#[test]
fn the_last_records_are_drawn_most_often_and_popular_ones_are_scattered() {
    const DRAWS: f64 = 400_000.0;
    let body = r#"
        option_keys = KEYS;
        begin("d");
        for (int i = 1; i <= 50; i++)
            ycsb_arrived(100 + i);
        struct random r = {3};
        static uint64_t counts[151];
        for (int i = 0; i < 400000; i++)
            counts[ycsb_draw(&r)]++;
        for (int i = 0; i <= 150; i++)
            fprintf(stderr, "%llu ", (unsigned long long)counts[i]);
        "#;
    let counts = |keys: &str| -> Vec<f64> {
        let output = compiled("ycsb.h", RECORDS, &body.replace("KEYS", keys));
        let text = String::from_utf8(output.stderr).unwrap();
        text.split_whitespace().map(|count| count.parse::<f64>().unwrap() / DRAWS).collect()
    };
    let weight = |rank: i32| f64::from(rank + 1).powf(-0.99);
    let chance = |rank: i32| weight(rank) / (0..100).map(weight).sum::<f64>();
    let latest = counts("\"latest\"");
    for rank in [0, 1] {
        let found = latest[150 - rank as usize] / chance(rank);
        assert!((found - 1.0).abs() < 0.03, "rank {rank}: {found} of its share");
    }
    assert!(latest[..=50].iter().all(|share| *share == 0.0), "more ranks than were loaded");
    let popular = counts("\"zipfian\"");
    assert!(popular[0] == 0.0 && popular[101..].iter().all(|share| *share == 0.0));
    let halves = [&popular[1..51], &popular[51..101]].map(|half| half.iter().sum::<f64>());
    assert!(halves.iter().all(|share| *share > 0.2), "the popular ones lie on one side: {halves:?}");
    let uniform = counts("\"uniform\"");
    assert!(uniform[1..101].iter().all(|share| (share * 100.0 - 1.0).abs() < 0.1), "{uniform:?}");
}
