//! `INFO memory` of `manx-serve`, whose allocator counts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use testing::eventually;
use testing::process::Running;

const MIB: usize = 1 << 20;

/// The figures of INFO memory that these names have.
fn figures(client: &mut TcpStream, names: [&str; 2]) -> [usize; 2] {
    client.write_all(b"INFO memory\r\n").unwrap();
    let mut answer = BufReader::new(client);
    let mut length = String::new();
    answer.read_line(&mut length).unwrap();
    let mut text = vec![0; length.trim().trim_start_matches('$').parse::<usize>().unwrap() + 2];
    answer.read_exact(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    names.map(|name| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    })
}

#[test]
fn a_length_that_a_client_announces_uses_no_memory() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manx-serve"));
    // With less memory than is announced, keys would go.
    command.args(["--listen", "127.0.0.1:0", "--memory-max", "50MiB", "--eviction", "allkeys-lru"]);
    let mut server = Running::start(&mut command);
    let line = server.line().unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
    let connect = || TcpStream::connect(address.trim_end_matches(',')).unwrap();
    let (mut it, mut other) = (connect(), connect());
    it.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n").unwrap();
    it.write_all(&vec![b'x'; 8 * MIB]).unwrap();
    let names = ["mem_clients_normal", "used_memory"];
    let [_, used] = eventually("some has come", || {
        let found = figures(&mut other, names);
        (found[0] > 6 * MIB).then_some(found)
    });
    assert!((6 * MIB..30 * MIB).contains(&used), "{used}");
    drop(it);
    eventually("it is gone", || (figures(&mut other, names)[0] < MIB).then_some(()));
    let [_, used] = figures(&mut other, names);
    assert!(used < 30 * MIB, "{used}");
}
