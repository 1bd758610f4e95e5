//! A program of a user: it has the crate `manx` from a package, and nothing else.

use manx::cpu::CpuBudget;
use manx::lock::{Condvar, Mutex, Once, ReentrantMutex, RwLock, RwLockUpgradableReadGuard};
use manx::pool::FriendlyPool;
use manx::range::RangeLock;

static COUNT: Mutex<u32> = Mutex::new(0);
static GREW: Condvar = Condvar::new();
static NAMES: RwLock<Vec<String>> = RwLock::new(Vec::new());
static BEGUN: Once = Once::new();

fn main() {
    let threads: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                BEGUN.call_once(|| println!("CPUs: {}", CpuBudget::now().cpus()));
                let names = NAMES.upgradable_read();
                RwLockUpgradableReadGuard::upgrade(names).push(format!("thread {number}"));
                *COUNT.lock() += 1;
                GREW.notify_all();
            })
        })
        .collect();
    let mut count = COUNT.lock();
    GREW.wait_while(&mut count, |count| *count < 4);
    drop(count);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(NAMES.read().len(), 4);

    let outer = ReentrantMutex::new(());
    let _twice = (outer.lock(), outer.lock());

    let rows: RangeLock<u64> = RangeLock::new();
    let _low = rows.lock(0..10).expect("a range");
    let _high = rows.lock(10..20).expect("a range beside it");

    let pool = FriendlyPool::builder().build().expect("threads");
    let answer = pool.submit(|| 6 * 7).expect("accepted").join().expect("no panic");
    assert_eq!(answer, 42);
    println!("all well");
}
