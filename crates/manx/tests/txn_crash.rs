//! Death at any moment: a process that applies transfers and says which are done is killed
//! (SIGKILL), by its parent at a random moment or by itself at a named point; what it left is
//! opened by the next one. What it said is done is there, each batch whole, each thread's in order.
//!
//! The points are operations on files, for which the store needs no hooks: the child's store runs
//! on a disk ([`Wrapped`]) that is the real folder until a certain operation of a certain kind, and
//! there kills the process before it, in its middle (a part of a write is done), or after it. A
//! killed process' writes stay in the kernel; for the loss of power see `txn_power.rs`.
//!
//! Some rounds each are on one folder, so that a child goes on where the one before it died.
//! `MANX_CRASH_ROUNDS` sets how many there are, and a failure prints the seed for
//! `MANX_CRASH_SEED`; the moments at which a parent kills are the machine's all the same.

#[path = "common/transfers.rs"]
mod transfers;
#[path = "common/wrapped.rs"]
mod wrapped;

use fastrand::Rng;
use manx::txn::durable::{Disk, Durable, DurableOptions, Folder, Medium};
use manx::txn::{Batch, Change, Data};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use testing::setting;
use transfers::Model;
use wrapped::{Fault, Wrapped};

const THREADS: u64 = 4;
/// A log that is full after some tens of groups.
const SHORT: DurableOptions = DurableOptions::new().log_bytes(8 << 10).cache_bytes(1 << 20);
/// Some groups are longer than the log.
const FILLING: (u64, usize) = (200, 9_000);

/// What a child gets: the folder, and where to die.
const FOLDER: &str = "MANX_CRASH_FOLDER";
const POINT: &str = "MANX_CRASH_POINT";

/// Where a child dies: at the `left`th operation of this kind on a file of this name.
#[derive(Debug)]
struct Point {
    file: String,
    kind: String,
    when: String,
    left: AtomicI64,
}

/// The files whose operations are points.
const FILES: [&str; 4] = ["data.redb", "log", "log2", "MANX"];
const KINDS: [&str; 3] = ["write", "sync", "length"];
const WHENS: [&str; 3] = ["before", "within", "after"];

impl Point {
    /// From words such as `log write within 17`.
    fn parse(text: &str) -> Point {
        let mut words = text.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("four words");
        let (file, kind, when) = (word(), word(), word());
        Point { file, kind, when, left: AtomicI64::new(word().parse().expect("a number")) }
    }

    /// Does an operation, unless this is where to die.
    fn pass(
        &self,
        file: &str,
        kind: &str,
        part: impl FnOnce(),
        whole: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let here = self.file == file && self.kind == kind && self.left.fetch_sub(1, SeqCst) == 0;
        if here && self.when == "before" {
            die();
        }
        if here && self.when == "within" {
            part();
            die();
        }
        let result = whole();
        if here {
            die();
        }
        result
    }
}

fn die() -> ! {
    // SAFETY: a signal to this process, which ends it.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// A folder, until the point is reached.
impl Fault for Point {
    fn write(&self, name: &str, file: &dyn Medium, bytes: &[u8], offset: u64) -> io::Result<()> {
        let part = || drop(file.write(&bytes[..bytes.len() / 2], offset));
        self.pass(name, "write", part, || file.write(bytes, offset))
    }

    fn set_length(&self, name: &str, file: &dyn Medium, bytes: u64) -> io::Result<()> {
        self.pass(name, "length", || (), || file.set_length(bytes))
    }

    fn sync(&self, name: &str, file: &dyn Medium) -> io::Result<()> {
        self.pass(name, "sync", || (), || file.sync())
    }
}

/// What a child does until it is killed: transfers, and a line on standard error for each that is
/// done. Nothing, unless it is a child.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let disk = Folder::open(Path::new(&folder)).expect("taken");
    let disk: Box<dyn Disk> = match std::env::var(POINT) {
        Ok(point) => Box::new(Wrapped(disk, Arc::new(Point::parse(&point)))),
        Err(_) => Box::new(disk),
    };
    let store = &Durable::open_on(disk, SHORT).expect("opened");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut model = Model::new(thread, FILLING);
                model.follow(store);
                loop {
                    // Without a sync as well: what was written before a kill is kept by the kernel.
                    let sync = !model.transfers.is_multiple_of(3);
                    store.apply(Batch::new(&model.transfer(), sync)).expect("applied");
                    let line = format!("done {thread} {}\n", model.transfers);
                    // One short write into a pipe is whole.
                    let written = io::stderr().write(line.as_bytes()).expect("the parent reads");
                    assert_eq!(written, line.len());
                    if thread == 0 && model.transfers.is_multiple_of(50) {
                        store.checkpoint().expect("made");
                    }
                }
            });
        }
    });
}

