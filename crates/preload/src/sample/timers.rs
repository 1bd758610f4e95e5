//! One timer a thread, made by its creator, deleted when it is gone.
//!
//! A thread's start routine is not ours to wrap, so its creator makes its timer. The kernel wants the
//! thread's id for that, and what the creator has is its name (`pthread_t`), the address of the C
//! library's record of it. The id stands in that record, at a place that is found once in the caller's own.
//! The new thread may have ended by now, and a detached one's record be unmapped: so it is read by way of
//! `/proc/self/mem`, where a hole is an error and not the end. A wrong id does no harm, for the kernel makes
//! timers only for threads of the same process.
//!
//! Timers outlive the threads whose time they count. Each creation looks at a few of the timers there
//! are, and deletes those of threads that are gone: so there are never many more of them than threads.
//!
//! Invariants:
//! 1. The table is touched by the holder of its latch only, and belongs to the process that `pid` names:
//!    a forked child has no timers.

use crate::latch::{Held, Latch};
use crate::process;
use crate::trap::survey;
use alloc::vec::Vec;
use platform::file::File;
use platform::syscall::{check, syscall1, syscall3, syscall4};

/// How much CPU time a thread uses between two samples, in nanoseconds. The kernel rounds up to its tick.
const INTERVAL_NS: i64 = 4_000_000;
/// How many timers each creation looks at.
const SWEEP: usize = 4;
/// Where the thread's id may stand in its record, in bytes.
const RECORD: core::ops::Range<usize> = 0x80..0x800;

/// A thread's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timer {
    tid: i32,
    id: i32,
}

struct Timers {
    pid: u32,
    /// Where a thread's id stands in its record; `None`: nowhere that could be found.
    place: Option<usize>,
    all: Vec<Timer>,
    next: usize,
}

static TIMERS: Latch<Timers> = Latch::new(Timers::NONE);

/// The table; an empty one, if a fork has torn the one that there was.
fn lock() -> Held<'static, Timers> {
    let mut timers = TIMERS.lock();
    if timers.is_torn() {
        timers.mend(Timers::NONE);
    }
    timers
}

/// Samples all threads that exist.
pub fn start(signal: i32) {
    let mut timers = lock();
    timers.begin(signal);
}

/// Samples a thread that was created under this name.
pub fn created(name: usize, signal: i32) {
    let mut timers = lock();
    if timers.pid != process::id() {
        return timers.begin(signal);
    }
    timers.sweep();
    if let Some(tid) = timers.tid_of(name) {
        timers.add(tid, signal);
    }
}

/// Deletes all timers.
pub fn stop() {
    let mut timers = lock();
    if timers.pid == process::id() {
        timers.all.iter().for_each(Timer::delete);
    }
    timers.all = Vec::new();
}

/// Before `fork`.
pub fn hold() {
    TIMERS.hold();
}

/// After `fork`, in parent and child.
pub fn release() {
    TIMERS.release();
}

impl Timers {
    const NONE: Timers = Timers { pid: 0, place: None, all: Vec::new(), next: 0 };

    /// This process has no timers yet: makes them for the threads that there are.
    fn begin(&mut self, signal: i32) {
        self.pid = process::id();
        self.all.clear();
        self.next = 0;
        self.place = place_of_tid();
        survey::each_thread(|tid| self.add(tid, signal));
    }

    fn add(&mut self, tid: i32, signal: i32) {
        if let Some(old) = self.all.iter().position(|timer| timer.tid == tid) {
            self.all.swap_remove(old).delete();
        }
        self.all.extend(Timer::make(tid, signal));
    }

    /// Deletes the timers of some threads that are gone.
    fn sweep(&mut self) {
        for _ in 0..SWEEP.min(self.all.len()) {
            if self.next >= self.all.len() {
                self.next = 0;
            }
            let timer = self.all[self.next];
            if platform::signal::send(timer.tid, 0) == Err(libc::ESRCH) {
                timer.delete();
                self.all.swap_remove(self.next);
            } else {
                self.next += 1;
            }
        }
    }

