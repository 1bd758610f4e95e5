//! What decides how fast a program runs here, beside the program: for `manx --version`, and for the
//! reader of a figure.
//!
//! Each value is read from the kernel's files when it is asked for. What cannot be read is absent:
//! "unknown" as text, and no field in JSON.

use manx::cpu::{Cores, Pressure};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs;

/// Where something runs or was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name; its architecture, if the kernel does not say it
    pub processor: String,
    /// CPUs that the process may use
    pub cpus: usize,
    /// The kernel's name and release
    pub kernel: String,
    /// The commit that this command was built from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The C library's name and version
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<String>,
    /// The frequency governor of the first CPU
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether two CPUs share a core
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// The share of the CPUs' time that the host took: since the start of the machine, or, in a
    /// report, while it was measured
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_percent: Option<f64>,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Machine {
        let processor = processor(&read("/proc/cpuinfo"));
        Machine {
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.into()),
            cpus: cpus(),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            commit: option_env!("MANX_COMMIT").map(String::from),
            c_library: Some(format!("GNU {}", c_library())),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            smt: Some(Cores::detect("/sys".as_ref()).have_siblings()),
            steal_percent: Ticks::now().and_then(|now| now.steal_percent(Ticks::default())),
        }
    }

    /// The name of each fact, and the fact in words.
    pub fn facts(&self) -> [(&'static str, String); 7] {
        let unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".into());
        let steal = self.steal_percent.map(|percent| format!("{percent:.1} %"));
        [
            ("commit", unknown(self.commit.clone())),
            ("processor", format!("{}, {} CPUs", self.processor, self.cpus)),
            ("kernel", self.kernel.clone()),
            ("C library", unknown(self.c_library.clone())),
            ("governor", unknown(self.governor.clone())),
            ("SMT", unknown(self.smt.map(|on| if on { "on" } else { "off" }.into()))),
            ("steal", unknown(steal)),
        ]
    }
}

/// What the CPUs of the machine have done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    steal: u64,
    all: u64,
}

impl Ticks {
    /// Reads them; `None` if the kernel hides them.
    pub fn now() -> Option<Ticks> {
        let ticks = Pressure::read().machine?;
        Some(Ticks {
            steal: ticks.steal,
            all: ticks.busy.saturating_add(ticks.idle).saturating_add(ticks.steal),
        })
    }

    /// The share of the time since `earlier` that the host took; `None` if no time has passed.
    ///
    /// ```
    /// use command::machine::Ticks;
    ///
    /// let begin = Ticks::default();
    /// assert_eq!(begin.steal_percent(begin), None);
    /// ```
    pub fn steal_percent(self, earlier: Ticks) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        Some(100.0 * self.steal.saturating_sub(earlier.steal) as f64 / all as f64)
    }
}

fn processor(cpuinfo: &str) -> Option<String> {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    Some(model.split(": ").nth(1)?.trim().into())
}

/// How many CPUs the process may use.
fn cpus() -> usize {
    // SAFETY: the set is a plain bit array, for which zero is a value; the kernel writes at most
    // its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return 1;
        }
        libc::CPU_COUNT(&set) as usize
    }
}

fn c_library() -> String {
    // SAFETY: the function takes nothing and returns a constant string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above; the string ends with a zero byte.
    unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned()
}

fn first_line(file: &str) -> Option<String> {
    read(file).lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_name_of_its_own_and_a_value() {
        for machine in [Machine::here(), Machine::default()] {
            let facts = machine.facts();
            let mut names: Vec<_> = facts.iter().map(|fact| fact.0).collect();
            names.dedup();
            assert_eq!(names.len(), facts.len());
        }
        let here = Machine::here();
        assert!(here.kernel.starts_with("Linux ") && here.cpus > 0 && !here.processor.is_empty(), "{here:?}");
        assert!(here.facts().iter().all(|(_, fact)| !fact.is_empty()), "{here:?}");
    }

    #[test]
    fn the_processors_name_is_read() {
        let text = "processor\t: 0\nvendor_id\t: A\nmodel name\t: A B 12\nflags\t: fpu\n";
        assert_eq!(processor(text).unwrap(), "A B 12");
        assert_eq!(processor("processor\t: 0\n"), None);
    }

    #[test]
    fn steal_is_a_share_of_what_has_passed() {
        let (begin, end) = (Ticks { steal: 10, all: 1_000 }, Ticks { steal: 60, all: 1_200 });
        assert_eq!(end.steal_percent(begin), Some(25.0));
        assert_eq!(begin.steal_percent(end), None);
    }
}
