//! Connections: many, pipelined, slow, silent, malformed; and how a server ends.

mod support;

use server::resp::Reply::{self, Array, Bulk, Null, Simple};
use server::{Options, Password, Server, StartError};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::*;
use testing::until;

#[test]
fn ten_thousand_commands_at_once() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let mut stream = Vec::new();
        for n in 0..5_000 {
            let (key, value) = (format!("key:{}", n % 100), n.to_string());
            stream.extend(frame(&[b"SET", key.as_bytes(), value.as_bytes()]));
            stream.extend(frame(&[b"GET", key.as_bytes()]));
        }
        it.send(&stream);
        for n in 0..5_000 {
            assert_eq!(it.next(), Some(ok()));
            assert_eq!(it.next(), Some(bulk(&n.to_string())));
        }
    });
}

#[test]
fn two_hundred_connections() {
    for_each_model(|server| {
        let mut clients: Vec<_> = (0..200).map(|_| Client::to(server)).collect();
        for round in 0..5 {
            for (n, client) in clients.iter_mut().enumerate() {
                client.send(&frame(&[b"SET", n.to_string().as_bytes(), round.to_string().as_bytes()]));
            }
            for client in &mut clients {
                assert_eq!(client.next(), Some(ok()));
            }
        }
        clients[0].expect("DBSIZE", int(200));
        assert!(clients[0].info("clients").contains("connected_clients:200\r\n"));
    });
}

#[test]
fn frames_come_in_any_pieces() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        let whole = frame(&[b"SET", b"k", b"value"]);
        for byte in &whole[..whole.len() - 1] {
            it.send(&[*byte]);
            // Others are served meanwhile.
            other.expect("GET k", Null);
        }
        it.send(b"\n");
        assert_eq!(it.next(), Some(ok()));
        // Half a command at the end is not done.
        let half = frame(&[b"SET", b"k", b"other"]);
        it.send(&half[..half.len() - 1]);
        it.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(it.next(), None);
        other.expect("GET k", bulk("value"));
        // What is complete is answered, though the client sends no more.
        let it = &mut Client::to(server);
        it.send(b"PING\r\nPING\r\n");
        it.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(it.next(), Some(Simple("PONG".into())));
        assert_eq!(it.next(), Some(Simple("PONG".into())));
        assert_eq!(it.next(), None);
    });
}

#[test]
fn large_values_go_through() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let large: Vec<u8> = (0..20_000_000_u32).map(|n| n as u8).collect();
        assert_eq!(it.ask_bytes(&[b"SET", b"k", &large]), ok());
        it.expect("STRLEN k", int(20_000_000));
        assert!(it.ask("GET k") == Bulk(large));
    });
}

/// They are received where they stay, if the command allows it; no client sees a difference.
#[test]
fn commands_with_large_values_do_what_they_do_with_small_ones() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let large = |of: u8| -> Vec<u8> { (0..3_000_000_u32).map(|n| n as u8 ^ of).collect() };
        let [one, two] = [large(1), large(2)];
        let ask = |it: &mut Client, args: &[&[u8]]| it.ask_bytes(args);
        assert_eq!(ask(it, &[b"SET", b"k", &one, b"EX", b"1000"]), ok());
        it.expect("TTL k", int(1000));
        assert!(ask(it, &[b"SET", b"k", &two, b"KEEPTTL", b"GET"]) == Bulk(one.clone()));
        it.expect("TTL k", int(1000));
        assert!(ask(it, &[b"GETSET", b"k", &one]) == Bulk(two.clone()));
        it.expect("TTL k", int(-1));
        assert_eq!(ask(it, &[b"SETNX", b"k", &two]), int(0));
        assert_eq!(ask(it, &[b"MSET", b"a", &one, b"b", b"", b"c", &two, b"d", b"4"]), ok());
        assert!(
            it.ask("MGET a b c d k")
                == Array([&one[..], b"", &two, b"4", &one].map(|of| Bulk(of.to_vec())).into())
        );
        assert_eq!(ask(it, &[b"APPEND", b"a", &two]), int(6_000_000));
        assert!(it.ask("GET a") == Bulk([&one[..], &two].concat()));
        assert_eq!(ask(it, &[b"HSET", b"h", &one, &two]), int(1));
        assert!(ask(it, &[b"HGET", b"h", &one]) == Bulk(two.clone()));
        assert_eq!(ask(it, &[b"SET", &two, b"small"]), ok());
        assert_eq!(ask(it, &[b"GET", &two]), Bulk(b"small".to_vec()));
        // A queued command is a copy; and one that is watched is another one each time.
        it.expect_ok("WATCH k");
        let other = &mut Client::to(server);
        assert_eq!(ask(other, &[b"SET", b"k", &one]), ok());
        it.expect_ok("MULTI");
        assert_eq!(ask(it, &[b"SET", b"k", &two]), queued());
        assert_eq!(it.ask("EXEC"), Null);
        it.expect_ok("MULTI");
        assert_eq!(ask(it, &[b"SET", b"k", &two]), queued());
        it.expect("EXEC", Array(vec![ok()]));
        assert!(it.ask("GET k") == Bulk(two.clone()));
        // Others behind it.
        it.send(&[frame(&[b"SET", b"k", &one]), frame(&[b"STRLEN", b"k"]), frame(&[b"GET", b"d"])].concat());
        assert_eq!([it.next(), it.next()], [Some(ok()), Some(int(3_000_000))]);
        assert_eq!(it.next(), Some(Bulk(b"4".to_vec())));
    });
}

