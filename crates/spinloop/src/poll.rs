//! Functions that a thread calls again and again until what it waits for has happened.
//!
//! `while (!done) opal_progress();` is how Open MPI waits. Nothing in the machine code of such a
//! loop says that it waits: it calls, the function that it calls writes memory and calls others,
//! and any of them may find work. The only sign is the name of the function: libraries that
//! communicate call the function that looks for what has come their *progress*. So a function is
//! taken for one by that convention ([`is_polling`]), which is a first guess. Whether sleeps in
//! between help is not guessed: the running program is asked.
//!
//! The pivot is the function's entry, which all callers pass, however the call was bound. Only the
//! instructions that the jump replaces are copied, as for a hint. An `endbr64` keeps its place,
//! because indirect calls have to arrive at one: the pivot is the instruction behind it.
//!
//! The visit comes before the function has done anything, so the function, its arguments and its
//! result stay the same. It is not certain that the caller waits. A thread that calls often enough,
//! with nothing to do in between, is assumed to wait. A mistake costs only time.

use crate::image::Image;
use crate::instruction::Instruction;
use crate::route::ENDBR64;

/// Returns whether threads poll by the function of this name, by the convention of libraries that
/// communicate: `opal_progress` of Open MPI, `ucp_worker_progress` of UCX, `MPID_Progress_test` of
/// MPICH. What such a function calls in turn has longer names, such as `uct_tcp_iface_progress`.
///
/// ```
/// assert!(spinloop::is_polling(b"ucp_worker_progress"));
/// assert!(!spinloop::is_polling(b"pk_client_get_progress"));
/// ```
pub fn is_polling(name: &[u8]) -> bool {
    let is = |word: &[u8], one_of: &[&str]| one_of.iter().any(|it| word.eq_ignore_ascii_case(it.as_bytes()));
    let progress = |word: &[u8]| is(word, &["progress"]);
    // Not `split`'s iterator alone: the words are looked at from both ends.
    let mut words = [&name[..0]; 4];
    let mut count = 0;
    for word in name.split(|&byte| byte == b'_') {
        let Some(place) = words.get_mut(count) else { return false };
        (*place, count) = (word, count + 1);
    }
    // A function that tells how far something has come is no library's.
    let of_library =
        |word: &[u8]| !word.is_empty() && !is(word, &["get", "set", "on", "show", "report", "print"]);
    match &words[..count] {
        [library, last] => of_library(library) && progress(last),
        [library, of, last] if progress(last) => of_library(library) && is(of, &["worker", "context"]),
        [library, middle, last] => {
            of_library(library) && progress(middle) && is(last, &["test", "poke", "poll"])
        }
        _ => false,
    }
}

/// The index of the pivot, for a function whose first instruction is number `at`: that one, or the
/// one behind an `endbr64`.
pub(crate) fn pivot(image: &dyn Image, instructions: &[Instruction], at: usize) -> Option<usize> {
    let first = instructions.get(at)?;
    let behind = image.at(first.address).starts_with(&ENDBR64);
    let pivot = at + usize::from(behind);
    (pivot < instructions.len()).then_some(pivot)
}

#[cfg(test)]
mod tests {
    use super::is_polling;

    #[test]
    fn functions_are_known_by_the_convention_of_libraries_that_communicate() {
        for name in [
            "opal_progress",
            "ucp_worker_progress",
            "uct_worker_progress",
            "PMIx_Progress",
            "MPID_Progress_test",
            "shmem_progress",
        ] {
            assert!(is_polling(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "progress",
            "_progress",
            "get_progress",
            "pk_client_get_progress",
            "uct_tcp_iface_progress",
            "ucp_wireup_msg_progress",
            "GDALTermProgress",
            "MPID_Progress_start",
            "progress_test",
            "a_b_c_d_progress",
        ] {
            assert!(!is_polling(name.as_bytes()), "{name}");
        }
    }
}
