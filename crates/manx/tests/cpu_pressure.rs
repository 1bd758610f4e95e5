//! Pressure on the real machine: threads that compete for one CPU are seen by every thread that
//! asks, in each way there is.

use manx::cpu::{Pressure, PressureWatch, Runnable, ThreadPressure, runnable};
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::{LONG, Stop, eventually, until};

/// Runs `look` while `count` threads spin, each bound to the same CPU.
fn beside_spinners<T>(count: usize, look: impl FnOnce() -> T) -> T {
    let (begun, stop) = (Barrier::new(count + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                platform::cpu::restrict(1);
                begun.wait();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _stop = Stop(&stop);
        begun.wait();
        look()
    })
}

#[test]
fn threads_that_spin_on_one_cpu_are_runnable_and_wait() {
    let between = beside_spinners(3, || {
        let mut watch = PressureWatch::new();
        let before = watch.read();
        thread::sleep(Duration::from_millis(100));
        // A wait is counted when it is over, a group may be throttled at a moment, and a busy
        // machine takes its time.
        let mut most = before.runnable;
        eventually("a crowd that waits", || {
            let now = watch.read();
            let between = now.since(&before);
            most = most.max(now.runnable);
            // The three, and the reading thread.
            let crowded = most.is_none_or(|threads| threads >= 4);
            let waits = before.threads.is_none() || between.waiting.is_some_and(|threads| threads > 0.1);
            (crowded && waits && between.preempted_per_s > 0.0).then_some(between)
        })
    });
    println!("{between}");
    let shares =
        [between.waiting, between.running, between.throttled, between.throttled_cpus, between.idle_cpus];
    let stalls = [between.stolen_cpus, between.stalled, between.group_stalled];
    let is_sound = |value: &f64| value.is_finite() && *value >= 0.0;
    assert!(shares.iter().chain(&stalls).flatten().all(is_sound), "{between:?}");
}

#[test]
fn the_number_of_runnable_threads_is_of_the_moment_and_includes_the_caller() {
    let Some(reader) = Runnable::open() else {
        assert_eq!(runnable(), None);
        testing::skip("/proc/loadavg is not to be had");
        return;
    };
    assert!(reader.threads().is_some_and(|threads| threads >= 1), "this one runs");
    beside_spinners(40, || {
        // The first reading has them all, unless their group is throttled at that moment. An
        // average would have them in minutes.
        until("forty that spin, and this thread", || {
            reader.threads().expect("a number") >= 41 && runnable().expect("a number") >= 41
        });
    });
    // All have ended, so they are gone, whatever other threads there are.
    until("their end", || reader.threads().expect("a number") < 41);
}

#[test]
fn a_thread_knows_how_long_it_waited() {
    const WAITED: Duration = Duration::from_millis(10);
    let Some(own) = ThreadPressure::of_this_thread() else {
        testing::skip("the kernel does not tell how long a thread waits for a CPU");
        return;
    };
    let waiter = beside_spinners(2, || {
        let waiter = thread::spawn(|| {
            platform::cpu::restrict(1);
            let own = ThreadPressure::of_this_thread().expect("as in the other thread");
            let (before, began) = (own.times().expect("alive"), Instant::now());
            loop {
                let passed = own.times().expect("alive").since(&before);
                if passed.wait_time >= WAITED || began.elapsed() > LONG {
                    return passed;
                }
            }
        });
        waiter.join().expect("runs")
    });
    assert!(waiter.wait_time >= WAITED && waiter.slices > 0 && waiter.waiting() > 0.0, "{waiter:?}");
    assert!(own.times().expect("alive").slices > 0);
}

#[test]
fn a_made_up_machine_is_read_and_a_masked_one_has_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    let masked = PressureWatch::detect(root.path()).read();
    let mut nothing = Pressure::default();
    (nothing.read_at, nothing.tick, nothing.preempted) = (masked.read_at, masked.tick, masked.preempted);
    assert_eq!(masked, nothing);

    put("proc/loadavg", "0.00 0.00 0.00 3/200 9\n");
    put("proc/stat", "cpu  100 0 50 800 10 0 5 20 0 0\ncpu0 1 2 3 4\n");
    put("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000\n");
    put("proc/self/cgroup", "0::/app/worker\n");
    put("proc/self/schedstat", "1 1 1\n");
    put("proc/self/task/1/schedstat", "1000 2000 3\n");
    put("sys/devices/system/cpu/online", "0-3,6\n");
    put("sys/fs/cgroup/app/worker/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7000\n");
    put("sys/fs/cgroup/app/other/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9000\n");
    let mut watch = PressureWatch::detect(root.path());
    let before = watch.read();
    assert_eq!((before.runnable, before.online, before.idle_cpus()), (Some(3), Some(5), Some(2)));
    let milliseconds = |count| Some(Duration::from_millis(count));
    assert_eq!((before.stalled, before.group_stalled), (milliseconds(5), milliseconds(7)));
    let machine = before.machine.expect("there");
    assert_eq!((machine.busy, machine.idle, machine.steal), (155, 810, 20));
    assert_eq!(before.threads.as_ref().expect("there").sum().wait_time, Duration::from_micros(2));

    // Files stay open, and are read again; a move to another group is noticed.
    fs::write(root.path().join("proc/loadavg"), "0.00 0.00 0.00 9/200 9\n").expect("written");
    put("proc/self/cgroup", "0::/app/other\n");
    put("proc/self/task/1/schedstat", "1000 5000 3\n");
    let now = watch.read();
    assert_eq!((now.idle_cpus(), now.group_stalled), (Some(0), milliseconds(9)));
    let passed = now.threads.expect("there").since(before.threads.as_ref().expect("there"));
    assert_eq!(passed.wait_time, Duration::from_micros(3));
}
