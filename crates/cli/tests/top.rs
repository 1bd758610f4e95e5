//! `manx top` in a terminal, and as plain text; `manx stats` without a process.
//!
//! The process that they show counts into a live file by itself, so that what must be on the screen
//! is known. That the preload library writes such files is tested with the library.

#[path = "../../exporter/tests/support/mod.rs"]
mod fake;
mod support;

use fake::Fake;
use preload_abi::histogram::bucket_of;
use preload_abi::live::{Cure, FILE_BYTES, Header, LOCKS_AT, Lock, NO_HELP, Site};
use serde_json::Value;
use std::mem::offset_of;
use std::process::Command;
use support::tmux::Terminal;
use support::{MANX, Sandbox, bare, fails, loses_its_reader, output, stderr, stdout};
use testing::process::Running;
use testing::until;

/// Maps the live file that it is given, and in each millisecond counts a wait of 2 ms for its lock
/// and one in its loop. The other arguments are offsets of counters, each with what is added.
const WAITER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static void *sleeper(void *unused) {
    pause();
    return unused;
}
int main(int count, char **arguments) {
    pthread_t thread;
    pthread_create(&thread, 0, sleeper, 0);
    pthread_setname_np(thread, "the-sleeper");
    int file = open(arguments[1], O_RDWR);
    char *live = mmap(0, atol(arguments[2]), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (live == MAP_FAILED)
        return 1;
    puts("ready");
    fflush(stdout);
    while (1) {
        for (int i = 3; i + 1 < count; i += 2)
            __atomic_fetch_add((long *)(live + atol(arguments[i])), atol(arguments[i + 1]), __ATOMIC_RELAXED);
        usleep(1000);
    }
}"#;

/// The process with the live file.
struct Waiter(Running);

impl Waiter {
    fn start(sandbox: &Sandbox) -> Waiter {
        let program = sandbox.compile("a-waiter", WAITER, &["-pthread"]).expect("a C compiler");
        let (site, lock) = (size_of::<Header>(), LOCKS_AT + 5 * size_of::<Lock>());
        let live = Fake::new(&sandbox.path(""), "waiter.live", 1);
        live.site(0, 0, 0);
        live.trial(Cure::Spin, false, [1_930_000_000, 520_000_000]);
        live.put(site + offset_of!(Site, module), b"libengine.so");
        live.put(site + offset_of!(Site, symbol), b"snapshot+0x10");
        live.lock(5, "write_page+0x7", 0, 0);
        live.put(lock + offset_of!(Lock, module), b"libstore.so\0");
        live.number(lock + offset_of!(Lock, longest_ticks), 2_000_000);
        let mut command = sandbox.manx();
        command.args(["run", "--"]).arg(program).arg(live.path).arg(FILE_BYTES.to_string());
        for (offset, add) in [
            (site + offset_of!(Site, waits), 1),
            (site + offset_of!(Site, visits), 100),
            (site + offset_of!(Site, waited_ticks), 500_000),
            (lock + offset_of!(Lock, waits), 1),
            (lock + offset_of!(Lock, waited_ticks), 2_000_000),
            (lock + offset_of!(Lock, histogram) + 8 * bucket_of(2_000_000), 1),
        ] {
            command.args([offset, add].map(|number: usize| number.to_string()));
        }
        let mut running = Running::start(&mut command);
        assert_eq!(running.line().as_deref(), Some("ready"));
        Waiter(running)
    }

    fn pid(&self) -> u32 {
        self.0.child.id()
    }
}

fn manx(command: &str) -> Command {
    let mut manx = bare(MANX);
    manx.arg(command).env("TERM", "dumb");
    manx
}

/// The line of a process, if it is on the screen.
fn line_of(screen: &str, pid: u32) -> Option<&str> {
    let pid = pid.to_string();
    screen.lines().find(|line| line.trim_start_matches('>').split_whitespace().next() == Some(&pid))
}

#[test]
fn a_process_is_found_sorted_opened_and_left_in_a_terminal() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::start(&sandbox);
    let Some(terminal) = Terminal::open(&sandbox, 120, 30) else { return };
    terminal.line("stty -a > before; manx top; echo code $?; stty -a > after");
    terminal.wait("the view", |screen| screen.starts_with("manx top") && screen.contains("sorted by DELAY"));
    assert!(terminal.is_alternate());
    terminal.wait("the keys", |screen| screen.contains("q quit  h help"));

    terminal.keys(&["/"]);
    // Other tests have such a process too, in another folder.
    let folder = sandbox.path("").file_name().expect("a name").to_str().expect("text").to_owned();
    terminal.keys(&[&format!("{folder}/a-waiter")]);
    terminal.keys(&["Enter"]);
    let has_rates = |screen: &str| line_of(screen, waiter.pid()).is_some_and(|line| line.contains("2.0ms"));
    // It is selected once the filter leaves nothing else.
    let is_selected = |screen: &str| line_of(screen, waiter.pid()).is_some_and(|line| line.starts_with('>'));
    let screen =
        terminal.wait("the process with its waits", |screen| has_rates(screen) && is_selected(screen));
    let line = line_of(&screen, waiter.pid()).expect("seen");
    assert!(line.contains("a-waiter") && line.contains(" on "), "{line}");

    for head in ["THROT", "LOST", "LOCKS", "WAITS", "P50", "P99"] {
        terminal.keys(&["s"]);
        terminal.wait("another order", |screen| screen.contains(&format!("sorted by {head}")));
    }
    terminal.keys(&["r"]);
    terminal.wait("the order turned round", |screen| screen.contains("sorted by P99, reversed"));

    terminal.keys(&["Enter"]);
    let parts = [
        "2 threads",
        "1 loop repaired",
        "the-sleeper",
        "snapshot+0x10",
        "libengine.so",
        "write_page+0x7",
        "libstore.so",
        "2.0ms",
        "trial of work: spin dropped (1.93 to 0.52 CPUs)",
    ];
    let has_parts = |screen: &str| parts.iter().all(|part| screen.contains(part));
    terminal.wait("its threads, loops and locks", has_parts);

    terminal.resize(80, 24);
    let screen = terminal
        .wait("the same on 80 x 24", |screen| screen.contains("FIRST WAITED AT") && has_parts(screen));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    terminal.resize(20, 5);
    terminal.wait("a small screen", |screen| screen.lines().next().is_some_and(|line| line.ends_with('+')));
    terminal.resize(80, 24);
    terminal.wait("the same again", has_parts);

    terminal.keys(&["Escape"]);
    terminal.wait("the list", has_rates);
    terminal.keys(&["h"]);
    terminal.wait("the help", |screen| screen.starts_with("manx top: keys"));
    terminal.keys(&["q"]);
    terminal.wait("the shell", |screen| screen.contains("code 0"));
    is_restored(&sandbox, &terminal);
}

