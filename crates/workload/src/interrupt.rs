//! Ctrl-C: remembered, and passed on at once to the measured program, which has a session of its own.
//!
//! 1. The handler does two things, both async-signal-safe: it stores a flag and it kills the process group
//!    whose leader is in `CHILD`.
//! 2. `CHILD` names a group only while its leader has not been reaped, so the number cannot have been given
//!    to another process. Whoever sets it looks at the flag afterwards, so no signal falls in between.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn handle(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
    kill_child();
}

fn kill_child() {
    let leader = CHILD.load(Ordering::SeqCst);
    if leader > 0 {
        // SAFETY: kill has no memory effects; by Invariant 2 the group is ours.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

/// From now on SIGINT and SIGTERM end the experiment instead of the process.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler is async-signal-safe by Invariant 1; a zeroed sigaction is an empty mask.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// True once the user has asked to stop.
pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// The process group to kill; it is forgotten when this is dropped, which must be before it is reaped.
pub(crate) struct Registered(());

impl Registered {
    pub(crate) fn new(leader: i32) -> Registered {
        CHILD.store(leader, Ordering::SeqCst);
        if requested() {
            kill_child();
        }
        Registered(())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        CHILD.store(0, Ordering::SeqCst);
    }
}
