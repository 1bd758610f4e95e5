//! Copies of the store that clients ask for, while others write.

mod support;

use manx::txn::Store;
use manx::txn::durable::{Durable, DurableOptions};
use server::resp::Reply::{self, Integer, Simple};
use server::{Options, Server};
use std::fs;
use std::path::{Path, PathBuf};
use support::*;
use testing::until;

fn line(it: &mut Client, name: &str) -> String {
    let info = it.info("persistence");
    let (_, behind) = info.split_once(&format!("{name}:")).expect("a line of it");
    behind.split_once("\r\n").expect("its end").0.to_owned()
}

fn copies(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut copies: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    copies.sort();
    copies
}

#[test]
fn a_copy_is_made_while_clients_go_on_and_a_server_begins_with_it() {
    for model in MODELS {
        let folder = tempfile::tempdir().expect("made");
        let copies_in = folder.path().join("of/copies");
        let server = start(Options { backup_folder: Some(copies_in.clone()), ..options(model) });
        let it = &mut Client::to(&server);
        it.expect("CONFIG GET dir", Reply::Array(vec![bulk("dir"), bulk(&copies_in.display().to_string())]));
        for number in 0..1_000 {
            it.expect_ok(&format!("SET key:{number} before"));
        }
        it.expect("HSET hash field value", Integer(1));
        let began = it.ask("LASTSAVE");
        assert_eq!(line(it, "rdb_last_bgsave_time_sec"), "-1");
        it.expect("BGSAVE", Simple("Background saving started".into()));
        it.expect_ok("SET key:7 after");
        until("the copy is made", || line(it, "rdb_bgsave_in_progress") == "0");
        assert_eq!(line(it, "rdb_last_bgsave_status"), "ok");
        let Integer(last) = it.ask("LASTSAVE") else { panic!("no time") };
        assert!(matches!(began, Integer(before) if last >= before));
        // The next one at once.
        it.expect("BGSAVE SCHEDULE", Simple("Background saving started".into()));
        until("the copy is made", || line(it, "rdb_bgsave_in_progress") == "0");
        server.stop();
        server.wait();

        let made = copies(&copies_in);
        assert_eq!(made.len(), 2, "{made:?}");
        let data = Durable::open(&made[1], DurableOptions::new()).expect("opened");
        let store = Store::open(manx::txn::Options::default(), Box::new(data)).expect("recovered");
        let restored = Server::start(Options { durable: true, ..options(model) }, store).expect("a server");
        let it = &mut Client::to(&restored);
        it.expect("DBSIZE", Integer(1_001));
        it.expect("GET key:7", bulk("after"));
        it.expect("HGET hash field", bulk("value"));
    }
}

#[test]
fn a_server_that_stops_breaks_the_copy_off() {
    for model in MODELS {
        let folder = tempfile::tempdir().expect("made");
        let server = start(Options { backup_folder: Some(folder.path().into()), ..options(model) });
        let it = &mut Client::to(&server);
        let value = vec![b'v'; 1 << 20];
        for number in 0..64 {
            it.ask_bytes(&[b"SET", format!("key:{number}").as_bytes(), &value]);
        }
        it.expect("BGSAVE", Simple("Background saving started".into()));
        it.expect_error("BGSAVE", "ERR Background save already in progress");
        server.stop();
        server.wait();
        // Whole, or not there.
        for copy in copies(folder.path()) {
            let data = Durable::open(&copy, DurableOptions::new()).expect("opened");
            let store = Store::open(manx::txn::Options::default(), Box::new(data)).expect("recovered");
            let restored =
                Server::start(Options { durable: true, ..options(model) }, store).expect("a server");
            Client::to(&restored).expect("DBSIZE", Integer(64));
        }
    }
}

#[test]
fn a_copy_that_cannot_be_made_is_told_of() {
    for_each_model(|server| {
        Client::to(server).expect_error(
            "BGSAVE",
            "ERR there is no folder for copies: start the server with --backup-dir DIR",
        );
    });
    let folder = tempfile::tempdir().expect("made");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    for model in MODELS {
        let server = start(Options { backup_folder: Some(file.join("copies")), ..options(model) });
        let it = &mut Client::to(&server);
        it.expect_error("BGSAVE NOW", "ERR syntax error");
        it.expect("BGSAVE", Simple("Background saving started".into()));
        until("it has failed", || line(it, "rdb_last_bgsave_status") == "err");
    }
}
