//! Descriptors, which the process has a limit of. Alone in its process, because the limit is too.

mod support;

use platform::limits::{open_files, set_open_files};
use server::resp::Reply::{Error, Simple};
use server::{Model, Options};
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::time::Duration;
use support::*;

/// One test for all of it: each sets the limit.
#[test]
fn connections_and_the_limit_of_descriptors() {
    the_limit_is_raised_for_connections();
    a_client_without_a_descriptor_is_served_when_there_is_one();
    a_slow_reader_needs_none();
}

fn the_limit_is_raised_for_connections() {
    let most = open_files().unwrap().most;
    set_open_files(200).unwrap();
    let server = start(Options { connections_max: 500, ..options(Model::Pool) });
    assert_eq!(server.connections_max(), 500);
    assert!(open_files().unwrap().now >= 500);
    // It is not lowered for a server that needs fewer.
    let before = open_files().unwrap();
    let server = start(Options { connections_max: 1, ..options(Model::Pool) });
    assert_eq!((server.connections_max(), open_files().unwrap()), (1, before));
    if let Ok(wanted) = usize::try_from(most)
        && let Some(wanted) = wanted.checked_add(1).filter(|wanted| *wanted < 1 << 24)
    {
        let server = start(Options { connections_max: wanted, ..options(Model::Pool) });
        assert!(server.connections_max() < wanted);
        let it = &mut Client::to(&server);
        let served = server.connections_max().to_string();
        it.expect(
            "CONFIG GET maxclients",
            server::resp::Reply::Array(vec![bulk("maxclients"), bulk(&served)]),
        );
    }
}

/// As many files as may be open, until they are dropped.
fn all_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn a_client_without_a_descriptor_is_served_when_there_is_one() {
    for model in MODELS {
        set_open_files(200).unwrap();
        let server = start(Options { connections_max: 100, ..options(model) });
        let other = &mut Client::to(&server);
        other.expect("PING", Simple("PONG".into()));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let taken = all_descriptors();
        assert!(!taken.is_empty());
        // The kernel takes the connection, and the server cannot.
        socket.connect(&server.address().into()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        other.expect("PING", Simple("PONG".into()));
        drop(taken);
        // No other client comes, and nothing else happens at its door.
        let it = &mut Client::over(std::net::TcpStream::from(socket));
        match it.ask("PING") {
            Simple(text) => assert_eq!(text, "PONG"),
            other => panic!("{other:?}"),
        }
        assert!(!matches!(it.ask("GET none"), Error(_)));
    }
}

fn a_slow_reader_needs_none() {
    set_open_files(200).unwrap();
    let server = start(Options { connections_max: 100, ..options(Model::Threads) });
    let it = &mut Client::to(&server);
    let value = vec![b'x'; 1_000_000];
    assert_eq!(it.ask_bytes(&[b"SET", b"k", &value]), ok());
    let taken = all_descriptors();
    it.send(&frame(&[b"GET", b"k"]).repeat(30));
    // Until it has answered as far as the system's buffers go.
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..30 {
        assert!(it.next() == Some(server::resp::Reply::Bulk(value.clone())));
    }
    it.expect("PING", Simple("PONG".into()));
    drop(taken);
}
