//! The cache of what the guard found: a second start does what the first one did, and what stands
//! in the cache's folder does no harm.
//!
//! Each test has a cache of its own. That it was used is told by the statistics (`modules_cached`).
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, compiled_as, finish, folder, library, program, run};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn large_program(name: &str) -> PathBuf {
    large_as(name, name, &[])
}

fn large_library(name: &str) -> PathBuf {
    large_as(name, &format!("lib{name}-large.so"), &["-shared", "-fPIC"])
}

/// Compiles `tests/programs/NAME.c`, with so much text that the cache keeps what is found in it.
fn large_as(name: &str, into: &str, flags: &[&str]) -> PathBuf {
    let more = ["-include", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/large.h")];
    compiled_as(name, into, &[&more, flags].concat())
}

/// A folder for one test's cache.
struct Cache(tempfile::TempDir);

impl Cache {
    fn new() -> Cache {
        Cache(tempfile::tempdir_in(folder()).expect("a folder"))
    }

    /// What the folder holds.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.0.path().join("manx")) else { return Vec::new() };
        let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        files
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("XDG_CACHE_HOME", self.0.path());
        command
    }

    /// Runs a program, which must succeed. Its own files are the only ones that are large enough
    /// and meant.
    #[track_caller]
    fn run(&self, program: &Path, arguments: &[&str], options: &str) -> Outcome {
        let outcome = run(self.command(program, arguments), options);
        outcome.succeeded();
        outcome
    }
}

/// How many modules were repaired as an earlier start did.
#[track_caller]
fn cached(outcome: &Outcome) -> u64 {
    let report = outcome.report.as_ref().unwrap_or_else(|| panic!("no statistics\n{}", outcome.stderr));
    report["modules_cached"].as_u64().expect("a number")
}

/// What has become of each loop: its module, where it is, and whether it is repaired or why not.
fn fates(outcome: &Outcome) -> BTreeSet<String> {
    let sites = outcome.report.as_ref().expect("statistics")["sites"].as_array().expect("a list");
    let fate = |site: &serde_json::Value| {
        ["module", "symbol", "offset", "how", "reason"].map(|key| site[key].to_string()).join(" ")
    };
    sites.iter().map(fate).collect()
}

/// A line of `shows.c`: a name, where it begins, bytes.
fn shown(outcome: &Outcome) -> Vec<(String, u64, Vec<u8>)> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut next = || words.next().expect("three words");
        let (name, start, digits) = (next().to_owned(), next().parse::<i64>().expect("a number"), next());
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("a byte");
        (name, start as u64, (0..digits.len()).step_by(2).map(byte).collect())
    };
    outcome.stdout.lines().map(line).collect()
}

/// The program's text and the copies, with what depends on addresses taken out: a jump, or an
/// operand, is where it leads to, counted from the program or from its copy.
fn without_addresses(outcome: &Outcome) -> Vec<String> {
    let all = shown(outcome);
    let copies: Vec<_> = all.iter().filter(|(name, ..)| name != "text").collect();
    let relative = |address: u64| {
        let of = copies
            .iter()
            .find(|(_, start, bytes)| address.wrapping_sub(*start) < bytes.len() as u64)
            .map(|(name, start, _)| format!("{name}+{:x}", address.wrapping_sub(*start)));
        // What lies within a block and is no copy is a site's word.
        of.unwrap_or_else(|| if address < 1 << 32 { format!("{address:x}") } else { "word".into() })
    };
    let mut lines = Vec::new();
    for (name, start, bytes) in &all {
        let is_copy = name != "text";
        // A copy's first words are addresses: the trampoline, the site, and two for its visit.
        let skip = if is_copy { 32 } else { 0 };
        lines.push(name.clone());
        let mut decoder = Decoder::with_ip(64, &bytes[skip..], start + skip as u64, DecoderOptions::NONE);
        while decoder.can_decode() {
            let one = decoder.decode();
            let at = one.ip().wrapping_sub(*start) as usize;
            let jumps = one.flow_control() != FlowControl::Next && one.near_branch_target() != 0;
            let leads = if jumps {
                relative(one.near_branch_target())
            } else if one.is_ip_rel_memory_operand() {
                relative(one.ip_rel_memory_address())
            } else {
                format!("{:02x?}", &bytes[at..at + one.len()])
            };
            lines.push(format!("{:?} {leads}", one.code()));
            if is_copy && jumps && one.near_branch_target() < 1 << 32 {
                // The way out. Behind it are unwind data, in front of which stands an address.
                let rest = &bytes[at + one.len()..];
                let table = rest.windows(4).position(|bytes| bytes == [1, 0x1b, 3, 0x3b]).expect("a table");
                lines.push(format!("{:02x?}", &rest[table..]));
                break;
            }
        }
    }
    lines
}

