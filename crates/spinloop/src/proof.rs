//! Proves that a round of a loop changes nothing that lasts, or only a counter, and finds the
//! counter's bound.
//!
//! A loop waits if a round of it changes nothing that lasts, except a counter or its reading of a
//! clock: what ends it must come from another thread. This file proves that, for one loop and one
//! *pivot*, an instruction that every round passes. Each path from the pivot around the loop and
//! back is followed with symbols in the place of values. A value is known as what a register or a
//! stack slot held at the pivot, plus a constant; or as a constant; or as a load from memory; or
//! not at all.
//!
//! 1. *Nothing lasts.* A location that some path changes, and that some path reads before writing
//!    it, carries something from round to round. There is at most one: the counter.
//! 2. *A counter* grows by the same constant on every path. Its value is copied, compared with the
//!    bound, and nothing else: it forms no address and no other value, and no other jump depends on
//!    it. It is a register or a slot. A copy of it that lasts until the next round may be compared
//!    in its place, and nothing else: after a whole round it is as far ahead of the counter as
//!    ever.
//! 3. *A bound* stays the same from round to round: a constant, a register or slot that no path
//!    writes, or a word in memory, which every path reads. One jump compares it with the counter,
//!    and that jump leaves the loop.
//! 4. No round calls, writes memory other than the function's own slots, or moves the stack
//!    pointer. A round reads no flag that it did not write.
//! 5. *A slot* is a part of the function's stack frame that is addressed by the stack or frame
//!    pointer. A slot that a round writes is in a function that is known whole, and takes no
//!    address of its frame at all: an address of one variable may lead to its neighbour, when both
//!    are members of one structure.
//!
//! 6. *A loop inside the round*, which does not pass the pivot, is followed until nothing new is
//!    learnt: its first round as it comes, and then with all that its rounds have left behind
//!    ([`Followed::join`]). What differs from one of them to the next is not known, and what of the
//!    pivot's time is in it is used. So a round may add up the counters of all other threads, in an
//!    inner loop that counts: the sum and the index begin anew in each round.
//!
//! Nothing of this needs a hint. The addresses that a round reads are those of the round before it:
//! an address that is made of a counter uses the counter (by 2), so a loop that searches a table,
//! compares strings or adds up an array is refused. A loop that reads the same places in each
//! round, and keeps nothing, learns nothing from one more round, unless another thread has written
//! there. This holds for memory. It does not hold for a device whose registers change when they are
//! read.
//!
//! [`Counter::missing`] relies on what follows from 1 to 6. It makes no difference whether more
//! rounds run and find the same memory, or as many steps are added to the counter. No other thread
//! can see the counter, and a program must expect to run that fast. The waiter and
//! [`Counter::after`] have to ensure two more conditions:
//!
//! 7. *The last round is one of these.* The thread has come from the pivot to the pivot in the
//!    copy. Whether the next round does is a matter of memory and of what the loop does not change,
//!    so memory as it was will lead it the same way. Of a thread that has just come, nothing is
//!    known: its rounds may all lead past the copy, and do work.
//! 8. *One whole round is left to run.* What a round leaves behind for the code after the loop (a
//!    copy of the counter, the last value read) is then what the last round leaves.
//!
//! What cannot be followed is refused. Only x86-64 is followed.

use crate::counter::{Bound, Condition, Counter, Place};
use crate::frame::{self, decoded};
use crate::graph::Edge;
use crate::instruction::{Flow, Instruction};
use crate::rounds::Rounds;
use crate::symbolic::{Flags, Followed, Location, State, Value, may_read};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use iced_x86::{ConditionCode, Register};

/// More paths around a loop than this are not followed, and none of more blocks or instructions.
const PATHS_MAX: usize = 64;
const BLOCKS_MAX: usize = 64;
const STEPS_MAX: usize = 256;

/// What was proven of a loop: see the file's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The counter, and the address to which the loop is left when it meets its bound.
    pub(crate) counter: Option<(Counter, u64)>,
}

/// A jump that depends on a location of the pivot's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decision {
    at: u32,
    flags: Flags,
    condition: ConditionCode,
    /// Where it leads out of the loop, and whether it does so when the condition holds.
    exit: Option<(u64, bool)>,
}

/// A block on the path that is being followed.
struct Passed {
    block: u32,
    /// If it was passed before: what is known of all its times but the first.
    all: Option<State>,
}

struct Prover<'a> {
    rounds: Rounds<'a>,
    /// Loops inside the round are followed.
    nested: bool,
    followed: Followed,
    decisions: Vec<Decision>,
    /// The ends of all paths.
    ends: Vec<State>,
    steps: usize,
}