fn spawn(folder: &Path, point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env_remove("RUST_TEST_THREADS");
    match point {
        Some(point) => command.env(POINT, point),
        None => command.env_remove(POINT),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("started")
}

/// Reads what a child says until it is dead: the last transfer of each thread that is done. Calls
/// `first` when there is something.
fn read(child: &mut Child, acknowledged: &mut [u64], first: impl FnOnce()) {
    let mut first = Some(first);
    let mut text = String::new();
    for line in BufReader::new(child.stderr.take().expect("piped")).lines() {
        let line = line.expect("read");
        first.take().into_iter().for_each(|first| first());
        text.push_str(&line);
        text.push('\n');
        if let ["done", thread, transfer] = line.split(' ').collect::<Vec<_>>()[..] {
            acknowledged[thread.parse::<usize>().expect("a thread")] = transfer.parse().expect("a number");
        }
    }
    assert!(text.lines().all(|line| line.starts_with("done ")), "the child said: {text}");
}

/// When a child is killed that does not do it itself.
#[derive(Clone, Copy, Debug)]
enum Moment {
    AfterStart(Duration),
    AfterFirst(Duration),
}

/// A child that says nothing for this time hangs.
const SILENT: Duration = Duration::from_secs(20);

/// Runs a child until it is dead; compares what it left with what it said.
fn round(folder: &Path, models: &mut [Model], point: Option<&str>, moment: Moment) {
    let mut child = spawn(folder, point);
    let (first, said) = mpsc::channel();
    let killer = std::thread::spawn({
        let pid = child.id() as i32;
        move || {
            match moment {
                Moment::AfterStart(time) => std::thread::sleep(time),
                // An error: it is dead, and said nothing; or it says nothing for much too long.
                Moment::AfterFirst(time) => {
                    let _ = said.recv_timeout(SILENT).map(|()| std::thread::sleep(time));
                }
            }
            // SAFETY: a signal to a child that was not waited for yet, so that its number is its
            // own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let mut acknowledged: Vec<_> = models.iter().map(|model| model.transfers).collect();
    read(&mut child, &mut acknowledged, move || {
        // A killer with a moment of its own does not listen.
        let _ = first.send(());
    });
    killer.join().expect("no panic");
    let status = child.wait().expect("waited for");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "it ended in another way: {status}");
    let store = Durable::open(folder, SHORT).unwrap_or_else(|error| panic!("{error}"));
    for (model, acknowledged) in models.iter_mut().zip(acknowledged) {
        // One transfer more may be there for each thread: the transfer that it was in.
        model.find(&store, acknowledged, acknowledged + 1).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// The number of rounds on one folder.
const LIVES: u64 = 10;

fn rounds(seed: u64, count: u64, pointed: bool) {
    let mut random = Rng::with_seed(seed);
    let mut transfers = 0;
    for first in (0..count).step_by(LIVES as usize) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut models: Vec<_> = (0..THREADS).map(|thread| Model::new(thread, FILLING)).collect();
        for number in first..count.min(first + LIVES) {
            let point = pointed.then(|| {
                // The first one of a folder dies while the store is made; all operations of that
                // are among these.
                let (files, operations) = if number == first { (4, 8) } else { (3, 60) };
                let (file, kind) = (FILES[random.u64(..files) as usize], KINDS[random.u64(..3) as usize]);
                format!("{file} {kind} {} {}", WHENS[random.u64(..3) as usize], random.u64(..operations))
            });
            // A point that is not reached in this time is as good as a random moment.
            let moment = match random.u64(..4) {
                0 if !pointed => Moment::AfterStart(Duration::from_micros(random.u64(..40_000))),
                _ => Moment::AfterFirst(Duration::from_micros(random.u64(..40_000))),
            };
            let run = || round(folder.path(), &mut models, point.as_deref(), moment);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                eprintln!("round {number} of MANX_CRASH_SEED={seed}, point {point:?}");
                resume_unwind(panic);
            }
        }
        transfers += models.iter().map(|model| model.transfers).sum::<u64>();
    }
    assert!(transfers > count, "only {transfers} transfers in {count} rounds: nothing was tried");
    println!("{count} rounds, {transfers} transfers");
}

#[test]
fn killed_at_random_moments_it_loses_nothing() {
    rounds(setting("MANX_CRASH_SEED", 1), setting("MANX_CRASH_ROUNDS", 150).div_ceil(2), false);
}

#[test]
fn killed_at_points_it_loses_nothing() {
    rounds(setting("MANX_CRASH_SEED", 1), setting("MANX_CRASH_ROUNDS", 150).div_ceil(2), true);
}

/// The checker itself: a loss, a torn batch and a change of order are seen.
#[test]
fn a_lost_or_torn_group_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Durable::open(folder.path(), SHORT).expect("made");
    let first = Model::new(0, FILLING).transfer();
    store.apply(Batch::new(&first, true)).expect("applied");
    let sees = |acknowledged, begun| Model::new(0, FILLING).find(&store, acknowledged, begun).is_err();
    assert!(!sees(1, 1));
    assert!(sees(2, 2), "a loss");
    assert!(sees(0, 0), "one that nobody began");
    let Change::Put { key, .. } = &first[0] else { panic!("a put") };
    let other = Change::Put { key: key.clone(), value: 1_000_000i64.to_le_bytes().into() };
    store.apply(Batch::new(&[other], true)).expect("applied");
    assert!(sees(1, 1), "a torn batch");
}
