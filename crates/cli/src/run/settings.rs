//! The settings of `manx run`, put together from all places that may set them.
//!
//! The nearest to the command wins: its flags, then the file that `--config` names, then
//! `MANX_OPTIONS` (which an outer `manx run` or a container may have set), then the defaults.

use super::config;
use super::layer::{Destination, Layer, absolute, parse_cpus, parse_entry};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use command::cores::{parse_cores, parse_dilation};
use command::duration::parse_us;
use command::failure::{Failure, USAGE};
use command::search;
use command::slo::parse_slo;
use manx::cpu::{Classes, MEASURED};
use preload_abi::cpus::{Cpus, Place, Places};
use preload_abi::filter::{Entries, Filters};
use preload_abi::options::{self, Guard, Lock, Options, Short, Stats};
use preload_abi::slo::{SLOS_MAX, Slo, Slos};
use preload_abi::{CORES_VARIABLE, OPTIONS_VARIABLE};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The flags of `manx run` that say how the program is to be run.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// How to guard against busy waiting [default: on]
    #[arg(long, value_name = "HOW", value_parser = guards())]
    guard: Option<Guard>,

    /// What the program's mutexes and condition variables become [default: manx]
    #[arg(long, value_name = "WHICH", value_parser = locks())]
    lock: Option<Lock>,

    /// A latency target, as 2ms or 2ms@p99.9: waits for locks may be as long as it allows, and no
    /// longer
    ///
    /// It is for requests: from the return of a read from a socket to the next write to it, by the
    /// same thread. For epochs that the program marks itself (manx_epoch_start), put their id
    /// before it, as in 7=500us@p99; then it replaces what the program says. The percentile is 99
    /// unless given. May be given several times.
    #[arg(long, value_name = "[ID=]TIME[@pN]", value_parser = parse_slo)]
    slo: Vec<Slo>,

    /// Which CPUs are fast and which are slow, as big:0-3,little:4-7, or measured [default: as the
    /// machine says]
    #[arg(long, value_name = "CORES", value_parser = parse_cores)]
    cores: Option<String>,

    /// Take threads on slow CPUs RATIO times as long for everything, to measure locks on a machine
    /// whose CPUs are alike
    ///
    /// A thread of a little CPU (see --cores) is held up before each mutex that it locks or
    /// unlocks, for RATIO - 1 times the CPU time since the last one; with every --lock, glibc too.
    /// Pin threads to CPUs for it to make sense.
    #[arg(long, value_name = "RATIO", value_parser = parse_dilation)]
    dilate: Option<u32>,

    /// How many CPUs the program is told that it has: auto, a number, or keep [default: auto]
    ///
    /// auto is what it really gets, by its affinity, its cpuset and the quotas of its control
    /// groups. A fraction is rounded down, or as the program's runtime rounds quotas itself. A
    /// number is that many; keep leaves it what it would be told. It is told where it asks the C
    /// library, and by variables such as GOMAXPROCS that are not set yet, and never of more CPUs
    /// than the machine has. See `manx cpus`.
    #[arg(long, value_name = "COUNT", value_parser = parse_cpus)]
    cpus: Option<Cpus>,

    /// Tell it that in these places too, where a program may need to know the machine
    ///
    /// Separated by commas.
    #[arg(long, value_name = "WHERE", value_delimiter = ',', value_parser = places())]
    cpus_also: Vec<Place>,

    /// What is meant: executables, libraries, LIBRARY:SYMBOL or LIBRARY:0xOFFSET; all else is left
    /// alone
    ///
    /// See "Filters" below. May be given several times, or with commas between.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = parse_entry)]
    only: Vec<String>,

    /// What is not meant, even if --only names it: written in the same way
    ///
    /// See "Filters" below. May be given several times, or with commas between.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = parse_entry)]
    not: Vec<String>,

    /// Count where threads wait, in loops and for locks: a table on standard error when the program
    /// exits, or JSON in FILE
    ///
    /// While the program runs, `manx stats` shows the same; nothing is lost if it is killed.
    /// Processes that it starts append their process id to FILE. With `live` nothing is written at
    /// the end: the counts are for `manx stats` and `manx exporter` while it runs. `stderr`, `live`
    /// and `off` are not file names here: write ./off.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "stderr")]
    stats: Option<OsString>,

    /// Read settings from this TOML file
    ///
    /// See "Settings in a file" below. A flag of the command line wins over the file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Rounds of a busy-wait loop before its thread first yields the CPU [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Waiting")]
    spins: Option<u32>,

    /// Yields before the first sleep [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Waiting")]
    yields: Option<u32>,

    /// By how much each sleep is longer than the one before [default: 100us]
    #[arg(long, value_name = "TIME", value_parser = parse_us, help_heading = "Waiting")]
    sleep_step: Option<u32>,

    /// The longest sleep [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_us, help_heading = "Waiting")]
    sleep_max: Option<u32>,

    /// Say whether CPUs are short, instead of finding out: for tests [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = parse_short, hide = true)]
    short: Option<Short>,

    /// Do not keep in the user's cache folder what was found in the program and its libraries
    #[arg(long)]
    no_cache: bool,

    /// Name the copies in which loops go on in /tmp/perf-PID.map, so that `perf` shows them
    #[arg(long)]
    perf_map: bool,

    /// Let the library say on standard error what it could not do
    #[arg(short, long)]
    verbose: bool,

    /// Do not warn when the program has to run unchanged
    #[arg(short, long)]
    quiet: bool,
}

