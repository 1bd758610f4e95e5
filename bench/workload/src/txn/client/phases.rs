//! A run of the client: its phases, and the requests of each.
//!
//! | phase | what each request does |
//! | --- | --- |
//! | `SET, new` | sets a key for the first time; each key once, in an order drawn at random |
//! | `SET` | sets a key drawn at random again |
//! | `GET` | gets a key drawn at random |
//!
//! 1. A value is its key, repeated. So each key always has the same value, the order of two SETs
//!    does not matter, and each answer is known to the last byte (`closed_loop.rs`).
//! 2. A phase begins when the phase before it has all answers. Its throughput is the number of its
//!    requests over the time from its first request to its last answer.
//! 3. Each connection has asked `PING` before, so no phase pays for accepting connections.
//! 4. At the end the server must have as many keys more (`DBSIZE`) as the first phase has set.

use super::super::exchanges::{array, bulk, connect, count, ping};
use super::super::phase::{Name, Phase};
use crate::closed_loop::{self, Connection, Exchange};
use fastrand::Rng;
use platform::clock;
use report::Histogram;
use std::io::Write;
use std::net::TcpStream;

/// The phases, and how the names of their figures begin.
pub(in crate::txn) const PHASES: [Name; 3] = [("SET, new", "new_"), ("SET", "set_"), ("GET", "get_")];

const KEY_BYTES: usize = 16;
pub(super) const VALUE_BYTES: usize = 100;

/// What a run asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) keys: u32,
    /// How long keys are set again, and then got
    pub(super) seconds: f64,
    /// From which requests are drawn
    pub(super) seed: u64,
}

/// Runs all phases, in the order of [`PHASES`], with a server that has none of the keys yet.
///
/// # Errors
/// A connection is broken, or an answer or the number of keys is wrong; or the user interrupts.
pub(super) fn drive(port: u16, load: Load) -> Result<[Phase; 3], String> {
    let mut rng = Rng::with_seed(load.seed);
    let mut new: Vec<u32> = (0..load.keys).collect();
    rng.shuffle(&mut new);
    let mut new = new.into_iter();
    let before = count(port)?;
    let mut all =
        (0..load.connections).map(|_| connect(port).map(Connection::new)).collect::<Result<Vec<_>, _>>()?;
    all.iter_mut().try_for_each(|one| one.ask(ping))?;
    let first = phase(&mut all, set, |_| new.next())?;
    let time_ns = (load.seconds * clock::SECOND_NS as f64) as u64;
    let mut drawn = |write| {
        let end_ns = clock::now_ns() + time_ns;
        phase(&mut all, write, |now_ns| (now_ns < end_ns).then(|| rng.u32(..load.keys)))
    };
    let phases = [first, drawn(set)?, drawn(get)?];
    let more = count(port)? - before;
    if more != i64::from(load.keys) {
        return Err(format!("{} keys were set, and the server has {more} more", load.keys));
    }
    Ok(phases)
}

/// One phase: requests for the keys that `next` returns, which is told the time.
fn phase(
    all: &mut [Connection<TcpStream>],
    write: fn(&mut Exchange, u32),
    mut next: impl FnMut(u64) -> Option<u32>,
) -> Result<Phase, String> {
    let (begin_ns, mut latencies) = (clock::now_ns(), Histogram::new());
    let mut end_ns = begin_ns;
    let next = |_, exchange: &mut Exchange, now_ns| next(now_ns).map(|key| write(exchange, key)).is_some();
    closed_loop::serve(all, next, |answered| {
        latencies.record(answered.end_ns - answered.begin_ns);
        end_ns = answered.end_ns;
    })?;
    let per_s = latencies.count() as f64 * clock::SECOND_NS as f64 / (end_ns - begin_ns) as f64;
    Ok(Phase { latencies, per_s })
}

fn set(Exchange { request, answer }: &mut Exchange, key: u32) {
    let (key, value) = record(key);
    array(request, &[b"SET", &key, &value]);
    answer.extend(b"+OK\r\n");
}

fn get(Exchange { request, answer }: &mut Exchange, key: u32) {
    let (key, value) = record(key);
    array(request, &[b"GET", &key]);
    bulk(answer, &value);
}

