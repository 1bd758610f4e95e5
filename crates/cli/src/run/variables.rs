//! The variables that tell runtimes how many CPUs there are, or how many threads to have.
//!
//! A program that asks the C library is answered by the preload library. Go, .NET and others ask
//! the kernel, and read a control group's quota by themselves or not at all; numeric libraries
//! count the CPUs of the affinity mask, which stays as it is because threads are bound by it. Each
//! of them has a variable. [`RULES`] is the table: what the runtime counts if its variable is not
//! set, how it rounds a fraction of a CPU, and where its authors say so.
//!
//! 1. A variable that the user has set stays as it is. A variable that would override another one
//!    which the user has set is not set: OpenBLAS reads `OMP_NUM_THREADS` too, so that
//!    variable counts for both.
//! 2. A variable is set only if the budget is below what its runtime would find by itself. Without
//!    a quota and with all CPUs allowed, nothing is set.
//! 3. A fraction is rounded as the runtime itself rounds quotas, or down if it knows of none. A
//!    number that the user has set (`--cpus=N`) stays as it is.
//! 4. The variables have the values of the start. A runtime that follows quotas while it runs no
//!    longer does so when its variable is set: Go, by `GOMAXPROCS`.
//! 5. Nothing about spinning is set (`OMP_WAIT_POLICY`, `OPENBLAS_THREAD_TIMEOUT`): whether to spin
//!    is decided while the program runs.
//!
//! These have no row, and why:
//!
//! | variable | why it is not set |
//! | --- | --- |
//! | `BLIS_NUM_THREADS`, `GOTO_NUM_THREADS` | BLIS and OpenBLAS also read `OMP_NUM_THREADS` (`bli_thread.c`, `openblas_env.c`), which is set |
//! | `NUMEXPR_MAX_THREADS` | a bound: a program that asks for more threads gets an error. `NUMEXPR_NUM_THREADS` says what is used |
//! | `LOKY_MAX_CPU_COUNT` | joblib asks `os.cpu_count()`, which the preload library answers |
//! | for TBB: none exists | TBB counts the affinity mask, and binds threads by it. `--cpus-also=affinity` changes the mask that it reads |
//! | `UV_THREADPOOL_SIZE` | libuv's four threads wait for files and names, whatever the number of CPUs |
//! | `VECLIB_MAXIMUM_THREADS` | Apple's library does not exist on Linux |

use super::cpus::{ReportedCpus, allowed, online};
use manx::cpu::{CpuBudget, Rounding};
use preload_abi::cpus::Place;
use preload_abi::options::Options;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// What a runtime counts as CPUs if no variable is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// The CPUs that are online.
    Online,
    /// Those of its affinity.
    Affinity,
}

impl Counts {
    /// What is counted, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Counts::Online => "online CPUs",
            Counts::Affinity => "affinity mask",
        }
    }

    fn of(self, budget: &CpuBudget) -> usize {
        match self {
            Counts::Online => online(budget),
            Counts::Affinity => allowed(budget),
        }
    }
}

/// How a runtime gets from a quota to a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// It reads no quotas, so its variable gets the count rounded down.
    Never,
    /// Down, and at least 1.
    Down,
    /// Up.
    Up,
    /// Up, and at least 2.
    UpFromTwo,
}

impl Rounds {
    /// The rule, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Rounds::Never => "reads no quota",
            Rounds::Down => "down",
            Rounds::Up => "up",
            Rounds::UpFromTwo => "up, at least 2",
        }
    }

    fn of(self, budget: &CpuBudget) -> usize {
        match self {
            Rounds::Never | Rounds::Down => budget.count(Rounding::Floor),
            Rounds::Up => budget.count(Rounding::Ceil),
            // Fewer CPUs than two can be allowed.
            Rounds::UpFromTwo => budget.count(Rounding::Ceil).max(2).min(allowed(budget)),
        }
    }
}

/// When a variable is set, if a number is needed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Where the user has set none.
    Unset,
    /// Where the user has set it to `auto`, which asks for the number of CPUs.
    Auto,
    /// Where the user asks for it, since it is said on standard error: [`JAVA_OPTION`] is added to
    /// the value.
    AlsoJava,
}

/// A variable, and the runtime that reads it.
#[derive(Debug)]
pub struct Rule {
    /// The runtime that reads it.
    pub runtime: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Variables that say the same to the same runtime.
    unless: &'static [&'static str],
    /// What the runtime counts without it.
    pub counts: Counts,
    /// How it gets from a quota to a count.
    pub rounds: Rounds,
    /// The most that the runtime would take by itself, whatever the machine.
    most: usize,
    when: When,
    /// Where its authors say so.
    pub source: &'static str,
}

