//! A real Prometheus scrapes the exporter, evaluates the rules of `docs/metrics`, and runs the
//! queries of the dashboard.

#[path = "../../exporter/tests/support/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::holder::Holder;
use support::http::get;
use support::{MANX, Sandbox, bare, output, stderr, stdout};
use testing::process::{Running, is_installed};
use testing::{eventually, until};

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(docs(name)).expect("the file")
}

/// Runs promtool, which must be content.
#[track_caller]
fn promtool(words: &[&str]) -> String {
    let run = output(Command::new("promtool").args(words));
    let said = format!("{}{}", stdout(&run), stderr(&run));
    assert!(run.status.success(), "promtool {words:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn the_configuration_and_the_rules_are_right() {
    if !is_installed("promtool", "--version") {
        return;
    }
    promtool(&["check", "config", text(&docs("prometheus.yml"))]);
    promtool(&["check", "rules", text(&docs("rules.yml"))]);
}

/// Series that are made up, and the alerts that they bring. The alert on lock waits needs native
/// histograms, which promtool cannot make up: see below.
const ALERTS: &str = r#"
rule_files: [RULES]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - series: manx_cgroup_periods_total{instance="a",cgroup="/busy"}
        values: 0+150x100
      - series: manx_cgroup_throttled_periods_total{instance="a",cgroup="/busy"}
        values: 0+75x100
      - series: manx_cgroup_periods_total{instance="a",cgroup="/calm"}
        values: 0+150x100
      - series: manx_cgroup_throttled_periods_total{instance="a",cgroup="/calm"}
        values: 0+3x100
      - series: manx_run_delay_seconds_total{instance="a",program="crowd"}
        values: 0+30x100
      - series: manx_cpu_seconds_total{instance="a",program="crowd"}
        values: 0+30x100
      - series: manx_run_delay_seconds_total{instance="a",program="idle"}
        values: 0+0.5x100
      - series: manx_cpu_seconds_total{instance="a",program="idle"}
        values: 0+0.1x100
      - series: manx_loop_wait_seconds_total{instance="a",program="spinner"}
        values: 0+30x100
      - series: manx_budget_cpus{instance="a",program="spinner"}
        values: 2x100
      - series: manx_exporter_age_seconds{instance="a"}
        values: 90x100
    alert_rule_test:
      - eval_time: 20m
        alertname: ManxThrottled
        exp_alerts:
          - exp_labels: {severity: warning, instance: a, cgroup: /busy}
            exp_annotations:
              summary: "/busy is stopped by its quota in 50% of its periods"
              description: "Raise the CPU limit of the group, or run fewer threads: manx run tells programs how many CPUs they really have."
      - eval_time: 20m
        alertname: ManxRunQueueDelay
        exp_alerts:
          - exp_labels: {severity: warning, instance: a, program: crowd}
            exp_annotations:
              summary: "threads of crowd wait for a CPU in 50% of the time in which they could run"
              description: "There are more runnable threads than CPUs. `manx doctor` says why."
      - eval_time: 20m
        alertname: ManxCpuLostToWaiting
        exp_alerts:
          - exp_labels: {severity: warning, instance: a, program: spinner}
            exp_annotations:
              summary: "threads of spinner wait in loops for 2 seconds a second"
              description: "They would burn so many CPUs by spinning without Manx. Run fewer threads, or let fewer programs share the CPUs."
      - eval_time: 20m
        alertname: ManxExporterLate
        exp_alerts:
          - exp_labels: {severity: warning, instance: a}
            exp_annotations:
              summary: "the exporter needs 1m 30s for a round"
              description: "There are more processes than it can look at in its part of a CPU: raise --interval, or watch fewer."
      - eval_time: 5m
        alertname: ManxThrottled
        exp_alerts: []
"#;

#[test]
fn each_rule_fires_where_it_should_and_nowhere_else() {
    if !is_installed("promtool", "--version") {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.write("alerts.yml", ALERTS.replace("RULES", text(&docs("rules.yml"))));
    promtool(&["test", "rules", text(&file)]);
}

/// A text in a query of a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A Prometheus that runs.
struct Prometheus {
    _running: Running,
    address: String,
}

impl Prometheus {
    fn start(sandbox: &Sandbox, exporter: &str) -> Prometheus {
        // The rules and the configuration of the docs, in seconds instead of minutes.
        let rules = read("rules.yml").replace("[5m]", "[10s]").replace("for: 10m", "for: 1s");
        sandbox.write("rules.yml", rules);
        let configuration = read("prometheus.yml").replace("127.0.0.1:16269", exporter);
        let configuration = sandbox.write("prometheus.yml", configuration.replace("15s", "1s"));
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
        let log = fs::File::create(sandbox.path("log")).expect("a file");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", configuration.display()));
        command.arg(format!("--storage.tsdb.path={}", sandbox.path("data").display()));
        command.arg(format!("--web.listen-address={free}")).arg("--enable-feature=native-histograms");
        let running = Running::start(command.stderr(Stdio::from(log)));
        Prometheus { _running: running, address: free.to_string() }
    }

    /// The result of a query: its series. None if there is no answer yet.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let answer = get(&self.address, &format!("/api/v1/query?query={}", encoded(query)), "*/*")?;
        let value: Value = serde_json::from_slice(&answer.body).ok()?;
        let is_wrong = value["status"] == "error" && value["errorType"] == "bad_data";
        assert!(!is_wrong, "{query}: {value}");
        value["data"]["result"].as_array().cloned()
    }
}

/// A dashboard's query, as Grafana would send it.
fn filled_in(query: &str) -> String {
    // The program of this test has a line break in its name, which `.` alone does not match.
    let variables = [("$__rate_interval", "10s"), ("$instance", ".*"), ("$program", "(?s:.*)")];
    variables.into_iter().fold(query.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[test]
fn a_real_prometheus_scrapes_and_its_rules_fire() {
    if !is_installed("prometheus", "--version") {
        return;
    }
    let sandbox = Sandbox::new();
    let fake = Fake::new(&sandbox.path(""), "7.live", 1);
    let mut waits = 0;
    let mut wait = || {
        waits += 10;
        // Waits of 200 ms, in a hostile program.
        fake.lock(5, "put+0x1", waits, 200_000_000);
        fake.site(0, waits, waits * 100_000_000);
    };
    wait();
    let name = "hostile\"\\\nname";
    let mut holder = Holder::named(&sandbox, name, &[&sandbox.stand_in(), &fake.path]);
    let mut command = bare(MANX);
    command.args(["exporter", "--listen", "127.0.0.1:0", "--process", &holder.pid().to_string()]);
    let mut exporter = Running::start(&mut command);
    let url = exporter.line().expect("where it listens");
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");

    let file = sandbox.write("metrics", get(address, "/metrics", "*/*").expect("an answer").body);
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(file).expect("the file"))
        .output()
        .expect("promtool");
    assert!(check.status.success() && check.stderr.is_empty(), "{}", stderr(&check));

    let prometheus = Prometheus::start(&sandbox, address);
    until("Prometheus has scraped the exporter", || {
        let up = prometheus.query("up").unwrap_or_default();
        up.len() == 1 && up[0]["value"][1] == "1"
    });
    let mut alert = |query: &str| {
        eventually(query, || {
            wait();
            holder.wake();
            std::thread::sleep(std::time::Duration::from_millis(200));
            prometheus.query(query)?.into_iter().next()
        })
    };
    let firing = alert("ALERTS{alertname=\"ManxLockWait\",alertstate=\"firing\"}");
    assert_eq!(firing["metric"]["program"], name);
    assert_eq!(firing["metric"]["lock"], "libengine.so:put+0x1");
    // The buckets are those of the live file: no percentile is more than a tenth off.
    let p99 = alert("manx:lock_wait_seconds:p99");
    let p99: f64 = p99["value"][1].as_str().expect("a number").parse().expect("a number");
    assert!((0.18..0.22).contains(&p99), "{p99}");
    let lost = alert("ALERTS{alertname=\"ManxCpuLostToWaiting\",alertstate=\"firing\"}");
    assert_eq!(lost["metric"]["program"], name);

    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().expect("a query")).collect();
    let has_series = |query: &&str| {
        let series = eventually(query, || prometheus.query(&filled_in(query)));
        !series.is_empty()
    };
    // A machine without quotas has no throttling to show. A rate needs two scrapes in its ten
    // seconds.
    until("twelve queries have series", || queries.iter().copied().filter(has_series).count() >= 12);
}
