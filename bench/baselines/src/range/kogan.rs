//! A linked list of ranges that is its own lock.
//!
//! The range locks of Kogan, Dice and Issa ("Scalable range locks for scalable address spaces and
//! beyond", EuroSys 2020): [`Kogan`], exclusive, and [`KoganRw`], for holders that share as well.
//! No lock stands before the list; a thread that takes a range links a node into it by one
//! compare-and-swap, and marks its node to release it. See [`list`] for the algorithm and the
//! invariants, [`pool`] for what becomes of released nodes.
//!
//! One thread alone needs two compare-and-swaps for a range. With many ranges held it walks past
//! half of them, and all begin at the same head.
//!
//! # Deviations
//! - The mark is set by an exchange that keeps where the link leads. A load followed by a store, as
//!   the lock is found adapted elsewhere, loses what is linked in between: then two hold the same
//!   keys.
//! - The authors wait on their way, at the node that conflicts, for as long as it takes, and
//!   nothing that was unlinked meanwhile can be used again. Here a waiter looks at that node for a
//!   moment ([`LOOKS`]); then it leaves the list, yields, sleeps if that is not enough
//!   ([`Adaptive`]), and sets out anew. A reader that waits for a node behind it stays linked, and
//!   only its walk ends. [`KoganSpinning`] waits as the authors do.
//! - An empty pool takes nodes from the heap instead of waiting for others ([`pool`]).
//! - A thread that links into a list that has become empty does so in the short form, not only a
//!   thread that finds it empty at first.
//! - The authors' optional lock around the list, for fairness, is left out: a thread that wants
//!   much, or wants to be alone among readers, may wait for as long as others come.
//!
//! # Memory orderings
//! The list's.

mod list;
mod node;
mod pool;

use list::{Conflict, List, Patience};
use manx::range::{Access, RawRangeLock, Span};
use manx::wait::{Adaptive, Policy, short_of_cpus};
use node::{Node, Wanted};
use pool::Walk;
use std::ptr::NonNull;

/// How often a waiter looks at the node in its way before it leaves the list. Not once while the
/// process is short of CPUs.
const LOOKS: u32 = 100;

/// The linked-list range lock; exclusive only. See the module's text.
pub type Kogan = ListLock<false>;

/// The linked-list range lock for readers, too. See the module's text.
pub type KoganRw = ListLock<true>;

/// The exclusive one with the authors' waiting: it spins at the node in its way.
pub type KoganSpinning = ListLock<false, true>;

/// A linked-list range lock, with holders that share or without, that waits off the list or spins.
#[derive(Debug)]
pub struct ListLock<const SHARES: bool, const SPINS: bool = false> {
    list: List,
}

/// What a holder of a range of [`Kogan`] or [`KoganRw`] keeps: its node.
#[derive(Debug)]
pub struct KoganHeld(NonNull<Node>);

// SAFETY: the node belongs to the range, whichever thread releases it.
unsafe impl Send for KoganHeld {}

/// Does not wait.
fn not_at_all(_in_the_way: &Node) -> bool {
    false
}

/// Waits for a moment.
fn for_a_moment(in_the_way: &Node) -> bool {
    for _ in 0..platform::spin_bound(LOOKS) {
        if in_the_way.is_released() {
            return true;
        }
        if short_of_cpus() {
            break;
        }
        platform::cpu::pause();
    }
    false
}

/// Waits for as long as it takes.
fn for_good(in_the_way: &Node) -> bool {
    while !in_the_way.is_released() {
        platform::cpu::pause();
    }
    true
}

/// A node that stands for the range.
#[inline]
fn lend(span: &Span<u64>, access: Access) -> NonNull<Node> {
    let node = pool::lend();
    // SAFETY: just lent.
    unsafe { node.as_ref().set(Wanted { first: span.first(), last: span.last(), access }) };
    node
}

impl<const SHARES: bool, const SPINS: bool> ListLock<SHARES, SPINS> {
    /// The way in which a waiting thread looks at a node.
    const PATIENCE: Patience = if SPINS { for_good } else { for_a_moment };

    /// Makes a lock that no thread holds.
    pub fn new() -> Self {
        ListLock { list: List::new() }
    }

    /// A node that was not linked may be used at once; a linked one is others' to unlink.
    #[cold]
    fn try_lock_slow(&self, node: NonNull<Node>) -> Option<KoganHeld> {
        let walk = Walk::set_out();
        // SAFETY: lent and set.
        let Ok(alone) = (unsafe { self.list.link(&walk, node, not_at_all) }) else {
            // SAFETY: it was not linked.
            unsafe { pool::give_back(node) };
            return None;
        };
        // Without nodes that share, a linked one is held.
        // SAFETY: just linked.
        unsafe {
            if alone || !SHARES || self.list.look_again(&walk, node, not_at_all) {
                return Some(KoganHeld(node));
            }
            self.list.release(node);
        }
        None
    }

    fn lock_slow(&self, span: &Span<u64>, access: Access, mut node: NonNull<Node>) -> KoganHeld {
        let mut linked = false;
        Adaptive::DEFAULT.until(|| {
            let walk = Walk::set_out();
            if !linked {
                // SAFETY: lent and set.
                match unsafe { self.list.link(&walk, node, Self::PATIENCE) } {
                    // Without nodes that share, a linked one is held.
                    Ok(alone) if alone || !SHARES => return true,
                    Ok(_) => linked = true,
                    Err(Conflict) => return false,
                }
            }
            // SAFETY: linked, and not released.
            if unsafe { self.list.look_again(&walk, node, Self::PATIENCE) } {
                return true;
            }
            if access == Access::Exclusive {
                // Gives way, or it and a sharing node would wait for each other.
                // SAFETY: as above.
                unsafe { self.list.release(node) };
                linked = false;
                drop(walk);
                node = lend(span, access);
            }
            false
        });
        KoganHeld(node)
    }
}

impl<const SHARES: bool, const SPINS: bool> Default for ListLock<SHARES, SPINS> {
    fn default() -> Self {
        ListLock::new()
    }
}

// SAFETY: by the list's Invariant 2 and its orderings.
unsafe impl<const SHARES: bool, const SPINS: bool> RawRangeLock for ListLock<SHARES, SPINS> {
    type Held = KoganHeld;
    const NAME: &'static str = match (SHARES, SPINS) {
        (true, _) => "kogan-rw",
        (false, true) => "kogan_spinning",
        (false, false) => "kogan",
    };
    const SHARES: bool = SHARES;

    fn with_space(_space: u64) -> Self {
        ListLock::new()
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<KoganHeld> {
        let node = lend(span, if SHARES { access } else { Access::Exclusive });
        // SAFETY: lent and set.
        if unsafe { self.list.link_alone(node) } {
            return Some(KoganHeld(node));
        }
        self.try_lock_slow(node)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> KoganHeld {
        let access = if SHARES { access } else { Access::Exclusive };
        let node = lend(span, access);
        // SAFETY: lent and set.
        if unsafe { self.list.link_alone(node) } {
            return KoganHeld(node);
        }
        self.lock_slow(span, access, node)
    }

    #[inline]
    unsafe fn unlock(&self, held: KoganHeld) {
        // SAFETY: linked by `lock` or `try_lock`, and held until now.
        unsafe { self.list.release(held.0) };
    }
}
