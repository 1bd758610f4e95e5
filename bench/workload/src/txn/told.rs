//! What a measured process is told: the options of the drivers in C, and those of Manx's store, as
//! `--name=value`.

use super::mix::Mix;
use super::record::VALUE_MIN;
use std::path::PathBuf;

/// The protocols of Manx's store, by which a snapshot treats a session that is about to get its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Spins until it has one: WiredTiger's way
    Spin,
    /// Spins a little, yields, then sleeps: the paper's repair
    Wait,
    /// Does it in its place
    Help,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Spin, Way::Wait, Way::Help];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Spin => "spin",
            Way::Wait => "wait",
            Way::Help => "help",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Manx's store in memory
    Store,
    /// Manx's store over its durable component
    Durable,
    /// That component alone
    Component,
    /// What a transaction that only reads costs
    Reads,
    /// A server, at [`Told::port`]
    Remote,
}

impl What {
    /// All of them, by name.
    pub const ALL: [(&'static str, What); 5] = [
        ("store", What::Store),
        ("durable", What::Durable),
        ("component", What::Component),
        ("reads", What::Reads),
        ("remote", What::Remote),
    ];

    /// By which it is asked for.
    pub fn name(self) -> &'static str {
        What::ALL.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// What is measured
    pub what: What,
    /// By which protocol
    pub way: Way,
    /// Which operations
    pub mix: Mix,
    /// Records to load
    pub records: u64,
    /// The size of a value
    pub value_bytes: usize,
    /// Session threads
    pub threads: usize,
    /// Measured time, in seconds
    pub seconds: f64,
    /// Seconds before it
    pub warm_up: f64,
    /// Mean of the exponential think time; 0: closed loop
    pub think_us: f64,
    /// The CPUs; none: all
    pub cpus: Vec<usize>,
    /// Boosted threads
    pub boost: usize,
    /// Their niceness
    pub nice: i32,
    /// That of the others then
    pub others: i32,
    /// Seconds of the measured time between which it is so
    pub window: Option<(f64, f64)>,
    /// Of keys and think times
    pub seed: u64,
    /// Where a durable component keeps its files
    pub home: Option<PathBuf>,
    /// Sessions without a transaction, of [`What::Reads`]
    pub idle: usize,
    /// Sessions with a transaction that has written, of [`What::Reads`]
    pub writers: usize,
    /// Where a server listens, of [`What::Remote`]
    pub port: Option<u16>,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            what: What::Store,
            way: Way::Help,
            mix: Mix::named("change").expect("it is in the table"),
            records: 100_000,
            value_bytes: 1000,
            threads: 8,
            seconds: 5.0,
            warm_up: 1.0,
            think_us: 0.0,
            cpus: Vec::new(),
            boost: 0,
            nice: -20,
            others: 0,
            window: None,
            seed: 1,
            home: None,
            idle: 0,
            writers: 0,
            port: None,
        }
    }
}

fn number<T: std::str::FromStr + PartialOrd>(name: &str, text: &str, from: T, to: T) -> Result<T, String> {
    match text.parse() {
        Ok(value) if value >= from && value <= to => Ok(value),
        _ => Err(format!("--{name}: '{text}' is not a number within its bounds")),
    }
}

