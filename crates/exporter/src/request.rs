//! The requests of HTTP/1.1 that the exporter understands, and its answers.
//!
//! A client sends one request, gets one answer, and the connection ends. The crate `httparse` reads
//! the request. A request has at most [`BYTES_MAX`] bytes, and a body is refused.

use httparse::{EMPTY_HEADER, Error, Status};
use std::io::{self, Read};

/// The most bytes of a request.
pub const BYTES_MAX: usize = 8192;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;

/// It is no HTTP, or cut short.
const BAD: &str = "400 Bad Request";
/// It has another method than `GET` and `HEAD`, or a body.
const METHOD: &str = "405 Method Not Allowed";
/// It did not come in time.
const LATE: &str = "408 Request Timeout";
/// It has more than [`BYTES_MAX`] bytes or [`HEADERS_MAX`] headers.
const TOO_LARGE: &str = "431 Request Header Fields Too Large";
/// It is of another version of HTTP.
const VERSION: &str = "505 HTTP Version Not Supported";

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path, without a query.
    pub path: String,
    /// Whether only the head of the answer is wanted.
    pub is_head: bool,
    /// The `Accept` headers, with commas between.
    pub accept: String,
}

/// Reads a request up to its empty line.
///
/// # Errors
/// The status that refuses the request: its code and its words.
///
/// ```
/// use exporter::request::read;
///
/// let request = read(&mut &b"GET /metrics?x=1 HTTP/1.1\r\nAccept: text/plain\r\n\r\n"[..]).unwrap();
/// assert_eq!((request.path.as_str(), request.accept.as_str()), ("/metrics", "text/plain"));
/// assert_eq!(read(&mut &b"POST / HTTP/1.1\r\n\r\n"[..]), Err("405 Method Not Allowed"));
/// ```
pub fn read(from: &mut impl Read) -> Result<Request, &'static str> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while bytes.len() < BYTES_MAX {
        match from.read(&mut part) {
            Ok(0) => return Err(BAD),
            Ok(length) => bytes.extend_from_slice(&part[..length]),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => continue,
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(LATE),
                _ => return Err(BAD),
            },
        }
        if let Some(request) = parse(&bytes)? {
            return Ok(request);
        }
    }
    Err(TOO_LARGE)
}

/// The request that these bytes begin with; `None` if there must be more of them.
fn parse(bytes: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Ok(None),
        Err(Error::TooManyHeaders) => return Err(TOO_LARGE),
        Err(Error::Version) => return Err(VERSION),
        Err(_) => return Err(BAD),
    }
    let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    if !target.starts_with('/') {
        return Err(BAD);
    }
    if method != "GET" && method != "HEAD" {
        return Err(METHOD);
    }
    let mut accept = Vec::new();
    for header in parsed.headers {
        let (name, value) = (header.name, header.value.trim_ascii());
        if name.eq_ignore_ascii_case("accept") {
            accept.push(String::from_utf8_lossy(value));
        } else if name.eq_ignore_ascii_case("transfer-encoding")
            || name.eq_ignore_ascii_case("content-length") && value != b"0"
        {
            return Err(METHOD);
        }
    }
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    Ok(Some(Request { path, is_head: method == "HEAD", accept: accept.join(",") }))
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The code and its words.
    pub status: &'static str,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer of one line of text.
    pub fn line(status: &'static str, text: &str) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: format!("{text}\n").into_bytes() }
    }

    /// The bytes of the answer; for `HEAD` without the body.
    pub fn bytes(&self, is_head: bool) -> Vec<u8> {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut bytes = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        )
        .into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Request, &'static str> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn requests_are_read_or_refused_with_a_reason() {
        for (text, refusal) in [
            ("", BAD),
            ("GET / HTTP/1.1\r\n", BAD),
            ("GET /\r\n\r\n", BAD),
            ("GET  / HTTP/1.1\r\n\r\n", BAD),
            ("GET metrics HTTP/1.1\r\n\r\n", BAD),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", BAD),
            ("GET / HTTP/1.1\r\n: x\r\n\r\n", BAD),
            ("GET / HTTP/1.1\r\nA: x\r\n folded\r\n\r\n", BAD),
            ("GET / HTTP/2\r\n\r\n", VERSION),
            ("DELETE / HTTP/1.1\r\n\r\n", METHOD),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", METHOD),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD),
        ] {
            assert_eq!(of(text), Err(refusal), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(BYTES_MAX + 1024));
        assert_eq!(of(&long), Err(TOO_LARGE));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: x\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(of(&many), Err(TOO_LARGE));
        let request = of("HEAD /metrics HTTP/1.0\r\naccept: a\r\nHost: x\r\nACCEPT: b\r\n\r\n").unwrap();
        assert_eq!(request, Request { path: "/metrics".into(), is_head: true, accept: "a,b".into() });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&mut &bytes[..]);
            let _ = read(&mut &[&b"GET / HTTP/1.1\r\n"[..], &bytes, b"\r\n\r\n"].concat()[..]);
        }
    }
}
