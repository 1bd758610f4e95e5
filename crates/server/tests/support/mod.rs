//! A client for tests, and servers to talk to.

#![allow(dead_code, reason = "each test uses some of it")]

pub mod redis;

use manx::txn::Store;
use server::resp::Reply;
use server::{Model, Options, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing in these tests takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const MODELS: [Model; 2] = [Model::Threads, Model::Pool];

pub fn options(model: Model) -> Options {
    Options { listen: "127.0.0.1:0".parse().unwrap(), model, ..Options::default() }
}

pub fn start(options: Options) -> Server {
    Server::start(options, Store::in_memory(manx::txn::Options::default())).expect("a server")
}

/// Does the test with a server of each model.
pub fn for_each_model(test: impl Fn(&Server)) {
    for model in MODELS {
        let server = start(options(model));
        test(&server);
        server.stop();
        server.wait();
    }
}

/// A connection, and answers that came and were not yet read.
pub struct Client<S = TcpStream> {
    pub stream: S,
    received: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client::over(stream)
    }

    pub fn to(server: &Server) -> Client {
        Client::connect(server.address())
    }
}

pub fn frame(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A command whose words have no spaces; `""` is an empty one.
pub fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(|word| if word == "\"\"" { &b""[..] } else { word.as_bytes() }).collect()
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Client<S> {
        Client { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// The next answer; none at the end of the connection.
    pub fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, taken)) = Reply::read(&self.received).expect("an answer") {
                self.received.drain(..taken);
                return Some(reply);
            }
            let mut bytes = [0; 64 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    assert!(self.received.is_empty(), "half of an answer: {:?}", self.received);
                    return None;
                }
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    pub fn ask_bytes(&mut self, args: &[&[u8]]) -> Reply {
        self.send(&frame(args));
        self.next().expect("an answer")
    }

    /// A command whose words have no spaces.
    pub fn ask(&mut self, line: &str) -> Reply {
        self.ask_bytes(&words(line))
    }

    /// What INFO says of this section.
    pub fn info(&mut self, section: &str) -> String {
        let Reply::Bulk(text) = self.ask(&format!("INFO {section}")) else { panic!("no text") };
        String::from_utf8(text).expect("text")
    }

    /// The command's answer is this one.
    #[track_caller]
    pub fn expect(&mut self, line: &str, reply: Reply) {
        assert_eq!(self.ask(line), reply, "{line}");
    }

    #[track_caller]
    pub fn expect_ok(&mut self, line: &str) {
        self.expect(line, ok());
    }

    #[track_caller]
    pub fn expect_error(&mut self, line: &str, begins: &str) {
        match self.ask(line) {
            Reply::Error(text) if text.starts_with(begins) => {}
            other => panic!("{line}: {other:?}, and not {begins}"),
        }
    }
}

pub fn ok() -> Reply {
    Reply::Simple("OK".into())
}

pub fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

pub fn queued() -> Reply {
    Reply::Simple("QUEUED".into())
}

pub fn int(value: i64) -> Reply {
    Reply::Integer(value)
}