const fn rule(
    runtime: &'static str,
    name: &'static str,
    counts: Counts,
    rounds: Rounds,
    source: &'static str,
) -> Rule {
    Rule { runtime, name, unless: &[], counts, rounds, most: usize::MAX, when: When::Unset, source }
}

/// All of them.
pub const RULES: [Rule; 13] = [
    rule(
        "Go",
        "GOMAXPROCS",
        Counts::Affinity,
        Rounds::UpFromTwo,
        "package runtime, runtime/cgroup_linux.go; Go 1.25 and newer read the quota of the own group",
    ),
    rule(
        "OpenMP",
        "OMP_NUM_THREADS",
        Counts::Affinity,
        Rounds::Never,
        "OpenMP specification; libgomp config/linux/proc.c",
    ),
    Rule {
        unless: &["RAYON_RS_NUM_CPUS"],
        ..rule(
            "rayon",
            "RAYON_NUM_THREADS",
            Counts::Affinity,
            Rounds::Down,
            "rayon's FAQ; std::thread::available_parallelism",
        )
    },
    rule(
        "tokio",
        "TOKIO_WORKER_THREADS",
        Counts::Affinity,
        Rounds::Down,
        "tokio::runtime::Builder::worker_threads; std::thread::available_parallelism",
    ),
    rule(
        "Polars",
        "POLARS_MAX_THREADS",
        Counts::Affinity,
        Rounds::Down,
        "polars.thread_pool_size; std::thread::available_parallelism",
    ),
    Rule {
        unless: &["COMPlus_PROCESSOR_COUNT"],
        ..rule(
            ".NET",
            "DOTNET_PROCESSOR_COUNT",
            Counts::Affinity,
            Rounds::Up,
            "Environment.ProcessorCount; coreclr cgroup.cpp, which reads the quota of the own group",
        )
    },
    rule("Python", "PYTHON_CPU_COUNT", Counts::Online, Rounds::Never, "os.cpu_count, Python 3.13 and newer"),
    Rule {
        unless: &["GOTO_NUM_THREADS", "OMP_NUM_THREADS"],
        ..rule(
            "OpenBLAS",
            "OPENBLAS_NUM_THREADS",
            Counts::Affinity,
            Rounds::Never,
            "OpenBLAS' manual; driver/others/memory.c",
        )
    },
    Rule {
        unless: &["MKL_DOMAIN_NUM_THREADS", "OMP_NUM_THREADS"],
        ..rule(
            "MKL",
            "MKL_NUM_THREADS",
            Counts::Affinity,
            Rounds::Never,
            "oneMKL developer guide, \"MKL_NUM_THREADS\"",
        )
    },
    Rule {
        unless: &["NUMEXPR_MAX_THREADS", "OMP_NUM_THREADS"],
        // By itself it takes 16 at most, and older versions 8.
        most: 8,
        ..rule(
            "NumExpr",
            "NUMEXPR_NUM_THREADS",
            Counts::Online,
            Rounds::Never,
            "NumExpr's user guide, \"Threadpool\"; numexpr/utils.py",
        )
    },
    rule(
        "Numba",
        "NUMBA_NUM_THREADS",
        Counts::Affinity,
        Rounds::Never,
        "Numba's reference, \"Threading control\"; numba/core/config.py",
    ),
    Rule {
        when: When::Auto,
        ..rule(
            "Julia",
            "JULIA_NUM_THREADS",
            Counts::Affinity,
            Rounds::Never,
            "Julia's manual, \"Environment variables\": unset, there is one thread",
        )
    },
    Rule {
        when: When::AlsoJava,
        ..rule(
            "Java",
            "JAVA_TOOL_OPTIONS",
            Counts::Affinity,
            Rounds::Up,
            "java's manual, -XX:ActiveProcessorCount; hotspot cgroupUtil_linux.cpp",
        )
    },
];

