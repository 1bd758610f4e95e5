//! Servers on one store in etcd, as processes of their own, one of them the owner: they are killed
//! and stopped, and so are members of the cluster; ways between members, and between servers and a
//! member, are cut; and a member's disk becomes full. A checker of histories looks that no write
//! that was acknowledged is lost, that none of a fenced owner appears, and that no read is old.
//!
//! Each owner has threads that write one value after the other, `EPOCH:NUMBER`, under keys of their
//! own: pairs of keys, and one thread many keys, more than a transaction of etcd takes. It says
//! what it finds when it takes over, and each attempt, acknowledgement and read. After the end of
//! an owner its history is compared with what the next one found.
//!
//! `MANX_ETCD_ROUNDS` is the number of faults.

use manx::etcd::Address;
use manx::txn::etcd::{Etcd, EtcdOptions};
use manx::txn::{Batch, Change, Data, Value};
use platform::clock::now_ns;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use testing::etcd::{Cluster, Setting, can_mount};
use testing::process::Running;
use testing::{Proxy, eventually, full, setting, until};

/// The variable by which a process is a server.
const SERVER: &str = "MANX_ETCD_SERVER";
const WRITERS: usize = 4;
/// This one writes many keys at once.
const LARGE: usize = 3;
const LARGE_KEYS: usize = 200;

/// What a member writes its data to: as large as its log, which it makes in advance, and some more.
const DISK_BYTES: u64 = 192 << 20;

const OPTIONS: EtcdOptions = EtcdOptions::new().lease_s(1).patience(Duration::from_secs(3));

/// The epoch of the owner that wrote it, and the writer's count.
type Written = (u64, u64);

fn keys(writer: usize) -> Vec<String> {
    let count = if writer == LARGE { LARGE_KEYS } else { 2 };
    (0..count).map(|number| format!("{writer}/{number}")).collect()
}

/// What a writer's keys have, which is the same; 0 before the first value.
fn read(it: &Etcd, writer: usize) -> Option<Written> {
    let keys = keys(writer);
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let found = it.get_many(&keys).ok()?;
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "a part of a batch: {found:?}");
    let text = found[0].as_ref().map_or("0:0".into(), |value| String::from_utf8_lossy(value).into_owned());
    let (epoch, number) = text.split_once(':').expect("two numbers");
    Some((epoch.parse().expect("a number"), number.parse().expect("a number")))
}

/// The server: runs until an error. It is no test unless the variable is set.
#[test]
fn server() {
    let Ok(address) = std::env::var(SERVER) else { return };
    let address: Address = address.parse().expect("an address");
    let it = eventually("etcd answers", || Etcd::open(&address, OPTIONS).ok());
    let owner = match it.recover() {
        Ok(owner) => owner,
        Err(error) => return println!("@ end {:?} {error}", error.outcome()),
    };
    println!("@ epoch {}", owner.epoch);
    let found: Vec<Written> = (0..WRITERS).map_while(|writer| read(&it, writer)).collect();
    for (writer, (epoch, number)) in found.iter().enumerate() {
        println!("@ found {writer} {epoch} {number}");
    }
    if found.len() < WRITERS {
        return println!("@ end it was fenced while it looked");
    }
    println!("@ took {WRITERS}");
    let ids = AtomicU64::new(owner.last_id);
    thread::scope(|scope| {
        for (writer, (_, first)) in found.iter().enumerate() {
            let (it, ids) = (&it, &ids);
            scope.spawn(move || {
                for number in first + 1.. {
                    let value = Value::from(format!("{}:{number}", owner.epoch).as_bytes());
                    let put = |key: String| Change::Put { key: key.as_bytes().into(), value: value.clone() };
                    let changes: Vec<Change> = keys(writer).into_iter().map(put).collect();
                    // Ids do not come in their order.
                    let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
                    println!("@ try {writer} {number}");
                    match it.apply(Batch { epoch: owner.epoch, id, ..Batch::new(&changes, true) }) {
                        Ok(()) => println!("@ ack {writer} {number} {}", now_ns()),
                        Err(error) => {
                            println!("@ end {:?} {error}", error.outcome());
                            std::process::exit(0);
                        }
                    }
                }
            });
        }
        for writer in (0..WRITERS).cycle() {
            let began_ns = now_ns();
            if let Some((epoch, number)) = read(&it, writer) {
                println!("@ saw {writer} {epoch} {number} {began_ns}");
            }
            thread::sleep(Duration::from_millis(3));
        }
    });
}

