//! The thread that frees what commits leave behind, also if no commit follows.
//!
//! Commits clean as much as they add (`garbage.rs`), so under load little is left to do here. What
//! a reader kept, or the last commits before a pause left, waits for the next commit, which may
//! never come. So once a commit leaves something, this thread looks at it each period, until
//! nothing is left. Then it sleeps, and costs nothing.
//!
//! It starts with the first commit that needs it, and ends with the store. If the system has no
//! thread for it, the commits clean alone.

use crate::lock::Mutex;
use platform::fork;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How far a look has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is more to do now.
    More,
    /// What is left is still needed, or read.
    Later,
    /// Nothing is left, and whatever comes wakes the collector.
    Done,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Collector {
    /// None: no thread.
    period: Option<Duration>,
    thread: Mutex<Option<Thread>>,
    signals: Arc<Signals>,
}

/// The thread, and the process that has it: the child of a fork has it no more.
#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    generation: u32,
}

#[derive(Debug, Default)]
struct Signals {
    is_woken: AtomicBool,
    is_over: AtomicBool,
}

impl Collector {
    pub(super) fn new(period: Option<Duration>) -> Collector {
        Collector { period, thread: Mutex::new(None), signals: Arc::default() }
    }

    /// There is something to do: from now on `look` is called each period until it says
    /// [`Look::Done`].
    #[cold]
    pub(super) fn wake(&self, look: impl FnMut() -> Look + Send + 'static) {
        let Some(period) = self.period else { return };
        // Release: the thread finds what the caller left; also if it was woken before and has not
        // seen that yet.
        if self.signals.is_woken.swap(true, Ordering::Release) {
            return;
        }
        let mut thread = self.thread.lock();
        if let Some(thread) = &*thread {
            return thread.handle.thread().unpark();
        }
        let signals = Arc::clone(&self.signals);
        let builder = thread::Builder::new().name("manx-collect".into());
        let handle = builder.spawn(move || signals.serve(period, look)).ok();
        // Without a thread, the next one that leaves something tries again.
        if handle.is_none() {
            self.signals.is_woken.store(false, Ordering::Release);
        }
        *thread = handle.map(|handle| Thread { handle, generation: fork::generation() });
    }
}

impl Signals {
    fn serve(&self, period: Duration, mut look: impl FnMut() -> Look) {
        loop {
            // Acquire, here and below: see `wake` and `drop`.
            while !self.is_woken.swap(false, Ordering::Acquire) {
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                thread::park();
            }
            let mut looked = Look::Later;
            while looked != Look::Done {
                if looked == Look::Later {
                    self.pause(period);
                }
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                looked = look();
            }
        }
    }

    /// Waits for this long, even if it is woken, or for the end.
    fn pause(&self, period: Duration) {
        let began = Instant::now();
        // Acquire: see `drop`.
        while !self.is_over.load(Ordering::Acquire)
            && let Some(left) = period.checked_sub(began.elapsed())
        {
            thread::park_timeout(left);
        }
    }
}

impl Drop for Collector {
    /// Waits until the thread has nothing of the store any more.
    fn drop(&mut self) {
        self.signals.is_over.store(true, Ordering::Release);
        if let Some(Thread { handle, generation }) = self.thread.get_mut().take()
            && generation == fork::generation()
        {
            handle.thread().unpark();
            // A panic has said itself what it was about.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_looks_until_nothing_is_left_and_again_when_it_is_woken() {
        let collector = Collector::new(Some(Duration::from_millis(1)));
        let (looks, seen) = mpsc::channel();
        let mut answers = [Look::Later, Look::More, Look::Done].into_iter().cycle();
        let look = move || {
            let answer = answers.next().expect("endless");
            looks.send(answer).expect("the test listens");
            answer
        };
        collector.wake(look);
        for round in 0..3 {
            for expected in [Look::Later, Look::More, Look::Done] {
                assert_eq!(seen.recv(), Ok(expected), "round {round}");
            }
            // Nothing is left, so it does not look.
            assert!(seen.recv_timeout(Duration::from_millis(20)).is_err());
            collector.wake(|| unreachable!("there is a thread"));
        }
        drop(collector);
        // What it has seen before it was told to end; then it has nothing any more, and so this
        // ends.
        assert!(seen.iter().count() <= 3, "it was woken once");
    }

    #[test]
    fn it_pauses_for_the_whole_period_even_if_it_is_woken() {
        let collector = Collector::new(Some(Duration::from_secs(3_600)));
        for _ in 0..1_000 {
            collector.wake(|| unreachable!("an hour has not passed"));
            thread::yield_now();
        }
        // Its thread would have panicked.
        let thread = collector.thread.lock().take().expect("there is a thread");
        collector.signals.is_over.store(true, Ordering::Release);
        thread.handle.thread().unpark();
        assert!(thread.handle.join().is_ok());
    }

    #[test]
    fn without_a_period_there_is_no_thread() {
        let collector = Collector::new(None);
        collector.wake(|| unreachable!("no thread looks"));
        assert!(collector.thread.lock().is_none());
    }
}
