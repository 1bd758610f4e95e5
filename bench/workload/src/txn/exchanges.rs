//! Requests and answers of Redis' protocol as bytes, for clients that know each answer before they
//! ask (`closed_loop.rs`).

use super::resp;
use crate::closed_loop::{ANSWERED, Exchange, broken};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

/// A connection to the server at this port.
///
/// # Errors
/// There is no server.
pub(super) fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    stream.set_read_timeout(Some(ANSWERED)).map_err(broken)?;
    stream.set_write_timeout(Some(ANSWERED)).map_err(broken)?;
    Ok(stream)
}

/// The number of keys that the server has.
///
/// # Errors
/// It gives another answer, or none.
pub(super) fn count(port: u16) -> Result<i64, String> {
    let mut connection = resp::Connection::open(port)?;
    connection.ask(&[b"DBSIZE"])?;
    connection.send()?;
    connection.integer()
}

pub(super) fn ping(Exchange { request, answer }: &mut Exchange) {
    array(request, &[b"PING"]);
    answer.extend(b"+PONG\r\n");
}

/// Texts in an array: a command, or an answer.
pub(super) fn array(to: &mut Vec<u8>, texts: &[&[u8]]) {
    word(to, b'*', texts.len());
    texts.iter().for_each(|text| bulk(to, text));
}

pub(super) fn bulk(to: &mut Vec<u8>, text: &[u8]) {
    word(to, b'$', text.len());
    to.extend(text);
    to.extend(b"\r\n");
}

pub(super) fn word(to: &mut Vec<u8>, kind: u8, number: usize) {
    to.push(kind);
    write!(to, "{number}\r\n").expect("a vector takes what it is given");
}
