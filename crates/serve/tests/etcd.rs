//! `manx-serve --data etcd://…`: two servers on one store. One serves, and the other one waits.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};
use testing::etcd::{Cluster, Setting, Tls};
use testing::process::{is_installed, succeed};
use testing::{eventually, make_certificates, until};

/// A server, and what it has said.
struct Served {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Served {
    fn start(arguments: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manx-serve"));
        command.args(["--listen", "127.0.0.1:0", "--data"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("manx-serve starts");
        let said = Arc::new(Mutex::new(String::new()));
        let listen = |pipe: Box<dyn std::io::Read + Send>| {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    said.lock().unwrap().extend([&line, "\n"]);
                }
            });
        };
        listen(Box::new(process.stdout.take().unwrap()));
        listen(Box::new(process.stderr.take().unwrap()));
        Served { process, said }
    }

    fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }

    fn signal(&self, name: &str) {
        succeed(Command::new("kill").args([name, &self.process.id().to_string()]));
    }

    fn end(&mut self) -> ExitStatus {
        eventually("it has ended", || self.process.try_wait().unwrap())
    }

    /// Where it listens, once it does.
    fn address(&self) -> SocketAddr {
        eventually("it listens", || {
            let said = self.said.lock().unwrap();
            said.split_once("listening on ")?.1.split(',').next()?.parse().ok()
        })
    }

    /// The first line of the answer to an inline command, and the second one of a string.
    fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "{command}\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let mut lines = answer.lines();
        let first = lines.next().unwrap_or_default();
        if first.starts_with('$') { lines.next().unwrap_or(first) } else { first }.to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

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
    let waiting = || {
        let server = Served::start(&[&place]);
        until("it waits", || server.has_said("another server has"));
        server
    };
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
