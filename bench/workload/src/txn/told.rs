//! What a measured process is told, as `--name=value`: options of our own, and those of the driver,
//! which are passed on.

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
    /// Measured time, in seconds
    pub seconds: f64,
    /// Seconds before it
    pub warm_up: f64,
    /// The CPUs; none: all
    pub cpus: Vec<usize>,
    /// Where a durable component keeps its files
    pub home: Option<PathBuf>,
    /// Sessions without a transaction, of [`What::Reads`]
    pub idle: usize,
    /// Sessions with a transaction that has written, of [`What::Reads`]
    pub writers: usize,
    /// Where a server listens, of [`What::Remote`]
    pub port: Option<u16>,
    /// What the driver is told
    pub driver: Vec<String>,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            what: What::Store,
            way: Way::Help,
            seconds: 5.0,
            warm_up: 1.0,
            cpus: Vec::new(),
            home: None,
            idle: 0,
            writers: 0,
            port: None,
            driver: Vec::new(),
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
    /// What cannot be understood. The driver refuses what it does not know itself.
    pub fn parse(arguments: &[String]) -> Result<Told, String> {
        let mut told = Told::default();
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
                "home" => told.home = Some(value.into()),
                "idle" => told.idle = number(name, value, 0, 1_000_000)?,
                "writers" => told.writers = number(name, value, 0, 1_000_000)?,
                "port" => told.port = Some(number(name, value, 1, u16::MAX)?),
                _ => told.driver.push(format!("--{name}={value}")),
            }
            match name {
                "seconds" => told.seconds = number(name, value, 0.05, 3600.0)?,
                "warm-up" => told.warm_up = number(name, value, 0.0, 3600.0)?,
                "cpus" => {
                    let all: Result<Vec<usize>, String> =
                        value.split(',').map(|cpu| number(name, cpu, 0, 4095)).collect();
                    told.cpus = all?;
                }
                _ => {}
            }
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
        assert_eq!((told.seconds, told.warm_up, told.cpus), (3.0, 0.5, vec![0, 1]));
        assert_eq!((told.way, told.what, told.home), (Way::Wait, What::Durable, Some("/x y".into())));
        let passed_on = "--threads=20 --seconds=3 --warm-up=0.5 --think-us=300 --cpus=0,1 --seed=7 --boost=4 \
                         --nice=0 --others=19 --boost-from=1 --boost-to=2 --workload=a --keys=uniform";
        assert_eq!(told.driver.join(" "), passed_on);
        assert_eq!(Told::parse(&[]).unwrap(), Told::default());
    }

    #[test]
    fn nonsense_is_refused() {
        for (arguments, why) in [
            ("threads=8", "not an option"),
            ("--what=wheels", "there is no 'wheels'"),
            ("--seconds=0", "within its bounds"),
            ("--threads", "a value is missing"),
            ("--port=0", "within its bounds"),
            ("--cpus=0,x", "within its bounds"),
        ] {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let error = Told::parse(&arguments).unwrap_err();
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}
