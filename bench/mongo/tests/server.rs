//! The command over TCP: its life, its threads, and what it makes of bad messages.

mod common;

use bson::raw::{RawDocumentBuf, cstr};
use bson::{Document, doc, rawdoc};
use common::{MORE_TO_COME, OP_MSG, OP_QUERY, answer, command, contents, message};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};
use testing::process::{Running, finish, text};
use testing::until;

/// A server in a folder.
struct Mongod {
    running: Running,
    port: u16,
}

impl Mongod {
    fn start(folder: &Path, more: &[&str]) -> Mongod {
        Mongod::on(&["--engine", "manx"], folder, more)
    }

    fn on(engine: &[&str], folder: &Path, more: &[&str]) -> Mongod {
        let mut command = mongod();
        command.args(engine).args(["--port", "0", "--dbpath"]).arg(folder).args(more);
        let mut running = Running::start(&mut command);
        let said: serde_json::Value = serde_json::from_str(&running.line().expect("it listens")).unwrap();
        assert_eq!(said["pid"], running.child.id());
        let name = if engine[1] == "manx" { "manx " } else { "WiredTiger " };
        assert!(said["engine"].as_str().unwrap().starts_with(name), "{said}");
        Mongod { port: u16::try_from(said["port"].as_u64().unwrap()).unwrap(), running }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// The names of its threads, of those that serve connections.
    fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.running.child.id())).unwrap();
        let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        let mut names: Vec<String> =
            names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("conn")).collect();
        names.sort();
        names
    }

    /// Sends it a signal; its exit code, or none if the signal has killed it.
    fn end(mut self, signal: i32) -> Option<i32> {
        let process = i32::try_from(self.running.child.id()).unwrap();
        // SAFETY: kill touches no memory, and the process is this test's own.
        unsafe { libc::kill(process, signal) };
        self.running.child.wait().unwrap().code()
    }
}

fn mongod() -> Command {
    Command::new(env!("CARGO_BIN_EXE_manx-mongod"))
}

/// The next message, or none if the server has closed the connection.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).ok()?;
    bytes.resize(i32::from_le_bytes(bytes[..].try_into().unwrap()) as usize, 0);
    stream.read_exact(&mut bytes[4..]).ok()?;
    Some(bytes)
}

fn ask(stream: &mut TcpStream, mut body: RawDocumentBuf) -> Document {
    body.append(cstr!("$db"), "test");
    stream.write_all(&command(&body)).unwrap();
    answer(&receive(stream).expect("a reply"))
}

fn ping(stream: &mut TcpStream) {
    assert_eq!(ask(stream, rawdoc! { "ping": 1 }), doc! { "ok": 1.0 });
}

/// Runs a test on the command with each engine.
fn with_each_engine(test: impl Fn(&[&str])) {
    test(&["--engine", "manx"]);
    let folder = tempfile::tempdir().unwrap();
    if let Some(shim) = common::shim(folder.path()) {
        test(&["--engine", "wiredtiger", "--library", shim.to_str().unwrap()]);
    }
}

fn count(stream: &mut TcpStream) -> usize {
    let found = ask(stream, rawdoc! { "find": "c" });
    found.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len()
}

#[test]
fn a_signal_ends_it_with_connections_open() {
    with_each_engine(|engine| {
        for (signal, serve) in [(libc::SIGTERM, "threads"), (libc::SIGINT, "pool")] {
            let folder = tempfile::tempdir().unwrap();
            let mongod = Mongod::on(engine, folder.path(), &["--serve", serve]);
            let (mut idle, mut busy) = (mongod.connect(), mongod.connect());
            ping(&mut busy);
            ping(&mut idle);
            let insert = rawdoc! { "insert": "c", "documents": [{ "_id": 1 }] };
            assert_eq!(ask(&mut busy, insert), doc! { "n": 1, "ok": 1.0 });
            assert_eq!(mongod.end(signal), Some(0));
            assert_eq!(receive(&mut idle), None);
            // What was acknowledged is there, without `j`.
            assert_eq!(count(&mut Mongod::on(engine, folder.path(), &[]).connect()), 1);
        }
    });
}

#[test]
fn a_journaled_write_survives_a_kill() {
    with_each_engine(|engine| {
        let folder = tempfile::tempdir().unwrap();
        let mongod = Mongod::on(engine, folder.path(), &[]);
        let concern = rawdoc! { "w": 1, "j": true };
        let journaled = rawdoc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": concern };
        assert_eq!(ask(&mut mongod.connect(), journaled), doc! { "n": 1, "ok": 1.0 });
        assert_eq!(mongod.end(libc::SIGKILL), None);
        assert_eq!(count(&mut Mongod::on(engine, folder.path(), &[]).connect()), 1);
    });
}

#[test]
fn each_connection_has_a_thread_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mongod = Mongod::start(folder.path(), &[]);
    let mut streams: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = mongod.connect();
            ping(&mut stream);
            stream
        })
        .collect();
    assert_eq!(mongod.threads(), ["conn1", "conn2", "conn3"]);
    assert_eq!(ask(&mut streams[1], rawdoc! { "hello": 1 }).get_i32("connectionId").ok(), Some(2));
    drop(streams.remove(1));
    until("the thread ends", || mongod.threads() == ["conn1", "conn3"]);
}

