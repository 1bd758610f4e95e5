//! A client of HTTP for tests: one request, one answer.

use std::io::{Read, Write};
use std::net::TcpStream;

/// An answer: the status line, the headers, the body.
#[derive(Debug)]
pub struct Answer {
    pub status: String,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }
}

/// Sends bytes, and reads the answer to its end.
pub fn exchange(mut stream: impl Read + Write, request: &str) -> Option<Answer> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
    let (status, headers) = head.split_once("\r\n").unwrap_or((&head, ""));
    Some(Answer { status: status.into(), headers: headers.into(), body: bytes[end + 4..].to_vec() })
}

/// The answer to `GET` of a path at `HOST:PORT`; none if there is no server.
pub fn get(address: &str, path: &str, accept: &str) -> Option<Answer> {
    // HTTP/1.0 has answers in one piece only.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n");
    exchange(TcpStream::connect(address).ok()?, &request)
}