/// Julia's word for as many threads as there are CPUs.
const AUTO: &str = "auto";
/// What is added to Java's options, and other variables in which it may stand.
const JAVA_OPTION: &str = "-XX:ActiveProcessorCount=";
const JAVA_OTHERS: [&str; 2] = ["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// What becomes of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is set to this.
    Set(OsString),
    /// The user has set this one, which says the same.
    Yours(&'static str),
    /// Its runtime finds no more by itself.
    NotNeeded,
    /// The user has not asked for it, as the words say.
    NotAsked(&'static str),
}

impl Rule {
    /// How many CPUs the runtime takes by itself, if it reads no quota.
    pub fn alone(&self, reported: &ReportedCpus) -> usize {
        self.counts.of(reported.budget()).min(self.most)
    }

    /// How many CPUs the runtime is to take (Invariants 2 and 3).
    pub fn count(&self, reported: &ReportedCpus) -> usize {
        self.rounded(reported).min(self.most)
    }

    /// The number that the user has said, or the budget, rounded as this runtime rounds it.
    fn rounded(&self, reported: &ReportedCpus) -> usize {
        reported.said().unwrap_or_else(|| self.rounds.of(reported.budget()))
    }

    /// What becomes of the variable, where `present` returns the value that a variable has already.
    pub fn fate(
        &self,
        reported: &ReportedCpus,
        present: &dyn Fn(&str) -> Option<OsString>,
        also_java: bool,
    ) -> Fate {
        let mine = || present(self.name);
        match self.when {
            When::Unset => {
                if let Some(yours) =
                    [self.name].iter().chain(self.unless).find(|name| present(name).is_some())
                {
                    return Fate::Yours(yours);
                }
            }
            When::Auto => match mine() {
                None => return Fate::NotAsked("only where it is set to auto"),
                Some(value) if value != AUTO => return Fate::Yours(self.name),
                Some(_) => {}
            },
            When::AlsoJava => {
                let names = [self.name].into_iter().chain(JAVA_OTHERS);
                let mut with_option =
                    names.filter(|name| present(name).is_some_and(|value| contains(&value, JAVA_OPTION)));
                if let Some(yours) = with_option.next() {
                    return Fate::Yours(yours);
                }
                if !also_java {
                    return Fate::NotAsked("only with --cpus-also=java");
                }
            }
        }
        // A limit of the runtime's own is left out: another version may have another one.
        if self.rounded(reported) >= self.counts.of(reported.budget()) {
            return Fate::NotNeeded;
        }
        let count = self.count(reported);
        Fate::Set(match self.when {
            When::Unset | When::Auto => count.to_string().into(),
            When::AlsoJava => {
                let mut value = mine().filter(|value| !value.is_empty()).unwrap_or_default();
                if !value.is_empty() {
                    value.push(" ");
                }
                value.push(format!("{JAVA_OPTION}{count}"));
                value
            }
        })
    }
}

/// The variables for the program of these settings, by this process's environment.
pub fn environment(reported: &ReportedCpus, options: &Options<'_>) -> Vec<(&'static str, OsString)> {
    changes(reported, &|name| std::env::var_os(name), options.cpus_also.has(Place::Java))
}

/// The variables to set; `present` returns the values that are set already.
fn changes(
    reported: &ReportedCpus,
    present: &dyn Fn(&str) -> Option<OsString>,
    also_java: bool,
) -> Vec<(&'static str, OsString)> {
    let set = |rule: &Rule| match rule.fate(reported, present, also_java) {
        Fate::Set(value) => Some((rule.name, value)),
        Fate::Yours(_) | Fate::NotNeeded | Fate::NotAsked(_) => None,
    };
    RULES.iter().filter_map(set).collect()
}

fn contains(value: &OsStr, part: &str) -> bool {
    value.as_bytes().windows(part.len()).any(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::cpus::tests::made_up_budget;
    use super::*;
    use preload_abi::cpus::Cpus;

    fn set(said: Cpus, budget: CpuBudget, present: &[(&str, &str)], java: bool) -> Vec<String> {
        let value = |name: &str| {
            present.iter().find(|(there, _)| *there == name).map(|(_, value)| OsString::from(*value))
        };
        let variables = changes(&ReportedCpus::of(said, budget), &value, java);
        variables.iter().map(|(name, value)| format!("{name}={}", value.display())).collect()
    }

    #[test]
    fn a_program_that_has_all_cpus_is_told_nothing() {
        let whole = made_up_budget("0-63", "max 100000");
        assert_eq!(set(Cpus::Auto, whole.clone(), &[("JULIA_NUM_THREADS", "auto")], true), [""; 0]);
        assert_eq!(set(Cpus::Count(64), whole.clone(), &[], true), [""; 0]);
        assert_eq!(set(Cpus::Count(1000), whole, &[], true), [""; 0], "no more than there are");
    }

    #[test]
    fn a_fraction_is_rounded_as_each_runtime_rounds() {
        let all =
            |quota| set(Cpus::Auto, made_up_budget("0-63", quota), &[("JULIA_NUM_THREADS", "auto")], true);
        let expected = |down: usize, up: usize, go: usize| {
            RULES.map(|rule| match rule.name {
                "GOMAXPROCS" => format!("GOMAXPROCS={go}"),
                "DOTNET_PROCESSOR_COUNT" => format!("DOTNET_PROCESSOR_COUNT={up}"),
                "JAVA_TOOL_OPTIONS" => format!("JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount={up}"),
                "NUMEXPR_NUM_THREADS" => format!("NUMEXPR_NUM_THREADS={}", down.min(8)),
                name => format!("{name}={down}"),
            })
        };
        assert_eq!(all("20000 100000"), expected(1, 1, 2));
        assert_eq!(all("150000 100000"), expected(1, 2, 2));
        assert_eq!(all("200000 100000"), expected(2, 2, 2));
        assert_eq!(all("1250000 100000"), expected(12, 13, 13));
    }

    #[test]
    fn a_runtime_that_rounds_up_to_all_that_is_allowed_is_told_nothing() {
        let names = |affinity, quota| set(Cpus::Auto, made_up_budget(affinity, quota), &[], true).join(" ");
        let two = names("0-1", "150000 100000");
        assert!(
            two.contains("OMP_NUM_THREADS=1 ") && !two.contains("GOMAXPROCS") && !two.contains("DOTNET"),
            "{two}"
        );
        assert!(!two.contains("Java"), "{two}");
        let one = names("5", "50000 100000");
        assert_eq!(one, "PYTHON_CPU_COUNT=1 NUMEXPR_NUM_THREADS=1", "what counts the mask finds one CPU");
    }

    #[test]
    fn a_number_that_was_said_is_told_as_it_is() {
        let all = set(Cpus::Count(1), made_up_budget("0-63", "150000 100000"), &[], true);
        assert_eq!(all.len(), RULES.len() - 1, "all but Julia");
        assert!(all.iter().all(|variable| variable.ends_with("=1")), "{all:?}");
    }

    #[test]
    fn an_affinity_is_told_to_runtimes_that_do_not_look_at_it() {
        let seen = set(Cpus::Auto, made_up_budget("4-15", "max 100000"), &[], true);
        assert_eq!(seen, ["PYTHON_CPU_COUNT=12", "NUMEXPR_NUM_THREADS=8"]);
    }

    #[test]
    fn what_the_user_said_stays() {
        let quota = || made_up_budget("0-63", "150000 100000");
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
                "DOTNET_PROCESSOR_COUNT=2",
                "PYTHON_CPU_COUNT=1",
                "NUMBA_NUM_THREADS=1",
                "JULIA_NUM_THREADS=1",
                "JAVA_TOOL_OPTIONS=-Xmx1g -XX:ActiveProcessorCount=2",
            ]
        );
        for (yours, theirs) in [
            ("GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
            ("MKL_DOMAIN_NUM_THREADS", "MKL_NUM_THREADS"),
            ("NUMEXPR_MAX_THREADS", "NUMEXPR_NUM_THREADS"),
            ("COMPlus_PROCESSOR_COUNT", "DOTNET_PROCESSOR_COUNT"),
            ("RAYON_RS_NUM_CPUS", "RAYON_NUM_THREADS"),
            ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"),
            ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"),
            ("JAVA_TOOL_OPTIONS", "JAVA_TOOL_OPTIONS"),
            ("JULIA_NUM_THREADS", "JULIA_NUM_THREADS"),
        ] {
            let all = set(Cpus::Auto, quota(), &[(yours, "-XX:ActiveProcessorCount=5")], true);
            let prefix = format!("{theirs}=");
            assert!(!all.iter().any(|variable| variable.starts_with(&prefix)), "{yours}: {all:?}");
        }
        let silent = set(Cpus::Auto, quota(), &[], false);
        assert!(!silent.iter().any(|variable| variable.contains("JULIA") || variable.contains("JAVA")));
    }

    #[test]
    fn nothing_about_spinning_is_set_and_each_variable_has_one_row() {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(
                !["WAIT_POLICY", "TIMEOUT", "SPIN", "BLOCKTIME"].iter().any(|word| rule.name.contains(word))
            );
            assert!(RULES[..index].iter().all(|other| other.name != rule.name), "{}", rule.name);
            assert!(!rule.source.is_empty() && !rule.runtime.is_empty(), "{}", rule.name);
        }
    }
}
