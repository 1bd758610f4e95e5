//! A connection by the protocol of Redis (RESP2), as the threads of a run have one each.
//!
//! 1. Commands are put into one buffer and sent together; answers are read from another, one after
//!    the other, where they lie. Both buffers grow to the largest that was needed and stay: nothing
//!    is allocated for what is timed.
//! 2. An answer of another kind than is asked for is an error, and so is a server's own (`-ERR …`).
//!    After an error a connection is of no use.
//! 3. No answer is longer than `ANSWER_MAX`, and none is waited for longer than `PATIENCE`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The longest part of an answer.
const ANSWER_MAX: usize = 64 << 20;
/// A server that is silent for this time has stopped.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is asked is sent when it has this length in bytes, whether there is more or not.
const ASKED_MAX: usize = 64 << 10;

/// A connection to a server at the loopback address.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Commands that are not sent yet
    asked: Vec<u8>,
    /// What came, and the part of it that is not read yet
    answered: Vec<u8>,
    from: usize,
    to: usize,
}

impl Connection {
    /// To the server at this port.
    ///
    /// # Errors
    /// There is none.
    pub fn open(port: u16) -> Result<Connection, String> {
        let open = || {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = open().map_err(|error: std::io::Error| format!("the server at port {port}: {error}"))?;
        Ok(Connection { stream, asked: Vec::new(), answered: vec![0; ASKED_MAX], from: 0, to: 0 })
    }

    /// Asks for a command of these words.
    ///
    /// # Errors
    /// It had to be sent, and could not be.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<(), String> {
        self.begin(words.len());
        words.iter().try_for_each(|word| self.word(word))
    }

    /// Begins a command of `words` words.
    pub fn begin(&mut self, words: usize) {
        self.number(b'*', words);
    }

    /// The next word of it.
    ///
    /// # Errors
    /// What was asked so far had to be sent, and could not be.
    pub fn word(&mut self, word: &[u8]) -> Result<(), String> {
        self.number(b'$', word.len());
        self.asked.extend_from_slice(word);
        self.asked.extend_from_slice(b"\r\n");
        if self.asked.len() > ASKED_MAX { self.send() } else { Ok(()) }
    }

    fn number(&mut self, kind: u8, number: usize) {
        self.asked.push(kind);
        write!(self.asked, "{number}\r\n").expect("a vector takes what it is given");
    }

    /// Sends what was asked.
    ///
    /// # Errors
    /// It could not be sent.
    pub fn send(&mut self) -> Result<(), String> {
        let sent = self.stream.write_all(&self.asked);
        self.asked.clear();
        sent.map_err(|error| format!("a command cannot be sent: {error}"))
    }

    /// The next answer is this word, as `OK` and `QUEUED` are.
    ///
    /// # Errors
    /// It is another one.
    pub fn simple(&mut self, wanted: &str) -> Result<(), String> {
        match self.line(b'+')? {
            word if word == wanted.as_bytes() => Ok(()),
            other => Err(format!("the server answers '{}' instead of '{wanted}'", other.escape_ascii())),
        }
    }

    /// The next answer is a number.
    ///
    /// # Errors
    /// It is none.
    pub fn integer(&mut self) -> Result<i64, String> {
        parsed(self.line(b':')?)
    }

    /// The next answer is a value, or says that there is none.
    ///
    /// # Errors
    /// It is something else.
    pub fn bulk(&mut self) -> Result<Option<&[u8]>, String> {
        let Some(length) = length(self.line(b'$')?)? else { return Ok(None) };
        let whole = length + 2;
        while self.to - self.from < whole {
            self.more()?;
        }
        let begin = self.from;
        self.from += whole;
        let value = self.answered[begin..self.from].strip_suffix(b"\r\n");
        value.map(Some).ok_or_else(|| "a value is longer than the server says".to_owned())
    }

    /// Returns the number of answers that the next answer consists of; they follow. Returns `None`
    /// if the answer says that there is none, as after a transaction that was not done.
    ///
    /// # Errors
    /// It is something else.
    pub fn array(&mut self) -> Result<Option<usize>, String> {
        length(self.line(b'*')?)
    }

    /// The next line, behind the letter of this kind.
    fn line(&mut self, kind: u8) -> Result<&[u8], String> {
        let mut looked = 0;
        let length = loop {
            let unread = &self.answered[self.from..self.to];
            if let Some(at) = unread[looked..].iter().position(|byte| *byte == b'\n') {
                break looked + at;
            }
            looked = unread.len();
            self.more()?;
        };
        let begin = self.from;
        self.from += length + 1;
        let line = &self.answered[begin..begin + length];
        match line.strip_suffix(b"\r") {
            Some([found, rest @ ..]) if *found == kind => Ok(rest),
            Some([b'-', rest @ ..]) => Err(format!("the server answers: {}", String::from_utf8_lossy(rest))),
            _ => Err(format!("the server answers '{}' instead of '{}…'", line.escape_ascii(), kind as char)),
        }
    }

