//! The analysis of a module: decides for each seed whether it is a wait.
//!
//! Work is done only where a seed is. The unwind table is searched, and one part of a function is
//! decoded. Most seeds are inside another instruction and end here. For the others the function's
//! graph is built, and kept for the next seed. Jump sites are searched only on request.
//!
//! | what the exits depend on (`exits`) | what lasts (`proof`) | finding |
//! | --- | --- | --- |
//! | memory alone | not asked behind a PAUSE: any delay is allowed there | a wait without a bound |
//! | memory alone | nothing | a wait without a bound, whatever the seed |
//! | memory and a counter | the counter | a wait that is bounded by a counter |
//! | memory and the time | nothing but the clock | a wait that is bounded by a clock |
//!
//! Without a hint, a loop that a counter ends is taken only if it blocks next: then its counter is
//! moved on. If the loop only computes, it ends earlier, never later. If the loop does not block
//! next, its time would have to be kept, so a computation that reads the same word in each round
//! would sleep for that time.
//!
//! The entry of a function by which threads poll ([`is_polling`](crate::is_polling)) is a wait of
//! its callers (`poll`). A loop that calls functions which find nothing and change nothing is a
//! wait by polling as well (`calls`).
//!
//! A PAUSE in a loop that calls, or in a small function without a loop, is a *hint*: the wait
//! passes it in every round, and that is all that is known.

use crate::blocking::{self, Blocks};
use crate::counter::Counter;
use crate::dead::Dead;
use crate::dominators::Dominators;
use crate::function::Function;
use crate::graph::{Graph, index_of};
use crate::image::{Image, Text};
use crate::instruction::{Flow, Instruction};
use crate::jump_site::{self, JumpSite};
use crate::machine::Machine;
use crate::proof::{self, Proof};
use crate::rounds::{self, Region, Rounds};
use crate::route::{self, Route};
use crate::seeds::{NESTED_BYTES_MAX, SHORT_BYTES_MAX, Seed};
use crate::source::Source;
use crate::unwind::Unwind;
use crate::verdict::{Finding, Kind, Loop, Reason};
use crate::{calls, each_round, exits, poll, short};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

/// The largest function that holds a PAUSE without a loop and is a hint itself.
const HINT_BYTES_MAX: u64 = 512;

/// What is known of a module: its bytes, which of them are code, and its unwind table.
#[derive(Clone, Copy)]
pub struct Module<'a> {
    machine: Machine,
    image: &'a dyn Image,
    text: &'a [Range<u64>],
    unwind: Option<Unwind<'a>>,
}

impl<'a> Module<'a> {
    /// `text` are the executable ranges; `eh_frame_hdr` is the address of the segment
    /// `PT_GNU_EH_FRAME` (the section `.eh_frame_hdr`). Without it, or when it is not as the
    /// linkers write it, every finding is [`Reason::NoFunction`].
    ///
    /// The image should be what the program has in memory. In a file that is not relocated yet,
    /// tables of absolute addresses are empty, and [`Finder::route`] may then find more room than
    /// there is: good for a forecast, not for writing.
    pub fn new(
        machine: Machine,
        image: &'a dyn Image,
        text: &'a [Range<u64>],
        eh_frame_hdr: Option<u64>,
    ) -> Self {
        let unwind = eh_frame_hdr.and_then(|header| Unwind::new(image, header));
        Module { machine, image, text, unwind }
    }

    fn source(&self) -> Option<Source<'a>> {
        let (machine, image, text) = (self.machine, self.image, Text(self.text));
        Some(Source { machine, image, text, unwind: self.unwind? })
    }
}

/// Analyses the seeds of one module, and remembers which dead bytes are reserved.
///
/// The module's code must be as the compiler left it while it is analysed: ask for all findings and
/// jump sites before anything is written.
pub struct Finder<'a> {
    source: Option<Source<'a>>,
    /// The part of the function that was decoded last, and the function if its graph was built.
    part: Option<(Range<u64>, Option<Vec<Instruction>>)>,
    function: Option<Function>,
    /// A loop of one block that was found last, as a function of its own.
    small: Option<Function>,
    dead: Option<Dead<'a>>,
    taken: Vec<Range<u64>>,
    /// Where the loops lie that were found before.
    known: BTreeMap<u64, u64>,
    /// The words that lead to functions that block, in ascending order.
    blocking: Vec<(u64, Blocks)>,
    /// What is known of functions that loops call.
    called: calls::Functions,
}

impl<'a> Finder<'a> {
    /// A finder that has reserved nothing.
    pub fn new(module: Module<'a>) -> Self {
        Finder::with_imports(module, Vec::new())
    }

