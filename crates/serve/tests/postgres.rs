//! `manx-serve --data postgres://…`: two servers on one table. One serves, and the other one waits.

#[path = "common/served.rs"]
mod served;

use served::{Served, hand_on};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use testing::postgres::{Access, Postgres};
use testing::{make_certificates, until};

#[test]
fn a_server_that_waits_takes_over() {
    let Some(mut database) = Postgres::start() else { return };
    let place = database.address();
    let first = Served::start(&[&place]);
    assert_eq!(first.ask("SET tea 0"), "+OK");
    assert!(first.has_said(&format!("data in {place}")));
    // A restart of the database is a pause.
    database.restart();
    assert_eq!(first.ask("INCR tea"), ":1");
    let mut last = hand_on(first, || Served::waiting(&[&place]));

    // Without the database there is nothing to serve.
    database.kill();
    let mut client = TcpStream::connect(last.address()).unwrap();
    client.write_all(b"INCR tea\r\n").unwrap();
    assert_eq!(last.end().code(), Some(125));
    until("it says why", || last.has_said("nothing is changed any more"));
}

#[test]
fn the_database_is_reached_by_tls_and_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let stranger = folder.path().join("stranger");
    fs::create_dir(&stranger).unwrap();
    if !make_certificates(folder.path()) || !make_certificates(&stranger) {
        return;
    }
    write("password", "open sesame\n");
    write("wrong", "abracadabra\n");
    let identity = (folder.path().join("member.pem"), folder.path().join("member.key"));
    let access = Access { password: Some("open sesame"), identity: Some((&identity.0, &identity.1)) };
    let Some(database) = Postgres::start_with(access) else { return };
    let (place, ca, password) = (database.address(), file("ca.pem"), file("password"));

    let server = Served::start(&[&place, "--postgres-ca", &ca, "--postgres-password-file", &password]);
    assert_eq!(server.ask("SET tea 1"), "+OK");
    assert!(server.has_said(&format!("data in {place}")));
    let is_secure = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'manx'";
    assert_eq!(database.sql(is_secure), "t");
    drop(server);

    let refused = |arguments: &[&str], why: &str| {
        let mut server = Served::start(&[&[&*place][..], arguments].concat());
        assert_eq!(server.end().code(), Some(2), "{arguments:?}");
        until(why, || server.has_said(why));
    };
    let wrong = file("wrong");
    refused(&["--postgres-ca", &ca, "--postgres-password-file", &wrong], "password authentication failed");
    let stranger = file("stranger/ca.pem");
    refused(&["--postgres-ca", &stranger, "--postgres-password-file", &password], "invalid peer certificate");
    refused(&["--postgres-ca", &ca], "password missing");
}
