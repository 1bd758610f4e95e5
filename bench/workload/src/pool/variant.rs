//! A version of a case: which processes run at once, in which groups, and one run of them.

use super::group::{Group, Hierarchy, Limits};
use super::kind::Kind;
use super::leader;
use super::sample::sample;
use super::spec::{Crowd, Load, Lock, Process, Shape, Task};
use crate::error::Error;
use crate::harness::Sample;
use std::path::{Path, PathBuf};

/// A version of a case.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in tables
    pub name: String,
    /// The processes
    pub processes: Vec<Process>,
    /// The groups to make
    pub groups: Vec<Limits>,
    /// The index of each process's group; empty without groups
    pub places: Vec<usize>,
    /// The first and the second process have figures of their own
    pub apart: bool,
}

/// Where and how variants run.
#[derive(Clone, Debug)]
pub struct Stage {
    /// This command
    pub own: PathBuf,
    /// Where groups are made
    pub hierarchy: Result<Hierarchy, String>,
    /// A session for each process
    pub sessions: bool,
    /// CPUs that may be used
    pub cpus: usize,
}

/// A process that does `task` with a pool of a kind.
pub fn process(kind: Kind, threads: usize, task: Task) -> Process {
    Process {
        kind,
        shape: Shape { threads, ..Shape::default() },
        lock: Lock::None,
        task,
        groups: Vec::new(),
        program: Vec::new(),
        environment: Default::default(),
    }
}

impl Variant {
    /// These processes, in no groups of their own.
    pub fn of(name: impl Into<String>, processes: Vec<Process>) -> Variant {
        Variant { name: name.into(), processes, groups: Vec::new(), places: Vec::new(), apart: false }
    }

    /// All processes in one group of these limits.
    pub fn within(mut self, limits: Limits) -> Variant {
        self.places = vec![0; self.processes.len()];
        self.groups = vec![limits];
        self
    }

    /// Each process in a group of its own, of the same limits.
    pub fn within_each(mut self, limits: Limits) -> Variant {
        self.places = (0..self.processes.len()).collect();
        self.groups = vec![limits; self.processes.len()];
        self
    }

    /// The first and the second process have figures of their own.
    pub fn told_apart(self) -> Variant {
        Variant { apart: true, ..self }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// If a group cannot be made, a process fails, or the user interrupts.
    pub fn run(&self, stage: &Stage) -> Result<Sample, Error> {
        let groups = self.make(stage.hierarchy.as_ref())?;
        let mut processes = self.processes.clone();
        for (process, &place) in processes.iter_mut().zip(&self.places) {
            process.groups = groups[place].folders();
        }
        let crowd = Crowd { processes, sessions: stage.sessions };
        let outcomes = leader::run(Path::new(&stage.own), &crowd).map_err(|error| match error {
            Error::Failed { what, stderr } => {
                Error::Failed { what: format!("{}: {what}", self.name), stderr }
            }
            other => other,
        })?;
        let throttled = groups.iter().filter_map(Group::throttled).reduce(f64::max);
        Ok(sample(self.load(), self.apart, stage.cpus, &outcomes, throttled))
    }

    fn make(&self, hierarchy: Result<&Hierarchy, &String>) -> Result<Vec<Group>, Error> {
        let help = "control groups could be made when the bench began";
        if self.groups.is_empty() {
            return Ok(Vec::new());
        }
        let hierarchy = hierarchy.map_err(|why| Error::request(why, help))?;
        let make = |(at, limits): (usize, &Limits)| hierarchy.make(&at.to_string(), *limits);
        let made: Result<Vec<Group>, String> = self.groups.iter().enumerate().map(make).collect();
        made.map_err(|why| Error::request(why, help))
    }

    /// The load of the process that serves first; `None` if no process serves.
    fn load(&self) -> Option<&Load> {
        self.processes.iter().find_map(|process| match &process.task {
            Task::Serve(load) => Some(load),
            _ => None,
        })
    }
}
