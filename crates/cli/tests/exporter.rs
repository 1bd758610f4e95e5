//! `manx exporter`: formats, errors, limits and ends.

#[path = "../../exporter/tests/support/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use support::holder::Holder;
use support::http::{Answer, exchange, get};
use support::{MANX, Sandbox, bare, fails, output, root, stderr};
use testing::process::Running;
use testing::{eventually, until};

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

fn exporter(sandbox: &Sandbox) -> Command {
    let mut command = bare(MANX);
    command.arg("exporter").current_dir(sandbox.path(""));
    command
}

/// An exporter that has begun, and where it listens.
struct Served {
    running: Running,
    address: String,
}

impl Served {
    fn start(command: &mut Command) -> Served {
        let mut running = Running::start(command.args(["--listen", "127.0.0.1:0"]));
        let line = running.line().expect("where it listens");
        let address = line.strip_prefix("http://").and_then(|it| it.strip_suffix("/metrics"));
        Served { address: address.expect("a URL").to_owned(), running }
    }

    fn get(&self, path: &str, accept: &str) -> Answer {
        get(&self.address, path, accept).expect("an answer")
    }

    fn send(&self, request: &str) -> Answer {
        exchange(TcpStream::connect(&self.address).expect("a server"), request).expect("an answer")
    }

    fn end(mut self) -> ExitStatus {
        terminate(&self.running);
        self.running.child.wait().expect("ended")
    }
}

fn terminate(running: &Running) {
    // SAFETY: a signal to a child of this test that was not waited for.
    assert_eq!(unsafe { libc::kill(running.child.id() as i32, libc::SIGTERM) }, 0);
}

#[test]
fn a_program_is_served_in_each_format_with_its_name_escaped() {
    let sandbox = Sandbox::new();
    let fake = Fake::new(&sandbox.path(""), "7.live", 1);
    fake.lock(5, "put+0x1", 3, 1_000_000);
    let (library, name) = (sandbox.stand_in(), "hostile\"\\\nname");
    let holder = Holder::named(&sandbox, name, &[&library, &fake.path]);
    let served = Served::start(exporter(&sandbox).args(["--process", &holder.pid().to_string()]));
    let line = r#"manx_processes{program="hostile\"\\\nname",state="counted"} 1"#;
    let text = eventually("the first look", || {
        let text = served.get("/metrics", OPENMETRICS).text();
        text.contains(line).then_some(text)
    });
    assert!(text.ends_with("# EOF\n"), "{text}");
    let count = r#"manx_lock_wait_seconds_count{program="hostile\"\\\nname",lock="libengine.so:put+0x1"} 3"#;
    assert!(text.lines().any(|it| it == count), "{text}");

    let old = served.get("/metrics?x", "*/*");
    assert!(old.headers.contains("text/plain; version=0.0.4") && !old.text().contains("# EOF"), "{old:?}");
    assert!(old.text().contains("# TYPE manx_cpu_seconds_total counter\n"), "{old:?}");
    let protobuf = served.get("/metrics", PROTOBUF);
    assert!(protobuf.headers.contains("proto=io.prometheus.client.MetricFamily"), "{}", protobuf.headers);
    assert!(protobuf.body.windows(name.len()).any(|window| window == name.as_bytes()));
    drop(holder);
    let mut running = served.running;
    assert_eq!(running.child.wait().expect("it ends with the process").code(), Some(0));
}

#[test]
fn requests_are_answered_or_refused() {
    let sandbox = Sandbox::new();
    let served = Served::start(exporter(&sandbox).args(["--process", &std::process::id().to_string()]));
    assert!(served.address.starts_with("127.0.0.1:"));
    assert_eq!(served.get("/healthz", "").text(), "ok\n");
    assert!(served.get("/", "").text().contains("/metrics"));
    let head = served.send("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.status.starts_with("HTTP/1.1 200 ") && head.body.is_empty(), "{head:?}");
    assert!(head.headers.contains("Content-Length: ") && !head.headers.contains("Content-Length: 0"));
    for (request, status) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("GET /metrics HTTP/3\r\n\r\n", "505"),
        (&format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(9000)), "431"),
    ] {
        let answer = served.send(request);
        assert!(answer.status.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {answer:?}");
    }
    assert_eq!(served.end().code(), Some(0), "SIGTERM ends it");
}

