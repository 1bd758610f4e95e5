//! `docs/metrics.md` and the files beside it: the table of metrics is the exporter's own, the
//! manifest has fields of Kubernetes, the dashboard those of Grafana, and queries name metrics that
//! exist.

use exporter::catalogue::ALL;
use exporter::metric::{Description, Kind};
use k8s_openapi::api::apps::v1::DaemonSet;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn docs(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(path).expect("the page")
}

/// The name as queries have it.
fn shown(description: &Description) -> String {
    let suffix = if description.kind == Kind::Counter { "_total" } else { "" };
    format!("{}{suffix}", description.name)
}

#[test]
fn the_table_of_metrics_is_the_exporters() {
    let page = docs("metrics.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `manx_")).collect();
    let expected: Vec<String> = ALL
        .iter()
        .map(|it| {
            let labels: Vec<String> = it.labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |", shown(it), it.kind.word(), labels.join(", "), it.help)
        })
        .map(|row| row.replace("|  |", "| |"))
        .collect();
    assert_eq!(rows, expected, "the table should be:\n{}\n", expected.join("\n"));
}

/// The metrics that a text names.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("manx_"));
    words.map(str::to_owned).collect()
}

#[test]
fn rules_and_the_dashboard_name_metrics_that_exist() {
    let known: BTreeSet<String> = ALL.iter().map(|description| shown(description)).collect();
    for file in ["metrics/rules.yml", "metrics/dashboard.json"] {
        let named = metrics_of(&docs(file));
        assert!(named.len() > 5 && named.is_subset(&known), "{file}: {:?}", named.difference(&known));
    }
}

#[test]
fn the_daemon_set_has_fields_of_kubernetes_only_and_reaches_the_exporter() {
    let text = docs("metrics/daemonset.yaml");
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    let daemon_set: DaemonSet = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&daemon_set).unwrap(), written);

    let spec = daemon_set.spec.expect("a daemon set");
    let metadata = spec.template.metadata.expect("metadata");
    assert_eq!(spec.selector.match_labels, metadata.labels);
    let pod = spec.template.spec.expect("a pod");
    assert_eq!(pod.host_pid, Some(true), "it sees the processes of the node");
    let volumes: Vec<_> = pod.volumes.iter().flatten().map(|volume| &volume.name).collect();
    let init = &pod.init_containers.as_ref().expect("init containers")[0];
    for mount in [init, &pod.containers[0]].iter().flat_map(|it| it.volume_mounts.iter().flatten()) {
        assert!(volumes.contains(&&mount.name), "{}", mount.name);
    }
    let copied_to = init.command.as_ref().and_then(|it| it.last()).expect("where manx is copied to");
    let command = pod.containers[0].command.as_ref().expect("a command");
    assert_eq!(command[0], format!("{copied_to}manx"));
    // The command line is one that manx understands.
    let matches = cli::command().try_get_matches_from(command).expect("a command line of manx");
    assert_eq!(matches.subcommand_name(), Some("exporter"));
    let port = pod.containers[0].ports.as_ref().expect("ports")[0].container_port;
    assert!(command.last().expect("an address").ends_with(&format!(":{port}")));
    let annotations = metadata.annotations.expect("annotations");
    assert_eq!(annotations["prometheus.io/port"], port.to_string());
}

