//! Which addresses of a file lie in loops that wait.
//!
//! `spinloop` proves from the machine code that a loop changes nothing that lasts: it waits for
//! another thread. To search a whole file takes seconds where the file is large, and threads were
//! seen at few addresses. So only the code around these addresses is searched, in windows that are
//! wider than a loop that waits may be.

use elf_loops::Code;
use spinloop::{Counter, Finding, Kind};
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
                    let ends = ends(&wait.kind);
                    let function = wait.function.end - wait.function.start;
                    let parts = match wait.kind {
                        Kind::Hint | Kind::Poll if function <= HINT_FUNCTION_MAX => vec![wait.function],
                        Kind::Hint | Kind::Poll => vec![wait.home],
                        _ => wait.parts,
                    };
                    found.extend(parts.into_iter().map(|part| WaitingCode { part, ends }));
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
