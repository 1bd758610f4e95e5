//! The pages in a real Chromium, without a window: the script works, nothing overflows, no string
//! of a result runs, and axe finds nothing serious.

mod common;

use common::{RESULTS, page_of, result};
use page::Options;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use testing::process::{finish, text};

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        testing::skip("chromium is not installed");
    }
    found
}

/// Where `cargo xtask setup` puts axe: in the target folder.
fn axe() -> Option<String> {
    let own = std::env::current_exe().unwrap();
    let found =
        own.ancestors().map(|folder| folder.join("axe/package/axe.min.js")).find(|file| file.is_file());
    if found.is_none() {
        testing::skip("axe-core is not set up");
    }
    found.map(|file| std::fs::read_to_string(file).unwrap())
}

/// Loads a page, with a script behind it that leaves a value in `done(value)`.
fn probe(chromium: &PathBuf, page: &str, script: &str, width: u32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (folder.path().join("inner.html"), folder.path().join("outer.html"));
    // The page's policy allows no other script.
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let done = "const done = (value) => parent.postMessage(JSON.stringify(value), '*');";
    let script = format!("<script>{done}\n{script}</script></body>");
    let open = [&page[..policy], &page[end..]].concat().replace("</body>", &script);
    std::fs::write(&inner, open).unwrap();
    // A window is never as narrow as a telephone, a frame is.
    let frame = format!(
        "<!DOCTYPE html><title>t</title><pre id=\"probe\"></pre><script>addEventListener('message', (event) => {{
            document.getElementById('probe').textContent = event.data; }});</script>
         <iframe src=\"inner.html\" width=\"{width}\" height=\"900\"></iframe>"
    );
    std::fs::write(&outer, frame).unwrap();
    let said = text(&dump(chromium, &folder, &outer).stdout);
    let begin = said.find("<pre id=\"probe\">").unwrap_or_else(|| panic!("no page: {said}"))
        + "<pre id=\"probe\">".len();
    let answer = &said[begin..begin + said[begin..].find("</pre>").unwrap()];
    let answer =
        answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&nbsp;", " ");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn dump(chromium: &PathBuf, folder: &tempfile::TempDir, file: &std::path::Path) -> std::process::Output {
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.args(["--allow-file-access-from-files", "--virtual-time-budget=30000", "--window-size=1400,900"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg(format!("file://{}", file.display()));
    finish(&mut command)
}

/// The page of one result.
fn page_named(name: &str) -> String {
    page_of(&[(name, &result(name))], &Options::default()).unwrap()
}

/// A page of each kind, of all kinds, and two comparisons.
fn pages() -> Vec<(String, String)> {
    let texts: Vec<(&str, String)> = RESULTS.iter().map(|name| (*name, result(name))).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let of = |results: &[(&str, &str)], compare| page_of(results, &Options { title: None, compare }).unwrap();
    let mut pages: Vec<(String, String)> =
        texts.iter().map(|one| (one.0.to_owned(), of(&[*one], false))).collect();
    pages.push(("all".into(), of(&texts, false)));
    for one in [texts[0], texts[2]] {
        pages.push((format!("{} compared", one.0), of(&[one, one], true)));
    }
    pages
}

#[test]
fn the_policy_lets_the_script_run() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page_named("stats.json")).unwrap();
    let said = text(&dump(&chromium, &folder, &file).stdout);
    let hint = "openssl dgst -sha256 -binary src/page.js | base64 > src/page.js.sha256";
    assert!(
        said.contains("<th class=\"n\" scope=\"col\" aria-sort=\"none\"><button"),
        "after a change of page.js: {hint}"
    );
    assert!(said.contains("JSON: stats.json"), "{hint}");
}

