//! What the kernel counts of threads and processes: how often they were made to wait, and in which
//! units it counts time.

use crate::syscall::{check, syscall2};

/// How often a CPU was taken or given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The thread began to wait for something: it slept.
    pub voluntary: u64,
    /// It wished to go on, and another one was given its CPU; that includes yields.
    pub involuntary: u64,
}

/// The calling thread's, since it began. Costs 0.3 µs; `errno` is left alone.
///
/// ```
/// let before = platform::usage::of_this_thread();
/// platform::thread::sleep_ns(1_000);
/// assert!(platform::usage::of_this_thread().voluntary > before.voluntary);
/// ```
pub fn of_this_thread() -> Switches {
    switches(libc::RUSAGE_THREAD)
}

/// Those of all threads of the process, of those that have ended, too. Costs 0.6 µs, and some 10 ns
/// for each thread.
///
/// ```
/// let process = platform::usage::of_this_process();
/// assert!(process.voluntary >= platform::usage::of_this_thread().voluntary);
/// # let _ = process;
/// ```
pub fn of_this_process() -> Switches {
    switches(libc::RUSAGE_SELF)
}

/// The CPU time that all threads of another process have used, those that have ended, too, in
/// nanoseconds; `None` if this process cannot see it. Costs 0.4 µs, and some 10 ns for each thread:
/// a fraction of what `/proc/PID/stat` costs, which counts in ticks.
///
/// ```
/// let (before_ns, own_ns) = (platform::clock::process_cpu_ns(), platform::usage::process_cpu_ns_of(std::process::id()));
/// assert!(own_ns >= Some(before_ns));
/// assert_eq!(platform::usage::process_cpu_ns_of(4_194_305), None, "the kernel gives no such number");
/// ```
pub fn process_cpu_ns_of(pid: u32) -> Option<u64> {
    // The number of a process's clock (`clock_getcpuclockid`, with the kernel's `CPUCLOCK_SCHED` in
    // the last two bits).
    if pid == 0 || pid >= 1 << 28 {
        return None;
    }
    let clock = (!(pid as i32) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, or nothing.
    let result =
        unsafe { syscall2(libc::SYS_clock_gettime, clock as isize as usize, (&raw mut time).addr()) };
    check(result).ok()?;
    Some(crate::clock::nanoseconds(&time))
}

fn switches(who: i32) -> Switches {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    let place = usage.as_mut_ptr().addr();
    // SAFETY: the kernel's `struct rusage` is the C library's on these machines; zeroes are valid,
    // and all that is left if it fails.
    let usage = unsafe {
        let _ = check(syscall2(libc::SYS_getrusage, who as isize as usize, place));
        usage.assume_init()
    };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Switches { voluntary: count(usage.ru_nvcsw), involuntary: count(usage.ru_nivcsw) }
}

/// How long a tick is in files such as `/proc/stat`, in nanoseconds: 10 ms wherever Linux runs
/// today.
///
/// ```
/// assert_eq!(platform::usage::tick_ns(), 10_000_000);
/// ```
pub fn tick_ns() -> u64 {
    // SAFETY: only reads.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    crate::clock::SECOND_NS / u64::try_from(ticks).unwrap_or(100).max(1)
}