/// What a server has said.
#[derive(Default, Clone)]
struct History {
    epoch: u64,
    found: BTreeMap<usize, Written>,
    took: bool,
    tried: [u64; WRITERS],
    /// Numbers, and when.
    acked: [Vec<(u64, u64)>; WRITERS],
    /// What was read, and when the read began.
    seen: [Vec<(Written, u64)>; WRITERS],
    end: Option<String>,
}

impl History {
    fn add(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        if what == "end" {
            self.end.get_or_insert_with(|| line.into());
            return;
        }
        let words: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        let writer = usize::try_from(words[0]).expect("small");
        match (what, &words[..]) {
            ("epoch", [epoch]) => self.epoch = *epoch,
            ("found", [_, epoch, number]) => drop(self.found.insert(writer, (*epoch, *number))),
            ("took", [_]) => self.took = true,
            ("try", [_, number]) => self.tried[writer] = *number,
            ("ack", [_, number, ns]) => self.acked[writer].push((*number, *ns)),
            ("saw", [_, epoch, number, ns]) => self.seen[writer].push(((*epoch, *number), *ns)),
            _ => panic!("what is this? {line}"),
        }
    }

    fn acked_count(&self) -> usize {
        self.acked.iter().map(Vec::len).sum()
    }

    /// The next owner's findings follow from this owner's history, which is over.
    fn precedes(&self, next: &History) {
        for writer in 0..WRITERS {
            let (acked, tried) = (self.acked[writer].last().map(|(number, _)| *number), self.tried[writer]);
            let (before, after) = (self.found[&writer], next.found[&writer]);
            let is_own =
                after.0 == self.epoch && after.1 <= tried && acked.is_none_or(|acked| after.1 >= acked);
            let is_older = after == before && acked.is_none();
            assert!(
                is_own || is_older,
                "writer {writer}: owner {} found {before:?}, tried {tried}, was told {acked:?}, and ended by {:?}; owner {} found {after:?}",
                self.epoch,
                self.end,
                next.epoch,
            );
        }
    }

    /// No read began after a later value was acknowledged: by this owner or a later one.
    fn reads_nothing_old(&self, later: &[History]) {
        for writer in 0..WRITERS {
            let first_later =
                later.iter().filter_map(|later| later.acked[writer].first()).map(|(_, ns)| *ns).min();
            let mut last = 0;
            for ((epoch, number), began_ns) in &self.seen[writer] {
                assert!(
                    first_later.is_none_or(|ns| *began_ns < ns),
                    "writer {writer}: owner {} read {epoch}:{number} after a later one had written",
                    self.epoch
                );
                let acked = self.acked[writer].partition_point(|(_, ns)| ns < began_ns);
                let acked = acked.checked_sub(1).map_or(0, |index| self.acked[writer][index].0);
                assert!(
                    *number >= acked.max(last),
                    "writer {writer}: owner {} read {number} after {acked}, {last}",
                    self.epoch
                );
                last = *number;
            }
        }
    }
}

/// A server that was started, and its history so far.
struct Server {
    process: i32,
    history: Arc<Mutex<History>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    fn start(address: &str) -> Server {
        let mut running = Running::again("server", &[(SERVER, OsStr::new(address))]);
        let process = i32::try_from(running.child.id()).expect("an id");
        let history = Arc::new(Mutex::new(History::default()));
        let its = Arc::clone(&history);
        let reader = thread::spawn(move || {
            while let Some(line) = running.line() {
                if let Some((_, line)) = line.split_once("@ ") {
                    its.lock().expect("no panic").add(line);
                }
            }
            its.lock().expect("no panic").end.get_or_insert_with(|| "killed".into());
        });
        Server { process, history, reader: Some(reader) }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no panic")
    }