/// The words of an option, each with its help, and what `read` makes of them.
fn words<T: Clone + Send + Sync + 'static, const N: usize>(
    words: [[&'static str; 2]; N],
    read: fn(&[u8]) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|[word, help]| PossibleValue::new(word).help(help)))
        .map(move |word| read(word.as_bytes()).expect("each word of the list is known"))
}

/// Reads how to guard.
fn guards() -> impl TypedValueParser<Value = Guard> {
    let known = [
        ["on", "Repair busy-wait loops when the program creates its first thread"],
        ["off", "Leave busy-wait loops alone"],
        ["always", "Repair them as soon as the program is loaded"],
    ];
    words(known, Guard::from_word)
}

/// Reads which lock to use.
fn locks() -> impl TypedValueParser<Value = Lock> {
    let known = [
        [
            "manx",
            "Running threads may overtake sleeping ones, for at most a window of time: fast, and no thread starves",
        ],
        ["adaptive", "Any running thread may take a free lock, without a bound; waiting is adaptive"],
        [
            "asl",
            "As manx, but threads on little cores let those on big ones pass, for as long as their epoch's SLO allows",
        ],
        ["fifo", "In the order of arrival, whatever it costs when threads outnumber CPUs"],
        ["glibc", "Leave them to the C library"],
    ];
    words(known, Lock::from_word)
}

/// Reads a place where CPU counts are reported only if asked for.
fn places() -> impl TypedValueParser<Value = Place> {
    let known = [
        [
            "affinity",
            "Affinity masks, whoever asks: for programs that count the CPUs in them, and bind no thread",
        ],
        [
            "configured",
            "The number of configured CPUs: for programs that have no table for each CPU's number",
        ],
        ["java", "JAVA_TOOL_OPTIONS: Java then says on standard error that it is set"],
    ];
    words(known, |word| Place::ALL.into_iter().find(|place| place.word().as_bytes() == word))
}

/// Reads a count.
fn parse_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u32::MAX))
}

/// Reads whether CPUs are short.
fn parse_short(text: &str) -> Result<Short, String> {
    Short::from_word(text.as_bytes()).ok_or_else(|| "write auto, always or never".to_owned())
}

impl From<&Flags> for Layer {
    fn from(flags: &Flags) -> Layer {
        Layer {
            guard: flags.guard,
            lock: flags.lock,
            short: flags.short,
            slos: (!flags.slo.is_empty()).then(|| flags.slo.clone()),
            cores: flags.cores.clone(),
            dilation: flags.dilate,
            cpus: flags.cpus,
            cpus_also: (!flags.cpus_also.is_empty())
                .then(|| flags.cpus_also.iter().fold(Places::NONE, |places, place| places.with(*place))),
            only: (!flags.only.is_empty()).then(|| flags.only.clone()),
            not: (!flags.not.is_empty()).then(|| flags.not.clone()),
            stats: flags.stats.as_deref().map(Destination::from_word),
            spins: flags.spins,
            yields: flags.yields,
            sleep_step_us: flags.sleep_step,
            sleep_max_us: flags.sleep_max,
            perf_map: flags.perf_map.then_some(true),
            cache: flags.no_cache.then_some(false),
            verbose: flags.verbose.then_some(true),
            quiet: flags.quiet.then_some(true),
        }
    }
}

