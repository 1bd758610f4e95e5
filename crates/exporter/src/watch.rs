//! Looks at the processes of a host once a second, at a bounded cost.
//!
//! A pass lists the processes, if there is a new one. Then it looks at them in rotation until all
//! had their turn or the CPU time of the pass is used up. The next pass goes on from there. All
//! that is read is counted since some beginning, so a look that comes late loses nothing: it only
//! tells later. The first pass has no limit, so that no old process is found late and seems to have
//! done all its work at once.
//!
//! | what is read | how | cost |
//! | --- | --- | --- |
//! | CPU time of all its threads | the clock of the process | 0.4 µs |
//! | run-queue delay | `schedstat` of each thread | 1 µs a thread if it is open, 6 µs otherwise |
//! | the program | the link `exe` | 2 µs |
//! | its mappings | `maps` | 1 µs a mapping |
//!
//! A process that used no CPU time since the last look has not run: then its delays and its counts
//! are as they were, and nothing else is read.
//!
//! **A flood of processes.** A new process is looked at in the pass after the one that lists it, so
//! one that lives less than a second costs a number in a table. The numbers of processes, files,
//! programs, locks and groups are bounded ([`PROCESSES_MAX`], [`FILES_MAX`], [`crate::registry`],
//! [`host::groups`]).
//!
//! **Shared files.** The children of a process that forks count into its live file. So a file is
//! read once in a pass, whichever of its processes ran, and for the last time when the last of them
//! has ended.

use crate::counts::CountedFile;
use crate::process;
use crate::registry::{Counter, Limits, Registry, Slot, Totals};
use doctor::watch::affinity_of;
use host::groups::{Ages, Groups, Membership};
use host::image::Image;
use host::list::pids;
use host::live_file::{FileId, Mapping};
use host::reader::Room;
use host::threads::{self, Threads, Turn};
use platform::clock::{now_ns, thread_cpu_ns};
use platform::usage::process_cpu_ns_of;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

/// The most processes that are watched.
pub const PROCESSES_MAX: usize = 20_000;
/// The most live files that are read.
pub const FILES_MAX: usize = 2_000;
/// The most descriptors that stay open for the threads of processes.
const THREAD_FILES_MAX: usize = 4_096;
/// Descriptors for all else: sockets, and what is opened for a moment.
const DESCRIPTORS: usize = 256;
/// How old a reading of a control group may be, in seconds.
const GROUP_S: u64 = 5;
/// How often it is asked of a process that runs whether it is still the same program, in seconds.
const CHECK_S: u64 = 10;

/// Which processes are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that `/proc` lists.
    Host,
    /// A process, and all that it starts.
    Tree(u32),
}

/// A process that is watched.
#[derive(Debug)]
pub struct Process {
    /// The entry of its program.
    pub slot: Slot,
    name: String,
    /// Whether it runs under Manx.
    pub is_guarded: bool,
    /// Its live file.
    pub file: Option<FileId>,
    /// The number of CPUs that it may use.
    pub budget: Option<f64>,
    cpu_ns: u64,
    /// The number of its threads.
    pub threads: u32,
    delays: Threads,
    groups: Membership,
    looked_s: u64,
    checked_s: u64,
}

#[derive(Debug)]
enum Entry {
    /// Listed first by the pass of this number, and not looked at yet.
    Young(u64),
    /// A thread of the kernel.
    Ignored,
    Watched(Box<Process>),
}

/// A live file, and the processes that map it.
#[derive(Debug)]
struct Source {
    file: CountedFile,
    slot: Slot,
    references: usize,
    pass: u64,
}

/// What is known of the watched processes.
#[derive(Debug)]
pub struct Watch {
    scope: Scope,
    own_program: Option<PathBuf>,
    /// All listed processes, and the pass that listed them last.
    entries: HashMap<u32, (Entry, u64)>,
    rotation: VecDeque<u32>,
    sources: HashMap<FileId, Source>,
    groups: Groups,
    registry: Registry,
    image: Image,
    began_ns: u64,
    passes: u64,
    left_out: u64,
    /// The descriptors for threads.
    room: Room,
    /// The last process number that the kernel had given at the last list.
    last_pid: Option<u64>,
}

impl Watch {
    /// Watches nothing yet; the first [`Watch::pass`] does.
    pub fn new(scope: Scope, limits: Limits) -> Watch {
        Watch {
            scope,
            own_program: std::fs::read_link("/proc/self/exe").ok(),
            entries: HashMap::new(),
            rotation: VecDeque::new(),
            sources: HashMap::new(),
            groups: Groups::new(Ages { quota_s: GROUP_S, other_s: GROUP_S }),
            registry: Registry::new(limits),
            image: Image::default(),
            began_ns: now_ns(),
            passes: 0,
            left_out: 0,
            room: Room::beside(FILES_MAX + DESCRIPTORS, THREAD_FILES_MAX),
            last_pid: None,
        }
    }