    /// The same, with the addresses of the words (slots of the module's table of imports) that lead
    /// to functions that block: see [`blocking`](crate::blocking()).
    pub fn with_imports(module: Module<'a>, mut blocking: Vec<(u64, Blocks)>) -> Self {
        let source = module.source();
        let dead = source.filter(|source| source.machine == Machine::X86_64).map(Dead::new);
        blocking.sort_unstable();
        Finder {
            source,
            part: None,
            function: None,
            small: None,
            dead,
            taken: Vec::new(),
            known: BTreeMap::new(),
            blocking,
            called: BTreeMap::new(),
        }
    }

    /// Analyses the seed at `address`.
    ///
    /// Pass the seeds ordered by kind and, within a kind, by address. The finder keeps the function
    /// that it decoded last, so ascending addresses cost least. The order of kinds makes sure that
    /// a loop with a PAUSE is found by its PAUSE.
    pub fn analyse(&mut self, address: u64, seed: Seed) -> Finding {
        if seed != Seed::Pause && self.is_known(address..address + 1) {
            return Finding::Nothing;
        }
        match self.wait_loop(address, seed) {
            Ok(Some(found)) => {
                if found.kind.is_loop() {
                    self.known.extend(found.parts.iter().map(|part| (part.start, part.end)));
                }
                Finding::Wait(found)
            }
            Ok(None) => Finding::Nothing,
            Err(reason) if matches!(seed, Seed::Pause | Seed::TimedPause | Seed::Poll) => {
                Finding::Leave(reason)
            }
            Err(_) => Finding::Nothing,
        }
    }

    /// Whether a part of `range` belongs to a loop that was found before.
    fn is_known(&self, range: Range<u64>) -> bool {
        self.known.range(..range.end).next_back().is_some_and(|(_, &end)| range.start < end)
    }

    /// The code that every round runs which passes the instruction at `address`, in ascending
    /// order; empty if there is no loop around it, or only a large one.
    ///
    /// If a thread waits at `address`, this code is a part of the wait, and so are its calls: a
    /// waiting loop may look for work in each round, and call the function with the PAUSE.
    /// `address` may lie inside the instruction.
    ///
    /// ```
    /// use spinloop::{Finder, Machine, Module, Segments};
    /// // There is no unwind information, so there is no function.
    /// let image = Segments(&[(0x1000, b"\xf3\x90\xeb\xfc")]);
    /// let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &[0x1000..0x1004], None));
    /// assert!(finder.each_round(0x1000).is_empty());
    /// ```
    pub fn each_round(&mut self, address: u64) -> Vec<Range<u64>> {
        self.small = None;
        self.round_of(address).unwrap_or_default()
    }

    fn round_of(&mut self, address: u64) -> Result<Vec<Range<u64>>, Reason> {
        let source = self.source.ok_or(Reason::NoFunction)?;
        self.decode(address)?;
        let function = self.function()?;
        let behind = function.instructions.partition_point(|instruction| instruction.address <= address);
        let own = behind.checked_sub(1).filter(|&own| address < function.instructions[own].end());
        let own = own.ok_or(Reason::Undecodable)?;
        let blocks = each_round::blocks(source.machine, source.image, function, own);
        Ok(merged(blocks.into_iter().map(|block| function.block_range(block))))
    }

    /// Decodes the part of a function that holds `address`, unless it was decoded last.
    fn decode(&mut self, address: u64) -> Result<(), Reason> {
        let source = self.source.ok_or(Reason::NoFunction)?;
        if !self.part.as_ref().is_some_and(|(part, _)| part.contains(&address)) {
            let part = source.part(address)?;
            let instructions = source.decode(&part);
            self.part = Some((part, instructions));
        }
        Ok(())
    }

    /// The function of the part that was decoded last.
    fn function(&mut self) -> Result<&Function, Reason> {
        let source = self.source.ok_or(Reason::NoFunction)?;
        let Some((part, Some(instructions))) = &self.part else { return Err(Reason::Undecodable) };
        if !self.function.as_ref().is_some_and(|function| function.parts.contains(part)) {
            self.function = source.function(part.clone(), instructions.clone());
        }
        self.function.as_ref().ok_or(Reason::Undecodable)
    }