#[test]
fn malformed_frames_end_their_connection_only() {
    for_each_model(|server| {
        let other = &mut Client::to(server);
        for bytes in [
            &b"*1\r\n+PING\r\n"[..],
            b"*x\r\n",
            b"*1\r\n$99999999999\r\n",
            b"*1\r\n$1\r\nab\r\n",
            b"SET \"a\r\n",
        ] {
            let it = &mut Client::to(server);
            it.send(&[&b"PING\r\n"[..], bytes].concat());
            assert_eq!(it.next(), Some(Simple("PONG".into())));
            match it.next() {
                Some(Reply::Error(text)) if text.starts_with("ERR Protocol error: ") => {}
                reply => panic!("{}: {reply:?}", bytes.escape_ascii()),
            }
            assert_eq!(it.next(), None);
        }
        other.expect("PING", Simple("PONG".into()));
    });
}

/// The system's own buffers take some megabytes of either direction; the rest is the server's to
/// bound.
#[test]
fn a_client_that_never_reads_is_disconnected_and_others_are_served() {
    for model in MODELS {
        let server = start(Options { output_bytes_max: 1 << 20, ..options(model) });
        let other = &mut Client::to(&server);
        let value = vec![b'x'; 200_000];
        assert_eq!(other.ask_bytes(&[b"SET", b"k", &value]), ok());
        let it = &mut Client::to(&server);
        let request = frame(&[b"GET", b"k"]);
        let mut asked = 0;
        while it.stream.write_all(&request).is_ok() {
            asked += 1;
            assert!(asked < 1_000_000, "it is still connected");
            if asked % 1_000 == 0 {
                other.expect("STRLEN k", int(200_000));
            }
        }
        let info = other.info("stats");
        assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
    }
}

#[test]
fn a_client_that_reads_late_gets_all() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let value = vec![b'x'; 1_000_000];
        assert_eq!(it.ask_bytes(&[b"SET", b"k", &value]), ok());
        // More than the system's buffers hold, less than the server's.
        it.send(&frame(&[b"GET", b"k"]).repeat(50));
        let other = &mut Client::to(server);
        for _ in 0..100 {
            other.expect("STRLEN k", int(1_000_000));
        }
        for _ in 0..50 {
            assert!(it.next() == Some(Bulk(value.clone())));
        }
        it.expect("PING", Simple("PONG".into()));
    });
}

#[test]
fn connections_have_a_bound() {
    for model in MODELS {
        let server = start(Options { connections_max: 2, ..options(model) });
        let (first, second) = (&mut Client::to(&server), &mut Client::to(&server));
        first.expect("PING", Simple("PONG".into()));
        second.expect("PING", Simple("PONG".into()));
        let third = &mut Client::to(&server);
        assert_eq!(third.next(), Some(Reply::Error("ERR max number of clients reached".into())));
        assert_eq!(third.next(), None);
        first.expect_ok("QUIT");
        assert_eq!(first.next(), None);
        // There is room as soon as the server has noticed.
        loop {
            let it = &mut Client::to(&server);
            let _ = it.stream.write_all(b"PING\r\n");
            match it.next() {
                Some(Simple(text)) if text == "PONG" => break,
                _ => std::thread::yield_now(),
            }
        }
        second.expect("PING", Simple("PONG".into()));
    }
}

