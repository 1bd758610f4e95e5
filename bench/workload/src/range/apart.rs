//! A run in a process of its own, for a lock that keeps what it has allocated for ever.
//!
//! The thesis' skip list as it is published frees nothing, also not when it is dropped. A second of
//! it takes half a gigabyte, and an experiment has a hundred such seconds. A process gives
//! everything back when it ends, so each of its runs has one: forked, which costs the run nothing,
//! since its threads and all that they allocate come later.
//!
//! The child has no thread but the caller's. That is no loss where the caller is the only one, as
//! in the command; in a test beside other tests the C library sees to its own locks, and the child
//! takes no others before it is on its own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `run`, in a process of its own if it is to be `apart`, and returns its result.
///
/// # Errors
/// Those of `run`; and, in words, that there can be no further process, or that it ended without a
/// result.
pub(crate) fn run_apart<T: Serialize + DeserializeOwned>(
    apart: bool,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    if !apart {
        return run();
    }
    let failed = |what: &str, error: std::io::Error| format!("a process of its own: {what}: {error}");
    let (mut reader, mut writer) = std::io::pipe().map_err(|error| failed("pipe", error))?;
    // SAFETY: the child goes on with what it has been given and ends in `_exit`, so nothing of the
    // parent's is done twice.
    match unsafe { libc::fork() } {
        -1 => Err(failed("fork", std::io::Error::last_os_error())),
        0 => {
            drop(reader);
            let panicked = |_| Err("it panicked".to_owned());
            let result: Result<T, String> = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked);
            let sent = serde_json::to_vec(&result).is_ok_and(|text| writer.write_all(&text).is_ok());
            // SAFETY: it has no preconditions; unlike `exit` it runs none of the parent's handlers.
            unsafe { libc::_exit(i32::from(!sent)) }
        }
        child => {
            drop(writer);
            let mut text = Vec::new();
            let read = reader.read_to_end(&mut text);
            let mut status = 0;
            // SAFETY: the child is this process' and no other thread waits for it; the status is
            // written to a local.
            while unsafe { libc::waitpid(child, &mut status, 0) } == -1
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {}
            read.map_err(|error| failed("its result", error))?;
            serde_json::from_slice(&text)
                .map_err(|_| format!("a process of its own ended with status {status:#x}"))?
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_come_back_and_nothing_else_does() {
        for apart in [false, true] {
            let mut seen = 0;
            assert_eq!(
                run_apart(apart, || Ok(vec![std::process::id()])).unwrap()[0] == std::process::id(),
                !apart
            );
            let error = run_apart::<u32>(apart, || {
                seen += 1;
                Err("broken".into())
            });
            assert_eq!(error, Err("broken".into()));
            assert_eq!(seen, i32::from(!apart), "what the other process did is its own");
        }
    }

    #[test]
    fn a_panic_or_an_early_exit_is_an_error() {
        assert!(run_apart::<u32>(true, || panic!("on purpose")).unwrap_err().contains("panicked"));
        // SAFETY: the child ends itself, which has no preconditions.
        let died = run_apart::<u32>(true, || unsafe { libc::_exit(3) });
        assert!(died.unwrap_err().contains("0x300"));
    }
}