/// Fails at the first line that differs.
#[track_caller]
fn same(lines: &[String], others: &[String], what: &str) {
    let differs = lines.iter().zip(others).find(|(one, other)| one != other);
    assert!(lines.len() == others.len() && differs.is_none(), "{what}: {differs:?}");
}

#[test]
fn a_second_start_repairs_what_the_first_one_did_in_the_same_way() {
    let (cache, program) = (Cache::new(), large_program("shows"));
    let starts = [0, 1, 1].map(|modules| {
        let outcome = cache.run(&program, &[], "perf_map=on");
        assert_eq!(cached(&outcome), modules);
        assert_eq!(cache.files().len(), 1, "the program's, and nothing is left over");
        outcome
    });
    let lines = without_addresses(&starts[0]);
    let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!([count("manx:program+"), count("Jmp_rel32_64 manx:program+")], [3, 3], "{lines:#?}");
    for start in &starts {
        same(&without_addresses(start), &lines, "a later start");
        assert_eq!(fates(start), fates(&starts[0]));
        for way in common::WAYS {
            start.waited(&format!("wait_by_{way}"));
        }
        assert_eq!(start.sites("wait_in_no_way")[0]["how"], "left");
    }
}

#[test]
fn programs_do_on_a_second_start_what_they_do_on_a_first() {
    let library = large_library("waiting");
    let library = library.to_str().expect("utf-8");
    let programs: [(&str, &[&str], &str); 9] = [
        ("turns", &[], ""),
        ("waits", &["row"], "short=always"),
        ("counts", &[], "short=always"),
        ("leaves", &["short"], "short=always"),
        ("state", &["whole"], "short=always"),
        ("throws", &[], "short=always"),
        ("backtraces", &["signals", "libgcc"], "short=always"),
        ("opens", &[library], ""),
        ("reopen", &[library], ""),
    ];
    let mut repaired = 0;
    for (name, arguments, options) in programs {
        let (cache, program) = (Cache::new(), large_program(name));
        let first = cache.run(&program, arguments, options);
        let second = cache.run(&program, arguments, options);
        assert!(cached(&second) > 0, "{name}");
        assert_eq!(fates(&first), fates(&second), "{name}");
        repaired += fates(&second).iter().filter(|fate| fate.contains("\"jump\"")).count();
    }
    assert!(repaired > 40, "{repaired} loops");
}

#[test]
fn a_row_is_replaced_only_where_the_first_start_would_do_so_now() {
    let (cache, program) = (Cache::new(), large_program("ways"));
    // The program checks each way by itself.
    for (when, modules) in [("alone", 0), ("crowded", 0), ("crowded", 1), ("alone", 1)] {
        assert_eq!(cached(&cache.run(&program, &[when], "")), modules, "{when}");
    }
    let [live, rows] = cache.files().try_into().expect("one for each");
    assert!(live.to_string_lossy().ends_with("-live") && rows.to_string_lossy().ends_with("-rows"));
    // Neither is taken for the other.
    std::fs::copy(&rows, &live).expect("copied");
    assert_eq!(cached(&cache.run(&program, &["crowded"], "")), 0);
}

#[test]
fn a_damaged_cache_file_is_not_used_at_all() {
    let (cache, program) = (Cache::new(), large_program("shows"));
    let lines = without_addresses(&cache.run(&program, &[], "perf_map=on"));
    let [file] = cache.files().try_into().expect("the program's");
    let whole = std::fs::read(&file).expect("bytes");
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let middle = whole.len() / 2;
    let variants = [
        ("nothing", Vec::new()),
        ("the half of it", whole[..middle].to_vec()),
        ("more of it", [&whole[..], &whole[..]].concat()),
        ("zeroes", vec![0; whole.len()]),
        ("a changed beginning", changed(0)),
        ("a changed middle", changed(middle)),
        ("a changed end", changed(whole.len() - 1)),
        ("something else", std::fs::read("/proc/self/exe").expect("bytes")),
    ];
    for (what, bytes) in variants {
        std::fs::write(&file, bytes).expect("written");
        let outcome = cache.run(&program, &[], "perf_map=on");
        assert_eq!(cached(&outcome), 0, "{what}");
        same(&without_addresses(&outcome), &lines, what);
        // It is written anew.
        assert_eq!(cached(&cache.run(&program, &[], "perf_map=on")), 1, "{what}");
    }
}

