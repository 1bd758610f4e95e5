//! Which part of their CPU time other processes spend in loops that wait.
//!
//! A neighbour may be another copy of the same program: two training jobs, two workers. If it burns
//! its CPU time in loops that wait, then it is busy waiting of both copies that makes both slow,
//! and the same remedy cures both.
//!
//! A [`MachineSampler`](super::sampler::MachineSampler) samples all processes anyway. On a machine
//! with many CPUs only some of the others' samples are kept. The code of the processes that ran
//! most is searched as that of a watched one; samples of the others count as work.

use super::code::CodeBook;
use super::modules::Modules;
use super::sampler::Samplers;
use platform::perf::Sample;
use procfs::process::Process;
use std::cmp::Reverse;
use std::collections::HashMap;

/// On this number of CPUs each sample is kept; on twice as many, each second one.
const CPUS_OF_ALL: usize = 4;
/// How many processes are told apart.
const PROCESSES_MAX: usize = 64;
/// After this number of samples it is asked where a process has its code.
const SAMPLES_BEFORE_CODE: u32 = 8;
/// The maximum number of processes whose code is searched.
const SEARCHED_MAX: usize = 4;
/// The code of a process with fewer samples is not searched.
const SAMPLES_MIN: u32 = 20;
/// If other processes spend less than this part of their CPU time in loops, the report is silent
/// about it.
pub const WORTH_A_WORD: f64 = 0.05;

/// The samples of processes that are not watched.
#[derive(Debug)]
pub struct Others {
    own: u32,
    stride: usize,
    passed: usize,
    processes: HashMap<u32, Other>,
}

#[derive(Debug)]
struct Other {
    count: u32,
    modules: Option<Modules>,
    samplers: Samplers,
}

impl Others {
    /// None yet, on a machine with this number of CPUs.
    pub fn new(cpus: usize) -> Others {
        let stride = cpus.div_ceil(CPUS_OF_ALL).max(1);
        Others { own: std::process::id(), stride, passed: 0, processes: HashMap::new() }
    }

    /// Keeps a sample, or leaves it out.
    pub fn add(&mut self, sample: Sample<'_>) {
        self.passed += 1;
        let is_known = self.processes.contains_key(&sample.process);
        let has_room = is_known || self.processes.len() < PROCESSES_MAX;
        if sample.process == self.own || !has_room || !self.passed.is_multiple_of(self.stride) {
            return;
        }
        let none = || Other { count: 0, modules: None, samplers: Samplers::of_machine() };
        let other = self.processes.entry(sample.process).or_insert_with(none);
        other.count += 1;
        if other.count == SAMPLES_BEFORE_CODE {
            let process = Process::new(sample.process.cast_signed()).ok();
            other.modules = process.map(|process| Modules::of(&process));
            other.samplers.set_code(other.modules.as_ref().map_or(vec![], Modules::code));
        }
        other.samplers.add(sample);
    }

    /// How many samples each process has, and how many of them lie in loops that wait.
    pub fn finish(self) -> HashMap<i32, (u32, u32)> {
        let mut processes: Vec<(u32, Other)> = self.processes.into_iter().collect();
        processes.sort_by_key(|(pid, other)| (Reverse(other.count), *pid));
        let mut left = SEARCHED_MAX;
        let waiting = |other: Other, left: &mut usize| {
            let modules = other.modules.filter(|_| *left > 0 && other.count >= SAMPLES_MIN)?;
            *left -= 1;
            let places = CodeBook::new(modules).places(other.samplers.samples());
            Some(places.iter().filter(|place| place.waits.is_some()).map(|place| place.samples).sum())
        };
        let of = |(pid, other): (u32, Other)| {
            let count = other.count;
            (pid.cast_signed(), (count, waiting(other, &mut left).unwrap_or(0)))
        };
        processes.into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_many_cpus_some_samples_are_kept_and_none_of_the_doctor() {
        let mut others = Others::new(2 * CPUS_OF_ALL);
        let sample = |process| Sample { address: 8, process, thread: 1, in_kernel: false, stack: &[] };
        for _ in 0..10 {
            others.add(sample(u32::MAX));
        }
        (0..10).for_each(|_| others.add(sample(std::process::id())));
        assert_eq!(others.finish(), HashMap::from([(-1, (5, 0))]));
    }

    #[test]
    fn no_more_processes_are_told_apart_than_there_is_room_for() {
        let mut others = Others::new(1);
        let sample = |process| Sample { address: 8, process, thread: 1, in_kernel: false, stack: &[] };
        (0..=PROCESSES_MAX as u32).for_each(|at| others.add(sample(u32::MAX - at)));
        others.add(sample(u32::MAX));
        let counts = others.finish();
        assert_eq!((counts.len(), counts[&-1]), (PROCESSES_MAX, (2, 0)));
    }
}