#[test]
fn a_client_that_is_silent_for_too_long_is_disconnected() {
    for model in MODELS {
        let server = start(Options { idle_timeout: Some(Duration::from_millis(20)), ..options(model) });
        let it = &mut Client::to(&server);
        it.expect("PING", Simple("PONG".into()));
        assert_eq!(it.next(), None);
    }
}

#[test]
fn a_password_comes_first() {
    for model in MODELS {
        let password = Some(Password::new(b"secret").unwrap());
        let server = start(Options { password, ..options(model) });
        let it = &mut Client::to(&server);
        it.expect_error("GET k", "NOAUTH Authentication required.");
        it.expect_error("HELLO 3", "NOAUTH HELLO must be called with the client already authenticated");
        it.expect_error("SHUTDOWN", "NOAUTH");
        it.expect_error(
            "EXEC",
            "EXECABORT Transaction discarded because of: NOAUTH Authentication required.",
        );
        it.expect_error("AUTH wrong", "WRONGPASS");
        it.expect_error("AUTH somebody secret", "WRONGPASS");
        it.expect_error("GET k", "NOAUTH");
        it.expect_ok("AUTH secret");
        it.expect("GET k", Null);
        it.expect("RESET", Simple("RESET".into()));
        it.expect_error("GET k", "NOAUTH");
        assert!(matches!(it.ask("HELLO 2 AUTH default secret"), Array(_)));
        it.expect("GET k", Null);
        // A client that has not said it cannot make the server keep much.
        for bytes in [&b"*11\r\n"[..], b"*1\r\n$20000\r\n"] {
            let it = &mut Client::to(&server);
            it.send(bytes);
            assert!(matches!(it.next(), Some(Reply::Error(text)) if text.contains("unauthenticated")));
            assert_eq!(it.next(), None);
        }
    }
}

#[test]
fn a_client_that_does_not_say_the_password_in_time_is_disconnected() {
    for model in MODELS {
        let password = Some(Password::new(b"secret").unwrap());
        let handshake_timeout = Duration::from_millis(300);
        let server = start(Options { password, handshake_timeout, ..options(model) });
        let (it, silent, busy) =
            (&mut Client::to(&server), &mut Client::to(&server), &mut Client::to(&server));
        it.expect_ok("AUTH secret");
        busy.expect_error("AUTH wrong", "WRONGPASS");
        assert_eq!((silent.next(), busy.next()), (None, None));
        // A client that has said it may stay, also if it forgets it.
        it.expect("PING", Simple("PONG".into()));
        it.expect("RESET", Simple("RESET".into()));
        std::thread::sleep(handshake_timeout * 3);
        it.expect_ok("AUTH secret");
        // Where none is needed, silence is no offence.
        let server = start(Options { handshake_timeout: Duration::from_millis(1), ..options(model) });
        let it = &mut Client::to(&server);
        std::thread::sleep(Duration::from_millis(50));
        it.expect("PING", Simple("PONG".into()));
    }
}