#[test]
fn heads_sort_and_arrow_keys_move_along_the_values() {
    let Some(chromium) = chromium() else { return };
    let script = r#"
        const table = [...document.querySelectorAll("table")].find((one) => one.caption.textContent.startsWith("Locks"));
        const column = (at) => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
        const head = table.tHead.rows[0].cells[3], sorts = [];
        for (let click = 0; click < 2; click++) {
            head.querySelector("button").click();
            sorts.push([head.getAttribute("aria-sort"), column(3)]);
        }
        const plot = document.querySelector(".plot"), tip = document.getElementById("tip"), tips = [];
        plot.focus();
        for (const key of ["ArrowRight", "ArrowRight", "End", "Escape"]) {
            plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            tips.push(tip.textContent);
        }
        const svg = document.querySelector("svg.wide"), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent("pointermove",
            { bubbles: true, clientX: box.right - box.width * 0.06, clientY: box.top + box.height * 0.2 }));
        tips.push(tip.textContent, tip.style.display);
        const before = getComputedStyle(document.body).backgroundColor;
        const theme = document.querySelector(".tool");
        theme.click();
        const after = getComputedStyle(document.body).backgroundColor;
        done({ sorts, tips, before, after, theme: theme.textContent });
    "#;
    let answer = probe(&chromium, &page_named("stats.json"), script, 1280);
    let counts = json!(["2250", "3000", "4500", "9000"]);
    let mut falling = counts.clone();
    falling.as_array_mut().unwrap().reverse();
    assert_eq!(answer["sorts"], json!([["ascending", counts], ["descending", falling]]));
    let tips: Vec<&str> =
        answer["tips"].as_array().unwrap().iter().map(|tip| tip.as_str().unwrap()).collect();
    assert!(
        tips[0].starts_with("requests\np0: ") && tips[1] != tips[0] && tips[2].contains("9.00 ms"),
        "{tips:?}"
    );
    assert_eq!(tips[3], "");
    assert!(tips[4].starts_with("requests\np") && tips[5] == "block", "at the pointer: {tips:?}");
    assert_ne!(answer["before"], answer["after"]);
}

#[test]
fn nothing_overflows_on_a_telephone() {
    let Some(chromium) = chromium() else { return };
    let script = "done([document.documentElement.scrollWidth, innerWidth,
        [...document.querySelectorAll('svg.narrow')].every((svg) => svg.getBoundingClientRect().width > 200),
        [...document.querySelectorAll('svg.wide')].every((svg) => svg.getBoundingClientRect().width === 0)]);";
    for (name, page) in pages() {
        let answer = probe(&chromium, &page, script, 360);
        assert!(answer[0].as_u64() <= answer[1].as_u64(), "{name}: {answer}");
        assert_eq!((&answer[2], &answer[3]), (&json!(true), &json!(true)), "{name}");
    }
}

#[test]
fn no_string_of_a_result_runs() {
    let Some(chromium) = chromium() else { return };
    let evil =
        "</script><img src=x onerror=\"window.hacked=1\"><script>window.hacked=2</script>' onload=hacked()";
    let texts: Vec<String> = RESULTS
        .iter()
        .map(|name| {
            let text = result(name).replace("mutex", "@@").replace("server", "@@").replace("as it is", "@@");
            text.replace("@@", &serde_json::to_string(evil).unwrap().trim_matches('"').replace('$', ""))
        })
        .collect();
    let named: Vec<(&str, &str)> = texts.iter().map(|text| (evil, text.as_str())).collect();
    let page = page_of(&named, &Options { title: Some(evil.into()), compare: false }).unwrap();
    let script = r#"
        document.querySelectorAll(".plot").forEach((plot) => {
            plot.focus();
            plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        });
        document.querySelectorAll("th button").forEach((button) => button.click());
        setTimeout(() => done([window.hacked ?? 0, document.querySelectorAll("img").length]), 500);
    "#;
    assert_eq!(probe(&chromium, &page, script, 1280), json!([0, 0]));
}

#[test]
fn axe_finds_nothing_serious() {
    let (Some(chromium), Some(axe)) = (chromium(), axe()) else { return };
    for (name, page) in pages() {
        for theme in ["light", "dark"] {
            let script = format!(
                "{axe}\ndocument.documentElement.dataset.theme = '{theme}';
                document.querySelectorAll('details').forEach((one) => {{ one.open = true; }});
                axe.run().then((found) => done({{ rules: found.passes.length, found: found.violations.map((one) =>
                    ({{ impact: one.impact, id: one.id, at: one.nodes.slice(0, 3).map((node) => node.html) }})) }}));"
            );
            let answer = probe(&chromium, &page, &script, 1280);
            assert!(answer["rules"].as_u64() > Some(10), "{name}: axe ran: {answer}");
            let serious = answer["found"].as_array().unwrap().iter();
            let serious =
                serious.filter(|one| ["serious", "critical"].contains(&one["impact"].as_str().unwrap_or("")));
            let serious: Vec<&Value> = serious.collect();
            assert!(serious.is_empty(), "{name}, {theme}: {serious:#?}");
        }
    }
}
