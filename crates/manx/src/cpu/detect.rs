//! Which classes of cores the machine tells, from the source that is believed most to the last
//! resort.
//!
//! | source | what may be wrong with it |
//! | --- | --- |
//! | `cpuN/cpu_capacity` | the kernel schedules by it; flat where it does not |
//! | `cpu_core/cpus`, `cpu_atom/cpus`, `cpu_lowpower/cpus` | Intel's hybrids only |
//! | `cpuN/cpufreq/cpuinfo_max_freq` | equal cores differ by their bins; different ones may have the same |
//! | `cpuN/acpi_cppc/highest_perf` | flat on some hybrids, a ranking of equal cores on others |
//! | CPUID leaf 0x1A | each CPU has to be asked on itself, and in a virtual machine each question is an exit |
//!
//! The first source that tells a difference decides. A source that shows all cores alike may just
//! not know, so the next source is asked. A file that is missing or is not what it should be says
//! nothing, and neither does a CPU that is offline: most of its files are gone. Virtual machines
//! usually have none of these files, and then all CPUs are big.

use super::CpuSet;
use super::class_list::{ParseClassesError, ParseClassesErrorKind, VARIABLE};
use super::classes::{Classes, Source};
use super::split::Step;
use platform::cpu::{self, Kind};
use platform::file::File;
use std::ffi::CString;
use std::path::Path;
use std::str::FromStr;

/// Where the kernel shows its machine.
const ROOT: &str = "/sys";
/// The longest list of CPUs that is read, in bytes: every second one of [`cpu::COUNT_MAX`].
const LIST_BYTES_MAX: usize = 32 * 1024;
/// The longest number that is read, in bytes.
const NUMBER_BYTES_MAX: usize = 32;

/// A file in which each CPU has a number, and which source that is.
type Number = (&'static str, fn(Step) -> Source);
const NUMBERS: [Number; 3] = [
    ("cpu_capacity", Source::Capacity),
    ("cpufreq/cpuinfo_max_freq", Source::Frequency),
    ("acpi_cppc/highest_perf", Source::Performance),
];

impl Classes {
    /// What the machine whose `/sys` is at `root` tells, by its files alone.
    ///
    /// ```
    /// use manx::cpu::Classes;
    ///
    /// let classes = Classes::detect("/sys".as_ref());
    /// println!("{classes}, {}", classes.why());
    /// # assert!(!classes.big().is_empty());
    /// ```
    pub fn detect(root: &Path) -> Classes {
        let machine = Machine { root };
        let cpus = machine.online().unwrap_or(CpuSet::EMPTY);
        machine.classes(&cpus).unwrap_or_else(|| Classes::uniform(cpus))
    }

    /// What this machine tells: by its files, and if they show no difference, by asking the CPUs.
    /// It lists the CPUs that are online.
    ///
    /// To ask them, the calling thread runs on each of them for a moment; only where the CPU says
    /// that it has two kinds of cores.
    pub fn of_this_machine() -> Classes {
        let machine = Machine { root: Path::new(ROOT) };
        let cpus = machine.online().unwrap_or_else(CpuSet::of_this_thread);
        machine.classes(&cpus).or_else(|| by_kind(&cpus, kinds)).unwrap_or_else(|| Classes::uniform(cpus))
    }

    /// Reads `MANX_CORES` as [`Classes::from_environment`] does, but measures nothing: for threads
    /// that need an answer at once.
    pub(super) fn from_environment_unmeasured() -> Result<Option<Classes>, ParseClassesError> {
        Classes::read_environment(Classes::parse)
    }

    pub(super) fn read_environment(
        read: fn(&str) -> Result<Classes, ParseClassesError>,
    ) -> Result<Option<Classes>, ParseClassesError> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let Some(text) = text.to_str() else {
            let kind = ParseClassesErrorKind::NoText;
            return Err(ParseClassesError { part: text.to_string_lossy().into(), kind });
        };
        let classes = read(text)?;
        match Classes::present() {
            Some(present) => classes.on(&present).map(Some),
            // Nothing to compare with.
            None => Ok(Some(classes)),
        }
    }

    /// The CPUs that this machine has, online or not, if it tells.
    pub(super) fn present() -> Option<CpuSet> {
        Machine { root: Path::new(ROOT) }.present()
    }
}

/// A folder that looks like `/sys`.
pub(super) struct Machine<'a> {
    pub(super) root: &'a Path,
}

