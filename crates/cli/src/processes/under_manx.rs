//! Whether a process runs under Manx, and where its live file is.
//!
//! The memory map says it for certain, but to read that of a large program takes milliseconds. So
//! the environment with which the program began is asked first: without the library in it there is
//! none in the process. A process is asked in its first passes and then ever less often, because
//! `manx run` becomes the program, and because the live file begins with the second thread. It is
//! asked anew when its name changes.

use super::counts::Counts;
use super::row::Manx;
use crate::stats::source::Mapping;
use preload_abi::LIBRARY_NAME;
use std::io;

/// A process is asked at least so often, in passes; not all in the same one.
const ASK_EVERY: u64 = 64;

/// What is known of one process.
#[derive(Debug, Default)]
pub struct UnderManx {
    /// How many passes ago it was asked first, or its name changed
    age: u64,
    name: String,
    state: Manx,
    /// Its live file
    pub counts: Option<Counts>,
}

impl UnderManx {
    /// Whether it runs under Manx; asks, if it is time to.
    pub fn look(&mut self, pid: u32, name: &str) -> Manx {
        if self.name != name {
            *self = UnderManx { name: name.to_owned(), ..UnderManx::default() };
        }
        let is_time = self.age == 0
            || self.age.is_power_of_two()
            || (self.age + u64::from(pid)).is_multiple_of(ASK_EVERY);
        if self.counts.is_none() && is_time {
            (self.state, self.counts) = ask(pid);
        }
        self.age += 1;
        self.state
    }

    /// Forgets a live file that cannot be read any more. It is looked for again as any other.
    pub fn lose_counts(&mut self) {
        (self.counts, self.state) = (None, Manx::On);
    }
}

fn ask(pid: u32) -> (Manx, Option<Counts>) {
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => Manx::Unknown,
        _ => Manx::No,
    };
    match std::fs::read(format!("/proc/{pid}/environ")) {
        Err(error) => return (unread(error), None),
        Ok(environment) if !has_library(&environment) => return (Manx::No, None),
        Ok(_) => {}
    }
    match Mapping::of(pid) {
        Err(error) => (unread(error), None),
        Ok(Mapping::NotUnderManx) => (Manx::No, None),
        Ok(Mapping::NoCounts) => (Manx::On, None),
        Ok(Mapping::Live(path)) => {
            Counts::open(&path).map_or((Manx::On, None), |it| (Manx::Counts, Some(it)))
        }
    }
}

/// Whether an environment has the preload library in it.
fn has_library(environment: &[u8]) -> bool {
    let preload = environment.split(|&b| b == 0).filter_map(|line| line.strip_prefix(b"LD_PRELOAD="));
    preload
        .flat_map(|list| list.split(|b| b" :".contains(b)))
        .any(|path| path.ends_with(LIBRARY_NAME.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variable_of_the_loader_counts() {
        for (environment, expected) in [
            (format!("A=1\0LD_PRELOAD=/a/b.so:/opt/{LIBRARY_NAME}\0B=2\0"), true),
            (format!("LD_PRELOAD={LIBRARY_NAME} /a.so"), true),
            (format!("X=LD_PRELOAD=/opt/{LIBRARY_NAME}\0"), false),
            (format!("LD_PRELOAD=/opt/{LIBRARY_NAME}.old\0"), false),
            (String::new(), false),
        ] {
            assert_eq!(has_library(environment.as_bytes()), expected, "{environment}");
        }
    }

    #[test]
    fn a_process_without_manx_is_asked_ever_less_often() {
        let mut state = UnderManx::default();
        assert_eq!(state.look(std::process::id(), "it"), Manx::No);
        assert_eq!(state.look(u32::MAX, "it"), Manx::No, "there is no such process");
        assert_eq!(state.age, 2);
        state.look(std::process::id(), "other");
        assert_eq!(state.age, 1, "another program");
    }
}
