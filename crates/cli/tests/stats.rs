//! `manx stats`: counts of processes that run, have ended, or never had any.

mod support;

use preload_abi::live::{self, FILE_BYTES, FORMAT, Header, How, MAGIC, Site};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use support::holder::Holder;
use support::{MANX, Sandbox, bare, chmod, fails, loses_its_reader, output, root, stderr, stdout};
use testing::process::copy_program;

/// The bytes of a live file with one site.
fn live_file(pid: u32, state: u32, format: u32) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(offset_of!(Header, magic), &MAGIC.to_ne_bytes());
    put(offset_of!(Header, format), &format.to_ne_bytes());
    put(offset_of!(Header, pid), &pid.to_ne_bytes());
    put(offset_of!(Header, state), &state.to_ne_bytes());
    put(offset_of!(Header, sites), &1_u32.to_ne_bytes());
    put(offset_of!(Header, ticks_per_second), &1_000_000_000_u64.to_ne_bytes());
    put(offset_of!(Header, program), b"/usr/bin/server");
    let site = size_of::<Header>();
    put(site + offset_of!(Site, how), &(How::Jump as u32).to_ne_bytes());
    put(site + offset_of!(Site, waits), &7_u64.to_ne_bytes());
    put(site + offset_of!(Site, waited_ticks), &5_000_000_u64.to_ne_bytes());
    put(site + offset_of!(Site, module), b"libengine.so");
    put(site + offset_of!(Site, symbol), b"snapshot+0x10");
    bytes
}

fn stats(sandbox: &Sandbox) -> Command {
    let mut command = bare(MANX);
    command.arg("stats").env("TMPDIR", sandbox.path("")).current_dir(sandbox.path(""));
    command
}

/// The number of a process that has ended.
fn ended() -> u32 {
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("ended");
    child.id()
}

/// The counts in the table of [`live_file`].
const ROW: &str = "libengine.so  snapshot+0x10  jump      7       0       0       0  5.00 ms     0 ns\n";

#[test]
fn a_process_that_runs_is_asked_by_its_number() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("my counts.live", live_file(1, live::RUNNING, FORMAT));
    let other = sandbox.write("other.live", "not ours");
    let holder = Holder::start(&sandbox, &[&other, &file]);
    let run = output(stats(&sandbox).arg(holder.pid().to_string()));
    assert!(stdout(&run).ends_with(ROW), "{}{}", stdout(&run), stderr(&run));
    let run = output(stats(&sandbox).arg("--json").arg(holder.pid().to_string()));
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((&json["state"], &json["sites"][0]["waits"]), (&"running".into(), &7.into()));
    assert!(json["machine"]["kernel"].is_string(), "where it runs");

    if !root() {
        return testing::skip("a file that was removed is reached by root only");
    }
    fs::remove_file(&file).expect("removed");
    let run = output(stats(&sandbox).arg(holder.pid().to_string()));
    assert!(stdout(&run).ends_with(ROW), "{}{}", stdout(&run), stderr(&run));
}

#[test]
fn a_process_that_has_ended_is_asked_by_its_number() {
    let sandbox = Sandbox::new();
    // SAFETY: a query that takes nothing and cannot fail.
    let folder = sandbox.path(format!("manx-stats-{}", unsafe { libc::getuid() }));
    fs::create_dir(&folder).expect("made");
    let pid = ended();
    let missing = format!("there is no process {pid}, and {} holds no counts", folder.display());
    fails(stats(&sandbox).arg(pid.to_string()), 1, &[&missing, "--stats=FILE"]);
    fs::write(folder.join(format!("{pid}.live")), live_file(pid, live::ENDED, FORMAT)).expect("written");
    let run = output(stats(&sandbox).arg(pid.to_string()));
    assert!(stdout(&run).contains("ended)\n") && stdout(&run).ends_with(ROW), "{}", stderr(&run));
    fails(stats(&sandbox).arg("99999999999999999999"), 1, &["there is no process 99999999999999999999"]);
}

#[test]
fn a_process_without_statistics_is_told_from_one_without_manx() {
    let sandbox = Sandbox::new();
    let stranger = Holder::start(&sandbox, &[]);
    fails(
        stats(&sandbox).arg(stranger.pid().to_string()),
        1,
        &["does not run under Manx", "manx run --stats"],
    );
    let library = sandbox.stand_in();
    let guarded = Holder::start(&sandbox, &[&library]);
    fails(stats(&sandbox).arg(guarded.pid().to_string()), 1, &["runs under Manx, but has no statistics"]);
}

