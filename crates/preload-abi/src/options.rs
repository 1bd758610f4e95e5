//! The options string: `key=value` pairs, separated by commas.
//!
//! ```text
//! MANX_OPTIONS=guard=on,lock=manx,stats=stderr,spins=10,yields=1000
//! ```
//!
//! A value may hold any byte; `%`, `,` and what is not printable ASCII are written as `%XX`. The
//! library must never print or fail because of a bad option, so [`Options::parse`] keeps the
//! default for whatever it cannot read and says in [`Options::rejected`] where it stopped
//! understanding; the launcher, which may print, refuses bad options before they get here.

use crate::cpus::{Cpus, Places};
use crate::escape::number;
pub use crate::escape::{decode, encode};
use crate::filter::Filters;
use crate::slo::Slos;
use crate::words::words;

words! {
    /// How the guard against busy waiting works.
    #[derive(Default)]
    pub enum Guard {
        /// Repair busy-wait loops when the program creates its first thread.
        #[default]
        On = 0 => "on",
        /// Touch nothing.
        Off = 1 => "off",
        /// As `On`, but already when the library is loaded (for programs that share memory between
        /// processes or create threads without the C library).
        Always = 2 => "always",
    }

    /// What the program's mutexes and condition variables become.
    #[derive(Default)]
    pub enum Lock {
        /// Bounded reordering: running threads may overtake sleeping ones, for at most a window.
        #[default]
        Manx = 0 => "manx",
        /// Any running thread may take a free lock, without a bound; waiting is adaptive.
        Adaptive = 1 => "adaptive",
        /// The SLO-guided lock for asymmetric cores: as `Manx`, but threads on little cores let
        /// threads on big cores pass for the window of their epoch.
        Asl = 2 => "asl",
        /// In the order of arrival: a queue of nodes on the waiters' stacks, which spin, then
        /// sleep.
        Fifo = 3 => "fifo",
        /// Those of the C library, untouched.
        Glibc = 4 => "glibc",
    }

    /// Whether CPUs are taken to be short: whether waits that spin are to sleep instead.
    #[derive(Default)]
    pub enum Short {
        /// The library finds out, again and again.
        #[default]
        Auto = 0 => "auto",
        /// They are, whatever the machine says: for tests.
        Always = 1 => "always",
        /// They are not: every wait spins as its author wrote.
        Never = 2 => "never",
    }
}

/// Where statistics go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stats<'a> {
    /// None are kept.
    #[default]
    Off,
    /// A table on standard error when the program exits normally.
    Stderr,
    /// They can be read while the program runs, and are gone when it has exited normally.
    Live,
    /// JSON in this file (still percent-encoded; see [`decode`]).
    File(&'a [u8]),
}

/// What [`Options::dilation`] may be.
pub const DILATIONS: core::ops::RangeInclusive<u32> = 1000..=1_000_000;

/// What the library is asked to do. The waiting numbers are those of `wait`'s adaptive policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// `guard=on|off|always`
    pub guard: Guard,
    /// `lock=manx|adaptive|asl|fifo|glibc`
    pub lock: Lock,
    /// `dilate=N`: threads on little CPUs take N thousandths as long as they would, to measure
    /// locks on unequal cores where there are none. 1000: they are left alone.
    pub dilation: u32,
    /// `short=auto|always|never`
    pub short: Short,
    /// `slo=…`: latency targets (see [`crate::slo`]).
    pub slos: Slos<'a>,
    /// `cpus=auto|keep|N`: how many CPUs the program is told of.
    pub cpus: Cpus,
    /// `cpus_also=PLACE+…`: where it is told of them, beyond the counts that it asks for.
    pub cpus_also: Places,
    /// `only=…` and `not=…`: which programs, libraries and loops are meant (see [`crate::filter`]).
    pub filters: Filters<'a>,
    /// `stats=stderr`, `stats=live` or `stats=FILE`
    pub stats: Stats<'a>,
    /// `pid=N`: the process that the launcher became. It alone uses the names given in `stats`;
    /// other processes append their own process id. 0: every process counts as the first.
    pub pid: u32,
    /// `cache=off`: do not keep in the user's cache folder what was found in the program and its
    /// libraries.
    pub cache: bool,
    /// `perf_map=on`: name the copies of loops in `/tmp/perf-PID.map`, for `perf`.
    pub perf_map: bool,
    /// `verbose=1`: say on standard error what could not be done.
    pub verbose: bool,
    /// `spins=N`: visits of a busy-wait loop before the first yield.
    pub spins: u32,
    /// `yields=N`: yields before the first sleep.
    pub yields: u32,
    /// `step_us=N`: by how much each sleep is longer than the one before, in microseconds.
    pub step_us: u32,
    /// `ceiling_us=N`: the longest sleep, in microseconds.
    pub ceiling_us: u32,
    /// The first key or value that was not understood.
    pub rejected: Option<&'a [u8]>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            guard: Guard::On,
            lock: Lock::Manx,
            dilation: 1000,
            short: Short::Auto,
            slos: Slos::default(),
            cpus: Cpus::Auto,
            cpus_also: Places::NONE,
            filters: Filters::default(),
            stats: Stats::Off,
            pid: 0,
            cache: true,
            perf_map: false,
            verbose: false,
            spins: 10,
            yields: 1000,
            step_us: 100,
            ceiling_us: 1000,
            rejected: None,
        }
    }
}

