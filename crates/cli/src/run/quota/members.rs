//! The threads of a group that run under Manx, and to which CPUs they are kept.
//!
//! Members are the processes of the group, and of the groups below it, that have the library in
//! their memory, are meant by the filters, and are not started with `MANX=off`; and the program
//! itself, which may be one that cannot have the library.
//!
//! A thread inherits the affinity of the thread that creates it. So a thread is bound only if its
//! affinity is the one with which the program was started, or a set to which threads were bound
//! here before. Any other affinity was set by the program or its user, and stays. A set of theirs
//! that is the very same as one of ours cannot be told from it.
//!
//! The helpers of the group are bound as members are, so that the library can tell that an affinity
//! is ours: before all members if CPUs are taken away, and after them if CPUs are given back.

use host::list;
use host::live_file::Mapping;
use manx::cpu::CpuSet;
use platform::{cpu, usage};
use preload_abi::SWITCH_VARIABLE;
use preload_abi::filter::Filters;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of a helper's thread.
pub const HELPER: &CStr = c"manx-quota";

/// After this number of looks, a process that was no member is looked at again: it may have
/// executed another program.
const LOOKS: u32 = 10;
/// The number of sets that are remembered.
const SETS: usize = 64;

/// The members of a group.
#[derive(Debug)]
pub struct Members<'a> {
    folder: PathBuf,
    program: Option<u32>,
    filters: Filters<'a>,
    /// The affinity with which the program was started.
    allowed: CpuSet,
    /// The sets to which threads were bound, the last one last.
    sets: Vec<CpuSet>,
    processes: Vec<Process>,
    looks: u32,
    got_ns: u64,
    slices: u64,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    pid: u32,
    is_member: bool,
    is_helper: bool,
    /// Its CPU time, as it was read last.
    used_ns: u64,
    /// The number of times that its threads came to a CPU, as it was read last.
    slices: u64,
    /// When it was looked at last, as a number of looks.
    look: u32,
}

impl<'a> Members<'a> {
    /// Those of the group with this folder; `program` is one of them, if it is in the group.
    pub fn of(folder: &Path, program: Option<u32>, filters: Filters<'a>, allowed: CpuSet) -> Members<'a> {
        Members {
            folder: folder.into(),
            program,
            filters,
            allowed,
            sets: Vec::new(),
            processes: Vec::new(),
            looks: 0,
            got_ns: 0,
            slices: 0,
        }
    }

    /// Looks for processes that are new or have ended, and reads how much CPU time the members have
    /// used. Returns the number of members.
    pub fn look(&mut self) -> usize {
        self.looks += 1;
        let mut pids = Vec::new();
        read_group(&self.folder, &mut pids);
        let mut now = Vec::with_capacity(pids.len());
        for pid in pids {
            let known = self.processes.iter().copied().find(|it| it.pid == pid);
            let known = known.filter(|it| it.is_member || self.looks - it.look < LOOKS);
            let used_ns = usage::process_cpu_ns_of(pid).unwrap_or(0);
            let mut process = known.unwrap_or_else(|| {
                let is_helper = is_helper(pid);
                let is_member = !is_helper && self.is_member(pid);
                let slices = if is_member { slices(pid) } else { 0 };
                Process { pid, is_member, is_helper, used_ns, slices, look: self.looks }
            });
            if process.is_member {
                let slices = slices(pid);
                // Threads that have ended are not counted any more.
                self.slices += slices.saturating_sub(process.slices);
                process.slices = slices;
                self.got_ns += used_ns.saturating_sub(process.used_ns);
                process.used_ns = used_ns;
            }
            now.push(process);
        }
        self.processes = now;
        self.processes.iter().filter(|it| it.is_member).count()
    }

    /// The CPU time that members have used between two looks, summed up since the first look.
    pub fn got_ns(&self) -> u64 {
        self.got_ns
    }

    /// The number of times that threads of members came to a CPU, summed up since the first look.
    pub fn slices(&self) -> u64 {
        self.slices
    }

    /// The number of mappings of files with code in the memory of all members.
    pub fn code(&self) -> u64 {
        let of = |process: &Process| {
            let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap_or_default();
            maps.lines().filter(|line| line.contains(" r-xp ") && line.contains('/')).count() as u64
        };
        self.processes.iter().filter(|it| it.is_member).map(of).sum()
    }

    /// Binds the threads of all members to these CPUs.
    pub fn bind(&mut self, cpus: &CpuSet) {
        if *cpus != self.allowed && !self.sets.contains(cpus) {
            if self.sets.len() == SETS {
                self.sets.remove(0);
            }
            self.sets.push(cpus.clone());
        }
        // This process is the helper that acts, and was always bound last.
        let are_fewer = cpus.len() < CpuSet::of_this_thread().len();
        for is_helper in [are_fewer, !are_fewer] {
            let chosen = |it: &&Process| if is_helper { it.is_helper } else { it.is_member };
            let tids = self.processes.iter().filter(chosen).flat_map(|it| list::tids(it.pid));
            tids.for_each(|tid| self.bind_thread(tid, cpus));
        }
    }

    fn bind_thread(&self, tid: u32, cpus: &CpuSet) {
        let Ok(now) = cpu::allowed_of(tid) else { return };
        let now = CpuSet::from_words(now);
        if now != *cpus && (now == self.allowed || self.sets.contains(&now)) {
            // A thread that has ended needs no CPU; one of another user stays where it is.
            let _ = cpu::bind_other(tid, cpus.words());
        }
    }

    /// Lets the threads of all members run where they could before.
    pub fn release(&mut self) {
        let allowed = self.allowed.clone();
        self.bind(&allowed);
    }

    /// The program has ended, and its number may become another process's.
    pub fn forget_program(&mut self) {
        self.program = None;
    }

    fn is_member(&self, pid: u32) -> bool {
        if self.program == Some(pid) {
            return true;
        }
        Mapping::of(pid).is_ok_and(|it| it.has_library) && !is_switched_off(pid) && self.is_meant(pid)
    }

    fn is_meant(&self, pid: u32) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
        let called = first.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let file = file.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
        self.filters.executable(&[file, called])
    }
}

/// The number of times that the threads of a process have come to a CPU.
fn slices(pid: u32) -> u64 {
    let of = |tid| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        text.split_whitespace().nth(2)?.parse::<u64>().ok()
    };
    list::tids(pid).filter_map(of).sum()
}

fn is_helper(pid: u32) -> bool {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.strip_suffix(b"\n") == Some(HELPER.to_bytes())
}

fn is_switched_off(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let off = format!("{SWITCH_VARIABLE}=off");
    environment.split(|&byte| byte == 0).any(|variable| variable == off.as_bytes())
}

/// The processes of a group and of the groups below it.
fn read_group(folder: &Path, into: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    // A process of another namespace is 0.
    into.extend(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid: &u32| pid != 0));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            read_group(&entry.path(), into);
        }
    }
}