    /// Looks at processes until all had their turn, or this thread has used `cpu_ns_max`
    /// nanoseconds of CPU time. The first pass of a host has no limit.
    ///
    /// ```
    /// use exporter::registry::Limits;
    /// use exporter::watch::{Scope, Watch};
    ///
    /// let mut watch = Watch::new(Scope::Tree(std::process::id()), Limits::default());
    /// watch.pass(4_000_000);
    /// ```
    pub fn pass(&mut self, cpu_ns_max: u64) {
        self.passes += 1;
        let end_ns = match (self.scope, self.passes) {
            (Scope::Host, 1) => u64::MAX,
            _ => thread_cpu_ns().saturating_add(cpu_ns_max),
        };
        let now_s = self.now_s();
        self.groups.set_pauses(self.passes > 1);
        self.list_if_new(now_s);
        for turn in 1..=self.rotation.len() {
            let Some(pid) = self.rotation.pop_front() else { break };
            if self.look(pid, now_s) {
                self.rotation.push_back(pid);
            }
            // A clock costs little beside a look.
            if turn % 2 == 0 && thread_cpu_ns() > end_ns {
                break;
            }
        }
        self.groups.look(now_s, || thread_cpu_ns() < end_ns);
    }

    fn now_s(&self) -> u64 {
        (now_ns() - self.began_ns) / 1_000_000_000
    }

    /// Lists the processes unless there is surely no new one: a list of a thousand processes costs
    /// as much as a look at hundreds. What has ended is seen without a list.
    fn list_if_new(&mut self, now_s: u64) {
        let last_pid = if self.scope == Scope::Host { last_pid() } else { None };
        if self.last_pid.is_none() || last_pid != self.last_pid {
            self.list(now_s);
        }
        self.last_pid = last_pid;
    }

    /// Brings the table in line with the processes that there are.
    fn list(&mut self, now_s: u64) {
        self.left_out = 0;
        let pids = match self.scope {
            Scope::Host => pids().collect(),
            Scope::Tree(root) => self.tree(root),
        };
        for pid in pids {
            if let Some((_, listed)) = self.entries.get_mut(&pid) {
                *listed = self.passes;
            } else if self.entries.len() < PROCESSES_MAX {
                self.entries.insert(pid, (Entry::Young(self.passes), self.passes));
                self.rotation.push_back(pid);
            } else {
                self.left_out += 1;
            }
        }
        let passes = self.passes;
        let gone = self.entries.iter().filter(|(_, (_, listed))| *listed < passes);
        let gone: Vec<u32> = gone.map(|(pid, _)| *pid).collect();
        if gone.is_empty() {
            return;
        }
        for pid in gone {
            if let Some((Entry::Watched(process), _)) = self.entries.remove(&pid) {
                self.end(*process, now_s);
            }
        }
        self.rotation.retain(|pid| self.entries.contains_key(pid));
    }

    /// The process with all below it, and those that were below it and have lost their parents.
    fn tree(&self, root: u32) -> Vec<u32> {
        let mut found = vec![root];
        let mut known: HashSet<u32> = HashSet::from([root]);
        for &pid in self.entries.keys().filter(|pid| process_cpu_ns_of(**pid).is_some()) {
            if known.insert(pid) {
                found.push(pid);
            }
        }
        let mut at = 0;
        while at < found.len() && found.len() < PROCESSES_MAX {
            for child in process::children(found[at]) {
                if known.insert(child) {
                    found.push(child);
                }
            }
            at += 1;
        }
        found.retain(|pid| process_cpu_ns_of(*pid).is_some());
        found
    }

    /// Looks at a process; returns whether it stays in the rotation.
    fn look(&mut self, pid: u32, now_s: u64) -> bool {
        let Some((entry, listed)) = self.entries.remove(&pid) else { return false };
        let entry = match entry {
            Entry::Ignored => Entry::Ignored,
            // All that the first list has were there before.
            Entry::Young(listed) if self.scope == Scope::Host && listed == self.passes && listed > 1 => {
                Entry::Young(listed)
            }
            Entry::Young(_) => self.begin(pid, now_s),
            Entry::Watched(process) => match self.again(pid, process, now_s) {
                Some(entry) => entry,
                None => return false,
            },
        };
        let stays = !matches!(entry, Entry::Ignored);
        self.entries.insert(pid, (entry, listed));
        stays
    }

    /// Looks at a process for the first time.
    fn begin(&mut self, pid: u32, now_s: u64) -> Entry {
        let Some((name, path)) = process::runs(pid) else {
            return if self.scope == Scope::Host { Entry::Ignored } else { Entry::Young(self.passes) };
        };
        // The launcher, which has not become the program yet.
        if self.scope != Scope::Host && path.is_some() && path == self.own_program {
            return Entry::Young(self.passes);
        }
        let mapping = Mapping::of(pid).ok();
        let is_guarded = mapping.as_ref().is_some_and(|mapping| mapping.has_library);
        let slot = self.registry.enter(&name, is_guarded, now_s);
        let process = Process {
            slot,
            name,
            is_guarded,
            file: None,
            budget: None,
            cpu_ns: 0,
            threads: 0,
            delays: Threads::default(),
            groups: None,
            looked_s: now_s,
            checked_s: now_s,
        };
        let mut process = Box::new(process);
        self.attach(&mut process, mapping);
        self.find_budget(pid, &mut process, now_s);
        // One that has ended since leaves nothing.
        self.again(pid, process, now_s).unwrap_or(Entry::Ignored)
    }

