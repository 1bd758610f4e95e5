//! Where the experiment runs: the processor's name, the CPUs that may be used, the kernel, and
//! where its programs are.

use report::Machine;
use std::path::PathBuf;
use std::{env, fs};

/// Describes this machine.
pub fn here() -> Machine {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    let processor = model.and_then(|line| line.split(": ").nth(1)).unwrap_or(env::consts::ARCH);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        processor: processor.trim().into(),
        cpus: cpus().len(),
        kernel: format!("Linux {}", release.trim()),
    }
}

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

/// The first `count` of them as a list that the engines take, such as `0,1`.
pub fn cpu_list(count: usize) -> String {
    cpus().iter().take(count).map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Folders of servers. The PATH of an ordinary user lacks them.
const SERVERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// The first file of this name in the folders of PATH and of servers.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SERVERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