    /// The process is there until its reader has ended, which waits for it.
    fn signal(&self, signal: i32) {
        if self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) {
            // SAFETY: a system call without pointers.
            unsafe { libc::kill(self.process, signal) };
        }
    }

    fn is_owner(&self) -> bool {
        let history = self.history();
        history.took && history.end.is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// The servers, in the order of their starts.
struct Servers {
    address: String,
    servers: Vec<Server>,
    /// Histories that are over, and not yet compared with all that must be known.
    over: Vec<History>,
    acked: usize,
}

impl Servers {
    /// Waits for an owner of a higher epoch, with a server behind it that waits. Returns the owner
    /// of the highest one.
    fn owner_after(&mut self, epoch: u64) -> usize {
        eventually("an owner", || {
            while self.servers.iter().filter(|server| server.history().end.is_none()).count() < 3 {
                self.servers.push(Server::start(&self.address));
            }
            let epoch_of = |index: &usize| self.servers[*index].history().epoch;
            let owners = (0..self.servers.len()).filter(|index| self.servers[*index].is_owner());
            owners.max_by_key(epoch_of).filter(|index| epoch_of(index) > epoch)
        })
    }

    fn owner(&mut self) -> usize {
        self.owner_after(0)
    }

    fn acked(&self) -> usize {
        self.acked + self.servers.iter().map(|server| server.history().acked_count()).sum::<usize>()
    }

    /// Returns when this number of further writes are acknowledged.
    fn go_on(&mut self, count: usize) {
        let goal = self.acked() + count;
        while self.acked() < goal {
            self.owner();
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks the histories that are over.
    fn check(&mut self) {
        let (ended, living) = self.servers.drain(..).partition(|server| server.history().end.is_some());
        self.servers = living;
        for mut server in ended {
            let _ = server.reader.take().map(JoinHandle::join);
            let history = server.history().clone();
            let end = history.end.as_deref().unwrap_or_default();
            assert!(!end.contains("gone from etcd"), "{end}");
            self.acked += history.acked_count();
            if history.took {
                self.over.push(history);
            }
        }
        self.over.sort_by_key(|history| history.epoch);
        let living = self.servers.iter().map(|server| server.history().clone());
        let mut all: Vec<History> = self.over.iter().cloned().chain(living).filter(|it| it.took).collect();
        all.sort_by_key(|history| history.epoch);
        // A stopped owner of the past may still be alive: it is checked when it has ended.
        let mut checked = 0;
        for (index, history) in all.iter().enumerate().filter(|(_, history)| history.end.is_some()) {
            history.reads_nothing_old(&all[index + 1..]);
            let Some(next) = all.get(index + 1) else { break };
            history.precedes(next);
            checked += usize::from(checked == index);
        }
        self.over.drain(..checked);
    }
}

#[test]
fn what_was_acknowledged_stays_and_what_was_fenced_does_not_come() {
    let disk_bytes = can_mount().then_some(DISK_BYTES);
    let faulty = Setting { can_be_cut: true, disk_bytes, ..Setting::default() };
    let Some(mut cluster) = Cluster::start_with(3, faulty) else { return };
    let rounds = setting("MANX_ETCD_ROUNDS", if full() { 500 } else { 12 });
    let seed = setting("MANX_SEED", fastrand::u32(..).into());
    println!("{rounds} rounds, MANX_SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    // The ways of all servers to the members.
    let ways: Vec<Proxy> = cluster.endpoints().iter().map(|endpoint| Proxy::to(endpoint)).collect();
    let endpoints: Vec<String> = ways.iter().map(Proxy::endpoint).collect();
    let address = format!("etcd://{}/owners", endpoints.join(","));
    let mut servers = Servers { address, servers: Vec::new(), over: Vec::new(), acked: 0 };
    for round in 0..rounds {
        servers.go_on(dice.usize(1..40));
        let (owner, member) = (servers.owner(), dice.usize(..3));
        // The first rounds have each fault once.
        let faults = if disk_bytes.is_some() { 11 } else { 10 };
        let fault = if round < faults { round } else { dice.u64(..faults) };
        match fault {
            0 => servers.servers[owner].signal(libc::SIGKILL),
            1 => {
                // It wakes up when another one has the store.
                servers.servers[owner].signal(libc::SIGSTOP);
                let epoch = servers.servers[owner].history().epoch;
                servers.owner_after(epoch);
                servers.go_on(10);
                servers.servers[owner].signal(libc::SIGCONT);
                until("it is fenced", || servers.servers[owner].history().end.is_some());
            }
            2 => {
                // Shorter than its lease, or a little longer.
                servers.servers[owner].signal(libc::SIGSTOP);
                thread::sleep(Duration::from_millis(dice.u64(..1600)));
                servers.servers[owner].signal(libc::SIGCONT);
            }
            3 => {
                cluster.kill(member);
                servers.go_on(20);
                cluster.restart(&[member]);
            }
            4 => {
                cluster.stop(member);
                servers.go_on(20);
                if dice.bool() {
                    let owner = servers.owner();
                    servers.servers[owner].signal(libc::SIGKILL);
                    servers.go_on(5);
                }
                cluster.go_on(member);
            }
            5 => {
                // No majority, for shorter or longer than the owner tries.
                let other = (member + 1) % 3;
                cluster.stop(member);
                cluster.stop(other);
                thread::sleep(Duration::from_millis(dice.u64(..4000)));
                cluster.go_on(member);
                cluster.go_on(other);
            }
            6 => {
                // A slow one.
                for _ in 0..10 {
                    cluster.stop(member);
                    thread::sleep(Duration::from_millis(dice.u64(..60)));
                    cluster.go_on(member);
                    thread::sleep(Duration::from_millis(dice.u64(..10)));
                }
            }
            7 => {
                // Two do not reach each other; the third one reaches both.
                cluster.cut(member, (member + 1) % 3);
                servers.go_on(20);
                cluster.mend();
            }
            8 => {
                // The servers reach a member that reaches no other one: mostly the leader.
                let member = cluster.leader().filter(|_| dice.u8(..4) > 0).unwrap_or(member);
                cluster.cut(member, (member + 1) % 3);
                cluster.cut(member, (member + 2) % 3);
                servers.go_on(20);
                if dice.bool() {
                    let owner = servers.owner();
                    servers.servers[owner].signal(libc::SIGKILL);
                    servers.go_on(5);
                }
                cluster.mend();
            }
            9 => {
                // No server reaches it, and the members reach each other.
                ways[member].cut();
                servers.go_on(20);
                ways[member].mend();
            }
            _ => {
                // It ends when its disk is full, and goes on when there is room again.
                let filler = cluster.disk(member).join("filler");
                // The error is that there is no room.
                let _ = std::io::copy(&mut std::io::repeat(1), &mut File::create(&filler).expect("a file"));
                while !cluster.has_ended(member) {
                    servers.go_on(10);
                }
                servers.go_on(20);
                std::fs::remove_file(filler).expect("removed");
                cluster.restart(&[member]);
            }
        }
        servers.check();
        if round % 20 == 19 {
            println!("{} rounds, {} writes acknowledged", round + 1, servers.acked());
        }
    }
    let (last, epoch) = (servers.owner(), servers.servers.iter().map(|it| it.history().epoch).max());
    servers.servers[last].signal(libc::SIGKILL);
    servers.owner_after(epoch.unwrap_or(0));
    servers.check();
    println!("{rounds} rounds, {} writes acknowledged, none lost", servers.acked());
}