/// A key, and the value that it always has.
fn record(key: u32) -> ([u8; KEY_BYTES], [u8; VALUE_BYTES]) {
    let mut name = [0; KEY_BYTES];
    write!(&mut name[..], "key:{key:012}").expect("a number of 32 bits has 10 digits at most");
    (name, std::array::from_fn(|at| name[at % KEY_BYTES]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::thread;

    const LOAD: Load = Load { connections: 3, keys: 500, seconds: 0.2, seed: 1 };

    /// What the server has, by key; and the number of commands.
    #[derive(Default)]
    struct Server {
        values: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
        commands: AtomicUsize,
    }

    /// How a server is wrong, if it is.
    #[derive(Clone, Copy)]
    enum Fault {
        None,
        /// Commands of this name get this answer.
        Answer(&'static str, &'static str),
        /// This key is not set, though the answer says so.
        Lost(&'static str),
    }

    /// The number in the next line, behind its first letter; `None` at the end.
    fn number(from: &mut impl BufRead) -> Option<usize> {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse().ok()
    }

    /// The words of the next command.
    fn command(from: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
        let words = number(from)?;
        let mut word = || {
            let mut word = vec![0; number(from)? + 2];
            from.read_exact(&mut word).ok()?;
            word.strip_suffix(b"\r\n").map(<[u8]>::to_vec)
        };
        (0..words).map(|_| word()).collect()
    }

    impl Server {
        fn answer(&self, command: &[Vec<u8>], fault: Fault) -> Vec<u8> {
            self.commands.fetch_add(1, Relaxed);
            let mut values = self.values.lock().unwrap();
            let words: Vec<&str> = command.iter().map(|word| str::from_utf8(word).unwrap()).collect();
            match (words[..].split_first().unwrap(), fault) {
                ((name, _), Fault::Answer(of, answer)) if *name == of => answer.into(),
                ((&"PING", []), _) => b"+PONG\r\n".into(),
                ((&"DBSIZE", []), _) => format!(":{}\r\n", values.len()).into(),
                ((&"SET", [key, value]), _) => {
                    if !matches!(fault, Fault::Lost(lost) if lost == *key) {
                        values.insert((*key).into(), (*value).into());
                    }
                    b"+OK\r\n".into()
                }
                ((&"GET", [key]), _) => match values.get(key.as_bytes()) {
                    Some(value) => [b"$100\r\n", &value[..], b"\r\n"].concat(),
                    None => b"$-1\r\n".into(),
                },
                _ => panic!("{words:?}"),
            }
        }
    }

    /// Starts a server; it ends with the process.
    fn serve(fault: Fault) -> (u16, Arc<Server>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), Arc::new(Server::default()));
        let shared = server.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().map(Result::unwrap) {
                let server = shared.clone();
                stream.set_nodelay(true).unwrap();
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(command) = command(&mut reader) {
                        // In two parts, as any stream may come. The client may have gone.
                        let answer = server.answer(&command, fault);
                        let (first, second) = answer.split_at(answer.len().min(2));
                        if [first, second].iter().any(|part| stream.write_all(part).is_err()) {
                            break;
                        }
                    }
                });
            }
        });
        (port, server)
    }

    #[test]
    fn each_key_is_set_once_and_then_drawn() {
        let (port, server) = serve(Fault::None);
        server.values.lock().unwrap().insert(b"another".into(), b"7".into());
        let phases = drive(port, LOAD).unwrap();
        assert_eq!(phases[0].latencies.count(), u64::from(LOAD.keys));
        assert!(phases.iter().all(|phase| phase.latencies.count() > 0 && phase.per_s > 0.0));
        let requests: u64 = phases.iter().map(|phase| phase.latencies.count()).sum();
        let others = 2 + LOAD.connections as u64;
        assert_eq!(server.commands.load(Relaxed) as u64, requests + others, "two DBSIZE, and the PINGs");
        let values = server.values.lock().unwrap();
        assert_eq!(values.len(), 1 + LOAD.keys as usize);
        let value = &values[&b"key:000000000499"[..]];
        assert_eq!(value.len(), VALUE_BYTES);
        assert!(value.starts_with(b"key:000000000499key:"));
    }

    #[test]
    fn a_run_with_a_wrong_answer_has_no_figures() {
        for (fault, why) in [
            (Fault::Answer("DBSIZE", "-ERR no\r\n"), "the server answers: ERR no"),
            (Fault::Answer("PING", "-ERR no\r\n"), "in the answer to '*1\\r\\n$4\\r\\nPING"),
            (Fault::Answer("SET", "-ERR\r\n"), "in the answer to '*3\\r\\n$3\\r\\nSET"),
            (Fault::Answer("GET", "$3\r\nkey\r\n"), "in the answer to '*2\\r\\n$3\\r\\nGET"),
            (Fault::Answer("GET", "$-1\r\n"), "in the answer to '*2\\r\\n$3\\r\\nGET"),
        ] {
            let told = drive(serve(fault).0, LOAD).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_key_that_is_lost_is_missed() {
        // No GET asks for the key.
        let load = Load { seconds: 0.0, ..LOAD };
        let told = drive(serve(Fault::Lost("key:000000000007")).0, load).unwrap_err();
        assert_eq!(told, "500 keys were set, and the server has 499 more");
    }
}
