//! The examples of more than one machine, run as a user runs them: processes that are killed,
//! stopped and ended, and others that go on with what was committed.
//!
//! `cargo test` builds the examples, unless it is told to build one test alone.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use testing::etcd::Cluster;
use testing::eventually;
use testing::postgres::Postgres;
use testing::process::{Running, finish, succeed, text};

/// An example and its argument.
fn example(name: &str, argument: &str) -> Command {
    let tests = std::env::current_exe().expect("this program");
    let folder = tests.parent().and_then(Path::parent).expect("the folder of the build");
    let mut command = Command::new(folder.join("examples").join(name));
    command.arg(argument);
    command
}

/// Starts one, which says this first.
#[track_caller]
fn start(name: &str, argument: &str, first: &str) -> Running {
    let mut running = Running::start(&mut example(name, argument));
    assert_eq!(running.line().as_deref(), Some(first));
    running
}

/// Counts a word.
fn count(running: &mut Running, word: &str) -> u64 {
    running.ask(word, &format!("{word}: ")).parse().expect("a number")
}

fn signal(running: &Running, name: &str) {
    succeed(Command::new("kill").args([name, &running.child.id().to_string()]));
}

/// Waits for the end, and returns the exit code.
fn end(running: &mut Running) -> Option<i32> {
    eventually("it has ended", || running.child.try_wait().expect("a child")).code()
}

/// The tally goes from process to process: the owner is killed, the next one stopped, and the next
/// one ends.
fn hand_on(name: &str, place: &str) {
    let (owns, waits) =
        (format!("this process owns {place}"), format!("another process owns {place}: waiting"));
    let mut first = start(name, place, &owns);
    assert_eq!((count(&mut first, "tea"), count(&mut first, "tea")), (1, 2));

    let mut second = start(name, place, &waits);
    signal(&first, "-KILL");
    assert_eq!(second.line(), Some(owns.clone()));
    assert_eq!(count(&mut second, "tea"), 3);

    let mut third = start(name, place, &waits);
    signal(&second, "-STOP");
    assert_eq!(third.line(), Some(owns.clone()));
    assert_eq!(count(&mut third, "tea"), 4);
    signal(&second, "-CONT");
    let said = second.line().expect("it says why it ends");
    assert!(said.contains("the store is lost") && said.contains("another server"), "{said}");
    assert_eq!(end(&mut second), Some(1));

    let mut fourth = start(name, place, &waits);
    drop(third.child.stdin.take());
    assert_eq!(end(&mut third), Some(0));
    assert_eq!(fourth.line(), Some(owns));
    assert_eq!(count(&mut fourth, "tea"), 5);
}

#[test]
fn a_standby_takes_a_tally_over_in_etcd() {
    let Some(cluster) = Cluster::start(3) else { return };
    hand_on("etcd", &format!("etcd://{}/tally", cluster.endpoints().join(",")));
}

#[test]
fn a_standby_takes_a_tally_over_in_postgres() {
    let Some(server) = Postgres::start() else { return };
    hand_on("postgres", &server.address());
}

/// In each round the process is killed while it counts.
#[test]
fn a_tally_in_a_folder_loses_nothing_that_it_has_printed() {
    const WORDS: u64 = 2_000;
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("tally").display().to_string();
    let opened = format!("{place} is open");
    // What it has counted at least, and at most.
    let (mut least, mut most) = (0, 0);
    for round in 0..5_u64 {
        let mut running = start("durable", &place, &opened);
        let found = count(&mut running, "tea") - 1;
        assert!((least..=most).contains(&found), "{found}, not {least} to {most}");
        (least, most) = (found + 1, found + 1 + WORDS);
        let words = "tea\n".repeat(WORDS as usize);
        let mut input = running.child.stdin.take().expect("a pipe");
        input.write_all(words.as_bytes()).expect("the pipe has room for all");
        (0..=20 * round).for_each(|_| assert!(running.line().is_some()));
        least += 20 * round + 1;
        signal(&running, "-KILL");
        // What it had printed before it died.
        while let Some(line) = running.line() {
            least += 1;
            assert_eq!(line, format!("tea: {least}"));
        }
    }
    let mut running = start("durable", &place, &opened);
    let refused = finish(&mut example("durable", &place));
    assert!(!refused.status.success() && text(&refused.stderr).contains("in use"), "{refused:?}");
    let found = count(&mut running, "tea") - 1;
    assert!((least..=most).contains(&found), "{found}, not {least} to {most}");
}

#[test]
fn ranges_are_locked_by_one_process_at_a_time() {
    let Some(cluster) = Cluster::start(1) else { return };
    let endpoint = &cluster.endpoints()[0];
    let [mut first, mut second, mut third] = [(); 3].map(|()| start("cluster", endpoint, "ready"));
    let lock = |it: &mut Running, range: &str| -> u64 {
        it.ask(range, &format!("{range}: locked, with token ")).parse().expect("a number")
    };
    let mut tokens = vec![lock(&mut first, "0..100")];
    lock(&mut second, "100..200");
    assert_eq!(second.ask("50..60", "50..60: "), "another process has a part, waiting");
    signal(&first, "-KILL");
    let locked = second.line().expect("it gets its range");
    tokens
        .push(locked.strip_prefix("50..60: locked, with token ").expect(&locked).parse().expect("a number"));
    assert_eq!(third.ask("150..160", "150..160: "), "another process has a part, waiting");
    assert_eq!(second.ask("unlock", "nothing is "), "locked");
    third.line().expect("it gets its range");
    tokens.push(lock(&mut third, "0..100"));
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
