//! Ctrl-C: remembered, and passed on at once to the measured programs; each of them has a session
//! of its own.
//!
//! Invariants:
//! 1. The handler does two things, both async-signal-safe: it stores a flag and it kills the
//!    process groups whose leaders are in `CHILDREN`.
//! 2. `CHILDREN` names a group only while its leader has not been reaped, so the number cannot have
//!    been given to another process. The flag is read after a number is set, so no signal falls in
//!    between.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// As many programs may run side by side.
const CHILDREN_MAX: usize = 64;
static CHILDREN: [AtomicI32; CHILDREN_MAX] = [const { AtomicI32::new(0) }; CHILDREN_MAX];

extern "C" fn handle(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
    kill_children();
}

fn kill_children() {
    for child in &CHILDREN {
        let leader = child.load(Ordering::SeqCst);
        if leader > 0 {
            // SAFETY: kill has no memory effects; by Invariant 2 the group is ours.
            unsafe { libc::kill(-leader, libc::SIGKILL) };
        }
    }
}

/// From now on SIGINT and SIGTERM end the experiment instead of the process.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler is async-signal-safe by Invariant 1; a zeroed sigaction is an empty
        // mask.
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

/// A process group to kill; it is forgotten when this is dropped, which must be before its leader
/// is reaped.
pub(crate) struct Registered(&'static AtomicI32);

impl Registered {
    /// # Panics
    /// If more than `CHILDREN_MAX` groups are registered at once.
    pub(crate) fn new(leader: i32) -> Registered {
        let free = |child: &&AtomicI32| {
            child.compare_exchange(0, leader, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        let child = CHILDREN.iter().find(free).expect("no experiment runs more programs at once");
        if requested() {
            kill_children();
        }
        Registered(child)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}
