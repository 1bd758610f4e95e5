//! Pages of each kind of result: what is on them, what is escaped, and how large they are.

mod common;

use common::{RESULTS, file, page_of, result};
use page::{BYTES_MAX, Options};
use serde_json::{Value, json};

fn page(names: &[&str], options: &Options) -> String {
    let texts: Vec<String> = names.iter().map(|name| result(name)).collect();
    let named: Vec<(&str, &str)> = names.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    page_of(&named, options).unwrap()
}

fn alone(name: &str) -> String {
    page(&[name], &Options::default())
}

#[track_caller]
fn has(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn a_bench_has_its_machine_verdicts_ratios_curves_and_tables() {
    let page = alone("bench.json");
    has(&page, &["AMD EPYC 7763", "Linux 6.18.0", "0123abc", "performance", "2026-11-25"]);
    has(&page, &["1 met", "1 falls short", "1 no verdict", "fewer than five pairs"]);
    has(&page, &["Ratios of p99_ns", "Percentiles", ", round by round", "second by second", "Late by"]);
    assert!(page.contains("p99.9") && page.contains("data-tips=\"p0:"), "curves have tips");
}

#[test]
fn a_profile_has_its_suggestion_the_line_of_the_target_and_both_pictures() {
    let page = alone("profile.json");
    has(&page, &["A target of 937 µs", "92 % above that of FIFO", "What a target costs and brings"]);
    has(
        &page,
        &["Latency and throughput", "suggested target, 937 µs", "data-name=\"target\"", "without Manx"],
    );
}

#[test]
fn two_points_make_no_line() {
    let mut value: Value = serde_json::from_str(&result("profile.json")).unwrap();
    value["conclusion"]["points"].as_array_mut().unwrap().truncate(4);
    let text = value.to_string();
    let page = page_of(&[("p.json", &text)], &Options::default()).unwrap();
    let curve = &page[page.find("data-name=\"throughput\"").expect("a series")..];
    assert!(curve[..curve.find("</g>").unwrap()].contains("stroke=\"none\""), "no line");
    let whole = alone("profile.json");
    let curve = &whole[whole.find("data-name=\"throughput\"").expect("a series")..];
    assert!(curve[..curve.find("</g>").unwrap()].contains("stroke=\"currentColor\""), "a line");
}

#[test]
fn a_doctor_has_its_verdicts_remedies_and_timeline() {
    let page = alone("doctor.json");
    has(&page, &["a contended lock", "manx run --lock=manx -- ./mutex", "Threads over time"]);
    has(&page, &["sleeps for a lock A", "A is the lock in"]);
    has(&page, &["Waits for locks by function", "waited in all", "Waits for locks</strong>"]);
    let list = alone("doctors.json");
    has(&list, &["doctor on 2 processes", "1 with findings", "1 without"]);
    assert!(!list.contains("Threads over time"), "that result has no timeline");
    assert!(!list.contains("Waits for locks by function"), "nor lengths of waits");
}

#[test]
fn a_doctor_of_a_program_has_what_manx_run_changes() {
    let page = alone("cured.json");
    has(&page, &["what manx run changes in rounds", "2 better", "Under manx run over as it is"]);
    has(&page, &["0.011×", "0.007× to 0.033×", "barrier_wait"]);
    assert!(page.contains("3 of 10 runs were too short"), "the notes are there");
}

#[test]
fn a_figure_of_work_is_better_in_its_own_direction() {
    let badges = |better: &str| {
        let mut pairs: Value = serde_json::from_str(&result("cured.json")).unwrap();
        let figure = r"n (\d+)";
        pairs["changes"].as_array_mut().unwrap().push(json!({
            "figure": figure, "unit": "", "kind": "ratio", "better": better, "as_it_is": 1.0,
            "manx_run": 2.0, "pairs": 5, "change": 2.0, "low": 1.9, "high": 2.1,
        }));
        page_of(&[("cured.json", &pairs.to_string())], &Options::default()).unwrap()
    };
    has(&badges("more"), &["3 better"]);
    has(&badges("less"), &["2 better", "1 worse"]);
}

#[test]
fn stats_have_their_locks_loops_and_epochs_with_targets() {
    let page = alone("stats.json");
    has(
        &page,
        &["server:cache_get", "libopenblas.so.0:blas_thread_server", "server:0x3000", "update&lt;int&gt;"],
    );
    has(&page, &["requests: latencies", "epoch 7: percentiles", "target 2.00 ms", "11.2 %"]);
}

#[test]
fn several_results_stand_side_by_side_and_two_are_compared() {
    let page_of_all = page(&RESULTS, &Options { title: Some("All <of> it".into()), compare: false });
    has(&page_of_all, &["Manx: All &lt;of&gt; it", "Results side by side", "href=\"#r5\""]);
    let compare = Options { title: None, compare: true };
    let compared = page(&["doctor.json", "doctor.json"], &compare);
    has(&compared, &["before and after", "Found before:", "After over before"]);
    let texts = [("a.json", result("bench.json")), ("b.json", result("stats.json"))];
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let fault = page_of(&texts, &compare).unwrap_err();
    assert_eq!(
        fault,
        "--compare needs results of one kind: a.json is of `manx bench`, b.json of `manx stats`"
    );
    assert_eq!(page_of(&texts[..1], &compare).unwrap_err(), "--compare needs two files or more");
}

#[test]
fn a_comparison_says_what_is_better_and_how_sure_that_is() {
    let before = result("bench.json");
    let mut after: Value = serde_json::from_str(&before).unwrap();
    for run in after["runs"].as_array_mut().unwrap() {
        for (name, value) in run["values"].as_object_mut().unwrap() {
            if let (true, Some(ns)) = (name == "p99_ns", value.as_f64()) {
                *value = json!(ns / 4.0);
            }
        }
    }
    let after = after.to_string();
    let options = Options { title: None, compare: true };
    let page = page_of(&[("old.json", &before), ("new.json", &after)], &options).unwrap();
    has(&page, &["old.json → new.json", "5 better", "0.250×", "before: old.json"]);
}

/// Puts a text in the place of every string.
fn replaced(value: &mut Value, text: &str, keep: &[&str]) {
    match value {
        Value::String(old) if !keep.contains(&old.as_str()) => *old = text.into(),
        Value::Array(list) => list.iter_mut().for_each(|one| replaced(one, text, keep)),
        Value::Object(members) => members.values_mut().for_each(|one| replaced(one, text, keep)),
        _ => {}
    }
}

#[test]
fn no_string_of_a_result_becomes_markup() {
    let evil = "</script></style></title><img src=x onerror=alert(1)>\"'><script>alert(2)</script><!--";
    for name in RESULTS {
        let mut value: Value = serde_json::from_str(&result(name)).unwrap();
        replaced(
            &mut value,
            evil,
            &[
                "manx-bench",
                "manx-profile",
                "manx-stats",
                "manx-doctor",
                "manx-doctor-pairs",
                "plain",
                "fifo",
            ],
        );
        for options in [Options::default(), Options { title: Some(evil.into()), compare: true }] {
            let text = value.to_string();
            let page = page_of(&[(evil, &text), (evil, &text)], &options).unwrap();
            for markup in ["<img", "<script>alert", "<!--"] {
                assert!(!page.contains(markup), "{name}: {markup}");
            }
            assert_eq!(page.matches("</title>").count() - page.matches("</title><desc").count(), 1, "{name}");
            assert_eq!(page.matches("<script").count(), page.matches("</script>").count(), "{name}");
        }
    }
}

#[test]
fn the_json_in_the_page_is_the_result() {
    let text = result("stats.json");
    let page = alone("stats.json");
    let begin = page.find("<script type=\"application/json\"").expect("JSON in the page");
    let data = &page[begin..];
    let data = &data[data.find('>').unwrap() + 1..data.find("</script>").unwrap()];
    let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(of(data), of(&text));
}

#[test]
fn a_large_result_makes_a_page_within_the_limit() {
    let run = |at: usize| {
        let counts: Vec<(u64, u64)> = (1..400).map(|value| (value * 1000 + at as u64, 7)).collect();
        json!({"case": format!("case {}", at / 4), "variant": format!("version {}", at % 4), "round": 0,
            "values": {"p99_ns": 1.0}, "output": {"count": 7 * 399, "max_ns": 400_000_000, "counts": counts}})
    };
    let runs: Vec<Value> = (0..600).map(run).collect();
    let rows: Vec<Vec<String>> = (0..20_000).map(|row| vec![format!("row {row}"), "1.5 ms".into()]).collect();
    let table =
        json!({"title": "t", "columns": [{"name": "a"}, {"name": "b", "number": true}], "rows": rows});
    let text = json!({"schema": "manx-bench", "version": 2, "runs": runs, "tables": [table]}).to_string();
    assert!(text.len() > 3 * BYTES_MAX);
    let page = page_of(&[("large.json", &text)], &Options::default()).unwrap();
    assert!(page.len() <= BYTES_MAX, "{}", page.len());
    has(&page, &["more rows are left out here", "more pictures are left out", "it is too large"]);
}

#[test]
fn long_names_do_not_make_a_page_impossible() {
    let name = "n".repeat(3_000_000);
    let text = json!({"schema": "manx-stats", "version": 1, "program": name, "locks": [{"module": name}]})
        .to_string();
    let page = page_of(&[("long.json", &text)], &Options::default()).unwrap();
    assert!(page.len() <= BYTES_MAX, "{}", page.len());
}

#[test]
fn the_page_loads_nothing() {
    let page = page(&RESULTS, &Options::default());
    for way in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(way), "{way}");
    }
    has(&page, &["Content-Security-Policy", "default-src 'none'", "'sha256-"]);
}

/// The page of a small result, word for word, without styles and script. `MANX_BLESS=1` rewrites
/// it.
#[test]
fn a_small_page_is_as_it_was() {
    let text = r#"{"schema": "manx-stats", "version": 1, "program": "server", "pid": 7, "state": "ended",
        "locks": [{"address": 4096, "kind": "mutex", "module": "server", "symbol": "get", "waits": 3,
                   "waited_ns": 1500, "longest_ns": 900}]}"#;
    let page = page_of(&[("s.json", text)], &Options::default()).unwrap();
    let (begin, end) = (page.find("<body>").unwrap(), page.find("<script>\"use strict\"").unwrap());
    let body = page[begin..end].replace("><", ">\n<") + "\n";
    let golden = file("golden/stats.html");
    if std::env::var_os("MANX_BLESS").is_some() {
        std::fs::write(&golden, &body).unwrap();
    }
    assert_eq!(body, std::fs::read_to_string(&golden).unwrap_or_default(), "MANX_BLESS=1 rewrites it");
}
