//! Whether the process is another one than it was: forked.
//!
//! The child of a fork has the calling thread alone, and numbers that the kernel gave to the
//! parent's threads are not its own. Code that keeps threads, their numbers, or locks that they
//! hold asks whether the [`generation`] is still the one in which it noted them.
//!
//! Handlers of `pthread_atfork` do not tell: `_Fork` and a bare `clone` run none. So the generation
//! stands in a page that the kernel fills with zeroes in each child (`MADV_WIPEONFORK`), and the
//! first thread of the child that asks counts on. A child that shares its parent's memory (`vfork`)
//! shares the generation: whatever a thread of the parent holds there will be released.
//!
//! Invariants:
//! 1. `PAGE` holds 0, then the number that a thread proposes for this process (even), then the
//!    generation (odd). There are no other steps, so all threads of a process agree on it.
//! 2. `LAST` is at least the proposal of this process once its generation is there, and of each
//!    that it descends from. So a child whose parent had a generation proposes a greater one. A
//!    child that is forked earlier may propose the same: no thread has noted it then.

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::memory;
use crate::syscall::{check, syscall5};
use std::sync::Once;

/// As large as a page, and alone on it.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
struct Page {
    generation: AtomicU32,
}

/// See the module's text.
static PAGE: Page = Page { generation: AtomicU32::new(0) };
static LAST: AtomicU32 = AtomicU32::new(0);
/// The kernel wipes [`PAGE`].
static WIPED: AtomicBool = AtomicBool::new(false);
/// The generation of a process whose ancestors have none.
const FIRST: u32 = 3;

/// Whether a word of [`PAGE`] is a generation, and no proposal.
#[inline(always)]
const fn is_there(word: u32) -> bool {
    word & 1 != 0
}

/// The number of this process: never 0, and greater in each child that does not share our memory.
///
/// ```
/// let before = platform::fork::generation();
/// assert_eq!(platform::fork::generation(), before);
/// ```
#[inline(always)]
pub fn generation() -> u32 {
    // Relaxed: the number is all there is to see, and by Invariant 1 all threads of a process see
    // the same.
    match PAGE.generation.load(Ordering::Relaxed) {
        known if is_there(known) => known,
        _ => begin(),
    }
}

/// Whether this is the process's [`generation`]. It is false as long as nobody has asked for the
/// generation.
///
/// ```
/// let before = platform::fork::generation();
/// assert!(platform::fork::is_generation(before) && !platform::fork::is_generation(before + 1));
/// ```
#[inline(always)]
pub fn is_generation(number: u32) -> bool {
    // Relaxed: as in `generation`. The page has an even number until a thread has asked.
    is_there(number) && PAGE.generation.load(Ordering::Relaxed) == number
}

/// Whether this process was forked from one in which somebody had asked for its [`generation`], or
/// this. Threads that the parent had besides the one that forked are not here.
///
/// ```
/// assert!(!platform::fork::is_child());
/// ```
#[inline(always)]
pub fn is_child() -> bool {
    // By Invariant 2 the first number is that of the process that asked first.
    generation() > FIRST
}

#[cold]
fn begin() -> u32 {
    // Before the number is written: a child must not inherit it. SAFETY: the page is this file's
    // own and anonymous, since it is zeroes; a child takes zeroes for what they are.
    if unsafe { memory::wipe_on_fork((&raw const PAGE).cast(), size_of::<Page>()) }.is_ok() {
        WIPED.store(true, Ordering::Relaxed);
    }
    agree(&PAGE.generation, &LAST)
}

/// Returns the process's generation, which is there from now on.
fn agree(page: &AtomicU32, last: &AtomicU32) -> u32 {
    loop {
        match page.load(Ordering::Relaxed) {
            known if is_there(known) => return known,
            0 => {
                // At most 2^31 processes descend from each other.
                let proposed = last.load(Ordering::Relaxed).wrapping_add(2);
                let _ = page.compare_exchange(0, proposed, Ordering::Relaxed, Ordering::Relaxed);
            }
            // In a child that was forked here, by a handler of signals, the page has 0 again.
            proposed => {
                last.fetch_max(proposed, Ordering::Relaxed);
                // Release: whoever sees the generation, a child too, has Invariant 2.
                let _ = page.compare_exchange(proposed, proposed | 1, Ordering::Release, Ordering::Relaxed);
            }
        }
    }
}

/// Has forks counted that go through the C library where the kernel does not tell of them (Linux
/// before 4.14).
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only writes a number. If there is no memory for it, forks are not
        // counted there.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// In the child of a fork, for libraries with a handler of their own: counts the fork, unless the
/// kernel has told.
pub extern "C" fn forked() {
    if !WIPED.load(Ordering::Relaxed) {
        PAGE.generation.store(0, Ordering::Relaxed);
    }
}

/// Forks a child that no `wait` of this process returns, unless it asks for such children
/// (`__WCLONE`, `__WALL`), and whose end makes no signal: also not after this process has executed
/// another program. Returns the child's number, and 0 in the child. No handlers run.
///
/// # Safety
/// This process has one thread.
///
/// # Errors
/// The error number of `clone`.
pub unsafe fn unseen_child() -> Result<u32, i32> {
    // SAFETY: without flags and a stack it is a fork, with no signal at the end; that the child has
    // all that its one thread needs is the caller's promise.
    let number = check(unsafe { syscall5(libc::SYS_clone, 0, 0, 0, 0, 0) })?;
    Ok(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_ask_at_once_agree_on_the_first_generation() {
        for _ in 0..1_000 {
            let (page, last) = (AtomicU32::new(0), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert_eq!(agree(&page, &last), FIRST));
                }
            });
            assert_eq!(last.into_inner() | 1, FIRST);
        }
    }

    #[test]
    fn a_child_is_of_another_generation() {
        watch();
        let before = generation();
        // SAFETY: the child only reads a number and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            crate::memory::exit_now(i32::from(generation() == before || !is_child()));
        }
        let mut status = -1;
        // SAFETY: waits for the child of a moment ago.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, generation()), (0, before));
    }

    #[test]
    fn a_child_of_a_bare_clone_is_of_another_generation_and_its_own_child_too() {
        let before = generation();
        // SAFETY: the children only read numbers, wait for each other by system calls, and end.
        unsafe {
            let clone = || crate::syscall::syscall6(libc::SYS_clone, libc::SIGCHLD as usize, 0, 0, 0, 0, 0);
            let wait = |child: isize| {
                let mut status = -1;
                let place = (&raw mut status).addr();
                crate::syscall::syscall4(libc::SYS_wait4, child as usize, place, 0, 0);
                status
            };
            let child = clone();
            if child == 0 {
                let own = generation();
                let grandchild = clone();
                if grandchild == 0 {
                    crate::memory::exit_now(i32::from(generation() <= own));
                }
                crate::memory::exit_now(i32::from(
                    own <= before || generation() != own || wait(grandchild) != 0,
                ));
            }
            assert!(child > 0);
            assert_eq!((wait(child), generation()), (0, before));
        }
    }
}
