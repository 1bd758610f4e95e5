//! Prints how the peers compare in waiting: a table for each placement of the two threads.
//!
//! What is compared is interleaved: a repeat measures each peer once, in an order drawn at random,
//! before the next repeat begins. The table shows medians over the repeats, and the delay over that
//! of `manx Adaptive` by pairs of one repeat.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use report::figure::{interval, three_digits};
use report::{Order, Ratio};
use rivals::handover::{Outcome, Place, measure, median};
use rivals::locks::command::{self, Child};
use rivals::waiting::PEERS;

/// The peer that the others are compared with, which is the last one.
const REFERENCE: &str = "manx Adaptive";
/// What the orders of the peers are drawn from.
const SEED: u64 = 1;

/// How long the waker works.
const WORKS: [(Duration, &str); 5] = [
    (Duration::from_nanos(100), "100 ns"),
    (Duration::from_micros(1), "1 µs"),
    (Duration::from_micros(10), "10 µs"),
    (Duration::from_micros(100), "100 µs"),
    (Duration::from_millis(1), "1 ms"),
];

/// Compares others' solutions with ours; ways to wait for a flag unless a command says otherwise.
#[derive(Parser)]
#[command(name = "rivals")]
struct Options {
    /// Few rounds and one repeat, for a first look
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    subject: Option<Subject>,
}

#[derive(Subcommand)]
enum Subject {
    /// Compares locks
    Locks(command::Options),
    /// One run of a lock, as `locks` starts it
    #[command(hide = true)]
    LockRun(Child),
    /// A process that never sleeps, as `locks` starts it
    #[command(hide = true)]
    LockHog {
        /// Which of the allowed CPUs it burns
        cpu: usize,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.subject {
        None => return waiting(options.quick),
        Some(Subject::Locks(options)) => command::run(options),
        Some(Subject::LockRun(child)) => command::child(child),
        Some(Subject::LockHog { cpu }) => command::hog(*cpu),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rivals: {why}");
            ExitCode::FAILURE
        }
    }
}

fn waiting(quick: bool) -> ExitCode {
    let (repeats, rounds) = if quick { (1, 20) } else { (5, 100) };
    let mut order = Order::new(SEED);
    for (place, title) in
        [(Place::Apart, "each thread on a CPU of its own"), (Place::Together, "both threads on one CPU")]
    {
        println!("{title} (medians of {repeats} interleaved repeats of {rounds} waits)\n");
        let head = ["delay µs", "longest µs", "CPU burnt", "stretch"];
        println!(
            "{:8} {:22} {:>12} {:>9} {:>16} {:>12} {:>10} {:>10}",
            "wait", "peer", head[0], "of manx", "95 %", head[1], head[2], head[3]
        );
        for (work, name) in WORKS {
            if let Err(why) = compare(&mut order, place, work, name, repeats, rounds) {
                println!("{name:8} left out: {why}");
            }
        }
        println!();
    }
    println!(
        "delay: from the raising of the flag to its being noticed, median. longest: the longest handover,"
    );
    println!(
        "from the beginning of the waker's work. CPU burnt: part of one CPU that the waiter used while it"
    );
    println!("waited. stretch: all handovers together as a multiple of the work in them.");
    ExitCode::SUCCESS
}

fn compare(
    order: &mut Order,
    place: Place,
    work: Duration,
    name: &str,
    repeats: usize,
    rounds: usize,
) -> Result<(), String> {
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); PEERS.len()];
    for _ in 0..repeats {
        for at in order.draw(PEERS.len()) {
            outcomes[at].push(measure(PEERS[at], work, place, rounds)?);
        }
    }
    let delays = |outcomes: &[Outcome]| -> Vec<f64> {
        outcomes.iter().map(|outcome| outcome.delay.as_secs_f64()).collect()
    };
    let ours = outcomes.last().map_or(Vec::new(), |outcomes| delays(outcomes));
    for (peer, outcomes) in PEERS.iter().zip(&outcomes) {
        let ratio = Ratio::new(name, (peer.name, &delays(outcomes)), (REFERENCE, &ours), "delay");
        let (middle, ends) = ratio
            .filter(|_| peer.name != REFERENCE)
            .map_or(("-".into(), None), |ratio| (three_digits(ratio.ratio), ratio.interval()));
        let of = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value));
        let delay = of(|outcome| outcome.delay.as_secs_f64() * 1e6);
        let longest = of(|outcome| outcome.longest.as_secs_f64() * 1e6);
        let (burnt, stretch) = (of(|outcome| outcome.burnt), of(|outcome| outcome.stretch));
        println!(
            "{name:8} {:22} {delay:12.2} {middle:>9} {:>16} {longest:12.1} {burnt:10.2} {stretch:10.1}",
            peer.name,
            interval(ends)
        );
    }
    Ok(())
}
