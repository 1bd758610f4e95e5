//! The requests of HTTP/1.1 that the exporter understands, and its answers.
//!
//! A client sends one request, gets one answer, and the connection ends. What a request may hold is
//! bounded by [`BYTES_MAX`]; a body is refused.

use std::io::{self, Read};

/// The most bytes of a request.
pub const BYTES_MAX: usize = 8192;

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

/// Why a request has no other answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no HTTP, or cut short.
    Bad,
    /// It has another method than `GET` and `HEAD`, or a body.
    Method,
    /// It has more than [`BYTES_MAX`] bytes.
    TooLarge,
    /// It did not come in time.
    Late,
    /// It is of another version of HTTP.
    Version,
}

impl Refusal {
    /// The status line's code and words.
    pub fn status(self) -> &'static str {
        match self {
            Refusal::Bad => "400 Bad Request",
            Refusal::Method => "405 Method Not Allowed",
            Refusal::TooLarge => "431 Request Header Fields Too Large",
            Refusal::Late => "408 Request Timeout",
            Refusal::Version => "505 HTTP Version Not Supported",
        }
    }
}

/// Reads a request up to its empty line.
///
/// # Errors
/// Why it is refused.
///
/// ```
/// use exporter::request::{Refusal, read};
///
/// let request = read(&mut &b"GET /metrics?x=1 HTTP/1.1\r\nAccept: text/plain\r\n\r\n"[..]).unwrap();
/// assert_eq!((request.path.as_str(), request.accept.as_str()), ("/metrics", "text/plain"));
/// assert_eq!(read(&mut &b"POST / HTTP/1.1\r\n\r\n"[..]), Err(Refusal::Method));
/// ```
pub fn read(from: &mut impl Read) -> Result<Request, Refusal> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    loop {
        // The end may lie across two parts.
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            return parse(&bytes[..end]);
        }
        if bytes.len() >= BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        match from.read(&mut part) {
            Ok(0) => return Err(Refusal::Bad),
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                return Err(if late { Refusal::Late } else { Refusal::Bad });
            }
        }
    }
}

fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let head = str::from_utf8(head).map_err(|_| Refusal::Bad)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Bad);
    };
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if !is_token(method) || !version.starts_with("HTTP/") || !target.starts_with('/') {
        return Err(Refusal::Bad);
    }
    if !version.starts_with("HTTP/1.") {
        return Err(Refusal::Version);
    }
    if method != "GET" && method != "HEAD" {
        return Err(Refusal::Method);
    }
    let mut accept: Vec<&str> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Refusal::Bad)?;
        if !is_token(name) {
            return Err(Refusal::Bad);
        }
        match name.to_ascii_lowercase().as_str() {
            "accept" => accept.push(value.trim()),
            "content-length" if value.trim() != "0" => return Err(Refusal::Method),
            "transfer-encoding" => return Err(Refusal::Method),
            _ => {}
        }
    }
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    Ok(Request { path, is_head: method == "HEAD", accept: accept.join(",") })
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

    /// The answer that refuses a request.
    pub fn refusal(refusal: Refusal) -> Answer {
        Answer::line(refusal.status(), refusal.status())
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

    fn of(text: &str) -> Result<Request, Refusal> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn requests_are_read_or_refused_with_a_reason() {
        for (text, refusal) in [
            ("", Refusal::Bad),
            ("GET / HTTP/1.1\r\n", Refusal::Bad),
            ("GET /\r\n\r\n", Refusal::Bad),
            ("GET  / HTTP/1.1\r\n\r\n", Refusal::Bad),
            ("GET metrics HTTP/1.1\r\n\r\n", Refusal::Bad),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", Refusal::Bad),
            ("GET / HTTP/1.1\r\n: x\r\n\r\n", Refusal::Bad),
            ("GET / HTTP/2\r\n\r\n", Refusal::Version),
            ("DELETE / HTTP/1.1\r\n\r\n", Refusal::Method),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", Refusal::Method),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::Method),
        ] {
            assert_eq!(of(text), Err(refusal), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(BYTES_MAX + 1024));
        assert_eq!(of(&long), Err(Refusal::TooLarge));
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
