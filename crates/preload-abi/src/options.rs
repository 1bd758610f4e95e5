//! The settings of `manx run`, each said once, and the string that carries them to the library.
//!
//! [`SETTINGS`] is the table. An entry of it makes the flag, the key of the file, the key of
//! `MANX_OPTIONS`, the field of [`Options`] that the launcher and the library obey, and what the
//! help, the manual page, the completions and `docs/options.md` say: its documentation is the help.
//! [`Setting`] describes the columns, and [`Form`] the types.
//!
//! The string is `key=value` pairs, separated by commas. If a key is there twice, the last counts:
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
pub use crate::escape::{decode, encode};
use crate::filter::{Entries, Filters};
use crate::setting::{Cores, Form, Kind, Microseconds, Number, Obeyed, Section, Thousandths};
pub use crate::setting::{DILATIONS, Stats};
use crate::slo::Slos;
use crate::words::words;
use core::fmt;

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its field of [`Options`] and its key in `MANX_OPTIONS`: the key of the file with `_` for
    /// `-`, and behind that the unit if the value there is a bare number.
    pub name: &'static str,
    /// An older name, which `MANX_OPTIONS` may still use.
    pub formerly: &'static str,
    /// Its key in the file, and behind `--` its flag. Empty if only the launcher itself sets it.
    pub key: &'static str,
    /// The flag if it is not the key: `no-KEY` for a switch that is on by default.
    pub flag: &'static str,
    /// The flag's letter.
    pub letter: Option<char>,
    /// The help; an empty line separates the first paragraph from what only `--help` shows.
    pub help: &'static str,
    /// The type of its value.
    pub form: Form,
    /// How the help names the value.
    pub value: &'static str,
    /// What the number in `MANX_OPTIONS` counts.
    pub unit: &'static str,
    /// The section that it belongs to, if it is not one of the first.
    pub section: Option<Section>,
    /// A value for the documented file, where its default would show nothing.
    pub example: &'static str,
    /// For tests: the flag is not listed, and it is no key of the file.
    pub is_hidden: bool,
    /// Where the code is that obeys it. What the launcher alone obeys is not in `MANX_OPTIONS`.
    pub obeyed_by: Obeyed,
    /// The first [`VERSION`](crate::VERSION) of the library that knows it, under this name.
    pub since: u32,
    /// Reads its value of `MANX_OPTIONS`.
    pub(crate) read: for<'a> fn(&mut Options<'a>, &'a [u8]) -> Option<()>,
    /// Writes its value as `read` reads it.
    pub write: fn(&Options<'_>, &mut dyn fmt::Write) -> fmt::Result,
    /// Whether its value is the default.
    pub is_default: fn(&Options<'_>) -> bool,
}

impl Setting {
    /// What an entry does not say.
    pub(crate) const UNSAID: Setting = Setting {
        name: "",
        formerly: "",
        key: "",
        flag: "",
        letter: None,
        help: "",
        form: Form::Number,
        value: "",
        unit: "",
        section: None,
        example: "",
        is_hidden: false,
        obeyed_by: Obeyed::Library,
        since: 0,
        read: |_, _| None,
        write: |_, _| Ok(()),
        is_default: |_| true,
    };

    /// Whether `MANX_OPTIONS` calls it so.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        !name.is_empty() && [self.name.as_bytes(), self.formerly.as_bytes()].contains(&name)
    }

    /// Whether the library never sees it.
    pub const fn is_launchers(&self) -> bool {
        matches!(self.obeyed_by, Obeyed::Launcher)
    }

    /// Its flag, without the hyphens.
    pub const fn flag(&self) -> &'static str {
        if self.flag.is_empty() { self.key } else { self.flag }
    }

    /// Whether users may say it in a file.
    pub const fn is_in_files(&self) -> bool {
        !self.key.is_empty() && !self.is_hidden
    }
}

