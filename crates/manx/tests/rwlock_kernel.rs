//! The readers-writer lock and the kernel: a wait that a signal's handler interrupts for long, and
//! a release whose memory is gone before it wakes a waiter.

use manx::lock::RawRwLock;
use manx::lock::bounded::{UNBOUNDED_NS, Wait};
use platform::futex::Deadline;
use platform::memory::{READ, WRITE, map_zeroes, unmap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use testing::until;

/// May be overtaken for ever.
const PATIENT: Wait = Wait { window_ns: Some(UNBOUNDED_NS), turns: None, deadline: None, trusting: false };

/// The handler runs; it is to return.
static INSIDE: AtomicBool = AtomicBool::new(false);
static RETURN: AtomicBool = AtomicBool::new(false);

extern "C" fn handler(_signal: libc::c_int) {
    INSIDE.store(true, Ordering::SeqCst);
    while !RETURN.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// After a handler the kernel takes up the wait again, with the value that the waiter expected
/// before it.
#[test]
fn a_waiter_that_is_away_for_256_wake_ups_is_not_forgotten() {
    // SAFETY: all-zero is a valid action, and the handler uses atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let lock: &'static RawRwLock = Box::leak(Box::new(RawRwLock::new()));
    lock.write();
    let (tell, told) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // SAFETY: asks for the calling thread.
        tell.send(unsafe { libc::pthread_self() }).expect("somebody listens");
        lock.read_slow(&PATIENT).expect("no deadline");
    });
    let thread = told.recv().expect("it begins");
    // By then it sleeps.
    thread::sleep(Duration::from_millis(100));
    // SAFETY: the thread has not ended.
    assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
    until("the handler", || INSIDE.load(Ordering::SeqCst));
    for wake_up in 1..=256 {
        // SAFETY: entered above, or below.
        unsafe { lock.release_write() };
        if wake_up < 256 {
            assert!(lock.try_write());
            // It sleeps until its deadline, and leaves a flag behind for which the release wakes.
            let deadline = Some(Deadline::after(Duration::from_millis(1)));
            assert!(lock.read_slow(&Wait { deadline, ..PATIENT }).is_err());
        }
    }
    RETURN.store(true, Ordering::SeqCst);
    until("the waiter, for which the lock is free", || waiter.is_finished());
    waiter.join().expect("it reads");
}

#[test]
fn the_next_holder_may_unmap_the_lock() {
    const PAGE: usize = 4096;
    for round in 0..2_000 {
        let page = map_zeroes(PAGE, READ | WRITE).expect("memory");
        // SAFETY: zeroed memory is a free lock; it is there until the waiter, its last user, unmaps
        // it.
        let lock: &'static RawRwLock = unsafe { &*page.cast::<RawRwLock>() };
        assert!(if round % 2 == 0 { lock.try_write() } else { lock.try_read() });
        let page = page.expose_provenance();
        let waiter = thread::spawn(move || {
            let window_ns = Some(if round % 3 == 0 { 0 } else { UNBOUNDED_NS });
            lock.write_slow(&Wait { window_ns, ..PATIENT }).expect("no deadline");
            // SAFETY: mapped above. This thread has it alone, and no thread waits.
            unsafe { unmap(std::ptr::with_exposed_provenance_mut(page), PAGE) }.expect("it was mapped");
        });
        (0..round % 64 * 16).for_each(|_| std::hint::spin_loop());
        // SAFETY: entered above.
        unsafe { if round % 2 == 0 { lock.release_write() } else { lock.release_read() } };
        waiter.join().expect("it writes");
    }
}
