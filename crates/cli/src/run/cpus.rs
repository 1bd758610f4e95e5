//! The number of CPUs that is reported to the program: by the preload library while it runs, and by
//! variables when it starts (`variables.rs`).

use manx::cpu::{CpuBudget, CpuSet, LimitKind, Rounding};
use preload_abi::cpus::Cpus;
use preload_abi::options::Options;

/// The number of CPUs that is reported to the program.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedCpus {
    /// How many CPUs the program is told of.
    pub count: usize,
    said: Cpus,
    budget: CpuBudget,
}

impl ReportedCpus {
    /// The number by the settings and the budget of this process, which becomes the program; `None`
    /// if nothing is reported.
    pub fn by(options: &Options<'_>) -> Option<ReportedCpus> {
        match options.cpus {
            Cpus::Keep => None,
            said => Some(ReportedCpus::of(said, CpuBudget::now())),
        }
    }

    /// The number by the setting `said` and by a budget.
    pub fn of(said: Cpus, budget: CpuBudget) -> ReportedCpus {
        let count = match said {
            Cpus::Count(count) => (count as usize).min(online(&budget)),
            Cpus::Auto | Cpus::Keep => budget.count(Rounding::Floor),
        };
        ReportedCpus { count, said, budget }
    }

    /// The number and where it comes from, in words.
    pub fn why(&self) -> String {
        match self.said {
            Cpus::Count(_) => format!("{}, as said ({})", self.count, self.budget.why()),
            Cpus::Auto | Cpus::Keep => format!("{} ({})", self.count, self.budget.why()),
        }
    }

    /// A warning if the user has asked for more CPUs than there are.
    pub fn warning(&self) -> Option<String> {
        let Cpus::Count(said) = self.said else { return None };
        let (said, online) = (said as usize, online(&self.budget));
        if said > online {
            Some(format!("--cpus={said}: this machine has {online}, and the program is told of no more"))
        } else if said as f64 > self.budget.cpus().max(1.0) {
            Some(format!("--cpus={said} is more than the program gets: {}", self.budget.why()))
        } else {
            None
        }
    }

    /// The number, if the user has set it; at most the number of CPUs that are online.
    pub fn said(&self) -> Option<usize> {
        matches!(self.said, Cpus::Count(_)).then_some(self.count)
    }

    /// What the program really gets.
    pub fn budget(&self) -> &CpuBudget {
        &self.budget
    }
}

/// How many CPUs are online, if anything says so; otherwise as many as are allowed.
pub fn online(budget: &CpuBudget) -> usize {
    budget.online().map_or_else(|| allowed(budget), CpuSet::len)
}

/// How many CPUs threads may run on.
pub fn allowed(budget: &CpuBudget) -> usize {
    let affinity = budget.limits().iter().find_map(|limit| match &limit.kind {
        LimitKind::Affinity { cpus } => Some(cpus.len()),
        _ => None,
    });
    let online = || budget.online().map(CpuSet::len);
    affinity.or_else(online).unwrap_or_else(|| budget.count(Rounding::Floor))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;

    /// The budget on a made-up machine of 64 CPUs. `affinity` is a CPU list such as `0-63`; `quota`
    /// is the text of `cpu.max`: µs per period, or `max`, and the period. Detection reads the files
    /// once; the folder may go.
    pub fn made_up_budget(affinity: &str, quota: &str) -> CpuBudget {
        let root = tempfile::tempdir().expect("a temporary folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("the file is in a folder"))
                .expect("the folder is created");
            fs::write(path, text).expect("the file is written");
        };
        write("sys/devices/system/cpu/online", "0-63\n");
        write("proc/self/cgroup", "0::/a\n");
        write("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/a/cpu.max", quota);
        CpuBudget::detect(root.path(), Some(&affinity.parse().expect("`affinity` is a CPU list")))
    }

    #[test]
    fn the_user_is_warned_of_more_cpus_than_there_are() {
        let warning = |said, quota| ReportedCpus::of(said, made_up_budget("0-63", quota)).warning();
        assert_eq!(warning(Cpus::Auto, "150000 100000"), None);
        assert_eq!(warning(Cpus::Count(1), "50000 100000"), None, "no less can be said");
        assert_eq!(warning(Cpus::Count(64), "max 100000"), None);
        let more = warning(Cpus::Count(2), "150000 100000").expect("a warning");
        assert!(more.starts_with("--cpus=2 is more than the program gets: 1.5 CPUs: quota"), "{more}");
        let most = warning(Cpus::Count(65), "max 100000").expect("a warning");
        assert_eq!(most, "--cpus=65: this machine has 64, and the program is told of no more");
        assert_eq!(ReportedCpus::of(Cpus::Count(65), made_up_budget("0-63", "max 100000")).count, 64);
    }
}
