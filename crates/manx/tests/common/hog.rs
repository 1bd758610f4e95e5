//! A thread that cannot be outranked takes the CPUs away from holders and waiters.

use platform::clock;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testing::Stop;

/// Runs `work` beside a thread of the class SCHED_FIFO that takes a CPU for most of the time.
pub fn beside_a_hog<R>(work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let hog = scope.spawn(|| {
            let parameter = libc::sched_param { sched_priority: 1 };
            // SAFETY: changes the calling thread only, with a valid parameter.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) } != 0 {
                return Err(io::Error::last_os_error());
            }
            while !stop.load(Ordering::Relaxed) {
                let until_ns = clock::now_ns() + 3_000_000;
                while clock::now_ns() < until_ns {
                    platform::cpu::pause();
                }
                // Wakes up on this CPU or another one.
                platform::thread::sleep_ns(1_000_000);
            }
            Ok(())
        });
        let done = {
            let _stop = Stop(&stop);
            work()
        };
        if let Err(why) = hog.join().expect("a hog") {
            testing::skip(format_args!("in part: no real-time class for a hog: {why}"));
        }
        done
    })
}
