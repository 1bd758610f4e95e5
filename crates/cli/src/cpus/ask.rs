//! What functions return to this process: one line each, the name and the number of CPUs.
//!
//! The probes run this command as a program of its own, as it is and under `manx run`, so it stands
//! for every program that is linked with the C library, and for Rust. OpenMP's library is opened if
//! it is installed; it reads its variables when that happens.

use std::ffi::CStr;
use std::fmt::Write as _;

/// OpenMP's libraries: GCC's, and LLVM's.
const OPENMP: [&CStr; 2] = [c"libgomp.so.1", c"libomp.so.5"];

/// All answers, each on a line.
pub fn answers() -> String {
    let mut text = String::new();
    let mut say = |name: &str, count: Option<usize>| {
        if let Some(count) = count {
            writeln!(text, "{name} {count}").expect("writing to a String");
        }
    };
    // SAFETY: both only read.
    let (sysconf, nprocs) = unsafe { (libc::sysconf(libc::_SC_NPROCESSORS_ONLN), get_nprocs()) };
    say("sysconf", usize::try_from(sysconf).ok());
    say("get_nprocs", usize::try_from(nprocs).ok());
    say("affinity", affinity());
    say("openmp", openmp());
    say("rust", std::thread::available_parallelism().ok().map(usize::from));
    text
}

unsafe extern "C" {
    /// Of the C library, which has it in `<sys/sysinfo.h>`; C++'s `hardware_concurrency` is this.
    fn get_nprocs() -> libc::c_int;
}

/// The CPUs in the mask that `sched_getaffinity` gives.
fn affinity() -> Option<usize> {
    // SAFETY: zeroes are an empty set; the call fills at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let asked = libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (asked == 0).then(|| libc::CPU_COUNT(&set) as usize)
    }
}

/// How many threads a parallel region would have.
fn openmp() -> Option<usize> {
    OPENMP.iter().find_map(|name| {
        // SAFETY: the name is that of a library which may be opened; the function has this type and
        // takes nothing.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            let function = libc::dlsym(library, c"omp_get_max_threads".as_ptr());
            if function.is_null() {
                return None;
            }
            let function = std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> libc::c_int>(function);
            usize::try_from(function()).ok()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_name_and_a_count() {
        let text = answers();
        let names: Vec<_> = text
            .lines()
            .map(|line| {
                let (name, count) = line.split_once(' ').expect("two words");
                assert!(count.parse::<usize>().is_ok_and(|count| count > 0), "{line}");
                name
            })
            .collect();
        for name in ["sysconf", "get_nprocs", "affinity", "rust"] {
            assert!(names.contains(&name), "{text}");
        }
    }
}
