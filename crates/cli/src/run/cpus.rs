//! How many CPUs the program is told of, and the variables that tell runtimes which ask the kernel themselves.
//!
//! What asks the C library is answered by the preload library. Go, .NET and others ask the kernel, and read a control group's quota by
//! themselves or not at all; some libraries count the CPUs of the affinity mask, which is left alone because threads are bound by it. Each of them
//! has a variable for the number of threads.
//!
//! 1. A variable that is set stays as it is, and so does one that would override another that is set: `OPENBLAS_NUM_THREADS` is not set
//!    where the user has set `OMP_NUM_THREADS`, which OpenBLAS reads, too.
//! 2. A variable is set only to less than its runtime would find by itself. Without a quota and with all CPUs allowed nothing is set.
//! 3. The program is told of what it gets when it starts. A runtime that follows quotas while it runs stops to do so
//!    when it is told: Go, by `GOMAXPROCS`.
//!
//! Not among them is `UV_THREADPOOL_SIZE`: libuv's four threads are there to wait for files and names, whatever the number of CPUs.
//! `JULIA_NUM_THREADS` is replaced only where it is `auto`, which asks for the number of CPUs; unset, Julia has one thread.

use super::settings::Settings;
use manx::cpu::{CpuBudget, LimitKind, Rounding};
use preload_abi::cpus::{Cpus, Place};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// What a runtime takes for the number of CPUs if nobody tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Those of the machine.
    Online,
    /// Those of its affinity.
    Allowed,
}

/// A variable that tells a runtime how many CPUs there are, or threads to have.
struct Rule {
    name: &'static str,
    /// Others that say the same to the same runtime.
    unless: &'static [&'static str],
    believes: Belief,
    /// The most that the runtime would take by itself, whatever the machine.
    most: usize,
}