/// Proves what the file's text says of the loop of `rounds`, or refuses. Unless `nested` says that
/// there may be loops inside the round, every round has to pass the pivot.
pub(crate) fn prove(rounds: Rounds<'_>, nested: bool) -> Option<Proof> {
    let Rounds { image, instructions, graph, pivot, .. } = rounds;
    let mut prover = Prover {
        rounds,
        nested,
        followed: Followed::new(frame::has_pointer(image, instructions)),
        decisions: Vec::new(),
        ends: Vec::new(),
        steps: 0,
    };
    let block = graph.block_of(pivot as usize)?;
    let state = State { values: BTreeMap::new(), flags: Flags::Stale, jumps: BTreeSet::new() };
    prover.follow(block, pivot, state, &mut Vec::new())?;
    prover.conclude()
}

impl Prover<'_> {
    /// Follows all paths from the instruction `from` of `block` to the pivot or out of the loop.
    /// `None`: refused.
    fn follow(&mut self, block: u32, from: u32, mut state: State, passed: &mut Vec<Passed>) -> Option<()> {
        let Rounds { image, instructions, graph, region, pivot, .. } = self.rounds;
        let home = &graph.blocks[block as usize];
        if home.after_call || self.ends.len() >= PATHS_MAX || passed.len() >= BLOCKS_MAX {
            return None;
        }
        let mut decided = ConditionCode::None;
        for n in from..home.instructions.end {
            if n == pivot && (from != pivot || !passed.is_empty()) {
                self.ends.push(state);
                return Some(());
            }
            self.steps += 1;
            if self.steps > PATHS_MAX * STEPS_MAX {
                return None;
            }
            let Instruction { flow, .. } = instructions[n as usize];
            let instruction = decoded(image, &instructions[n as usize]);
            if flow == Flow::Next {
                self.followed.step(&instruction, &mut state)?;
            } else if matches!(flow, Flow::Branch(_)) {
                self.decide(n, &instruction, &home.edges, &state)?;
                decided = instruction.condition_code();
                state.jumps.insert(n);
            }
        }
        let only = state.flags.decide(decided);
        for (jumps, edge) in [false, true].into_iter().zip(home.edges) {
            let Edge::To(next) = edge else { continue };
            // Constants that the round itself has set may decide the jump, for example a flag
            // `found` that stays 0 unless the round calls.
            if only.is_some_and(|only| only != jumps) {
                continue;
            }
            if !region.contains(next) {
                continue;
            }
            // By 6.
            let (state, all) = match passed.iter().rev().find(|passed| passed.block == next) {
                None => (state.clone(), None),
                Some(_) if !self.nested => return None,
                Some(Passed { all: None, .. }) => (state.clone(), Some(state.clone())),
                Some(Passed { all: Some(all), .. }) => {
                    let joined = self.followed.join(all, &state);
                    if joined == *all {
                        continue;
                    }
                    (joined.clone(), Some(joined))
                }
            };
            passed.push(Passed { block: next, all });
            let first = graph.blocks[next as usize].instructions.start;
            self.follow(next, first, state, passed)?;
            passed.pop();
        }
        Some(())
    }

    /// A conditional jump.
    fn decide(
        &mut self,
        at: u32,
        instruction: &iced_x86::Instruction,
        edges: &[Edge; 2],
        state: &State,
    ) -> Option<()> {
        let condition = instruction.condition_code();
        if condition == ConditionCode::None {
            // JRCXZ, LOOP: they read a register, and the latter counts.
            return None;
        }
        may_read(instruction.rflags_read(), state.flags)?;
        let leaves = edges.map(|edge| !self.rounds.region.holds(edge));
        let exit = match leaves {
            [true, false] => Some((instruction.next_ip(), false)),
            [false, true] => Some((instruction.near_branch_target(), true)),
            _ => None,
        };
        let decision = Decision { at, flags: state.flags, condition, exit };
        if !self.decisions.contains(&decision) {
            self.decisions.push(decision);
        }
        Some(())
    }

    /// Puts together what all paths have shown.
    fn conclude(mut self) -> Option<Proof> {
        let Rounds { image, instructions, whole, .. } = self.rounds;
        if self.ends.is_empty() {
            return None;
        }
        let changed: BTreeSet<Location> = self
            .ends
            .iter()
            .flat_map(|end| {
                end.values.iter().filter(|(at, value)| **value != Value::Was(**at, 0, 64)).map(|(at, _)| *at)
            })
            .collect();
        // By 5.
        if !self.followed.stored.is_empty() && (!whole || frame::address_taken(image, instructions)) {
            return None;
        }
        // By 1: what lasts.
        let lasting: BTreeSet<Location> = changed.intersection(&self.followed.read).copied().collect();
        if lasting.is_empty() {
            return Some(Proof { counter: None });
        }
        // By 2: the same step on every path, and no other use.
        let steps_of = |location: Location, of: Location| {
            let mut steps = self.ends.iter().map(|end| match end.values.get(&location) {
                Some(&Value::Was(from, step, bits)) if from == of => Some((step, bits)),
                _ => None,
            });
            let first = steps.next()??;
            steps.all(|other| other == Some(first)).then_some(first)
        };
        let counts = |&counter: &Location| steps_of(counter, counter).is_some_and(|(step, _)| step != 0);
        let counter = lasting.iter().copied().find(counts)?;
        let (step, bits) = steps_of(counter, counter)?;
        // How far each copy is ahead of the counter, at the pivot.
        let mut ahead_of = BTreeMap::from([(counter, 0)]);
        for &copy in lasting.iter().filter(|&&location| location != counter) {
            let (of_last, copy_bits) = steps_of(copy, counter)?;
            if copy_bits != bits {
                return None;
            }
            ahead_of.insert(copy, of_last.wrapping_sub(step));
        }
        // A copy of a copy is one whole round behind it.
        let of_copy =
            |value: &Value| matches!(value, Value::Was(of, ..) if *of != counter && lasting.contains(of));
        if self.ends.iter().any(|end| end.values.values().any(of_copy)) {
            return None;
        }
        if lasting.intersection(&self.followed.used).next().is_some() {
            return None;
        }
        // By 3: one jump decides, and it leaves.
        let of_counter = |value: Value| matches!(value, Value::Was(of, ..) if lasting.contains(&of));
        let decisions = core::mem::take(&mut self.decisions);
        let mut deciding = decisions.iter().filter(|decision| decision.flags.values().any(of_counter));
        let decision = deciding.next()?;
        if deciding.next().is_some() {
            return None;
        }
        let (exit, leaves_if) = decision.exit?;
        let Flags::Of(operation, compared_bits) = decision.flags else { return None };
        let by_sign = matches!(decision.condition, ConditionCode::s | ConditionCode::ns);
        let (one, other) =
            operation.compared.filter(|_| !by_sign).unwrap_or((operation.result, Value::Constant(0)));
        let (value, bound, swapped) = if of_counter(one) { (one, other, false) } else { (other, one, true) };
        let Value::Was(of, add, seen_bits) = value else { return None };
        if of_counter(bound) || seen_bits != bits || bits != compared_bits {
            return None;
        }
        let ahead = ahead_of.get(&of)?.wrapping_add(add);
        let bound = match bound {
            Value::Constant(constant) => Bound::Constant(constant),
            Value::Was(location, add, width) if !changed.contains(&location) && width >= bits => {
                Bound::Place(place(location)?, add)
            }
            // The word is there if every round reads it.
            Value::Loaded(base, displacement, width)
                if width >= bits && self.ends.iter().all(|end| end.jumps.contains(&decision.at)) =>
            {
                match base {
                    None => Bound::Memory(None, displacement),
                    Some((base, add)) if !changed.contains(&Location::Register(base)) => {
                        let Place::Register(base) = place(Location::Register(base))? else { return None };
                        Bound::Memory(Some(base), displacement.wrapping_add(add as u64))
                    }
                    Some(_) => return None,
                }
            }
            _ => return None,
        };
        let sign_only = by_sign || operation.compared.is_none();
        let goes_on = Condition::of(decision.condition, leaves_if, sign_only)?;
        let goes_on = if swapped { goes_on.swapped() } else { goes_on };
        let (step, ahead) = (signed(step, bits), signed(ahead, bits));
        let counter = Counter { place: place(counter)?, bits, step, ahead, bound, goes_on, blocks: false };
        counter.is_bounded().then_some(Proof { counter: Some((counter, exit)) })
    }
}

/// A constant of `bits` bits with its sign.
fn signed(constant: i64, bits: u32) -> i64 {
    if bits == 32 { i64::from(constant as i32) } else { constant }
}

fn place(location: Location) -> Option<Place> {
    match location {
        Location::Register(number) => {
            let number = number.checked_sub(Register::RAX as u16).filter(|&number| number < 16)?;
            Some(Place::Register(number as u8))
        }
        Location::Slot(by_frame, displacement) => {
            let base = if by_frame { Register::RBP } else { Register::RSP };
            Some(Place::Stack((base as u16 - Register::RAX as u16) as u8, displacement))
        }
    }
}
