//! Certificates of one authority, for members of etcd and for clients, made by `openssl`.

use crate::process::{is_installed, succeed};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes `ca.pem`, which has signed `member.pem` (127.0.0.1 and member.test) and `client.pem`,
/// whose keys are `member.key` and `client.key`. `false` where openssl is not installed: then the
/// test was told to be skipped, and returns.
///
/// # Panics
/// If openssl fails.
#[track_caller]
pub fn make_certificates(folder: &Path) -> bool {
    if !is_installed("openssl", "version") {
        return false;
    }
    // Not what the machine's own file adds.
    fs::write(folder.join("config"), "[req]\ndistinguished_name = name\n[name]\n").expect("a file");
    let make = |name: &str, more: &[&str]| {
        // It writes its progress to standard error.
        let mut command = Command::new("sh");
        command.current_dir(folder).stdin(Stdio::null());
        command.args(["-c", "openssl \"$@\" 2> log || cat log >&2", "sh"]);
        command.args(["req", "-x509", "-config", "config", "-days", "2", "-nodes", "-batch"]);
        command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        command.arg("-subj").arg(format!("/CN={name}")).arg("-out").arg(format!("{name}.pem"));
        command.arg("-keyout").arg(format!("{name}.key")).args(more);
        succeed(&mut command);
    };
    make("ca", &["-addext", "basicConstraints=critical,CA:TRUE"]);
    let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext"];
    make("member", &[&signed[..], &["subjectAltName=IP:127.0.0.1,DNS:member.test"]].concat());
    make("client", &[&signed[..], &["subjectAltName=DNS:client"]].concat());
    true
}