#[test]
fn many_connections_are_refused_and_few_go_on() {
    let sandbox = Sandbox::new();
    let served = Served::start(exporter(&sandbox).args(["--process", &std::process::id().to_string()]));
    // Clients that say nothing have their places for some seconds.
    let status = eventually("a refusal", || {
        let _idle: Vec<TcpStream> =
            (0..16).map(|_| TcpStream::connect(&served.address).expect("a server")).collect();
        let answer = get(&served.address, "/healthz", "")?;
        answer.status.contains(" 503 ").then_some(answer.status)
    });
    assert!(status.contains("503"), "{status}");
    until("a place is free again", || {
        get(&served.address, "/healthz", "").is_some_and(|answer| answer.status.contains(" 200 "))
    });
}

#[test]
fn a_file_is_written_and_replaced() {
    let sandbox = Sandbox::new();
    let mut command = exporter(&sandbox);
    let holder = Holder::start(&sandbox, &[]);
    command.args(["--process", &holder.pid().to_string(), "--text-file", "a.prom"]);
    let mut running = Running::start(command.arg("--interval=100ms"));
    let file = sandbox.path("a.prom");
    let read = || fs::read_to_string(&file).unwrap_or_default();
    until("the first look", || read().contains("manx_processes{program=\"holder\",state=\"plain\"} 1\n"));
    let passes = || {
        let value =
            read().lines().find_map(|line| line.strip_prefix("manx_exporter_passes_total ")?.parse().ok());
        value.unwrap_or(0_u64)
    };
    let before = passes();
    until("the file is written again", || passes() > before);
    terminate(&running);
    assert_eq!(running.child.wait().expect("ended").code(), Some(0));
    let names: Vec<_> = fs::read_dir(sandbox.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".a.prom")), "{names:?}");
}

#[test]
fn a_socket_is_served_and_removed() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("socket");
    // One that another exporter left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let mut command = exporter(&sandbox);
    command.args(["--process", &std::process::id().to_string(), "--listen", "unix:socket"]);
    let mut running = Running::start(&mut command);
    assert_eq!(running.line().as_deref(), Some("unix:socket"));
    let stream = UnixStream::connect(&socket).expect("a server");
    let answer = exchange(stream, "GET /healthz HTTP/1.1\r\n\r\n").expect("an answer");
    assert_eq!(answer.text(), "ok\n");
    fails(
        exporter(&sandbox).args(["--listen", "unix:socket"]),
        2,
        &["cannot listen at unix:socket", "another"],
    );
    terminate(&running);
    assert_eq!(running.child.wait().expect("ended").code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn what_cannot_be_used_is_told() {
    let sandbox = Sandbox::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("an address").to_string();
    let (folder, text) = (sandbox.path("missing/a.prom"), sandbox.write("text", "x"));
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    for (words, code, parts) in [
        (vec!["--listen", "nowhere"], 2, ["unix:PATH", "127.0.0.1:16269"]),
        (vec!["--listen", &format!("unix:{}", path(&text))], 2, ["cannot listen", "--listen"]),
        (vec!["--text-file", "a.txt"], 2, [".prom", "node_exporter"]),
        (vec!["--text-file", &path(&folder)], 2, ["no such file", "a folder that exists"]),
        (vec!["--interval", "5"], 2, ["unit is missing", "--interval"]),
        (vec!["--interval", "1ms"], 2, ["100ms to 1000s", "--interval"]),
        (vec!["--process", "0"], 2, ["--process", "0"]),
        (vec!["--process", "4194305"], 2, ["no process 4194305", "pgrep"]),
        (vec!["--programs", "1"], 2, ["--programs", "2..=5000"]),
    ] {
        fails(exporter(&sandbox).args(&words), code, &parts);
    }
    fails(exporter(&sandbox).args(["--listen", &taken]), 2, &["cannot listen at", "another process has it"]);
    assert!(text.exists(), "a file that is no socket stays");
}

/// Says what `wait` finds, and which descriptors there are; then waits for the end of its input.
const STRANGER: &str = r#"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int found = wait(0);
    printf("wait %d %d, descriptors", found, errno == ECHILD);
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder))
            printf(" %s", entry->d_name);
    puts("");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 7;
}"#;