/// Checks that the terminal is as it was before.
fn is_restored(sandbox: &Sandbox, terminal: &Terminal) {
    assert!(!terminal.is_alternate());
    assert!(!terminal.screen().contains("sorted by"), "{}", terminal.screen());
    let modes = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap_or_default();
    until("the modes afterwards", || modes("after").lines().count() == modes("before").lines().count());
    // The first line has the size, which the test itself has changed.
    let settings = |name: &str| modes(name).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(settings("after"), settings("before"));
    assert!(modes("before").contains("icanon"), "{}", modes("before"));
}

#[test]
fn the_terminal_is_restored_after_a_signal() {
    let sandbox = Sandbox::new();
    let Some(terminal) = Terminal::open(&sandbox, 80, 24) else { return };
    for (name, signal) in
        [("INT", libc::SIGINT), ("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("QUIT", libc::SIGQUIT)]
    {
        let _ = std::fs::remove_file(sandbox.path("after"));
        terminal.line(&format!("clear; stty -a > before; sh -c 'echo $$ > pid; exec {MANX} top'"));
        terminal.wait("the view", |screen| screen.starts_with("manx top"));
        let pid = std::fs::read_to_string(sandbox.path("pid")).expect("written");
        let sent = output(Command::new("kill").args(["-s", name, pid.trim()]));
        assert!(sent.status.success(), "{}", stderr(&sent));
        // A shell drops what is typed before its prompt, if a program was ended by SIGINT.
        terminal.wait("the shell", |screen| !screen.contains("q quit") && screen.trim_end().ends_with('$'));
        // A shell adds 128 to the signal that ended a program. It forgets the rest of a line if
        // that was SIGINT.
        terminal.line("echo code $?; stty -a > after");
        terminal.wait("the code", |screen| screen.contains(&format!("code {}", 128 + signal)));
        is_restored(&sandbox, &terminal);
    }
}

#[test]
fn it_ends_with_its_terminal() {
    let sandbox = Sandbox::new();
    for keys in [&[][..], &["Down"], &["Enter", "Tab", "Escape"]] {
        let Some(terminal) = Terminal::open(&sandbox, 80, 24) else { return };
        terminal.line(&format!("sh -c 'echo $$ > pid; exec {MANX} top'"));
        terminal.wait("the view", |screen| screen.starts_with("manx top"));
        let pid = std::fs::read_to_string(sandbox.path("pid")).expect("written");
        if !keys.is_empty() {
            // What was typed last is still to be read when the terminal goes.
            terminal.keys(keys);
        }
        drop(terminal);
        let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
        until("the view ends", || !process.exists());
    }
}

#[test]
fn it_goes_to_the_background_and_comes_back() {
    let sandbox = Sandbox::new();
    let Some(terminal) = Terminal::open(&sandbox, 80, 24) else { return };
    terminal.line(&format!("stty -a > before; {MANX} top --interval=200ms"));
    terminal.wait("the view", |screen| screen.starts_with("manx top"));
    terminal.keys(&["C-z"]);
    terminal.wait("the shell", |screen| screen.contains("Stopped") && screen.trim_end().ends_with('$'));
    terminal.line("stty -a > after; echo writ''ten");
    terminal.wait("the shell's answer", |screen| screen.contains("written"));
    is_restored(&sandbox, &terminal);
    terminal.line("fg");
    terminal.wait("the view again", |screen| screen.starts_with("manx top") && screen.contains("q quit"));
    terminal.keys(&["q"]);
    terminal.wait("the shell", |screen| screen.contains("written") && !screen.contains("q quit"));
    assert!(!terminal.is_alternate());
}

#[test]
fn no_color_is_respected() {
    let sandbox = Sandbox::new();
    let Some(terminal) = Terminal::open(&sandbox, 80, 24) else { return };
    terminal.line(&format!("NO_COLOR=1 {MANX} top"));
    terminal.wait("the view", |screen| screen.starts_with("manx top"));
    terminal.wait("rates", |screen| !screen.contains("? CPUs"));
    let screen = terminal.coloured();
    // tmux writes a colour as 30 to 37, 90 to 97, or 38 with more behind it.
    let has_colour = screen.split("\x1b[").skip(1).any(|after| {
        let sequence = after.split('m').next().unwrap_or_default();
        sequence.split(';').any(|number| matches!(number.parse(), Ok(30..=38 | 40..=48 | 90..=97)))
    });
    assert!(!has_colour && screen.contains("\x1b["), "attributes and no colour: {screen:?}");
    terminal.keys(&["q"]);
    terminal.wait("the shell", |screen| !screen.contains("q quit"));
}

#[test]
fn a_dumb_terminal_gets_a_table() {
    let sandbox = Sandbox::new();
    let Some(terminal) = Terminal::open(&sandbox, 200, 50) else { return };
    terminal.line(&format!("TERM=dumb {MANX} top --interval=200ms --filter={MANX} | cat; echo code $?"));
    let screen = terminal.wait("a table", |screen| screen.contains("code 0"));
    assert!(screen.contains("DELAY  THROT") && !terminal.is_alternate(), "{screen}");
}

#[test]
fn without_a_terminal_there_is_a_table_or_json() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::start(&sandbox);
    // Rates may be of a moment in which a busy machine did not run the process.
    until("a table with its waits", || {
        let run = output(manx("top").args(["--interval=300ms", "--manx", "--count=2", "--sort=p99"]));
        let text = stdout(&run);
        assert!(run.status.success() && !text.contains('\x1b'), "{}{text}", stderr(&run));
        assert_eq!(text.matches("sorted by P99, only Manx").count(), 2, "{text}");
        let line = line_of(&text, waiter.pid()).expect("the process");
        assert!(line.contains("a-waiter"), "{line}");
        line.contains("2.0ms")
    });
    until("an object with its waits", || {
        let run = output(manx("top").args(["--interval=300ms", "--json", "--filter=A-WAITER"]));
        assert!(run.status.success(), "{}: {}", run.status, stderr(&run));
        let json: Value = serde_json::from_slice(&run.stdout).expect("one object");
        assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some("manx-top"), Some(1)));
        let processes = json["processes"].as_array().expect("a list");
        let row = processes.iter().find(|row| row["pid"] == waiter.pid()).expect("the process");
        assert_eq!((&row["manx"], &row["sites"], &row["locks"]), (&"counts".into(), &1.into(), &1.into()));
        row["lock_waits_per_s"].as_f64() > Some(0.0) && row["p99_ns"] == 2_000_000
    });
    loses_its_reader(manx("top").args(["--interval=100ms", "--count=1000"]));
}