#[test]
fn a_message_that_cannot_be_ends_its_connection_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mongod = Mongod::start(folder.path(), &[]);
    let mut other = mongod.connect();
    let length = |length: i32| [&length.to_le_bytes()[..], &[0; 60]].concat();
    for bad in [
        length(0),
        length(15),
        length(-1),
        length(48_000_001),
        message(2012, &[0; 20]),
        message(2004 << 8, &[0; 20]),
        vec![b'x'; 1000],
    ] {
        let mut stream = mongod.connect();
        stream.write_all(&bad).unwrap();
        assert_eq!(receive(&mut stream), None, "{bad:?}");
        ping(&mut other);
    }
    // One that is cut off.
    mongod.connect().write_all(&length(64)[..40]).unwrap();
    ping(&mut other);
}

#[test]
fn a_message_that_is_wrong_inside_gets_an_error_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mongod = Mongod::start(folder.path(), &[]);
    let mut stream = mongod.connect();
    let ping_body = rawdoc! { "ping": 1, "$db": "test" };
    for wrong in [&[0_u8; 4][..], &[0; 9], &[0xff; 40], &contents(1, &ping_body, &[])] {
        stream.write_all(&message(OP_MSG, wrong)).unwrap();
        // With its flags all set it asks for no reply.
        if wrong[0] & MORE_TO_COME as u8 == 0 {
            let reply = answer(&receive(&mut stream).expect("a reply"));
            assert_eq!(
                (reply.get_f64("ok").ok(), reply.get_i32("code").ok()),
                (Some(0.0), Some(22)),
                "{reply}"
            );
        }
        ping(&mut stream);
    }
    // Without a database.
    stream.write_all(&command(&rawdoc! { "ping": 1 })).unwrap();
    assert_eq!(answer(&receive(&mut stream).unwrap()).get_i32("code").ok(), Some(40571));
}

#[test]
fn a_driver_that_begins_with_the_old_message_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mongod = Mongod::start(folder.path(), &[]);
    let mut stream = mongod.connect();
    let body = rawdoc! { "isMaster": 1, "helloOk": true };
    let head = [&[0; 4], &b"admin.$cmd\0"[..], &[0; 4], &[0xff; 4]].concat();
    stream.write_all(&message(OP_QUERY, &[&head, body.as_bytes()].concat())).unwrap();
    let reply = receive(&mut stream).expect("a reply");
    let document = common::plain(bson::raw::RawDocument::from_bytes(&reply[36..]).unwrap());
    assert_eq!(
        (document.get_bool("ismaster").ok(), document.get_bool("helloOk").ok()),
        (Some(true), Some(true))
    );
    ping(&mut stream);
}

#[test]
fn a_pool_serves_more_connections_than_it_has_workers() {
    const CONNECTIONS: i32 = 24;
    const ROUNDS: i32 = 20;
    let folder = tempfile::tempdir().unwrap();
    let mongod = Mongod::start(folder.path(), &["--serve", "pool", "--snapshots", "adaptive"]);
    thread::scope(|scope| {
        for id in 0..CONNECTIONS {
            let mut stream = mongod.connect();
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let statement =
                        rawdoc! { "q": { "_id": id }, "u": { "$set": { "x": round } }, "upsert": true };
                    let reply = ask(&mut stream, rawdoc! { "update": "c", "updates": [statement] });
                    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
                }
            });
        }
    });
    let all = ask(&mut mongod.connect(), rawdoc! { "find": "c" });
    let all = all.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(all.len(), CONNECTIONS as usize);
    assert!(all.iter().all(|it| it.as_document().unwrap().get_i32("x").ok() == Some(ROUNDS)));
    assert_eq!(mongod.end(libc::SIGTERM), Some(0));
}

#[test]
fn a_wrong_command_line_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let text_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    for (arguments, says) in [
        (&["--dbpath", "/no/such/folder", "--engine", "manx"][..], "no folder"),
        (&["--dbpath", path, "--engine", "wiredtiger"], "wiredtiger_shim.c"),
        (
            &["--dbpath", path, "--engine", "wiredtiger", "--library", text_file.to_str().unwrap()],
            "Cargo.toml",
        ),
        (&["--dbpath", path, "--engine", "manx", "--library", "x.so"], "choose --engine wiredtiger"),
        (
            &["--dbpath", path, "--engine", "wiredtiger", "--library", "x", "--snapshots", "spin"],
            "has its own",
        ),
        (&["--dbpath", path, "--engine", "manx", "--bind", "192.0.2.1", "--port", "0"], "--bind"),
        (&["--dbpath", path], "--engine"),
    ] {
        let output = finish(mongod().args(arguments));
        let words = text(&output.stderr);
        assert_eq!((output.status.code(), words.contains(says)), (Some(2), true), "{arguments:?}: {words}");
    }
}
