//! The engines' C headers by themselves: the histogram's error, and the distributions of keys and think times.

use std::path::Path;
use std::process::Command;

/// Compiles a few lines of C against the headers, runs them, and returns the numbers that they print.
fn numbers(body: &str) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("x.c"), folder.path().join("x"));
    let text = format!(
        "#include \"engine.h\"\nint main(void) {{ (void)engine_main; (void)worker_main;\n{body}\nreturn 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines");
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
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
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
    // The most popular key of a zipfian distribution has the share 1/zeta; others may share its place.
    assert!(found[4] > 0.95 * found[5] && found[4] < 1.4 * found[5], "{} instead of {}", found[4], found[5]);
}