#[test]
fn the_doctor_reads_the_answers_of_the_trial() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::start(&sandbox);
    let doctor = |option: &str| {
        stdout(&output(manx("doctor").args(["--for=100ms", option, &waiter.pid().to_string()])))
    };
    let json: Value = serde_json::from_str(&doctor("--json")).expect("JSON");
    let trial = serde_json::json!({
        "waits": "spin", "answer": "dropped", "kept": 0, "dropped": 1,
        "work_as_written_ns": 1_930_000_000_u64, "work_cured_ns": 520_000_000,
    });
    assert_eq!(json["evidence"]["manx"]["counts"]["trials"], serde_json::json!([trial]));
    let text = doctor("--quiet");
    assert!(text.contains("CPUs were short: spin dropped (1.93 to 0.52 CPUs).\n"), "{text}");
    assert!(text.contains(NO_HELP), "{text}");
}

#[test]
fn a_wrong_option_is_refused() {
    fails(manx("top").arg("--interval=1ms"), 2, &["--interval", "from 100ms to 3600s"]);
    fails(manx("top").arg("--interval=1"), 2, &["the unit is missing"]);
    fails(manx("top").args(["--once", "--count=2"]), 2, &["--once", "--count"]);
    fails(manx("top").arg("--count=0"), 2, &["--count"]);
    fails(manx("top").arg("--sort=beauty"), 2, &["beauty", "delay"]);
    fails(manx("stats").arg("--watch"), 2, &["PID|FILE"]);
}

#[test]
fn stats_without_a_process_lists_what_runs() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::start(&sandbox);
    // On a busy machine it may not have waited yet.
    until("a list with its waits", || {
        let run = output(&mut manx("stats"));
        let text = stdout(&run);
        let line = line_of(&text, waiter.pid()).unwrap_or_else(|| panic!("no line: {text}{}", stderr(&run)));
        assert!(line.contains("a-waiter"), "{line}");
        assert!(
            !text.contains(&format!("\n{} ", std::process::id())),
            "this process does not run under Manx"
        );
        line.contains("2.0ms")
    });

    let run = output(manx("stats").arg("--json"));
    let json: Value = serde_json::from_slice(&run.stdout).expect("an object");
    let processes = json["processes"].as_array().expect("a list");
    let row = processes.iter().find(|row| row["pid"] == waiter.pid()).expect("the process");
    assert_eq!((&row["threads"], &row["counts"]["sites"]), (&2.into(), &1.into()));
    assert!(row["counts"]["lock_waits"].as_u64() > Some(0), "{row}");
    loses_its_reader(&mut manx("stats"));
}
