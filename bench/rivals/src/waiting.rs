//! The competitors in waiting for a flag.
//!
//! All wait for the same closure and know nothing else. Peers that are made to be combined with
//! parking (crossbeam's `Backoff` and parking_lot's `SpinWait` say when it would be time) have no
//! thread here to wake them. So they go on as their documentation says for threads that cannot
//! park: they keep yielding.

use std::hint::spin_loop;
use std::thread::yield_now;

use crossbeam_utils::Backoff;
use manx::wait::{Adaptive, Policy as _};
use parking_lot_core::SpinWait;

/// A way to wait.
#[derive(Clone, Copy)]
pub struct Peer {
    /// The name in tables.
    pub name: &'static str,
    /// Returns as soon as it has seen the closure return true.
    pub until: fn(&dyn Fn() -> bool),
}

/// All competitors, in the order of the tables.
pub const PEERS: [Peer; 5] = [
    Peer { name: "spin (PAUSE)", until: spin },
    Peer { name: "yield", until: yields },
    Peer { name: "crossbeam Backoff", until: crossbeam },
    Peer { name: "parking_lot SpinWait", until: parking_lot },
    Peer { name: "manx Adaptive", until: adaptive },
];

fn spin(ready: &dyn Fn() -> bool) {
    while !ready() {
        spin_loop();
    }
}

fn yields(ready: &dyn Fn() -> bool) {
    while !ready() {
        yield_now();
    }
}

fn crossbeam(ready: &dyn Fn() -> bool) {
    let backoff = Backoff::new();
    while !ready() {
        backoff.snooze();
    }
}

fn parking_lot(ready: &dyn Fn() -> bool) {
    let mut wait = SpinWait::new();
    while !ready() {
        if !wait.spin() {
            yield_now();
        }
    }
}

fn adaptive(ready: &dyn Fn() -> bool) {
    Adaptive::DEFAULT.until(ready);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn no_peer_looks_twice_at_a_condition_that_is_true_already() {
        for peer in PEERS {
            let looks = Cell::new(0);
            (peer.until)(&|| {
                looks.set(looks.get() + 1);
                true
            });
            assert_eq!(looks.get(), 1, "{}", peer.name);
        }
    }

    #[test]
    fn everybody_waits_until_it_is_true_and_no_longer() {
        for peer in PEERS {
            let looks = Cell::new(0);
            (peer.until)(&|| {
                looks.set(looks.get() + 1);
                looks.get() == 50
            });
            assert_eq!(looks.get(), 50, "{}", peer.name);
        }
    }
}
