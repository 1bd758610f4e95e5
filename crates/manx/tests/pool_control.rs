//! What makes a pool grow and shrink: neighbours, quotas, affinity, a registry, make's tokens. Each
//! test runs in its own process, because all of these belong to a process.

#[path = "common/groups.rs"]
mod groups;

use groups::Group;
use manx::pool::jobserver::Tokens;
use manx::pool::registry::Registry;
use manx::pool::{Control, FriendlyPool, Why};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::{LONG, until};

/// Runs this test again in a process of its own, where it then returns true.
fn in_a_process_of_its_own(test: &str, environment: &[(&str, &str)]) -> bool {
    const ROLE: &str = "MANX_TEST_ALONE";
    if std::env::var_os(ROLE).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("a test's path");
    let mut command = Command::new(own);
    command.args([test, "--exact", "--nocapture"]).env(ROLE, "1").envs(environment.iter().copied());
    assert!(command.status().expect("it starts").success(), "{test}");
    false
}

/// How long each look at a pool that is to grow takes.
const LOOK: Duration = Duration::from_millis(20);

/// Whether there are two CPUs, without which nothing can shrink.
fn has_two_cpus() -> bool {
    let enough = platform::cpu::count() >= 2;
    if !enough {
        testing::skip("one CPU is not enough");
    }
    enough
}

fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A pool that always has more to do than it does, until this is dropped.
struct Flooded {
    pool: Arc<FriendlyPool>,
    stop: Arc<AtomicBool>,
    /// The most jobs that were inside at a time since it was set to 0.
    most: Arc<AtomicU32>,
    flood: Option<thread::JoinHandle<()>>,
}

impl Flooded {
    fn new(pool: FriendlyPool) -> Flooded {
        let (pool, stop) = (Arc::new(pool), Arc::new(AtomicBool::new(false)));
        let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let flood = thread::spawn({
            let (pool, stop, most) = (pool.clone(), stop.clone(), most.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let (inside, most) = (inside.clone(), most.clone());
                    let job = move || {
                        most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        spin(Duration::from_micros(500));
                        inside.fetch_sub(1, Ordering::Relaxed);
                    };
                    pool.execute(job).expect("open");
                }
            }
        });
        Flooded { pool, stop, most, flood: Some(flood) }
    }

    /// Waits until the pool has grown, by looks of [`LOOK`]. Others may keep the machine busy; as
    /// long as they do, the pool is right to stay small, and the test is skipped.
    fn grows(&self, has_grown: impl Fn() -> bool) {
        let (began, mut idle_looks) = (Instant::now(), 0);
        while !has_grown() {
            idle_looks += u32::from(
                manx::cpu::runnable().is_some_and(|threads| threads as usize <= platform::cpu::count()),
            );
            if began.elapsed() > LONG / 4 {
                assert!(idle_looks < 20, "CPUs are idle, and the pool stays small: {:?}", self.pool.stats());
                return testing::skip("the machine is busy with something else");
            }
        }
    }
}

impl Drop for Flooded {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.flood.take().expect("once").join().expect("no panic");
    }
}

fn flooded(builder: manx::pool::FriendlyPoolBuilder) -> Flooded {
    Flooded::new(builder.queue_capacity(16).build().expect("a pool"))
}

/// Processes that spin, and end with this.
struct Hogs(Vec<Child>);