impl<'a> Options<'a> {
    /// Reads an options string. Never fails: see the module's text.
    ///
    /// ```
    /// use preload_abi::options::{Guard, Options};
    /// let options = Options::parse(b"guard=always,spins=100");
    /// assert_eq!((options.guard, options.spins, options.yields), (Guard::Always, 100, 1000));
    /// assert_eq!(Options::parse(b"guard=maybe").rejected, Some(&b"guard=maybe"[..]));
    /// ```
    pub fn parse(text: &'a [u8]) -> Options<'a> {
        let mut options = Options::default();
        for pair in text.split(|&b| b == b',').filter(|p| !p.is_empty()) {
            if options.set(pair).is_none() && options.rejected.is_none() {
                options.rejected = Some(pair);
            }
        }
        options
    }

    fn set(&mut self, pair: &'a [u8]) -> Option<()> {
        let at = pair.iter().position(|&b| b == b'=')?;
        let (key, value) = (&pair[..at], &pair[at + 1..]);
        match key {
            b"guard" => self.guard = Guard::from_word(value)?,
            b"lock" => self.lock = Lock::from_word(value)?,
            b"dilate" => self.dilation = number(value).filter(|dilation| DILATIONS.contains(dilation))?,
            b"short" => self.short = Short::from_word(value)?,
            b"slo" => self.slos = Slos::parse(value)?,
            b"cpus" => self.cpus = Cpus::from_word(value)?,
            b"cpus_also" => self.cpus_also = Places::parse(value)?,
            b"only" => self.filters.only = value.try_into().ok()?,
            b"not" => self.filters.not = value.try_into().ok()?,
            b"stats" if value == b"stderr" => self.stats = Stats::Stderr,
            b"stats" if value == b"live" => self.stats = Stats::Live,
            b"stats" if value == b"off" => self.stats = Stats::Off,
            b"stats" if !value.is_empty() => self.stats = Stats::File(value),
            b"pid" => self.pid = number(value)?,
            b"cache" => self.cache = switch(value)?,
            b"perf_map" => self.perf_map = switch(value)?,
            b"verbose" => self.verbose = switch(value)?,
            b"spins" => self.spins = number(value)?,
            b"yields" => self.yields = number(value)?,
            b"step_us" => self.step_us = number(value)?,
            b"ceiling_us" => self.ceiling_us = number(value)?,
            _ => return None,
        }
        Some(())
    }
}

fn switch(value: &[u8]) -> Option<bool> {
    match value {
        b"1" | b"on" => Some(true),
        b"0" | b"off" => Some(false),
        _ => None,
    }
}

impl core::fmt::Display for Options<'_> {
    /// The shortest string that [`Options::parse`] reads back as the same options.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let default = Options::default();
        write!(f, "guard={}", self.guard.word())?;
        if self.lock != default.lock {
            write!(f, ",lock={}", self.lock.word())?;
        }
        if self.short != default.short {
            write!(f, ",short={}", self.short.word())?;
        }
        if !self.slos.is_empty() {
            write!(f, ",slo={}", self.slos)?;
        }
        if self.cpus != default.cpus {
            write!(f, ",cpus={}", self.cpus)?;
        }
        if !self.cpus_also.is_empty() {
            write!(f, ",cpus_also={}", self.cpus_also)?;
        }
        for (key, entries) in [("only", self.filters.only), ("not", self.filters.not)] {
            if !entries.is_empty() {
                write!(f, ",{key}={entries}")?;
            }
        }
        match self.stats {
            Stats::Off => {}
            Stats::Stderr => f.write_str(",stats=stderr")?,
            Stats::Live => f.write_str(",stats=live")?,
            Stats::File(path) => {
                f.write_str(",stats=")?;
                f.write_str(core::str::from_utf8(path).map_err(|_| core::fmt::Error)?)?;
            }
        }
        if !self.cache {
            f.write_str(",cache=off")?;
        }
        if self.perf_map {
            f.write_str(",perf_map=on")?;
        }
        if self.verbose {
            f.write_str(",verbose=1")?;
        }
        for (key, value, usual) in [
            ("dilate", self.dilation, default.dilation),
            ("pid", self.pid, default.pid),
            ("spins", self.spins, default.spins),
            ("yields", self.yields, default.yields),
            ("step_us", self.step_us, default.step_us),
            ("ceiling_us", self.ceiling_us, default.ceiling_us),
        ] {
            if value != usual {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_options_are_read_back() {
        let options = Options {
            guard: Guard::Always,
            lock: Lock::Fifo,
            dilation: 3750,
            short: Short::Never,
            slos: Slos::parse(b"5:9900+7:6:9990").unwrap(),
            cpus: Cpus::Count(3),
            cpus_also: Places::parse(b"affinity+java").unwrap(),
            filters: Filters {
                only: b"mongod+libstdc%2B%2B.so.6".try_into().unwrap(),
                not: b"libfoo.so:0x1f".try_into().unwrap(),
            },
            stats: Stats::File(b"/tmp/a%2Cb"),
            pid: 7,
            cache: false,
            perf_map: true,
            verbose: true,
            spins: 0,
            yields: u32::MAX,
            ..Options::default()
        };
        assert_eq!(Options::parse(options.to_string().as_bytes()), options);
        assert_eq!(Options::parse(b""), Options::default());
        for stats in [Stats::Off, Stats::Stderr, Stats::Live] {
            let options = Options { stats, ..Options::default() };
            assert_eq!(Options::parse(options.to_string().as_bytes()), options);
        }
    }

    #[test]
    fn bad_options_keep_the_default_and_are_named() {
        for bad in [
            "spins=-1",
            "lock=fair",
            "lock=",
            "dilate=999",
            "dilate=1000001",
            "dilate=3.75",
            "short=yes",
            "slo=2ms",
            "cpus=0",
            "cpus=some",
            "cpus_also=all",
            "only=a++b",
            "not=libfoo.so:0x",
            "spins=4294967296",
            "spins=",
            "nonsense",
            "stats=",
        ] {
            let options = Options::parse(bad.as_bytes());
            assert_eq!(options, Options { rejected: Some(bad.as_bytes()), ..Options::default() });
        }
    }

    #[test]
    fn every_lock_has_a_word_and_a_number_of_its_own() {
        for lock in Lock::ALL {
            assert_eq!(Lock::from_word(lock.word().as_bytes()), Some(lock));
            assert_eq!(Lock::from_number(lock as u32), Some(lock));
            let options = Options { lock, ..Options::default() };
            assert_eq!(Options::parse(options.to_string().as_bytes()).lock, lock);
        }
        assert_eq!(Lock::from_number(5), None);
    }

    #[test]
    fn every_answer_about_cpus_has_a_word() {
        for short in Short::ALL {
            assert_eq!(Short::from_word(short.word().as_bytes()), Some(short));
        }
    }

    #[test]
    fn paths_survive_encoding() {
        let path = b"/tmp/with space,comma%percent\xff";
        let mut text = String::new();
        encode(path, &mut text).unwrap();
        assert!(text.is_ascii() && !text.contains([',', ' ']));
        let mut buffer = [0; 64];
        assert_eq!(decode(text.as_bytes(), &mut buffer), Some(&path[..]));
        assert_eq!(decode(b"%4", &mut buffer), None);
        assert_eq!(decode(b"abc", &mut [0; 2]), None);
    }
}
