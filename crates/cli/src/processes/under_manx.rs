//! Whether a process runs under Manx, and its live file.
//!
//! The memory map says it, but to read that of a large program takes milliseconds. So a process is
//! asked in its first passes and then ever less often, because `manx run` becomes the program, and
//! because the live file begins with the second thread; and not while it has not run. It is asked
//! anew when its name changes.

use super::counts::Counts;
use super::row::Manx;
use host::live_file::Mapping;
use std::io;

/// A process that runs is asked at least so often, in passes; not all in the same one.
const ASK_EVERY: u64 = 64;

/// What is known of one process.
#[derive(Debug, Default)]
pub struct UnderManx {
    /// How many passes ago it was asked first, or its name changed
    age: u64,
    /// Whether it has run since it was asked
    has_run: bool,
    name: String,
    state: Manx,
    /// Its live file
    pub counts: Option<Counts>,
}

impl UnderManx {
    /// Whether it runs under Manx; asks, if it is time to.
    pub fn look(&mut self, pid: u32, name: &str, has_run: bool) -> Manx {
        if self.name != name {
            *self = UnderManx { name: name.to_owned(), ..UnderManx::default() };
        }
        self.has_run |= has_run;
        let is_time = self.age.is_power_of_two() || (self.age + u64::from(pid)).is_multiple_of(ASK_EVERY);
        if self.counts.is_none() && (self.age == 0 || (is_time && self.has_run)) {
            (self.state, self.counts) = ask(pid);
            self.has_run = false;
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
    match Mapping::of(pid) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => (Manx::Unknown, None),
        Err(_) => (Manx::No, None),
        Ok(Mapping { file: Some(live), .. }) => (Manx::Counts, Some(Counts::new(live.file))),
        Ok(Mapping { has_library, .. }) => (if has_library { Manx::On } else { Manx::No }, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_manx_is_asked_ever_less_often() {
        let (mut state, mut asked) = (UnderManx::default(), Vec::new());
        // There is no such process.
        let pid = u32::MAX - 63;
        for age in 0..32 {
            assert_eq!(state.look(pid, "it", true), Manx::No);
            asked.extend((!state.has_run).then_some(age));
        }
        assert_eq!(asked, [0, 1, 2, 4, 8, 16]);
        state.look(pid, "it", false);
        state.state = Manx::Unknown;
        for _ in 33..128 {
            assert_eq!(state.look(pid, "it", false), Manx::Unknown, "it has not run and is not asked");
        }
        assert_eq!(state.look(pid, "it", true), Manx::No);
        state.look(pid, "other", false);
        assert_eq!(state.age, 1, "another program");
    }
}
