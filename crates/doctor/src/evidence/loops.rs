//! Which addresses of a file lie in loops that wait.
//!
//! `spinloop` proves from the machine code that a loop changes nothing that lasts: it waits for
//! another thread. To search a whole file takes seconds where the file is large, and threads were
//! seen at few addresses. So only the code around these addresses is searched, in windows that are
//! wider than a loop that waits may be.
//!
//! A loop with a PAUSE that calls functions is not proven, and threads are seen in what it calls.
//! What counts is the code that every round runs which passes the PAUSE, and what this code calls.
//! A call that some rounds make does not count: it may be the work that the others wait for. If the
//! PAUSE is in a function of its own, the loop is around the call. What a loop calls that polls by
//! calls counts as well.

use elf_loops::Code;
use spinloop::{Counter, Finder, Finding, Kind};
use std::collections::BTreeSet;
use std::ops::Range;

/// How far around an address seeds are searched for.
const DISTANCE: u64 = 1024;
/// Addresses this near to each other share a window.
const BLOCK: u64 = 512;
/// The largest function that is a wait as a whole if all that is known of it is a hint.
const HINT_FUNCTION_MAX: u64 = 512;

/// A part of a file in which threads wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCode {
    /// Where it lies, by the file's own addresses
    pub part: Range<u64>,
    /// How the wait ends, in words
    pub ends: &'static str,
    /// Whether what it calls is a part of the wait
    pub calls_wait: bool,
    /// Whether the loop is in its callers
    pub is_called: bool,
}

/// The waits around calls that return to these addresses, of functions that wait because of a PAUSE
/// and have no loop.
pub fn waits_around(code: &Code<'_>, returns: &[u64]) -> Vec<WaitingCode> {
    let rounds = |finder: &mut Finder<'_>| {
        returns.iter().flat_map(|address| around(finder, address.wrapping_sub(1))).collect()
    };
    code.find(rounds)
}

/// What each round around a PAUSE, or around the call of one, runs.
fn around(finder: &mut Finder<'_>, address: u64) -> Vec<WaitingCode> {
    let part = |part| WaitingCode { part, ends: ends(&Kind::Hint), calls_wait: true, is_called: false };
    finder.each_round(address).into_iter().map(part).collect()
}

/// The waits around these addresses.
pub fn waits_near(code: &Code<'_>, addresses: &[u64]) -> Vec<WaitingCode> {
    let blocks: BTreeSet<u64> = addresses.iter().map(|address| address / BLOCK).collect();
    let mut asked = BTreeSet::new();
    let mut found = Vec::new();
    code.find(|finder| {
        for block in blocks {
            for (seed, address) in code.seeds_near(block * BLOCK + BLOCK / 2, DISTANCE) {
                if !asked.insert((seed, address)) {
                    continue;
                }
                if let Finding::Wait(wait) = finder.analyse(address, seed) {
                    let by_calls = wait.kind == Kind::Poll && wait.head != wait.latch;
                    let ends = if by_calls { "it polls by calls" } else { ends(&wait.kind) };
                    let rounds = if wait.kind == Kind::Hint { around(finder, wait.pivot) } else { vec![] };
                    let is_called = wait.kind == Kind::Hint && rounds.is_empty();
                    let function = wait.function.end - wait.function.start;
                    let parts = match wait.kind {
                        _ if by_calls => vec![wait.home],
                        Kind::Hint | Kind::Poll if function <= HINT_FUNCTION_MAX => vec![wait.function],
                        Kind::Hint | Kind::Poll => vec![wait.home],
                        _ => wait.parts,
                    };
                    let known = |part| WaitingCode { part, ends, calls_wait: by_calls, is_called };
                    found.extend(rounds.into_iter().chain(parts.into_iter().map(known)));
                }
            }
        }
    });
    found
}

/// The wait that holds an address.
pub fn wait_at(waits: &[WaitingCode], address: u64) -> Option<&WaitingCode> {
    waits.iter().find(|wait| wait.part.contains(&address))
}

fn ends(kind: &Kind) -> &'static str {
    match kind {
        Kind::Unbounded => "it waits without a bound",
        Kind::Counted(Counter { blocks: true, .. }) => "it spins for a number of rounds, then blocks",
        Kind::Counted(_) => "it spins for a number of rounds",
        Kind::Timed => "it spins for a time",
        Kind::Hint => "it waits around a PAUSE",
        Kind::Poll => "its callers wait by polling",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    static NEVER: AtomicBool = AtomicBool::new(true);

    /// A loop that waits, which nobody calls with work to do.
    #[inline(never)]
    fn spins() {
        while !NEVER.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn the_own_loop_is_found_near_its_address_and_nothing_where_there_is_no_code() {
        spins();
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let code = Code::parse(&me).unwrap();
        assert!(waits_near(&code, &[u64::MAX / 2]).is_empty());
        let symbols = elf_loops::Symbols::read(&me);
        let seeds = code.seeds();
        let mut own = seeds.iter().map(|(_, address)| *address).filter(|address| {
            symbols.around(*address).any(|function| function.name.contains("loops5tests5spins"))
        });
        // Without symbols the loop has no name.
        let Some(address) = own.next() else { return };
        let waits = waits_near(&code, &[address]);
        // Without optimization the PAUSE is in a function of its own, and the loop is a hint.
        let wait = wait_at(&waits, address).expect("a wait");
        assert!(wait.ends.starts_with("it waits "), "{wait:?}");
    }
}
