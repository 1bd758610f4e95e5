//! How many connections there are descriptors for, and how many of them may have a bell
//! (`bell.rs`).

use platform::limits::raise_open_files;

/// What a server needs beside its connections: for its data, for waiting, and to refuse clients
/// beyond the maximum.
const SPARE: u64 = 64;
/// Of a bell.
const BELL: u64 = 2;

/// What there are descriptors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) connections: usize,
    pub(crate) bells: usize,
}

impl Descriptors {
    /// For these connections, and a bell for each if they need that. Raises the limit of the
    /// process for them, as far as it may.
    pub(crate) fn new(wanted: usize, needs_bells: bool) -> Descriptors {
        let connections = u64::try_from(wanted).unwrap_or(u64::MAX);
        let bells = if needs_bells { connections.saturating_mul(BELL) } else { 0 };
        let needed = connections.saturating_add(bells).saturating_add(SPARE);
        // Where the limit cannot be found out, it is found out when there are no descriptors.
        raise_open_files(needed)
            .map_or(Descriptors { connections: wanted, bells: wanted }, |now| Descriptors::fit(wanted, now))
    }

    /// As many of the wanted connections as fit, at least one, if `now` descriptors may be open;
    /// and bells for as many of them as then fit.
    fn fit(wanted: usize, now: u64) -> Descriptors {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let room = now.saturating_sub(SPARE);
        let connections = wanted.min(count(room)).max(1);
        let bells = count(room.saturating_sub(connections as u64) / BELL).min(connections);
        Descriptors { connections, bells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_fit() {
        for (wanted, now, connections, bells) in [
            (10, 1024, 10, 10),
            (10_000, 1024, 960, 0),
            (960, 1024, 960, 0),
            (961, 1024, 960, 0),
            (700, 1024, 700, 130),
            (10, 0, 1, 0),
            (10, u64::MAX, 10, 10),
        ] {
            assert_eq!(
                Descriptors::fit(wanted, now),
                Descriptors { connections, bells },
                "{wanted} of {now}"
            );
        }
    }
}