/// A dashboard as Grafana 11 reads it (its schema 39), as far as ours has it. A field that is not
/// here is a spelling mistake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Dashboard {
    title: String,
    uid: String,
    description: String,
    tags: Vec<String>,
    schema_version: u32,
    version: u32,
    editable: bool,
    refresh: String,
    time: Time,
    timezone: String,
    templating: List<Variable>,
    annotations: List<Value>,
    links: Vec<Value>,
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    from: String,
    to: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List<T> {
    list: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VariableKind {
    Query,
    Datasource,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Variable {
    name: String,
    #[serde(rename = "label")]
    _label: String,
    #[serde(rename = "type")]
    kind: VariableKind,
    query: String,
    #[serde(rename = "refresh")]
    _refresh: u8,
    #[serde(rename = "current")]
    _current: Value,
    datasource: Option<Source>,
    #[serde(default, rename = "includeAll")]
    _include_all: bool,
    #[serde(default, rename = "multi")]
    _multi: bool,
    #[serde(default, rename = "allValue")]
    _all_value: Option<String>,
    #[serde(default, rename = "sort")]
    _sort: u8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    #[serde(rename = "type")]
    kind: String,
    uid: String,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum PanelKind {
    Stat,
    Timeseries,
    Heatmap,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Panel {
    id: u32,
    #[serde(rename = "type")]
    kind: PanelKind,
    title: String,
    description: String,
    datasource: Source,
    grid_pos: Place,
    targets: Vec<Target>,
    field_config: FieldConfig,
    options: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    x: u32,
    y: u32,
    w: u32,
    h: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Target {
    datasource: Source,
    expr: String,
    #[serde(rename = "legendFormat")]
    _legend_format: String,
    ref_id: String,
    format: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldConfig {
    defaults: Defaults,
    #[serde(rename = "overrides")]
    _overrides: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    unit: String,
}

#[test]
fn the_dashboard_is_one_of_grafana() {
    let dashboard: Dashboard = serde_json::from_str(&docs("metrics/dashboard.json")).expect("a dashboard");
    assert!(dashboard.schema_version >= 39 && dashboard.version >= 1 && dashboard.editable);
    assert!(!dashboard.title.is_empty() && !dashboard.description.is_empty() && !dashboard.tags.is_empty());
    assert!(dashboard.uid.len() <= 40 && !dashboard.refresh.is_empty() && !dashboard.timezone.is_empty());
    assert!(dashboard.time.from.starts_with("now-") && dashboard.time.to == "now");
    assert!(dashboard.annotations.list.is_empty() && dashboard.links.is_empty());
    let variables = &dashboard.templating.list;
    assert!(matches!(variables[0].kind, VariableKind::Datasource) && variables[0].query == "prometheus");
    let is_ours = |source: &Source| source.kind == "prometheus" && source.uid == "${datasource}";
    for variable in &variables[1..] {
        assert!(variable.datasource.as_ref().is_some_and(is_ours), "{}", variable.name);
        assert!(!metrics_of(&variable.query).is_empty(), "{}", variable.query);
    }
    let units = ["short", "s", "percentunit", "ops"];
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in &dashboard.panels {
        assert!(ids.insert(panel.id), "two panels have the number {}", panel.id);
        assert!(!panel.title.is_empty() && panel.description.ends_with('.'), "{}", panel.title);
        assert!(is_ours(&panel.datasource) && panel.options.is_object());
        assert!(units.contains(&panel.field_config.defaults.unit.as_str()), "{}", panel.title);
        let place = &panel.grid_pos;
        assert!(place.w > 0 && place.h > 0 && place.x + place.w <= 24, "{}: {place:?}", panel.title);
        for cell in
            (place.x..place.x + place.w).flat_map(|x| (place.y..place.y + place.h).map(move |y| (x, y)))
        {
            assert!(cells.insert(cell), "{} lies over another panel", panel.title);
        }
        let refs: BTreeSet<&str> = panel.targets.iter().map(|target| target.ref_id.as_str()).collect();
        assert!(!refs.is_empty() && refs.len() == panel.targets.len(), "{}", panel.title);
        for target in &panel.targets {
            assert!(is_ours(&target.datasource) && !target.expr.is_empty());
            let is_heat = target.format.as_deref() == Some("heatmap");
            assert_eq!(is_heat, panel.kind == PanelKind::Heatmap, "{}", panel.title);
            let named = target.expr.split('$').skip(1).map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                &rest[..end]
            });
            for name in named {
                let is_known = name == "__rate_interval" || variables.iter().any(|it| it.name == name);
                assert!(is_known, "{}: ${name}", panel.title);
            }
        }
    }
}
