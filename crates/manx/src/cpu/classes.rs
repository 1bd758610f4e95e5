//! Which CPU is of which class, and how that is known.

use super::split::{self, Step};
use super::{Class, CpuSet};
use std::fmt;

/// Which CPUs are big and which are little, and why.
///
/// Its text is what `MANX_CORES` takes, and what [`Classes::parse`] reads back.
///
/// ```
/// use manx::cpu::{Class, Classes};
///
/// let classes = Classes::parse("big:0-3,little:4-7")?;
/// assert_eq!(classes.of(4), Class::Little);
/// assert_eq!(classes.to_string(), "big:0-3,little:4-7");
/// assert_eq!(classes.why(), "as told");
/// # Ok::<(), manx::cpu::ParseClassesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    big: CpuSet,
    little: CpuSet,
    source: Source,
}

/// How classes are known, from what is believed first to what is believed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// By the user, or the program.
    User,
    /// By measuring how fast each CPU is ([`Classes::from_speeds`]).
    Measured(Step),
    /// By `cpu_capacity`, which the kernel schedules by.
    Capacity(Step),
    /// By the kernel's two lists for counting events, `cpu_core` and `cpu_atom` (Intel).
    Lists,
    /// By `cpufreq/cpuinfo_max_freq`.
    Frequency(Step),
    /// By `acpi_cppc/highest_perf`.
    Performance(Step),
    /// By asking each CPU what kind of core it is (Intel's CPUID, leaf 0x1A).
    Kind,
    /// The machine tells no difference, so all are big.
    Alike,
}

impl Classes {
    /// Makes classes in which the CPUs of `big` are big, and those of `little` little. A CPU that
    /// is in both is little.
    ///
    /// ```
    /// use manx::cpu::{Class, Classes, Source};
    ///
    /// let classes = Classes::new(&"0-3".parse()?, &"4-7".parse()?, Source::User);
    /// assert_eq!((classes.of(0), classes.of(5)), (Class::Big, Class::Little));
    /// assert_eq!(classes.little().to_string(), "4-7");
    /// # Ok::<(), manx::cpu::ParseCpuListError>(())
    /// ```
    pub fn new(big: &CpuSet, little: &CpuSet, source: Source) -> Classes {
        Classes { big: big.difference(little), little: little.clone(), source }
    }

    /// Makes classes for a machine whose CPUs are all equally fast: all of them are big.
    pub fn uniform(cpus: CpuSet) -> Classes {
        Classes { big: cpus, little: CpuSet::EMPTY, source: Source::Alike }
    }

    /// By the speed of each CPU, however it was measured: in what units is all the same. CPUs that
    /// are left out are big, and so are all if no step between speeds is wide enough.
    ///
    /// ```
    /// use manx::cpu::{Class, Classes};
    ///
    /// // Rounds of a calibration loop per second.
    /// let classes = Classes::from_speeds([(0, 248_000), (1, 247_100), (2, 66_200)]);
    /// assert_eq!(classes.to_string(), "big:0-1,little:2");
    /// assert_eq!(classes.why(), "as measured: the slowest big core has 247100, the fastest little one 66200");
    /// ```
    pub fn from_speeds(speeds: impl IntoIterator<Item = (usize, u64)>) -> Classes {
        let speeds: Vec<_> = speeds.into_iter().collect();
        let cpus = speeds.iter().map(|&(cpu, _)| cpu).collect();
        Classes::by_speed(&cpus, &speeds, Source::Measured).unwrap_or_else(|| Classes::uniform(cpus))
    }

    /// By speeds, if these tell a difference.
    pub(super) fn by_speed(
        cpus: &CpuSet,
        speeds: &[(usize, u64)],
        source: fn(Step) -> Source,
    ) -> Option<Classes> {
        let step = split::widest_step(speeds.iter().map(|&(_, speed)| speed))?;
        let little = speeds.iter().filter(|(_, speed)| (1..=step.little_max).contains(speed));
        Some(Classes::new(cpus, &little.map(|&(cpu, _)| cpu).collect(), source(step)))
    }

    /// The class of a CPU. A CPU that is in neither set is big.
    pub fn of(&self, cpu: usize) -> Class {
        if self.little.contains(cpu) { Class::Little } else { Class::Big }
    }

    /// The big CPUs.
    pub fn big(&self) -> &CpuSet {
        &self.big
    }

    /// The little CPUs.
    pub fn little(&self) -> &CpuSet {
        &self.little
    }

    /// Returns the source of the classes: a list of the user's, a file of the kernel's, or a
    /// measurement.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the source of the classes in words, for people.
    pub fn why(&self) -> String {
        self.source.to_string()
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(Class::Big, &self.big), (Class::Little, &self.little)];
        let mut comma = "";
        for (class, cpus) in parts.into_iter().filter(|(_, cpus)| !cpus.is_empty()) {
            write!(f, "{comma}{}:{cpus}", class.name())?;
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::User => write!(f, "as told"),
            Source::Measured(step) => write!(f, "as measured: {step}"),
            Source::Capacity(step) => write!(f, "by cpu_capacity: {step}"),
            Source::Lists => write!(f, "by the kernel's lists cpu_core and cpu_atom"),
            Source::Frequency(step) => write!(f, "by the highest frequency in kHz: {step}"),
            Source::Performance(step) => write!(f, "by the highest performance level: {step}"),
            Source::Kind => write!(f, "by the kind that each CPU says it is"),
            Source::Alike => write!(f, "the machine tells no difference"),
        }
    }
}