/// Makes [`SETTINGS`] and [`Options`] of the entries: help, `name: type = default`, and columns.
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $kind:ty = $default:expr, { $($column:ident: $said:expr),+ $(,)? }
    )+) => {
        /// Every setting, in the order of the help.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            help: concat!($($help, "\n"),+),
            form: <$kind as Kind>::FORM,
            read: |options, text| {
                options.$name = <$kind as Kind>::read(text)?;
                Some(())
            },
            write: |options, out| <$kind as Kind>::write(options.$name, out),
            is_default: |options| options.$name == Options::DEFAULT.$name,
            $($column: $said,)+
            ..Setting::UNSAID
        }),+];

        /// What the launcher and the library are asked to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Options<'a> {
            $($(#[doc = $help])+ pub $name: <$kind as Kind>::Value<'a>,)+
            /// The first key or value that was not understood.
            pub rejected: Option<&'a [u8]>,
        }

        impl<'a> Options<'a> {
            /// What holds where nothing is said.
            pub const DEFAULT: Options<'a> = Options { $($name: $default,)+ rejected: None };
        }
    };
}

/// The adaptive wait at the loops that the guard repairs.
const WAITING: Option<Section> = Some(Section { heading: "Waiting", table: "wait" });

settings! {
    /// How to guard against busy waiting
    guard: Guard = Guard::On, { key: "guard", value: "HOW", since: 1 }

    /// What the program's mutexes and condition variables become
    lock: Lock = Lock::Manx, { key: "lock", value: "WHICH", since: 2 }

    /// A latency target, as 2ms or 2ms@p99.9: waits for locks may be as long as it allows, and no
    /// longer
    ///
    /// It is for requests: from the return of a read from a socket to the next write to it, by the
    /// same thread. For epochs that the program marks itself (manx_epoch_start), put their id
    /// before it, as in 7=500us@p99; then it replaces what the program says. The percentile is 99
    /// unless given. May be given several times.
    slo: Slos<'static> = Slos::NONE,
    { key: "slo", value: "[ID=]TIME[@pN]", example: r#"["2ms@p99"]"#, obeyed_by: Obeyed::Both, since: 3 }

    /// Which CPUs are fast and which are slow, as big:0-3,little:4-7, or measured [default: as the
    /// machine says]
    cores: Cores = "",
    { key: "cores", value: "CORES", example: r#""big:0""#, obeyed_by: Obeyed::Launcher }

    /// Take threads on slow CPUs RATIO times as long for everything, to measure locks on a machine
    /// whose CPUs are alike
    ///
    /// A thread of a little CPU (see --cores) is held up before each mutex that it locks or
    /// unlocks, for RATIO - 1 times the CPU time since the last one; with every --lock, glibc too.
    /// Pin threads to CPUs for it to make sense.
    dilate: Thousandths = 1000, { key: "dilate", value: "RATIO", since: 4 }

    /// How many CPUs the program is told that it has: auto, a number, or keep
    ///
    /// auto is what it really gets, by its affinity, its cpuset and the quotas of its control
    /// groups. A fraction is rounded down, or as the program's runtime rounds quotas itself. A
    /// number is that many; keep leaves it what it would be told. It is told where it asks the C
    /// library, and by variables such as GOMAXPROCS that are not set yet, and never of more CPUs
    /// than the machine has. See `manx cpus`.
    cpus: Cpus = Cpus::Auto, { key: "cpus", value: "COUNT", obeyed_by: Obeyed::Both, since: 4 }

    /// Tell it that in these places too, where a program may need to know the machine
    ///
    /// Separated by commas.
    cpus_also: Places = Places::NONE,
    { key: "cpus-also", value: "WHERE", obeyed_by: Obeyed::Both, since: 4 }

    /// What to do about a quota of CPU time that stops the program
    ///
    /// With pace, a helper process, which no `wait` of the program sees, keeps the program's
    /// threads to as many CPUs as the quota pays for while they use it up, so that the kernel need
    /// not stop all of them until the next period. Threads that the program binds to CPUs itself
    /// stay there.
    quota: Quota = Quota::Pace, { key: "quota", value: "HOW", obeyed_by: Obeyed::Launcher }

    /// What is meant: executables, libraries, LIBRARY:SYMBOL or LIBRARY:0xOFFSET; all else is left
    /// alone
    ///
    /// See "Filters" below. May be given several times, or with commas between.
    only: Entries<'static> = Entries::NONE,
    { key: "only", value: "WHAT", example: r#"["mongod"]"#, obeyed_by: Obeyed::Both, since: 5 }

    /// What is not meant, even if --only names it: written in the same way
    ///
    /// See "Filters" below. May be given several times, or with commas between.
    not: Entries<'static> = Entries::NONE,
    { key: "not", value: "WHAT", example: r#"["libfoo.so*"]"#, obeyed_by: Obeyed::Both, since: 5 }

    /// Functions by which threads poll: a thread that calls one of them again and again waits
    ///
    /// LIBRARY:FUNCTION, of a function that the library exports, or LIBRARY:0xOFFSET of its first
    /// instruction. While CPUs are short, a thread that calls it in a row yields or sleeps between
    /// two calls, if the running program does more work in that way. May be given several times, or
    /// with commas between.
    poll: Entries<'static> = Entries::NONE,
    { key: "poll", value: "FUNCTION", example: r#"["libfoo.so:poll"]"#, obeyed_by: Obeyed::Both, since: 10 }

    /// Count where threads wait, in loops and for locks: a table on standard error when the program
    /// exits, or JSON in FILE
    ///
    /// While the program runs, `manx stats` shows the same; nothing is lost if it is killed.
    /// Processes that it starts append their process id to FILE. With `live` nothing is written at
    /// the end: the counts are for `manx stats` and `manx exporter` while it runs. `stderr`, `live`
    /// and `off` are not file names here: write ./off.
    stats: Stats<'static> = Stats::Off,
    { key: "stats", value: "FILE", example: r#""counts.json""#, obeyed_by: Obeyed::Both, since: 1 }

    /// Do not keep in the user's cache folder what was found in the program and its libraries
    cache: bool = true, { key: "cache", flag: "no-cache", obeyed_by: Obeyed::Both, since: 6 }

    /// Name the copies in which loops go on in /tmp/perf-PID.map, so that `perf` shows them
    perf_map: bool = false, { key: "perf-map", since: 6 }

    /// Let the library say on standard error what it could not do
    verbose: bool = false, { key: "verbose", letter: Some('v'), since: 1 }

    /// Do not warn when the program has to run unchanged
    quiet: bool = false, { key: "quiet", letter: Some('q'), obeyed_by: Obeyed::Launcher }

    /// Rounds of a busy-wait loop before its thread first yields the CPU
    spins: Number = 10, { key: "spins", value: "N", unit: "rounds", section: WAITING, since: 1 }

    /// Yields before the first sleep
    yields: Number = 1000, { key: "yields", value: "N", unit: "yields", section: WAITING, since: 1 }

    /// By how much each sleep is longer than the one before
    sleep_step_us: Microseconds = 100,
    { key: "sleep-step", value: "TIME", section: WAITING, formerly: "step_us", since: 8 }

    /// The longest sleep
    sleep_max_us: Microseconds = 1000,
    { key: "sleep-max", value: "TIME", section: WAITING, formerly: "ceiling_us", since: 8 }

    /// While CPUs are short, ask the running program whether it does more work with Manx's waits or
    /// with its own: for measuring
    trial: Trial = Trial::On, { key: "trial", value: "HOW", section: WAITING, since: 9 }

    /// Say whether CPUs are short, instead of finding out: for tests
    short: Short = Short::Auto, { key: "short", value: "WHEN", is_hidden: true, since: 6 }

    /// The process that the launcher became. It alone uses the name given by `stats`; other
    /// processes append their own process id. 0: every process counts as the first.
    pid: Number = 0, { key: "", since: 1 }
}

words! {
    /// How the guard against busy waiting works.
    pub enum Guard is "a way to guard" {
        /// Repair busy-wait loops when the program creates its first thread
        On = 0 => "on",
        /// Leave busy-wait loops alone
        Off = 1 => "off",
        /// Repair them as soon as the program is loaded
        Always = 2 => "always",
    }

    /// What the program's mutexes and condition variables become.
    pub enum Lock is "a lock" {
        /// Running threads may overtake sleeping ones, for at most a window of time: fast, and no
        /// thread starves
        Manx = 0 => "manx",
        /// Any running thread may take a free lock, without a bound; waiting is adaptive
        Adaptive = 1 => "adaptive",
        /// As manx, but threads on little cores let those on big ones pass, for as long as their
        /// epoch's SLO allows
        Asl = 2 => "asl",
        /// In the order of arrival, whatever it costs when threads outnumber CPUs
        Fifo = 3 => "fifo",
        /// Leave them to the C library
        Glibc = 4 => "glibc",
    }

    /// What is done about a quota of CPU time.
    pub enum Quota is "a way to treat a quota" {
        /// Keep the program to as many CPUs as its quota pays for, while it uses the quota up
        Pace = 0 => "pace",
        /// Leave the program to the kernel, which stops it when the quota is used up
        Leave = 1 => "leave",
    }

    /// Whether the running program is asked if Manx's waits help.
    pub enum Trial is "a trial" {
        /// Ask again and again, and wait in the better way
        On = 0 => "on",
        /// Never ask: wait as a program does that has not been asked yet
        Off = 1 => "off",
        /// Never ask: always wait in Manx's way
        AlwaysCure = 2 => "always-cure",
    }

    /// Whether CPUs are taken to be short: whether waits that spin are to sleep instead.
    pub enum Short is "an answer" {
        /// The library finds out, again and again
        Auto = 0 => "auto",
        /// They are, whatever the machine says
        Always = 1 => "always",
        /// They are not: every wait spins as its author wrote
        Never = 2 => "never",
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
        Options::read(text, |setting| !setting.is_launchers())
    }

    /// Reads an options string of the launcher, which may hold every setting.
    pub fn parse_all(text: &'a [u8]) -> Options<'a> {
        Options::read(text, |_| true)
    }

    fn read(text: &'a [u8], is_known: fn(&Setting) -> bool) -> Options<'a> {
        let mut options = Options::DEFAULT;
        for pair in text.split(|&b| b == b',').filter(|p| !p.is_empty()) {
            if options.set(pair, is_known).is_none() && options.rejected.is_none() {
                options.rejected = Some(pair);
            }
        }
        options
    }

    fn set(&mut self, pair: &'a [u8], is_known: fn(&Setting) -> bool) -> Option<()> {
        let at = pair.iter().position(|&b| b == b'=')?;
        let setting = SETTINGS.iter().find(|setting| setting.is_called(&pair[..at]) && is_known(setting))?;
        (setting.read)(self, &pair[at + 1..])
    }

    /// Which programs, libraries and loops are meant.
    pub const fn filters(&self) -> Filters<'a> {
        Filters { only: self.only, not: self.not }
    }
}

impl fmt::Display for Options<'_> {
    /// What [`Options::parse`] reads back as the same options, but for what the launcher alone
    /// obeys: the first setting, so that the string is never empty, and those that are not at their
    /// defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, setting) in SETTINGS.iter().enumerate().filter(|(_, setting)| !setting.is_launchers()) {
            if index == 0 || !(setting.is_default)(self) {
                let separator = if index == 0 { "" } else { "," };
                write!(f, "{separator}{}=", setting.name)?;
                (setting.write)(self, f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VERSION;

    /// A value that is not the default, as an options string has it.
    fn other(setting: &Setting) -> String {
        let default = value(setting, &Options::DEFAULT);
        match setting.form {
            Form::Word(words, _) | Form::Words(words, _) => {
                words.iter().find(|word| word.word != default).expect("a second word").word.to_owned()
            }
            Form::Switch => if default == "on" { "off" } else { "on" }.to_owned(),
            Form::Number | Form::Microseconds | Form::Thousandths => {
                (default.parse::<u32>().expect("a number") + 1).to_string()
            }
            Form::Cpus => "3".to_owned(),
            Form::Cores => "big:0-3%2Clittle:4-7".to_owned(),
            Form::Slos => "5:9900+7:6:9990".to_owned(),
            Form::Entries => "mongod+libstdc%2B%2B.so.6:0x1f".to_owned(),
            Form::Stats => "/tmp/a%2Cb".to_owned(),
        }
    }

    fn value(setting: &Setting, options: &Options<'_>) -> String {
        let mut text = String::new();
        (setting.write)(options, &mut text).expect("writing to a String");
        text
    }

    #[test]
    fn each_option_is_read_and_written() {
        let pairs: Vec<_> = SETTINGS.iter().map(|s| format!("{}={}", s.name, other(s))).collect();
        for (setting, pair) in SETTINGS.iter().zip(&pairs) {
            let formerly = format!("{}={}", setting.formerly, other(setting));
            let written = Options::parse_all(pair.as_bytes()).to_string();
            let read = Options::parse_all(pair.as_bytes());
            assert_eq!((read.rejected, value(setting, &read)), (None, other(setting)), "{pair}");
            let changed: Vec<_> = SETTINGS.iter().filter(|other| !(other.is_default)(&read)).collect();
            assert_eq!(changed.iter().map(|changed| changed.name).collect::<Vec<_>>(), [setting.name]);
            let known = Options::parse(pair.as_bytes());
            if setting.is_launchers() {
                assert_eq!(known, Options { rejected: Some(pair.as_bytes()), ..Options::DEFAULT });
            } else {
                assert_eq!(known, read);
                assert_eq!(Options::parse(written.as_bytes()), read);
            }
            if !setting.formerly.is_empty() {
                assert_eq!(Options::parse(formerly.as_bytes()), read);
            }
        }
        let all = pairs.join(",");
        let read = Options::parse_all(all.as_bytes());
        let written = read.to_string();
        let kept = pairs.iter().zip(SETTINGS).filter(|(_, setting)| !setting.is_launchers());
        assert_eq!(written, kept.map(|(pair, _)| &**pair).collect::<Vec<_>>().join(","));
        assert_eq!(Options::parse(b""), Options::DEFAULT);
        assert_eq!(Options::DEFAULT.to_string(), "guard=on");
    }

    #[test]
    fn entries_keep_to_the_rules_of_their_columns() {
        for setting in SETTINGS {
            let Setting { name, key, form, since, .. } = *setting;
            let unit = if matches!(form, Form::Microseconds) { "_us" } else { "" };
            assert!(key.is_empty() || name == key.replace('-', "_") + unit, "{name}: {key}");
            assert_eq!(since == 0, setting.is_launchers(), "{name}");
            assert!(since <= VERSION, "{name}");
            assert_eq!(setting.value.is_empty(), key.is_empty() || matches!(form, Form::Switch), "{name}");
            let flag = if matches!(form, Form::Switch) && value(setting, &Options::DEFAULT) == "on" {
                format!("no-{key}")
            } else {
                key.to_owned()
            };
            assert_eq!(setting.flag(), flag, "{name}");
            let clashes = SETTINGS.iter().filter(|other| {
                [other.name, other.formerly].contains(&name) || !key.is_empty() && other.key == key
            });
            assert_eq!(clashes.count(), 1, "{name}");
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
            "=1",
            "stats=",
        ] {
            let options = Options::parse(bad.as_bytes());
            assert_eq!(options, Options { rejected: Some(bad.as_bytes()), ..Options::DEFAULT });
        }
    }

    #[test]
    fn every_lock_has_a_number_of_its_own() {
        for lock in Lock::ALL {
            assert_eq!(Lock::from_number(lock as u32), Some(lock));
        }
        assert_eq!(Lock::from_number(Lock::ALL.len() as u32), None);
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