/// What the program is to be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Everything but where statistics go, the targets and the filters, which do not live as long.
    options: Options<'static>,
    slos: Vec<Slo>,
    /// The filters, as they stand in `MANX_OPTIONS`.
    only: String,
    not: String,
    /// What `MANX_CORES` is to be in the program's environment, if it was said.
    pub cores: Option<String>,
    stats: Destination,
    /// The process that an outer `manx run` became, if its file for statistics is still the one:
    /// that process alone writes to the file itself. Otherwise 0.
    outer: u32,
    /// No warning is to be given.
    pub quiet: bool,
}

impl Settings {
    /// Puts the settings together.
    ///
    /// # Errors
    /// With code 2 if `MANX_OPTIONS` or the configuration file cannot be understood, or statistics
    /// cannot go where they should.
    pub fn gather(flags: &Flags) -> Result<Settings, Failure> {
        let environment = std::env::var_os(OPTIONS_VARIABLE).unwrap_or_default();
        let mut settings = Settings::from_environment(environment.as_bytes())?;
        if let Some(file) = &flags.config {
            settings.overlay(config::read(file)?);
        }
        settings.overlay(flags.into());
        if settings.slos.len() > SLOS_MAX {
            let what = format!("--slo: {} targets, of {SLOS_MAX} that there may be", settings.slos.len());
            return Err(Failure::new(USAGE, what, "leave out those that the program itself says"));
        }
        for (flag, list) in [("--only", &settings.only), ("--not", &settings.not)] {
            Entries::try_from(list.as_bytes()).map_err(|fault| {
                Failure::new(USAGE, format!("{flag}: {fault}"), "name fewer, or several at once by a `*`")
            })?;
        }
        if settings.cores.is_none() {
            let classes = Classes::from_environment().map_err(|error| {
                let help = "correct it, or unset the variable and use --cores: see `manx run --help`";
                Failure::new(USAGE, format!("{CORES_VARIABLE}: {error}"), help)
            })?;
            // The program gets the measured classes, because it should not measure in its own
            // process.
            let to_measure = std::env::var_os(CORES_VARIABLE).is_some_and(|text| text == MEASURED);
            settings.cores = classes.filter(|_| to_measure).map(|measured| measured.to_string());
        }
        if let Destination::File(path) = &settings.stats {
            check_destination(path)?;
        }
        Ok(settings)
    }

    fn from_environment(text: &[u8]) -> Result<Settings, Failure> {
        // Without `..`, so that the compiler asks for each new field.
        let Options {
            guard,
            lock,
            dilation,
            short,
            slos,
            cpus,
            cpus_also,
            filters,
            stats,
            pid,
            cache,
            perf_map,
            verbose,
            spins,
            yields,
            step_us,
            ceiling_us,
            rejected,
        } = Options::parse(text);
        let not_understood = |what: &[u8]| {
            Failure::new(
                USAGE,
                format!("{OPTIONS_VARIABLE}: `{}` is not understood", String::from_utf8_lossy(what)),
                "correct it, or unset the variable and use the flags: see `manx run --help`",
            )
        };
        if let Some(rejected) = rejected {
            return Err(not_understood(rejected));
        }
        let stats = match stats {
            Stats::Off => Destination::Nowhere,
            Stats::Stderr => Destination::Stderr,
            Stats::Live => Destination::Live,
            Stats::File(encoded) => {
                let mut buffer = vec![0; encoded.len()];
                let path = options::decode(encoded, &mut buffer).ok_or_else(|| not_understood(encoded))?;
                Destination::File(absolute(OsString::from_vec(path.to_vec()).into()))
            }
        };
        let outer = if matches!(stats, Destination::File(_)) { pid } else { 0 };
        let (slos, only, not) = (slos.iter().collect(), filters.only.to_string(), filters.not.to_string());
        let stated = Options {
            guard,
            lock,
            dilation,
            short,
            cpus,
            cpus_also,
            pid,
            cache,
            perf_map,
            verbose,
            spins,
            yields,
            step_us,
            ceiling_us,
            ..Options::default()
        };
        Ok(Settings { options: stated, slos, only, not, cores: None, stats, outer, quiet: false })
    }

