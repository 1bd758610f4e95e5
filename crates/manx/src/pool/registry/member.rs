//! One member of a registry: what it wants, and what it gets.

use super::division::{Claim, Share, divide};
use super::error::{MembershipError, RegistryError};
use super::file::{FileLocks, Mapping, Table};
use super::slots::{self, PLACES, Place, Terms, hundredths};
use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::{clock, fork};
use std::path::Path;
use std::sync::Arc;

/// A member that has not shown itself for this time wants nothing: it is stopped, or hangs.
pub const SILENCE_MS: u64 = 5_000;
/// How often a member shows itself.
const SHOW_MS: u64 = 500;
/// How often a member looks for members that are gone.
const SWEEP_MS: u64 = 100;

/// A process, or a part of one, among the processes that divide the CPUs. Dropped, it leaves.
///
/// Asking for the share is what keeps a member a member in the eyes of others: see [`SILENCE_MS`].
#[derive(Debug)]
pub struct Member {
    mapping: Arc<Mapping>,
    locks: FileLocks,
    place: Place,
    weight: u8,
    demand: AtomicU32,
    cap: AtomicU32,
    generation: u32,
}

impl Member {
    pub(super) fn join(
        mapping: &Arc<Mapping>,
        path: &Path,
        weight: u8,
        cap: f64,
    ) -> Result<Member, RegistryError> {
        fork::watch();
        let locks = mapping.locks(path)?;
        let table = mapping.table();
        let cap = hundredths(cap);
        let full = || RegistryError::Full { path: path.into() };
        let place = slots::take(&table.words, Terms::new(weight, 0, cap), &locks).ok_or_else(full)?;
        // Relaxed: these are for others to look at, and nothing follows from them. A member that
        // was not seen yet is one whose `seen_ms` is old, and it wants nothing before it has asked
        // for something.
        table.seen_ms[place.index].store(now_ms(), Ordering::Relaxed);
        table.processes[place.index].store(platform::thread::process_id(), Ordering::Relaxed);
        table.reached.fetch_max(place.index as u32 + 1, Ordering::Relaxed);
        let generation = fork::generation();
        let (demand, cap) = (AtomicU32::new(0), AtomicU32::new(cap));
        Ok(Member { mapping: Arc::clone(mapping), locks, place, weight, demand, cap, generation })
    }

    /// Sets how many CPUs this member could use now: as many as it has work for. It is 0 at first,
    /// which leaves all CPUs to others.
    ///
    /// # Errors
    /// It is not a member any more.
    pub fn set_demand(&self, cpus: f64) -> Result<(), MembershipError> {
        // Relaxed: a program that sets both at the same time from two threads gets either order.
        self.demand.store(hundredths(cpus), Ordering::Relaxed);
        self.publish()
    }

    /// Sets how many CPUs this member may use at most: its own budget.
    ///
    /// # Errors
    /// It is not a member any more.
    pub fn set_cap(&self, cpus: f64) -> Result<(), MembershipError> {
        self.cap.store(hundredths(cpus), Ordering::Relaxed);
        self.publish()
    }

    fn publish(&self) -> Result<(), MembershipError> {
        if !self.is_joining_process() {
            return Err(MembershipError::Forked);
        }
        let (demand, cap) = (self.demand.load(Ordering::Relaxed), self.cap.load(Ordering::Relaxed));
        let table = self.mapping.table();
        self.refresh(table, now_ms());
        slots::change(&table.words, self.place, Terms::new(self.weight, demand, cap))
            .then_some(())
            .ok_or(MembershipError::Evicted)
    }

    /// Returns the share of this member. Makes no system call.
    ///
    /// # Errors
    /// It is not a member any more.
    pub fn share(&self) -> Result<Share, MembershipError> {
        if !self.is_joining_process() {
            return Err(MembershipError::Forked);
        }
        let table = self.mapping.table();
        if !slots::is_own(&table.words, self.place) {
            return Err(MembershipError::Evicted);
        }
        let now_ms = now_ms();
        self.refresh(table, now_ms);
        let mut claims = [Claim { limit: 0, weight: 1 }; PLACES];
        let (mut count, mut own) = (0, 0);
        for (index, terms) in members(table) {
            // Relaxed: a member that comes back from silence is seen to do so soon enough.
            let silent = is_silent(table.seen_ms[index].load(Ordering::Relaxed), now_ms);
            let limit = if silent { 0 } else { terms.demand().min(terms.cap()) };
            if index == self.place.index {
                own = count;
            }
            claims[count] = Claim { limit, weight: terms.weight() };
            count += 1;
        }
        // Relaxed: a number; any value of it is good.
        Ok(divide(table.cpus.load(Ordering::Relaxed), &claims[..count], own))
    }

    /// Takes back the places of members that are gone, unless a member has done so in the last
    /// 100 ms. Returns how many. Costs one system call for each member. A member that regularly
    /// reads its share should call this from time to time.
    ///
    /// # Errors
    /// It is not a member any more; or the file was removed, so that new members use another file:
    /// join again.
    pub fn sweep(&self) -> Result<usize, MembershipError> {
        if !self.is_joining_process() {
            return Err(MembershipError::Forked);
        }
        let table = self.mapping.table();
        let now_ms = now_ms();
        // Relaxed: two may look at the same time; nothing is taken back twice (slots.rs, Invariant
        // 4).
        let swept_ms = table.swept_ms.load(Ordering::Relaxed);
        if swept_ms.abs_diff(now_ms) < SWEEP_MS {
            return Ok(0);
        }
        table.swept_ms.store(now_ms, Ordering::Relaxed);
        if !self.locks.is_named() {
            return Err(MembershipError::Removed);
        }
        if !slots::is_own(&table.words, self.place) {
            return Err(MembershipError::Evicted);
        }
        Ok(slots::sweep(&table.words[..reached(table)], Some(self.place), &self.locks))
    }

    /// Whether this is the process that joined, not one forked from it.
    fn is_joining_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Lets others see that this member is there.
    fn refresh(&self, table: &Table, now_ms: u64) {
        let seen_ms = &table.seen_ms[self.place.index];
        // Relaxed: see `join`. Not each time, because others read this line.
        if seen_ms.load(Ordering::Relaxed).abs_diff(now_ms) >= SHOW_MS {
            seen_ms.store(now_ms, Ordering::Relaxed);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A forked child is no member, and leaves nothing.
        if self.is_joining_process() {
            slots::leave(&self.mapping.table().words, self.place, &self.locks);
        }
    }
}

/// Places from here on were never taken.
fn reached(table: &Table) -> usize {
    // Relaxed: it only ever grows, and a member that just came wants nothing yet.
    (table.reached.load(Ordering::Relaxed) as usize).min(PLACES)
}

/// The places that are taken.
pub(super) fn members(table: &Table) -> impl Iterator<Item = (usize, Terms)> {
    let words: &[AtomicU64] = &table.words[..reached(table)];
    // Relaxed: each word stands for itself.
    words
        .iter()
        .enumerate()
        .filter_map(|(index, word)| Some((index, Terms::of(word.load(Ordering::Relaxed))?)))
}

/// Whether a member was not seen for so long that its demand does not count. A time in the future
/// is of before the clock was set.
pub(super) fn is_silent(seen_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(seen_ms) > SILENCE_MS
}

/// Milliseconds since 1970: the one clock that is the same in all namespaces.
pub(super) fn now_ms() -> u64 {
    clock::unix_time_ns() / 1_000_000
}