#[test]
fn nothing_that_a_debugger_has_written_is_kept() {
    let (cache, program) = (Cache::new(), large_program("breakpoints"));
    let clean = cache.run(&program, &["nothing"], "short=always");
    for how in ["0", "1", "2", "3", "jump", "patch"] {
        let cache = Cache::new();
        for _ in 0..2 {
            cache.run(&program, &[how], "short=always");
        }
        let next = cache.run(&program, &["nothing"], "short=always");
        assert_eq!(cached(&next), 1, "{how}");
        assert_eq!(fates(&next), fates(&clean), "{how}");
    }
}

#[test]
fn a_cache_file_that_another_user_may_have_written_is_not_used() {
    let (cache, program) = (Cache::new(), large_program("turns"));
    cache.run(&program, &[], "");
    let [file] = cache.files().try_into().expect("the program's");
    let in_folder = file.parent().expect("a folder");
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let around = in_folder.parent().expect("the user's cache folder");
    for (path, good, bad) in [
        (file.as_path(), 0o600, 0o622),
        (in_folder, 0o700, 0o777),
        (around, 0o700, 0o777),
        (around, 0o755, 0o775),
    ] {
        allow(path, bad);
        assert_eq!(cached(&cache.run(&program, &[], "")), 0, "{}", path.display());
        allow(path, good);
        assert_eq!(cached(&cache.run(&program, &[], "")), 1, "{}", path.display());
    }
    // SAFETY: only reads.
    if unsafe { libc::geteuid() } != 0 {
        testing::skip("in part: only root can give a file to another user");
        return;
    }
    for path in [file.as_path(), in_folder] {
        std::os::unix::fs::chown(path, Some(1), None).expect("root may");
        assert_eq!(cached(&cache.run(&program, &[], "")), 0, "{}", path.display());
        std::os::unix::fs::chown(path, Some(0), None).expect("root may");
    }
}

#[test]
fn a_library_with_the_build_id_of_another_is_searched() {
    let cache = Cache::new();
    let program = program("opens");
    // The same size, and the loop at another place.
    let [first, second] = ["-DBEFORE=64", "-DBEHIND=64"].map(|place| {
        let flags = ["-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef", place];
        large_as("waiting", &format!("lib{}.so", &place[2..8]), &flags)
    });
    for (library, modules) in [(&first, 0), (&first, 1), (&second, 0), (&second, 1), (&first, 0)] {
        let outcome = cache.run(&program, &[library.to_str().expect("utf-8")], "");
        assert_eq!(cached(&outcome), modules, "{}", library.display());
        outcome.waited("wait_in_library");
    }
    assert_eq!(cache.files().len(), 1, "one build id");
}

#[test]
fn filters_are_asked_on_each_start_and_are_not_kept() {
    let (cache, program) = (Cache::new(), large_program("turns"));
    let repaired = |options: &str, modules: u64| {
        let outcome = cache.run(&program, &[], options);
        assert_eq!(cached(&outcome), modules, "{options}");
        common::WAYS.map(|way| outcome.sites(&format!("wait_by_{way}"))[0]["how"] == "jump")
    };
    assert_eq!(repaired("not=turns:wait_by_row", 0), [true, false, true]);
    assert_eq!(repaired("", 1), [true; 3]);
    assert_eq!(repaired("only=turns:wait_by_row", 1), [false, true, false]);
    assert_eq!(repaired("not=turns:wait_by_*", 1), [false; 3]);
}

#[test]
fn a_limit_of_file_sizes_ends_no_program() {
    let (cache, program) = (Cache::new(), large_program("turns"));
    let mut command = cache.command(&program, &[]);
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: between fork and exec only this async-signal-safe call.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", "guard=always");
    finish(&mut command).succeeded();
    assert!(cache.files().is_empty(), "what could not be written is gone");
}

#[test]
fn without_a_cache_nothing_is_written_or_read() {
    let (cache, program) = (Cache::new(), large_program("turns"));
    assert_eq!(cached(&cache.run(&program, &[], "cache=off")), 0);
    assert!(cache.files().is_empty() && !cache.0.path().join("manx").exists());
    cache.run(&program, &[], "");
    assert_eq!(cache.files().len(), 1);
    assert_eq!(cached(&cache.run(&program, &[], "cache=off")), 0);
}

#[test]
fn many_first_starts_at_once_leave_one_good_file() {
    let (cache, program) = (Cache::new(), large_program("turns"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cache.run(&program, &[], "").waited("wait_by_row").stdout.len());
        }
    });
    assert_eq!(cache.files().len(), 1, "{:?}", cache.files());
    assert_eq!(cached(&cache.run(&program, &[], "")), 1);
}

#[test]
fn children_of_a_program_that_was_started_from_the_cache_wait_in_its_copies() {
    let (cache, program) = (Cache::new(), large_program("forks"));
    for _ in 0..2 {
        cache.run(&program, &["row"], "short=always");
    }
    assert_eq!(cached(&cache.run(&program, &["row"], "short=always")), 1);
}
