//! `manx-serve` as a process that is killed, and connections to it.

use server::resp::Reply;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// No answer takes so long unless it never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped, if not before.
pub struct Served(Child);

impl Served {
    /// Starts it, and does not wait for anything.
    pub fn spawn(folder: &Path, model: &str) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manx-serve"));
        command.args(["--listen", "127.0.0.1:0", "--model", model, "--data"]).arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Served(command.spawn().expect("manx-serve starts"))
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// What it says if it ends instead.
    pub fn start(folder: &Path, model: &str) -> Result<(Served, SocketAddr), String> {
        let mut served = Served::spawn(folder, model);
        let mut line = String::new();
        let stdout = served.0.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let address =
            line.strip_prefix("manx: listening on ").and_then(|rest| rest.split(',').next()?.parse().ok());
        if let Some(address) = address {
            return Ok((served, address));
        }
        served.kill();
        let mut words = String::new();
        let _ = served.0.stderr.take().expect("piped").read_to_string(&mut words);
        Err(format!("the server does not start: {line}{words}"))
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        // It fails if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A connection to it.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, received: Vec::new() })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next answer, or the connection's end.
    pub fn next(&mut self) -> io::Result<Reply> {
        loop {
            let read = Reply::read(&self.received).expect("what comes is an answer, or the beginning of one");
            if let Some((reply, taken)) = read {
                self.received.drain(..taken);
                return Ok(reply);
            }
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("no answer for {} s", PATIENCE.as_secs())
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub fn ask(&mut self, args: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        frame(&mut bytes, args);
        self.send(&bytes)?;
        self.next()
    }
}

/// A command as it is sent.
pub fn frame(into: &mut Vec<u8>, args: &[&[u8]]) {
    into.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        into.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        into.extend_from_slice(arg);
        into.extend_from_slice(b"\r\n");
    }
}
