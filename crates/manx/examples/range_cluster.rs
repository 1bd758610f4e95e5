//! `manx::range::cluster` beside etcd's own lock, on a cluster of real members on this machine.
//!
//! `cargo run --release -p manx --features cluster --example range_cluster -- --rounds 9`
//!
//! A sample is one lock and unlock; each round measures both locks one after the other, in an order
//! drawn at random, and gives one ratio of their medians. etcd's lock is called in the cheapest
//! way, by a runtime in the worker's own thread. Each worker has a session of its own.

use manx::etcd::Plain;
use manx::range::cluster::{Options, RangeLock, Session};
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
fn run(part: Part, is_manx: bool, cluster: &Cluster) -> (Vec<Duration>, Duration) {
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

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds: usize = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => 5,
        ["--rounds", number] => number.parse().expect("--rounds takes a number"),
        _ => panic!("the only option is --rounds N"),
    };
    println!("| members | part | lock | p50 µs | p99 µs | max µs | per second | ratio of p50, its range |");
    println!("|---|---|---|---|---|---|---|---|");
    for members in [1, 3] {
        let Some(cluster) = Cluster::start(members) else { return };
        for part in PARTS {
            let (mut samples, mut times, mut ratios) = ([vec![], vec![]], [Duration::ZERO; 2], vec![]);
            for _ in 0..rounds {
                let mut medians = [Duration::ZERO; 2];
                let first = fastrand::usize(0..2);
                for which in [first, 1 - first] {
                    let (mut these, time) = run(part, which == 0, &cluster);
                    these.sort_unstable();
                    medians[which] = percentile(&these, 50);
                    times[which] += time;
                    samples[which].append(&mut these);
                }
                ratios.push(medians[0].as_secs_f64() / medians[1].as_secs_f64());
            }
            ratios.sort_unstable_by(f64::total_cmp);
            let ratio = format!("{:.2} ({:.2} to {:.2})", ratios[rounds / 2], ratios[0], ratios[rounds - 1]);
            for (which, name) in ["manx", "etcd"].into_iter().enumerate() {
                samples[which].sort_unstable();
                let [p50, p99, max] =
                    [50, 99, 100].map(|percent| percentile(&samples[which], percent).as_micros());
                let rate = samples[which].len() as f64 / times[which].as_secs_f64();
                let (part, ratio) = (part.name, if which == 0 { &*ratio } else { "" });
                println!("| {members} | {part} | {name} | {p50} | {p99} | {max} | {rate:.0} | {ratio} |");
            }
        }
    }
}
