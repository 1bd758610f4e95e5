//! `manx-serve --data etcd://…`: two servers on one store. One serves, and the other one waits.

#[path = "common/served.rs"]
mod served;

use served::Served;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;
use testing::etcd::{Cluster, Setting, Tls};
use testing::process::is_installed;
use testing::{make_certificates, until};

fn place(cluster: &Cluster, scheme: &str) -> String {
    format!("{scheme}{}/shop", cluster.endpoints().join(","))
}

#[test]
fn a_server_that_waits_takes_over() {
    let Some(cluster) = Cluster::start(3) else { return };
    let place = place(&cluster, "etcd://");
    let first = Served::start(&[&place]);
    assert_eq!(first.ask("SET tea 1"), "+OK");
    assert!(first.has_said(&format!("data in {place}")));
    // What etcd does not take is refused, and the server goes on.
    let mut stream = TcpStream::connect(first.address()).unwrap();
    let long = "x".repeat((1 << 20) + 100);
    write!(stream, "*3\r\n$3\r\nSET\r\n$4\r\nmilk\r\n${}\r\n{long}\r\nQUIT\r\n", long.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("-ERR") && answer.contains("1048576 at most"), "{answer}");
    let waiting = || Served::waiting(&[&place]);
    let second = waiting();
    first.signal("-KILL");
    let began = Instant::now();
    assert_eq!(second.ask("GET tea"), "1");
    println!("after kill -9 it took {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(second.ask("INCR tea"), ":2");
    drop(first);

    // One that is stopped finds out when it goes on.
    let mut third = waiting();
    second.signal("-STOP");
    let began = Instant::now();
    assert_eq!(third.ask("INCR tea"), ":3");
    println!("after a stop it took {:.1} s", began.elapsed().as_secs_f64());
    second.signal("-CONT");
    let mut second = second;
    assert_eq!(second.end().code(), Some(125));
    until("it says why", || second.has_said("another server has taken it over"));

    // One that ends gives the store free.
    let fourth = waiting();
    third.signal("-TERM");
    assert_eq!(third.end().code(), Some(0));
    let began = Instant::now();
    assert_eq!(fourth.ask("GET tea"), "3");
    println!("after an orderly end it took {:.1} s", began.elapsed().as_secs_f64());

    // One that waits ends at once.
    let mut fifth = waiting();
    fifth.signal("-TERM");
    assert_eq!(fifth.end().code(), Some(0));
}

#[test]
fn members_are_reached_by_tls_and_as_a_user() {
    if !is_installed("etcdctl", "version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    if !make_certificates(folder.path()) {
        return;
    }
    write("password", "open sesame\n");
    let Some(cluster) =
        Cluster::start_with(1, Setting { tls: Some(Tls::of(folder.path())), ..Setting::default() })
    else {
        return;
    };
    cluster.demand_user(Some(folder.path()), "app", "open sesame", "shop//");

    let (ca, certificate, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let secure = ["--etcd-ca", &ca, "--etcd-cert", &certificate, "--etcd-key", &key];
    let password = file("password");
    let with = |place: &str, more: &[&str]| Served::start(&[&[place][..], &secure, more].concat());
    let as_user = place(&cluster, "etcds://app@");
    let server = with(&as_user, &["--etcd-password-file", &password]);
    assert_eq!(server.ask("SET tea 1"), "+OK");
    assert_eq!(server.ask("GET tea"), "1");
    assert!(server.has_said(&format!("data in {as_user}")));

    let refused = |place: &str, more: &[&str], why: &str| {
        let mut server = with(place, more);
        assert_eq!(server.end().code(), Some(2), "{place}");
        until(why, || server.has_said(why));
    };
    write("wrong", "abracadabra\n");
    refused(&as_user, &["--etcd-password-file", &file("wrong")], "invalid user ID or password");
    let elsewhere = as_user.replace("/shop", "/other");
    refused(&elsewhere, &["--etcd-password-file", &password], "permission denied");
    let mut stranger = Served::start(&[&place(&cluster, "etcds://app:x@"), "--etcd-ca", &certificate]);
    assert_eq!(stranger.end().code(), Some(2));
}