impl Hogs {
    fn new(count: usize) -> Hogs {
        let hog = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        Hogs((0..count).map(hog).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

#[test]
fn a_pool_beside_neighbours_has_fewer_workers_and_more_again_when_they_are_gone() {
    if !in_a_process_of_its_own(
        "a_pool_beside_neighbours_has_fewer_workers_and_more_again_when_they_are_gone",
        &[],
    ) || !has_two_cpus()
    {
        return;
    }
    let flooded = flooded(FriendlyPool::builder());
    let hogs = Hogs::new(2 * platform::cpu::count());
    until("it shrinks", || {
        flooded
            .pool
            .stats()
            .last
            .is_some_and(|last| last.to < last.from && matches!(last.why, Why::Waited { .. }))
    });
    drop(hogs);
    flooded.grows(|| {
        flooded.most.store(0, Ordering::Relaxed);
        thread::sleep(LOOK);
        flooded.most.load(Ordering::Relaxed) == platform::cpu::count() as u32
    });
}

#[test]
fn the_papers_rules_shrink_the_pool_too() {
    if !in_a_process_of_its_own("the_papers_rules_shrink_the_pool_too", &[]) || !has_two_cpus() {
        return;
    }
    let flooded = flooded(FriendlyPool::builder().control(Control::Share));
    let hogs = Hogs::new(4 * platform::cpu::count());
    until("it shrinks", || flooded.pool.stats().target < platform::cpu::count() as u32);
    let why = flooded.pool.stats().last.expect("it has decided").why;
    assert!(matches!(why, Why::Share { own } if own <= 1.0), "{why}");
    drop(hogs);
    flooded.grows(|| {
        thread::sleep(LOOK);
        flooded.pool.stats().target == platform::cpu::count() as u32
    });
}

#[test]
fn a_quota_that_comes_and_goes_is_followed_and_paced() {
    if !in_a_process_of_its_own("a_quota_that_comes_and_goes_is_followed_and_paced", &[]) || !has_two_cpus() {
        return;
    }
    let Some(group) = Group::or_skip("cpu") else { return };
    let all = platform::cpu::count() as u32;
    group.take(std::process::id());
    let flooded = flooded(FriendlyPool::builder());
    assert_eq!(flooded.pool.stats().limit, all);
    group.set_quota(Some(500));
    until("it is paced", || {
        let stats = flooded.pool.stats();
        stats.limit == 1 && stats.budget_cpus == 0.5 && stats.paced > 0
    });
    group.set_quota(None);
    until("it is free again", || flooded.pool.stats().limit == all);
    let paced = flooded.pool.stats().paced;
    until("it works on", || flooded.pool.stats().completed > 100);
    assert!(flooded.pool.stats().paced <= paced + 1, "no worker sleeps any more");
    drop(flooded);
    group.expel(std::process::id());
    group.remove();
}

#[test]
fn an_affinity_that_is_narrowed_is_followed() {
    if !in_a_process_of_its_own("an_affinity_that_is_narrowed_is_followed", &[]) || !has_two_cpus() {
        return;
    }
    let all = platform::cpu::count() as u32;
    let flooded = flooded(FriendlyPool::builder());
    let own = std::process::id().to_string();
    let bind = |cpus: &str| {
        let done = Command::new("taskset").args(["-apc", cpus, &own]).output();
        done.is_ok_and(|output| output.status.success())
    };
    let first =
        (0..).find(|cpu| platform::cpu::allowed()[cpu / 64] & 1 << (cpu % 64) != 0).expect("one").to_string();
    // The control has to be there to be bound with all others.
    until("the control is born", || flooded.pool.stats().completed > 100);
    if !bind(&first) {
        return testing::skip("taskset is not installed");
    }
    until("it follows", || flooded.pool.stats().limit == 1);
    assert!(bind("0-1023") || bind(&format!("0-{}", all - 1)));
    until("it follows back", || flooded.pool.stats().limit == all);
}

#[test]
fn members_of_a_registry_divide_the_cpus() {
    if !in_a_process_of_its_own("members_of_a_registry_divide_the_cpus", &[]) || !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let registry = Registry::at(folder.path().join("cpus")).expect("a registry");
    let cpus = platform::cpu::count() as u32;
    registry.set_cpus(f64::from(cpus));
    let member = || registry.join(1, f64::from(cpus)).expect("room");
    let one = flooded(FriendlyPool::builder().registry(member()));
    until("all is its own", || registry.entries().len() == 1 && one.pool.stats().target == cpus);
    let two = flooded(FriendlyPool::builder().registry(member()));
    until("half for each", || {
        one.pool.stats().target == cpus.div_ceil(2) && two.pool.stats().target == cpus.div_ceil(2)
    });
    drop(two);
    until("all again", || one.pool.stats().target == cpus);
}

#[test]
fn there_are_as_many_workers_as_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    let flags = format!("-j3 --jobserver-auth=fifo:{}", path.display());
    if std::env::var_os("MAKEFLAGS").is_none() {
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    }
    // A process has to hold the fifo open, or its tokens are gone.
    let held = std::fs::File::options().read(true).write(true).open(&path);
    if let Ok(held) = &held {
        use std::io::Write;
        let mut held = held;
        held.write_all(b"+").expect("one token");
    }
    if !in_a_process_of_its_own("there_are_as_many_workers_as_tokens", &[("MAKEFLAGS", &flags)]) {
        use std::io::Read;
        let mut token = [0];
        held.expect("it is there").read_exact(&mut token).expect("it was given back");
        assert_eq!(&token, b"+");
        return;
    }
    if !has_two_cpus() {
        return;
    }
    let tokens = Tokens::from_env().expect("a jobserver").expect("one is named");
    let builder = FriendlyPool::builder().num_threads(8).queue_capacity(16).jobserver(tokens);
    let pool = builder.build().expect("a pool");
    assert_eq!(pool.stats().limit, 1, "a pool that has nothing to do takes no token");
    let flooded = Flooded::new(pool);
    until("it takes the token", || flooded.pool.stats().active == 2);
    until("two jobs run at a time", || flooded.most.load(Ordering::Relaxed) >= 2);
    until("it works", || flooded.pool.stats().completed > 200);
    assert_eq!(flooded.most.load(Ordering::Relaxed), 2);
}
