//! `manx-serve --data etcd://…`: two servers on one store. One serves, and the other one waits.

#[path = "common/served.rs"]
mod served;

use served::{Served, hand_on};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
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
    hand_on(first, || Served::waiting(&[&place]));
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
