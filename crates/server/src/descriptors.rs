//! How many connections there are descriptors for.

use platform::limits::raise_open_files;

/// What a server needs beside its connections: for its data, for waiting, and to refuse clients
/// beyond the maximum.
const SPARE: u64 = 64;

/// Returns for how many of the wanted connections the process has descriptors. Raises its limit for
/// them, as far as it may.
pub(crate) fn connections(wanted: usize) -> usize {
    let needed = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_add(SPARE);
    // Where the limit cannot be found out, it is found out when there are no descriptors.
    raise_open_files(needed).map_or(wanted, |now| fit(wanted, now))
}

/// Returns how many of the wanted connections fit, at least one, if `now` descriptors may be open.
fn fit(wanted: usize, now: u64) -> usize {
    wanted.min(usize::try_from(now.saturating_sub(SPARE)).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_fit() {
        for (wanted, now, connections) in [
            (10, 1024, 10),
            (10_000, 1024, 960),
            (960, 1024, 960),
            (961, 1024, 960),
            (10, 0, 1),
            (10, u64::MAX, 10),
        ] {
            assert_eq!(fit(wanted, now), connections, "{wanted} of {now}");
        }
    }
}
