//! Where the experiment runs: the CPUs that may be used, and where its programs are.

use std::env;
use std::path::PathBuf;

/// The CPUs that this process may use, in order.
pub fn cpus() -> Vec<usize> {
    // SAFETY: the set is a plain bit array; the kernel writes at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index stays within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// A CPU for each of `threads` threads; none if there are fewer CPUs: then the kernel places the
/// threads.
pub fn one_each(threads: usize) -> Vec<usize> {
    let cpus = cpus();
    if threads <= cpus.len() { cpus } else { Vec::new() }
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// If the system does not allow it.
pub fn stay_on(cpu: usize) -> Result<(), String> {
    stay_on_all(&[cpu])
}

/// Keeps the calling thread, and the threads that it starts from now on, on some CPUs.
///
/// # Errors
/// If the system does not allow it.
pub fn stay_on_all(cpus: &[usize]) -> Result<(), String> {
    // SAFETY: the call only reads the set.
    let refused = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set(cpus)) != 0 };
    let error = std::io::Error::last_os_error();
    match cpus {
        _ if !refused => Ok(()),
        [cpu] => Err(format!("CPU {cpu}: {error}")),
        cpus => Err(format!("CPUs {cpus:?}: {error}")),
    }
}

/// These CPUs as the kernel takes them.
pub(crate) fn set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a CPU set is an array of integers, for which zero is a value; `CPU_SET` checks its
    // bounds.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        set
    }
}

/// The first `count` of them as a list that the engines take, such as `0,1`.
pub fn cpu_list(count: usize) -> String {
    cpus().iter().take(count).map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Folders of servers. The PATH of an ordinary user lacks them.
pub(crate) const SERVERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Debian installs each version of PostgreSQL in a folder below this one, and puts none of them
/// into PATH.
pub(crate) const POSTGRES: &str = "/usr/lib/postgresql";

/// The first file of this name in the folders of PATH and of servers.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let of_postgres = versions.map(|version| version.path().join("bin"));
    let folders = env::split_paths(&path).chain(SERVERS.map(PathBuf::from)).chain(of_postgres);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let all = cpus();
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            stay_on(last).unwrap();
            assert_eq!(cpus(), [last]);
        })
        .join()
        .unwrap();
        assert_eq!(cpus(), all, "other threads are left alone");
    }
}
