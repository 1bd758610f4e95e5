//! SLOWLOG: which commands are noted, and with which arguments; compared with a real server of
//! Redis, where every command is slow.

mod support;

use server::resp::Reply::{self, Array};
use server::{Options, Server};
use std::net::SocketAddr;
use std::time::Duration;
use support::redis::Redis;
use support::*;

/// Does the test with a server of each model, which keeps this number of all commands that take
/// this time.
fn for_each_noting(above: Duration, entries_max: usize, test: impl Fn(&Server)) {
    for model in MODELS {
        let slowlog = Options { slowlog_above: above, slowlog_entries_max: entries_max, ..options(model) };
        let server = start(slowlog);
        test(&server);
        server.stop();
        server.wait();
    }
}

/// What is noted, without numbers, times and addresses.
fn noted(reply: Reply) -> Vec<Vec<Reply>> {
    let Array(entries) = reply else { panic!("{reply:?}") };
    let without = |entry| {
        let Array(parts) = entry else { panic!("{entry:?}") };
        let [_, _, _, args, _, name] = <[Reply; 6]>::try_from(parts).expect("six parts");
        vec![args, name]
    };
    entries.into_iter().map(without).collect()
}

/// What SLOWLOG answers, and what is noted in the end, the last one first.
fn play(address: SocketAddr) -> (Vec<Reply>, Vec<Vec<Reply>>) {
    let mut client = Client::connect(address);
    let long = "x".repeat(200);
    let pairs: Vec<String> = (0..20).map(|number| format!("k{number} v{number}")).collect();
    let lines = [
        "SLOWLOG RESET",
        "SET k v",
        "GET k",
        "GET",
        "NOSUCH k",
        &format!("SET k {long}"),
        &format!("APPEND {} 1", &long[..128]),
        &format!("MSET {}", pairs[..15].join(" ")),
        &format!("MSET {}", pairs[..16].join(" ")),
        &format!("MSET {}", pairs.join(" ")),
        "CLIENT SETNAME me",
        "MULTI",
        "SET a 1",
        "INCR k",
        "PUBLISH channel message",
        "EXEC",
        "AUTH secret",
        "AUTH no secret",
        "HELLO 2 AUTH no secret SETNAME you",
        "CLIENT SETNAME auth",
        "HELLO 2 SETNAME auth AUTH no secret",
        "HELLO 2 AUTH default one AUTH no secret",
        "HELLO 2 SETNAME you",
        "ACL SETUSER bob on >secret ~* +@all",
        "ACL GETUSER bob",
        "ACL DELUSER bob",
        "ACL WHOAMI",
        "RPUSH list 1",
        "BLPOP list 0",
        "MULTI",
        "SET list 1",
        "LPUSH list 1",
        "EXEC",
        "SLOWLOG GET x",
        "SLOWLOG GET -2",
        "SLOWLOG GET 1 2",
        "SLOWLOG NOSUCH",
        "SLOWLOG",
        "SLOWLOG HELP",
        "SLOWLOG GET 0",
    ];
    let answers = lines.iter().map(|line| (line, client.ask(line)));
    let answers = answers.filter(|(line, _)| line.starts_with("SLOWLOG")).map(|(_, answer)| answer).collect();
    (answers, noted(client.ask("SLOWLOG GET -1")))
}

/// EXEC is noted here, too: its commit and what is done again are in none of its commands.
#[test]
fn what_is_noted_is_what_redis_notes() {
    let Some(redis) = Redis::with(&["--slowlog-log-slower-than", "0"]) else { return };
    let (answers, expected) = play(redis.address);
    for_each_noting(Duration::ZERO, 128, |server| {
        let (ours, mut noted) = play(server.address());
        let count = noted.len();
        noted.retain(|entry| entry[0] != Array(vec![bulk("EXEC")]));
        assert_eq!(noted.len() + 2, count, "each EXEC once");
        assert_eq!(ours, answers);
        assert_eq!(noted, expected);
    });
}

#[test]
fn a_command_that_waited_is_noted_when_it_has_its_answer() {
    for_each_noting(Duration::ZERO, 128, |server| {
        let (mut waiting, mut client) = (Client::to(server), Client::to(server));
        waiting.send(&frame(&words("BLPOP list 0")));
        testing::until("it waits", || client.info("clients").contains("blocked_clients:1"));
        let is_blpop = |entry: &Vec<Reply>| entry[0] == Array(["BLPOP", "list", "0"].map(bulk).to_vec());
        assert!(!noted(client.ask("SLOWLOG GET -1")).iter().any(is_blpop));
        client.ask("RPUSH list 1");
        assert_eq!(waiting.next().expect("an answer"), Array(vec![bulk("list"), bulk("1")]));
        let all = noted(client.ask("SLOWLOG GET -1"));
        assert_eq!(all.iter().filter(|entry| is_blpop(entry)).count(), 1);
    });
}

#[test]
fn the_latest_are_kept_with_growing_numbers_and_none_if_there_is_no_room() {
    for_each_noting(Duration::ZERO, 3, |server| {
        let mut client = Client::to(server);
        (0..10).for_each(|_| drop(client.ask("PING")));
        let Array(entries) = client.ask("SLOWLOG GET -1") else { panic!("no list") };
        let ids = entries.iter().map(|entry| match entry {
            Array(parts) => parts[0].clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(ids.collect::<Vec<_>>(), [9, 8, 7].map(int));
        client.ask("SLOWLOG RESET");
        // RESET is noted when it has been done.
        client.expect("SLOWLOG LEN", int(1));
    });
    for_each_noting(Duration::ZERO, 0, |server| {
        let mut client = Client::to(server);
        client.ask("PING");
        client.expect("SLOWLOG LEN", int(0));
    });
}

#[test]
fn an_entry_has_a_bound_and_no_password() {
    for_each_noting(Duration::ZERO, 128, |server| {
        let mut client = Client::to(server);
        client.expect_ok(&format!("CLIENT SETNAME {}", "n".repeat(1000)));
        client.expect_error("CONFIG SET requirepass secret", "ERR");
        let all = noted(client.ask("SLOWLOG GET 1"));
        let name = format!("{}... (872 more bytes)", "n".repeat(128));
        let args = ["CONFIG", "SET", "requirepass", "(redacted)"].map(bulk).to_vec();
        assert_eq!(all, [[Array(args), bulk(&name)]]);
    });
}

#[test]
fn a_quick_command_is_not_noted() {
    for_each_noting(Duration::from_secs(3600), 128, |server| {
        let mut client = Client::to(server);
        client.ask("SET k v");
        client.expect("SLOWLOG LEN", int(0));
    });
}