#[test]
fn a_program_does_not_notice_its_metrics() {
    let sandbox = Sandbox::new();
    let stranger = sandbox.compile("stranger", STRANGER, &[]).expect("a C compiler");
    let usual = output(sandbox.manx().arg("run").arg("--").arg(&stranger).stdin(Stdio::null()));
    let usual = support::stdout(&usual);
    assert!(usual.starts_with("wait -1 1, descriptors 0 1 2"), "{usual}");
    for destination in ["a.prom", "unix:socket"] {
        let mut command = sandbox.manx();
        command.arg("run").arg(format!("--metrics={destination}")).arg("--").arg(&stranger);
        let mut running = Running::start(&mut command);
        assert_eq!(running.line().as_deref(), Some(usual.trim_end()));
        let metrics = || match destination {
            "a.prom" => fs::read_to_string(sandbox.path("a.prom")).unwrap_or_default(),
            _ => {
                let stream = UnixStream::connect(sandbox.path("socket")).expect("a server");
                exchange(stream, "GET /metrics HTTP/1.1\r\n\r\n").expect("an answer").text()
            }
        };
        until("the first look", || {
            let now = metrics();
            assert!(!now.contains("program=\"manx\""), "the launcher is no program: {now}");
            now.contains("manx_processes{program=\"stranger\",state=\"manx\"} 1\n")
        });
        drop(running.child.stdin.take());
        // The helper does not hold the program's output: it ends.
        assert_eq!(running.line(), None);
        assert_eq!(running.child.wait().expect("ended").code(), Some(7));
        match destination {
            "a.prom" => {
                until("the last look", || metrics().contains("{program=\"stranger\",state=\"manx\"} 0\n"))
            }
            _ => until("the helper ends", || !sandbox.path("socket").exists()),
        }
    }
}

#[test]
fn counts_are_kept_for_metrics_unless_they_go_elsewhere() {
    let sandbox = Sandbox::new();
    for (words, expected) in [
        (&["--metrics=a.prom"][..], "stats=live"),
        (&["--metrics=a.prom", "--stats"], "stats=stderr"),
        (&["--stats=live"], "stats=live"),
    ] {
        let mut command = sandbox.manx();
        command.arg("run").args(words).args(["--", "sh", "-c", "echo $MANX_OPTIONS"]);
        let run = output(&mut command);
        let said = support::stdout(&run);
        assert!(said.trim_end().split(',').any(|word| word == expected), "{said}{}", stderr(&run));
    }
}

#[test]
fn metrics_that_cannot_be_written_keep_the_program_from_running() {
    let sandbox = Sandbox::new();
    let run = |destination: &str| {
        let mut command = sandbox.manx();
        command.arg("run").arg(format!("--metrics={destination}"));
        command.args(["--", "touch", "ran"]).stdin(Stdio::null());
        command
    };
    fails(&mut run("missing/a.prom"), 2, &["--metrics: ", "missing/a.prom: cannot be written", "folder"]);
    fails(&mut run("unix:missing/a"), 2, &["--metrics: cannot listen at unix:", "create the folder"]);
    fails(&mut run("a.txt"), 2, &[".prom", "unix:PATH"]);
    assert!(!sandbox.path("ran").exists());
}

#[test]
fn a_process_that_adopts_orphans_is_refused() {
    if !root() {
        return testing::skip("a pid namespace takes root");
    }
    let sandbox = Sandbox::new();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", MANX, "run", "--metrics=a.prom", "--", "true"]);
    command.env("MANX_PRELOAD", sandbox.stand_in()).current_dir(sandbox.path(""));
    let run = output(&mut command);
    if stderr(&run).contains("unshare:") {
        return testing::skip("a pid namespace cannot be made");
    }
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(stderr(&run).contains("adopts orphans"), "{}", stderr(&run));
}
