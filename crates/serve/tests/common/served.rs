//! A running `manx-serve`, and what it has said.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testing::process::succeed;
use testing::{eventually, until};

/// A server, and what it has said.
pub struct Served {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Served {
    pub fn start(arguments: &[&str]) -> Served {
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

    /// One that waits for another server's end.
    pub fn waiting(arguments: &[&str]) -> Served {
        let server = Served::start(arguments);
        until("it waits", || server.has_said("another server has"));
        server
    }

    pub fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }

    pub fn signal(&self, name: &str) {
        succeed(Command::new("kill").args([name, &self.process.id().to_string()]));
    }

    pub fn end(&mut self) -> ExitStatus {
        eventually("it has ended", || self.process.try_wait().unwrap())
    }

    /// Where it listens, once it does.
    pub fn address(&self) -> SocketAddr {
        eventually("it listens", || {
            let said = self.said.lock().unwrap();
            said.split_once("listening on ")?.1.split(',').next()?.parse().ok()
        })
    }

    /// The first line of the answer to an inline command, and the second one of a string.
    pub fn ask(&self, command: &str) -> String {
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

/// The store goes from `first`, which has set `tea` to 1, to the servers that wait, one after the
/// other. Returns the last one.
pub fn hand_on(first: Served, waiting: impl Fn() -> Served) -> Served {
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
    fourth
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