impl Machine<'_> {
    fn online(&self) -> Option<CpuSet> {
        ["online", "present", "possible"].into_iter().find_map(|name| self.cpus(name))
    }

    fn present(&self) -> Option<CpuSet> {
        ["present", "possible", "online"].into_iter().find_map(|name| self.cpus(name))
    }

    fn cpus(&self, name: &str) -> Option<CpuSet> {
        self.list(&format!("devices/system/cpu/{name}")).filter(|cpus| !cpus.is_empty())
    }

    /// A file that is a list, as the kernel writes them.
    pub(super) fn list(&self, path: &str) -> Option<CpuSet> {
        self.read(path, LIST_BYTES_MAX)
    }

    /// What the first source says that shows a difference.
    fn classes(&self, cpus: &CpuSet) -> Option<Classes> {
        let [capacity, others @ ..] = NUMBERS;
        self.by_number(cpus, capacity)
            .or_else(|| self.by_lists(cpus))
            .or_else(|| others.into_iter().find_map(|source| self.by_number(cpus, source)))
    }

    fn by_number(&self, cpus: &CpuSet, (name, source): Number) -> Option<Classes> {
        let number = |cpu| self.read(&format!("devices/system/cpu/cpu{cpu}/{name}"), NUMBER_BYTES_MAX);
        let speeds: Vec<(usize, u64)> =
            cpus.iter().filter_map(|cpu| number(cpu).map(|speed| (cpu, speed))).collect();
        Classes::by_speed(cpus, &speeds, source)
    }

    fn by_lists(&self, cpus: &CpuSet) -> Option<Classes> {
        let list = |name| {
            let list: Option<CpuSet> = self.read(&format!("devices/{name}/cpus"), LIST_BYTES_MAX);
            list.unwrap_or(CpuSet::EMPTY).intersection(cpus)
        };
        let big = list("cpu_core");
        let little = list("cpu_atom").union(&list("cpu_lowpower"));
        let differ = !big.is_empty() && !little.is_empty() && big.intersection(&little).is_empty();
        differ.then(|| Classes::new(cpus, &little, Source::Lists))
    }

    /// The value in a file; `None` if the file is missing, longer than `bytes_max`, or has no such
    /// value.
    fn read<T: FromStr>(&self, path: &str, bytes_max: usize) -> Option<T> {
        let path = CString::new(self.root.join(path).into_os_string().into_encoded_bytes()).ok()?;
        let mut bytes = vec![0; bytes_max + 1];
        let length = File::open(&path).ok()?.read_at(&mut bytes, 0).ok()?;
        if length > bytes_max {
            return None;
        }
        std::str::from_utf8(&bytes[..length]).ok()?.trim().parse().ok()
    }
}

/// By what each CPU says, when it is asked, that it is.
fn by_kind(cpus: &CpuSet, kinds: impl FnOnce(&CpuSet) -> Vec<(usize, Kind)>) -> Option<Classes> {
    let kinds = kinds(cpus);
    let those = |kind| kinds.iter().filter(|&&(_, its)| its == kind).map(|&(cpu, _)| cpu).collect::<CpuSet>();
    let (big, little) = (those(Kind::Performance), those(Kind::Efficient));
    (!big.is_empty() && !little.is_empty()).then(|| Classes::new(cpus, &little, Source::Kind))
}

/// Asks each of these CPUs that the calling thread may run on.
fn kinds(cpus: &CpuSet) -> Vec<(usize, Kind)> {
    let mut kinds = Vec::new();
    if cpu::is_hybrid() {
        cpu::on_each(cpus.iter(), |cpu| kinds.extend(cpu::kind().map(|kind| (cpu, kind))));
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_tell_if_there_are_two() {
        use Kind::{Efficient, Performance};
        let cpus: CpuSet = "0-3".parse().unwrap();
        let told = |kinds: &[(usize, Kind)]| {
            by_kind(&cpus, |_| kinds.to_vec()).map(|classes| (classes.to_string(), classes.source()))
        };
        let hybrid = [(0, Performance), (1, Performance), (2, Efficient)];
        assert_eq!(told(&hybrid), Some(("big:0-1,3,little:2".into(), Source::Kind)));
        assert_eq!(told(&hybrid[..2]), None);
        assert_eq!(told(&[]), None);
    }
}