    fn overlay(&mut self, layer: Layer) {
        fn put<T>(field: &mut T, said: Option<T>) {
            if let Some(value) = said {
                *field = value;
            }
        }
        put(&mut self.options.guard, layer.guard);
        put(&mut self.options.lock, layer.lock);
        put(&mut self.options.short, layer.short);
        put(&mut self.options.dilation, layer.dilation);
        put(&mut self.slos, layer.slos);
        put(&mut self.options.cpus, layer.cpus);
        put(&mut self.options.cpus_also, layer.cpus_also);
        put(&mut self.only, layer.only.map(|entries| entries.join("+")));
        put(&mut self.not, layer.not.map(|entries| entries.join("+")));
        self.cores = layer.cores.or(self.cores.take());
        if let Some(stats) = layer.stats {
            (self.stats, self.outer) = (stats, 0);
        }
        put(&mut self.options.spins, layer.spins);
        put(&mut self.options.yields, layer.yields);
        put(&mut self.options.step_us, layer.sleep_step_us);
        put(&mut self.options.ceiling_us, layer.sleep_max_us);
        put(&mut self.options.perf_map, layer.perf_map);
        put(&mut self.options.cache, layer.cache);
        put(&mut self.options.verbose, layer.verbose);
        put(&mut self.quiet, layer.quiet);
    }

    /// Keeps counts for what looks while the program runs, unless they go somewhere already.
    pub fn keep_counts(&mut self) {
        if self.stats == Destination::Nowhere {
            self.stats = Destination::Live;
        }
    }

    /// Whether counts are kept only while the program runs.
    pub fn counts_live(&self) -> bool {
        self.stats == Destination::Live
    }

    /// The value of `MANX_OPTIONS` for the process `pid`.
    pub fn to_options(&self, pid: u32) -> String {
        let mut encoded = String::new();
        let stats = match &self.stats {
            Destination::Nowhere => Stats::Off,
            Destination::Stderr => Stats::Stderr,
            Destination::Live => Stats::Live,
            Destination::File(path) => {
                options::encode(path.as_os_str().as_bytes(), &mut encoded).expect("writing to a String");
                Stats::File(encoded.as_bytes())
            }
        };
        let pid = if self.outer == 0 { pid } else { self.outer };
        let slos: Vec<_> = self.slos.iter().map(Slo::to_string).collect();
        let slos = slos.join("+");
        let slos = Slos::parse(slos.as_bytes()).expect("targets are well formed");
        Options { pid, stats, slos, filters: self.filters(), ..self.options }.to_string()
    }

    /// What is meant.
    pub fn filters(&self) -> Filters<'_> {
        let read = |list| Entries::try_from(str::as_bytes(list)).expect("lists are well-formed");
        Filters { only: read(&self.only), not: read(&self.not) }
    }

    /// How the guard is to work.
    pub fn guard(&self) -> Guard {
        self.options.guard
    }

    /// What the program's mutexes become.
    pub fn lock(&self) -> Lock {
        self.options.lock
    }

    /// Whether there is a latency target for requests, which no program marks.
    pub fn wants_requests(&self) -> bool {
        self.slos.iter().any(|slo| slo.id.is_none())
    }

    /// Whether what is found may be kept in the user's cache folder.
    pub fn uses_cache(&self) -> bool {
        self.options.cache
    }

    /// The number of CPUs that is reported to the program.
    pub fn cpus(&self) -> Cpus {
        self.options.cpus
    }

    /// Where else that number is reported, beyond the counts that the program asks for.
    pub fn cpus_also(&self) -> Places {
        self.options.cpus_also
    }
}

/// Refuses a file for statistics that could not be written when the program ends, since it is too
/// late then.
fn check_destination(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str, help: &str| {
        Err(Failure::new(USAGE, format!("statistics cannot go to {}: {why}", path.display()), help))
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if path.is_dir() {
        refuse("it is a folder", "name a file in it")
    } else if path.exists() && !path.is_file() {
        refuse("it is no regular file", "name one; `--stats` alone writes to standard error")
    } else if !folder.is_dir() {
        refuse("there is no such folder", "create the folder first")
    } else if !search::access(folder, libc::W_OK | libc::X_OK) {
        refuse("you may not write to its folder", "name a file elsewhere")
    } else if path.exists() && !search::access(path, libc::W_OK) {
        refuse("you may not write to it", "name another file")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
