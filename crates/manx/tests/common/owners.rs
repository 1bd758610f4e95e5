//! Servers on one store that is elsewhere, as processes of their own, one of them the owner: they
//! are killed and stopped, and so is what has the store. A checker of histories looks that no write
//! that was acknowledged is lost, that none of a fenced owner appears, and that no read is old.
//!
//! Each owner has threads that write one value after the other, `EPOCH:NUMBER`, under keys of their
//! own: pairs of keys, and one thread many keys, more than one transaction or statement takes. It
//! says what it finds when it takes over, and each attempt, acknowledgement and read. After the end
//! of an owner its history is compared with what the next one found.

use manx::txn::{Batch, Change, Data, Remote, RemoteOptions, Value};
use platform::clock::now_ns;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use testing::process::Running;
use testing::{eventually, until};

/// The variable by which a process is a server: the store's address.
const SERVER: &str = "MANX_OWNERS_SERVER";
const WRITERS: usize = 4;
/// This one writes many keys at once.
const LARGE: usize = 3;

pub const OPTIONS: RemoteOptions = RemoteOptions::new().lease_s(1).patience(Duration::from_secs(3));

/// The epoch of the owner that wrote it, and the writer's count.
type Written = (u64, u64);

fn keys(writer: usize, large: usize) -> Vec<String> {
    let count = if writer == LARGE { large } else { 2 };
    (0..count).map(|number| format!("{writer}/{number}")).collect()
}

/// What a writer's keys have, which is the same; 0 before the first value.
fn read(it: &Remote, writer: usize, large: usize) -> Option<Written> {
    let keys = keys(writer, large);
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let found = it.get_many(&keys).ok()?;
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "a part of a batch: {found:?}");
    let text = found[0].as_ref().map_or("0:0".into(), |value| String::from_utf8_lossy(value).into_owned());
    let (epoch, number) = text.split_once(':').expect("two numbers");
    Some((epoch.parse().expect("a number"), number.parse().expect("a number")))
}

/// What the test `server` does: it is a server, until an error, if the variable is set. One of its
/// writers has `large` keys.
pub fn serve(large: usize, open: impl Fn(&str) -> Option<Remote>) {
    let Ok(address) = std::env::var(SERVER) else { return };
    let it = eventually("there is an answer", || open(&address));
    let owner = match it.recover() {
        Ok(owner) => owner,
        Err(error) => return println!("@ end {:?} {error}", error.outcome()),
    };
    println!("@ epoch {}", owner.epoch);
    let found: Vec<Written> = (0..WRITERS).map_while(|writer| read(&it, writer, large)).collect();
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
                    let changes: Vec<Change> = keys(writer, large).into_iter().map(put).collect();
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
            if let Some((epoch, number)) = read(&it, writer, large) {
                println!("@ saw {writer} {epoch} {number} {began_ns}");
            }
            thread::sleep(Duration::from_millis(3));
        }
    });
}

/// What a server has said.
#[derive(Default, Clone)]
pub struct History {
    pub epoch: u64,
    found: BTreeMap<usize, Written>,
    took: bool,
    tried: [u64; WRITERS],
    /// Numbers, and when.
    acked: [Vec<(u64, u64)>; WRITERS],
    /// What was read, and when the read began.
    seen: [Vec<(Written, u64)>; WRITERS],
    pub end: Option<String>,
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
pub struct Server {
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

    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no panic")
    }

    /// The process is there until its reader has ended, which waits for it.
    pub fn signal(&self, signal: i32) {
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
pub struct Servers {
    address: String,
    pub servers: Vec<Server>,
    /// Histories that are over, and not yet compared with all that must be known.
    over: Vec<History>,
    acked: usize,
}

impl Servers {
    pub fn new(address: String) -> Servers {
        Servers { address, servers: Vec::new(), over: Vec::new(), acked: 0 }
    }

    /// Waits for an owner of a higher epoch, with a server behind it that waits. Returns the owner
    /// of the highest one.
    pub fn owner_after(&mut self, epoch: u64) -> usize {
        eventually("an owner", || {
            while self.servers.iter().filter(|server| server.history().end.is_none()).count() < 3 {
                self.servers.push(Server::start(&self.address));
            }
            let epoch_of = |index: &usize| self.servers[*index].history().epoch;
            let owners = (0..self.servers.len()).filter(|index| self.servers[*index].is_owner());
            owners.max_by_key(epoch_of).filter(|index| epoch_of(index) > epoch)
        })
    }

    pub fn owner(&mut self) -> usize {
        self.owner_after(0)
    }

    pub fn acked(&self) -> usize {
        self.acked + self.servers.iter().map(|server| server.history().acked_count()).sum::<usize>()
    }

    /// Returns when this number of further writes are acknowledged.
    pub fn go_on(&mut self, count: usize) {
        let goal = self.acked() + count;
        while self.acked() < goal {
            self.owner();
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks the histories that are over.
    pub fn check(&mut self) {
        let (ended, living) = self.servers.drain(..).partition(|server| server.history().end.is_some());
        self.servers = living;
        for mut server in ended {
            let _ = server.reader.take().map(JoinHandle::join);
            let history = server.history().clone();
            let end = history.end.as_deref().unwrap_or_default();
            assert!(!end.contains("record is gone"), "{end}");
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

    /// An owner wakes up when another one has the store.
    pub fn replace_stopped(&mut self, owner: usize) {
        self.servers[owner].signal(libc::SIGSTOP);
        let epoch = self.servers[owner].history().epoch;
        self.owner_after(epoch);
        self.go_on(10);
        self.servers[owner].signal(libc::SIGCONT);
        until("it is fenced", || self.servers[owner].history().end.is_some());
    }

    /// An owner stands still for shorter than its lease, or a little longer.
    pub fn stop_for_a_while(&mut self, owner: usize, time: Duration) {
        self.servers[owner].signal(libc::SIGSTOP);
        thread::sleep(time);
        self.servers[owner].signal(libc::SIGCONT);
    }

    /// The last owner ends, and another one finds what it has left.
    pub fn finish(&mut self) {
        let (last, epoch) = (self.owner(), self.servers.iter().map(|it| it.history().epoch).max());
        self.servers[last].signal(libc::SIGKILL);
        self.owner_after(epoch.unwrap_or(0));
        self.check();
    }
}
