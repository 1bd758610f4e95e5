//! Publishing: all that each connection receives, compared with a real server of Redis.

mod support;

use fastrand::Rng;
use server::resp::Reply::{self, Array};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use support::redis::Redis;
use support::*;

/// A connection, and all that it has received, answer by answer.
struct Listener {
    stream: TcpStream,
    unread: Vec<u8>,
    received: Vec<String>,
    marks: u32,
    /// The number of answers that nothing has waited for.
    unread_answers: usize,
}

impl Listener {
    fn to(address: SocketAddr) -> Listener {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Listener { stream, unread: Vec::new(), received: Vec::new(), marks: 0, unread_answers: 0 }
    }

    /// The server may have closed the connection: that is seen when it is read.
    fn send(&mut self, line: &str) {
        let _ = self.stream.write_all(&frame(&words(line)));
    }

    /// Reads until all is done that was sent; or until the end.
    fn settle(&mut self) {
        self.marks += 1;
        let mark = format!("mark{}", self.marks);
        self.send(&format!("PING {mark}"));
        // Other answers say that the mark is refused, or not answered.
        let is_mark =
            |reply: &Reply| *reply == bulk(&mark) || *reply == Array(vec![bulk("pong"), bulk(&mark)]);
        while self.next().is_some_and(|reply| !is_mark(&reply)) {}
        self.unread_answers = 0;
    }

    /// Reads this number of answers.
    fn read(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.next());
        self.unread_answers = 0;
    }

    /// Reads an answer; `None` at the end.
    fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, taken)) = Reply::read(&self.unread).unwrap() {
                let raw: Vec<u8> = self.unread.drain(..taken).collect();
                self.received.push(without_id(&raw.escape_ascii().to_string()));
                return Some(reply);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(count @ 1..) => self.unread.extend_from_slice(&bytes[..count]),
                _ => {
                    self.received.push("the end".into());
                    return None;
                }
            }
        }
    }
}

/// HELLO tells the connection's number.
fn without_id(received: &str) -> String {
    let mut parts = received.split("id\\r\\n:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text += part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    text
}

/// What each connection has received.
fn play(script: &str, address: SocketAddr) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let end = line.find([':', '!', '+']).unwrap();
        let one = all.entry(line[..end].to_owned()).or_insert_with(|| Listener::to(address));
        one.send(&line[end + 2..]);
        one.received.push(line[end + 2..].to_owned());
        match &line[end..=end] {
            ":" => one.settle(),
            // Between MULTI and EXEC no mark is answered.
            "+" => one.read(one.unread_answers + 1),
            _ => one.unread_answers += 1,
        }
    }
    all.values_mut().for_each(Listener::settle);
    all.into_iter().map(|(name, one)| (name, one.received)).collect()
}

fn compare(script: &str) {
    for model in MODELS {
        let Some(redis) = Redis::start() else { return };
        let server = start(options(model));
        let (ours, theirs) = (play(script, server.address()), play(script, redis.address));
        for (name, our) in &ours {
            let their = &theirs[name];
            let same = our.iter().zip(their).take_while(|(our, their)| our == their).count();
            assert!(
                our == their,
                "{model}, {name}, after {:#?}\nours: {:?}\ntheirs: {:?}",
                &our[same.saturating_sub(10)..same],
                our.get(same),
                their.get(same)
            );
        }
    }
}

#[test]
fn all_that_clients_receive_is_what_redis_sends() {
    compare(include_str!("pubsub.txt"));
}

/// Of anything by three clients; another one each time, or that of MANX_SEED.
#[test]
fn all_that_clients_receive_of_anything_is_what_redis_sends() {
    let seed = testing::setting("MANX_SEED", fastrand::u32(..).into());
    println!("MANX_SEED={seed}");
    let mut dice = Rng::with_seed(seed);
    // With one pattern, and without an end of all channels at once: Redis has them in any order.
    const COMMANDS: [&str; 18] = [
        "SUBSCRIBE C",
        "SUBSCRIBE C C",
        "UNSUBSCRIBE C",
        "PSUBSCRIBE ?",
        "PUNSUBSCRIBE ?",
        "PUNSUBSCRIBE",
        "SSUBSCRIBE C",
        "SUNSUBSCRIBE C",
        "PUBLISH C text",
        "PUBLISH C other",
        "SPUBLISH C text",
        "PUBSUB NUMSUB a b",
        "PUBSUB SHARDNUMSUB a",
        "PUBSUB NUMPAT",
        "PING x",
        "INCR k",
        "SUBSCRIBE",
        "WHAT",
    ];
    let mut script = String::new();
    for _ in 0..600 {
        let client = dice.u32(1..4);
        let (begin, end, count) = match dice.u32(..20) {
            0 => ("MULTI", "EXEC", dice.usize(1..8)),
            1 => ("MULTI", "DISCARD", 2),
            2 => ("CLIENT REPLY OFF", "RESET", dice.usize(1..8)),
            3 => ("CLIENT REPLY SKIP", "PING", 1),
            4 => ("PING", "HELLO 3", 0),
            5 => ("PING", "HELLO 2", 0),
            _ => ("PING", "PING", dice.usize(1..3)),
        };
        let mut add = |line: &str, mark: char| script += &format!("{client}{mark} {line}\n");
        add(begin, '!');
        for _ in 0..count {
            let line = COMMANDS[dice.usize(..COMMANDS.len())];
            // Redis refuses it in EXEC.
            if begin == "MULTI" && line.starts_with("SSUBSCRIBE") {
                continue;
            }
            let words: Vec<_> = line
                .split(' ')
                .map(|word| if word == "C" { ["a", "b"][dice.usize(..2)] } else { word })
                .collect();
            add(&words.join(" "), '!');
        }
        add(end, ':');
    }
    compare(&script);
}