    /// Looks at a process that is known; none if it has ended.
    fn again(&mut self, pid: u32, mut process: Box<Process>, now_s: u64) -> Option<Entry> {
        process.looked_s = now_s;
        let Some(cpu_ns) = process_cpu_ns_of(pid) else {
            self.end(*process, now_s);
            return None;
        };
        if cpu_ns == process.cpu_ns && cpu_ns > 0 {
            return Some(Entry::Watched(process));
        }
        let is_old = now_s - process.checked_s >= CHECK_S || self.scope != Scope::Host;
        if cpu_ns < process.cpu_ns || (is_old && !self.is_same(pid, &process)) {
            self.end(*process, now_s);
            return Some(self.begin(pid, now_s));
        }
        let turn = Turn { pass: self.passes, now_ns: now_ns(), every: 1, room: &self.room };
        let sum = process.delays.look(pid, threads::count(pid), true, &turn).unwrap_or_default();
        let mut more = Totals::default();
        more.add(Counter::Cpu, cpu_ns - process.cpu_ns);
        more.add(Counter::RunDelay, sum.waited_ns);
        self.registry.add(process.slot, &more);
        // A live file is made when the first thread is created.
        if process.is_guarded && process.file.is_none() && (sum.known > process.threads || is_old) {
            self.attach(&mut process, Mapping::of(pid).ok());
        }
        if is_old {
            process.checked_s = now_s;
            self.find_budget(pid, &mut process, now_s);
        }
        (process.cpu_ns, process.threads) = (cpu_ns, sum.known);
        if let Some(source) = process.file.and_then(|id| self.sources.get_mut(&id))
            && source.pass != self.passes
        {
            source.pass = self.passes;
            // What cannot be read now may be read next time.
            let _ = source.file.read(&mut self.image, &mut self.registry, source.slot, false);
        }
        Some(Entry::Watched(process))
    }

    /// Whether the process still runs the program that it ran.
    fn is_same(&self, pid: u32, process: &Process) -> bool {
        process::runs(pid).is_some_and(|(name, _)| name == process.name)
    }

    /// Counts what the live file of a process counts, if it has one.
    fn attach(&mut self, process: &mut Process, mapping: Option<Mapping>) {
        let Some(file) = mapping.filter(|mapping| mapping.has_library).and_then(|it| it.file) else { return };
        let id = file.id;
        if let Some(source) = self.sources.get_mut(&id) {
            source.references += 1;
        } else if self.sources.len() < FILES_MAX {
            self.registry.hold(process.slot);
            let file = CountedFile::new(file.file);
            self.sources.insert(id, Source { file, slot: process.slot, references: 1, pass: 0 });
        } else {
            return;
        }
        process.file = Some(id);
    }

    fn find_budget(&mut self, pid: u32, process: &mut Process, now_s: u64) {
        self.groups.follow(&mut process.groups, pid, now_s);
        let affinity = affinity_of(pid as i32);
        process.budget = self.groups.budget(&process.groups, affinity, now_s);
    }

    /// A process has ended, or has become another program. What its file counted last is added.
    fn end(&mut self, mut process: Process, now_s: u64) {
        self.groups.leave(&mut process.groups, now_s);
        if let Some(id) = process.file
            && let Some(source) = self.sources.get_mut(&id)
        {
            source.references -= 1;
            if source.references == 0 {
                let _ = source.file.read(&mut self.image, &mut self.registry, source.slot, true);
                let slot = source.slot;
                self.sources.remove(&id);
                self.registry.leave(slot, now_s);
            }
        }
        self.registry.leave(process.slot, now_s);
    }

    /// All watched processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.entries.values().filter_map(|(entry, _)| match entry {
            Entry::Watched(process) => Some(&**process),
            Entry::Young(_) | Entry::Ignored => None,
        })
    }

    /// Each live file, with its program.
    pub fn files(&self) -> impl Iterator<Item = (Slot, &CountedFile)> {
        self.sources.values().map(|source| (source.slot, &source.file))
    }

    /// The sums.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// How many processes there were in the last list beyond those that are watched.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How long ago the process was looked at that waits longest for its turn, in seconds.
    pub fn age_s(&self) -> u64 {
        let now_s = self.now_s();
        self.processes().map(|process| now_s.saturating_sub(process.looked_s)).max().unwrap_or(0)
    }

    /// The number of passes so far.
    pub fn passes(&self) -> u64 {
        self.passes
    }
}

/// The last number that the kernel gave to a process or a thread.
fn last_pid() -> Option<u64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}