    /// The loop at `address`; none if no instruction stands there.
    fn wait_loop(&mut self, address: u64, seed: Seed) -> Result<Option<Loop>, Reason> {
        self.small = None;
        if seed == Seed::Calls {
            return self.polling_loop(address);
        }
        let source = self.source.ok_or(Reason::NoFunction)?;
        let is_x86 = source.machine == Machine::X86_64;
        let candidate = match seed {
            Seed::Short => short::may_wait(source.image.at(address), address)
                .filter(|&end| short::may_be_proven(&source, address..end, address, false))
                .map(|_| address),
            Seed::Nested => short::nested(source.image.at(address), address)
                .filter(|&(pivot, end)| short::may_be_proven(&source, address..end, pivot, true))
                .map(|(pivot, _)| pivot),
            Seed::Clock | Seed::Nops if is_x86 => short::may_return(source.image, address).then_some(address),
            Seed::Poll => is_x86.then_some(address),
            _ => Some(address),
        };
        let Some(address) = candidate else { return Ok(None) };
        self.decode(address)?;
        let Some((part, Some(instructions))) = &self.part else { return Err(Reason::Undecodable) };
        let Some(at) = index_of(instructions, address) else { return Ok(None) };
        if seed == Seed::Pause && !instructions[at].spin {
            return Ok(None);
        }
        if seed == Seed::Nops {
            self.small = one_block(&source, part, instructions, at);
        }
        if self.small.is_none() {
            self.function()?;
        }
        let Some((part, _)) = &self.part else { return Err(Reason::Undecodable) };
        let function = self.small.as_ref().or(self.function.as_ref()).ok_or(Reason::Undecodable)?;
        let (instructions, graph) = (&function.instructions, &function.graph);
        let mut pivot = index_of(instructions, address).ok_or(Reason::Undecodable)?;
        if seed == Seed::Poll {
            let entry = poll::pivot(source.image, instructions, pivot);
            pivot = entry.filter(|_| address == part.start).ok_or(Reason::NoFunction)?;
        }
        let home = graph.block_of(pivot).ok_or(Reason::Undecodable)?;
        let block = |n: u32| &graph.blocks[n as usize];
        let instruction = |n: u32| &instructions[n as usize];
        let bytes_of = |region: &Region| region.blocks.iter().map(|&n| block(n).bytes).sum::<u32>();
        // The loop of a hint is the hint itself.
        let hint = |kind| {
            let own = instruction(pivot as u32);
            let bytes = own.address..own.end();
            Loop {
                head: own.address,
                latch: own.address,
                bytes: u32::from(own.length),
                parts: Vec::from([bytes]),
                function: part.clone(),
                kind,
                pivot: own.address,
                home: function.block_range(home),
                nests: false,
            }
        };
        let nests = |region: &Region| {
            let inside = |block: u32| block != home && region.contains(block);
            region.blocks.iter().any(|&block| inside(block) && rounds::leads(graph, block, block, inside))
        };
        let found = |region: &Region, kind| Loop {
            head: instruction(block(region.head).instructions.start).address,
            latch: instruction(block(region.latch).instructions.end - 1).address,
            bytes: bytes_of(region),
            parts: merged(region.blocks.iter().map(|&n| function.block_range(n))),
            nests: nests(region),
            ..hint(kind)
        };
        if seed == Seed::Poll {
            return Ok(Some(hint(Kind::Poll)));
        }
        let hinted = matches!(seed, Seed::Pause | Seed::TimedPause);
        let Some(region) = rounds::region(graph, &function.dominators, home) else {
            if !hinted {
                return Ok(None);
            }
            let reason = rounds::why_none(graph, home);
            let small = part.end - part.start <= HINT_BYTES_MAX;
            let is_hint = reason == Reason::Works || reason == Reason::NotInALoop && small;
            return if is_x86 && is_hint { Ok(Some(hint(Kind::Hint))) } else { Err(reason) };
        };
        // Without a hint, a loop has to be short, or it is not there to wait.
        let bytes_max = match seed {
            Seed::Short => SHORT_BYTES_MAX as u32,
            Seed::Nested => NESTED_BYTES_MAX as u32,
            _ => u32::MAX,
        };
        let kind = |region: &Region| {
            let (image, pivot, whole) = (source.image, pivot as u32, function.whole);
            let rounds = Rounds { image, instructions, graph, region, pivot, whole };
            let prove = || is_x86.then(|| proof::prove(rounds, seed == Seed::Nested)).flatten();
            // All depends on the proof where there is no hint, and most fail soon.
            let proven = if hinted { None } else { Some(prove().ok_or(Reason::Works)?) };
            let exits = exits::analyse(source.machine, rounds);
            match (exits.any, exits.counted, exits.timed, exits.memory) {
                (false, ..) => Err(Reason::NoExit),
                (true, true, _, false) => Err(Reason::Counted),
                (true, false, true, false) => Err(Reason::Timed),
                (true, false, false, false) => Err(Reason::NoLoad),
                (true, false, false, true) if hinted => Ok(Kind::Unbounded),
                (true, false, timed, true) => match proven.or_else(prove) {
                    Some(Proof { counter: None }) => Ok(if timed { Kind::Timed } else { Kind::Unbounded }),
                    _ => Err(if timed { Reason::Timed } else { Reason::Works }),
                },
                (true, true, timed, true) => {
                    if timed || !exits.waits {
                        return Err(Reason::Counted);
                    }
                    let (counter, exit) =
                        proven.or_else(prove).and_then(|proof| proof.counter).ok_or(Reason::Counted)?;
                    let blocks = blocking::blocks(&source, rounds, exit, &self.blocking);
                    // Without a hint: see the file's text.
                    if !blocks && matches!(seed, Seed::Short | Seed::Nested) {
                        return Err(Reason::Counted);
                    }
                    Ok(Kind::Counted(Counter { blocks, ..counter }))
                }
            }
        };
        if seed == Seed::Nested && bytes_of(&region) > bytes_max {
            return Ok(None);
        }
        let (region, kind) = match kind(&region) {
            Ok(kind) => (region, kind),
            // Behind a PAUSE, a part of the loop says nothing of the whole.
            Err(reason) if hinted || seed == Seed::Nested => return Err(reason),
            Err(reason) => {
                let tighter = rounds::shortest(graph, home)
                    .filter(|tighter| tighter.blocks.len() < region.blocks.len());
                let tighter = tighter.ok_or(reason)?;
                let kind = kind(&tighter).map_err(|_| reason)?;
                (tighter, kind)
            }
        };
        // A wait inside would go unseen in the copy.
        if seed == Seed::Nested && region.blocks.iter().any(|&n| self.is_known(function.block_range(n))) {
            return Ok(None);
        }
        if bytes_of(&region) <= bytes_max { Ok(Some(found(&region, kind))) } else { Err(Reason::TooLong) }
    }

