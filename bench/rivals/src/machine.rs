//! What the experiments need from the machine: CPUs, and a thread's CPU time.
//!
//! It is asked here and not through `platform`, so that what the peers are measured with is none of
//! ours.

use std::mem::{MaybeUninit, zeroed};
use std::time::Duration;

use libc::{CLOCK_THREAD_CPUTIME_ID, CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t};

/// The CPUs that this thread may run on.
///
/// # Errors
/// If the system does not say.
pub fn allowed_cpus() -> Result<Vec<usize>, String> {
    // SAFETY: a CPU set is an array of integers, for which zero is a value; the call writes at most
    // the size that it is told, and the thread is the calling one.
    let set = unsafe {
        let mut set: cpu_set_t = zeroed();
        match libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &mut set) {
            0 => set,
            _ => return Err(format!("the allowed CPUs: {}", std::io::Error::last_os_error())),
        }
    };
    let all = 0..CPU_SETSIZE as usize;
    // SAFETY: the number is below the size of the set.
    Ok(all.filter(|&cpu| unsafe { CPU_ISSET(cpu, &set) }).collect())
}

/// Keeps the calling thread on one CPU, which has to be one of [`allowed_cpus`].
///
/// # Errors
/// If the system does not allow it.
pub fn stay_on(cpu: usize) -> Result<(), String> {
    stay_on_all(&[cpu])
}

/// Keeps the calling thread, and the threads that it starts from now on, on some of
/// [`allowed_cpus`].
///
/// # Errors
/// If the system does not allow it.
pub fn stay_on_all(cpus: &[usize]) -> Result<(), String> {
    // SAFETY: as in `allowed_cpus`; the set is only read by the call. `CPU_SET` checks its bounds.
    let refused = unsafe {
        let mut set: cpu_set_t = zeroed();
        cpus.iter().for_each(|&cpu| CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<cpu_set_t>(), &set) != 0
    };
    if refused { Err(format!("CPUs {cpus:?}: {}", std::io::Error::last_os_error())) } else { Ok(()) }
}

/// How much CPU time the calling thread has used.
///
/// # Panics
/// If the system has no such clock, which Linux always has.
pub fn thread_cpu_time() -> Duration {
    let mut time = MaybeUninit::uninit();
    // SAFETY: the pointer is to room for one `timespec`, which the call fills if it returns 0.
    let time = unsafe {
        assert_eq!(libc::clock_gettime(CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()), 0, "no thread CPU clock");
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let all = allowed_cpus().unwrap();
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            stay_on(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), all, "other threads are left alone");
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let begin = thread_cpu_time();
        while thread_cpu_time() == begin {}
        assert!(thread_cpu_time() > begin);
    }
}
