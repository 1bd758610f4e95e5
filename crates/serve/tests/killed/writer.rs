//! A client that writes until its server is gone, and keeps account of what was acknowledged.

use crate::ledger::{Ledger, Op, count};
use crate::served::{Client, frame};
use fastrand::Rng;
use server::resp::Reply;
use std::io;
use std::net::SocketAddr;

/// What all clients write, in one EXEC.
pub const NUMBER: &[u8] = b"common:number";
pub const NAMES: [&[u8]; 2] = [b"common:one", b"common:other"];

const KEYS: u64 = 6;
/// So many commands are sent at once, at most.
const PIPELINE: u64 = 4;

/// What a writer knows when its server is gone.
pub struct Written {
    pub ledger: Ledger,
    /// The numbers that its writes to common keys had, and their names.
    pub common: Vec<(u64, Vec<u8>)>,
    /// The name of one that has no answer.
    pub common_pending: Option<Vec<u8>>,
    /// What the server answered that it must not.
    pub wrong: Option<String>,
}

pub struct Writer {
    /// Its keys begin so.
    prefix: String,
    round: u64,
    written: u64,
    random: Rng,
    out: Written,
}

impl Writer {
    pub fn new(prefix: String, round: u64, seed: u64, ledger: Ledger) -> Writer {
        let out = Written { ledger, common: Vec::new(), common_pending: None, wrong: None };
        Writer { prefix, round, written: 0, random: Rng::with_seed(seed), out }
    }

    /// Writes until the connection ends.
    pub fn run(mut self, address: SocketAddr) -> Written {
        if let Ok(mut client) = Client::connect(address) {
            while self.out.wrong.is_none() && self.turn(&mut client).is_ok() {}
        }
        self.out
    }

    fn turn(&mut self, client: &mut Client) -> io::Result<()> {
        if self.random.u64(..6) == 0 {
            return self.write_common(client);
        }
        let ops: Vec<Op> = (0..=self.random.u64(..PIPELINE)).map(|_| self.any()).collect();
        let mut bytes = Vec::new();
        for op in &ops {
            put(&mut bytes, op);
            self.out.ledger.asked(op.clone());
        }
        client.send(&bytes)?;
        for op in &ops {
            let mut reply = client.next()?;
            if let Op::Exec(inner) = op {
                for _ in 0..=inner.len() {
                    reply = client.next()?;
                }
            }
            self.out.ledger.answered();
            self.look(op, &reply);
        }
        Ok(())
    }

    /// Whether a counter's answer is what it has counted; and no command fails.
    fn look(&mut self, op: &Op, reply: &Reply) {
        match (op, reply) {
            (Op::Exec(ops), Reply::Array(replies)) if ops.len() == replies.len() => {
                // There is one counter in it, so what that has now is what it answered.
                for (op, reply) in ops.iter().zip(replies) {
                    self.look(op, reply);
                }
            }
            (Op::Count(key), Reply::Integer(number)) => {
                let counted = count(self.out.ledger.sure().get(key));
                if counted != u64::try_from(*number).ok() {
                    self.out.wrong = Some(format!("{op:?} counted to {number}, not {counted:?}"));
                }
            }
            (Op::Delete(_), Reply::Integer(0 | 1)) => {}
            (Op::Set(..) | Op::SetAll(_), Reply::Simple(text)) if text == "OK" => {}
            _ => self.out.wrong = Some(format!("{op:?} is answered {reply:?}")),
        }
    }

    fn write_common(&mut self, client: &mut Client) -> io::Result<()> {
        let name = self.value();
        let mut bytes = Vec::new();
        frame(&mut bytes, &[b"MULTI"]);
        frame(&mut bytes, &[b"SET", NAMES[0], &name]);
        frame(&mut bytes, &[b"INCR", NUMBER]);
        frame(&mut bytes, &[b"SET", NAMES[1], &name]);
        frame(&mut bytes, &[b"EXEC"]);
        self.out.common_pending = Some(name);
        client.send(&bytes)?;
        for _ in 0..4 {
            client.next()?;
        }
        let reply = client.next()?;
        match &reply {
            Reply::Array(replies) if matches!(replies[..], [_, Reply::Integer(_), _]) => {
                let Reply::Integer(number) = replies[1] else { unreachable!("just looked") };
                let name = self.out.common_pending.take().expect("just put there");
                self.out.common.push((number.unsigned_abs(), name));
            }
            _ => self.out.wrong = Some(format!("the common EXEC is answered {reply:?}")),
        }
        Ok(())
    }

    fn any(&mut self) -> Op {
        match self.random.u64(..8) {
            0..3 => Op::Set(self.key(), self.value()),
            3 => self.counter(),
            4 => Op::Delete(self.key()),
            5 => {
                let value = self.value();
                Op::SetAll((0..4).map(|at| (self.named(&format!("all{at}")), value.clone())).collect())
            }
            _ => {
                let value = self.value();
                let one = Op::Set(self.named("one"), value.clone());
                let other = Op::Set(self.named("other"), value);
                Op::Exec(vec![
                    one,
                    Op::Delete(self.key()),
                    other,
                    Op::Set(self.key(), self.value()),
                    self.counter(),
                ])
            }
        }
    }

    fn named(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn key(&mut self) -> Vec<u8> {
        let key = self.random.u64(..KEYS);
        self.named(&key.to_string())
    }

    fn counter(&self) -> Op {
        Op::Count(self.named("count"))
    }

    /// Different each time; some are long.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("{}{}.{}", self.prefix, self.round, self.written).into_bytes();
        let length = match self.random.u64(..40) {
            0 => 50_000,
            1..8 => 2_000,
            _ => 0,
        };
        value.resize(length.max(value.len()), b'.');
        value
    }
}

fn put(into: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Set(key, value) => frame(into, &[b"SET", key, value]),
        Op::Count(key) => frame(into, &[b"INCR", key]),
        Op::Delete(key) => frame(into, &[b"DEL", key]),
        Op::SetAll(pairs) => {
            let mut args: Vec<&[u8]> = vec![b"MSET"];
            args.extend(pairs.iter().flat_map(|(key, value)| [&key[..], &value[..]]));
            frame(into, &args);
        }
        Op::Exec(ops) => {
            frame(into, &[b"MULTI"]);
            ops.iter().for_each(|op| put(into, op));
            frame(into, &[b"EXEC"]);
        }
    }
}