#[test]
fn clients_find_it_in_a_file_too() {
    let password = || Some(Password::new(b"secret").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for model in MODELS {
        let asked = || Options {
            unix_socket: Some(path.clone()),
            unix_socket_permissions: Some(0o600),
            password: password(),
            ..options(model)
        };
        let server = start(asked());
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let it = &mut support::Client::over(stream);
        it.expect_error("GET k", "NOAUTH");
        it.expect_ok("AUTH secret");
        it.expect_ok("SET k v");
        let other = &mut Client::to(&server);
        other.expect_ok("AUTH secret");
        other.expect("GET k", bulk("v"));
        it.expect("CONFIG GET unixsocketperm", Array(vec![bulk("unixsocketperm"), bulk("600")]));
        let Bulk(line) = it.ask("CLIENT INFO") else { panic!() };
        let line = String::from_utf8(line).unwrap();
        let place = path.display();
        assert!(line.contains(&format!(" addr={place}:0 laddr={place}:0 ")), "{line}");
        // As many answers as a client over the network may ask for.
        let value = vec![b'x'; 1_000_000];
        assert_eq!(it.ask_bytes(&[b"SET", b"k", &value]), ok());
        it.send(&frame(&[b"GET", b"k"]).repeat(20));
        for _ in 0..20 {
            assert!(it.next() == Some(Bulk(value.clone())));
        }
        other.expect(&format!("CLIENT KILL ADDR {place}:0"), int(1));
        assert_eq!(it.next(), None);
        // It finds out that the file is in use by connecting.
        let store = manx::txn::Store::in_memory(manx::txn::Options::default());
        assert!(matches!(Server::start(asked(), store), Err(StartError::Listen(..))));
        server.stop();
        server.wait();
        assert!(!path.exists());
    }
}

#[test]
fn a_server_with_impossible_options_is_not_started() {
    let store = || manx::txn::Store::in_memory(manx::txn::Options::default());
    let error = |options: Options| Server::start(options, store()).expect_err("it cannot be");
    let anywhere = Options { listen: "0.0.0.0:0".parse().unwrap(), ..Options::default() };
    assert!(matches!(error(anywhere), StartError::Exposed(_)));
    let none = Options { connections_max: 0, ..options(MODELS[0]) };
    assert!(matches!(error(none), StartError::NoConnections));
    let small = Options { input_bytes_max: 1023, ..options(MODELS[0]) };
    assert!(matches!(error(small), StartError::TooSmall(1023)));
    let first = start(options(MODELS[0]));
    let taken = Options { listen: first.address(), ..Options::default() };
    assert!(matches!(error(taken), StartError::Listen(..)));
    let told = Options { listen: "0.0.0.0:0".parse().unwrap(), exposed: true, ..Options::default() };
    drop(Server::start(told, store()).expect("it was told to"));
}

/// Each client counts what was answered; the store must have that, and no more than one increment
/// of each that was not.
#[test]
fn a_shutdown_answers_what_it_has_done() {
    const CLIENTS: usize = 8;
    for model in MODELS {
        let store = manx::txn::Store::in_memory(manx::txn::Options::default());
        let server = Server::start(options(model), store.clone()).unwrap();
        let started = AtomicBool::new(false);
        let answered: Vec<i64> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let started = &started;
                    let mut it = Client::to(&server);
                    it.expect("PING", Simple("PONG".into()));
                    scope.spawn(move || {
                        let mut answered = 0;
                        loop {
                            // A pipeline of four; it breaks off when the server is gone.
                            let incr = frame(&[b"INCR", format!("n{client}").as_bytes()]);
                            if it.stream.write_all(&incr.repeat(4)).is_err() {
                                return answered;
                            }
                            for _ in 0..4 {
                                match it.next() {
                                    Some(Reply::Integer(value)) => answered = value,
                                    None => return answered,
                                    other => panic!("{other:?}"),
                                }
                            }
                            if answered > 100 {
                                started.store(true, Ordering::Relaxed);
                            }
                        }
                    })
                })
                .collect();
            until("the first answer", || started.load(Ordering::Relaxed));
            server.stop();
            server.wait();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        // The same store, served again.
        let server = Server::start(options(model), store).unwrap();
        let it = &mut Client::to(&server);
        for (client, answered) in answered.into_iter().enumerate() {
            let kept = it.ask(&format!("INCRBY n{client} 0"));
            assert_eq!(kept, int(answered), "{model}: what was done was answered, and the other way round");
        }
    }
}

#[test]
fn a_client_can_end_the_server() {
    for model in MODELS {
        let server = start(options(model));
        let (it, other) = (&mut Client::to(&server), &mut Client::to(&server));
        other.expect("PING", Simple("PONG".into()));
        it.expect_error("SHUTDOWN now please", "ERR syntax error");
        it.send(b"SHUTDOWN NOSAVE\r\n");
        assert_eq!(it.next(), None);
        assert_eq!(other.next(), None);
        let address = server.address();
        server.wait();
        assert!(TcpStream::connect(address).is_err());
    }
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    for model in MODELS {
        let shutdown_timeout = Duration::from_millis(50);
        let server = start(Options { shutdown_timeout, ..options(model) });
        let it = &mut Client::to(&server);
        let value = vec![b'x'; 1_000_000];
        assert_eq!(it.ask_bytes(&[b"SET", b"k", &value]), ok());
        it.send(&frame(&[b"GET", b"k"]).repeat(60));
        Client::to(&server).expect("STRLEN k", int(1_000_000));
        server.stop();
        let (tell, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            server.wait();
            tell.send(())
        });
        ended.recv_timeout(PATIENCE).expect("it ends though nobody reads");
        // The connection was cut off in the middle of an answer.
        let mut received = 0;
        let mut bytes = vec![0; 1 << 20];
        while let Ok(count @ 1..) = it.stream.read(&mut bytes) {
            received += count;
        }
        assert!(received < 60_000_000);
    }
}