    /// Reads on, behind what is not read yet.
    fn more(&mut self) -> Result<(), String> {
        if self.from > 0 {
            self.answered.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.to == self.answered.len() {
            if self.to > ANSWER_MAX {
                return Err(format!("an answer of more than {ANSWER_MAX} bytes"));
            }
            self.answered.resize(self.to * 2, 0);
        }
        loop {
            match self.stream.read(&mut self.answered[self.to..]) {
                Ok(0) => return Err("the server has ended the connection".into()),
                Ok(bytes) => {
                    self.to += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("no answer: {error}")),
            }
        }
    }
}

/// A length, or -1 for what is not there.
fn length(text: &[u8]) -> Result<Option<usize>, String> {
    match parsed(text)? {
        -1 => Ok(None),
        number => match usize::try_from(number) {
            Ok(length) if length <= ANSWER_MAX => Ok(Some(length)),
            _ => Err(format!("the server answers a length of {number}")),
        },
    }
}

fn parsed(text: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("the server answers '{}' instead of a number", text.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// A server that takes `takes` bytes, returns them at its end, and answers in pieces of
    /// `at_once` bytes.
    fn served(takes: usize, answer: Vec<u8>, at_once: usize) -> (Connection, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut taken = vec![0; takes];
            stream.read_exact(&mut taken).unwrap();
            // A client that has its error already reads no further.
            let _ = answer.chunks(at_once).try_for_each(|piece| stream.write_all(piece));
            taken
        });
        (Connection::open(port).unwrap(), server)
    }

    #[test]
    fn answers_are_read_in_whatever_pieces_they_come() {
        let long = vec![b'x'; 3 * ASKED_MAX];
        let mut answer = b"+OK\r\n:-7\r\n$-1\r\n$4\r\na\r\nb\r\n*2\r\n$0\r\n\r\n:1\r\n*-1\r\n".to_vec();
        answer.extend_from_slice(format!("${}\r\n", long.len()).as_bytes());
        answer.extend_from_slice(&long);
        answer.extend_from_slice(b"\r\n+QUEUED\r\n");
        for at_once in [1, 3, 1 << 20] {
            let (mut connection, server) = served(0, answer.clone(), at_once);
            connection.simple("OK").unwrap();
            assert_eq!(connection.integer(), Ok(-7));
            assert_eq!(connection.bulk(), Ok(None));
            assert_eq!(connection.bulk(), Ok(Some(&b"a\r\nb"[..])));
            assert_eq!(connection.array(), Ok(Some(2)));
            assert_eq!(connection.bulk(), Ok(Some(&b""[..])));
            assert_eq!(connection.integer(), Ok(1));
            assert_eq!(connection.array(), Ok(None));
            assert_eq!(connection.bulk(), Ok(Some(&long[..])));
            connection.simple("QUEUED").unwrap();
            assert!(connection.simple("OK").unwrap_err().contains("ended the connection"));
            server.join().unwrap();
        }
    }

    #[test]
    fn commands_are_sent_together_and_in_order() {
        let wanted = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nEXEC\r\n";
        let (mut connection, server) = served(wanted.len(), b"+OK\r\n".to_vec(), 9);
        connection.ask(&[b"GET", b"\r\n"]).unwrap();
        connection.ask(&[b"EXEC"]).unwrap();
        connection.send().unwrap();
        connection.simple("OK").unwrap();
        assert_eq!(server.join().unwrap(), wanted);
    }

    #[test]
    fn another_answer_is_an_error_with_the_servers_words() {
        type Read = fn(&mut Connection) -> Result<(), String>;
        let simple: Read = |connection| connection.simple("OK");
        let bulk: Read = |connection| connection.bulk().map(drop);
        let array: Read = |connection| connection.array().map(drop);
        for (answer, read, why) in [
            ("-ERR no\r\n", simple, "answers: ERR no"),
            ("+NO\r\n", simple, "'NO' instead of 'OK'"),
            (":1\r\n", bulk, "':1\\r' instead of '$…'"),
            ("$x\r\n", bulk, "'x' instead of a number"),
            ("$-2\r\n", bulk, "a length of -2"),
            ("$99999999999\r\n", bulk, "a length of 99999999999"),
            ("$1\r\nabcd\r\n", bulk, "longer than the server says"),
            ("*1\n", array, "instead of '*…'"),
        ] {
            let (mut connection, server) = served(0, answer.into(), 100);
            let error = read(&mut connection).unwrap_err();
            assert!(error.contains(why), "{answer:?}: {error}");
            server.join().unwrap();
        }
    }
}
