//! Whether a new thread believes that it has blocked SIGTRAP.
//!
//! A thread inherits its creator's mask. The kernel's mask never holds SIGTRAP, so the part of the mask
//! that exists only here must get to the new thread in another way, and its start routine is not ours to
//! wrap. So the creator leaves word, and the new thread looks for it when it first needs to know:
//!
//! | since SIGTRAP became ours, threads were created | a thread that looks believes SIGTRAP |
//! | --- | --- |
//! | only by threads that had it open | open |
//! | only by threads that had it blocked | blocked |
//! | by both kinds | as the creators that are still at it, if they agree; else blocked if a note bears its name |
//!
//! There is room for `NOTES` notes. A program that creates more threads than that of both kinds, none
//! of which ever asks for its mask, may have an old one of them wrong; it is wrong about a signal that it
//! would have to be sent to notice.

use core::sync::atomic::{AtomicUsize, Ordering};

/// How many notes there are.
const NOTES: usize = 64;

static WHILE_OPEN: AtomicUsize = AtomicUsize::new(0);
static WHILE_BLOCKED: AtomicUsize = AtomicUsize::new(0);
/// Creators that have not left their note yet: with SIGTRAP open, and blocked.
static CREATING: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static NAMES: [AtomicUsize; NOTES] = [const { AtomicUsize::new(0) }; NOTES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// SIGTRAP becomes ours while `others` threads run that have it open.
pub fn start(others: usize) {
    WHILE_OPEN.fetch_add(others, Ordering::Relaxed);
}

/// A thread is about to be created that is to believe SIGTRAP blocked, or not.
pub fn creating(blocked: bool) {
    CREATING[usize::from(blocked)].fetch_add(1, Ordering::SeqCst);
    let kind = if blocked { &WHILE_BLOCKED } else { &WHILE_OPEN };
    kind.fetch_add(1, Ordering::SeqCst);
}

/// It was created under this name, or could not be.
pub fn created(blocked: bool, name: Option<usize>) {
    if let Some(name) = name {
        // A name is used again after its thread has ended.
        let old = NAMES.iter().find(|note| note.load(Ordering::Relaxed) == name);
        match (old, blocked) {
            (Some(old), false) => old.store(0, Ordering::SeqCst),
            (None, true) => {
                let next = NEXT.fetch_add(1, Ordering::Relaxed) % NOTES;
                NAMES[next].store(name, Ordering::SeqCst);
            }
            _ => {}
        }
    }
    CREATING[usize::from(blocked)].fetch_sub(1, Ordering::SeqCst);
}

/// Whether the calling thread, which has not looked yet, believes SIGTRAP blocked.
pub fn blocked() -> bool {
    if WHILE_BLOCKED.load(Ordering::SeqCst) == 0 {
        return false;
    }
    if WHILE_OPEN.load(Ordering::SeqCst) == 0 {
        return true;
    }
    // A thread that looks at once looks while it is being created, and a note may still be that of an
    // earlier thread of its name. The creator notes first and stops creating then: whoever sees that it has
    // stopped sees what it noted.
    match CREATING.each_ref().map(|kind| kind.load(Ordering::SeqCst) > 0) {
        [true, false] => false,
        [false, true] => true,
        _ => {
            // SAFETY: only reads.
            let own = unsafe { libc::pthread_self() } as usize;
            NAMES.iter().any(|note| note.load(Ordering::SeqCst) == own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_believes_what_its_creator_did() {
        let looks = || std::thread::spawn(blocked).join().expect("looked");
        assert!(!looks(), "nobody has blocked anything");
        creating(true);
        assert!(looks(), "all creators had it blocked");
        created(true, Some(1));
        creating(false);
        created(false, Some(2));
        assert!(!looks(), "no note");
        // SAFETY: only reads.
        let own = unsafe { libc::pthread_self() } as usize;
        creating(true);
        assert!(looks(), "a creator is still at it");
        created(true, Some(own));
        assert!(blocked() && !looks(), "the note bears one name");
        creating(false);
        created(false, Some(own));
        assert!(!blocked(), "the name was used again");
    }
}
