//! What the parts of the experiment have in common: the settings, and how a case is measured.

use super::judge;
use super::part::Part;
use super::peers::{Peers, Variant};
use super::records::Kind;
use crate::child;
use crate::engine::{Compiler, Libraries, Load};
use crate::error::Error;
use crate::harness::{Bench, Case};
use report::Report;
use std::path::PathBuf;

/// The mean think time of the paper's workload, which stands for the network.
pub(super) const THINK_US: f64 = 300.0;
/// The number of boosted threads, as in the paper.
pub(super) const BOOST: usize = 4;
/// The default numbers of threads of the update workload, as in the paper's figure 4.
pub const THREADS: [usize; 4] = [8, 20, 40, 80];

/// The settings of the experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// What compiles the drivers
    pub compiler: Compiler,
    /// Which WiredTiger
    pub libraries: Libraries,
    /// The command that starts programs
    pub manx: PathBuf,
    /// This command, which some measured processes are
    pub own: PathBuf,
    /// A smoke check
    pub quick: bool,
    /// Measured time of a run, in seconds
    pub seconds: f64,
    /// Threads of the update workload
    pub threads: Vec<usize>,
    /// Threads of YCSB's workloads
    pub ycsb_threads: Vec<usize>,
    /// Workloads of YCSB, by their letters
    pub workloads: Vec<String>,
    /// How keys are drawn, if not as a workload says
    pub keys: Option<Kind>,
    /// The size of a value
    pub value_bytes: usize,
    /// The CPUs to run on, as a list
    pub cpus: String,
}

impl Setup {
    /// Whether YCSB's workloads are also run with some of `threads` threads boosted: they wait for
    /// a CPU then.
    pub(super) fn boosts(&self, threads: usize) -> bool {
        !self.quick && threads > self.cpus.split(',').count()
    }
}

/// The plan of an experiment, for all parts.
pub(super) struct Plan {
    pub(super) setup: Setup,
    pub(super) peers: Peers,
}

impl Plan {
    pub(super) fn load(&self, threads: usize, think_us: f64, workload: &str) -> Load {
        let setup = &self.setup;
        let mut more = vec![format!("--workload={workload}"), format!("--value-bytes={}", setup.value_bytes)];
        if setup.quick {
            more.push("--records=10000".into());
        }
        let load = Load::new(threads, setup.seconds, (setup.seconds / 5.0).min(0.5), &setup.cpus);
        Load { think_us, lowered: !child::may_boost(), more, ..load }
    }

    /// The same with the user's distribution of keys.
    pub(super) fn drawn(&self, mut load: Load) -> Load {
        load.more.extend(self.setup.keys.map(|kind| format!("--keys={}", kind.name())));
        load
    }

    pub(super) fn compare(
        &self,
        bench: &mut Bench,
        case: &str,
        load: &Load,
        variants: &[Variant],
    ) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| crate::verdict::watched(report, case, judge::figure);
        let case = Case { name: case, variants: &names, expected: load.expected() };
        bench.compare(case, watch, |at, round| {
            // The same seed for all variants of a round, another one for each round.
            variants[at].run(&self.setup.manx, &Load { seed: round as u64 + 1, ..load.clone() })
        })
    }
}
