//! What callers do with the number of CPUs that they ask for.
//!
//! A mask that is asked for may be bound to, so it is the program's own. The number of online CPUs
//! may be a bound of CPU numbers: the size of a table that `sched_getcpu` is an index of, or the
//! end of a loop that binds worker *i* to CPU *i*. So it is the machine's, unless the caller cannot
//! use it like that.
//!
//! Some callers are known to count only: this function of that library wants to know how many
//! threads to start, and its answer is documented as such a number. They are told by where the call
//! returns to:
//!
//! | caller | what it does with a mask, or with the number |
//! | --- | --- |
//! | `uv_available_parallelism` | libuv, in Node.js and Julia: counts |
//! | `g_get_num_processors` | GLib: counts |
//! | `av_cpu_count` | FFmpeg's libavutil: counts |
//! | `QThread::idealThreadCount()` | Qt: counts |
//! | `std::thread::hardware_concurrency()` | C++, as "only a hint" of how many threads run at a time |
//! | a module that has `Py_Main` | Python's `os.cpu_count()`, for which Python has a variable of its own since 3.13. It asks for no mask in order to count |
//! | `libjvm.so` | Java's virtual machine: counts, and caps what its own reading of control groups gave. It rounds quotas up, and one CPU less would give it another garbage collector |
//!
//! Any other caller is told the number of online CPUs only if neither its module nor the program
//! itself uses a function by which a thread learns the number of its CPU, or is bound to one
//! (`NUMBERS`). `syscall` is one of them. The program itself is asked even where C++'s function
//! is known to count, because the program gets the number from it.
//!
//! Others that only count a mask, like `nproc` and OpenMP, take the environment's word
//! (`OMP_NUM_THREADS`), which `manx run` gives.

use super::reported::Rounds;
use crate::elf::link_map;
use crate::elf::symbols::Table;
use crate::holder;
use crate::process::file_name;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Functions that count, wherever they are. The last two are C++'s, of GCC and of LLVM.
const FUNCTIONS: [&CStr; 6] = [
    c"uv_available_parallelism",
    c"g_get_num_processors",
    c"av_cpu_count",
    c"_ZN7QThread16idealThreadCountEv",
    c"_ZNSt6thread20hardware_concurrencyEv",
    c"_ZNSt3__16thread20hardware_concurrencyEv",
];
/// A function of Python's interpreter. The interpreter asks for online CPUs only to count them.
const PYTHON: &CStr = c"Py_Main";
/// A library: every function in it that asks counts.
const JAVA: &[u8] = b"libjvm.so";

/// Returns how the caller rounds quotas, if a call that returns to `address` came from a caller
/// that only counts.
///
/// # Safety
/// A call of the running thread returns to `address`, or the module there is never closed.
pub unsafe fn only_counts(address: usize) -> Option<Rounds> {
    let look = |path: &CStr, table: Option<Table>| {
        if file_name(path.to_bytes()) == JAVA {
            return Some(Rounds::Up);
        }
        let table = table?;
        let is_in = |name: &&CStr| table.extent(name).is_some_and(|range| range.contains(&address));
        FUNCTIONS.iter().any(is_in).then_some(Rounds::Down)
    };
    // SAFETY: the module stays open, as the caller promised.
    unsafe { holder::with(address, look) }.flatten()
}

/// Functions by which a thread learns the number of its CPU, or is bound to one; and the variable
/// by which it finds that number in its own memory.
const NUMBERS: [&CStr; 7] = [
    c"sched_getcpu",
    c"getcpu",
    c"sched_setaffinity",
    c"pthread_setaffinity_np",
    c"pthread_attr_setaffinity_np",
    c"syscall",
    c"__rseq_offset",
];

/// Whether a module may know CPUs by their numbers. A module without a table may.
fn knows_numbers(table: Option<&Table>) -> bool {
    table.is_none_or(|table| table.uses().any(|name| NUMBERS.contains(&name)))
}

/// The same of the program itself, which never changes.
fn program_knows_numbers() -> bool {
    /// 0: not asked yet; otherwise 1 more than the answer.
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the answer is all there is to see, and each look finds the same.
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let answer = knows_numbers(link_map::program().as_ref());
            ANSWER.store(u32::from(answer) + 1, Ordering::Relaxed);
            answer
        }
        known => known == 2,
    }
}

/// Returns how the caller rounds quotas, if a call that returns to `address` came from a caller
/// that may be told of fewer online CPUs than there are.
///
/// # Safety
/// As for [`only_counts`].
pub unsafe fn takes_fewer(address: usize) -> Option<Rounds> {
    // The loader's lock may be held by a thread that a fork has left behind.
    if holder::locks() && platform::fork::is_child() {
        return None;
    }
    let look = |path: &CStr, table: Option<Table>| {
        if file_name(path.to_bytes()) == JAVA {
            return Some(Rounds::Up);
        }
        let table = table?;
        let is_in = |name: &&CStr| table.extent(name).is_some_and(|range| range.contains(&address));
        let fewer = table.function(PYTHON).is_some()
            || !program_knows_numbers() && (FUNCTIONS.iter().any(is_in) || !knows_numbers(Some(&table)));
        fewer.then_some(Rounds::Down)
    };
    // SAFETY: the module stays open, as the caller promised.
    unsafe { holder::with(address, look) }.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_makes_system_calls_of_its_own_may_know_numbers() {
        assert!(program_knows_numbers(), "Rust's library uses `syscall`");
        let ours = program_knows_numbers as *const () as usize;
        // SAFETY: the program is never closed.
        assert_eq!(unsafe { takes_fewer(ours) }, None);
    }

    #[test]
    fn a_library_of_arithmetic_knows_no_numbers() {
        // SAFETY: opens a library, which stays open, and looks a name up in it.
        let cos = unsafe {
            let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
            libc::dlsym(library, c"cos".as_ptr())
        };
        // SAFETY: it stays open.
        let knows = unsafe { holder::with(cos as usize, |_, table| knows_numbers(table.as_ref())) };
        assert_eq!(knows, Some(false));
        assert!(knows_numbers(None));
    }

    #[test]
    fn other_callers_do_not_only_count() {
        let ours = other_callers_do_not_only_count as *const () as usize;
        for address in [ours, 0, libc::qsort as *const () as usize] {
            // SAFETY: neither the program nor the C library is ever closed, and nothing lies at 0.
            assert_eq!(unsafe { only_counts(address) }, None);
        }
    }
}
