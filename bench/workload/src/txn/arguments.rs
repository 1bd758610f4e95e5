//! The arguments of a measured process, as `--name=value`: our own options, and the driver's, which
//! are passed on.

use std::path::PathBuf;

contention::named! {
    /// The protocols of Manx's store for a snapshot while a session allocates its id.
    pub enum Way {
        /// The snapshot spins until the session has its id: WiredTiger's protocol
        Spin = "spin",
        /// The snapshot spins a little, yields, then sleeps: the paper's repair
        Wait = "wait",
        /// The snapshot finishes the allocation itself
        Help = "help",
    }
}

contention::named! {
    /// What is measured.
    pub enum What {
        /// Manx's store in memory
        Store = "store",
        /// Manx's store over its durable component
        Durable = "durable",
        /// That component alone
        Component = "component",
        /// What a transaction that only reads costs
        Reads = "reads",
    }
}

/// The arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
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
    /// The driver's arguments
    pub driver: Vec<String>,
}

impl Default for Arguments {
    fn default() -> Arguments {
        Arguments {
            what: What::Store,
            way: Way::Help,
            seconds: 5.0,
            warm_up: 1.0,
            cpus: Vec::new(),
            home: None,
            idle: 0,
            writers: 0,
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

fn named<T: Copy>(option: &str, text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let known = all.iter().copied().find(|one| name(*one) == text);
    known.ok_or_else(|| format!("--{option}: there is no '{text}'"))
}

impl Arguments {
    /// From `--name=value` and `--name value`.
    ///
    /// # Errors
    /// An argument that is not understood. The driver itself refuses options that it does not know.
    pub fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let mut parsed = Arguments::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let name = argument.strip_prefix("--").ok_or_else(|| format!("'{argument}': not an option"))?;
            let (name, value) = match name.split_once('=') {
                Some(both) => both,
                None => (name, rest.next().ok_or_else(|| format!("--{name}: a value is missing"))?.as_str()),
            };
            match name {
                "what" => parsed.what = named(name, value, &What::ALL, What::name)?,
                "protocol" => parsed.way = named(name, value, &Way::ALL, Way::name)?,
                "home" => parsed.home = Some(value.into()),
                "idle" => parsed.idle = number(name, value, 0, 1_000_000)?,
                "writers" => parsed.writers = number(name, value, 0, 1_000_000)?,
                _ => parsed.driver.push(format!("--{name}={value}")),
            }
            match name {
                "seconds" => parsed.seconds = number(name, value, 0.05, 3600.0)?,
                "warm-up" => parsed.warm_up = number(name, value, 0.0, 3600.0)?,
                "cpus" => {
                    let all: Result<Vec<usize>, String> =
                        value.split(',').map(|cpu| number(name, cpu, 0, 4095)).collect();
                    parsed.cpus = all?;
                }
                _ => {}
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Load;

    #[test]
    fn the_arguments_of_engines_are_understood() {
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
        let parsed = Arguments::parse(&arguments).unwrap();
        assert_eq!((parsed.seconds, parsed.warm_up, parsed.cpus), (3.0, 0.5, vec![0, 1]));
        assert_eq!((parsed.way, parsed.what, parsed.home), (Way::Wait, What::Durable, Some("/x y".into())));
        let passed_on = "--threads=20 --seconds=3 --warm-up=0.5 --think-us=300 --cpus=0,1 --seed=7 --boost=4 \
                         --nice=0 --others=19 --boost-from=1 --boost-to=2 --workload=a --keys=uniform";
        assert_eq!(parsed.driver.join(" "), passed_on);
        assert_eq!(Arguments::parse(&[]).unwrap(), Arguments::default());
    }

    #[test]
    fn nonsense_is_refused() {
        for (arguments, why) in [
            ("threads=8", "not an option"),
            ("--what=wheels", "there is no 'wheels'"),
            ("--seconds=0", "within its bounds"),
            ("--threads", "a value is missing"),
            ("--cpus=0,x", "within its bounds"),
        ] {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let error = Arguments::parse(&arguments).unwrap_err();
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}