const fn rule(name: &'static str, unless: &'static [&'static str], believes: Belief) -> Rule {
    Rule { name, unless, believes, most: usize::MAX }
}

const RULES: [Rule; 10] = [
    rule("GOMAXPROCS", &[], Belief::Allowed),
    rule("OMP_NUM_THREADS", &[], Belief::Allowed),
    rule("RAYON_NUM_THREADS", &["RAYON_RS_NUM_CPUS"], Belief::Allowed),
    rule("TOKIO_WORKER_THREADS", &[], Belief::Allowed),
    rule("POLARS_MAX_THREADS", &[], Belief::Allowed),
    rule("DOTNET_PROCESSOR_COUNT", &["COMPlus_PROCESSOR_COUNT"], Belief::Allowed),
    rule("PYTHON_CPU_COUNT", &[], Belief::Online),
    rule("OPENBLAS_NUM_THREADS", &["GOTO_NUM_THREADS", "OMP_NUM_THREADS"], Belief::Allowed),
    rule("MKL_NUM_THREADS", &["OMP_NUM_THREADS"], Belief::Allowed),
    // It takes 8 at most unless it is told.
    Rule { most: 8, ..rule("NUMEXPR_NUM_THREADS", &["OMP_NUM_THREADS"], Belief::Online) },
];

/// Julia's variable, and its word for as many threads as there are CPUs.
const JULIA: (&str, &str) = ("JULIA_NUM_THREADS", "auto");
/// Java's variable and option, and other variables in which the option may stand.
const JAVA: (&str, &str) = ("JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=");
const JAVA_OTHERS: [&str; 2] = ["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// How many CPUs the program is told of.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// That many.
    pub count: usize,
    said: Cpus,
    budget: CpuBudget,
}

impl Told {
    /// By the settings and the budget of this process, which becomes the program; `None` if the program is to be told nothing.
    pub fn by(settings: &Settings) -> Option<Told> {
        match settings.cpus() {
            Cpus::Keep => None,
            said => Some(Told::of(said, CpuBudget::now())),
        }
    }

    fn of(said: Cpus, budget: CpuBudget) -> Told {
        let count = match said {
            Cpus::Count(count) => (count as usize).min(online(&budget)),
            Cpus::Auto | Cpus::Keep => budget.count(Rounding::Floor),
        };
        Told { count, said, budget }
    }

    /// The number and where it comes from, in words.
    pub fn why(&self) -> String {
        match self.said {
            Cpus::Count(_) => format!("{}, as said ({})", self.count, self.budget.why()),
            Cpus::Auto | Cpus::Keep => format!("{} ({})", self.count, self.budget.why()),
        }
    }

    /// What to tell the user who said more than there is.
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

    /// The variables to set, where `present` tells what is set already.
    pub fn variables(
        &self,
        present: impl Fn(&str) -> Option<OsString>,
        java: bool,
    ) -> Vec<(&'static str, OsString)> {
        let number = |count: usize| OsString::from(count.to_string());
        let believed = |belief| match belief {
            Belief::Online => online(&self.budget),
            Belief::Allowed => allowed(&self.budget),
        };
        let mut variables = Vec::new();
        for rule in &RULES {
            let said = present(rule.name).is_some() || rule.unless.iter().any(|name| present(name).is_some());
            if !said && self.count < believed(rule.believes) {
                variables.push((rule.name, number(self.count.min(rule.most))));
            }
        }
        let less = self.count < allowed(&self.budget);
        let (name, auto) = JULIA;
        if less && present(name).is_some_and(|value| value == auto) {
            variables.push((name, number(self.count)));
        }
        let (name, option) = JAVA;
        let has_option = |name: &str| present(name).is_some_and(|value| contains(&value, option));
        if java && less && !has_option(name) && !JAVA_OTHERS.into_iter().any(has_option) {
            let mut value = present(name).filter(|value| !value.is_empty()).unwrap_or_default();
            if !value.is_empty() {
                value.push(" ");
            }
            value.push(format!("{option}{}", self.count));
            variables.push((name, value));
        }
        variables
    }

    /// The variables for the program of these settings, by this process' environment.
    pub fn environment(&self, settings: &Settings) -> Vec<(&'static str, OsString)> {
        self.variables(|name| std::env::var_os(name), settings.cpus_also().has(Place::Java))
    }
}

fn contains(value: &OsStr, part: &str) -> bool {
    value.as_bytes().windows(part.len()).any(|window| window == part.as_bytes())
}

/// How many CPUs are online, if anything says so; otherwise as many as are allowed.
pub fn online(budget: &CpuBudget) -> usize {
    cpus(budget, |kind| matches!(kind, LimitKind::Online { .. })).unwrap_or_else(|| allowed(budget))
}

/// How many CPUs threads may run on.
pub fn allowed(budget: &CpuBudget) -> usize {
    cpus(budget, |kind| matches!(kind, LimitKind::Affinity { .. }))
        .or_else(|| cpus(budget, |kind| matches!(kind, LimitKind::Online { .. })))
        .unwrap_or_else(|| budget.count(Rounding::Floor))
}

fn cpus(budget: &CpuBudget, is_it: impl Fn(&LimitKind) -> bool) -> Option<usize> {
    budget.limits().iter().find(|limit| is_it(&limit.kind)).map(|limit| limit.cpus as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The budget on a machine of 64 CPUs, with this affinity and this quota.
    fn budget(affinity: &str, quota: &str) -> CpuBudget {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("sys/devices/system/cpu/online", "0-63\n");
        write("proc/self/cgroup", "0::/a\n");
        write("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/a/cpu.max", quota);
        CpuBudget::detect(root.path(), Some(&affinity.parse().expect("a list")))
    }

    fn set(said: Cpus, budget: CpuBudget, present: &[(&str, &str)], java: bool) -> Vec<String> {
        let value = |name: &str| {
            present.iter().find(|(there, _)| *there == name).map(|(_, value)| OsString::from(*value))
        };
        let variables = Told::of(said, budget).variables(value, java);
        variables.iter().map(|(name, value)| format!("{name}={}", value.display())).collect()
    }

    #[test]
    fn who_has_all_cpus_is_told_nothing() {
        let whole = budget("0-63", "max 100000");
        assert_eq!(set(Cpus::Auto, whole.clone(), &[("JULIA_NUM_THREADS", "auto")], true), [""; 0]);
        assert_eq!(set(Cpus::Count(64), whole.clone(), &[], true), [""; 0]);
        assert_eq!(set(Cpus::Count(1000), whole, &[], true), [""; 0], "no more than there are");
    }

    #[test]
    fn a_quota_is_told_rounded_down() {
        let all = set(Cpus::Auto, budget("0-63", "150000 100000"), &[], true);
        assert_eq!(all.len(), RULES.len() + 1);
        assert!(all[..RULES.len()].iter().all(|variable| variable.ends_with("=1")), "{all:?}");
        assert_eq!(all[RULES.len()], "JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=1");
    }

    #[test]
    fn an_affinity_is_told_to_those_who_do_not_look_at_it() {
        let seen = set(Cpus::Auto, budget("4-15", "max 100000"), &[], true);
        assert_eq!(seen, ["PYTHON_CPU_COUNT=12", "NUMEXPR_NUM_THREADS=8"]);
    }

    #[test]
    fn what_the_user_said_stays() {
        let quota = || budget("0-63", "150000 100000");
        let mine = [
            ("OMP_NUM_THREADS", "7"),
            ("GOMAXPROCS", ""),
            ("JULIA_NUM_THREADS", "auto"),
            ("JAVA_TOOL_OPTIONS", "-Xmx1g"),
        ];
        assert_eq!(
            set(Cpus::Auto, quota(), &mine, true),
            [
                "RAYON_NUM_THREADS=1",
                "TOKIO_WORKER_THREADS=1",
                "POLARS_MAX_THREADS=1",
                "DOTNET_PROCESSOR_COUNT=1",
                "PYTHON_CPU_COUNT=1",
                "JULIA_NUM_THREADS=1",
                "JAVA_TOOL_OPTIONS=-Xmx1g -XX:ActiveProcessorCount=1",
            ]
        );
        let java = |name| set(Cpus::Auto, quota(), &[(name, "-XX:ActiveProcessorCount=5")], true);
        for name in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] {
            assert!(!java(name).iter().any(|variable| variable.contains("ActiveProcessorCount=1")), "{name}");
        }
        let julia = set(Cpus::Auto, quota(), &[("JULIA_NUM_THREADS", "4")], false);
        assert!(!julia.iter().any(|variable| variable.contains("JULIA") || variable.contains("JAVA")));
    }

    #[test]
    fn more_than_there_is_is_said_to_the_user() {
        let warning = |said, quota| Told::of(said, budget("0-63", quota)).warning();
        assert_eq!(warning(Cpus::Auto, "150000 100000"), None);
        assert_eq!(warning(Cpus::Count(1), "50000 100000"), None, "no less can be said");
        assert_eq!(warning(Cpus::Count(64), "max 100000"), None);
        let more = warning(Cpus::Count(2), "150000 100000").expect("a warning");
        assert!(more.starts_with("--cpus=2 is more than the program gets: 1.5 CPUs: quota"), "{more}");
        let most = warning(Cpus::Count(65), "max 100000").expect("a warning");
        assert_eq!(most, "--cpus=65: this machine has 64, and the program is told of no more");
        assert_eq!(Told::of(Cpus::Count(65), budget("0-63", "max 100000")).count, 64);
    }
}
