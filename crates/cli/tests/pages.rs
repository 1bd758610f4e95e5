//! What the pages for operators show works: the transcripts of the command, the commands that tell
//! whether a program is affected, and the manifest for Kubernetes.

mod support;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use preload_abi::options::Options;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use support::{Sandbox, output, stdout};

/// A page, by its path from the root.
fn path(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

fn page(page: &str) -> String {
    fs::read_to_string(path(page)).expect("the page")
}

/// Transcripts are the blocks that begin with `console`. Blocks of other kinds show what depends on
/// the machine.
#[test]
fn transcripts_are_what_the_command_prints() {
    let sandbox = Sandbox::new();
    let cases = trycmd::TestCases::new();
    cases.env("COLUMNS", "100").env("MANX_PRELOAD", sandbox.stand_in().to_str().expect("text"));
    cases.case(path("README.md")).case(path("docs/*.md"));
}

#[test]
fn the_commands_that_tell_whether_a_program_is_affected_work() {
    let page = page("README.md");
    let (_, section) = page.split_once("\n## Am I affected?\n").expect("the section");
    let mut blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.find(|block| block.contains("schedstat")).expect("the commands");
    let commands = commands.replace("$PID", &std::process::id().to_string());
    // A machine may have control groups of version 1 only: then there is no such file.
    let sandbox = Sandbox::new();
    let file = sandbox.write("commands", format!("{commands}\ntrue\n"));
    let said = stdout(&output(Command::new("sh").arg(file)));
    assert!(said.contains(" s ran, ") && said.contains(" involuntary switches\n"), "{said}");
}

/// A field that Kubernetes does not have is lost when the manifest is read as its type and written
/// again.
#[test]
fn the_manifest_has_fields_of_kubernetes_only() {
    let written: serde_json::Value = serde_saphyr::from_str(&page("docs/kubernetes.yaml")).unwrap();
    let deployment: Deployment = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&deployment).unwrap(), written);
}

#[test]
fn the_manifest_brings_the_library_to_where_the_server_looks_for_it() {
    let deployment: Deployment = serde_saphyr::from_str(&page("docs/kubernetes.yaml")).unwrap();
    let spec = deployment.spec.expect("a deployment");
    let pod = spec.template.spec.expect("a pod");
    let labels = spec.template.metadata.and_then(|it| it.labels);
    assert_eq!(spec.selector.match_labels, labels);
    let init = pod.init_containers.expect("init containers");
    let volumes: Vec<_> = pod.volumes.iter().flatten().map(|volume| &volume.name).collect();
    let mount = |container: &Container| {
        let mount = container.volume_mounts.iter().flatten().next().expect("a mount").clone();
        assert!(volumes.contains(&&mount.name), "{}", mount.name);
        mount
    };
    let (copied, read) = (mount(&init[0]), mount(&pod.containers[0]));
    assert_eq!((copied.name, read.read_only), (read.name, Some(true)));
    let copy = init[0].command.as_ref().expect("a command");
    assert_eq!(copy.last(), Some(&format!("{}/", copied.mount_path)));
    let variable = |name: &str| {
        let mut variables = pod.containers[0].env.iter().flatten();
        variables.find(|it| it.name == name).and_then(|it| it.value.clone()).expect("a variable")
    };
    assert_eq!(variable("LD_PRELOAD"), format!("{}/{}", read.mount_path, preload_abi::LIBRARY_NAME));
    assert_eq!(Options::parse(variable("MANX_OPTIONS").as_bytes()).rejected, None);
}
