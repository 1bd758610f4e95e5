//! CPUs: the hint for spin loops, which CPU this is, and how many may be used.
//!
//! Which CPU a thread runs on is asked often and changes at any time, so the answer is a hint.
//! Since Linux 4.18 the kernel writes it into each thread's restartable-sequence area, and since
//! version 2.35 the GNU C library says where that is. Its two symbols are looked up at run time: a
//! direct reference would keep the program from starting on older systems. Where they are missing,
//! `sched_getcpu` answers.

use crate::atomic::{AtomicI64, Ordering};
use crate::syscall::{check, syscall3};

pub use crate::kind::{Kind, is_hybrid, kind};

/// Tells the CPU that this is a spin loop: it saves power, and leaves the core to its sibling.
#[inline(always)]
pub fn pause() {
    core::hint::spin_loop();
}

/// How often a loop may spin that would like to spin `wanted` times: as often as it likes. On a
/// twin it is 0 or hardly more, because there a spin proves nothing and hides what happens after
/// it.
///
/// ```
/// assert_eq!(platform::spin_bound(10), 10);
/// ```
#[inline(always)]
pub const fn spin_bound(wanted: u32) -> u32 {
    wanted
}

/// The most CPUs that [`count`] can count.
pub const COUNT_MAX: usize = 8192;

/// CPUs, a bit for each.
pub type Mask = [u64; COUNT_MAX / 64];

/// How many CPUs the calling thread may run on (its affinity). At least 1.
///
/// ```
/// assert!(platform::cpu::count() >= 1);
/// ```
pub fn count() -> usize {
    allowed().iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1)
}

/// The calling thread's affinity, a bit for each CPU; no bit if the kernel has more CPUs than fit.
///
/// ```
/// let cpu = platform::cpu::current();
/// assert!(platform::cpu::allowed()[cpu / 64] & 1 << (cpu % 64) != 0);
/// ```
pub fn allowed() -> Mask {
    let mut mask = [0; COUNT_MAX / 64];
    // SAFETY: 0 stands for the calling thread; the kernel writes at most the mask's size, and
    // nothing at all if it fails.
    unsafe { syscall3(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr().addr()) };
    mask
}

/// How many CPUs the calling thread may run on, or 0 on a kernel that knows more than 1024. Calls
/// nothing but the kernel, and needs little stack.
///
/// ```
/// assert!([0, platform::cpu::count()].contains(&platform::cpu::count_if_few()));
/// ```
pub fn count_if_few() -> usize {
    let mut mask = [0u64; 16];
    // SAFETY: 0 stands for the calling thread; the kernel writes at most the mask's size, and
    // nothing at all if it fails.
    unsafe { syscall3(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr().addr()) };
    // Nothing here can panic, so that a waiter may ask.
    mask.iter().fold(0, |count, word| count.wrapping_add(word.count_ones() as usize))
}

/// Binds the calling thread, and those that it starts from now on, to the first `most` of the CPUs
/// that it may run on; returns how many these are, which is less if there are less. At least one
/// stays.
///
/// ```
/// let bound = std::thread::spawn(|| (platform::cpu::restrict(1), platform::cpu::count()));
/// assert_eq!(bound.join().unwrap(), (1, 1));
/// ```
pub fn restrict(most: usize) -> usize {
    let mut mask = allowed();
    let mut kept = 0;
    for word in &mut mask {
        for bit in 0..64 {
            if *word & 1 << bit != 0 {
                if kept < most.max(1) {
                    kept += 1;
                } else {
                    *word &= !(1 << bit);
                }
            }
        }
    }
    bind(&mask);
    count()
}

/// From now on the calling thread may run where another thread of this process may, which the
/// kernel knows by this number. If that thread has ended, nothing changes.
///
/// ```
/// let first = platform::thread::id();
/// let count = std::thread::spawn(move || {
///     platform::cpu::restrict(1);
///     platform::cpu::join_affinity_of(first);
///     platform::cpu::count()
/// });
/// assert_eq!(count.join().unwrap(), platform::cpu::count());
/// ```
pub fn join_affinity_of(thread: u32) {
    if thread != 0
        && let Ok(mask) = allowed_of(thread)
    {
        bind(&mask);
    }
}

/// Runs `look` once on each of these CPUs that the calling thread may run on, by binding the thread
/// to it for a moment; afterwards it may run where it could before. Those that it cannot be bound
/// to are left out.
///
/// ```
/// let mut cpus = Vec::new();
/// platform::cpu::on_each([0, 8000], |cpu| cpus.push((cpu, platform::cpu::current())));
/// assert!(cpus.is_empty() || cpus == [(0, 0)]);
/// ```
pub fn on_each(cpus: impl IntoIterator<Item = usize>, mut look: impl FnMut(usize)) {
    let before = allowed();
    for cpu in cpus {
        let Some(word) = before.get(cpu / 64) else { continue };
        let mut mask = [0; COUNT_MAX / 64];
        mask[cpu / 64] = word & 1 << (cpu % 64);
        if mask[cpu / 64] != 0 && bind(&mask) {
            look(cpu);
        }
    }
    bind(&before);
}

