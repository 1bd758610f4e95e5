//! `manx-serve --data`, killed at any moment and started again: what clients were told is there,
//! and what is there is whole.
//!
//! Some clients write to keys of their own and to common ones, one command after the other, several
//! at once, and EXECs; the process gets SIGKILL at a random moment, now and then while it starts;
//! the next one on the same folder is asked for everything. `MANX_SERVE_ROUNDS` sets how many
//! rounds each model has. A failure prints the seed for `MANX_SERVE_SEED`, with which clients do
//! the same again; when the kill hits them is the machine's affair.

mod ledger;
mod served;
mod writer;

use fastrand::Rng;
use ledger::{Common, Keys, Ledger, count};
use served::{Client, Served};
use server::resp::Reply;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use writer::{NAMES, NUMBER, Writer};

const CLIENTS: usize = 6;
/// The number of rounds that use the same folder.
const ROUNDS_A_FOLDER: u64 = 10;
const ROUNDS: u64 = 50;
/// The process lives so long at most after its clients have begun.
const LIFE_US: u64 = 60_000;
/// One that is killed while it starts lives so long at most.
const START_US: u64 = 20_000;

/// What is known of a folder.
#[derive(Default)]
struct Known {
    ledgers: [Ledger; CLIENTS],
    common: Common,
}

fn prefix(client: usize) -> String {
    format!("{client}:")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Everything that the server has.
fn everything(client: &mut Client) -> Result<Keys, String> {
    let mut ask = |args: &[&[u8]]| match client.ask(args) {
        Ok(Reply::Array(replies)) => Ok(replies),
        other => Err(format!("{}: {other:?}", args[0].escape_ascii())),
    };
    let bytes = |reply: &Reply| reply.as_bytes().map(<[u8]>::to_vec).ok_or("a key is gone meanwhile");
    let names = ask(&[b"KEYS", b"*"])?.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Ok(Keys::new());
    }
    let mut args: Vec<&[u8]> = vec![b"MGET"];
    args.extend(names.iter().map(|name| &name[..]));
    let values = ask(&args)?.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    Ok(names.into_iter().zip(values).collect())
}

impl Known {
    /// Compares what the server has after a crash with what may be.
    fn recover(&mut self, client: &mut Client) -> Result<(), String> {
        let mut there = everything(client)?;
        let number = there.remove(NUMBER);
        let number = count(number.as_ref()).ok_or("the common number is none")?;
        let names = NAMES.map(|name| there.remove(name));
        self.common.recover(number, names.each_ref().map(Option::as_ref))?;
        for (client, ledger) in self.ledgers.iter_mut().enumerate() {
            let prefix = prefix(client).into_bytes();
            let (own, others) = there.into_iter().partition(|(key, _)| key.starts_with(&prefix));
            there = others;
            ledger.recover(&own).map_err(|why| format!("client {client}: {why}"))?;
        }
        there.keys().next().map_or(Ok(()), |key| Err(format!("nobody wrote {}", ledger::show(key))))
    }

    /// Starts the server, compares, lets clients write, and kills it.
    fn round(&mut self, folder: &Path, model: &str, round: u64, random: &mut Rng) -> Result<(), String> {
        if random.u64(..6) == 0 {
            let _starting = Served::spawn(folder, model);
            thread::sleep(Duration::from_micros(random.u64(..START_US)));
        }
        let (mut served, address) = Served::start(folder, model)?;
        self.recover(&mut Client::connect(address).map_err(|error| error.to_string())?)?;
        let life = Duration::from_micros(random.u64(..LIFE_US));
        let writers: Vec<_> = self
            .ledgers
            .iter_mut()
            .enumerate()
            .map(|(client, ledger)| {
                let writer = Writer::new(prefix(client), round, random.u64(..), std::mem::take(ledger));
                thread::spawn(move || writer.run(address))
            })
            .collect();
        thread::sleep(life);
        served.kill();
        for (ledger, writer) in self.ledgers.iter_mut().zip(writers) {
            let written = writer.join().map_err(|_| "a client has panicked")?;
            if let Some(wrong) = written.wrong {
                return Err(wrong);
            }
            *ledger = written.ledger;
            self.common.add(written.common, written.common_pending)?;
        }
        Ok(())
    }
}

fn rounds(model: &str) {
    let seed = number("MANX_SERVE_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
    });
    let rounds = number("MANX_SERVE_ROUNDS").unwrap_or(ROUNDS);
    let mut random = Rng::with_seed(seed);
    let mut folder = tempfile::tempdir().expect("a folder");
    let mut known = Known::default();
    let mut acknowledged = 0;
    for round in 0..rounds {
        if round > 0 && round.is_multiple_of(ROUNDS_A_FOLDER) {
            (folder, known) = (tempfile::tempdir().expect("a folder"), Known::default());
        }
        if let Err(why) = known.round(folder.path(), model, round, &mut random) {
            let kept = folder.keep();
            panic!(
                "round {round}: {why}\nthe folder: {}\nagain: MANX_SERVE_SEED={seed} MANX_SERVE_ROUNDS={rounds} cargo test -p manx-serve --test killed {model}",
                kept.display()
            );
        }
        acknowledged += known.ledgers.iter().map(|ledger| ledger.sure().len()).sum::<usize>();
    }
    assert!(rounds < ROUNDS || acknowledged > 0, "nobody was ever answered: the test has shown nothing");
}

#[test]
fn threads_lose_nothing_that_was_acknowledged() {
    rounds("threads");
}

#[test]
fn the_pool_loses_nothing_that_was_acknowledged() {
    rounds("pool");
}

/// The checker looks at a real server after a real crash, from which something is taken or to which
/// something is added.
#[test]
fn a_loss_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ask: Vec<[&[u8]; 3]> = vec![[b"SET", b"0:one", b"stale"], [b"SET", b"0:x", b"new"]];
    ask.extend([[&b"SET"[..], NAMES[0], b"half"], [b"SET", b"nobody", b"x"], [b"INCRBY", NUMBER, b"1"]]);
    for what in ask.iter().map(|args| &args[..]).chain([&[&b"DEL"[..], b"0:one"][..], &[b"FLUSHALL"]]) {
        let mut known = Known::default();
        let (mut served, address) = Served::start(folder.path(), "threads").expect("a server");
        let mut client = Client::connect(address).expect("a connection");
        client.ask(&[b"FLUSHALL"]).expect("an answer");
        let name = b"name".to_vec();
        for key in [b"0:one".to_vec(), b"0:other".to_vec()] {
            assert_eq!(client.ask(&[b"SET", &key, b"value"]).unwrap(), Reply::Simple("OK".into()));
            known.ledgers[0].asked(ledger::Op::Set(key, b"value".to_vec()));
            known.ledgers[0].answered();
        }
        for args in [&[&b"INCR"[..], NUMBER][..], &[b"SET", NAMES[0], &name], &[b"SET", NAMES[1], &name]] {
            client.ask(args).expect("an answer");
        }
        known.common.add(vec![(1, name)], None).unwrap();
        served.kill();
        let (_served, address) = Served::start(folder.path(), "threads").expect("a server");
        let mut client = Client::connect(address).expect("a connection");
        // What is as it was is not told of. What is compared with is kept for the second look.
        let mut again = Known { ledgers: known.ledgers.clone(), common: Common::default() };
        again.common.add(vec![(1, b"name".to_vec())], None).unwrap();
        assert_eq!(known.recover(&mut client), Ok(()));
        client.ask(what).expect("an answer");
        assert!(again.recover(&mut client).is_err(), "nobody saw {}", what[0].escape_ascii());
    }
}
