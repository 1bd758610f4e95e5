//! What the exits of a loop depend on: memory that another thread may write, or a counter.
//!
//! From each conditional jump out of the region the values it depends on are followed backwards,
//! within one round and around the loop: from the flags to the instructions that set them, from
//! these to the registers and local variables whose *values* they use, and so on. Addresses are not
//! followed: `while (slots[i].busy)` depends on memory, not on `i`. Where several definitions meet,
//! the jumps that choose between them are followed too, because unoptimised code turns `while (a &&
//! b)` into a variable that is 0 or 1.
//!
//! What is found, for [`crate::finder`] to decide by:
//!
//! - *counted*: a recurrence, a value computed by arithmetic from its own value of before the
//!   pivot, decides an exit. This holds whatever else the exit depends on, so `for (i = 0; i <
//!   shared->spins; i++)` counts. Linear counters, doubled delays, pointers that run to an end, and
//!   counters in variables are all recurrences. A counter that starts anew in every round is none:
//!   `do { for (i = 0; …; i++) check(i); pause } while (…)`.
//! - *timed*: the time decides an exit.
//! - *memory*: a conditional jump of the loop depends on memory. Not only those that leave count
//!   here: others choose whether a round gets to an exit or to the pivot.
//!
//! Memory is whatever a round reads and does not itself write. A local variable that the loop only
//! reads counts if the function takes an address of its frame: then another thread may hold it (a
//! queue lock's node on the waiter's stack). What the loop does write is a variable: its value is
//! followed to the writes. An atomic read-modify-write always counts as memory.

use crate::frame;
use crate::graph::Edge;
use crate::instruction::{Effect, Flow, Place, Registers};
use crate::machine::Machine;
use crate::rounds::Rounds;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::OnceCell;

/// What a value is kept in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    Register(Registers),
    Variable(Place),
}

/// What the exits of a region depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exits {
    /// There are some.
    pub(crate) any: bool,
    /// A recurrence decides one.
    pub(crate) counted: bool,
    /// The time decides one.
    pub(crate) timed: bool,
    /// A jump depends on memory.
    pub(crate) memory: bool,
    /// An exit depends on memory and not on a recurrence: the loop is more than a delay.
    pub(crate) waits: bool,
}

/// What the region's exits depend on. Every round passes the pivot.
pub(crate) fn analyse(machine: Machine, rounds: Rounds<'_>) -> Exits {
    let Rounds { instructions, graph, region, .. } = rounds;
    let flow = Flows::new(machine, rounds);
    let mut exits = Exits::default();
    for &block in &region.blocks {
        let edges = &graph.blocks[block as usize].edges;
        let last = graph.blocks[block as usize].instructions.end - 1;
        let leaves = edges.iter().any(|&edge| edge != Edge::None && !region.holds(edge));
        if !matches!(instructions[last as usize].flow, Flow::Branch(_)) {
            continue;
        }
        let slice = flow.slice(last);
        exits.memory |= slice.memory;
        if leaves {
            let counted = slice.recurs();
            exits.any = true;
            exits.timed |= slice.timed;
            exits.counted |= counted;
            exits.waits |= slice.memory && !counted;
        }
    }
    exits
}

/// Whether a recurrence decides the jumps at the ends of all these blocks of the region.
pub(crate) fn are_counted(machine: Machine, rounds: Rounds<'_>, blocks: &[u32]) -> bool {
    let flow = Flows::new(machine, rounds);
    blocks.iter().all(|&block| {
        let last = rounds.graph.blocks[block as usize].instructions.end - 1;
        let is_branch = matches!(rounds.instructions[last as usize].flow, Flow::Branch(_));
        is_branch && flow.slice(last).recurs()
    })
}

/// Whether an exit at one of these blocks of the region depends on what lasts from round to round:
/// a recurrence, or a value that some round has set and that is else of before. Two tries need no
/// counter: a register that is set behind the first one is enough.
pub(crate) fn depend_on_rounds(machine: Machine, rounds: Rounds<'_>, blocks: &[u32]) -> bool {
    let Rounds { instructions, graph, region, .. } = rounds;
    let flow = Flows::new(machine, rounds);
    blocks.iter().any(|&block| {
        let block = &graph.blocks[block as usize];
        let leaves = block.edges.iter().any(|&edge| edge != Edge::None && !region.holds(edge));
        let last = block.instructions.end - 1;
        leaves && matches!(instructions[last as usize].flow, Flow::Branch(_)) && {
            let slice = flow.slice(last);
            slice.recurs() || slice.lasts
        }
    })
}

