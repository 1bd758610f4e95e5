//! What could not be seen, why, and which setting would allow it.
//!
//! A doctor that cannot look at something must not say that it is healthy. So each source of
//! evidence that is refused leaves a line, and each line names the setting.

use serde::Serialize;

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// What is missing
    pub what: String,
    /// Why
    pub why: String,
    /// What would allow it
    pub allow: String,
}

impl Unseen {
    /// A line of the list.
    ///
    /// ```
    /// use doctor::evidence::unseen::Unseen;
    /// let line = Unseen::new("locks", "a setting", "run it as root");
    /// assert_eq!(line.to_string(), "locks: a setting; run it as root");
    /// ```
    pub fn new(what: impl Into<String>, why: impl Into<String>, allow: impl Into<String>) -> Unseen {
        Unseen { what: what.into(), why: why.into(), allow: allow.into() }
    }

    /// That samples are refused with this error number.
    pub fn samples(error: i32) -> Unseen {
        Unseen::of_perf("where threads run, and so busy waiting", error, 2)
    }

    /// That the lengths of waits are refused with this error number.
    pub fn waits(error: i32) -> Unseen {
        Unseen::of_perf("how long each wait for a lock lasts, and in which function", error, 1)
    }

    /// That `perf_event_open` is refused with this error number, although this level would do.
    fn of_perf(what: &str, error: i32, level_max: i32) -> Unseen {
        let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        let level = level.trim();
        let (why, allow) = match error {
            libc::EACCES | libc::EPERM => (
                format!("perf_event_open is refused (kernel.perf_event_paranoid is {level})"),
                if level.parse().is_ok_and(|level: i32| level > level_max) {
                    format!(
                        "set kernel.perf_event_paranoid to {level_max}, give CAP_PERFMON, or run it as root"
                    )
                } else {
                    "run it as the program's user or as root, or give CAP_PERFMON; a container's seccomp \
                     profile may refuse the call as well"
                        .to_owned()
                },
            ),
            libc::ENOSYS => (
                "the kernel or a sandbox has no perf_event_open".to_owned(),
                "run it outside of the sandbox".to_owned(),
            ),
            libc::EMFILE | libc::ENFILE => {
                ("too few file descriptors".to_owned(), "raise the limit: ulimit -n".to_owned())
            }
            other => {
                (format!("perf_event_open fails with error {other}"), "see perf_event_open(2)".to_owned())
            }
        };
        Unseen::new(what, why, allow)
    }

    /// The remark that the memory map may not be read.
    pub fn modules() -> Unseen {
        Unseen::new(
            "which libraries it has, and so its runtime and whether it runs under Manx",
            "/proc/PID/maps may not be read",
            "run it as the program's user, give CAP_SYS_PTRACE, or run it as root",
        )
    }

    /// The remark that system calls of threads may not be read.
    pub fn system_calls() -> Unseen {
        let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let why = match yama.trim() {
            "" | "0" => "/proc/PID/task/TID/syscall may not be read".to_owned(),
            scope => {
                format!("/proc/PID/task/TID/syscall may not be read (kernel.yama.ptrace_scope is {scope})")
            }
        };
        Unseen::new(
            "which locks threads wait for",
            why,
            "run it as the program's user with kernel.yama.ptrace_scope=0, give CAP_SYS_PTRACE, or run it as root",
        )
    }
}

impl std::fmt::Display for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.why, self.allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_a_setting() {
        for error in [libc::EACCES, libc::EPERM] {
            for unseen in [Unseen::samples(error), Unseen::waits(error)] {
                assert!(unseen.allow.contains("CAP_PERFMON"), "{unseen}");
            }
        }
        assert!(Unseen::samples(libc::EMFILE).allow.contains("ulimit"));
        assert!(Unseen::waits(libc::EINVAL).allow.contains("perf_event_open(2)"));
        assert!(Unseen::system_calls().allow.contains("CAP_SYS_PTRACE"));
    }
}