/// Binds the calling thread to these CPUs, as [`allowed`] gives them; returns whether that was
/// possible. If none of them is there, nothing changes.
///
/// ```
/// let before = platform::cpu::allowed();
/// let bound = std::thread::spawn(move || {
///     platform::cpu::restrict(1);
///     (platform::cpu::bind(&before), platform::cpu::allowed() == before)
/// });
/// assert_eq!(bound.join().unwrap(), (true, true));
/// ```
pub fn bind(mask: &Mask) -> bool {
    // SAFETY: 0 stands for the calling thread; the kernel reads the mask. It changes only where
    // this thread runs; if none of the CPUs is there any more, the call fails and nothing changes.
    let result = unsafe { syscall3(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr().addr()) };
    check(result).is_ok()
}

/// The affinity of any thread of the machine, as [`allowed`] gives it.
///
/// ```
/// let own = platform::thread::id();
/// assert_eq!(platform::cpu::allowed_of(own), Ok(platform::cpu::allowed()));
/// ```
///
/// # Errors
/// The error number of `sched_getaffinity`: `ESRCH` if there is no such thread.
pub fn allowed_of(thread: u32) -> Result<Mask, i32> {
    let mut mask = [0; COUNT_MAX / 64];
    let size = size_of_val(&mask);
    // SAFETY: the kernel writes at most the mask's size, and nothing at all if it fails.
    check(unsafe { syscall3(libc::SYS_sched_getaffinity, thread as usize, size, mask.as_mut_ptr().addr()) })?;
    Ok(mask)
}

/// Binds any thread of the machine to these CPUs, as [`bind`] does the calling one.
///
/// ```
/// let own = platform::thread::id();
/// assert_eq!(platform::cpu::bind_other(own, &platform::cpu::allowed()), Ok(()));
/// ```
///
/// # Errors
/// The error number of `sched_setaffinity`: `ESRCH` if there is no such thread, `EPERM` if it is
/// another user's, `EINVAL` if none of the CPUs is there.
pub fn bind_other(thread: u32, mask: &Mask) -> Result<(), i32> {
    let (size, mask) = (size_of_val(mask), mask.as_ptr().addr());
    // SAFETY: the kernel reads the mask, and changes only where that thread runs.
    check(unsafe { syscall3(libc::SYS_sched_setaffinity, thread as usize, size, mask) }).map(drop)
}

/// Where a thread's restartable-sequence area lies, counted from its thread pointer: [`NOT_ASKED`],
/// [`NOWHERE`] or an offset.
static AREA: AtomicI64 = AtomicI64::new(NOT_ASKED);
const NOT_ASKED: i64 = i64::MIN;
const NOWHERE: i64 = i64::MAX;
/// `offsetof(struct rseq, cpu_id)`; the field is the kernel's stable interface.
const CPU_ID: usize = 4;

/// The CPU that the calling thread runs on, or ran on a moment ago.
///
/// ```
/// let cpu = platform::cpu::current();
/// assert!(cpu < platform::cpu::COUNT_MAX);
/// ```
#[inline]
pub fn current() -> usize {
    // Relaxed: the value is all there is to see, and everybody finds the same one.
    let area = match AREA.load(Ordering::Relaxed) {
        NOT_ASKED => find_area(),
        known => known,
    };
    if area != NOWHERE {
        let place = thread_pointer().wrapping_add_signed(area as isize).wrapping_add(CPU_ID);
        // SAFETY: the C library says that each thread's area, as the kernel keeps it, lies there.
        // It is written by the kernel at any time, hence volatile.
        let cpu = unsafe { (place as *const i32).read_volatile() };
        // Negative where the kernel refused to keep this thread's area.
        if let Ok(cpu) = usize::try_from(cpu) {
            return cpu;
        }
    }
    // SAFETY: only reads.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

#[cold]
fn find_area() -> i64 {
    // SAFETY: both symbols, where they exist, are constants of the C library: a ptrdiff_t and an
    // unsigned int.
    let area = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        // A size of 0: the administrator turned it off (glibc.pthread.rseq=0), or the kernel lacks
        // it.
        if offset.is_null() || size.is_null() || *size == 0 { NOWHERE } else { *offset as i64 }
    };
    AREA.store(area, Ordering::Relaxed);
    area
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the x86-64 ABI keeps the thread pointer at fs:0.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly))
    };
    pointer
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the AArch64 ABI keeps the thread pointer in this register, which anybody may read.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags))
    };
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_cpu_is_the_one_that_the_thread_is_bound_to() {
        std::thread::spawn(|| {
            // SAFETY: zeroes are an empty set; affinity calls get sets of the right size.
            unsafe {
                let mut allowed: libc::cpu_set_t = core::mem::zeroed();
                assert_eq!(libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed), 0);
                let cpus = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &allowed));
                for cpu in cpus {
                    let mut one: libc::cpu_set_t = core::mem::zeroed();
                    libc::CPU_SET(cpu, &mut one);
                    assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
                    assert_eq!(current(), cpu);
                    assert_eq!(count(), 1);
                }
            }
        })
        .join()
        .expect("each CPU in turn");
    }

    #[test]
    fn each_cpu_is_visited_and_the_affinity_is_as_before() {
        std::thread::spawn(|| {
            let before = allowed();
            let mut visited = Vec::new();
            on_each((0..COUNT_MAX + 64).rev(), |cpu| {
                assert_eq!((cpu, 1), (current(), count()));
                visited.push(cpu);
            });
            assert_eq!((visited.len(), allowed()), (count(), before));
        })
        .join()
        .expect("each CPU in turn");
    }

    #[test]
    fn the_area_is_found_where_the_c_library_has_one() {
        // SAFETY: only looks.
        let known = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).is_null() };
        let area = find_area();
        assert!(known || area == NOWHERE);
        assert_ne!(area, NOT_ASKED);
    }
}