    /// The loop that the jump at `latch` closes, if it polls by calls.
    fn polling_loop(&mut self, latch: u64) -> Result<Option<Loop>, Reason> {
        let source = self.source.ok_or(Reason::NoFunction)?;
        let Some((all, call)) = calls::polling(&source, &self.blocking, &mut self.called, latch) else {
            return Ok(None);
        };
        self.decode(latch)?;
        let Some((part, Some(instructions))) = &self.part else { return Err(Reason::Undecodable) };
        let begins = [all.start, call.start, latch].iter().all(|&at| index_of(instructions, at).is_some());
        let inside = part.start <= all.start && all.end <= part.end;
        if !begins || !inside || self.is_known(all.clone()) {
            return Ok(None);
        }
        Ok(Some(Loop {
            head: all.start,
            latch,
            bytes: (all.end - all.start) as u32,
            parts: Vec::from([all.clone()]),
            function: part.clone(),
            kind: Kind::Poll,
            pivot: call.start,
            home: all,
            nests: false,
        }))
    }

    /// Where a jump into the copy of `found` can stand. With `alone`, no other thread can be in its
    /// function. What is returned is reserved and never returned again.
    ///
    /// None on aarch64, where every instruction has room for a branch.
    pub fn jump_site(&mut self, found: &Loop, alone: bool) -> Option<JumpSite> {
        if found.kind == Kind::Poll
            && let Some(call) =
                self.source.and_then(|source| jump_site::call(source.image, found.pivot, alone))
        {
            return Some(call);
        }
        let function = self.small.as_ref().or(self.function.as_ref())?;
        let (source, dead) = (self.source?, self.dead.as_mut()?);
        let same = function.parts.contains(&found.function);
        let own_part = match &self.part {
            Some((part, Some(instructions))) if *part == found.function => instructions.as_slice(),
            _ => &[],
        };
        same.then(|| jump_site::best(&source, function, found, dead, &mut self.taken, own_part, alone))
            .flatten()
    }

    /// Room for a jump in the place of the instruction at `at`, which has two bytes at least: short
    /// jumps through dead bytes that end in five dead bytes. What is returned is reserved and never
    /// returned again.
    ///
    /// None on aarch64, where every instruction has room for a branch.
    pub fn route(&mut self, at: u64) -> Option<Route> {
        route::through(self.dead.as_mut()?, at, &mut self.taken)
    }
}

/// The loop around the instruction `at` as a function of its own, if it is one block that jumps
/// back to its start and writes no memory: then nothing else of its function matters, and nearly
/// all loops around a row of NOPs are like that.
fn one_block(source: &Source<'_>, part: &Range<u64>, all: &[Instruction], at: usize) -> Option<Function> {
    let latch = at + all[at..].iter().take(SHORT_BYTES_MAX).position(|one| one.flow != Flow::Next)?;
    let target = all[latch].target()?;
    let head = index_of(all, target).filter(|&head| head <= at)?;
    let own = all[head].address..all[latch].end();
    let straight = all[head..latch].iter().all(|one| one.flow == Flow::Next);
    if !straight || short::may_wait(source.image.at(own.start), own.start).is_none() {
        return None;
    }
    let instructions = all[head..=latch].to_vec();
    let graph = Graph::new(&instructions, core::slice::from_ref(&own), source.image)?;
    let dominators = Dominators::new(&graph);
    Some(Function { parts: Vec::from([part.clone()]), instructions, graph, dominators, whole: false })
}

/// Ascending ranges, where ranges that touch become one.
fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}
