//! The host: CPUs, what they did, and how long threads waited for them.

use super::row::Host;
use manx::cpu::{Pressure, PressureWatch};

/// Reads it again and again.
#[derive(Debug)]
pub struct HostWatch {
    watch: PressureWatch,
    before: Option<Pressure>,
}

impl HostWatch {
    /// Opens its files.
    pub fn new() -> HostWatch {
        HostWatch { watch: PressureWatch::new(), before: None }
    }

    /// What it did since the look before.
    pub fn look(&mut self) -> Host {
        let now = self.watch.read();
        let mut host = Host { cpus: now.online, runnable: now.runnable, ..Host::default() };
        if let Some(between) = self.before.as_ref().map(|before| now.since(before)) {
            host.busy_cpus = now
                .online
                .zip(between.idle_cpus)
                .map(|(cpus, idle)| (f64::from(cpus) - idle - between.stolen_cpus.unwrap_or(0.0)).max(0.0));
            host.stolen_cpus = between.stolen_cpus;
            host.stalled = between.stalled;
        }
        self.before = Some(now);
        host
    }
}