    fn tid_of(&self, name: usize) -> Option<i32> {
        let mut bytes = [0; 4];
        let read = File::open(c"/proc/self/mem").ok()?.read_at(&mut bytes, (name + self.place?) as u64);
        let tid = i32::from_ne_bytes(bytes);
        (read == Ok(bytes.len()) && tid > 0).then_some(tid)
    }
}

/// Where the calling thread's id stands in its record, if it stands there once.
fn place_of_tid() -> Option<usize> {
    let own = survey::own_tid();
    // SAFETY: only reads.
    let name = unsafe { libc::pthread_self() } as usize;
    let mut record = [0; RECORD.end - RECORD.start];
    let memory = File::open(c"/proc/self/mem").ok()?;
    let read = memory.read_at(&mut record, (name + RECORD.start) as u64).ok()?;
    let mut found = record[..read]
        .chunks_exact(4)
        .enumerate()
        .filter(|(_, bytes)| **bytes == own.to_ne_bytes())
        .map(|(n, _)| RECORD.start + 4 * n);
    found.next().filter(|_| found.next().is_none())
}

impl Timer {
    /// A timer of the CPU time that a thread of this process uses, which sends it `signal`.
    fn make(tid: i32, signal: i32) -> Option<Timer> {
        /// In a clock's number: of one thread; and: its running time, as exactly as it is known.
        const THREAD_CPU_TIME: i32 = 4 | 2;
        let clock = !tid << 3 | THREAD_CPU_TIME;
        // SAFETY: both are made of integers and addresses that may be zero.
        let (mut event, mut times): (libc::sigevent, libc::itimerspec) = unsafe { core::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = tid;
        let mut id = 0i32;
        let (event, place) = ((&raw const event).addr(), (&raw mut id).addr());
        // SAFETY: the kernel reads one sigevent and writes one int.
        check(unsafe { syscall3(libc::SYS_timer_create, clock as usize, event, place) }).ok()?;
        let interval = libc::timespec { tv_sec: 0, tv_nsec: INTERVAL_NS };
        (times.it_interval, times.it_value) = (interval, interval);
        let timer = Timer { tid, id };
        // SAFETY: the kernel reads one itimerspec.
        let set = unsafe { syscall4(libc::SYS_timer_settime, id as usize, 0, (&raw const times).addr(), 0) };
        if check(set).is_err() {
            timer.delete();
            return None;
        }
        Some(timer)
    }

    fn delete(&self) {
        // SAFETY: the timer is ours.
        let _ = unsafe { syscall1(libc::SYS_timer_delete, self.id as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_id_is_found_from_its_name_and_holes_are_no_harm() {
        let timers = Timers { pid: process::id(), place: place_of_tid(), all: Vec::new(), next: 0 };
        // SAFETY: only reads.
        let name = unsafe { libc::pthread_self() } as usize;
        assert_eq!(timers.tid_of(name), Some(survey::own_tid()));
        assert_eq!(timers.tid_of(0x1000), None, "nothing is mapped there");
    }

    #[test]
    fn timers_are_for_threads_of_this_process_and_swept_when_they_are_gone() {
        let mut timers = Timers { pid: process::id(), place: None, all: Vec::new(), next: 0 };
        timers.add(1, libc::SIGURG);
        assert_eq!(timers.all, [], "no thread of ours");
        timers.add(survey::own_tid(), libc::SIGURG);
        let gone: Vec<Timer> = (0..10)
            .map(|_| {
                std::thread::spawn(|| Timer::make(survey::own_tid(), libc::SIGURG).expect("a timer"))
                    .join()
                    .expect("ended")
            })
            .collect();
        timers.all.extend(gone);
        // A thread that was joined may take a moment to be gone, and its number be another test's for a while.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while timers.all.len() > 1 && std::time::Instant::now() < until {
            timers.sweep();
            std::thread::yield_now();
        }
        assert_eq!(timers.all.len(), 1, "only this thread's is left");
        timers.add(survey::own_tid(), libc::SIGURG);
        assert_eq!(timers.all.len(), 1, "one timer a thread");
        timers.all.iter().for_each(Timer::delete);
    }
}