/// Data flow in a region.
struct Flows<'a> {
    machine: Machine,
    rounds: Rounds<'a>,
    effects: BTreeMap<u32, Effect>,
    /// All registers that the region writes.
    writes: Registers,
    /// Local variables may be known to other threads: asked for when there is one that decides.
    shared_frame: OnceCell<bool>,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Definition {
    at: u32,
    /// It comes to its use past the pivot.
    past_pivot: bool,
}

/// Everything that a jump depends on.
#[derive(Default)]
struct Slice {
    /// The instructions, each with those that define what it uses.
    uses: BTreeMap<u32, Vec<Definition>>,
    /// Those of them that compute as counters do.
    arithmetic: Vec<u32>,
    timed: bool,
    memory: bool,
    /// A value in use may be of before, or of another round.
    lasts: bool,
}

impl Slice {
    /// Whether an instruction of the slice computes a value from that value's own past, of before
    /// the pivot.
    fn recurs(&self) -> bool {
        self.arithmetic.iter().any(|&start| {
            let mut seen = BTreeSet::new();
            let mut open = Vec::from([Definition { at: start, past_pivot: false }]);
            while let Some(Definition { at, past_pivot }) = open.pop() {
                for next in self.uses.get(&at).into_iter().flatten() {
                    let next = Definition { at: next.at, past_pivot: past_pivot || next.past_pivot };
                    if next == (Definition { at: start, past_pivot: true }) {
                        return true;
                    }
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
            false
        })
    }
}

impl<'a> Flows<'a> {
    fn new(machine: Machine, rounds: Rounds<'a>) -> Self {
        let Rounds { image, instructions, graph, region, .. } = rounds;
        let mut effects = BTreeMap::new();
        let mut writes = Registers::NONE;
        // Where the frame pointer is none, only the stack pointer names variables, and it is no
        // register of a place.
        let framed = machine == Machine::Aarch64 || frame::has_pointer(image, instructions);
        for n in region.blocks.iter().flat_map(|&block| graph.blocks[block as usize].instructions.clone()) {
            let instruction = &instructions[n as usize];
            let mut effect = machine.effect(instruction.bytes(image), instruction.address);
            for place in effect.loads.iter_mut().chain(&mut effect.stores) {
                place.local &= framed || place.registers == Registers::NONE;
            }
            writes |= effect.writes;
            effects.insert(n, effect);
        }
        let mut flows = Flows { machine, rounds, effects, writes, shared_frame: OnceCell::new() };
        flows.name_through_variables();
        flows
    }

    /// Unoptimised code loads a pointer from its variable for every access. Places that are reached
    /// through such a register get a name of their own: the same variable and displacement name the
    /// same memory.
    fn name_through_variables(&mut self) {
        let moves = |place: &Place| self.writes.intersects(place.registers);
        let moving = |effect: &Effect| effect.loads.iter().chain(&effect.stores).any(moves);
        let moving: Vec<u32> =
            self.effects.iter().filter(|(_, effect)| moving(effect)).map(|(&n, _)| n).collect();
        for n in moving {
            let Some(mut effect) = self.effects.get(&n).cloned() else { continue };
            for place in effect.loads.iter_mut().chain(&mut effect.stores) {
                if self.writes.intersects(place.registers)
                    && let Some(named) = self.through_variable(n, place)
                {
                    *place = named;
                }
            }
            self.effects.insert(n, effect);
        }
    }

    /// A name for `place`, which instruction `n` accesses, if its one register comes from a
    /// variable that the region does not write.
    fn through_variable(&self, n: u32, place: &Place) -> Option<Place> {
        if place.registers.each().count() != 1 {
            return None;
        }
        let (definitions, false) = self.definitions(n, Location::Register(place.registers)) else {
            return None;
        };
        let &[definition] = definitions.as_slice() else { return None };
        let load = self.effects.get(&definition.at)?;
        let &[variable] = load.loads.as_slice() else { return None };
        let plain =
            !load.arithmetic && load.reads == Registers::NONE && !self.writes.intersects(variable.registers);
        if !plain || self.stored(&variable) {
            return None;
        }
        // Any number that is the same for the same variable will do.
        let form =
            (variable.form ^ variable.displacement.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(Place { registers: variable.registers, form: form ^ place.form, local: false, ..*place })
    }

    /// Follows everything that the jump `n` depends on.
    fn slice(&self, n: u32) -> Slice {
        let mut slice = Slice::default();
        let mut open = Vec::from([n]);
        while let Some(user) = open.pop() {
            let Some(effect) = self.effects.get(&user) else { continue };
            if slice.uses.contains_key(&user) {
                continue;
            }
            slice.timed |= effect.clock;
            if effect.arithmetic {
                slice.arithmetic.push(user);
            }
            let mut uses = Vec::new();
            let mut use_of = |location| {
                let (definitions, from_outside) = self.definitions(user, location);
                if definitions.len() + usize::from(from_outside) > 1 {
                    slice.lasts |= definitions.iter().any(|definition| definition.past_pivot);
                    open.extend(self.choices(user, &definitions));
                }
                open.extend(definitions.iter().map(|definition| definition.at));
                uses.extend(definitions);
            };
            effect.reads.each().map(Location::Register).for_each(&mut use_of);
            for place in &effect.loads {
                let variable = !effect.atomic && self.stored(place);
                if variable {
                    use_of(Location::Variable(*place));
                }
                // Another thread may write to any variable but a function's own.
                slice.memory = slice.memory || !place.local || !variable && self.shares_frame();
            }
            slice.uses.insert(user, uses);
        }
        slice
    }

    /// Whether other threads may know local variables.
    fn shares_frame(&self) -> bool {
        *self.shared_frame.get_or_init(|| {
            let Rounds { image, instructions, .. } = self.rounds;
            self.machine == Machine::Aarch64 || frame::address_taken(image, instructions)
        })
    }

    /// Whether the region itself writes to `place`, as a variable.
    fn stored(&self, place: &Place) -> bool {
        let moves = self.writes.intersects(place.registers);
        !moves && self.effects.values().any(|effect| !effect.atomic && effect.stores.contains(place))
    }

    fn defines(&self, n: u32, location: Location) -> bool {
        self.effects.get(&n).is_some_and(|effect| match location {
            Location::Register(register) => effect.writes.intersects(register),
            Location::Variable(place) => !effect.atomic && effect.stores.contains(&place),
        })
    }

    /// The reaching definitions: the instructions whose value of `location` reaches `user`, and
    /// whether one from before the loop does.
    fn definitions(&self, user: u32, location: Location) -> (Vec<Definition>, bool) {
        let mut found = Vec::new();
        let mut from_outside = false;
        let Some(block) = self.rounds.graph.block_of(user as usize) else { return (found, false) };
        let mut seen = BTreeSet::new();
        // If the user is the pivot, its value has already passed the pivot.
        let before = self.rounds.graph.blocks[block as usize].instructions.start..user;
        let mut open = Vec::from([(block, before, user == self.rounds.pivot)]);
        while let Some((block, range, mut past_pivot)) = open.pop() {
            let definition = range.clone().rev().find(|&n| self.defines(n, location));
            past_pivot |=
                (definition.map_or(range.start, |at| at + 1)..range.end).contains(&self.rounds.pivot);
            if let Some(at) = definition {
                found.push(Definition { at, past_pivot });
                continue;
            }
            for &before in self.rounds.graph.predecessors(block) {
                if !self.rounds.region.contains(before) {
                    from_outside = true;
                } else if seen.insert((before, past_pivot)) {
                    open.push((
                        before,
                        self.rounds.graph.blocks[before as usize].instructions.clone(),
                        past_pivot,
                    ));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        (found, from_outside)
    }

    /// The jumps inside the region that choose which of `definitions` reaches `user`: one of them
    /// lies on one of the jump's paths and not on the other, as far as `user` or the jump itself.
    fn choices(&self, user: u32, definitions: &[Definition]) -> Vec<u32> {
        let Some(join) = self.rounds.graph.block_of(user as usize) else { return Vec::new() };
        let homes: Vec<u32> = definitions
            .iter()
            .filter_map(|&definition| self.rounds.graph.block_of(definition.at as usize))
            .collect();
        let forks = self.rounds.region.blocks.iter().filter(|&&block| {
            let block_edges = self.rounds.graph.blocks[block as usize].edges;
            let [Edge::To(one), Edge::To(other)] = block_edges else { return false };
            if one == other || !block_edges.iter().all(|&edge| self.rounds.region.holds(edge)) {
                return false;
            }
            let (one, other) = (self.before_join(one, block, join), self.before_join(other, block, join));
            homes.iter().any(|home| one.contains(home) != other.contains(home))
        });
        forks.map(|&block| self.rounds.graph.blocks[block as usize].instructions.end - 1).collect()
    }

    /// The blocks of the region that are reached from `start` before `join` or `fork` is.
    fn before_join(&self, start: u32, fork: u32, join: u32) -> BTreeSet<u32> {
        let mut seen = BTreeSet::new();
        let mut open = Vec::from([start]);
        while let Some(block) = open.pop() {
            if block != fork && block != join && self.rounds.region.contains(block) && seen.insert(block) {
                open.extend(self.rounds.graph.blocks[block as usize].successors());
            }
        }
        seen
    }
}
