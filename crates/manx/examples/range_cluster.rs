//! `manx::range::cluster` beside etcd's own lock, on a cluster of real members on this machine.
//!
//! `cargo run --release -p manx --features cluster --example range_cluster -- --rounds 9`
//!
//! A sample is one lock and unlock; each round measures all locks one after the other, in an order
//! drawn at random, and gives one ratio of the medians to each of the others. etcd's lock is called
//! in the cheapest way, by a runtime in the worker's own thread. Each worker has a session of its
//! own. With `--go` there is also `concurrency.Mutex` of etcd's client for Go, in a program that is
//! built first (`range_cluster_go/`; Go 1.22 or later).

use manx::etcd::Plain;
use manx::range::cluster::{Options, RangeLock, Session};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use testing::etcd::Cluster;
use tokio::runtime::{Builder, Runtime};

/// What the workers lock.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    workers: u64,
    /// All the same key, or each a range of its own.
    same: bool,
}

const PARTS: [Part; 4] = [
    Part { name: "1 worker", workers: 1, same: true },
    Part { name: "8 workers, disjoint ranges", workers: 8, same: false },
    Part { name: "2 workers, one key", workers: 2, same: true },
    Part { name: "8 workers, one key", workers: 8, same: true },
];
/// For all workers of a run together.
const SAMPLES: u64 = 400;
/// Longer than a run takes.
const TTL: Duration = Duration::from_secs(600);

/// Which lock is measured.
enum Kind {
    Manx,
    Etcd,
    Go(PathBuf),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Manx => "manx",
            Kind::Etcd => "etcd",
            Kind::Go(_) => "etcd, Go",
        }
    }
}

/// Builds the program in Go.
fn build(into: &Path) -> PathBuf {
    let program = into.join("range_cluster_go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".");
    go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/range_cluster_go"));
    assert!(go.status().expect("--go needs Go 1.22 or later").success(), "the program cannot be built");
    program
}

/// A worker's lock, ready.
enum Lock {
    Manx(RangeLock<u64>, u64),
    Etcd { runtime: Runtime, client: Box<Plain>, lease: i64, name: String },
}

impl Lock {
    fn new(is_manx: bool, endpoints: Vec<String>, key: u64) -> Lock {
        if is_manx {
            let session = Session::connect(Options::new(endpoints).ttl(TTL)).expect("etcd answers");
            return Lock::Manx(session.range_lock("bench"), key);
        }
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let address = format!("etcd://{}/etcd", endpoints[0]).parse().expect("an address");
        let (client, lease) = runtime.block_on(async {
            let client = Plain::new(&address).expect("a client");
            let lease = client.grant(TTL.as_secs() as i64).await.expect("a lease");
            (Box::new(client), lease)
        });
        Lock::Etcd { runtime, client, lease, name: format!("etcd-{key}") }
    }

    fn lock_and_unlock(&self) {
        match self {
            Lock::Manx(lock, key) => {
                lock.lock(key * 10..key * 10 + 10).expect("a range").unlock().expect("it is held");
            }
            Lock::Etcd { runtime, client, lease, name } => runtime.block_on(async {
                let key = client.lock(name.as_bytes(), *lease).await.expect("a lock");
                client.unlock(key).await.expect("it is held");
            }),
        }
    }
}

/// The times of locking and unlocking, and the time of all.
fn run(part: Part, kind: &Kind, cluster: &Cluster) -> (Vec<Duration>, Duration) {
    match kind {
        Kind::Manx | Kind::Etcd => run_here(part, matches!(kind, Kind::Manx), cluster),
        Kind::Go(program) => run_go(part, program, cluster),
    }
}

fn run_go(part: Part, program: &Path, cluster: &Cluster) -> (Vec<Duration>, Duration) {
    let mut command = Command::new(program);
    command.args(["-endpoints", &cluster.endpoints().join(","), "-workers", &part.workers.to_string()]);
    command.args(["-samples", &(SAMPLES / part.workers).to_string(), &format!("-same={}", part.same)]);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut times = text.lines().map(|line| Duration::from_nanos(line.parse().expect("ns")));
    let all = times.next().expect("the time of all");
    (times.collect(), all)
}

fn run_here(part: Part, is_manx: bool, cluster: &Cluster) -> (Vec<Duration>, Duration) {
    let barrier = Barrier::new(part.workers as usize + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..part.workers)
            .map(|worker| {
                let (barrier, mut endpoints) = (&barrier, cluster.endpoints());
                let members = endpoints.len();
                endpoints.rotate_left(worker as usize % members);
                scope.spawn(move || {
                    let lock = Lock::new(is_manx, endpoints, if part.same { 0 } else { worker });
                    lock.lock_and_unlock();
                    barrier.wait();
                    let samples = (0..SAMPLES / part.workers).map(|_| {
                        let began = Instant::now();
                        lock.lock_and_unlock();
                        began.elapsed()
                    });
                    let samples: Vec<Duration> = samples.collect();
                    barrier.wait();
                    samples
                })
            })
            .collect();
        barrier.wait();
        let began = Instant::now();
        barrier.wait();
        let all = began.elapsed();
        (workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect(), all)
    })
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// The median of each round's ratio, the lowest and the highest.
fn ratio(manx: &[Duration], other: &[Duration]) -> String {
    let mut ratios: Vec<f64> =
        manx.iter().zip(other).map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let last = ratios.len() - 1;
    format!("{:.2} ({:.2} to {:.2})", ratios[ratios.len() / 2], ratios[0], ratios[last])
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has_go = words.iter().any(|word| word == "--go");
    let rest: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--go").collect();
    let rounds: usize = match rest[..] {
        [] => 5,
        ["--rounds", number] => number.parse().ok().filter(|it| *it > 0).expect("--rounds takes a number"),
        _ => panic!("the options are --rounds N and --go"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut kinds = vec![Kind::Manx, Kind::Etcd];
    kinds.extend(has_go.then(|| Kind::Go(build(folder.path()))));
    println!(
        "| members | part | lock | p50 µs | p99 µs | max µs | per second | p50 of manx over it, its range |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for members in [1, 3] {
        let Some(cluster) = Cluster::start(members) else { return };
        for part in PARTS {
            // Of each kind: all samples, the median of each round, and the time of all rounds.
            let mut runs: Vec<_> = kinds.iter().map(|_| (vec![], vec![], Duration::ZERO)).collect();
            for _ in 0..rounds {
                let mut order: Vec<usize> = (0..kinds.len()).collect();
                fastrand::shuffle(&mut order);
                for which in order {
                    let (mut these, time) = run(part, &kinds[which], &cluster);
                    these.sort_unstable();
                    let (samples, medians, times) = &mut runs[which];
                    medians.push(percentile(&these, 50));
                    *times += time;
                    samples.append(&mut these);
                }
            }
            let of_manx = runs[0].1.clone();
            for (kind, (samples, medians, time)) in kinds.iter().zip(&mut runs) {
                samples.sort_unstable();
                let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(samples, percent).as_micros());
                let rate = samples.len() as f64 / time.as_secs_f64();
                let ratio = match kind {
                    Kind::Manx => String::new(),
                    Kind::Etcd | Kind::Go(_) => ratio(&of_manx, medians),
                };
                let (part, name) = (part.name, kind.name());
                println!("| {members} | {part} | {name} | {p50} | {p99} | {max} | {rate:.0} | {ratio} |");
            }
        }
    }
}