fn named<T: Copy>(
    name: &str,
    text: &str,
    known: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<T, String> {
    let mut known = known.into_iter();
    known
        .find(|(word, _)| *word == text)
        .map(|(_, value)| value)
        .ok_or_else(|| format!("--{name}: there is no '{text}'"))
}

impl Told {
    /// From `--name=value` and `--name value`.
    ///
    /// # Errors
    /// What cannot be understood.
    pub fn parse(arguments: &[String]) -> Result<Told, String> {
        let mut told = Told::default();
        let (mut from, mut to) = (0.0, 0.0);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let name = argument.strip_prefix("--").ok_or_else(|| format!("'{argument}': not an option"))?;
            let (name, value) = match name.split_once('=') {
                Some(both) => both,
                None => (name, rest.next().ok_or_else(|| format!("--{name}: a value is missing"))?.as_str()),
            };
            match name {
                "what" => told.what = named(name, value, What::ALL)?,
                "protocol" => told.way = named(name, value, Way::ALL.map(|way| (way.name(), way)))?,
                "workload" => {
                    told.mix = Mix::named(value).ok_or_else(|| format!("--{name}: there is no '{value}'"))?
                }
                "keys" => told.mix.keys = named(name, value, super::keys::Kind::ALL)?,
                "records" => told.records = number(name, value, 100, 100_000_000)?,
                "value-bytes" => told.value_bytes = number(name, value, VALUE_MIN, 1 << 20)?,
                "threads" => told.threads = number(name, value, 1, 4096)?,
                "seconds" => told.seconds = number(name, value, 0.05, 3600.0)?,
                "warm-up" => told.warm_up = number(name, value, 0.0, 3600.0)?,
                "think-us" => told.think_us = number(name, value, 0.0, 1e7)?,
                "boost" => told.boost = number(name, value, 0, 4096)?,
                "nice" => told.nice = number(name, value, -20, 19)?,
                "others" => told.others = number(name, value, -20, 19)?,
                "boost-from" => from = number(name, value, 0.0, 3600.0)?,
                "boost-to" => to = number(name, value, 0.0, 3600.0)?,
                "seed" => told.seed = number(name, value, 0, u64::MAX)?,
                "home" => told.home = Some(value.into()),
                "idle" => told.idle = number(name, value, 0, 1_000_000)?,
                "writers" => told.writers = number(name, value, 0, 1_000_000)?,
                "port" => told.port = Some(number(name, value, 1, u16::MAX)?),
                "cpus" => {
                    let all: Result<Vec<usize>, String> =
                        value.split(',').map(|cpu| number(name, cpu, 0, 4095)).collect();
                    told.cpus = all?;
                }
                other => return Err(format!("--{other}: there is no such option")),
            }
        }
        if told.boost > told.threads {
            return Err(format!("--boost={}: there are only {} threads", told.boost, told.threads));
        }
        told.window = (to > 0.0).then_some((from, to));
        if told.window.is_some_and(|(from, to)| from >= to || to > told.seconds) {
            return Err("--boost-from, --boost-to: not one after the other within the measured time".into());
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Load;

    #[test]
    fn what_engines_are_told_is_understood() {
        let load = Load {
            think_us: 300.0,
            boost: 4,
            lowered: true,
            window: Some((1.0, 2.0)),
            seed: 7,
            more: ["--protocol=wait", "--workload=a", "--keys=uniform", "--what=durable"]
                .map(str::to_owned)
                .into(),
            ..Load::new(20, 3.0, 0.5, "0,1")
        };
        let mut arguments = load.arguments();
        arguments.extend(["--home".to_owned(), "/x y".to_owned()]);
        let told = Told::parse(&arguments).unwrap();
        assert_eq!((told.threads, told.boost, told.nice, told.others), (20, 4, 0, 19));
        assert_eq!((told.window, told.cpus, told.seed), (Some((1.0, 2.0)), vec![0, 1], 7));
        assert_eq!((told.way, told.what, told.mix.name), (Way::Wait, What::Durable, "a"));
        assert_eq!((told.mix.keys, told.home), (super::super::keys::Kind::Uniform, Some("/x y".into())));
        assert_eq!(Told::parse(&[]).unwrap(), Told::default());
    }

    #[test]
    fn nonsense_is_refused() {
        for (arguments, why) in [
            ("threads=8", "not an option"),
            ("--wheels=4", "there is no such option"),
            ("--threads=0", "within its bounds"),
            ("--threads", "a value is missing"),
            ("--workload=g", "there is no 'g'"),
            ("--threads=2 --boost=3", "only 2 threads"),
            ("--seconds=1 --boost-from=0.5 --boost-to=2", "within the measured time"),
            ("--value-bytes=47", "within its bounds"),
        ] {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let error = Told::parse(&arguments).unwrap_err();
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}