#[test]
fn a_file_is_asked_while_it_grows_and_afterwards() {
    let sandbox = Sandbox::new();
    sandbox.write("counts.live", live_file(ended(), live::ENDED, FORMAT));
    let json = output(stats(&sandbox).args(["--json", "counts.live"])).stdout;
    let table = output(stats(&sandbox).arg("counts")).stdout;
    assert!(!json.is_empty() && String::from_utf8_lossy(&table).ends_with(ROW));
    // What the library writes at the end shows the same.
    fs::remove_file(sandbox.path("counts.live")).expect("removed");
    sandbox.write("counts", &json);
    assert_eq!(output(stats(&sandbox).arg("counts")).stdout, table);
    assert_eq!(output(stats(&sandbox).args(["counts", "--json"])).stdout, json);
    // And the live file's name leads there, too.
    assert_eq!(output(stats(&sandbox).arg("counts.live")).stdout, table);
}

#[test]
fn what_is_no_statistics_file_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("text", "hello");
    sandbox.write("empty", "");
    sandbox.write("other.live", live_file(1, live::ENDED, FORMAT + 1));
    sandbox.write("short.live", &live_file(1, live::ENDED, FORMAT)[..10_000]);
    sandbox.write("later", "{\"schema\": \"manx-stats\", \"version\": 99}");
    sandbox.write("damaged", "{\"schema\": \"manx-stats\", \"version\": 1, \"pid\": \"x\"}");
    for (file, why) in [
        ("none", "none: no such file"),
        ("text", "text: not a statistics file of Manx"),
        ("empty", "empty: not a statistics file of Manx"),
        ("other.live", "other.live: written by another version of Manx"),
        ("short.live", "short.live: a statistics file that was cut short"),
        ("later", "written by another version of Manx: its schema is 99"),
        ("damaged", "damaged: a damaged statistics file: "),
    ] {
        fails(stats(&sandbox).arg(file), 1, &[why]);
    }
}

#[test]
fn what_belongs_to_somebody_else_is_told() {
    if !root() {
        return testing::skip("being two users takes root");
    }
    let sandbox = Sandbox::new();
    chmod(&sandbox.path(""), 0o755);
    let manx = sandbox.path("manx");
    copy_program(MANX, &manx);
    let file = sandbox.write("counts.live", live_file(1, live::RUNNING, FORMAT));
    chmod(&file, 0o600);
    let holder = Holder::start(&sandbox, &[&file]);
    for target in [file.as_os_str(), holder.pid().to_string().as_ref()] {
        let mut command = bare(&manx);
        command.arg("stats").arg(target).uid(65534).gid(65534).current_dir("/");
        fails(&mut command, 1, &["permission denied", "as the user who", "or as root"]);
    }
}

#[test]
fn watching_ends_with_the_program() {
    let sandbox = Sandbox::new();
    // Ended normally, or gone without a word: there is nothing to wait for.
    for (pid, state) in [(std::process::id(), live::ENDED), (ended(), live::RUNNING)] {
        sandbox.write("counts.live", live_file(pid, state, FORMAT));
        let run = output(stats(&sandbox).args(["--watch", "counts.live"]));
        assert!(run.status.success() && stdout(&run).matches("libengine.so").count() == 1);
    }

    let file = sandbox.write("counts.live", live_file(std::process::id(), live::RUNNING, FORMAT));
    let mut child = stats(&sandbox).args(["--watch", "counts"]).stdout(Stdio::piped()).spawn().expect("manx");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut seen = String::new();
    while !seen.ends_with(ROW) {
        assert_ne!(out.read_line(&mut seen).expect("a line"), 0, "{seen}");
    }
    let writer = fs::File::options().write(true).open(&file).expect("open");
    let waits = (size_of::<Header>() + offset_of!(Site, waits)) as u64;
    writer.write_all_at(&8_u64.to_ne_bytes(), waits).expect("written");
    let state = offset_of!(Header, state) as u64;
    writer.write_all_at(&live::ENDED.to_ne_bytes(), state).expect("written");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("ended").success());
    assert!(rest.ends_with(&ROW.replace("  7  ", "  8  ")) && !rest.contains('\x1b'), "{rest}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.write("counts.live", live_file(std::process::id(), live::RUNNING, FORMAT));
    loses_its_reader(stats(&sandbox).args(["--watch", "counts"]));
}
